"""Whether what one holder keeps came bit by bit over the recording, by when its blocks were allocated.

Needs no stacks: the holder is known by the addresses of its blocks, and the history says when each was allocated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..model.snapshot import ACTIONS, IntColumn, Snapshot
from .replay import BEFORE_RING, Replay

_ALLOC = ACTIONS.index("alloc")
_FEWEST_BLOCKS = 8
_WINDOWS = 8
_FEWEST_WINDOWS = 6
_FEWEST_ALIKE = 2
_AS_HIGH, _AS_LONG = 0.5, 0.8


@dataclass(frozen=True)
class Accrual:
    """How a holder came by its blocks."""

    steady: bool
    """Blocks came in nearly every part of the time from the first of them to `until`, the last part included."""
    share_in_recording: float
    """Of its blocks, how many (0 to 1) were allocated during the recording; the others stood before it."""
    seconds: float | None
    """From the first of those to the last; None where events have no times."""
    within_a_step: bool
    """Since the first of them no more was done than in each of several steps before, which gave all back again."""


def accrual(snapshot: Snapshot, replay: Replay, held: Sequence[int], failures: Sequence[int]) -> Accrual | None:
    """How the blocks at the addresses `held`, live at the end of the recording, were allocated up to the failure.

    `replay` is that of the snapshot's device they are on, `failures` the events at which requests failed there. None
    where too few of the blocks are known to say.
    """
    last_word = max(failures, default=len(replay.events) - 1)
    lifetimes = replay.lifetimes
    rows = np.flatnonzero(lifetimes.block >= 0)
    of_holder = np.isin(snapshot.blocks.address[lifetimes.block[rows]], np.asarray(held, dtype=np.uint64))
    born = np.sort(lifetimes.start[rows[of_holder]])
    born = born[born <= last_word]
    recorded = born[born != BEFORE_RING]
    if len(recorded) < _FEWEST_BLOCKS:
        return None
    first, last = int(recorded[0]), int(recorded[-1])
    until = _first_of_the_last(failures, last, last_word)
    edges = np.linspace(first, until + 1, _WINDOWS + 1)
    filled = np.histogram(recorded, bins=edges)[0] > 0
    timeline = replay.events.timeline_us
    time_us = None if timeline is None else timeline[[first, last]]
    return Accrual(
        steady=bool(filled.sum() >= _FEWEST_WINDOWS and filled[-1]),
        share_in_recording=len(recorded) / len(born),
        seconds=None if time_us is None else (int(time_us[1]) - int(time_us[0])) / 1e6,
        within_a_step=_is_within_a_step(replay, first, until),
    )


def _first_of_the_last(failures: Sequence[int], since: int, last: int) -> int:
    """The first of the failures since an event that go on to the last one: workers each fail once the device is full.

    One failure long before, and a program that ran on, is another incident.
    """
    later = sorted(failure for failure in failures if failure >= since)
    if not later or later[0] == last:
        return last
    filled = np.histogram(later, bins=np.linspace(later[0], last, _WINDOWS + 1))[0] > 0
    return later[0] if filled.sum() >= _FEWEST_WINDOWS else last


def _is_within_a_step(replay: Replay, first: int, until: int) -> bool:
    """Whether from event `first` on no more happened than again and again before: memory was allocated in as many
    requests, as many blocks were live at once beside those that were there, and they were given back.

    Counted in blocks and requests: a step of larger tensors has as many. Of what each step adds to there are the
    requests of several steps.
    """
    blocks = _blocks(replay)
    before, since = int(blocks[first]), int(blocks[until + 1])
    requests = np.concatenate([[0], np.cumsum(replay.events.action == _ALLOC)])
    above = np.concatenate([[False], blocks[: first + 1] > before, [False]])
    begins, ends = np.flatnonzero(above[1:] & ~above[:-1]), np.flatnonzero(above[:-1] & ~above[1:])
    if not len(begins):
        return False
    height = np.maximum.reduceat(blocks[: first + 1], begins) - before
    made = requests[ends - 1] - requests[begins]
    alike = (height >= _AS_HIGH * (since - before)) & (made >= _AS_LONG * (requests[until + 1] - requests[first]))
    return int(alike.sum()) >= _FEWEST_ALIKE


def _blocks(replay: Replay) -> IntColumn:
    """How many blocks are live before each event, and after the last."""
    lifetimes, count = replay.lifetimes, len(replay.events)
    change = np.zeros(count + 1, dtype=np.int64)
    np.add.at(change, lifetimes.start + 1, 1)
    np.subtract.at(change, lifetimes.end[lifetimes.end < count] + 1, 1)
    live: IntColumn = np.cumsum(change)
    return live
