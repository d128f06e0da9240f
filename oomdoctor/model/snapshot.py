"""A PyTorch memory snapshot as columns: a million events are a handful of arrays, not a million objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntColumn = NDArray[np.int64]
AddressColumn = NDArray[np.uint64]


@dataclass(frozen=True)
class Frame:
    """One stack frame; `line` is 0 for native frames without one."""

    function: str
    file: str
    line: int


BLOCK_STATES = ("inactive", "active_allocated", "active_pending_free")
"""`blocks.state` indexes this. Older spellings (`active_awaiting_free`) are mapped to these."""

ACTIONS = (
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
    "annotate",
    "unknown",
)
"""`events.action` indexes this."""

_MOST_TIMED = 0.5
"""Where fewer events have a time, the rest cannot be put between them."""
_JITTER = 0.01
"""Times of several threads go back a little now and then; a clock that was set goes back further."""


@dataclass(frozen=True)
class Segments:
    """One row a segment."""

    device: IntColumn
    address: AddressColumn
    total_bytes: IntColumn
    stream: AddressColumn
    is_small: NDArray[np.bool_]
    """The small pool (requests up to 1 MiB)."""
    is_expandable: NDArray[np.bool_]
    private_pool: NDArray[np.bool_]
    """A pool of a CUDA graph or of the user (segment_pool_id other than (0, 0))."""
    stack: IntColumn
    """Index into Snapshot.stacks; -1 where there is none."""
    pool: IntColumn
    """The pair of segment_pool_id as one number, the first in the upper half; 0 is the default pool."""

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True)
class Blocks:
    """One row a block, in address order within its segment."""

    segment: IntColumn
    """Row of its segment."""
    address: AddressColumn
    size_bytes: IntColumn
    requested_bytes: IntColumn
    state: IntColumn
    """Index into BLOCK_STATES."""
    stack: IntColumn

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True)
class Events:
    """The recorded history of one device, oldest first. A ring: what came before it is lost."""

    device: int
    action: IntColumn
    address: AddressColumn
    size_bytes: IntColumn
    stream: AddressColumn
    time_us: IntColumn
    """Unix time in microseconds; -1 where the schema has none."""
    stack: IntColumn
    pool: IntColumn | None = None
    """As Segments.pool. None where no event says it, or all segments are of the default pool."""
    note: IntColumn | None = None
    """Index into Snapshot.notes; -1 for an event without one. None where no event has any."""

    @cached_property
    def timeline_us(self) -> IntColumn | None:
        """A time for every event, none before that of another that came earlier: one without takes that of the event
        before it. None where most have none, or the times go backwards.
        """
        known = self.time_us >= 0
        if not len(known) or known.mean() < _MOST_TIMED or not self.runs_forwards:
            return None
        last = np.maximum.accumulate(np.where(known, np.arange(len(known)), -1))
        times = self.time_us[np.where(last < 0, known.argmax(), last)]
        return np.asarray(np.maximum.accumulate(times), dtype=np.int64)

    @cached_property
    def runs_forwards(self) -> bool:
        """Whether the events' times, as far as they have any, follow their order but for a little jitter."""
        known = self.time_us[self.time_us >= 0].astype(np.float64)
        if not len(known):
            return True
        return bool(-np.minimum(np.diff(known), 0).sum() <= _JITTER * (known.max() - known.min()))

    def __len__(self) -> int:
        return len(self.action)


@dataclass(frozen=True)
class SnapshotOom:
    """An `oom` event: the exact request (the message rounds it)."""

    device: int
    requested_bytes: int
    free_bytes: int | None
    """Free on the device by the driver, at that moment."""
    time_us: int | None
    stack: int
    event_index: int
    pool: int | None = None
    """As Segments.pool: which one was to serve it; None where the event does not say it."""


@dataclass(frozen=True)
class Annotation:
    """A stretch that the program named itself (`Optimizer.step#AdamW.step`). Unix times in microseconds."""

    name: str
    device: int
    begin_us: int
    end_us: int | None
    """None: it had not ended when the snapshot was taken."""


@dataclass(frozen=True)
class Snapshot:
    """One memory snapshot of one process."""

    path: str
    schema: str
    """'native', 'history' (blocks carry a history list), 'state-only', …"""
    backend: str
    """'cuda', 'hip', 'xpu', 'npu', 'cuda or hip' (torch calls both cuda: only native frames tell) or 'unknown'."""
    segments: Segments
    blocks: Blocks
    events: tuple[Events, ...]
    stacks: tuple[tuple[Frame, ...], ...]
    """Innermost frame first, as torch writes them."""
    ooms: tuple[SnapshotOom, ...]
    settings: Mapping[str, Any]
    """allocator_settings as found (plain values only)."""
    unknown_keys: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    notes: tuple[str, ...] = ()
    """What the program said of events (`_set_memory_metadata`, `_annotate_tensor`), each text once."""
    derived: dict[tuple[str, int], Any] = field(init=False, default_factory=dict, repr=False, compare=False)
    """What was computed of it, by what and for which device: a million events are replayed once, whoever asks."""

    @property
    def devices(self) -> tuple[int, ...]:
        """Devices that hold a segment or recorded an event, ascending."""
        seen = set(self.segments.device.tolist()) | {e.device for e in self.events if len(e)}
        return tuple(sorted(int(device) for device in seen))

    @property
    def device_count(self) -> int:
        """Devices that the process saw: each has a trace, if an empty one; without traces, at least so many."""
        return max(len(self.events), max(self.devices, default=-1) + 1)

    @property
    def reserved_bytes(self) -> int:
        """Bytes of all segments on all devices."""
        return int(self.segments.total_bytes.sum())

    @property
    def allocated_bytes(self) -> int:
        """Bytes of all blocks in use (state active_allocated) on all devices."""
        return int(self.blocks.size_bytes[self.blocks.state == 1].sum())
