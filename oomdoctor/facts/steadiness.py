"""Whether a curve rises steadily: robust against a jump at start and against the noise of a sampler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..model.units import MIB

_FEWEST_POINTS = 5
_FEWEST_BYTES = 32 * MIB
_LEAST_SHARE_OF_PEAK = 0.25
_RISING_STEPS = 0.8
_LARGEST_STEP = 0.5
_LARGEST_SHARE = 1.5
_NOISE = 0.01
_LATE = 2 / 3
_LEAST_LATE_GAIN = 0.1
_LEAST_FLOOR_GAIN = 0.25


_LEAST_SECONDS_OF_A_RATE = 1.0
"""Over less, so much `per second` is what nobody saw: then the bytes and the time are told."""


def rate(gained_bytes: float, seconds: float | None) -> int | None:
    """Bytes per second; None over too short a time, or where the time is not known."""
    return None if not seconds or seconds < _LEAST_SECONDS_OF_A_RATE else round(gained_bytes / seconds)


@dataclass(frozen=True)
class Rise:
    """What a curve does from its first settled point to its last."""

    steady: bool
    gained_bytes: int
    seconds: float


def steady_rise(points: Sequence[tuple[float, int]]) -> Rise | None:
    """Judge (seconds, bytes) points; None where there are too few to say.

    Steady: at least four of five steps do not fall (by more than 1 % of the range), no single step makes more than half
    of the gain (of a sampler that was kept waiting: more than half as much again as its share of the time), the last
    third of the time rises too (what rose and then stood still is not what failed), the lowest of the last third lies
    above the lowest of the first (what is given back again and again only swings), and the gain is at least 32 MiB and
    a quarter of the peak. The first point, taken while the program starts, does not count.
    """
    settled = points[1:]
    if len(settled) < _FEWEST_POINTS:
        return None
    sizes = [size for _, size in settled]
    seconds = settled[-1][0] - settled[0][0]
    gained, peak = sizes[-1] - sizes[0], max(sizes)
    steps = [after - before for before, after in pairwise(sizes)]
    noise = _NOISE * (peak - min(sizes))
    rising = sum(step >= -noise for step in steps) / len(steps)
    steady = (
        gained >= max(_FEWEST_BYTES, _LEAST_SHARE_OF_PEAK * peak)
        and rising >= _RISING_STEPS
        and not any(_is_jump(before, after, gained, seconds) for before, after in pairwise(settled))
        and _floor_gain(sizes) >= _LEAST_FLOOR_GAIN * gained
        and sizes[-1] - _size_at(settled, settled[0][0] + _LATE * seconds) >= _LEAST_LATE_GAIN * gained
    )
    return Rise(steady, gained, seconds)


def _floor_gain(sizes: Sequence[int]) -> int:
    """By how much the lowest size of the last third of the points lies above that of the first."""
    third = max(1, len(sizes) // 3)
    return min(sizes[-third:]) - min(sizes[:third])


def _is_jump(before: tuple[float, int], after: tuple[float, int], gained: int, seconds: float) -> bool:
    share = (after[0] - before[0]) / seconds if seconds > 0 else 0.0
    return after[1] - before[1] > max(_LARGEST_STEP, _LARGEST_SHARE * share) * gained


def _size_at(points: Sequence[tuple[float, int]], time: float) -> float:
    """The size at a time between two points, on the straight line between them."""
    for before, after in pairwise(points):
        if before[0] <= time <= after[0] and after[0] > before[0]:
            return before[1] + (after[1] - before[1]) * (time - before[0]) / (after[0] - before[0])
    return points[-1][1]
