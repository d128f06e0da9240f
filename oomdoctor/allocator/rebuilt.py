"""The state in which a request failed, rebuilt backwards where the snapshot was written later.

A program that catches the error writes its snapshot once the exception has unwound the stack: what its frames held is
freed by then. Segments come from undoing what came and went after the failure, blocks from the lifetimes that reach
over it; what is in no block is idle. The result is a snapshot like any other, of that moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..language import N_
from ..model.snapshot import ACTIONS, Blocks, IntColumn, Segments, Snapshot
from .consistency import broken_segments
from .replay import replay
from .request import settings_of
from .simulation.memory_map import Area, areas_before

_UNKNOWN = ACTIONS.index("unknown")
_FREE = ACTIONS.index("free_completed")


@dataclass(frozen=True)
class StateThen:
    """A device's allocator as it was after an event."""

    snapshot: Snapshot | None
    """The snapshot itself where nothing changed since; None: it cannot be rebuilt."""
    undone: int = 0
    """So many events came after it and were undone."""
    why_not: str = ""
    may_be_more_bytes: int = 0
    """By how much what is live may be more, and what is idle less: see `Lifetimes.may_be_more`."""


def state_after(snapshot: Snapshot, device: int, event: int) -> StateThen:
    """Of `device` after `event`."""
    key = (f"state after {event}", device)
    found: StateThen | None = snapshot.derived.get(key)
    if found is None:
        found = snapshot.derived[key] = _state_after(snapshot, device, event)
    return found


def _state_after(snapshot: Snapshot, device: int, event: int) -> StateThen:
    allocator = replay(snapshot, device)
    if allocator.is_final(event):
        return StateThen(snapshot)
    undone = len(allocator.events) - 1 - event
    if broken_segments(snapshot, device):
        return StateThen(None, undone, N_("the final state is not one that an allocator can be in"))
    if allocator.live_at(event) and not (snapshot.segments.device == device).any() and not allocator.reserved_at(event):
        return StateThen(None, undone, N_("the snapshot tells no segments"))
    if allocator.disagreement.total:
        return StateThen(None, undone, N_("the events contradict the final state"))
    if (allocator.events.action[event + 1 :] == _UNKNOWN).any():
        return StateThen(None, undone, N_("events of a kind that is not known came after it"))
    settings = settings_of(snapshot, device)
    areas, contradictions = areas_before(snapshot, allocator.events, settings, event + 1)
    blocks = _blocks(snapshot, device, event, areas)
    if contradictions or blocks is None:
        return StateThen(None, undone, N_("what came and went after it does not fit the final state"))
    then = replace(snapshot, segments=_segments(snapshot, device, areas), blocks=blocks)
    lives = allocator.lifetimes
    may_be_more = sum(more for row, more in lives.may_be_more.items() if lives.end[row] > event)
    return StateThen(then, undone, may_be_more_bytes=may_be_more)


def _segments(snapshot: Snapshot, device: int, areas: tuple[Area, ...]) -> Segments:
    now = snapshot.segments
    rows = np.flatnonzero(now.device == device).tolist()
    stack_of = {int(now.address[row]): int(now.stack[row]) for row in rows}
    pool: IntColumn = np.asarray([area.pool for area in areas], dtype=np.int64)
    return Segments(
        device=np.full(len(areas), device, dtype=np.int64),
        address=np.asarray([area.address for area in areas], dtype=np.uint64),
        total_bytes=np.asarray([area.size_bytes for area in areas], dtype=np.int64),
        stream=np.asarray([area.stream for area in areas], dtype=np.uint64),
        is_small=np.asarray([area.small for area in areas], dtype=np.bool_),
        is_expandable=np.asarray([area.expandable for area in areas], dtype=np.bool_),
        private_pool=pool != 0,
        stack=np.asarray([stack_of.get(area.address, -1) for area in areas], dtype=np.int64),
        pool=pool,
    )


def _blocks(snapshot: Snapshot, device: int, event: int, areas: tuple[Area, ...]) -> Blocks | None:
    """Live blocks and the idle ones between them; None where a block lies in no segment, or two in one place."""
    allocator = replay(snapshot, device)
    lifetimes, events = allocator.lifetimes, allocator.events
    rows = np.flatnonzero(lifetimes.live_after(event))
    rows = rows[np.argsort(lifetimes.address[rows], kind="stable")]
    begin = np.asarray([area.address for area in areas], dtype=np.uint64)
    total = np.asarray([area.size_bytes for area in areas], dtype=np.int64)
    address, size = lifetimes.address[rows], lifetimes.size_bytes[rows]
    owner = np.searchsorted(begin, address, side="right") - 1
    if len(rows) and (int(owner.min()) < 0 or not len(areas)):
        return None
    offset = (address - begin[owner]).astype(np.int64)
    if (offset + size > total[owner]).any():
        return None
    # What is idle lies before each live block and behind the last of each segment.
    every = np.concatenate([owner, np.arange(len(areas))])
    at = np.concatenate([offset, total])
    length = np.concatenate([size, np.zeros(len(areas), dtype=np.int64)])
    row = np.concatenate([rows, np.full(len(areas), -1, dtype=np.int64)])
    order = np.lexsort((at, every))
    every, at, length, row = every[order], at[order], length[order], row[order]
    end_before = np.zeros(len(order), dtype=np.int64)
    end_before[1:] = np.where(every[1:] == every[:-1], (at + length)[:-1], 0)
    gap = at - end_before
    if (gap < 0).any():
        return None
    idle, live = np.flatnonzero(gap > 0), np.flatnonzero(row >= 0)
    lives = row[live]
    final = lifetimes.block[lives]
    # Events tell what was asked for; a block that is live still tells it itself.
    told = np.minimum(lifetimes.end[lives], len(events) - 1)
    told = np.where(events.action[told] == _FREE, told, np.maximum(lifetimes.start[lives], 0))
    requested = events.size_bytes[told].copy()
    requested[final >= 0] = snapshot.blocks.requested_bytes[final[final >= 0]]
    none = np.zeros(len(idle), dtype=np.int64)
    segment = np.concatenate([every[live], every[idle]])
    start = np.concatenate([at[live], end_before[idle]])
    order = np.lexsort((start, segment))
    waits = allocator.pending_after(event)[lives]

    def column(of_live: IntColumn, of_idle: IntColumn) -> IntColumn:
        return np.concatenate([of_live, of_idle])[order]

    return Blocks(
        segment=segment[order],
        address=(begin[segment] + start.astype(np.uint64))[order],
        size_bytes=column(length[live], gap[idle]),
        requested_bytes=column(requested, none),
        state=column(np.where(waits, 2, 1), none),
        stack=column(lifetimes.stack[lives], none - 1),
    )
