"""Whether what one holder keeps came bit by bit over the recording, by when its blocks were allocated.

Needs no stacks: the holder is known by the addresses of its blocks, and the history says when each was allocated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..model.snapshot import Snapshot
from .replay import BEFORE_RING, Replay

_FEWEST_BLOCKS = 8
_WINDOWS = 8
_FEWEST_WINDOWS = 6


@dataclass(frozen=True)
class Accrual:
    """How a holder came by its blocks."""

    steady: bool
    """Blocks came in nearly every part of the time from the first of them to `until`, the last part included."""
    share_in_recording: float
    """Of its blocks, how many (0 to 1) were allocated during the recording; the others stood before it."""
    seconds: float | None
    """From the first of those to the last; None where events have no times."""


def accrual(snapshot: Snapshot, replay: Replay, held: Sequence[int], until: int) -> Accrual | None:
    """How the blocks at the addresses `held`, live at the end of the recording, were allocated up to event `until`.

    `replay` is that of the snapshot's device they are on. None where too few of the blocks are known to say.
    """
    lifetimes = replay.lifetimes
    rows = np.flatnonzero(lifetimes.block >= 0)
    of_holder = np.isin(snapshot.blocks.address[lifetimes.block[rows]], np.asarray(held, dtype=np.uint64))
    born = np.sort(lifetimes.start[rows[of_holder]])
    born = born[born <= until]
    recorded = born[born != BEFORE_RING]
    if len(recorded) < _FEWEST_BLOCKS:
        return None
    first, last = int(recorded[0]), int(recorded[-1])
    edges = np.linspace(first, until + 1, _WINDOWS + 1)
    filled = np.histogram(recorded, bins=edges)[0] > 0
    time_us = replay.events.time_us[[first, last]]
    return Accrual(
        steady=bool(filled.sum() >= _FEWEST_WINDOWS and filled[-1]),
        share_in_recording=len(recorded) / len(born),
        seconds=(int(time_us[1]) - int(time_us[0])) / 1e6 if int(time_us.min()) >= 0 else None,
    )
