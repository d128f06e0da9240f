"""The settings that a training ran with, from its census and its launch line: precision, optimizer, sharding, batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ..errors import InputRefused
from ..estimate.adapters import USUAL_TARGETS, Lora, trained_parameters
from ..estimate.dtypes import element_type
from ..estimate.four_bit import SINGLE, is_four_bit
from ..estimate.kept import kept_launch_config
from ..estimate.launch_config import LaunchConfig
from ..estimate.model_input import Model, loaded_as
from ..estimate.training import Training, frozen_bytes
from ..language import _
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.run import CensusGroup
from ..readers.log.launch import launch_program
from .asked_settings import capacity_of, options_of
from .census import speaking_censuses
from .deriver import failed_devices
from .trainer_file import kept_options
from .trainer_options import MIXED, NARROW, WIDE, TrainerOptions, optimizer_of

_PACKED = "uint8"
"""As which bitsandbytes keeps two values of four bits."""
_NARROW = ("bfloat16", "float16")
_TRAINS = ("backward", "optimizer-step", "loss")


@dataclass(frozen=True)
class AskedTraining:
    """What a training is estimated for."""

    settings: Training
    parameters: int
    """That are trained."""
    model: Model | None
    """As it was loaded, where it is known."""
    whole_step: bool
    """Whether the batch and the model are known, so that activations are estimated too."""

    @property
    def frozen_bytes(self) -> int:
        """Of the parameters beside adapters, which are not trained."""
        if self.settings.lora is None or self.model is None:
            return 0
        return frozen_bytes(self.model, self.settings.lora, self.settings.precision)


def training_of(evidence: Evidence, facts: FactSet, model: Model | None) -> AskedTraining | None:
    """None where it is no training, or too little is known of it.

    Raises InputRefused where something is set that the estimate does not know.
    """
    member = next(iter(failed_devices(facts)), None)
    capacity = capacity_of(facts)
    if capacity is None or not _trains(facts, member):
        return None
    line, groups = _line(evidence), _groups(evidence, member)
    lora = _lora(line, groups, model)
    if lora is not None and model is not None:
        model = _as_held(model, lora, groups)
    count = _parameters(groups, facts, model, lora)
    if count is None:
        return None
    by_file = _kept_file(evidence)
    ranks = facts.size("ranks.count") or by_file.ranks or 1
    told = _sharding(line, groups, ranks, by_file)
    zero = told.zero or 0
    replicates = not zero and (told.replicates or _has_buckets(groups, line))
    tokens = _tokens(groups, line, by_file)
    batch, sequence = tokens or (1, 1)
    optimizer, fused = _optimizer(groups, line, by_file)
    settings = Training(
        capacity_bytes=capacity,
        optimizer=optimizer,
        precision=_precision(groups, line, by_file, bool(zero) and lora is None),
        batch=batch,
        sequence=sequence,
        checkpointing=line.checkpointing or bool(by_file.checkpointing),
        zero=zero,
        ranks=min(ranks, told.ranks or ranks) if zero or replicates else 1,
        replicates=replicates,
        foreach=not fused,
        lora=lora,
        offload_states=told.offload_states,
        offload_parameters=told.offload_parameters,
        buffer_bytes=told.buffer_bytes,
        live_parameters=told.live_parameters,
    )
    return AskedTraining(settings, count, model, model is not None and tokens is not None)


def _line(evidence: Evidence) -> TrainerOptions:
    """What `run` kept of the trainer's file of settings, and what the launch line says, which overrules it."""
    kept = next((run.trainer_settings for run in evidence.runs if run.trainer_settings is not None), None)
    options = {**kept_options(kept), **options_of(evidence)}
    return TrainerOptions(options, launch_program(evidence.command) if evidence.command else None)


def _kept_file(evidence: Evidence) -> LaunchConfig:
    """What `run` kept of the launcher's file; nothing where there is none.

    Raises InputRefused for one that was not understood.
    """
    kept = next((run.launch_config for run in evidence.runs if run.launch_config is not None), None)
    return LaunchConfig() if kept is None else kept_launch_config(kept)


def _lora(line: TrainerOptions, groups: Sequence[CensusGroup], model: Model | None) -> Lora | None:
    """The adapters that the launch line tells; a census tells of some, but not of which rank."""
    lora = line.lora(USUAL_TARGETS)
    held = any(group.category == "parameters" and group.owner.startswith("Peft") for group in groups)
    packed = any(group.category == "parameters" and group.largest_dtype == _PACKED for group in groups)
    if lora is None and not held:
        if packed:
            raise InputRefused(_("parameters of type {dtype} are not in the estimate").format(dtype=_PACKED))
        return None
    if lora is None or model is None:
        raise InputRefused(
            _(
                "adapters (LoRA) are estimated where --lora-r at the launch line, or the trainer's file that `run`"
                " kept, tells their rank, and --model the matrices beside them"
            )
        )
    return replace(lora, base=SINGLE) if packed and not is_four_bit(model, lora.base) else lora


def _as_held(model: Model, lora: Lora, groups: Sequence[CensusGroup]) -> Model:
    """Frozen parameters in the type that most parameters have; those of four bits are told otherwise."""
    held = _largest(groups, "parameters")
    if held is None or is_four_bit(model, lora.base):
        return model
    return loaded_as(model, element_type("float32" if _element_bytes(held) == 4 else str(held.largest_dtype)))


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
    """That is not of packed values, which have no type of their own."""
    found = (group for group in groups if group.category == category and group.largest_dtype != _PACKED)
    return max(found, key=lambda group: group.bytes, default=None)


def _element_bytes(group: CensusGroup) -> int:
    if group.largest_dtype == "float32":
        return 4
    if group.largest_dtype in _NARROW:
        return 2
    if group.largest_dtype is None:
        raise InputRefused(_("the census does not tell the type of its parameters"))
    raise InputRefused(_("parameters of type {dtype} are not in the estimate").format(dtype=group.largest_dtype))


def _parameters(groups: Sequence[CensusGroup], facts: FactSet, model: Model | None, lora: Lora | None) -> int | None:
    """Of the model that is named; else of the gradients, once the backward pass has made all of them."""
    if model is not None:
        if lora is not None:
            return trained_parameters(model.architecture, lora, model.path)
        if model.parameters is None:
            raise InputRefused(_("how many parameters it has is not known; give the directory with the weights"))
        return model.parameters
    if facts.value("activity.phase") != "optimizer-step":
        return None
    gradients = [group for group in groups if group.category == "gradients"]
    return sum(group.bytes // _element_bytes(group) for group in gradients) or None


def _precision(groups: Sequence[CensusGroup], line: TrainerOptions, by_file: LaunchConfig, sharded: bool) -> str:
    named, held = line.precision_with(by_file), _largest(groups, "parameters")
    if held is None:
        if named is None:
            raise InputRefused(_("neither the launch line nor a census tells the precision of its parameters"))
        return named
    if _element_bytes(held) == 2:
        return MIXED if sharded else NARROW
    saved = any(group.category == "saved-for-backward" and group.largest_dtype in _NARROW for group in groups)
    return MIXED if saved or named == MIXED else WIDE


def _sharding(line: TrainerOptions, groups: Sequence[CensusGroup], ranks: int, by_file: LaunchConfig) -> LaunchConfig:
    """By the file that was kept, else by the launch line, else by the modules that own parameters."""
    told = line.sharding_with(by_file)
    if told is not None:
        return told
    owners = [group.owner.partition(" ")[0] for group in groups if group.category in ("parameters", "optimizer")]
    if any("Stage3" in owner or owner.startswith(("FullyShardedDataParallel", "FSDP")) for owner in owners):
        return LaunchConfig(zero=3)
    if ranks > 1 and (line.shards_by_file or any(owner.startswith("DeepSpeed") for owner in owners)):
        raise InputRefused(
            _(
                "how its states are sharded is not told; name it with --zero-stage at its launch line, or ask"
                " `oomdoctor estimate --train` with --launch-config"
            )
        )
    return LaunchConfig()


def _has_buckets(groups: Sequence[CensusGroup], line: TrainerOptions) -> bool:
    """Whether DistributedDataParallel is named: in a module that owns parameters, or by an option about it."""
    owners = (group.owner for group in groups if group.category in ("parameters", "gradients"))
    return line.replicates or any("DistributedDataParallel" in owner for owner in owners)


def _optimizer(groups: Sequence[CensusGroup], line: TrainerOptions, by_file: LaunchConfig) -> tuple[str, bool]:
    """Its kind, and whether it works on one parameter at a time; AdamW where nothing tells."""
    named = line.optimizer or by_file.optimizer or "adamw"
    slots = [group.owner for group in groups if group.category == "optimizer"]
    momentum = any("momentum" in slot for slot in slots) or line.momentum
    if not slots:
        return optimizer_of(named, momentum)
    kind, fused = optimizer_of(slots[0].partition(" ")[0], momentum)
    return kind, fused or bool(line.optimizer and optimizer_of(named, momentum)[1])


def _tokens(groups: Sequence[CensusGroup], line: TrainerOptions, by_file: LaunchConfig) -> tuple[int, int] | None:
    """Sequences and their length: of the ids that the census saw, where all have one shape; else of the launch line."""
    shapes = {g.largest_shape for g in groups if g.largest_dtype in ("int64", "int32") and len(g.largest_shape) == 2}
    shapes = {shape for shape in shapes if prod(shape) > 1}
    if len(shapes) == 1:
        ((batch, sequence),) = shapes
        return batch, sequence
    asked = by_file.batch or line.batch, line.sequence
    return None if asked[0] is None or asked[1] is None else (asked[0], asked[1])
