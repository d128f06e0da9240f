"""Whether one rise of live memory stands out from those before it, by the curve alone: no stacks are needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..model.snapshot import IntColumn

_MOSTLY = 0.5
"""Memory comes back to one level, the floor, for at least this share of the events."""
_AT_THE_FLOOR = 0.05
"""Of the height of the last rise."""
_FEWEST_RISES = 5
_FAR_ABOVE = 2.0
_ABOVE_LEVEL = 1.25
_LEVEL = 1.5
_LOWER_QUARTER = 25
"""Percentile of the rises before, below which a few small ones (an epoch.s last batch) widen no range."""
_LARGER = 1.1
"""A larger input has larger tensors. Where only more of them are live, other work is done than before."""
_RISEN, _FALLEN = 0.06, 0.03
"""Of the highest rise."""
_TREND = 1.5
"""Where the last third of the rises is all this much higher than the first, they were on their way up: one that is
higher still is no exception."""


@dataclass(frozen=True)
class Spike:
    """The last rise beside the ones before it."""

    bytes: int
    """How far it would have come above their median."""
    sudden: bool
    begin: int
    """The event with which it began."""


def find_spike(live_bytes: IntColumn, requested_bytes: int) -> Spike | None:
    """`live_bytes` after each event until the failure; None where memory did not rise and fall again and again."""
    if len(live_bytes) < 2 * _FEWEST_RISES:
        return None
    need = int(live_bytes[-1]) + requested_bytes
    lowest_from_here = np.minimum.accumulate(live_bytes[::-1])[::-1]
    floor = int(np.median(lowest_from_here))
    near = _AT_THE_FLOOR * (need - floor)
    if need <= floor or np.count_nonzero(np.abs(lowest_from_here - floor) <= near) < _MOSTLY * len(live_bytes):
        return None
    begin = int(np.argmax(lowest_from_here >= floor - near))
    rise = int(np.flatnonzero(live_bytes <= floor + near)[-1])
    before = live_bytes[begin : rise + 1]
    peaks = _peaks(before, floor)
    if len(peaks) < _FEWEST_RISES:
        return None
    larger = max(requested_bytes, _largest_step(live_bytes[rise:])) > _LARGER * _largest_step(before)
    above = max(0, round(need - floor - float(np.median(peaks))))
    return Spike(above, larger and stands_out(need - floor, peaks), rise)


def _largest_step(live_bytes: IntColumn) -> int:
    return int(np.diff(live_bytes).max(initial=0))


def stands_out(last: int, before: IntColumn) -> bool:
    """Whether a height is far above those before it, and those were not on their way up."""
    highest, middle = int(before.max()), float(np.median(before))
    level = highest <= _LEVEL * middle
    # Of inputs that differ anyway one is larger than all others now and then, by less than they are apart.
    apart = last - highest > highest - float(np.percentile(before, _LOWER_QUARTER))
    return not _on_the_way_up(last, before) and (
        last >= _FAR_ABOVE * highest or (level and apart and last >= _ABOVE_LEVEL * highest)
    )


def _on_the_way_up(last: int, before: IntColumn) -> bool:
    """By their thirds. Too few for that are on their way where each is higher than the one before, and the last by no
    larger a factor (a search for the batch that fits).
    """
    third = len(before) // 3
    if third > 1:
        return int(before[-third:].min()) > _TREND * int(before[:third].max())
    if before[0] <= 0 or before[-1] <= _TREND * before[0] or (np.diff(before) <= 0).any():
        return False
    return last / int(before[-1]) <= float((before[1:] / before[:-1]).max())


def _peaks(live_bytes: IntColumn, floor: int) -> IntColumn:
    """Heights over the floor of each rise; one ends only when memory has come down nearly to the floor again."""
    heights = live_bytes - floor
    highest = int(heights.max(initial=0))
    state = np.where(heights >= _RISEN * highest, 1, np.where(heights <= _FALLEN * highest, 0, -1))
    told = np.flatnonzero(state >= 0)
    turns = told[np.flatnonzero((state[told][1:] == 1) & (state[told][:-1] == 0)) + 1]
    return np.maximum.reduceat(heights, turns) if len(turns) else heights[:0]
