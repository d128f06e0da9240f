"""A snapshot as the report draws it: the curve of allocated bytes."""

from __future__ import annotations

import numpy as np

from ..allocator.replay import replay
from ..language import N_
from ..model.diagnosis import Series
from ..model.snapshot import Snapshot
from ..model.thinning import extremes
from .deriver import device_member

_MOST_POINTS = 2000


def snapshot_series(snapshot: Snapshot) -> tuple[Series, ...]:
    """Allocated bytes after each event (blocks that wait for another stream included), one curve a device.

    At most 2,000 points: the lowest and the highest of each stretch. A history without times, or with such as go
    backwards, gives no curve.
    """
    found = []
    for device in snapshot.devices:
        allocator = replay(snapshot, device)
        timed = np.flatnonzero(allocator.events.time_us >= 0)
        if not allocator.has_history or not len(timed) or not allocator.events.runs_forwards:
            continue
        chosen = timed[extremes(allocator.live_bytes[timed], _MOST_POINTS)]
        found.append(
            Series(
                where=device_member(device, snapshot.backend),
                name="allocated",
                times_seconds=tuple((np.maximum.accumulate(allocator.events.time_us[chosen]) / 1e6).tolist()),
                values_bytes=tuple(allocator.live_bytes[chosen].tolist()),
                how_sampled=N_("allocator events"),
            )
        )
    return tuple(found)
