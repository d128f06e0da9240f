"""How the memory in use on a device went over the readings of it: it rose, it stood level, or neither.

A rise that a tool sees from outside is one of all segments, whoever holds them and live or not; a level one is how a
pool or a cache looks. Facts on live memory (`growth.*`) come from inside.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from ..language import N_
from ..model.devices import DeviceProcess, DeviceReading
from ..model.events import EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.source import Source
from .deriver import device_member, member_namer
from .devices import name_of, readings_by_device, who
from .steadiness import Rise, rate, steady_rise

_FEWEST_POINTS = 6
_LEVEL = 0.03
"""Of its highest value, a level curve moves no more than this once it has settled."""
_GIVEN_BACK = 0.5
"""A curve that ends below this share of its peak shows a program that has ended; it is judged up to the peak."""

Points = list[tuple[float, int]]


def derive(evidence: Evidence, facts: FactSet) -> None:
    """Facts of each device that was looked at more than once."""
    for index, readings in readings_by_device(evidence).items():
        member = device_member(index)
        told = [reading for reading in readings if reading.used_bytes is not None]
        if told:
            _put_course(told, member, facts)
        _put_processes(readings, member, facts)
        _put_outside_torch(evidence, index, readings, facts)


def is_dated(readings: Sequence[DeviceReading]) -> bool:
    """Whether each has its time."""
    return all(reading.time_seconds is not None for reading in readings)


def points_of(readings: Sequence[DeviceReading]) -> Points:
    """(seconds, or the place in the order where not all are dated; bytes in use)."""
    dated = is_dated(readings)
    points = [
        (reading.time_seconds if dated and reading.time_seconds is not None else float(place), reading.used_bytes)
        for place, reading in enumerate(readings)
        if reading.used_bytes is not None
    ]
    return until_given_back(sorted(points))


def until_given_back(points: Points) -> Points:
    """Up to the last peak, where most of it was given back since."""
    if not points:
        return points
    peak = max(size for _, size in points)
    if points[-1][1] >= _GIVEN_BACK * peak:
        return points
    last = max(place for place, (_, size) in enumerate(points) if size == peak)
    return points[: last + 1]


def _put_course(readings: list[DeviceReading], member: str, facts: FactSet) -> None:
    points, source = points_of(readings), readings[-1].source
    facts.put("device.readings", len(readings), source, member)
    dated = is_dated(readings)
    if dated and len(readings) > 1:
        times = [reading.time_seconds or 0.0 for reading in readings]
        facts.put("device.watched_seconds", max(times) - min(times), source, member)
    if len(points) < _FEWEST_POINTS:
        return
    facts.put("device.level", _is_level(points), source, member)
    rise = steady_rise(points)
    if rise is None:
        return
    facts.put("device.rise_steady", rise.steady, source, member)
    if rise.steady:
        facts.put("device.rise_bytes", rise.gained_bytes, source, member)
        if dated and rise.seconds > 0:
            facts.put("device.rise_bytes_per_second", rate(rise.gained_bytes, rise.seconds), source, member)


def _is_level(points: Points) -> bool:
    settled = [size for _, size in points[len(points) // 3 :]]
    return max(settled) - min(settled) <= _LEVEL * max(settled)


def _put_processes(readings: list[DeviceReading], member: str, facts: FactSet) -> None:
    """Which of the listed processes rose."""
    rises = list(_rises(readings))
    if not rises:
        return
    source = readings[-1].source
    process, rise = max(rises, key=lambda one: one[1].gained_bytes)
    facts.put("device.rise_process", name_of(process), source, member)
    facts.put("device.rise_process_bytes", rise.gained_bytes, source, member)
    foreign = [rise.gained_bytes for process, rise in rises if process.own is False]
    facts.put("device.foreign_rise_bytes", sum(foreign) or None, source, member)


def _rises(readings: list[DeviceReading]) -> Iterable[tuple[DeviceProcess, Rise]]:
    for process, points in process_courses(readings):
        rise = steady_rise(until_given_back(points))
        if rise is not None and rise.steady:
            yield process, rise


def process_courses(readings: Sequence[DeviceReading]) -> list[tuple[DeviceProcess, Points]]:
    """Each listed process, as it was seen last, with what it held over the readings that say so."""
    dated = is_dated(readings)
    courses: dict[int | str, Points] = {}
    latest: dict[int | str, DeviceProcess] = {}
    for place, reading in enumerate(readings):
        when = reading.time_seconds if dated and reading.time_seconds is not None else float(place)
        for process in reading.processes or ():
            if process.used_bytes is not None:
                courses.setdefault(who(process), []).append((when, process.used_bytes))
                latest[who(process)] = process
    return [(latest[key], sorted(points)) for key, points in courses.items()]


def _put_outside_torch(evidence: Evidence, index: int, readings: list[DeviceReading], facts: FactSet) -> None:
    """What the only process on the device holds beyond the segments that torch printed last before each reading."""
    printed = [reading for reading in readings if reading.source.line is not None]
    name = member_namer(evidence)
    states = [
        event
        for event in evidence.of_kind(EventKind.DEVICE_STATE)
        if name(event.device) == device_member(index) and event.size("reserved_bytes") is not None
    ]
    alone = [(reading, _only_process(reading)) for reading in printed]
    pids = {process.pid for _, process in alone if process is not None}
    if not states or len(pids) != 1 or any(reading.processes and process is None for reading, process in alone):
        return
    dated = is_dated(printed)
    points: Points = []
    for place, (reading, process) in enumerate(alone):
        reserved = _reserved_before(reading, states)
        if process is not None and process.used_bytes is not None and reserved is not None:
            when = reading.time_seconds if dated and reading.time_seconds is not None else float(place)
            points.append((when, process.used_bytes - reserved))
    rise = steady_rise(sorted(points))
    if rise is not None:
        member, source = device_member(index), Source(path=printed[-1].source.path, record=N_("readings of the device"))
        facts.put("growth.outside_torch_steady", rise.steady, source, member)
        facts.put("growth.outside_torch_bytes", rise.gained_bytes if rise.steady else None, source, member)


def _only_process(reading: DeviceReading) -> DeviceProcess | None:
    computing = [process for process in reading.processes or () if process.kind != "G"]
    return computing[0] if len(computing) == 1 and computing[0].used_bytes is not None else None


def _reserved_before(reading: DeviceReading, states: Sequence[LogEvent]) -> int | None:
    """By time where both have one, else by line in the same log."""
    if reading.time_seconds is not None and all(state.time_seconds is not None for state in states):
        place = bisect_right([state.time_seconds or 0.0 for state in states], reading.time_seconds)
        return states[place - 1].size("reserved_bytes") if place else None
    lines = [state for state in states if state.source.path == reading.source.path and state.source.line is not None]
    place = bisect_right([state.source.line or 0 for state in lines], reading.source.line or 0)
    return lines[place - 1].size("reserved_bytes") if place else None
