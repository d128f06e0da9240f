"""What a process holds of a device beside its allocator's segments: one figure for the budget and the timeline.

The driver is asked at one moment and the allocator at another. A look soon after the allocator's figure shows at least
the context, and what was reserved in between; a context grows as libraries load and gives nothing back. So at any time
it is the least that any later look leaves room for; a failure, at which both are read at once, tells it exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..model.run import RunRecord
from .device_records import reading_at_failure

_SOON_SECONDS = 1.0
"""A later look than this says nothing of what the allocator had."""


def context_bytes(run: RunRecord, index: int, pid: int | None) -> tuple[list[float], list[float]] | None:
    """(seconds, bytes) of a process on a device, in order; None where the two were never seen about the same time."""
    found = sorted([*_bounds(run, index, pid), *_exact(run, index, pid)])
    if not found:
        return None
    sizes = np.minimum.accumulate([size for _, size in reversed(found)])[::-1]
    return [when for when, _ in found], sizes.tolist()


def context_at(run: RunRecord, index: int, pid: int | None, when_seconds: float) -> int | None:
    """The same at one moment."""
    found = context_bytes(run, index, pid)
    return None if found is None else round(float(np.interp(when_seconds, *found)))


def _bounds(run: RunRecord, index: int, pid: int | None) -> Iterator[tuple[float, float]]:
    looks = [
        (reading.time_seconds, one.used_bytes)
        for reading in run.device_readings
        if reading.index == index and reading.time_seconds is not None
        for one in reading.processes or ()
        if one.pid == pid and one.used_bytes is not None
    ]
    looks.sort()
    times = [when for when, _ in looks]
    for state in run.allocator_states:
        if (state.pid, state.device) != (pid, index) or state.reserved_bytes is None:
            continue
        place = int(np.searchsorted(times, state.time_seconds))
        if place == len(looks) or looks[place][0] - state.time_seconds > _SOON_SECONDS:
            continue
        left = looks[place][1] - state.reserved_bytes
        if left >= 0:
            yield looks[place][0], float(left)


def _exact(run: RunRecord, index: int, pid: int | None) -> Iterator[tuple[float, float]]:
    for record in run.device_ooms:
        if (record.pid, record.device) != (pid, index) or record.state is None or record.state.reserved_bytes is None:
            continue
        reading = reading_at_failure(run, record)
        own = next((one.used_bytes for one in (reading.processes if reading else None) or () if one.pid == pid), None)
        if own is not None and own >= record.state.reserved_bytes:
            yield record.time_seconds, float(own - record.state.reserved_bytes)
