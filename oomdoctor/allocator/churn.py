"""Who left the holes that a request could not use: whose blocks came and went there, and of how many sizes.

Blocks of one size leave holes that the next of them fills; blocks of many sizes leave holes that few others fit.
"""

from __future__ import annotations

import numpy as np

from ..model.failed_request import Churned
from ..model.snapshot import Snapshot
from .fragmentation import pools_of_blocks
from .owners import Ownership
from .replay import BEFORE_RING
from .request import Request

_MOST = 8
"""Of owners that are counted."""


def churn(ownership: Ownership, then: Snapshot, request: Request, event: int) -> tuple[Churned, ...]:
    """By owner, who left most first; `then` is the state after `event`, in which the request failed.

    Holes in which nothing was freed within the recording are nobody's.
    """
    key = (f"churn {request.requested_bytes} {event}", request.device)
    found: tuple[Churned, ...] | None = then.derived.get(key)
    if found is None:
        found = then.derived[key] = _churn(ownership, then, request, event)
    return found


def _churn(ownership: Ownership, then: Snapshot, request: Request, event: int) -> tuple[Churned, ...]:
    blocks, lifetimes = then.blocks, ownership.replay.lifetimes
    own_pool, own_kind, own_stream = pools_of_blocks(then, request)
    here = (then.segments.device[blocks.segment] == request.device) & (blocks.state == 0)
    holes = np.flatnonzero(here & own_pool & own_kind & own_stream & (blocks.size_bytes < request.block_bytes))
    freed = np.flatnonzero(lifetimes.end <= event)
    if not len(holes) or not len(freed):
        return ()
    holes = holes[np.argsort(blocks.address[holes], kind="stable")]
    begin, size = blocks.address[holes], blocks.size_bytes[holes]
    place = np.searchsorted(begin, lifetimes.address[freed], side="right") - 1
    inside = place >= 0
    inside[inside] = lifetimes.address[freed[inside]] - begin[place[inside]] < size[place[inside]].astype(np.uint64)
    rows, place = freed[inside], place[inside]
    # In each hole the one that was freed last.
    latest = np.full(len(holes), -1, dtype=np.int64)
    np.maximum.at(latest, place, lifetimes.end[rows])
    last = np.flatnonzero(lifetimes.end[rows] == latest[place])
    left: dict[str, list[int]] = {}
    for row, hole in zip(rows[last].tolist(), place[last].tolist(), strict=True):
        left.setdefault(ownership.readings[int(ownership.kind[row])].owner, []).append(int(size[hole]))
    number = {owner: place for place, owner in enumerate(left)}
    of_kind = np.asarray([number.get(reading.owner, -1) for reading in ownership.readings], dtype=np.int64)
    fresh = freed[lifetimes.start[freed] != BEFORE_RING]
    owners = of_kind[ownership.kind[fresh]]
    found = []
    for owner, sizes in sorted(left.items(), key=lambda each: -sum(each[1]))[:_MOST]:
        asked = lifetimes.asked_bytes[fresh[owners == number[owner]]]
        if len(asked):
            found.append(
                Churned(
                    owner=owner,
                    hole_bytes=sum(sizes),
                    holes=len(sizes),
                    freed=len(asked),
                    sizes=len(np.unique(asked)),
                    smallest_bytes=int(asked.min()),
                    largest_bytes=int(asked.max()),
                )
            )
    return tuple(sorted(found, key=lambda each: (-each.hole_bytes, each.owner)))
