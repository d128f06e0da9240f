"""The curves: host memory from the sampler, device memory from NVML, from the allocator and from tables in a loop."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from ..language import N_
from ..model.devices import DeviceReading
from ..model.diagnosis import Series
from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.run import RunRecord
from ..model.units import format_seconds
from .deriver import device_member, member_namer
from .device_course import process_courses
from .devices import name_of
from .focus import focus
from .snapshot_views import snapshot_series
from .until import is_until_failure, points_until_failure, process_limit

_MOST_PROCESSES = 3
"""Of those on a device, the largest: more curves cannot be told apart in one picture."""
_MOST_PRINTED = 16
"""Two for each of eight ranks."""


def all_series(evidence: Evidence) -> tuple[Series, ...]:
    """Every curve with at least two points, each saying how it was sampled."""
    evidence = focus(evidence)
    printed = [*_of_tables(evidence), *_of_prints(evidence)]
    of_runs = [series for run in evidence.runs for series in _of_run(run)]
    of_snapshots = [series for snapshot in evidence.snapshots for series in snapshot_series(snapshot)]
    return tuple(series for series in (*of_runs, *printed, *of_snapshots) if len(series.times_seconds) >= 2)


def _of_run(run: RunRecord) -> Iterable[Series]:
    interval = run.sample_interval_seconds
    how = (
        N_("every {interval} s by the sampler").format(interval=f"{interval:.2f}") if interval else N_("by the sampler")
    )
    limits = run.limits
    for where, name, field, limit in (
        ("host", N_("resident memory of the command"), "tree_rss_bytes", limits.memory_total_bytes),
        (N_("largest process"), N_("largest virtual size"), "tree_virtual_bytes", process_limit(run)),
        ("cgroup", N_("used in the cgroup"), "cgroup_used_bytes", limits.cgroup_limit_bytes),
    ):
        points = points_until_failure(run, field)
        yield _series(where, name, points, how, limit)
    for device in sorted({reading.index for reading in run.device_readings}):
        readings = [r for r in run.device_readings if r.index == device and is_until_failure(run, r.time_seconds)]
        points = [
            (r.time_seconds, r.used_bytes) for r in readings if r.time_seconds is not None and r.used_bytes is not None
        ]
        total = next((r.total_bytes for r in readings if r.total_bytes is not None), None)
        yield _series(device_member(device), N_("used on the device"), points, how, total)
    for device in sorted({state.device for state in run.allocator_states}):
        states = [s for s in run.allocator_states if s.device == device and is_until_failure(run, s.time_seconds)]
        total = next((s.total_bytes for s in states if s.total_bytes is not None), None)
        for name, field in ((N_("allocated by torch"), "allocated_bytes"), (N_("reserved by torch"), "reserved_bytes")):
            points = [(s.time_seconds, v) for s in states if (v := getattr(s, field)) is not None]
            yield _series(device_member(device), name, points, N_("by the sampler inside the process"), total)


def _of_tables(evidence: Evidence) -> Iterable[Series]:
    """What nvidia-smi and the like printed of each device in a loop, where its lines are dated."""
    by_device: dict[int, list[DeviceReading]] = {}
    for reading in evidence.devices:
        if reading.time_seconds is not None:
            by_device.setdefault(reading.index, []).append(reading)
    for device, readings in sorted(by_device.items()):
        total = next((r.total_bytes for r in readings if r.total_bytes is not None), None)
        used = [(r.time_seconds or 0.0, r.used_bytes) for r in readings if r.used_bytes is not None]
        yield _series(device_member(device), N_("used on the device"), used, _interval(used), total)
        courses = sorted(process_courses(readings), key=lambda one: -max(size for _, size in one[1]))
        for process, points in courses[:_MOST_PROCESSES]:
            yield _series(device_member(device), name_of(process), points, _interval(points), total)


def _of_prints(evidence: Evidence) -> Iterable[Series]:
    """What torch's allocator held, and the host, by the program's own prints, where their lines are dated.

    Each rank by itself; the host's memory is one for all of them.
    """
    name_member = member_namer(evidence)
    told: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for event in evidence.of_kind(EventKind.DEVICE_STATE):
        rank = "" if event.rank is None else f" in rank {event.rank}"
        for field, name in (("allocated_bytes", N_("allocated by torch")), ("reserved_bytes", N_("reserved by torch"))):
            size = event.size(field)
            if event.time_seconds is not None and size is not None:
                key = (name_member(event.device), f"{name}{rank}")
                told.setdefault(key, []).append((event.time_seconds, size))
    on_host = [
        (event.time_seconds, used)
        for event in evidence.of_kind(EventKind.HOST_STATE)
        if event.time_seconds is not None and (used := event.size("used_bytes")) is not None
    ]
    yield _series("host", N_("used on the host"), on_host, _interval(on_host), None)
    for (member, name), points in list(told.items())[:_MOST_PRINTED]:
        yield _series(member, name, points, _interval(points), None)


def _interval(points: list[tuple[float, int]]) -> str:
    times = sorted(time for time, _ in points)
    gaps = sorted(after - before for before, after in pairwise(times))
    return (
        N_("about every {gaps} as printed").format(gaps=format_seconds(gaps[len(gaps) // 2]))
        if gaps
        else N_("as printed")
    )


def _series(where: str, name: str, points: list[tuple[float, int]], how: str, limit: int | None) -> Series:
    points = sorted(points)
    times = tuple(time for time, _ in points)
    return Series(where, name, times, tuple(size for _, size in points), how, limit)
