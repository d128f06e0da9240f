"""A snapshot as plain tables: one a subject, columns of equal length, the same for every file format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..allocator.owners import ownership_of
from ..allocator.purposes import CATEGORIES, HOW_KNOWN
from ..allocator.replay import BEFORE_RING
from ..model.snapshot import ACTIONS, BLOCK_STATES, Frame, Snapshot

Column = Sequence[Any]


@dataclass(frozen=True)
class Table:
    """Columns by name, in the order they are written. A missing value is None."""

    name: str
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def allocations(snapshot: Snapshot) -> Table:
    """One row an allocation that the history or the final state shows.

    `start_event` is empty for what stood before the recording began, `end_event` for what is still live. Times are Unix
    microseconds, empty where the schema has none. `owner` is read from the
    stack, `category` from it, from when the block was freed and from what the program says: `category_known_by`.
    """
    parts = [_allocations_on(snapshot, device) for device in snapshot.devices]
    names = parts[0].keys() if parts else _allocations_on(snapshot, 0).keys()
    return Table("allocations", {name: [value for part in parts for value in part[name]] for name in names})


def events(snapshot: Snapshot) -> Table:
    """One row a recorded event, as torch wrote it; addresses and streams are unsigned 64-bit numbers."""
    columns: dict[str, list[Any]] = {
        name: []
        for name in ("device", "event", "action", "address", "size_bytes", "stream", "time_us", "stack", "note")
    }
    for trace in snapshot.events:
        columns["device"] += [trace.device] * len(trace)
        columns["event"] += range(len(trace))
        columns["action"] += [ACTIONS[code] for code in trace.action.tolist()]
        columns["address"] += trace.address.tolist()
        columns["size_bytes"] += trace.size_bytes.tolist()
        columns["stream"] += trace.stream.tolist()
        columns["time_us"] += _known(trace.time_us.tolist())
        columns["stack"] += _known(trace.stack.tolist())
        notes = [None] * len(trace) if trace.note is None else trace.note.tolist()
        columns["note"] += [snapshot.notes[note] if note is not None and note >= 0 else None for note in notes]
    return Table("events", columns)


def segments(snapshot: Snapshot) -> Table:
    """One row a segment of the final state."""
    rows = snapshot.segments
    return Table(
        "segments",
        {
            "segment": list(range(len(rows))),
            "device": rows.device.tolist(),
            "address": rows.address.tolist(),
            "total_bytes": rows.total_bytes.tolist(),
            "stream": rows.stream.tolist(),
            "is_small": rows.is_small.tolist(),
            "is_expandable": rows.is_expandable.tolist(),
            "is_private": rows.private_pool.tolist(),
            "stack": _known(rows.stack.tolist()),
        },
    )


def blocks(snapshot: Snapshot) -> Table:
    """One row a block of the final state; `segment` is a row of the table of segments."""
    rows = snapshot.blocks
    return Table(
        "blocks",
        {
            "segment": rows.segment.tolist(),
            "device": snapshot.segments.device[rows.segment].tolist(),
            "address": rows.address.tolist(),
            "size_bytes": rows.size_bytes.tolist(),
            "requested_bytes": rows.requested_bytes.tolist(),
            "state": [BLOCK_STATES[code] for code in rows.state.tolist()],
            "stack": _known(rows.stack.tolist()),
        },
    )


def stacks(snapshot: Snapshot) -> Table:
    """One row a frame; `depth` 0 is the innermost. `line` is empty for a native frame without one."""
    rows = [(number, depth, frame) for number, stack in enumerate(snapshot.stacks) for depth, frame in enumerate(stack)]
    return Table(
        "stacks",
        {
            "stack": [number for number, _, _ in rows],
            "depth": [depth for _, depth, _ in rows],
            "function": [frame.function for _, _, frame in rows],
            "file": [frame.file for _, _, frame in rows],
            "line": [frame.line or None for _, _, frame in rows],
        },
    )


TABLES: Mapping[str, Callable[[Snapshot], Table]] = {
    "allocations": allocations,
    "events": events,
    "segments": segments,
    "blocks": blocks,
    "stacks": stacks,
}


def stack_text(stack: tuple[Frame, ...]) -> str:
    """A stack in one cell, innermost frame first."""
    return " < ".join(f"{frame.function} ({frame.file}:{frame.line})" for frame in stack)


def _allocations_on(snapshot: Snapshot, device: int) -> dict[str, list[Any]]:
    ownership = ownership_of(snapshot, device)
    lifetimes, trace = ownership.replay.lifetimes, ownership.replay.events
    begun, ended = lifetimes.start != BEFORE_RING, lifetimes.end < len(trace)
    times = np.append(trace.time_us, -1)  # the last stands for "no such event"
    owners, purposes = [reading.owner for reading in ownership.readings], ownership.purposes
    return {
        "device": [device] * len(lifetimes),
        "start_event": _where(lifetimes.start.tolist(), begun.tolist()),
        "end_event": _where(lifetimes.end.tolist(), ended.tolist()),
        "start_time_us": _known(times[np.where(begun, lifetimes.start, -1)].tolist()),
        "end_time_us": _known(times[np.where(ended, lifetimes.end, -1)].tolist()),
        "size_bytes": lifetimes.size_bytes.tolist(),
        "owner": [owners[kind] for kind in ownership.kind.tolist()],
        "category": [CATEGORIES[number].value for number in purposes.category.tolist()],
        "category_known_by": [HOW_KNOWN[number] or "recorded stack" for number in purposes.how.tolist()],
        "stack": _known(lifetimes.stack.tolist()),
    }


def _known(values: list[int]) -> list[int | None]:
    """-1 stands for what is not recorded."""
    return [value if value >= 0 else None for value in values]


def _where(values: list[int], holds: list[bool]) -> list[int | None]:
    return [value if true else None for value, true in zip(values, holds, strict=True)]
