"""The curves of a run: host memory from the sampler, device memory from NVML and from the allocator."""

from __future__ import annotations

from collections.abc import Iterable

from ..model.diagnosis import Series
from ..model.evidence import Evidence
from ..model.run import RunRecord
from .deriver import device_member
from .focus import focus
from .snapshot_views import snapshot_series
from .until import is_until_failure, points_until_failure, process_limit


def all_series(evidence: Evidence) -> tuple[Series, ...]:
    """Every curve with at least two points, each saying how it was sampled."""
    evidence = focus(evidence)
    of_runs = [series for run in evidence.runs for series in _of_run(run)]
    of_snapshots = [series for snapshot in evidence.snapshots for series in snapshot_series(snapshot)]
    return tuple(series for series in (*of_runs, *of_snapshots) if len(series.times_seconds) >= 2)


def _of_run(run: RunRecord) -> Iterable[Series]:
    interval = run.sample_interval_seconds
    how = f"every {interval:.2f} s by the sampler" if interval else "by the sampler"
    limits = run.limits
    for where, name, field, limit in (
        ("host", "resident memory of the command", "tree_rss_bytes", limits.memory_total_bytes),
        ("process limit", "largest virtual size", "tree_virtual_bytes", process_limit(run)),
        ("cgroup", "used in the cgroup", "cgroup_used_bytes", limits.cgroup_limit_bytes),
    ):
        points = points_until_failure(run, field)
        yield _series(where, name, points, how, limit)
    for device in sorted({reading.index for reading in run.device_readings}):
        readings = [r for r in run.device_readings if r.index == device and is_until_failure(run, r.time_seconds)]
        points = [
            (r.time_seconds, r.used_bytes) for r in readings if r.time_seconds is not None and r.used_bytes is not None
        ]
        total = next((r.total_bytes for r in readings if r.total_bytes is not None), None)
        yield _series(device_member(device), "used on the device", points, how, total)
    for device in sorted({state.device for state in run.allocator_states}):
        states = [s for s in run.allocator_states if s.device == device and is_until_failure(run, s.time_seconds)]
        total = next((s.total_bytes for s in states if s.total_bytes is not None), None)
        for name, field in (("allocated by torch", "allocated_bytes"), ("reserved by torch", "reserved_bytes")):
            points = [(s.time_seconds, v) for s in states if (v := getattr(s, field)) is not None]
            yield _series(device_member(device), name, points, "by the sampler inside the process", total)


def _series(where: str, name: str, points: list[tuple[float, int]], how: str, limit: int | None) -> Series:
    points = sorted(points)
    times = tuple(time for time, _ in points)
    return Series(where, name, times, tuple(size for _, size in points), how, limit)
