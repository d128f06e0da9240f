"""The course of a device's memory by what was printed of it: dated lines of a program, tables in a loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..language import N_
from ..model.devices import DeviceReading
from ..model.diagnosis import Budget, Course
from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.thinning import thinned
from .course_parts import UNDIVIDED, Parts
from .deriver import device_member, member_namer
from .device_budget import IDLE, IN_USE
from .device_course import process_courses

FREE = N_("free on the device")
_PRINTED = N_("as printed")
_MOST_TIMES = 400


def printed_courses(evidence: Evidence, budgets: Sequence[Budget]) -> Iterator[Course]:
    """A course for each device of which only figures over the whole were printed.

    Where a table tells processes apart they stay curves: they would be one colour. So do the ranks of one device.
    """
    by_device: dict[int, list[DeviceReading]] = {}
    for reading in evidence.devices:
        if reading.time_seconds is not None and reading.used_bytes is not None:
            by_device.setdefault(reading.index, []).append(reading)
    for device, readings in sorted(by_device.items()):
        yield from _of_table(device, sorted(readings, key=lambda reading: reading.time_seconds or 0.0))
    yield from _of_prints(evidence, {budget.where: budget.total_bytes for budget in budgets})


def _of_table(device: int, readings: Sequence[DeviceReading]) -> Iterator[Course]:
    total = next((reading.total_bytes for reading in readings if reading.total_bytes), None)
    if len(readings) < 2 or total is None or process_courses(readings):
        return
    used = np.asarray([reading.used_bytes for reading in readings], dtype=np.float64)
    chosen = thinned(used, _MOST_TIMES)
    parts = Parts(len(chosen))
    parts.add(IN_USE, used[chosen], _PRINTED)
    times = tuple(readings[place].time_seconds or 0.0 for place in chosen.tolist())
    yield Course(device_member(device), times, total, tuple(parts.closed(total, FREE, _PRINTED)), _PRINTED)


def _of_prints(evidence: Evidence, totals: dict[str, int]) -> Iterator[Course]:
    name_member = member_namer(evidence)
    told: dict[str, dict[int | None, list[tuple[float, int, int | None]]]] = {}
    for event in evidence.of_kind(EventKind.DEVICE_STATE):
        allocated = event.size("allocated_bytes")
        if event.time_seconds is not None and allocated is not None:
            ranks = told.setdefault(name_member(event.device), {})
            ranks.setdefault(event.rank, []).append((event.time_seconds, allocated, event.size("reserved_bytes")))
    for member, ranks in told.items():
        rows = sorted(next(iter(ranks.values())), key=lambda row: row[0])
        if len(ranks) > 1 or len(rows) < 2:
            continue
        live = np.asarray([allocated for _, allocated, _ in rows], dtype=np.float64)
        chosen = thinned(live, _MOST_TIMES)
        # A line that tells no such figure says nothing of what was idle.
        whole = all(reserved is not None and reserved >= allocated for _, allocated, reserved in rows)
        reserved = np.asarray([row[2] or 0 for row in rows], dtype=np.float64) if whole else live
        parts = Parts(len(chosen))
        parts.add(UNDIVIDED, live[chosen], _PRINTED)
        parts.add(IDLE, (reserved - live)[chosen], N_("computed: reserved - allocated"))
        top, total = int(reserved.max()), totals.get(member)
        yield Course(
            where=member,
            times_seconds=tuple(rows[place][0] for place in chosen.tolist()),
            total_bytes=max(top, total or 0),
            parts=tuple(parts.closed(max(top, total or 0), None)),
            how_sampled=_PRINTED,
            unseen=N_("not seen: contexts, other processes, what is free")
            if whole
            else N_("not seen: what is idle in the allocator, contexts, other processes, what is free"),
            total_known=total is not None and top <= total,
        )
