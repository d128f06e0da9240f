"""Blocks in use that no Python object leads to: what they are, by their size, their pool and their stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..allocator.owners import BY_SIZE, CUBLAS_WORKSPACE_BYTES, WORKSPACE
from ..allocator.stacks import FORWARD, Category, StackReading, read_stack
from ..language import N_
from ..model.run import CensusDevice
from ..model.snapshot import Snapshot
from ..model.source import KnownBy

NOBODY = N_("no Python object leads to them")
IN_GRAPH_POOLS = N_("in graph pools, no Python object leads to them")
_PARTS = {
    Category.WEIGHTS: N_("weights in flight"),
    Category.GRADIENT: N_("gradients in flight"),
    Category.OPTIMIZER_STATE: N_("temporaries of the optimizer"),
    Category.KV_APPEND: N_("keys and values in flight"),
    Category.COMMUNICATION: N_("communication buffers"),
    Category.COPY: N_("copies in flight"),
    **dict.fromkeys(FORWARD, N_("activations in flight")),
}

_BY_STACK = N_("stack of the allocation; no Python object leads to it")
_BY_POOL = N_("a private pool; no Python object leads to it")
_UNNAMED = N_("no stack was recorded, and no Python object leads to it")


@dataclass(frozen=True)
class Unheld:
    """Blocks of one kind."""

    part: str
    """Their name in a budget."""
    owner: str
    """The line that allocated them, or what stands in its place."""
    category: Category
    bytes: int
    count: int
    how: str

    @property
    def known_by(self) -> KnownBy:
        """What tells the part."""
        if self.part == NOBODY:
            return KnownBy.NOT_KNOWN
        return KnownBy.STACKS if self.how == _BY_STACK else KnownBy.ALLOCATOR


def read_unheld(device: CensusDevice, snapshot: Snapshot | None) -> tuple[Unheld, ...]:
    """What a snapshot says of the blocks that a census found no holder of; together they are all of them."""
    left, number = device.unheld_bytes or 0, device.unheld_count or 0
    found: dict[tuple[str, str, Category, str], list[int]] = {}
    if snapshot is not None:
        readings: dict[int, StackReading] = {}
        for row in _rows(snapshot, device):
            kind, size = _kind(snapshot, row, readings), int(snapshot.blocks.size_bytes[row])
            if kind is None or size > left:
                continue
            held = found.setdefault(kind, [0, 0])
            held[0] += size
            held[1] += 1
            left, number = left - size, max(0, number - 1)
    if left > 0:
        found[(NOBODY, N_("no stack was recorded"), Category.UNKNOWN, _UNNAMED)] = [left, max(1, number)]
    return tuple(
        Unheld(part, owner, category, size, count, how) for (part, owner, category, how), (size, count) in found.items()
    )


def _rows(snapshot: Snapshot, device: CensusDevice) -> Sequence[int]:
    """The blocks that are listed by their address."""
    wanted = np.asarray(device.unheld_addresses, dtype=np.uint64)
    mine = snapshot.segments.device[snapshot.blocks.segment] == device.device
    rows: list[int] = np.flatnonzero(
        mine & (snapshot.blocks.state == 1) & np.isin(snapshot.blocks.address, wanted)
    ).tolist()
    return rows


def _kind(snapshot: Snapshot, row: int, readings: dict[int, StackReading]) -> tuple[str, str, Category, str] | None:
    """Part, owner, category and how that is known; None where nothing tells."""
    stack = int(snapshot.blocks.stack[row])
    if stack >= 0 and stack not in readings:
        readings[stack] = read_stack(snapshot.stacks[stack])
    reading = readings.get(stack)
    if int(snapshot.blocks.requested_bytes[row]) == CUBLAS_WORKSPACE_BYTES:
        return WORKSPACE, "workspace of cuBLAS", Category.OTHER, BY_SIZE
    if snapshot.segments.private_pool[snapshot.blocks.segment[row]]:
        owner = reading.owner if reading is not None else N_("in a private pool")
        return IN_GRAPH_POOLS, owner, Category.OTHER, _BY_POOL
    if reading is None:
        return None
    return _PARTS.get(reading.category, NOBODY), reading.owner, reading.category, _BY_STACK
