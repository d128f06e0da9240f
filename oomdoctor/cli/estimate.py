"""`oomdoctor estimate`: what a model needs before it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..language import _
from .command import SpokenCommand
from .options import ENGINES, NamedPath, language_option, share, shares, size_option
from .output import FORMATS, FormName, default_format, deliver, spare_inputs, text_width

if TYPE_CHECKING:
    from ..estimate.adapters import Lora
    from ..estimate.engines import Engine
    from ..estimate.model_input import Model
    from ..preflight.measured import Measured

_PRECISIONS = ("bf16-mixed", "fp32", "bf16-pure")
_OPTIMIZERS = ("adamw", "adamw8bit", "sgd", "sgd-momentum", "adafactor", "lion", "lion8bit", "rmsprop", "adagrad")
_COUNT = click.IntRange(min=1, max=1 << 30)


@click.command(cls=SpokenCommand)
@click.argument("model", type=NamedPath(path_type=Path))
@click.option("--gpu", callback=size_option, metavar="SIZE", required=True, help="Memory of one card: 80GiB.")
@click.option("--card", help="Name of the card, where an engine goes by it: on an A100 vLLM takes smaller steps.")
@click.option("--context", type=_COUNT, help="Tokens of a request, prompt and answer. Default: the model's longest.")
@click.option("--concurrency", type=_COUNT, default=1, show_default=True, help="Requests at once.")
@click.option("--lengths", type=NamedPath(path_type=Path), help="Lengths of requests: one a line, or length and count.")
@click.option("--engine", type=click.Choice(ENGINES), help="Default: llama.cpp for a GGUF file, else transformers.")
@click.option("--engine-version", metavar="VERSION", help="Of vLLM, where an older one is meant: 0.25.1.")
@click.option("--dtype", help="What weights are loaded in, where not as stored: bf16, fp16, fp32.")
@click.option("--kv-dtype", help="Of keys and values: fp8, q8_0, q4_0 …; K,V for two; fp8_ds_mla for vLLM.")
@click.option(
    "--state-dtype",
    help="Of recurrent states. Default: what the configuration says, else float32 (vLLM: the model's).",
)
@click.option(
    "--tp",
    type=click.IntRange(1, 1024),
    default=1,
    show_default=True,
    help="Cards, as tensor-parallel ranks; llama.cpp divides the layers.",
)
@click.option("--gpu-layers", type=click.IntRange(0, 1 << 16), help="Layers on the card (llama.cpp's -ngl).")
@click.option("--mla", type=click.Choice(["latent", "expanded"]), help="How latent attention is kept.")
@click.option("--no-hybrid", is_flag=True, help="Windowed layers keep every token.")
@click.option("--no-prefix-cache", is_flag=True, help="vLLM keeps one state of a hybrid a request, not two.")
@click.option("--step-tokens", type=_COUNT, help="Most tokens of one step (--max-num-batched-tokens, -ub).")
@click.option(
    "--fraction",
    callback=share,
    metavar="SHARE",
    help="Of the card that the engine takes. Default: the engine's own.",
)
@click.option(
    "--headroom",
    callback=shares,
    metavar="SHARE[-SHARE]",
    default="10-20%",
    show_default=True,
    help="What is to be left of the card: at least the first; what also leaves the second is told apart.",
)
@click.option(
    "--weights", callback=size_option, metavar="SIZE", help="Bytes of the weights, instead of what the files say."
)
@click.option(
    "--overhead",
    callback=size_option,
    metavar="SIZE",
    help="Measured context and libraries of a process. Default: as `check --overhead` measured it, else assumed.",
)
@click.option(
    "--graphs",
    callback=size_option,
    metavar="SIZE",
    help="Measured memory of captured graphs, instead of an assumption.",
)
@click.option("--train", is_flag=True, help="Training instead of inference.")
@click.option("--optimizer", type=click.Choice(_OPTIMIZERS), default="adamw", show_default=True)
@click.option("--precision", type=click.Choice(_PRECISIONS), default="bf16-mixed", show_default=True)
@click.option("--zero", type=click.IntRange(0, 3), default=0, show_default=True, help="Stage of ZeRO.")
@click.option("--fsdp", is_flag=True, help="Fully sharded, as ZeRO 3.")
@click.option(
    "--ranks", type=click.IntRange(1, 1 << 16), default=1, show_default=True, help="Cards: sharded over, else DDP's."
)
@click.option("--batch", type=_COUNT, default=1, show_default=True, help="Sequences of a step on one card.")
@click.option("--seq", type=_COUNT, default=2048, show_default=True, help="Tokens of a sequence in training.")
@click.option("--checkpointing", is_flag=True, help="Activations are computed again.")
@click.option(
    "--bucket-view", is_flag=True, help="Gradients are views of DDP's buckets (gradient_as_bucket_view), not copies."
)
@click.option("--lora", metavar="RANK|PATH", help="Adapters of that rank, or as an adapter_config.json says.")
@click.option("--lora-targets", metavar="NAMES", help="Matrices with adapters: q_proj,v_proj (default), or all-linear.")
@click.option("--dora", is_flag=True, help="The adapters are DoRA's: with a magnitude for each output.")
@click.option(
    "--base",
    type=click.Choice(["nf4", "nf4-double"]),
    help="What the frozen matrices are quantised in (QLoRA): four bits, or with their scales quantised too.",
)
@click.option(
    "--launch-config",
    type=NamedPath(path_type=Path),
    help="DeepSpeed's JSON or accelerate's YAML: sharding, ranks, precision, batch, what is offloaded.",
)
@click.option(
    "--format",
    "output_format",
    type=FormName(FORMATS),
    help="Default: by the suffix of --output, else terminal.",
)
@click.option("--output", type=NamedPath(path_type=Path), help="Write to this file instead of standard output.")
@language_option
def estimate(model: Path, output_format: str | None, output: Path | None, **asked: Any) -> None:
    """Say what MODEL needs on a card, what fits, and which limit comes first.

    MODEL is a Hugging Face directory, a config.json, a safetensors file or index, or a GGUF file. Only headers are
    read; nothing is loaded, and there is no network.

    Exit status: 0 estimated (whether it fits or not); 2 wrong usage; 3 MODEL is not understood: the missing field is
    named.
    """
    from ..estimate.model_input import model_files, read_model

    _all_count(asked)
    found = read_model(model, asked["dtype"], asked["weights"])
    chosen = output_format or default_format(output)
    text = _training(found, asked, chosen, output) if asked["train"] else _inference(found, asked, chosen, output)
    spare_inputs(output, [*model_files(model), asked["lengths"], asked["launch_config"]], _("is the model or was read"))
    deliver(text, output)


_ONLY_INFERENCE = (
    "card", "context", "concurrency", "lengths", "engine", "engine_version", "kv_dtype", "state_dtype", "tp",
    "gpu_layers", "mla", "no_hybrid", "no_prefix_cache", "step_tokens", "fraction", "graphs",
)  # fmt: skip
_ONLY_TRAINING = (
    "optimizer", "precision", "zero", "fsdp", "ranks", "batch", "seq", "checkpointing", "bucket_view", "lora",
    "lora_targets", "dora", "base", "launch_config",
)  # fmt: skip


def _all_count(asked: dict[str, Any]) -> None:
    """Raises UsageError for an option that was given and would change nothing."""
    context = click.get_current_context()
    for name in _ONLY_INFERENCE if asked["train"] else _ONLY_TRAINING:
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            option = f"--{name.replace('_', '-')}"
            said = (
                _("{option} counts only without --train") if asked["train"] else _("{option} counts only with --train")
            )
            raise UsageError(said.format(option=option))


def _refuse_what_the_model_lacks(model: Model, engine: Engine, asked: dict[str, Any]) -> None:
    """Raises UsageError for an option that would change nothing with this model, engine and card."""
    from ..estimate.engines import VLLM, goes_by_name
    from ..estimate.kv_cache import has_raised_pages
    from ..knobs.versions import version_key

    has = model.architecture
    if asked["mla"] is not None and not has.latent:
        raise UsageError(
            _("--mla {mla}: this model keeps no latent vectors, so it would change nothing").format(mla=asked["mla"])
        )
    if asked["no_hybrid"] and not has.windowed:
        raise UsageError(_("--no-hybrid: no layer of this model has a window, so it would change nothing"))
    if asked["no_prefix_cache"] and not has_raised_pages(has, engine):
        raise UsageError(
            _("--no-prefix-cache: that is about states beside attention in vLLM, so it would change nothing")
        )
    by_name = engine is VLLM and goes_by_name(_capacity(asked)) and asked["step_tokens"] is None
    if asked["card"] is not None and not (by_name and asked["card"].strip()):
        raise UsageError(
            _(
                "--card {card}: only vLLM goes by a card's name, from 70 to 160 GiB and without --step-tokens, so it"
                " would change nothing"
            ).format(card=repr(asked["card"]))
        )
    version = asked["engine_version"]
    if version is not None and (engine is not VLLM or version_key(version) is None):
        raise UsageError(
            _("--engine-version {version}: a version of vLLM, as 0.25.1, of which alone older ones are known").format(
                version=repr(version)
            )
        )
    if asked["state_dtype"] is not None and not has.stateful:
        raise UsageError(_("--state-dtype: no layer of this model keeps a state, so it would change nothing"))


def _inference(model: Model, asked: dict[str, Any], chosen: str, output: Path | None) -> str:
    from ..estimate.answer import answer_of, default_context
    from ..estimate.dtypes import element_type
    from ..estimate.engine_versions import of_version
    from ..estimate.engines import LLAMA_CPP, cache_type_refused, engine_of, ranks_refused
    from ..estimate.lengths import read_lengths
    from ..estimate.loading import as_engine_loads
    from ..estimate.settings import Settings

    lengths = read_lengths(asked["lengths"]) if asked["lengths"] is not None else None
    if lengths is not None and asked["context"] is not None:
        raise UsageError(_("--lengths tells the context; leave --context out"))
    named = asked["kv_dtype"]
    packed = named == "fp8_ds_mla"
    kinds = [element_type(each.strip()) for each in named.split(",")] if named is not None and not packed else []
    if len(kinds) > 2:
        raise UsageError(_("--kv-dtype names more than keys and values: {kinds}").format(kinds=repr(named)))
    engine = engine_of(asked["engine"] or ("llama.cpp" if model.gguf else "transformers"))
    if asked["dtype"] is None:
        model = as_engine_loads(model, engine)
    if asked["gpu_layers"] is not None and (engine is not LLAMA_CPP or asked["tp"] > 1):
        raise UsageError(_("--gpu-layers is how llama.cpp puts some of the layers on one card"))
    refused = ranks_refused(engine, model.architecture, asked["tp"])
    if refused is not None:
        raise UsageError(
            _("{engine} does not run with --tp {tp}: {why}").format(engine=engine.name, tp=asked["tp"], why=refused)
        )
    refused = cache_type_refused(engine, model.architecture, kinds, packed)
    if refused is not None:
        raise UsageError(
            _("--kv-dtype {kinds} does not go with {engine} and this model: {why}").format(
                kinds=named, engine=engine.name, why=refused
            )
        )
    _refuse_what_the_model_lacks(model, engine, asked)
    measured = _measured(asked, engine)
    settings = Settings(
        engine=engine,
        capacity_bytes=_capacity(asked),
        context=asked["context"] or default_context(model),
        concurrency=asked["concurrency"],
        headroom=asked["headroom"][0],
        comfort=asked["headroom"][1],
        tensor_parallel=asked["tp"],
        fraction=asked["fraction"],
        keys=kinds[0] if kinds else None,
        values=kinds[-1] if kinds else None,
        states=element_type(asked["state_dtype"]) if asked["state_dtype"] else None,
        step_tokens=asked["step_tokens"],
        overhead_bytes=asked["overhead"] if measured is None else measured.bytes,
        overhead_source="--overhead" if measured is None else measured.words,
        graph_bytes=asked["graphs"],
        expanded=asked["mla"] == "expanded",
        hybrid=not asked["no_hybrid"],
        packed_latent=packed,
        prefix_states=False if asked["no_prefix_cache"] else None,
        gpu_layers=asked["gpu_layers"],
        card=asked["card"],
    )
    settings = of_version(settings, asked["engine_version"])
    answer = answer_of(model, settings, lengths)
    if chosen == "json":
        from ..forecast.as_json import answer_as_json

        return answer_as_json(answer)
    if chosen == "html":
        from ..forecast.html import answer_as_html

        return answer_as_html(answer)
    from ..compare.render import as_markdown, as_terminal
    from ..forecast.outline import outline

    told = outline(answer)
    return as_terminal(told, text_width(output)) if chosen == "terminal" else as_markdown(told)


def _training(model: Model, asked: dict[str, Any], chosen: str, output: Path | None) -> str:
    from ..estimate.training import Training, training_budget

    if asked["fsdp"] and asked["zero"] not in (0, 3):
        raise UsageError(_("--fsdp is ZeRO 3; leave --zero out"))
    by_file = _told_by_file(asked)
    zero = 3 if asked["fsdp"] else asked["zero"]
    measured = _measured(asked, None)
    settings = replace(
        Training(
            capacity_bytes=_capacity(asked),
            optimizer=asked["optimizer"],
            precision=asked["precision"],
            batch=asked["batch"],
            sequence=asked["seq"],
            checkpointing=asked["checkpointing"],
            zero=zero,
            ranks=asked["ranks"],
            headroom=asked["headroom"][0],
            comfort=asked["headroom"][1],
            overhead_bytes=asked["overhead"] if measured is None else measured.bytes,
            overhead_source="--overhead" if measured is None else measured.words,
            bucket_view=asked["bucket_view"],
            lora=_lora(asked),
        ),
        **by_file,
    )
    if settings.zero and settings.ranks == 1 and "ranks" not in by_file and not _is_given("ranks"):
        raise UsageError(
            _("--zero {stage} divides by the number of cards, which nothing tells: --ranks (1 divides nothing)").format(
                stage=settings.zero
            )
        )
    if settings.bucket_view and (settings.zero or settings.ranks == 1 or not settings.replicates):
        raise UsageError(_("--bucket-view is about ranks that shard nothing: --ranks without --zero and --fsdp"))
    budget = training_budget(model, settings)
    if chosen == "json":
        from ..forecast.as_json import training_as_json

        return training_as_json(model, settings, budget)
    if chosen == "html":
        from ..forecast.html import training_as_html

        return training_as_html(model, settings, budget)
    from ..compare.render import as_markdown, as_terminal
    from ..forecast.training_outline import training_outline

    told = training_outline(model, settings, budget)
    return as_terminal(told, text_width(output)) if chosen == "terminal" else as_markdown(told)


def _is_given(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _told_by_file(asked: dict[str, Any]) -> dict[str, Any]:
    """What the launcher's file says of the settings. Raises UsageError where an option says it too."""
    from ..estimate.launch_config import read_launch_config

    path = asked["launch_config"]
    if path is None:
        return {}
    found = read_launch_config(path)
    told = {name: value for name in _FILE_AND_OPTION if (value := getattr(found, name)) is not None}
    context = click.get_current_context()
    for name in (*told, *(("fsdp",) if "zero" in told else ())):
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise UsageError(_("{path} tells --{name}; leave it out").format(path=path, name=name))
    only = ("offload_states", "offload_parameters", "buffer_bytes", "live_parameters", "replicates")
    return {**told, **{name: getattr(found, name) for name in only}}


_FILE_AND_OPTION = ("zero", "ranks", "precision", "optimizer", "batch", "checkpointing")


def _lora(asked: dict[str, Any]) -> Lora | None:
    from ..estimate.adapters import USUAL_TARGETS, Lora, read_lora

    named, targets = asked["lora"], asked["lora_targets"]
    base = asked["base"] or ""
    if named is None:
        for name in ("lora_targets", "dora", "base"):
            if asked[name]:
                raise UsageError(_("--{name} counts only with --lora").format(name=name.replace("_", "-")))
        return None
    if named.isdecimal() and 0 < int(named) < 1 << 16:
        words = tuple(each.strip() for each in targets.split(",")) if targets is not None else USUAL_TARGETS
        return Lora(int(named), words, dora=asked["dora"], base=base)
    if not Path(named).exists():
        raise UsageError(_("--lora {named}: neither a rank nor an adapter_config.json").format(named=repr(named)))
    if targets is not None:
        raise UsageError(_("{named} tells --lora-targets; leave it out").format(named=named))
    found = read_lora(Path(named))
    return replace(found, dora=found.dora or asked["dora"], base=base)


def _measured(asked: dict[str, Any], engine: Engine | None) -> Measured | None:
    """What `oomdoctor check --overhead` measured on such a card; None where --overhead is given, or nothing was."""
    from ..preflight.measured import measured_overhead

    return measured_overhead(_capacity(asked), engine) if asked["overhead"] is None else None


def _capacity(asked: dict[str, Any]) -> int:
    if asked["gpu"] <= 0:
        raise UsageError(_("--gpu is the memory of a card, such as 80GiB"))
    return int(asked["gpu"])
