"""What of the reserved memory a request could use, what could be given back, and what pins the rest.

Rules of torch's caching allocator (c10/cuda/CUDACachingAllocator.cpp): requests are rounded up to 512 bytes; those up
to 1 MiB live in the small pool; a pool serves one stream; a segment goes back to the driver when it is one idle block;
an expandable segment gives back whole idle granules (2 MiB in the small pool, 20 MiB in the large one).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..model.snapshot import Blocks, IntColumn, Segments, Snapshot
from .simulation.rounding import SMALL_BYTES, block_size, page_size
from .simulation.rounding import segment_size as segment_size_of
from .simulation.settings import AllocatorSettings

SMALL_REQUEST_BYTES = SMALL_BYTES
_DEFAULT = AllocatorSettings()


@dataclass(frozen=True)
class Pin:
    """A live block with idle memory beside it, which would join into one piece if the block were freed."""

    block: int
    """Row in Snapshot.blocks."""
    size_bytes: int
    idle_bytes: int
    """Idle blocks directly before and after it in its segment."""


@dataclass(frozen=True)
class Fragmentation:
    """How one device's reserved memory stands towards one request."""

    device: int
    request_bytes: int
    """Rounded as the allocator does."""
    segment_bytes: int
    """What the allocator would ask the driver for, if no block serves."""
    stream: int
    largest_free_block_bytes: int
    """Largest idle block of the request's pool kind and stream; it serves the request if it is as large."""
    usable_idle_bytes: int
    """All idle bytes of that pool kind and stream."""
    releasable_bytes: int
    """Idle bytes that could go back to the driver."""
    pinned_idle_bytes: int
    """Idle bytes that live blocks keep from going back."""
    pending_free_bytes: int
    """Freed blocks that wait for another stream."""
    private_idle_bytes: int
    """Idle bytes in private (CUDA-graph, user) pools."""
    pins: tuple[Pin, ...]
    """The live blocks beside most idle memory, most first."""


def request_size(request_bytes: int) -> int:
    """The block a request needs: rounded up to 512 bytes, at least 512."""
    return block_size(request_bytes, _DEFAULT)


def segment_size(request_bytes: int) -> int:
    """The segment the allocator asks the driver for, to serve a request (without expandable segments)."""
    return segment_size_of(request_size(request_bytes), _DEFAULT)


def pools_of_blocks(
    snapshot: Snapshot, size_bytes: int, stream: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """For each block: in a private pool; in the kind of pool (small or large) that serves a block of this size; of
    the stream.
    """
    segments, owner = snapshot.segments, snapshot.blocks.segment
    return (
        segments.private_pool[owner],
        segments.is_small[owner] == (size_bytes <= SMALL_REQUEST_BYTES),
        segments.stream[owner] == np.uint64(stream),
    )


def fragmentation(
    snapshot: Snapshot, device: int, request_bytes: int, stream: int = 0, most_pins: int = 10
) -> Fragmentation:
    """How `device` stood towards a request of `request_bytes` on `stream`, in the snapshot's final state."""
    segments, blocks = snapshot.segments, snapshot.blocks
    size = request_size(request_bytes)
    here = segments.device[blocks.segment] == device
    idle = here & (blocks.state == 0)
    private, own_kind, own_stream = pools_of_blocks(snapshot, size, stream)
    shared_idle = idle & ~private
    usable = shared_idle & own_kind & own_stream
    releasable = _releasable(segments, blocks, shared_idle)
    return Fragmentation(
        device=device,
        request_bytes=size,
        segment_bytes=segment_size(request_bytes),
        stream=stream,
        largest_free_block_bytes=int(blocks.size_bytes[usable].max(initial=0)),
        usable_idle_bytes=int(blocks.size_bytes[usable].sum()),
        releasable_bytes=releasable,
        pinned_idle_bytes=int(blocks.size_bytes[shared_idle].sum()) - releasable,
        pending_free_bytes=int(blocks.size_bytes[here & (blocks.state == 2)].sum()),
        private_idle_bytes=int(blocks.size_bytes[idle & private].sum()),
        pins=_pins(blocks, here & ~private, most_pins),
    )


def _releasable(segments: Segments, blocks: Blocks, idle: NDArray[np.bool_]) -> int:
    """Bytes of segments that hold no live block, and of whole idle granules of expandable segments."""
    live = np.bincount(blocks.segment[blocks.state > 0], minlength=len(segments)) > 0
    expandable = segments.is_expandable[blocks.segment]
    whole = int(blocks.size_bytes[idle & ~expandable & ~live[blocks.segment]].sum())

    rows = np.flatnonzero(idle & expandable)
    owner = blocks.segment[rows]
    small_page, large_page = (page_size(small=small, settings=_DEFAULT) for small in (True, False))
    granule = np.where(segments.is_small[owner], small_page, large_page)
    offset: IntColumn = (blocks.address[rows] - segments.address[owner]).astype(np.int64)
    first = -(-offset // granule) * granule
    last = (offset + blocks.size_bytes[rows]) // granule * granule
    return whole + int(np.maximum(last - first, 0).sum())


def _pins(blocks: Blocks, chosen: NDArray[np.bool_], most: int) -> tuple[Pin, ...]:
    """The live blocks of `chosen` beside most idle memory. Blocks lie in address order within their segment."""
    idle_size = np.where(blocks.state == 0, blocks.size_bytes, 0)
    beside = np.zeros(len(blocks), dtype=np.int64)
    neighbours = blocks.segment[1:] == blocks.segment[:-1]
    beside[1:] += np.where(neighbours, idle_size[:-1], 0)
    beside[:-1] += np.where(neighbours, idle_size[1:], 0)
    beside[~chosen | (blocks.state == 0)] = 0
    order = np.argsort(-beside, kind="stable")[:most]
    return tuple(
        Pin(block=row, size_bytes=int(blocks.size_bytes[row]), idle_bytes=int(beside[row]))
        for row in order.tolist()
        if beside[row] > 0
    )
