"""A snapshot as a trace in Chrome's JSON format, which ui.perfetto.dev and chrome://tracing open.

Per device: a counter of live bytes and of reserved ones, one slice an allocation, an instant an out-of-memory event,
what the program did, and what it annotated itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..allocator.owners import Ownership, ownership_of
from ..allocator.phases import phases
from ..allocator.purposes import CATEGORIES
from ..allocator.replay import BEFORE_RING
from ..allocator.stacks import is_python
from ..language import _
from ..model.snapshot import Frame, IntColumn, Snapshot
from .tables import stack_text

_Event = dict[str, Any]
_PHASES, _ANNOTATIONS = 1_000_001, 1_000_002
"""Tracks beside those of the devices, which are called by their numbers."""
_EXACT = 1 << 53
"""Viewers read every number as a double, which is exact below this: ids and addresses are hexadecimal text."""


def write_perfetto(snapshot: Snapshot, path: Path, least_bytes: int) -> None:
    """Write the trace. Allocations below `least_bytes` are in the counters, but have no slice of their own.

    Events without times, or with such as no clock has, are one microsecond apart: the trace says so in the names of its
    processes.
    Raises OSError when the file cannot be written.
    """
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.write('{"displayTimeUnit":"ms","traceEvents":[\n')
        for number, event in enumerate(_events(snapshot, least_bytes)):
            file.write((",\n" if number else "") + json.dumps(event, separators=(",", ":")))
        file.write("\n]}\n")


def _events(snapshot: Snapshot, least_bytes: int) -> Iterator[_Event]:
    for device in snapshot.devices:
        yield from _device(ownership_of(snapshot, device), least_bytes)


def _device(ownership: Ownership, least_bytes: int) -> Iterator[_Event]:
    allocator = ownership.replay
    trace, lifetimes, device = allocator.events, allocator.lifetimes, allocator.device
    timeline = trace.timeline_us
    timed = timeline is not None and int(timeline.max(initial=0)) < _EXACT
    # One more than events: what is still live ends where the recording does.
    times = timeline if timeline is not None and timed else np.arange(len(trace), dtype=np.int64)
    begin = int(times[0]) if len(times) else 0
    times = np.append(times, (int(times[-1]) if len(times) else 0) + 1)

    backend = ownership.snapshot.backend
    # torch calls the devices of both `cuda`.
    name = f"cuda:{device} (CUDA or HIP)" if backend == "cuda or hip" else f"{backend}:{device}"
    name += "" if timed else _(" (no times recorded: 1 µs an event)")
    yield {"ph": "M", "name": "process_name", "pid": device, "args": {"name": name}}
    counters = zip(times[:-1].tolist(), allocator.live_bytes.tolist(), allocator.reserved_bytes.tolist(), strict=True)
    yield _counter(device, begin, allocator.before_bytes, allocator.reserved_before_bytes)
    for time_us, live_bytes, reserved_bytes in counters:
        yield _counter(device, time_us, live_bytes, reserved_bytes)

    for row in np.flatnonzero(lifetimes.size_bytes >= least_bytes).tolist():
        reading = ownership.readings[int(ownership.kind[row])]
        start, stack = int(lifetimes.start[row]), int(lifetimes.stack[row])
        category = CATEGORIES[int(ownership.purposes.category[row])].value
        # Viewers join by category and id, whatever the process: a row of another device has another id.
        number = f"{device & _EXACT - 1:#x}{row:08x}"
        slice_ = {"cat": category, "name": reading.owner, "id": number, "pid": device, "tid": device}
        began = begin if start == BEFORE_RING else int(times[start])
        arguments: dict[str, Any] = {
            "bytes": int(lifetimes.size_bytes[row]),
            "address": f"{int(lifetimes.address[row]):#x}",
        }
        if stack >= 0:
            arguments["stack"] = _short(ownership.snapshot.stacks[stack])
        if start == BEFORE_RING:
            arguments["since"] = _("before the recording began")
        yield {**slice_, "ph": "b", "ts": began, "args": arguments}
        yield {**slice_, "ph": "e", "ts": int(times[int(lifetimes.end[row])])}

    yield from _named_stretches(ownership, times, timed)
    for oom in ownership.snapshot.ooms:
        if oom.device == device:
            yield {
                "ph": "i", "s": "p", "name": _("out of memory"), "pid": device, "tid": device,
                "ts": int(times[oom.event_index]),
                "args": {"requested_bytes": oom.requested_bytes, "free_bytes": oom.free_bytes},
            }  # fmt: skip


def _named_stretches(ownership: Ownership, times: IntColumn, timed: bool) -> Iterator[_Event]:
    """What the program did, and what it annotated itself: a track each."""
    device, last = ownership.replay.device, len(times) - 1
    for track, name in ((_PHASES, "phases"), (_ANNOTATIONS, "annotations")):
        yield {"ph": "M", "name": "thread_name", "pid": device, "tid": track, "args": {"name": name}}
    for each in phases(ownership):
        begin, end = int(times[each.begin]), int(times[min(each.end, last)])
        yield {
            "ph": "X", "cat": "phase", "name": each.name, "pid": device, "tid": _PHASES,
            "ts": begin, "dur": max(end - begin, 1), "args": {"how known": each.how_known},
        }  # fmt: skip
    for mark in ownership.snapshot.annotations if timed else ():
        end = int(times[-1]) if mark.end_us is None else mark.end_us
        if mark.device == device and max(mark.begin_us, end) < _EXACT:
            yield {
                "ph": "X", "cat": "annotation", "name": mark.name, "pid": device, "tid": _ANNOTATIONS,
                "ts": mark.begin_us, "dur": max(end - mark.begin_us, 1),
            }  # fmt: skip


def _short(stack: tuple[Frame, ...]) -> str:
    """Native frames are left out where there are others: a slice carries its stack each time anew."""
    return stack_text(tuple(filter(is_python, stack)) or stack)


def _counter(device: int, time_us: int, live_bytes: int, reserved_bytes: int) -> _Event:
    return {
        "ph": "C", "name": "allocator", "pid": device, "ts": time_us,
        "args": {_("live bytes"): live_bytes, _("idle bytes"): max(0, reserved_bytes - live_bytes)},
    }  # fmt: skip
