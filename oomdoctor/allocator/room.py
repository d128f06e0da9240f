"""Why idle memory did not serve a request, and which live blocks stand in the way of a hole for it.

Rules of torch's caching allocator (c10/cuda/CUDACachingAllocator.cpp, get_free_block): a block serves requests of its
own pool (small or large, private or not) and of its own stream only; neighbours within a segment join when both are
free; nothing joins across segments; with max_split_size_mb a block from that size on serves none that would split it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..model.snapshot import BLOCK_STATES, IntColumn, Snapshot
from .fragmentation import pools_of_blocks
from .request import Request

_IDLE, _PENDING = BLOCK_STATES.index("inactive"), BLOCK_STATES.index("active_pending_free")

TOO_SMALL = "too-small"
NOT_SPLIT = "not-split"
OTHER_STREAM = "other-stream"
OTHER_POOL = "other-pool"
PRIVATE_POOL = "private-pool"
SHARED_POOL = "shared-pool"
WAITING = "waiting"
LARGE_ENOUGH = "large-enough"
REASONS = (TOO_SMALL, NOT_SPLIT, OTHER_STREAM, OTHER_POOL, PRIVATE_POOL, SHARED_POOL, WAITING, LARGE_ENOUGH)
"""Why a request could not use a block that holds no live tensor. The last is none: a hole that would have served it."""
HOLES = (TOO_SMALL, LARGE_ENOUGH)
"""Of these those in the request's own pool and stream that it could have used, had they been large enough."""


@dataclass(frozen=True)
class Unusable:
    """The blocks that hold no live tensor and that a request could not use, for one reason."""

    reason: str
    bytes: int
    count: int
    largest_bytes: int


@dataclass(frozen=True)
class Clearing:
    """The stretch of one segment in which the fewest live bytes stand in the way of a request."""

    segment: int
    """Row in Snapshot.segments."""
    first_block: int
    last_block: int
    """Rows in Snapshot.blocks, both included."""
    hole_bytes: int
    """What would be one hole."""
    in_the_way: tuple[int, ...]
    """Rows of the live blocks (and of those that wait for another stream) that would have to go."""
    in_the_way_bytes: int


def unusable(snapshot: Snapshot, request: Request) -> tuple[Unusable, ...]:
    """All memory of its device that is reserved and not live, by why a request could not use it; reasons that hold none
    are left out. Together they are all idle and all waiting bytes.
    """
    blocks = snapshot.blocks
    mine = snapshot.segments.device[blocks.segment] == request.device
    idle = mine & (blocks.state == _IDLE)
    own_pool, own_kind, own_stream = pools_of_blocks(snapshot, request)
    fits = idle & own_pool & own_kind & own_stream
    large = fits & (blocks.size_bytes >= request.block_bytes)
    whole = large & _never_split(blocks.size_bytes, request)
    private = snapshot.segments.private_pool[blocks.segment]
    chosen = {
        TOO_SMALL: fits & ~large,
        NOT_SPLIT: whole,
        OTHER_STREAM: idle & own_pool & own_kind & ~own_stream,
        OTHER_POOL: idle & own_pool & ~own_kind,
        PRIVATE_POOL: idle & ~own_pool & private,
        SHARED_POOL: idle & ~own_pool & ~private,
        WAITING: mine & (blocks.state == _PENDING),
        LARGE_ENOUGH: large & ~whole,
    }
    return tuple(
        Unusable(reason, int(sizes.sum()), len(sizes), int(sizes.max()))
        for reason in REASONS
        if len(sizes := blocks.size_bytes[chosen[reason]])
    )


def _never_split(sizes: IntColumn, request: Request) -> NDArray[np.bool_]:
    """Which of the holes that are long enough max_split_size_mb keeps from the request (`get_free_block`)."""
    bound, size = request.settings.max_split_bytes, request.block_bytes
    if bound is None:
        return np.zeros(len(sizes), dtype=np.bool_)
    if size < bound:
        return sizes >= bound
    return sizes >= size + request.settings.max_non_split_rounding_bytes


def pinned(snapshot: Snapshot, device: int) -> tuple[IntColumn, IntColumn]:
    """Pairs of a hole and a live block directly beside it, which keeps the hole from growing: rows of both."""
    blocks = snapshot.blocks
    idle = (blocks.state == _IDLE) & (snapshot.segments.device[blocks.segment] == device)
    first = np.flatnonzero(blocks.segment[1:] == blocks.segment[:-1])
    live = blocks.state != _IDLE
    before, after = first[live[first] & idle[first + 1]], first[idle[first] & live[first + 1]]
    return np.concatenate([before + 1, after]), np.concatenate([before, after + 1])


def clearing(snapshot: Snapshot, request: Request) -> Clearing | None:
    """Where the least would have to go to make a hole for a request; None where no segment of its pool is long enough,
    or where max_split_size_mb would keep the hole from it.
    """
    size, blocks = request.block_bytes, snapshot.blocks
    own_pool, own_kind, own_stream = pools_of_blocks(snapshot, request)
    eligible = (snapshot.segments.device[blocks.segment] == request.device) & own_pool & own_kind & own_stream
    best: tuple[int, int, int, int, int] | None = None
    for rows in _by_segment(blocks.segment, np.flatnonzero(eligible)):
        sizes = blocks.size_bytes[rows]
        if int(sizes.sum()) < size:
            continue
        found = _least_live(sizes, blocks.state[rows] != _IDLE, size)
        if _never_split(sizes[found[2] : found[3] + 1].sum(keepdims=True), request)[0]:
            continue
        if best is None or found[:2] < best[:2]:
            best = (*found[:2], int(rows[found[2]]), int(rows[found[3]]), int(blocks.segment[rows[0]]))
    if best is None:
        return None
    live_bytes, _, first, last, segment = best
    stretch = np.arange(first, last + 1)
    in_the_way = stretch[blocks.state[stretch] != _IDLE]
    return Clearing(
        segment=segment,
        first_block=first,
        last_block=last,
        hole_bytes=int(blocks.size_bytes[stretch].sum()),
        in_the_way=tuple(in_the_way.tolist()),
        in_the_way_bytes=live_bytes,
    )


def _by_segment(segment: IntColumn, rows: IntColumn) -> Iterator[IntColumn]:
    """The rows of each segment: blocks of a segment lie together, in address order."""
    if len(rows):
        yield from np.split(rows, np.flatnonzero(np.diff(segment[rows])) + 1)


def _least_live(sizes: IntColumn, live: NDArray[np.bool_], size: int) -> tuple[int, int, int, int]:
    """Of all stretches of at least `size` bytes the one with the fewest live bytes, then the fewest live blocks, then
    the longest: these two, and its first and last position.

    For each first block the shortest stretch is enough: a longer one holds no fewer live bytes.
    """
    total = np.concatenate([[0], np.cumsum(sizes)])
    live_bytes = np.concatenate([[0], np.cumsum(np.where(live, sizes, 0))])
    live_count = np.concatenate([[0], np.cumsum(live)])
    first = np.flatnonzero(total[-1] - total[:-1] >= size)
    end = np.searchsorted(total, total[first] + size, side="left")
    cost, count = live_bytes[end] - live_bytes[first], live_count[end] - live_count[first]
    # Idle neighbours join the hole: it reaches from after the live block before it to the next one.
    place = np.arange(len(sizes))
    after_live = np.concatenate([[0], np.maximum.accumulate(np.where(live, place + 1, 0))])
    next_live = np.append(np.minimum.accumulate(np.where(live, place, len(sizes))[::-1])[::-1], len(sizes))
    begin, after = after_live[first], next_live[end]
    best = np.lexsort((total[begin] - total[after], count, cost))[0]
    return int(cost[best]), int(count[best]), int(begin[best]), int(after[best]) - 1
