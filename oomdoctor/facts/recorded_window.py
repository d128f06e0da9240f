"""What each device's allocator did over the recorded window, as the report draws it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..allocator.course import categories_at, last_rise, live_by_category, live_by_owner, turnover, waiting
from ..allocator.owners import WAITING, Ownership, ownership_of
from ..allocator.phases import phases
from ..allocator.replay import BEFORE_RING
from ..allocator.stacks import CATEGORY_WORDS
from ..language import N_
from ..model.evidence import Evidence
from ..model.snapshot import IntColumn, Snapshot
from ..model.thinning import extremes
from ..model.window import CategoryCourse, LineCourse, OwnerCourse, PeakHolding, PeakRise, PhaseSpan, Window
from .allocator import latest_oom
from .deriver import device_member
from .focus import focus
from .growth import cache_owners

_MOST_POINTS = 400
_MOST_AT_PEAK = 10
_MOST_OF_RISE = 6
_MOST_OWNERS = 12
_MOST_LINES = 6
_MOST_MARKS = 200
_FEWEST_EVENTS = 8


def recorded_windows(evidence: Evidence) -> tuple[Window, ...]:
    """One a device whose snapshot has a history worth drawing."""
    found = []
    for snapshot in focus(evidence).snapshots:
        for device in snapshot.devices:
            ownership = ownership_of(snapshot, device)
            if ownership.replay.has_history and len(ownership.replay.events) >= _FEWEST_EVENTS:
                found.append(_window(snapshot, ownership))
    return tuple(found)


def _window(snapshot: Snapshot, ownership: Ownership) -> Window:
    allocator = ownership.replay
    device, trace, caches = allocator.device, allocator.events, cache_owners(ownership)
    oom, peak = latest_oom(snapshot, device), allocator.peak_event
    has_times = trace.timeline_us is not None
    times = np.arange(len(trace), dtype=np.float64) if trace.timeline_us is None else trace.timeline_us / 1e6

    shown = _shown(allocator.live_bytes, peak, oom.event_index if oom is not None else None)
    by_category = live_by_category(ownership, shown, caches)
    courses = {CATEGORY_WORDS[category]: values for category, values in by_category.items()}
    waits = waiting(ownership, shown)
    if waits.any():
        courses[WAITING] = waits
    highest = int(np.searchsorted(shown, max(peak, 0)))
    order = sorted(courses, key=lambda name: -int(courses[name][highest]))
    return Window(
        where=device_member(device, snapshot.backend),
        events=len(trace),
        has_times=has_times,
        times_seconds=tuple(times[shown].tolist()),
        categories=tuple(CategoryCourse(name, tuple(courses[name].tolist())) for name in order),
        peak_seconds=float(times[max(peak, 0)]),
        peak_bytes=allocator.peak_bytes,
        peak_is_before=peak == BEFORE_RING,
        peak_may_be_more_bytes=allocator.peak_may_be_more_bytes,
        before_bytes=allocator.before_bytes,
        at_peak=_at_peak(ownership, peak, caches),
        rise=_rise(ownership, times, caches),
        owners=tuple(
            OwnerCourse(
                owner=each.owner,
                category=CATEGORY_WORDS[each.category],
                allocations=each.allocations,
                sizes=each.sizes,
                allocated_bytes=each.allocated_bytes,
                most_live_bytes=each.most_live_bytes,
                live_at_end_bytes=each.live_at_end_bytes,
                median_lifetime_seconds=None if each.median_lifetime_us is None else each.median_lifetime_us / 1e6,
            )
            for each in turnover(ownership, _MOST_OWNERS, caches)
        ),
        phases=tuple(
            PhaseSpan(each.name, float(times[each.begin]), float(times[min(each.end, len(trace) - 1)]), each.how_known)
            for each in phases(ownership)
        ),
        marks=_marks(snapshot, device, float(times[-1])) if has_times else (),
        failure_seconds=float(times[oom.event_index]) if oom is not None else None,
        disagreements=allocator.disagreement.total,
        source=snapshot.path,
        lines=tuple(
            LineCourse(owner, CATEGORY_WORDS[category] if owner else "", tuple(values.tolist()))
            for owner, category, values in live_by_owner(ownership, shown, _MOST_LINES, caches)
        ),
    )


def _shown(live_bytes: IntColumn, peak: int, failure: int | None) -> IntColumn:
    """The events that are drawn: lowest and highest of each stretch, the first and the last, the peak, the failure."""
    kept = {0, len(live_bytes) - 1, max(peak, 0)} | ({failure} if failure is not None else set())
    return np.union1d(extremes(live_bytes, _MOST_POINTS), np.asarray(sorted(kept), dtype=np.int64))


def _at_peak(ownership: Ownership, peak: int, caches: frozenset[str]) -> tuple[PeakHolding, ...]:
    owners, category = ownership.owners(peak), _category_of(ownership, peak, caches)
    rows = [PeakHolding(each.name, category(each.name), each.bytes, each.count) for each in owners[:_MOST_AT_PEAK]]
    rest = owners[_MOST_AT_PEAK:]
    if rest:
        size, count = sum(each.bytes for each in rest), sum(each.count for each in rest)
        rows.append(PeakHolding(N_("{rest} other owners").format(rest=len(rest)), "", size, count))
    return tuple(rows)


def _category_of(ownership: Ownership, event: int, caches: frozenset[str]) -> Callable[[str], str]:
    """Tells of each owner what most of what was live of it after an event was."""
    replay, categories = ownership.replay, categories_at(ownership, event, caches)
    live, waits = Counter[str](), Counter[str]()
    for rows, counted in ((replay.lifetimes.live_after(event), live), (replay.pending_after(event), waits)):
        kinds, place = np.unique(ownership.kind[rows], return_inverse=True)
        held = np.zeros(len(kinds), dtype=np.int64)
        np.add.at(held, place, replay.lifetimes.size_bytes[rows])
        for kind, size in zip(kinds.tolist(), held.tolist(), strict=True):
            counted[ownership.readings[kind].owner] += size

    def category(owner: str) -> str:
        return WAITING if 2 * waits[owner] > live[owner] else CATEGORY_WORDS[categories[owner]]

    return category


def _rise(ownership: Ownership, times: NDArray[np.float64], caches: frozenset[str]) -> PeakRise | None:
    found = last_rise(ownership)
    if found is None:
        return None
    category = _category_of(ownership, found.peak, caches)
    return PeakRise(
        foot_bytes=found.foot_bytes,
        foot_seconds=float(times[max(found.foot, 0)]),
        owners=tuple(
            PeakHolding(owner, category(owner), size, count) for owner, size, count in found.owners[:_MOST_OF_RISE]
        ),
    )


def _marks(snapshot: Snapshot, device: int, end_seconds: float) -> tuple[PhaseSpan, ...]:
    return tuple(
        PhaseSpan(each.name, each.begin_us / 1e6, end_seconds if each.end_us is None else each.end_us / 1e6)
        for each in snapshot.annotations
        if each.device == device
    )[:_MOST_MARKS]
