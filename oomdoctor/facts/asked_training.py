"""The settings that a training ran with, from its census and its launch line: precision, optimizer, sharding, batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ..errors import InputRefused
from ..estimate.model_input import Model
from ..estimate.training import Training
from ..language import _
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.run import CensusGroup
from ..readers.log.launch import launch_program
from .asked_settings import capacity_of, is_on, options_of
from .asked_settings import number as _strict_number
from .census import speaking_censuses
from .deriver import failed_devices

_WIDE, _NARROW = "float32", ("bfloat16", "float16")
_MIXED = {"bf16-mixed": "bf16-mixed", "16-mixed": "bf16-mixed", "bf16": "bf16-mixed", "fp16": "bf16-mixed",
          "bf16-true": "bf16-pure", "16-true": "bf16-pure", "32": "fp32", "32-true": "fp32", "fp32": "fp32",
          "no": "fp32"}  # fmt: skip
"""Words for a precision, of Lightning and accelerate."""
_BATCH = ("per-device-train-batch-size", "train-micro-batch-size-per-gpu", "micro-batch-size", "train-batch-size",
          "batch-size", "batch")  # fmt: skip
_SEQUENCE = ("max-seq-length", "max-seq-len", "seq-length", "seq-len", "sequence-length", "max-length", "cutoff-len",
             "block-size", "seq")  # fmt: skip
_STAGE = ("zero-stage", "zero")
CHECKPOINTING = ("gradient-checkpointing", "checkpointing", "activation-checkpointing", "recompute-activations")
_OPTIMIZER = ("optim", "optimizer", "opt")
_ADAPTERS = ("lora", "peft", "adapter")
_TRAINS = ("backward", "optimizer-step", "loss")
_SHARDED_BY_FILE = ("deepspeed", "accelerate")
"""Launchers whose sharding stands in a file of their own."""


@dataclass(frozen=True)
class AskedTraining:
    """What a training is estimated for."""

    settings: Training
    parameters: int
    """That are trained."""
    whole_step: bool
    """Whether the batch and the model are known, so that activations are estimated too."""


def training_of(evidence: Evidence, facts: FactSet, model: Model | None) -> AskedTraining | None:
    """None where it is no training, or too little is known of it.

    Raises InputRefused where something is set that the estimate does not know.
    """
    member = next(iter(failed_devices(facts)), None)
    capacity = capacity_of(facts)
    if capacity is None or not _trains(facts, member):
        return None
    options, groups = options_of(evidence), _groups(evidence, member)
    if any(word in name for name in options for word in _ADAPTERS) or any(
        group.category == "parameters" and group.owner.startswith("Peft") for group in groups
    ):
        raise InputRefused(_("adapters (LoRA) are not in the estimate"))
    count = _parameters(groups, facts, model)
    if count is None:
        return None
    ranks = facts.size("ranks.count") or 1
    zero = _stage(options, groups, ranks, evidence.command)
    replicates = not zero and _has_buckets(groups, options)
    tokens = _tokens(groups, options)
    batch, sequence = tokens or (1, 1)
    optimizer, fused = _optimizer(groups, options)
    settings = Training(
        capacity_bytes=capacity,
        optimizer=optimizer,
        precision=_precision(groups, options, zero),
        batch=batch,
        sequence=sequence,
        checkpointing=any(is_on(options, name) for name in CHECKPOINTING),
        zero=zero,
        ranks=ranks if zero or replicates else 1,
        replicates=replicates,
        foreach=not fused,
    )
    return AskedTraining(settings, count, model is not None and tokens is not None)


def number(options: Mapping[str, str | None], *names: str) -> int | None:
    """The first of these options that is a number: a script's own options may mean something else by such a name."""
    for name in names:
        try:
            found = _strict_number(options, name)
        except InputRefused:
            continue
        if found is not None:
            return found
    return None


def _trains(facts: FactSet, member: str | None) -> bool:
    made = [facts.size(name, member) for name in ("owner.gradients_bytes", "owner.optimizer_bytes")] if member else []
    told = bool(facts.value("activity.during_training")) or facts.value("activity.phase") in _TRAINS
    return told or any(made)


def _groups(evidence: Evidence, member: str | None) -> Sequence[CensusGroup]:
    """What the census says of the device that failed."""
    for named, device, _record, census in speaking_censuses(evidence):
        if named == member:
            return [group for group in census.groups if group.device == device.device]
    return ()


def _largest(groups: Sequence[CensusGroup], category: str) -> CensusGroup | None:
    return max((g for g in groups if g.category == category), key=lambda group: group.bytes, default=None)


def _element_bytes(group: CensusGroup) -> int:
    if group.largest_dtype == _WIDE:
        return 4
    if group.largest_dtype in _NARROW:
        return 2
    if group.largest_dtype is None:
        raise InputRefused(_("the census does not tell the type of its parameters"))
    raise InputRefused(_("parameters of type {dtype} are not in the estimate").format(dtype=group.largest_dtype))


def _parameters(groups: Sequence[CensusGroup], facts: FactSet, model: Model | None) -> int | None:
    """Of the model that is named; else of the gradients, once the backward pass has made all of them."""
    if model is not None:
        if model.parameters is None:
            raise InputRefused(_("how many parameters it has is not known; give the directory with the weights"))
        return model.parameters
    if facts.value("activity.phase") != "optimizer-step":
        return None
    gradients = [group for group in groups if group.category == "gradients"]
    return sum(group.bytes // _element_bytes(group) for group in gradients) or None


def _precision(groups: Sequence[CensusGroup], options: Mapping[str, str | None], zero: int) -> str:
    asked = is_on(options, "bf16") or is_on(options, "fp16")
    named = next((options[name] for name in ("mixed-precision", "precision") if options.get(name)), None)
    held = _largest(groups, "parameters")
    if held is None:
        told = "bf16-mixed" if asked else _MIXED.get(str(named))
        if told is None:
            raise InputRefused(_("neither the launch line nor a census tells the precision of its parameters"))
        return told
    if _element_bytes(held) == 2:
        return "bf16-mixed" if zero else "bf16-pure"
    saved = any(group.category == "saved-for-backward" and group.largest_dtype in _NARROW for group in groups)
    return "bf16-mixed" if asked or saved or _MIXED.get(str(named)) == "bf16-mixed" else "fp32"


def _stage(options: Mapping[str, str | None], groups: Sequence[CensusGroup], ranks: int, command: str | None) -> int:
    """ZeRO's; FSDP is 3, as it shards parameters too."""
    named = number(options, *_STAGE)
    if named is not None and named <= 3:
        return named
    words = str(options.get("fsdp") or "")
    if is_on(options, "fsdp") and "no_shard" not in words:
        return 2 if "shard_grad_op" in words else 3
    owners = [group.owner.partition(" ")[0] for group in groups if group.category in ("parameters", "optimizer")]
    if any("Stage3" in owner or owner.startswith(("FullyShardedDataParallel", "FSDP")) for owner in owners):
        return 3
    launched = command is not None and launch_program(command) in _SHARDED_BY_FILE
    if ranks > 1 and (launched or "deepspeed" in options or any(owner.startswith("DeepSpeed") for owner in owners)):
        raise InputRefused(
            _(
                "how its states are sharded is not told; name it with --zero-stage at its launch line, or ask"
                " `oomdoctor estimate --train` with --launch-config"
            )
        )
    return 0


def _has_buckets(groups: Sequence[CensusGroup], options: Mapping[str, str | None]) -> bool:
    """Whether DistributedDataParallel is named: in a module that owns parameters, or by an option about it."""
    owners = (group.owner for group in groups if group.category in ("parameters", "gradients"))
    return any("DistributedDataParallel" in owner for owner in owners) or any("ddp" in name for name in options)


def _optimizer(groups: Sequence[CensusGroup], options: Mapping[str, str | None]) -> tuple[str, bool]:
    """Its kind, and whether it works on one parameter at a time; AdamW where nothing tells."""
    named = next((str(options[name]) for name in _OPTIMIZER if options.get(name)), "")
    slots = [group.owner for group in groups if group.category == "optimizer"]
    words = (slots[0].partition(" ")[0] if slots else named or "adamw").lower()
    if "paged" in words or "paged" in named:
        raise InputRefused(_("the states of a paged optimizer may lie in host memory"))
    small = "8bit" if "8bit" in words.replace("_", "") and ("adam" in words or "lion" in words) else ""
    fused = "fused" in words or "fused" in named
    if "sgd" in words:
        momentum = any("momentum" in slot for slot in slots) or float_of(options.get("momentum")) > 0
        return ("sgd-momentum" if momentum else "sgd"), fused
    for kind, optimizer in (("adafactor", "adafactor"), ("lion", f"lion{small}"), ("rmsprop", "rmsprop"),
                            ("adagrad", "adagrad"), ("adam", f"adamw{small}")):  # fmt: skip
        if kind in words:
            return optimizer, fused
    raise InputRefused(_("the states of the optimizer {name} are not known here").format(name=words))


def asked_batch(options: Mapping[str, str | None]) -> int | None:
    """Sequences of a step on one device, as a launch line says it."""
    return number(options, *_BATCH)


def asked_length(options: Mapping[str, str | None]) -> int | None:
    """Tokens of a sequence in training, as a launch line says it."""
    return number(options, *_SEQUENCE)


def float_of(text: str | None) -> float:
    """The number; 0 for what is none."""
    try:
        return float(text or "")
    except ValueError:
        return 0.0


def _tokens(groups: Sequence[CensusGroup], options: Mapping[str, str | None]) -> tuple[int, int] | None:
    """Sequences and their length: of the ids that the census saw, where all have one shape; else of the launch line."""
    shapes = {g.largest_shape for g in groups if g.largest_dtype in ("int64", "int32") and len(g.largest_shape) == 2}
    shapes = {shape for shape in shapes if prod(shape) > 1}
    if len(shapes) == 1:
        ((batch, sequence),) = shapes
        return batch, sequence
    batch_asked, sequence_asked = asked_batch(options), asked_length(options)
    return None if batch_asked is None or sequence_asked is None else (batch_asked, sequence_asked)
