"""The settings that an incident ran with, as an estimate takes them: from the launch line and from what was printed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from ..errors import InputRefused, UsageError
from ..estimate.answer import default_context
from ..estimate.budget import cache_settings
from ..estimate.dtypes import ElementType, element_type
from ..estimate.engine_versions import of_version
from ..estimate.engines import LLAMA_CPP, SGLANG, TRANSFORMERS, VLLM, Engine, ranks_refused
from ..estimate.fields import type_of_field
from ..estimate.kv_cache import bytes_per_token
from ..estimate.loading import as_engine_loads, quantised_at_load
from ..estimate.model_input import Model, loaded_as
from ..estimate.settings import Settings
from ..estimate.tensors import tokens_within
from ..language import N_, _
from ..model.events import EventKind
from ..model.facts import FactSet, Scope
from ..readers.log.launch import launch_options, launch_program
from .deriver import failed_devices

if TYPE_CHECKING:
    from ..model.evidence import Evidence

_ENGINES = {"vllm": VLLM, "sglang": SGLANG, "llama.cpp": LLAMA_CPP, "ollama": LLAMA_CPP, "transformers": TRANSFORMERS}
_CONTEXT = ("max-model-len", "max-seq-len", "context-length", "ctx-size", "n-ctx")
_CONCURRENCY = ("max-num-seqs", "max-running-requests", "parallel", "n-seq-max")
_RANKS = ("tensor-parallel-size", "tp", "tp-size")
_STEP = ("max-num-batched-tokens", "chunked-prefill-size", "ubatch-size", "n-ubatch")
_FRACTION = ("gpu-memory-utilization", "mem-fraction-static")
_ELSEWHERE = (
    "cpu-offload-gb", "n-cpu-moe", "cpu-moe", "override-tensor", "no-kv-offload", "load-format",
)  # fmt: skip
"""Options after which the files no longer tell what lies on the card."""
_NO_GRAPHS = ("enforce-eager", "disable-cuda-graph")
_NO_HYBRID = {
    VLLM: "disable-hybrid-kv-cache-manager", SGLANG: "disable-hybrid-swa-memory", LLAMA_CPP: "swa-full",
}  # fmt: skip
"""Options after which windowed layers keep every token."""
_STATE_TYPE = ("mamba-ssm-cache-dtype", "mamba-cache-dtype", "mamba-ssm-dtype")
_OWN_CHOICE = ("auto", "all", "-1", "None", "none", "")
"""Words and numbers by which a program takes its own default, or what fits."""
_TAKES_MULTIPLES = ("max-model-len", "max-num-batched-tokens")
_MULTIPLES = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
"""vLLM's `human_readable_int` (engine/arg_utils.py): a small letter is decimal, a capital one binary."""
_NUMBER = re.compile(r"([0-9]{1,12})(\.[0-9]{1,6})?([a-zA-Z]?)")
_LAYERS_ARE_DIVIDED = N_("the layers are divided between places, and which lie on this card is not known")
_PLAIN = (None, "auto", "none", "None", "False", "safetensors")


@dataclass(frozen=True)
class Asked:
    """The model as it was loaded, and the settings that it ran with."""

    model: Model
    settings: Settings
    seen_tokens: int | None = None
    """Of the keys and values that were there, where these alone tell a length."""


def asked_of(evidence: Evidence, facts: FactSet, model: Model) -> Asked | None:
    """None where the engine or the card is not known.

    Raises InputRefused where something is set whose effect is not known here.
    """
    options = options_of(evidence)
    engine, capacity = _engine(evidence, facts), capacity_of(facts) or evidence.card_bytes
    if engine is None or capacity is None:
        return None
    refuse_elsewhere(options)
    on_card = _layers_on_card(evidence)
    ranks = number(options, *_RANKS) or 1
    refused = ranks_refused(engine, model.architecture, ranks)
    if refused is not None:
        raise InputRefused(
            _("{engine} does not run with {ranks} ranks: {why}").format(engine=engine.name, ranks=ranks, why=refused)
        )
    concurrency = concurrency_of(options)
    context = length_of(context_of(options, facts), engine, concurrency)
    if context is None and engine is TRANSFORMERS:
        context = facts.size("activity.input_tokens")
        if context is None:
            return None
    settings = Settings(
        engine=engine,
        capacity_bytes=capacity,
        context=context or default_context(model),
        concurrency=concurrency,
        tensor_parallel=ranks,
        fraction=_fraction(options, facts),
        graph_bytes=0 if engine.graph_bytes and facts.value("engine.graphs_in_budget") is False else None,
        card=_card_of(evidence),
    )
    version = facts.value("engine.version")
    settings = with_options(of_version(settings, None if version is None else str(version)), options)
    if on_card is not None:
        settings = replace(settings, gpu_layers=on_card)
    return Asked(as_loaded(model, options, engine), settings)


def refuse_elsewhere(options: Mapping[str, str | None]) -> None:
    """Raises InputRefused for an option after which the files no longer tell what lies on the card."""
    for name in _ELSEWHERE:
        if options.get(name) not in _PLAIN:
            raise InputRefused(_("with --{name} its files no longer tell what lies on the card").format(name=name))
    if (number(options, "pipeline-parallel-size") or 1) > 1:
        raise InputRefused(_(_LAYERS_ARE_DIVIDED))


def length_of(context: int | None, engine: Engine, concurrency: int) -> int | None:
    """Of one request: llama.cpp's context is that of all sequences together."""
    return max(1, context // concurrency) if engine is LLAMA_CPP and context is not None else context


def with_options(settings: Settings, options: Mapping[str, str | None]) -> Settings:
    """The settings with what an engine's options say of its cache, its layers, its steps and its graphs.

    Raises InputRefused for a type of a cache whose bytes are not known here.
    """
    packed = options.get("kv-cache-dtype") == "fp8_ds_mla"
    keys, values = (None, None) if packed else _elements(options, settings.engine)
    no_graphs = settings.engine.graph_bytes and any(is_on(options, name) for name in _NO_GRAPHS)
    return replace(
        settings,
        keys=keys,
        values=values,
        step_tokens=settings.context if options.get("chunked-prefill-size") == "-1" else number(options, *_STEP),
        gpu_layers=number(options, "n-gpu-layers", least=0) if settings.engine is LLAMA_CPP else None,
        graph_bytes=0 if no_graphs else settings.graph_bytes,
        packed_latent=packed,
        prefix_states=_prefix_states(options, settings.prefix_states),
        hybrid=settings.hybrid and not _is_chosen(options, _NO_HYBRID.get(settings.engine, "")),
        window_share=_window_share(options, settings.window_share),
        states=_state_type(options) or settings.states,
        steps_at_once=1 if "no-async-scheduling" in options else settings.steps_at_once,
    )


def _is_chosen(options: Mapping[str, str | None], name: str) -> bool:
    """Whether a switch is set whose value may also be None, as an engine prints what it leaves open."""
    return is_on(options, name) and options[name] != "None"


def _window_share(options: Mapping[str, str | None], usual: Fraction) -> Fraction:
    """Raises InputRefused for what is no share."""
    value = options.get("swa-full-tokens-ratio")
    if value is None or value in _PLAIN:
        return usual
    try:
        share = Fraction(value)
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share <= 1:
        raise InputRefused(
            _("--{name} {value} is no number that is understood here").format(name="swa-full-tokens-ratio", value=value)
        )
    return share


def _state_type(options: Mapping[str, str | None]) -> ElementType | None:
    """Of recurrent states. Raises InputRefused for one that is not known here."""
    return next((_element(name, str(options[name])) for name in _STATE_TYPE if options.get(name) not in _PLAIN), None)


def _prefix_states(options: Mapping[str, str | None], usual: bool | None) -> bool | None:
    """Whether vLLM's prefix cache holds states of hybrids, by its options; else as its version has it."""
    if "no-enable-prefix-caching" in options or options.get("mamba-cache-mode") == "none":
        return False
    return is_on(options, "enable-prefix-caching") if "enable-prefix-caching" in options else usual


def asked_of_loop(evidence: Evidence, facts: FactSet, model: Model) -> Asked | None:
    """The same of a program's own loop: where no engine is named, and the census saw weights.

    Where nothing tells a length, it is that of the keys and values that were there.
    """
    capacity, options = capacity_of(facts), options_of(evidence)
    member = next(iter(failed_devices(facts)), None)
    if capacity is None or member is None or not facts.size("owner.weights_bytes", member):
        return None
    loaded = as_loaded(model, options, TRANSFORMERS)
    told = context_of(options, facts) or facts.size("activity.input_tokens")
    settings = Settings(TRANSFORMERS, capacity, told or 1, concurrency_of(options))
    per_token = bytes_per_token(loaded.architecture, cache_settings(loaded, settings))
    kept = facts.size("owner.kv_bytes", member)
    if told is not None or not kept or not per_token or loaded.architecture.windowed:
        return Asked(loaded, settings)
    seen = max(1, tokens_within(kept, 1, per_token))
    return Asked(loaded, replace(settings, context=seen, concurrency=1), seen)


def as_loaded(model: Model, options: Mapping[str, str | None], engine: Engine) -> Model:
    """In the type and with the quantisation that the launch line names."""
    named, method = options.get("dtype"), options.get("quantization")
    loaded = as_engine_loads(model, engine) if named in _PLAIN else loaded_as(model, _element("dtype", str(named)))
    return loaded if method in _PLAIN else quantised_at_load(loaded, str(method))


def is_on(options: Mapping[str, str | None], name: str) -> bool:
    """Whether a switch is set, which may have a truth value."""
    return name in options and str(options[name]).lower() not in ("false", "0", "no")


def _element(name: str, value: str) -> ElementType:
    return type_of_field(f"--{name}", value, _("the launch line"))


def options_of(evidence: Evidence) -> Mapping[str, str | None]:
    """Options by their long name with dashes: what an engine prints that it runs with comes before the launch line."""
    found: dict[str, str | None] = {}
    if evidence.command:
        found.update((name.replace("_", "-"), value) for name, value in launch_options(evidence.command))
    for event in evidence.of_kind(EventKind.ENGINE_START):
        options = event.fields.get("options")
        for option in options if isinstance(options, tuple) else ():
            if isinstance(option, tuple) and len(option) == 2:
                found[str(option[0]).replace("_", "-")] = None if option[1] is None else str(option[1])
    return found


def concurrency_of(options: Mapping[str, str | None]) -> int:
    """The most requests at once that the settings allow; one where they do not say."""
    return number(options, *_CONCURRENCY) or 1


def context_of(options: Mapping[str, str | None], facts: FactSet) -> int | None:
    """The longest request that the settings allow."""
    return context_asked(options) or facts.size("engine.max_length_tokens")


def context_asked(options: Mapping[str, str | None]) -> int | None:
    """The same by the options alone; None where they leave it to the model or the engine."""
    return number(options, *_CONTEXT)


def capacity_of(facts: FactSet) -> int | None:
    """Of the card that the report is about."""
    failed = failed_devices(facts) or facts.members(Scope.DEVICE)
    for name in ("oom.total_bytes", "device.total_bytes"):
        sizes = {size for member in failed if (size := facts.size(name, member))}
        if len(sizes) == 1:
            return sizes.pop()
    return facts.size("oom.largest_device_bytes")


def _card_of(evidence: Evidence) -> str | None:
    """What the cards that were looked at are called, where all have one name."""
    names = {each.name for run in evidence.runs for each in run.device_readings if each.name}
    return names.pop() if len(names) == 1 else None


def _engine(evidence: Evidence, facts: FactSet) -> Engine | None:
    named = facts.value("engine.name")
    if named is None and evidence.command:
        named = launch_program(evidence.command)
    return _ENGINES.get(str(named))


def number(options: Mapping[str, str | None], *names: str, least: int = 1) -> int | None:
    """The first of these options that says a whole number of at least `least`; None where none says one.

    Raises InputRefused for what is neither a number nor a word for the program's own choice.
    """
    for name in names:
        value = options.get(name)
        if value is None or value in _OWN_CHOICE:
            continue
        found = _whole(value, _MULTIPLES if name in _TAKES_MULTIPLES else {})
        if found is None:
            raise InputRefused(
                _("--{name} {value} is no number that is understood here").format(name=name, value=value)
            )
        if least <= found < 1 << 30:
            return found
    return None


def _whole(value: str, multiples: Mapping[str, int]) -> int | None:
    """`80000`, and where multiples are taken `80k` (decimals too) and `80K` (1024, whole numbers only)."""
    match = _NUMBER.fullmatch(value.strip())
    if match is None:
        return None
    whole, decimals, unit = match.groups()
    if not unit:
        return None if decimals else int(whole)
    if unit not in multiples or (decimals and unit.isupper()):
        return None
    return int(float(whole + (decimals or "")) * multiples[unit])


def _elements(options: Mapping[str, str | None], engine: Engine) -> tuple[ElementType | None, ElementType | None]:
    names = ("cache-type-k", "cache-type-v") if engine is LLAMA_CPP else ("kv-cache-dtype", "kv-cache-dtype")
    found = [None if (value := options.get(name)) in _PLAIN else _cached(name, str(value)) for name in names]
    return found[0], found[1]


def _layers_on_card(evidence: Evidence) -> int | None:
    """Layers that llama.cpp said it put on cards, the output counted as one; None where it put all there.

    Raises InputRefused where several cards share them.
    """
    if len({event.device for event in evidence.of_kind(EventKind.ENGINE_KV_POOL) if event.device is not None}) > 1:
        raise InputRefused(_(_LAYERS_ARE_DIVIDED))
    for event in evidence.of_kind(EventKind.ENGINE_WEIGHTS):
        on_card, layers = event.size("layers_offloaded"), event.size("layers_total")
        if on_card is not None and layers is not None and on_card < layers:
            return on_card
    return None


def _cached(name: str, value: str) -> ElementType:
    """Of a cache, which may be quantised in blocks."""
    try:
        return element_type(value)
    except UsageError as error:
        raise InputRefused(
            _("--{name} {value} is no element type that is known here").format(name=name, value=value)
        ) from error


def _fraction(options: Mapping[str, str | None], facts: FactSet) -> float | None:
    known = facts.value("engine.utilization")
    if isinstance(known, float):
        return known
    for name in _FRACTION:
        try:
            share = float(options.get(name) or "")
        except ValueError:
            continue
        if 0 < share <= 1:
            return share
    return None
