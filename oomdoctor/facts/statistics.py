"""allocator.*: the allocator's own counters, from `memory_summary()` and the like or from the probe's samples."""

from __future__ import annotations

from bisect import bisect_right

from ..language import N_
from ..model.devices import DeviceReading
from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.run import AllocatorState, RunRecord
from ..model.source import Source
from .deriver import computed, device_member, member_namer
from .steadiness import steady_rise
from .until import is_until_failure

_OFTEN = 6
"""So many equal prints show that live memory stood level."""
_PRINTED = ("peak_allocated_bytes", "peak_reserved_bytes", "non_releasable_bytes")


def derive(evidence: Evidence, facts: FactSet) -> None:
    """The probe's last state of each device, then the last table of the log."""
    for run in reversed(evidence.runs):
        for device in sorted({state.device for state in run.allocator_states}):
            states = [state for state in run.allocator_states if state.device == device]
            _put_states(
                states,
                device_member(device),
                Source(path=run.path, record=N_("allocator of {device}").format(device=device_member(device))),
                facts,
            )
    name_member = member_namer(evidence)
    for event in reversed(evidence.of_kind(EventKind.DEVICE_STATE)):
        member = name_member(event.device)
        for name in _PRINTED:
            facts.put(f"allocator.{name}", event.size(name), event.source, member)
        facts.put("allocator.retries", event.size("retries"), event.source, member)
        active, allocated = event.size("active_bytes"), event.size("allocated_bytes")
        if active is not None and allocated is not None:
            facts.put("allocator.pending_free_bytes", max(0, active - allocated), event.source, member)
    _put_printed_growth(evidence, facts)
    for run in evidence.runs:
        _put_growth_outside_torch(run, facts)
    for member in _failed_members(facts):
        held, live = facts.value("oom.active_bytes", member), facts.value("oom.allocated_bytes", member)
        if isinstance(held, int) and isinstance(live, int):
            source = computed("oom.active_bytes", "oom.allocated_bytes")
            facts.put("allocator.pending_free_bytes", max(0, held - live), source, member)


def _put_printed_growth(evidence: Evidence, facts: FactSet) -> None:
    """Allocated bytes as the program printed them again and again: the points are the prints, in order."""
    name_member = member_namer(evidence)
    printed: dict[str, list[tuple[float, int]]] = {}
    sources: dict[str, Source] = {}
    repeated: dict[str, set[int]] = {}
    for event in evidence.of_kind(EventKind.DEVICE_STATE):
        allocated = event.size("allocated_bytes")
        if allocated is not None:
            member = name_member(event.device)
            printed.setdefault(member, []).append((float(len(printed.get(member, ()))), allocated))
            sources[member] = event.source
            if (event.size("repeats") or 0) >= _OFTEN:
                repeated.setdefault(member, set()).add(allocated)
    for member, points in printed.items():
        rise = steady_rise(points)
        if rise is not None:
            facts.put("growth.steady", rise.steady, sources[member], member)
            facts.put("growth.bytes", rise.gained_bytes if rise.steady else None, sources[member], member)
        elif {size for _, size in points} <= repeated.get(member, set()):  # of equal prints the first and last are kept
            facts.put("growth.steady", False, sources[member], member)


def _put_growth_outside_torch(run: RunRecord, facts: FactSet) -> None:
    """What the command's processes hold on a device beyond the allocator's segments, over the run.

    Used by NVML minus what torch had reserved at the last sample before; both are needed at each point.
    """
    for device in sorted({state.device for state in run.allocator_states}):
        states = sorted(
            (s.time_seconds, s.reserved_bytes)
            for s in run.allocator_states
            if s.device == device and s.reserved_bytes is not None and is_until_failure(run, s.time_seconds)
        )
        times = [time for time, _ in states]
        points = []
        for reading in run.device_readings:
            used = _own_bytes(reading)
            place = bisect_right(times, reading.time_seconds) if reading.time_seconds is not None else 0
            if not is_until_failure(run, reading.time_seconds):
                continue
            if reading.index == device and used is not None and place and reading.time_seconds is not None:
                points.append((reading.time_seconds, used - (states[place - 1][1] or 0)))
        rise = steady_rise(points)
        if rise is not None:
            member = device_member(device)
            source = Source(path=run.path, record=N_("readings of {device}").format(device=member))
            facts.put("growth.outside_torch_steady", rise.steady, source, member)
            facts.put("growth.outside_torch_bytes", rise.gained_bytes if rise.steady else None, source, member)


def _own_bytes(reading: DeviceReading) -> int | None:
    """What the command's processes hold; all that is used, where the processes cannot be told apart."""
    own = [p.used_bytes for p in reading.processes or () if p.own]
    if own and all(size is not None for size in own):
        return sum(size or 0 for size in own)
    return reading.used_bytes


def _put_states(states: list[AllocatorState], member: str, source: Source, facts: FactSet) -> None:
    """Peaks over all states: a restarted process begins its own count."""
    for name in ("peak_allocated_bytes", "peak_reserved_bytes"):
        peaks = [value for state in states if (value := getattr(state, name)) is not None]
        facts.put(f"allocator.{name}", max(peaks, default=None), source, member)
    facts.put("allocator.retries", states[-1].retries, source, member)
    facts.put("allocator.non_releasable_bytes", states[-1].inactive_split_bytes, source, member)


def _failed_members(facts: FactSet) -> tuple[str, ...]:
    return tuple(key.partition("@")[2] for key in list(facts) if key.startswith("oom.failed@"))
