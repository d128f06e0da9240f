"""owner.*: who held device memory when a request failed, by the probe's census of the process's objects.

The census names holders, by address, of blocks that the snapshot lists; what no Python object leads to is told by the
stack that allocated it, where there is one. So each block counts once, and the parts add up to what was allocated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..allocator.owners import WORKSPACE
from ..allocator.stacks import FORWARD, Category
from ..estimate.training import slots_bytes
from ..language import N_
from ..model.evidence import Evidence
from ..model.facts import FactSet, FactValue, Scope
from ..model.run import Census, CensusDevice, CensusGroup, DeviceOomRecord
from ..model.source import Source
from ..model.units import format_bytes, format_seconds
from .deriver import computed, device_member
from .device_records import library_records, snapshot_of, speaking_records
from .unheld import read_unheld

_CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "owner.weights_bytes": ("parameters", "buffers"),
    "owner.gradients_bytes": ("gradients",),
    "owner.optimizer_bytes": ("optimizer",),
    "owner.kv_bytes": ("kv",),
    "owner.activations_bytes": ("activations", "saved-for-backward"),
    "owner.logits_bytes": ("logits",),
    "owner.batch_bytes": ("batch",),
}
_OF_STACKS: Mapping[Category, str] = {
    Category.WEIGHTS: "owner.weights_bytes",
    Category.GRADIENT: "owner.gradients_bytes",
    Category.OPTIMIZER_STATE: "owner.optimizer_bytes",
    Category.KV_APPEND: "owner.kv_bytes",
    **dict.fromkeys(FORWARD, "owner.activations_bytes"),
    Category.LOGITS: "owner.logits_bytes",
}
_HELD_BY_NAME = frozenset({"kv", "activations", "logits", "batch", "saved-for-backward", "other"})
_WORDS = {
    "saved-for-backward": N_("activations saved for backward by {owner}"),
    "activations": N_("activations in {owner}"),
    "logits": N_("logits in {owner}"),
    "batch": N_("batch of the data loader in {owner}"),
    "parameters": N_("parameters of {owner}"),
    "optimizer": N_("state of {owner}"),
    "kv": N_("keys and values in {owner}"),
    "buffers": N_("buffers of {owner}"),
}
PROBES_WORDS = (
    N_("gradients of {owner}"),
    N_("gradients of tensors without a name"),
    N_("{variable} global in {module}"),
    N_("{variable} local to {function}"),
    N_("{variable} of {class}"),
    N_("{variable} global in {module}: {slot}"),
    N_("{variable} local to {function}: {slot}"),
    N_("{variable} of {class}: {slot}"),
    N_("{variable} in the closure of {function}"),
    N_("{variable} default of an argument of {function}"),
    N_("{owner}, kept by an exception's traceback"),
    N_("{owner}, kept by the exceptions of {keeper}"),
    N_("{owner}, kept by the traceback of {keeper}"),
    N_("{owner} ({size})"),
    N_("{owner} ({number} elements)"),
    N_("{owner} (grew from {before} to {number} elements in {time})"),
    N_("the forward pass of {owner}"),
    N_("the forward pass"),
    N_("the graph of the backward pass"),
    N_("what checkpointing computes again for the backward pass"),
    N_("modules in {owner}"),
)
"""How the probe names who holds what (its `census_roots`, `census_owners`): a report in another language knows it by
these."""
_FEWEST_HELD = 0.02


def derive(evidence: Evidence, facts: FactSet) -> None:
    """Facts of each device that a census of its latest failure describes."""
    of_libraries, beside = library_records(evidence), list[tuple[Holder, Source]]()
    for member, device, record, census in speaking_censuses(evidence):
        source = census.source
        groups = [group for group in census.groups if group.device == device.device]
        rest, nothing = read_unheld(device, snapshot_of(evidence, record)), 0 if census.complete else None
        for name, categories in _CATEGORIES.items():
            held = sum(group.bytes for group in groups if group.category in categories)
            held += sum(block.bytes for block in rest if _OF_STACKS.get(block.category) == name)
            facts.put(name, held or nothing, source, member)
        saved = sum(group.saved_bytes for group in groups)
        facts.put("owner.saved_for_backward_bytes", saved or nothing, source, member)
        _put_errors(groups, source, member, nothing, facts)
        facts.put("owner.unheld_bytes", device.unheld_bytes, source, member)
        workspaces = sum(block.bytes for block in rest if block.part == WORKSPACE)
        facts.put("owner.workspace_bytes", workspaces or None, source, member)
        for name, category in (("owner.model", "parameters"), ("owner.optimizer", "optimizer")):
            facts.put(name, _largest_of(groups, category), source, member)
        facts.put("owner.optimizer_needed_bytes", _state_needed(groups), source, member)
        copies = _copies(groups)
        facts.put("owner.copies_bytes", sum(group.bytes for group in copies) or nothing, source, member)
        facts.put("owner.copies", copies[0].owner if copies else None, source, member)
        together = owners_together(groups)
        if not together:
            continue
        top = together[0]
        if record in of_libraries:
            beside.append((top, source))
        facts.put("owner.top", words(top.first), source, member)
        facts.put("owner.top_bytes", top.bytes, source, member)
        holder = largest_holder(groups)
        if holder is None:
            continue
        facts.put("owner.holder", _place(holder.first), source, member)
        facts.put("owner.holder_bytes", holder.bytes, source, member)
        facts.put("owner.holder_saved_bytes", holder.saved or nothing, source, member)
        facts.put("owner.holder_length", holder.first.length, source, member)
        facts.put("owner.holder_is_container", holder.first.length is not None, source, member)
        facts.put("owner.holder_is_by_name", holder.first.by_name, source, member)
        facts.put("owner.holder_is_kv", holder.first.category == "kv", source, member)
    if beside:
        top, source = max(beside, key=lambda one: one[0].bytes)
        facts.put("oom.library_beside", words(top.first), source)
        facts.put("oom.library_beside_bytes", top.bytes, source)


def _put_errors(groups: list[CensusGroup], source: Source, member: str, nothing: int | None, facts: FactSet) -> None:
    """What calls that failed before left behind, because somebody keeps their exceptions; a model they used is none."""
    kept = [group for group in groups if group.by_error and group.category in _HELD_BY_NAME]
    facts.put("owner.by_errors_bytes", sum(group.bytes for group in kept) or nothing, source, member)
    if kept:
        facts.put("owner.by_errors", _place(max(kept, key=lambda group: group.bytes)), source, member)


def _state_needed(groups: list[CensusGroup]) -> int | None:
    """What the optimizer's state will take: each slot is carried on from the parameters that have it to all.

    Parameters that are trained have gradients. Where no slot is made yet, it is taken for Adam's.
    """
    gradients = [group for group in groups if group.category == "gradients"]
    trained, size = sum(group.count for group in gradients), sum(group.bytes for group in gradients)
    slots = [group for group in groups if group.category == "optimizer"]
    if not trained:
        return None
    if not slots:
        return slots_bytes("adamw", size)
    return sum(round(slot.bytes * max(1.0, trained / slot.count)) for slot in slots if slot.count)


def _copies(groups: list[CensusGroup]) -> list[CensusGroup]:
    """Modules that are as the one with most parameters, to the last byte: copies of it, or it is one of them."""
    models = sorted((g for g in groups if g.category == "parameters"), key=lambda group: -group.bytes)
    if not models:
        return []
    first = (models[0].bytes, models[0].count, models[0].largest_shape, models[0].largest_dtype, models[0].parts)
    return [g for g in models[1:] if (g.bytes, g.count, g.largest_shape, g.largest_dtype, g.parts) == first]


def _largest_of(groups: list[CensusGroup], category: str) -> str | None:
    """The owner of the largest group of a category; an optimizer without the name of its slot."""
    largest = max((g for g in groups if g.category == category), key=lambda group: group.bytes, default=None)
    return None if largest is None else largest.owner.rpartition(": ")[0] or largest.owner


def derive_holder(_evidence: Evidence, facts: FactSet) -> None:
    """Who keeps what grew, once growth is known: by the census, else by the stack.

    Where no history was recorded, whether something grew is not known; what holds most is.
    """
    for member in facts.members(Scope.DEVICE):
        if facts.value("growth.steady", member) is False:
            continue
        found = _holder_of_growth(member, facts)
        if found is not None:
            holder, size_fact = found
            facts.put("growth.holder", holder, computed("owner.holder"), member)
            facts.put("growth.kept_bytes", facts.value(size_fact, member), computed(size_fact), member)
        facts.put("growth.kept_bytes", facts.value("growth.bytes", member), computed("growth.bytes"), member)
        stack, size = facts.value("growth.top_stack", member), facts.value("growth.top_stack_live_bytes", member)
        if isinstance(stack, str) and isinstance(size, int):
            said = N_("{stack} ({size} in {number} blocks)").format(
                stack=stack, size=format_bytes(size), number=facts.value("growth.top_stack_count", member)
            )
            facts.put("growth.holder", said, computed("growth.top_stack"), member)


def _holder_of_growth(member: str, facts: FactSet) -> tuple[str, str] | None:
    """What keeps the steady growth of a device, if it holds enough: in words, and the fact that says how much."""
    holder, size = facts.value("owner.holder", member), facts.value("owner.holder_bytes", member)
    gained, saved = facts.value("growth.bytes", member), facts.value("owner.holder_saved_bytes", member)
    if not isinstance(holder, str) or not isinstance(size, int) or (isinstance(gained, int) and size < gained / 2):
        return _collected_modules(member, gained, facts)
    if isinstance(saved, int) and 2 * saved > size:
        beside = size - saved > _FEWEST_HELD * size
        if facts.value("owner.holder_is_container", member):
            alone = N_("{holder}, keeps the graphs of its elements: {size} saved for backward")
            both = N_("{holder}, keeps the graphs of its elements: {size} saved for backward beside {own} of its own")
        else:
            alone = N_("{holder}, keeps its graph: {size} saved for backward")
            both = N_("{holder}, keeps its graph: {size} saved for backward beside {own} of its own")
        said = (both if beside else alone).format(
            holder=holder, size=format_bytes(saved), own=format_bytes(size - saved)
        )
        return said, "owner.holder_bytes"
    return N_("{holder}, holds {size}").format(holder=holder, size=format_bytes(size)), "owner.holder_bytes"


def _collected_modules(member: str, gained: FactValue | None, facts: FactSet) -> tuple[str, str] | None:
    """Modules in a list or the like are copies, or parts of a model; where memory grew by so much, copies."""
    model, size = facts.value("owner.model", member), facts.value("owner.weights_bytes", member)
    if not isinstance(model, str) or not isinstance(size, int) or not isinstance(gained, int):
        return None
    if not model.startswith("modules in ") or size < gained / 2:
        return None
    return N_("{holder}, holds {size}").format(holder=model, size=format_bytes(size)), "owner.weights_bytes"


@dataclass(frozen=True)
class Holder:
    """One owner with all that is counted to it, in whatever category."""

    groups: Sequence[CensusGroup]

    @property
    def first(self) -> CensusGroup:
        """The largest of its groups."""
        return max(self.groups, key=lambda group: group.bytes)

    @property
    def bytes(self) -> int:
        """All that it holds."""
        return sum(group.bytes for group in self.groups)

    @property
    def saved(self) -> int:
        """Of these, what autograd saved for a backward pass."""
        return sum(group.saved_bytes for group in self.groups)


def owners_together(groups: Sequence[CensusGroup]) -> list[Holder]:
    """Owners, largest first. What a list holds itself and what autograd keeps for it is one; so are optimizer slots."""
    by_owner: dict[tuple[str, str | None, bool], list[CensusGroup]] = {}
    for group in groups:
        named = group.category in _HELD_BY_NAME
        by_owner.setdefault((group.owner, group.file, named), []).append(group)
    return sorted(map(Holder, by_owner.values()), key=lambda holder: -holder.bytes)


def largest_holder(groups: Sequence[CensusGroup]) -> Holder | None:
    """Who holds most, what a model and its optimizer own aside; None where that is next to nothing."""
    holder = next((one for one in owners_together(groups) if one.first.category in _HELD_BY_NAME), None)
    return holder if holder and holder.bytes >= _FEWEST_HELD * sum(group.bytes for group in groups) else None


def words(group: CensusGroup) -> str:
    """Who holds it and what it is: `activations saved for backward by list 'losses' …`."""
    return _WORDS.get(group.category, "{owner}").format(owner=_place(group))


def _place(group: CensusGroup) -> str:
    """`list 'losses' global of __main__ (41 elements), grown at train.py:15`."""
    length = _length(group)
    if group.file is None or group.line is None or group.category not in _HELD_BY_NAME:
        return f"{group.owner}{length}"
    said = N_("{owner}, grown at {line}") if group.adds else N_("{owner}, in use at {line}")
    name = group.file.rsplit("/", 1)[-1]
    return said.format(owner=f"{group.owner}{length}", line=f"{name}:{group.line}")


def _length(group: CensusGroup) -> str:
    """` (41 elements)`, or how it grew between two failures."""
    if group.length is None:
        return ""
    if group.earlier_length is None or group.earlier_seconds is None or group.earlier_length >= group.length:
        return f" ({group.length} elements)"
    return f" (grew from {group.earlier_length} to {group.length} elements in {format_seconds(group.earlier_seconds)})"


def speaking_censuses(evidence: Evidence) -> Iterator[tuple[str, CensusDevice, DeviceOomRecord, Census]]:
    """Each device once: by the census of its own last failure, else by another device's, else by a library's."""
    counted: dict[int, tuple[CensusDevice, DeviceOomRecord, Census]] = {}
    records = sorted(speaking_records(evidence).values(), key=lambda record: -record.time_seconds)
    for own in (True, False):
        for record in records:
            for device in record.census.devices if record.census is not None else ():
                if (device.device == record.device) is own and record.census is not None:
                    counted.setdefault(device.device, (device, record, record.census))
    for record in library_records(evidence):
        for device in record.census.devices if record.census is not None else ():
            if record.census is not None:
                counted.setdefault(device.device, (device, record, record.census))
    for index, (device, record, census) in sorted(counted.items()):
        yield device_member(index), device, record, census
