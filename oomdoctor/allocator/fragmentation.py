"""What of the reserved memory a request could use, and what could be given back.

Rules of torch's caching allocator (c10/cuda/CUDACachingAllocator.cpp): requests are rounded up to 512 bytes; those up
to 1 MiB live in the small pool; a pool serves one stream; a segment goes back to the driver when it is one idle block;
an expandable segment gives back whole idle granules (2 MiB in the small pool, 20 MiB in the large one).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..model.snapshot import Blocks, Frame, IntColumn, Segments, Snapshot
from .request import Request
from .simulation.rounding import page_size
from .simulation.settings import AllocatorSettings
from .stacks import is_python

_CAPTURE = re.compile(r"cuda_?graph|(?:^|_)capture(?:_|$)|make_graphed|torch/cuda/graphs\.py", re.IGNORECASE)


@dataclass(frozen=True)
class Fragmentation:
    """How one device's reserved memory stands towards one request."""

    largest_free_block_bytes: int
    """Largest idle block of the request's pool and stream; it serves the request if it is as large."""
    usable_idle_bytes: int
    """All idle bytes of that pool and stream."""
    releasable_bytes: int
    """Idle bytes that could go back to the driver."""
    pinned_idle_bytes: int
    """Idle bytes that live blocks keep from going back."""
    pending_free_bytes: int
    """Freed blocks that wait for another stream."""
    private_idle_bytes: int
    """Idle bytes in private (CUDA-graph, user) pools."""
    program_pool_idle_bytes: int
    """Of these, in pools that the program made (`torch.cuda.MemPool`), not a capture."""


def pools_of_blocks(
    snapshot: Snapshot, request: Request
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """For each block: in the request's pool, private or shared; in the half of a pool (small or large) that serves a
    request of this size; of its stream.
    """
    segments, owner = snapshot.segments, snapshot.blocks.segment
    return (
        segments.pool[owner] == request.pool,
        segments.is_small[owner] == request.is_small,
        segments.stream[owner] == np.uint64(request.stream),
    )


def fragmentation(snapshot: Snapshot, request: Request) -> Fragmentation:
    """How the request's device stood towards it, in the snapshot's final state."""
    segments, blocks = snapshot.segments, snapshot.blocks
    here = segments.device[blocks.segment] == request.device
    idle = here & (blocks.state == 0)
    own_pool, own_kind, own_stream = pools_of_blocks(snapshot, request)
    private = segments.private_pool[blocks.segment]
    shared_idle = idle & ~private
    usable = idle & own_pool & own_kind & own_stream
    releasable = _releasable(segments, blocks, shared_idle, request.settings)
    return Fragmentation(
        largest_free_block_bytes=int(blocks.size_bytes[usable].max(initial=0)),
        usable_idle_bytes=int(blocks.size_bytes[usable].sum()),
        releasable_bytes=releasable,
        pinned_idle_bytes=int(blocks.size_bytes[shared_idle].sum()) - releasable,
        pending_free_bytes=int(blocks.size_bytes[here & (blocks.state == 2)].sum()),
        private_idle_bytes=int(blocks.size_bytes[idle & private].sum()),
        program_pool_idle_bytes=int(blocks.size_bytes[idle & _of_programs_pools(snapshot)[blocks.segment]].sum()),
    )


def _of_programs_pools(snapshot: Snapshot) -> NDArray[np.bool_]:
    """Of each segment whether it is of a pool that the program made for itself.

    A capture that is given no pool numbers its own in the first half (`MempoolId_t` of c10), a MemPool and
    `graph_pool_handle()` in the second; where one of the latter serves captures, a stack says so.
    """
    segments, blocks = snapshot.segments, snapshot.blocks
    found: NDArray[np.bool_] = segments.private_pool & (segments.pool != 0) & (segments.pool >> 32 == 0)
    if not found.any():
        return found
    stack = np.concatenate([segments.stack, blocks.stack])
    pool = np.concatenate([segments.pool, segments.pool[blocks.segment]])
    told = stack >= 0
    captures = np.asarray([_captures(frames) for frames in snapshot.stacks], dtype=np.bool_)
    captured = np.unique(pool[told][captures[stack[told]]])
    found &= ~np.isin(segments.pool, captured)
    return found


def _captures(stack: tuple[Frame, ...]) -> bool:
    return any(_CAPTURE.search(frame.function) or _CAPTURE.search(frame.file) for frame in stack if is_python(frame))


def _releasable(segments: Segments, blocks: Blocks, idle: NDArray[np.bool_], settings: AllocatorSettings) -> int:
    """Bytes of segments that hold no live block, and of whole idle granules of expandable segments."""
    live = np.bincount(blocks.segment[blocks.state > 0], minlength=len(segments)) > 0
    expandable = segments.is_expandable[blocks.segment]
    whole = int(blocks.size_bytes[idle & ~expandable & ~live[blocks.segment]].sum())

    rows = np.flatnonzero(idle & expandable)
    owner = blocks.segment[rows]
    small_page, large_page = (page_size(small=small, settings=settings) for small in (True, False))
    granule = np.where(segments.is_small[owner], small_page, large_page)
    offset: IntColumn = (blocks.address[rows] - segments.address[owner]).astype(np.int64)
    first = -(-offset // granule) * granule
    last = (offset + blocks.size_bytes[rows]) // granule * granule
    return whole + int(np.maximum(last - first, 0).sum())
