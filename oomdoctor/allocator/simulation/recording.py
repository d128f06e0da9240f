"""What a program asked of its allocator, read from the recorded events of one device up to its failing request.

Requests and releases are the program's; segments are the allocator's own affair and are left to the model. Two things
have to be told apart from their traces. Segments given back right before a new segment, or before the failure, were
given back for want of memory, if the driver had too little left and none of them would have served the request;
otherwise the program called `empty_cache`. And blocks
that stopped waiting right before such a release did so on their own (`process_events`, before the request is looked at)
or because the allocator waited for them when it found no memory (`synchronize_and_free_events`); which of the two, only
the model can try. An `empty_cache` that gave nothing back, or came when memory was short anyway, leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from ...model.snapshot import ACTIONS, Events, IntColumn, Snapshot, SnapshotOom
from .memory_map import Area, MemoryMap, memory_map
from .rounding import SMALL_BUFFER_BYTES, SMALL_BYTES, block_size
from .settings import AllocatorSettings

_CODE = {name: code for code, name in enumerate(ACTIONS)}
_ALLOC, _REQUESTED, _COMPLETED = _CODE["alloc"], _CODE["free_requested"], _CODE["free_completed"]
_NEW = (_CODE["segment_alloc"], _CODE["segment_map"])
_GONE = (_CODE["segment_free"], _CODE["segment_unmap"])
_UNMAP = _CODE["segment_unmap"]
_OOM, _UNRELATED = _CODE["oom"], _CODE["snapshot"]


class Kind(IntEnum):
    """What a step of the program is."""

    MALLOC = 0
    FREE = 1
    COMPLETE = 2
    """No stream uses the block any more."""
    EMPTY = 3
    """Give back what is cached (`torch.cuda.empty_cache()`, the end of a graph)."""
    FAIL = 4
    """A request that failed."""


class Step(NamedTuple):
    """One step."""

    kind: Kind
    event: int
    block: int = -1
    """Number of the allocation; those that stood at the beginning count first, in order of address."""
    size_bytes: int = 0
    stream: int = 0
    pool: int = 0
    address: int = 0
    """Where the block came to stand, when it was recorded."""
    segment_address: int | None = None
    """Where a segment was made for it, if one was."""


@dataclass(frozen=True)
class Recording:
    """One device's program, from where the ring begins to the request that failed."""

    device: int
    start: MemoryMap
    steps: tuple[Step, ...]
    """The last is the failing request."""
    end: MemoryMap
    """What torch's allocator held when the request failed."""
    oom: SnapshotOom
    free_bytes: int
    """Free on the device by the driver at the failure."""
    contradictions: int
    """Events that name a block nobody knows."""
    others_moved_bytes: int
    """By how much what others hold on the device differed between the failures that are recorded."""
    may_have_waited: bool = False
    """Whether blocks stopped waiting before a release for want of memory, so that `waited_for` makes a difference."""

    @property
    def requests(self) -> int:
        """Requests before the one that failed."""
        return sum(step.kind is Kind.MALLOC for step in self.steps)

    @property
    def begins_empty(self) -> bool:
        """Whether the ring reaches back to where the allocator held nothing."""
        return not self.start.areas

    @property
    def free_at_start_bytes(self) -> int:
        """Free on the device where the ring begins, if others held then what they held at the failure."""
        return self.free_bytes + self.end.reserved_bytes - self.start.reserved_bytes


def read_recording(
    snapshot: Snapshot,
    oom: SnapshotOom,
    free_bytes: int,
    settings: AllocatorSettings,
    *,
    total_bytes: int | None = None,
    allowed_bytes: int | None = None,
    waited_for: bool = False,
    freed_bytes: IntColumn | None = None,
) -> Recording | None:
    """The program up to `oom`, of which the driver had `free_bytes` left; None where its device has no events.

    `total_bytes` is what the card has, where that is known; `allowed_bytes` what the process was allowed to reserve of
    it, where it was not all. `waited_for`: what stopped waiting before a release did so because the allocator waited.
    `freed_bytes` as for `memory_map`.
    """
    events = next((events for events in snapshot.events if events.device == oom.device), None)
    if events is None:
        return None
    card = total_bytes if total_bytes is not None else free_bytes + snapshot.reserved_bytes
    start = memory_map(snapshot, events, settings, window_bytes=card + card // 8, freed_bytes=freed_bytes)
    end = memory_map(snapshot, events, settings, oom.event_index, freed_bytes=freed_bytes)
    reader = _Reader(events, start, end, oom, free_bytes, settings, allowed_bytes, waited_for)
    steps = tuple(reader.steps())
    taken = []
    for one in [one for one in snapshot.ooms if one.device == oom.device and one.event_index <= oom.event_index]:
        if one.free_bytes is not None:
            taken.append(one.free_bytes + reader.reserved_at_failure[one.event_index])
    return Recording(
        device=oom.device,
        start=start,
        steps=steps,
        end=end,
        oom=oom,
        free_bytes=free_bytes,
        contradictions=start.contradictions + reader.unknown,
        others_moved_bytes=max(taken) - min(taken) if taken else 0,
        may_have_waited=reader.may_have_waited,
    )


class _Reader:
    """Goes through the events once. `held` are blocks that stopped waiting, of which it is not yet clear why."""

    def __init__(
        self,
        events: Events,
        start: MemoryMap,
        end: MemoryMap,
        oom: SnapshotOom,
        free_bytes: int,
        settings: AllocatorSettings,
        allowed_bytes: int | None,
        waited_for: bool,
    ) -> None:
        self.waited_for = waited_for
        self.events, self.settings, self.allowed_bytes = events, settings, allowed_bytes
        self.last = oom.event_index
        self.action: list[int] = events.action[: self.last + 1].tolist()
        self.address: list[int] = events.address[: self.last + 1].tolist()
        self.size: list[int] = events.size_bytes[: self.last + 1].tolist()
        self.stream: list[int] = events.stream[: self.last + 1].tolist()
        self.reserved_bytes = start.reserved_bytes
        self.free_bytes = free_bytes + end.reserved_bytes - start.reserved_bytes
        self.numbers = {block.address: number for number, block in enumerate(start.blocks)}
        self.next_number = len(start.blocks)
        self.pools = _pools_of(events, (*start.areas, *end.areas))
        self.unknown = 0
        self.may_have_waited = False
        self.reserved_at_failure: dict[int, int] = {}

    def steps(self) -> Iterator[Step]:
        """The steps in order."""
        held: list[Step] = []
        short = False
        made = None
        for index, (what, address, size) in enumerate(zip(self.action, self.address, self.size, strict=True)):
            if what == _COMPLETED:
                step = self._known(Kind.COMPLETE, index, self.numbers.pop(address, None))
                if step is None:
                    continue
                if index and self.action[index - 1] == _REQUESTED and self.address[index - 1] == address:
                    yield step
                else:
                    held.append(step)
                continue
            if what in _GONE:
                begins = not index or self.action[index - 1] not in _GONE
                short = self._was_short(index, waited=bool(held)) if begins else short
                self.may_have_waited = self.may_have_waited or (short and bool(held))
                if not short or not self.waited_for:
                    yield from held
                    held = []
                if begins and not short:
                    yield Step(Kind.EMPTY, index)
                if self.pools[index]:
                    yield Step(Kind.EMPTY, index, pool=self.pools[index])
                self._take(-size)
                continue
            short = short or what == _OOM
            self.may_have_waited = self.may_have_waited or (short and bool(held))
            if what != _UNRELATED and not (short and self.waited_for):
                yield from held
                held = []
            if what == _ALLOC:
                self.unknown += address in self.numbers
                self.numbers[address] = self.next_number
                yield Step(
                    Kind.MALLOC, index, self.next_number, size, self.stream[index], self.pools[index], address, made
                )
                self.next_number += 1
            elif what == _REQUESTED:
                step = self._known(Kind.FREE, index, self.numbers.get(address))
                if step is not None:
                    yield step
            elif what in _NEW:
                made = address if made is None else made
                self._take(size)
            elif what == _OOM:
                self.reserved_at_failure[index] = self.reserved_bytes
                yield Step(Kind.FAIL, index, -1, size, self.stream[index], self.pools[index])
            if index == self.last:
                return  # what the allocator waited for in vain is of no more account
            if what in (_ALLOC, _OOM):
                yield from held
                held, short, made = [], False, None

    def _known(self, kind: Kind, index: int, number: int | None) -> Step | None:
        if number is None:
            self.unknown += 1
            return None
        return Step(kind, index, number)

    def _take(self, size: int) -> None:
        self.free_bytes -= size
        self.reserved_bytes += size

    def _was_short(self, index: int, *, waited: bool) -> bool:
        """Whether segments given back from this event on were given back for want of memory.

        `waited`: blocks stopped waiting just before; they may be what was given back.
        """
        at = index
        while at <= self.last and self.action[at] in _GONE:
            at += 1
        gone = range(index, at)
        wanted = 0
        while at <= self.last and self.action[at] in _NEW:
            wanted += self.size[at]
            at += 1
        if at > self.last or self.action[at] not in (_ALLOC, _OOM) or not (wanted or self.action[at] == _OOM):
            return False
        if not waited and any(self._would_serve(one, at) for one in gone):
            return False
        allowed = self.allowed_bytes
        over = allowed is not None and self.reserved_bytes + wanted > allowed
        return not wanted or over or self._collects(gone) or self.free_bytes < wanted

    def _collects(self, gone: range) -> bool:
        """Whether garbage may have gone: whole segments, above the threshold (`garbage_collect_cached_blocks`)."""
        threshold, allowed = self.settings.garbage_collection_threshold, self.allowed_bytes
        if threshold <= 0 or allowed is None or self.reserved_bytes <= int(threshold * allowed):
            return False
        return any(self.action[one] != _UNMAP for one in gone)

    def _would_serve(self, gone: int, request: int) -> bool:
        """Whether what was given back would have served the request from the cache, had the program not emptied it."""
        size, block = block_size(self.size[request], self.settings), self.size[gone]
        if self.stream[gone] != self.stream[request] or self.pools[gone] != self.pools[request] or block < size:
            return False
        pages = self.action[gone] == _UNMAP and block % self.settings.large_segment_bytes != 0
        if (size <= SMALL_BYTES) != (pages or block == SMALL_BUFFER_BYTES):
            return False
        bound = self.settings.max_split_bytes
        if bound is None:
            return True
        if self.action[gone] == _UNMAP:
            return False  # the block that the pages were part of may have been too large
        fits = block < size + self.settings.max_non_split_rounding_bytes
        return block < bound if size < bound else fits


def _pools_of(events: Events, areas: tuple[Area, ...]) -> list[int]:
    """The pool of each event: as it says, else that of the segment its address lies in."""
    if events.pool is not None:
        return [int(pool) for pool in events.pool.tolist()]
    private = [area for area in areas if area.pool]
    if not private:
        return [0] * len(events)
    found = np.zeros(len(events), dtype=np.int64)
    for area in private:
        inside = (events.address >= np.uint64(area.address)) & (events.address < np.uint64(area.end))
        found[inside] = area.pool
    return [int(pool) for pool in found.tolist()]
