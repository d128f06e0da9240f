"""What the live tensors of a device are, as parts of its budget: by the census, else by the stacks of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..allocator.owners import (
    BY_SIZE,
    CATEGORY_PARTS,
    GRAPH_POOLS,
    OF_NO_KIND,
    WAITING,
    WITHOUT_STACK,
    WORKSPACE,
    Share,
)
from ..language import N_
from ..model.evidence import Evidence
from ..model.run import Census, CensusDevice, CensusGroup, DeviceOomRecord
from .census import speaking_censuses
from .closing import ROUNDING
from .device_records import snapshot_of
from .unheld import NOBODY, read_unheld

Part = tuple[str, int, str]
"""Name, bytes, how it is known."""

SAVED = N_("activations saved for backward")
RUNNING = N_("activations of running forward passes")
BY_VARIABLES = N_("held by variables and containers")
BY_NO_VARIABLE = N_("tensors that no variable leads to")
"""Also the owner's name in the census."""
UNDIVIDED = N_("live tensors of this process")

LIVE_RESTS = frozenset({NOBODY, OF_NO_KIND, UNDIVIDED})
"""What live bytes are called that nothing divides up."""

_OF_CENSUS: Mapping[str, str] = {
    "parameters": N_("weights and buffers"),
    "buffers": N_("weights and buffers"),
    "gradients": "gradients",
    "optimizer": N_("optimizer state"),
    "kv": N_("keys and values"),
    "saved-for-backward": SAVED,
    "activations": RUNNING,
    "logits": "logits",
    "batch": "batches",
    "other": BY_VARIABLES,
}
_BY_STACKS = N_("by the stacks of the snapshot")


@dataclass(frozen=True)
class Counted:
    """The live tensors of one device by a census."""

    pid: int
    parts: tuple[Part, ...]


def counted_parts(evidence: Evidence) -> dict[str, Counted]:
    """For each device with a census: categories as the probe counted them, then what no Python object leads to."""
    return {
        member: Counted(record.pid, (*_held(device, record, census), *_unheld(evidence, device, record, census)))
        for member, device, record, census in speaking_censuses(evidence)
    }


def part_of(group: CensusGroup) -> str:
    """The part of the budget that a holder's memory belongs to."""
    if group.owner == BY_NO_VARIABLE and group.category == "other":
        return BY_NO_VARIABLE
    return _OF_CENSUS.get(group.category, BY_VARIABLES)


def _held(device: CensusDevice, record: DeviceOomRecord, census: Census) -> tuple[Part, ...]:
    how = N_("counted by the probe")
    if device.allocated_bytes is None:
        how = N_("counted by the probe, by the sizes of tensors")
    if not census.complete:
        how += "; " + N_("cut short ({reason})").format(reason=census.stopped)
    sizes: dict[str, int] = {}
    for group in census.groups:
        if group.device == device.device:
            sizes[part_of(group)] = sizes.get(part_of(group), 0) + group.bytes
    return tuple((name, size, how) for name, size in sizes.items())


def _unheld(evidence: Evidence, device: CensusDevice, record: DeviceOomRecord, census: Census) -> tuple[Part, ...]:
    sizes: dict[tuple[str, str], int] = {}
    for blocks in read_unheld(device, snapshot_of(evidence, record)):
        how = blocks.how if census.complete else N_("{how}, as far as the census came").format(how=blocks.how)
        sizes[(blocks.part, how)] = sizes.get((blocks.part, how), 0) + blocks.bytes
    return tuple((name, size, how) for (name, how), size in sizes.items())


def live_parts(live: int, counted: Counted | None, shares: Sequence[Share] | None, told_by: str) -> tuple[Part, ...]:
    """The parts of `live` bytes; together they are at least as much (another thread may have taken some meanwhile)."""
    by_stacks = None if counted is not None else _by_stacks(live, shares)
    if counted is not None:
        parts, rest, how = counted.parts, NOBODY, N_("allocated before or after the census was taken")
    elif by_stacks is not None:
        parts, rest, how = by_stacks, OF_NO_KIND, N_("by the stacks of the snapshot, which tell no purpose")
    else:
        parts, rest, how = (), UNDIVIDED, N_("{told_by}; no census or snapshot says whose").format(told_by=told_by)
    left = live - sum(size for _, size, _ in parts)
    return (*parts, (rest, left, how)) if left > 0 else parts


def _by_stacks(live: int, shares: Sequence[Share] | None) -> tuple[Part, ...] | None:
    """What a snapshot's stacks tell; None without a snapshot, or where it is of another moment.

    A message rounds what was live: figures that differ by no more are of one moment.
    """
    if shares is None:
        return None
    sizes: dict[str, int] = {}
    for share in shares:
        if share.part != WAITING:
            sizes[share.part] = sizes.get(share.part, 0) + share.bytes
    known = sum(sizes.values())
    if known > live + ROUNDING * live:
        return None
    how = {
        WITHOUT_STACK: N_("computed from the snapshot"),
        OF_NO_KIND: N_("by the stacks of the snapshot, which tell no purpose"),
    }
    how |= {WORKSPACE: BY_SIZE, GRAPH_POOLS: N_("measured by the snapshot")}
    order = {part: place for place, part in enumerate(dict.fromkeys(CATEGORY_PARTS.values()))}
    ranked = sorted(sizes, key=lambda part: order.get(part, len(order)))
    return tuple((part, sizes[part], how.get(part, _BY_STACKS)) for part in ranked)
