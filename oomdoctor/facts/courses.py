"""Where the memory of each device and of the host was over the whole run, by category: parts that add up to it.

What is measured at a time stands as it is: the driver's look at the device with its processes, the allocator's own
figures, the history of the allocator where one was recorded. Between two looks a straight line is drawn; where the
history tells what was live between them, it is what was idle that is drawn so. What a look did not tell apart stays one
part, named so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..language import N_
from ..model.devices import DeviceReading
from ..model.diagnosis import Budget, Course
from ..model.evidence import Evidence
from ..model.run import AllocatorState, RunRecord
from ..model.thinning import thinned
from ..model.window import Window
from .contexts import context_bytes
from .course_parts import AFTER_SECONDS, Parts, Values, Weights, add_inside, held
from .deriver import device_member
from .device_budget import CONTEXT, FOREIGN, RESERVE
from .focus import focus
from .printed_courses import printed_courses
from .until import is_until_failure, samples_until_failure

OUTSIDE = N_("unattributed: in use outside torch's allocator")
OWN = N_("in use by this command (kind not recorded)")
UNLISTED = N_("unattributed: in use by no process that was listed")
FREE = N_("free on the device")

_MOST_LOOKS, _MOST_STATES, _MOST_EVENTS = 400, 200, 300
"""Times of a course, by what they are of: the lowest and the highest of each stretch are among them."""
_STEP_SECONDS = 0.001

_BY_NVML = N_("measured by NVML")


def all_courses(evidence: Evidence, windows: Sequence[Window], budgets: Sequence[Budget]) -> tuple[Course, ...]:
    """A course for the host and for each device of the runs that was looked at more than once."""
    by_place = {window.where: window for window in windows if window.has_times}
    found: list[Course] = []
    for run in focus(evidence).runs:
        found.extend(_of_host(run))
        for index in sorted({each.index for each in run.device_readings} | {s.device for s in run.allocator_states}):
            member = device_member(index)
            known = by_place.get(member), _weights(budgets, member)
            course = _of_device(run, index, *known) or _of_allocator(run, index, *known, _total(budgets, member))
            found.extend([] if course is None else [course])
    covered = {course.where for course in found}
    printed = (course for course in printed_courses(focus(evidence), budgets) if course.where not in covered)
    return (*found, *printed)


def _total(budgets: Sequence[Budget], member: str) -> int | None:
    return next((budget.total_bytes for budget in budgets if budget.where == member), None)


def _weights(budgets: Sequence[Budget], member: str) -> Weights | None:
    """What the model's parameters come to on the device, as the budget of the failure knows it."""
    own = [part for budget in budgets if budget.where == member for part in budget.parts]
    return next(((part.name, part.bytes, part.how_known) for part in own if part.name.startswith("weights")), None)


def _of_host(run: RunRecord) -> Iterator[Course]:
    samples = [
        sample
        for sample in samples_until_failure(run)
        if None not in (sample.total_bytes, sample.available_bytes, sample.tree_rss_bytes)
    ]
    if len(samples) < 2:
        return
    available = np.asarray([sample.available_bytes for sample in samples], dtype=np.float64)
    own = np.asarray([sample.tree_rss_bytes for sample in samples], dtype=np.float64)
    total = max(sample.total_bytes or 0 for sample in samples)
    chosen = np.union1d(thinned(available, _MOST_LOOKS // 2), thinned(own, _MOST_LOOKS // 2))
    available, own = available[chosen], own[chosen]
    parts = Parts(len(chosen))
    parts.add(N_("other processes and the kernel"), np.maximum(total - available - own, 0), "computed")
    # Pages that several programs share count for each: it cannot have more than what is in use.
    parts.add(N_("this command and its descendants"), np.minimum(own, total - available), "measured")
    times = tuple(samples[place].time_seconds for place in chosen.tolist())
    yield Course("host", times, total, tuple(parts.closed(total, N_("available"), "measured")), N_("by the sampler"))


def _of_device(run: RunRecord, index: int, window: Window | None, weights: Weights | None) -> Course | None:
    looks = _Looks.of(run, index)
    if looks is None:
        return None
    states = _states(run, index)
    times = np.union1d(looks.times[thinned(looks.used, _MOST_LOOKS)], _times(states, window))
    first, last = looks.times[0], looks.times[-1]
    if window is not None and window.failure_seconds is not None:
        last = min(last, window.times_seconds[-1] + AFTER_SECONDS)
    times = times[(times >= first) & (times <= last)]
    if len(times) < 2:
        return None
    parts = Parts(len(times))
    looks.fill(parts, times, states, window, weights, run)
    return Course(
        where=device_member(index),
        times_seconds=tuple(times.tolist()),
        total_bytes=looks.total,
        parts=tuple(parts.closed(looks.total, FREE, _BY_NVML)),
        how_sampled=N_("by the sampler and the allocator"),
    )


def _of_allocator(
    run: RunRecord, index: int, window: Window | None, weights: Weights | None, total: int | None
) -> Course | None:
    """Of a device that nobody looked at from outside: what torch held, and of the rest that it was not seen."""
    states = _states(run, index)
    looked = np.unique([state.time_seconds for own in states.values() for state in own])
    if len(looked) < 2:
        return None
    times = _times(states, window)
    times = times[(times >= looked[0]) & (times <= looked[-1])]
    parts = Parts(len(times))
    allocated, reserved = (sum(each) for each in zip(*(held(times, own) for own in states.values()), strict=True))
    add_inside(parts, times, allocated, reserved, looked, window, weights, len(states))
    top = int(reserved.max())
    return Course(
        where=device_member(index),
        times_seconds=tuple(times.tolist()),
        total_bytes=max(top, total or 0),
        parts=tuple(parts.closed(max(top, total or 0), None)),
        how_sampled=N_("by the sampler inside the process"),
        unseen=N_("not seen: contexts, other processes, what is free"),
        total_known=total is not None and top <= total,
    )


def _times(states: Mapping[int | None, list[AllocatorState]], window: Window | None) -> Values:
    """At which the allocator's figures or its history are drawn."""
    times = np.asarray([])
    for own in states.values():
        allocated = np.asarray([state.allocated_bytes for state in own], dtype=np.float64)
        times = np.union1d(times, np.asarray([s.time_seconds for s in own])[thinned(allocated, _MOST_STATES)])
    if window is None:
        return times
    at = np.asarray(window.times_seconds)
    live = np.sum([each.values_bytes for each in window.categories], axis=0)
    begin, end = window.times_seconds[0], window.times_seconds[-1] + AFTER_SECONDS
    # Where kinds begin or cease to be known is a step: a slope would show them growing or going.
    steps = np.asarray([begin - _STEP_SECONDS, begin, end, end + _STEP_SECONDS])
    return np.union1d(np.union1d(times, at[thinned(live, _MOST_EVENTS)]), steps)


def _states(run: RunRecord, index: int) -> dict[int | None, list[AllocatorState]]:
    """By process, those that tell both figures, in order."""
    found: dict[int | None, list[AllocatorState]] = {}
    for state in run.allocator_states:
        whole = None not in (state.allocated_bytes, state.reserved_bytes)
        if state.device == index and whole and is_until_failure(run, state.time_seconds):
            found.setdefault(state.pid, []).append(state)
    return {pid: sorted(states, key=lambda state: state.time_seconds) for pid, states in found.items()}


@dataclass
class _Looks:
    """The driver's looks at one device."""

    readings: list[DeviceReading]
    times: Values
    used: Values
    total: int

    @classmethod
    def of(cls, run: RunRecord, index: int) -> _Looks | None:
        """None where there are fewer than two, or the device's size is not known."""
        readings = [
            reading
            for reading in run.device_readings
            if reading.index == index and reading.time_seconds is not None and reading.used_bytes is not None
        ]
        readings.sort(key=lambda reading: reading.time_seconds or 0.0)
        # Of a day's looks few need be asked: once one is after the failure, so are all that follow.
        after = bisect_left(readings, True, key=lambda reading: not is_until_failure(run, reading.time_seconds))
        readings = readings[:after]
        total = next((reading.total_bytes for reading in readings if reading.total_bytes), None)
        if len(readings) < 2 or total is None:
            return None
        times = np.asarray([reading.time_seconds for reading in readings], dtype=np.float64)
        return cls(readings, times, np.asarray([reading.used_bytes for reading in readings], dtype=np.float64), total)

    def fill(
        self,
        parts: Parts,
        times: Values,
        states: Mapping[int | None, list[AllocatorState]],
        window: Window | None,
        weights: Weights | None,
        run: RunRecord,
    ) -> None:
        """What was in use at these times, part by part."""
        used = np.interp(times, self.times, self.used)
        reserve = self.readings[-1].reserved_by_driver_bytes or 0
        parts.add(RESERVE, np.full(len(times), float(reserve)), _BY_NVML)
        allocated, reserved, outside = (np.zeros(len(times)) for _ in range(3))
        sizes = self._sizes(times)
        if sizes is None:
            for own in states.values():
                own_held = held(times, own)
                allocated, reserved = allocated + own_held[0], reserved + own_held[1]
            reserved = np.minimum(reserved, used)
            name = OUTSIDE if states else N_("in use by processes on the device")
            parts.add(name, used - reserved, N_("computed: in use - reserved") if states else _BY_NVML)
        else:
            foreign, by_process = sizes
            unlisted = np.maximum(used - foreign - sum(by_process.values(), np.zeros(len(times))), 0)
            parts.add(FOREIGN, foreign, _BY_NVML)
            parts.add(UNLISTED, unlisted, _BY_NVML)
            for pid, size in by_process.items():
                if pid not in states:
                    parts.add(OWN, size, _BY_NVML)
                    continue
                own_held = held(times, states[pid])
                beyond = _beyond(run, self.readings[0].index, pid, times, size, own_held[1])
                outside, reserved = outside + beyond, reserved + size - beyond
                allocated = allocated + np.minimum(own_held[0], size - beyond)
            parts.add(CONTEXT, outside, N_("computed: NVML's number for this process - reserved"))
        add_inside(parts, times, allocated, reserved, self.times, window, weights, len(states))

    def _sizes(self, times: Values) -> tuple[Values, dict[int | None, Values]] | None:
        """Of all other processes, and of each of this command, at these times; None where a look did not tell all."""
        after = np.clip(np.searchsorted(self.times, times, side="left"), 1, len(self.times) - 1)
        needed = np.unique(np.concatenate([after - 1, after]))
        foreign = np.zeros(len(needed))
        own: dict[int | None, Values] = {}
        for place, number in enumerate(needed.tolist()):
            processes = self.readings[number].processes
            if processes is None or any(one.used_bytes is None or one.own is None for one in processes):
                return None
            for one in processes:
                if one.own:
                    own.setdefault(one.pid, np.zeros(len(needed)))[place] += one.used_bytes or 0
                else:
                    foreign[place] += one.used_bytes or 0
        at = self.times[needed]
        return np.interp(times, at, foreign), {pid: np.interp(times, at, values) for pid, values in own.items()}


def _beyond(run: RunRecord, index: int, pid: int | None, times: Values, size: Values, reserved: Values) -> Values:
    """What a process holds beside its allocator's segments.

    It hardly changes, while the two are looked at out of step: their difference at any time would show a context that
    grows and shrinks with the work.
    """
    known = context_bytes(run, index, pid)
    return np.maximum(size - reserved, 0) if known is None else np.minimum(np.interp(times, *known), size)
