"""A snapshot as the report draws it: the curve of allocated bytes, and the table of who held them."""

from __future__ import annotations

import numpy as np

from ..allocator.owners import ownership_of
from ..allocator.replay import replay
from ..language import N_
from ..model.diagnosis import Holding, Series
from ..model.snapshot import Snapshot
from ..model.thinning import extremes
from .allocator import latest_oom, moment
from .deriver import device_member

_MOST_POINTS = 2000
_MOST_OWNERS = 20


def snapshot_series(snapshot: Snapshot) -> tuple[Series, ...]:
    """Allocated bytes after each event (blocks that wait for another stream included), one curve a device.

    At most 2,000 points: the lowest and the highest of each stretch. A history without times gives no curve.
    """
    found = []
    for device in snapshot.devices:
        allocator = replay(snapshot, device)
        timed = np.flatnonzero(allocator.events.time_us >= 0)
        if not allocator.has_history or not len(timed):
            continue
        chosen = timed[extremes(allocator.live_bytes[timed], _MOST_POINTS)]
        found.append(
            Series(
                where=device_member(device, snapshot.backend),
                name="allocated",
                times_seconds=tuple((allocator.events.time_us[chosen] / 1e6).tolist()),
                values_bytes=tuple(allocator.live_bytes[chosen].tolist()),
                how_sampled=N_("allocator events"),
            )
        )
    return tuple(found)


def snapshot_holdings(snapshot: Snapshot) -> tuple[Holding, ...]:
    """The 20 largest owners of each device at its last out-of-memory event, else at the end, and all others as one row.

    The rows of a device add up to its allocated bytes (blocks that wait for another stream included).
    """
    found = []
    for device in snapshot.devices:
        ownership = ownership_of(snapshot, device)
        owners = ownership.owners(moment(ownership, latest_oom(snapshot, device)))
        where = device_member(device, snapshot.backend)
        found += [Holding(where, o.name, o.bytes, o.count, o.how_known) for o in owners[:_MOST_OWNERS]]
        rest = owners[_MOST_OWNERS:]
        if rest:
            size, count = sum(owner.bytes for owner in rest), sum(owner.count for owner in rest)
            found.append(
                Holding(
                    where, N_("{rest} other owners").format(rest=len(rest)), size, count, N_("sum of the smaller rows")
                )
            )
    return tuple(found)
