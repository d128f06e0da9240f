"""owner.*: who held device memory when a request failed, by the probe's census of the process's objects.

The census names holders, by address, of blocks that the snapshot lists; what no Python object leads to is told by the
stack that allocated it, where there is one. So each block counts once, and the parts add up to what was allocated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ..allocator.stacks import FORWARD, Category, StackReading, read_stack
from ..model.diagnosis import Holding
from ..model.evidence import Evidence
from ..model.facts import FactSet, Scope
from ..model.run import Census, CensusDevice, CensusGroup, DeviceOomRecord
from ..model.snapshot import Snapshot
from ..model.units import format_bytes, format_seconds
from .deriver import computed, device_member
from .incidents import latest_device_records

_CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "owner.weights_bytes": ("parameters", "buffers"),
    "owner.gradients_bytes": ("gradients",),
    "owner.optimizer_bytes": ("optimizer",),
    "owner.kv_bytes": ("kv",),
    "owner.activations_bytes": ("activations", "saved-for-backward"),
    "owner.logits_bytes": ("logits",),
}
_OF_STACKS: Mapping[Category, str] = {
    Category.WEIGHTS: "owner.weights_bytes",
    Category.GRADIENT: "owner.gradients_bytes",
    Category.OPTIMIZER_STATE: "owner.optimizer_bytes",
    Category.KV_APPEND: "owner.kv_bytes",
    **dict.fromkeys(FORWARD, "owner.activations_bytes"),
    Category.LOGITS: "owner.logits_bytes",
}
_HELD_BY_NAME = frozenset({"kv", "activations", "logits", "saved-for-backward", "other"})
_MOST_OWNERS = 20
_WORDS = {
    "saved-for-backward": "activations saved for backward by {}",
    "activations": "activations in {}",
    "logits": "logits in {}",
    "parameters": "parameters of {}",
    "optimizer": "state of {}",
    "kv": "keys and values in {}",
    "buffers": "buffers of {}",
}
_FEWEST_HELD = 0.02


@dataclass(frozen=True)
class _Rest:
    """Blocks that nobody in Python holds, as the stacks tell them: bytes and blocks of each reading."""

    by_owner: Mapping[str, tuple[int, int]]
    by_fact: Mapping[str, int]


def derive(evidence: Evidence, facts: FactSet) -> None:
    """Facts of each device that a census of its latest failure describes."""
    for member, device, record, census in _censuses(evidence):
        source = census.source
        groups = [group for group in census.groups if group.device == device.device]
        rest = _rest(evidence, record, device)
        for name, categories in _CATEGORIES.items():
            held = sum(group.bytes for group in groups if group.category in categories) + rest.by_fact.get(name, 0)
            facts.put(name, held or (0 if census.complete else None), source, member)
        saved = sum(group.saved_bytes for group in groups)
        facts.put("owner.saved_for_backward_bytes", saved, source, member)
        facts.put("owner.unheld_bytes", device.unheld_bytes, source, member)
        together = _together(groups)
        if not together:
            continue
        top = together[0]
        facts.put("owner.top", _words(top.first), source, member)
        facts.put("owner.top_bytes", top.bytes, source, member)
        holder = next((one for one in together if one.first.category in _HELD_BY_NAME), None)
        if holder is None or holder.bytes < _FEWEST_HELD * sum(group.bytes for group in groups):
            continue
        facts.put("owner.holder", _place(holder.first), source, member)
        facts.put("owner.holder_bytes", holder.bytes, source, member)
        facts.put("owner.holder_saved_bytes", holder.saved, source, member)
        facts.put("owner.holder_length", holder.first.length, source, member)
        facts.put("owner.holder_is_container", holder.first.length is not None, source, member)
        facts.put("owner.holder_is_kv", holder.first.category == "kv", source, member)


def derive_holder(_evidence: Evidence, facts: FactSet) -> None:
    """Who keeps what grew, once growth is known: by the census, else by the stack.

    Where no history was recorded, whether something grew is not known; what holds most is.
    """
    for member in facts.members(Scope.DEVICE):
        if facts.value("growth.steady", member) is False:
            continue
        facts.put("growth.holder", _holder_of_growth(member, facts), computed("owner.holder"), member)
        stack, size = facts.value("growth.top_stack", member), facts.value("growth.top_stack_bytes", member)
        if isinstance(stack, str) and isinstance(size, int):
            blocks = f"{format_bytes(size)} in {facts.value('growth.top_stack_count', member)} blocks"
            facts.put("growth.holder", f"{stack} ({blocks})", computed("growth.top_stack"), member)


def _holder_of_growth(member: str, facts: FactSet) -> str | None:
    """What keeps the steady growth of a device, in words: the holder by the census, if it holds enough."""
    holder, size = facts.value("owner.holder", member), facts.value("owner.holder_bytes", member)
    gained, saved = facts.value("growth.bytes", member), facts.value("owner.holder_saved_bytes", member)
    if not isinstance(holder, str) or not isinstance(size, int):
        return None
    if isinstance(gained, int) and size < gained / 2:
        return None
    if isinstance(saved, int) and 2 * saved > size:
        graphs = "the graphs of its elements" if facts.value("owner.holder_is_container", member) else "its graph"
        own = f" beside {format_bytes(size - saved)} of its own" if size - saved > _FEWEST_HELD * size else ""
        return f"{holder}, keeps {graphs}: {format_bytes(saved)} saved for backward{own}"
    return f"{holder}, holds {format_bytes(size)}"


def census_holdings(evidence: Evidence) -> dict[str, tuple[Holding, ...]]:
    """For each device with a census: its owners, then the stacks of what nobody in Python holds; they add up."""
    found = {}
    for member, device, record, census in _censuses(evidence):
        how = "census by the probe" if census.complete else f"census by the probe, cut short ({census.stopped})"
        groups = sorted((g for g in census.groups if g.device == device.device), key=lambda g: -g.bytes)
        rows = [Holding(member, _words(group), group.bytes, group.count, how) for group in groups[:_MOST_OWNERS]]
        small = groups[_MOST_OWNERS:]
        if small:
            size, count = sum(group.bytes for group in small), sum(group.count for group in small)
            rows.append(Holding(member, f"{len(small)} other owners", size, count, "sum of the smaller rows"))
        for owner, (size, count) in _rest(evidence, record, device).by_owner.items():
            rows.append(Holding(member, f"no Python object; {owner}", size, count, "stack of the allocation"))
        if rows:
            found[member] = tuple(rows)
    return found


@dataclass(frozen=True)
class _Holder:
    """One owner with all that is counted to it, in whatever category."""

    first: CensusGroup
    bytes: int
    saved: int


def _together(groups: list[CensusGroup]) -> list[_Holder]:
    """Owners, largest first. What a list holds itself and what autograd keeps for it is one; so are optimizer slots."""
    by_owner: dict[tuple[str, str | None, bool], list[CensusGroup]] = {}
    for group in groups:
        named = group.category in _HELD_BY_NAME
        by_owner.setdefault((group.owner, group.file, named), []).append(group)
    holders = [
        _Holder(
            first=max(held, key=lambda group: group.bytes),
            bytes=sum(group.bytes for group in held),
            saved=sum(group.saved_bytes for group in held),
        )
        for held in by_owner.values()
    ]
    return sorted(holders, key=lambda holder: -holder.bytes)


def _words(group: CensusGroup) -> str:
    return _WORDS.get(group.category, "{}").format(_place(group))


def _place(group: CensusGroup) -> str:
    """`list 'losses' global of __main__ (41 elements), grown at train.py:15`."""
    length = _length(group)
    if group.file is None or group.line is None or group.category not in _HELD_BY_NAME:
        return f"{group.owner}{length}"
    where = "grown at" if group.adds else "in use at"
    name = group.file.rsplit("/", 1)[-1]
    return f"{group.owner}{length}, {where} {name}:{group.line}"


def _length(group: CensusGroup) -> str:
    """` (41 elements)`, or how it grew between two failures."""
    if group.length is None:
        return ""
    if group.earlier_length is None or group.earlier_seconds is None or group.earlier_length >= group.length:
        return f" ({group.length} elements)"
    return f" (grew from {group.earlier_length} to {group.length} elements in {format_seconds(group.earlier_seconds)})"


def _censuses(evidence: Evidence) -> Iterator[tuple[str, CensusDevice, DeviceOomRecord, Census]]:
    """Each device once: by the census of its own last failure, else by that of another device's."""
    counted: dict[int, tuple[CensusDevice, DeviceOomRecord, Census]] = {}
    records = latest_device_records(evidence)
    for own in (True, False):
        for record in reversed(records):
            for device in record.census.devices if record.census is not None else ():
                if (device.device == record.device) is own and record.census is not None:
                    counted.setdefault(device.device, (device, record, record.census))
    for index, (device, record, census) in sorted(counted.items()):
        yield device_member(index), device, record, census


def _rest(evidence: Evidence, record: DeviceOomRecord, device: CensusDevice) -> _Rest:
    """What the stacks of the snapshot say of blocks without a holder; of those not listed, only how many they are."""
    size, count = device.unheld_bytes or 0, device.unheld_count or 0
    by_owner: dict[str, tuple[int, int]] = {}
    by_fact: dict[str, int] = {}
    snapshot = _snapshot(evidence, record)
    if snapshot is not None and device.unheld_addresses:
        wanted = np.asarray(device.unheld_addresses, dtype=np.uint64)
        mine = snapshot.segments.device[snapshot.blocks.segment] == device.device
        chosen = np.flatnonzero(mine & (snapshot.blocks.state == 1) & np.isin(snapshot.blocks.address, wanted))
        readings: dict[int, StackReading] = {}
        for row in chosen.tolist():
            stack, held = int(snapshot.blocks.stack[row]), int(snapshot.blocks.size_bytes[row])
            if stack < 0 or held > size:
                continue
            reading = readings.get(stack)
            if reading is None:
                reading = readings[stack] = read_stack(snapshot.stacks[stack])
            bytes_before, count_before = by_owner.get(reading.owner, (0, 0))
            by_owner[reading.owner] = bytes_before + held, count_before + 1
            fact = _OF_STACKS.get(reading.category)
            if fact is not None:
                by_fact[fact] = by_fact.get(fact, 0) + held
            size, count = size - held, max(0, count - 1)
    if size > 0:
        by_owner["no stack was recorded"] = size, max(1, count)
    return _Rest(by_owner, by_fact)


def _snapshot(evidence: Evidence, record: DeviceOomRecord) -> Snapshot | None:
    if record.snapshot_path is None:
        return None
    return next((one for one in evidence.snapshots if one.path.endswith(record.snapshot_path)), None)
