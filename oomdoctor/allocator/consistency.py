"""Whether a snapshot's final state can be: a segment is its blocks, one after another, and no two share an address."""

from __future__ import annotations

import numpy as np

from ..model.snapshot import Snapshot


def broken_segments(snapshot: Snapshot, device: int) -> int:
    """How many segments of a device are not filled by their blocks without a gap, or lie in another; 0 for what torch
    writes. A segment that lists no block at all is not counted: nothing is said of what is in it.
    """
    found: int | None = snapshot.derived.get(("broken segments", device))
    if found is None:
        found = snapshot.derived["broken segments", device] = _broken_segments(snapshot, device)
    return found


def _broken_segments(snapshot: Snapshot, device: int) -> int:
    segments, blocks = snapshot.segments, snapshot.blocks
    here = segments.device == device
    count = np.bincount(blocks.segment, minlength=len(segments))
    filled = np.zeros(len(segments), dtype=np.int64)
    np.add.at(filled, blocks.segment, blocks.size_bytes)
    broken = (count > 0) & (filled != segments.total_bytes)
    before = np.cumsum(blocks.size_bytes) - blocks.size_bytes
    first = np.minimum(np.cumsum(count) - count, max(len(before) - 1, 0))
    offset = before - before[first][blocks.segment] if len(before) else before
    apart = blocks.address != segments.address[blocks.segment] + offset.astype(np.uint64)
    broken[blocks.segment[apart]] = True

    rows = np.flatnonzero(here & (segments.total_bytes > 0))
    rows = rows[np.argsort(segments.address[rows], kind="stable")]
    gap = segments.address[rows[1:]] - segments.address[rows[:-1]]
    broken[rows[1:][gap < segments.total_bytes[rows[:-1]].astype(np.uint64)]] = True
    return int((broken & here).sum())
