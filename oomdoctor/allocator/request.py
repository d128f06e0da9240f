"""A request to torch's caching allocator: which block, pool and segment serve it under the recorded settings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..model.snapshot import ACTIONS, Snapshot, SnapshotOom
from .simulation.rounding import SMALL_BYTES, block_size, page_size
from .simulation.rounding import segment_size as segment_size_of
from .simulation.settings import AllocatorSettings, recorded_settings

_ALLOC = ACTIONS.index("alloc")
_PADDING_OF_NPU = 32
"""`round_size` of NPUCachingAllocator.cpp; 645 of 645 live blocks of a genuine snapshot have the size this gives."""


@dataclass(frozen=True)
class Request:
    """So many bytes on a stream of a device, from one pool."""

    device: int
    requested_bytes: int
    stream: int = 0
    pool: int = 0
    """As Segments.pool: 0 is the pool that all share."""
    settings: AllocatorSettings = field(default_factory=AllocatorSettings)

    @property
    def block_bytes(self) -> int:
        """The block it needs."""
        return block_size(self.requested_bytes, self.settings)

    @property
    def is_small(self) -> bool:
        """Whether the small half of its pool serves it."""
        return self.block_bytes <= SMALL_BYTES

    @property
    def segment_bytes(self) -> int:
        """What the allocator says that it tried to allocate, where no idle block serves: a new segment."""
        return segment_size_of(self.block_bytes, self.settings)

    @property
    def driver_bytes(self) -> int:
        """What the driver must have for it then.

        Expandable segments grow by whole pages; where their end is idle it may be one page less.
        """
        if not self.settings.expandable_segments:
            return self.segment_bytes
        page = page_size(small=self.is_small, settings=self.settings)
        return -(-self.block_bytes // page) * page

    @property
    def is_capturing(self) -> bool:
        """Whether it came while a CUDA graph was captured, when nothing can be given back to the driver."""
        return self.pool >> 32 != 0


def settings_of(snapshot: Snapshot, device: int) -> AllocatorSettings:
    """Those recorded, else torch's defaults; expandable segments are seen in the segments too."""
    known = recorded_settings(snapshot.settings)
    expandable = bool(snapshot.segments.is_expandable[snapshot.segments.device == device].any())
    found = known or AllocatorSettings(expandable_segments=expandable)
    return replace(found, padding_bytes=_PADDING_OF_NPU) if snapshot.backend == "npu" else found


def request_of(snapshot: Snapshot, oom: SnapshotOom) -> Request:
    """The request that failed."""
    events = next(events for events in snapshot.events if events.device == oom.device)
    stream = int(events.stream[oom.event_index])
    return Request(
        oom.device, oom.requested_bytes, stream, _pool(snapshot, oom, stream), settings_of(snapshot, oom.device)
    )


def _pool(snapshot: Snapshot, oom: SnapshotOom, stream: int) -> int:
    """As the event says; releases before 2.14 do not, but a stream that has private segments only tells it."""
    if oom.pool is not None:
        return oom.pool
    segments = snapshot.segments
    mine = (segments.device == oom.device) & (segments.stream == np.uint64(stream))
    if not mine.any() or not segments.private_pool[mine].all():
        return 0
    events = next(events for events in snapshot.events if events.device == oom.device)
    before = slice(0, oom.event_index)
    same = np.flatnonzero((events.action[before] == _ALLOC) & (events.stream[before] == np.uint64(stream)))
    address = events.address[same[-1:]]
    rows = np.flatnonzero(mine)
    begin = segments.address[rows]
    for last in address:
        inside = rows[(begin <= last) & (last - begin < segments.total_bytes[rows].astype(np.uint64))]
        if len(inside):
            return int(segments.pool[inside[0]])
    pools = np.unique(segments.pool[rows])
    return int(pools[0]) if len(pools) == 1 else 0
