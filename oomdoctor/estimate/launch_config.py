"""What a launcher's own file says of a training: DeepSpeed's JSON, accelerate's YAML.

Field names are those of DeepSpeed's configuration (deepspeed.ai/docs/config-json) and of accelerate's `config`. `auto`
leaves a field to the command line. Figures of buffers: with `overlap_comm` 4.5 times both buckets, in two bytes
(transformers' guide to DeepSpeed); without it the bucket that gradients are gathered in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import InputRefused, RuleError
from ..knobs.document import Scalar, Section, read_document
from ..language import _
from .files import read_json

_BUCKET, _PREFETCH, _LIVE = 500_000_000, 50_000_000, 1_000_000_000
"""DeepSpeed's defaults, in elements."""
STRATEGIES = {
    "full_shard": 3, "shard_grad_op": 2, "no_shard": 0, "hybrid_shard": 3, "hybrid_shard_zero2": 2,
    "1": 3, "2": 2, "3": 0, "4": 3, "5": 2, "true": 3, "false": 2,
}  # fmt: skip
"""FSDP's strategies, by name or number, and FSDP 2's `fsdp_reshard_after_forward`, as stages of ZeRO."""
_PRECISIONS = {"bf16": "bf16-mixed", "fp16": "bf16-mixed", "no": "fp32", "": None, "none": None}
_ON_HOST = ("cpu", "nvme")


@dataclass(frozen=True)
class LaunchConfig:
    """What the file says. None: it does not."""

    zero: int | None = None
    ranks: int | None = None
    precision: str | None = None
    optimizer: str | None = None
    batch: int | None = None
    checkpointing: bool | None = None
    offload_states: bool = False
    offload_parameters: bool = False
    buffer_bytes: int = 0
    """What DeepSpeed keeps for communication."""
    live_parameters: int | None = None
    """Most parameters that ZeRO 3 has gathered at once."""
    replicates: bool = False
    """Whether every rank has all gradients in DDP's buckets, where nothing is sharded."""


def read_launch_config(path: Path) -> LaunchConfig:
    """The file's settings. Raises InputRefused for what is not understood."""
    if path.suffix.lower() == ".json":
        config = read_json(path)
        if not isinstance(config, dict):
            raise InputRefused(_("{path}: not a configuration (a JSON object)").format(path=path))
        return _of_deepspeed(config, path)
    try:
        section = read_document(path)
    except RuleError as error:
        raise InputRefused(str(error)) from error
    return _of_accelerate(section, path)


def default_accelerate_file(variables: Mapping[str, str]) -> Path:
    """The file that `accelerate launch` reads where no --config_file is named (its `default_config_file`)."""
    cache = variables.get("XDG_CACHE_HOME") or str(Path(variables.get("HOME") or "~").expanduser() / ".cache")
    home = variables.get("HF_HOME") or str(Path(cache) / "huggingface")
    return Path(home).expanduser() / "accelerate" / "default_config.yaml"


def _of_deepspeed(config: Mapping[str, Any], path: Path) -> LaunchConfig:
    sharding = config.get("zero_optimization")
    sharding = sharding if isinstance(sharding, dict) else {}
    stage = sharding.get("stage", 0)
    if not isinstance(stage, int) or isinstance(stage, bool) or not 0 <= stage <= 3:
        raise InputRefused(_("{path}: zero_optimization.stage is {stage}").format(path=path, stage=repr(stage)[:40]))
    narrow = any(_part(config, name).get("enabled") is True for name in ("bf16", "bfloat16", "fp16"))
    told = any(_part(config, name).get("enabled") in (True, False) for name in ("bf16", "bfloat16", "fp16"))
    optimizer = _part(config, "optimizer").get("type")
    found = LaunchConfig(
        zero=stage,
        precision="bf16-mixed" if narrow else "fp32" if told else None,
        optimizer=None if optimizer is None else _optimizer(optimizer, path),
        batch=_count(config.get("train_micro_batch_size_per_gpu"), "train_micro_batch_size_per_gpu", path),
        offload_states=_part(sharding, "offload_optimizer").get("device") in _ON_HOST,
        offload_parameters=_part(sharding, "offload_param").get("device") in _ON_HOST,
    )
    return _with_buffers(found, sharding, path)


def with_default_buffers(found: LaunchConfig, program: str) -> LaunchConfig:
    """The same with the buffers that DeepSpeed has where no file tells others; another program's are not known."""
    return _with_buffers(found, {}, Path(program))


def _with_buffers(found: LaunchConfig, sharding: Mapping[str, Any], path: Path) -> LaunchConfig:
    def elements(name: str, default: int) -> int:
        return _count(sharding.get(name), name, path) or default

    reduce = elements("reduce_bucket_size", _BUCKET)
    if found.zero == 3:
        live = elements("stage3_max_live_parameters", _LIVE)
        return replace(
            found, buffer_bytes=2 * (reduce + elements("stage3_prefetch_bucket_size", _PREFETCH)), live_parameters=live
        )
    if not found.zero:
        return found
    if sharding.get("overlap_comm") is True:
        return replace(found, buffer_bytes=9 * (reduce + elements("allgather_bucket_size", _BUCKET)))
    contiguous = sharding.get("contiguous_gradients", True) is not False
    return replace(found, buffer_bytes=2 * reduce if contiguous else 0)


def _of_accelerate(section: Section, path: Path) -> LaunchConfig:
    kind = _word(section, "distributed_type").lower()
    precision = _word(section, "mixed_precision").lower()
    if precision not in _PRECISIONS:
        raise InputRefused(
            _("{path}: mixed_precision is {precision}, which is not in the estimate").format(
                path=path, precision=repr(precision)
            )
        )
    ranks = _count(_word(section, "num_processes") or None, "num_processes", path)
    found = LaunchConfig(ranks=ranks, precision=_PRECISIONS[precision])
    if kind in ("no", "multi_gpu", ""):
        return replace(found, zero=0, replicates=True)
    if kind == "fsdp":
        return _of_fsdp(found, _section(section, "fsdp_config"), section, path)
    if kind == "deepspeed":
        return _of_accelerates_deepspeed(found, _section(section, "deepspeed_config"), path)
    raise InputRefused(
        _("{path}: distributed_type is {kind}, which is not in the estimate").format(path=path, kind=repr(kind))
    )


def _of_fsdp(found: LaunchConfig, own: Section | None, whole: Section, path: Path) -> LaunchConfig:
    words = [_word(own, name).lower() for name in ("fsdp_sharding_strategy", "fsdp_reshard_after_forward")]
    strategy = next((word for word in words if word), "")
    if strategy not in STRATEGIES:
        raise InputRefused(
            _("{path}: the field fsdp_sharding_strategy (or fsdp_reshard_after_forward) is {strategy}").format(
                path=path, strategy=repr(strategy) if strategy else _("missing")
            )
        )
    ranks, machines = found.ranks, _count(_word(whole, "num_machines") or None, "num_machines", path)
    if strategy in ("hybrid_shard", "hybrid_shard_zero2", "4", "5") and ranks and machines:
        ranks = max(1, ranks // machines)
    return replace(
        found,
        zero=STRATEGIES[strategy],
        ranks=ranks,
        checkpointing=_word(own, "fsdp_activation_checkpointing").lower() == "true" or None,
        offload_states=_word(own, "fsdp_offload_params").lower() == "true",
        offload_parameters=_word(own, "fsdp_offload_params").lower() == "true",
        replicates=STRATEGIES[strategy] == 0,
    )


def _of_accelerates_deepspeed(found: LaunchConfig, own: Section | None, path: Path) -> LaunchConfig:
    named = _word(own, "deepspeed_config_file")
    if named:
        inner = path.parent / named
        if not inner.is_file():
            raise InputRefused(_("{path}: deepspeed_config_file {named} is not there").format(path=path, named=named))
        read = read_launch_config(inner)
        return replace(read, ranks=found.ranks, precision=read.precision or found.precision)
    stage = _count(_word(own, "zero_stage") or None, "zero_stage", path, least=0)
    if stage is None or stage > 3:
        raise InputRefused(_("{path}: the field deepspeed_config.zero_stage is missing").format(path=path))
    offloads = [_word(own, f"offload_{what}_device").lower() in _ON_HOST for what in ("optimizer", "param")]
    return _with_buffers(
        replace(found, zero=stage, offload_states=offloads[0], offload_parameters=offloads[1]), {}, path
    )


def _optimizer(named: object, path: Path) -> str:
    known = {"adam": "adamw", "adamw": "adamw", "sgd": "sgd", "lion": "lion", "adagrad": "adagrad"}
    found = known.get(str(named).lower())
    if found is None:
        raise InputRefused(
            _("{path}: the states of the optimizer {name} are not known here").format(
                path=path, name=repr(str(named)[:40])
            )
        )
    return found


def _part(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(name)
    return found if isinstance(found, dict) else {}


def _count(value: object, name: str, path: Path, least: int = 1) -> int | None:
    """A whole number; None where the file leaves it to others (`auto`, or nothing)."""
    if value is None or value == "auto":
        return None
    try:
        number = float(value) if isinstance(value, int | float | str) else -1.0
    except ValueError:
        number = -1.0
    if isinstance(value, bool) or not number.is_integer() or not least <= number < 1 << 40:
        raise InputRefused(
            _("{path}: {name} is {value}, not a number").format(path=path, name=name, value=repr(str(value)[:40]))
        )
    return int(number)


def _word(section: Section | None, name: str) -> str:
    """The scalar under that name, without its quotes; empty where there is none."""
    found = section.entries.get(name) if section is not None else None
    return found.text.strip().strip("'\"") if isinstance(found, Scalar) else ""


def _section(section: Section, name: str) -> Section | None:
    found = section.entries.get(name)
    return found if isinstance(found, Section) else None
