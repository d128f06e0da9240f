"""What an allocator held at a moment of the recording: segments and the blocks live in them, rebuilt backwards.

From the final state every event after the moment is undone, the last first: an `alloc` takes its block away, a
`free_completed` brings it back, `segment_alloc` and `segment_map` take memory away, `segment_free` and `segment_unmap`
bring it back. What is in no live block is free, and free neighbours are always joined, so nothing else is needed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from ...model.snapshot import ACTIONS, BLOCK_STATES, Events, IntColumn, Snapshot
from .rounding import SMALL_BUFFER_BYTES, SMALL_BYTES, block_size
from .settings import AllocatorSettings

_CODE = {name: code for code, name in enumerate(ACTIONS)}
_WAITING = BLOCK_STATES.index("active_pending_free")


@dataclass(frozen=True)
class Area:
    """A segment, or a mapped stretch of an expandable one."""

    address: int
    size_bytes: int
    stream: int
    pool: int
    small: bool
    expandable: bool

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + self.size_bytes


@dataclass(frozen=True)
class LiveBlock:
    """A block in use, or waiting for another stream."""

    address: int
    size_bytes: int
    waiting: bool


@dataclass(frozen=True)
class MemoryMap:
    """One device's allocator at one moment; both tuples by address."""

    areas: tuple[Area, ...]
    blocks: tuple[LiveBlock, ...]
    contradictions: int = 0
    """Events that do not fit the state they are said to have changed."""
    bases: Mapping[tuple[int, int, bool], tuple[int, ...]] = field(default_factory=dict)
    """Where the addresses of the expandable segments of a stream, a pool and its smaller or larger half begin."""

    @property
    def reserved_bytes(self) -> int:
        """All segments."""
        return sum(area.size_bytes for area in self.areas)

    @property
    def live_bytes(self) -> int:
        """All blocks in use or waiting."""
        return sum(block.size_bytes for block in self.blocks)


def pool_number(pool_id: tuple[int, int]) -> int:
    """A pool's pair of numbers as one; 0 is the default pool. The first is not 0 for the pool of a CUDA graph."""
    return (pool_id[0] << 32) | pool_id[1]


class _Rewinder:
    def __init__(
        self, snapshot: Snapshot, events: Events, settings: AllocatorSettings, freed_bytes: IntColumn | None = None
    ) -> None:
        self.events, self.settings, self.freed_bytes = events, settings, freed_bytes
        self.contradictions = 0
        device, segments, blocks = events.device, snapshot.segments, snapshot.blocks
        self.areas: dict[int, Area] = {}
        for row in np.flatnonzero(segments.device == device).tolist():
            address = int(segments.address[row])
            self.areas[address] = Area(
                address=address,
                size_bytes=int(segments.total_bytes[row]),
                stream=int(segments.stream[row]),
                pool=int(segments.pool[row]),
                small=bool(segments.is_small[row]),
                expandable=bool(segments.is_expandable[row]),
            )
        rows = np.flatnonzero((segments.device[blocks.segment] == device) & (blocks.state > 0))
        self.live = {
            int(blocks.address[row]): (int(blocks.size_bytes[row]), bool(blocks.state[row] == _WAITING))
            for row in rows.tolist()
        }
        self.first_areas = tuple(self.areas.values())
        self.is_small = _SmallPages(events, settings)

    def undo_back_to(self, first: int) -> None:
        """Undo every event from the last down to this one."""
        events = self.events
        alloc, requested, completed = _CODE["alloc"], _CODE["free_requested"], _CODE["free_completed"]
        whole = np.zeros(len(events), dtype=np.int64) if self.freed_bytes is None else self.freed_bytes
        steps = zip(
            events.action[first:].tolist()[::-1],
            events.address[first:].tolist()[::-1],
            events.size_bytes[first:].tolist()[::-1],
            whole[first:].tolist()[::-1],
            range(len(events) - 1, first - 1, -1),
            strict=True,
        )
        for action, address, size, whole_bytes, index in steps:
            if action == alloc:
                self.contradictions += self.live.pop(address, None) is None
            elif action == completed:
                self.contradictions += address in self.live
                self.live[address] = (max(block_size(size, self.settings), whole_bytes), True)
            elif action == requested:
                if address in self.live:
                    self.live[address] = (self.live[address][0], False)
                else:
                    self.contradictions += 1
            elif action in _UNDO:
                _UNDO[action](self, index, address, size)

    def undo_segments_back_to(self, first: int) -> None:
        """Undo what came and went of segments from the last event down to this one; blocks are left as they are."""
        events = self.events
        rows = first + np.flatnonzero(np.isin(events.action[first:], list(_UNDO)))
        for index in rows[::-1].tolist():
            address, size = int(events.address[index]), int(events.size_bytes[index])
            _UNDO[int(events.action[index])](self, index, address, size)

    def bases(self, window_bytes: int) -> dict[tuple[int, int, bool], tuple[int, ...]]:
        """The lowest address that each expandable segment is seen to have mapped; none is longer than the window."""
        seen: dict[tuple[int, int, bool], set[int]] = {}
        rows = np.flatnonzero(np.isin(self.events.action, (_CODE["segment_map"], _CODE["segment_unmap"])))
        mapped = [
            self._area(row, int(self.events.address[row]), int(self.events.size_bytes[row]), expandable=True)
            for row in rows.tolist()
        ]
        for area in (*self.first_areas, *mapped):
            if area.expandable:
                seen.setdefault((area.stream, area.pool, area.small), set()).add(area.address)
        found: dict[tuple[int, int, bool], tuple[int, ...]] = {}
        for key, addresses in seen.items():
            bases: list[int] = []
            for address in sorted(addresses):
                if not bases or address >= bases[-1] + window_bytes:
                    bases.append(address)
            found[key] = tuple(bases)
        return found

    def undo_segment_alloc(self, index: int, address: int, size: int) -> None:
        self.contradictions += self.areas.pop(address, None) is None

    def undo_segment_free(self, index: int, address: int, size: int) -> None:
        self.contradictions += address in self.areas
        self.areas[address] = self._area(index, address, size, expandable=False)

    def undo_map(self, index: int, address: int, size: int) -> None:
        """Cut the pages out of the stretch that holds them."""
        starts = sorted(start for start, area in self.areas.items() if area.expandable)
        at = bisect_right(starts, address) - 1
        area = self.areas.get(starts[at]) if at >= 0 else None
        if area is None or area.end < address + size:
            self.contradictions += 1
            return
        del self.areas[area.address]
        if area.address < address:
            self.areas[area.address] = replace(area, size_bytes=address - area.address)
        if area.end > address + size:
            self.areas[address + size] = replace(area, address=address + size, size_bytes=area.end - address - size)

    def undo_unmap(self, index: int, address: int, size: int) -> None:
        """Put the pages back, joined with the stretches beside them."""
        made = self._area(index, address, size, expandable=True)
        before = next((one for one in self.areas.values() if one.end == address and _same_reservation(one, made)), None)
        if before is not None:
            del self.areas[before.address]
            made = replace(before, size_bytes=before.size_bytes + size)
        behind = self.areas.get(made.end)
        if behind is not None and _same_reservation(behind, made):
            del self.areas[behind.address]
            made = replace(made, size_bytes=made.size_bytes + behind.size_bytes)
        self.areas[made.address] = made

    def _area(self, index: int, address: int, size: int, *, expandable: bool) -> Area:
        pools = self.events.pool
        return Area(
            address=address,
            size_bytes=size,
            stream=int(self.events.stream[index]),
            pool=0 if pools is None else int(pools[index]),
            small=self.is_small(index, address, size) if expandable else size == SMALL_BUFFER_BYTES,
            expandable=expandable,
        )


_UNDO = {
    _CODE["segment_alloc"]: _Rewinder.undo_segment_alloc,
    _CODE["segment_free"]: _Rewinder.undo_segment_free,
    _CODE["segment_map"]: _Rewinder.undo_map,
    _CODE["segment_unmap"]: _Rewinder.undo_unmap,
}


def memory_map(
    snapshot: Snapshot,
    events: Events,
    settings: AllocatorSettings,
    first: int = 0,
    window_bytes: int = 1 << 42,
    freed_bytes: IntColumn | None = None,
) -> MemoryMap:
    """What stood just before event `first`; with the number of events, the final state.

    `window_bytes`: how many addresses an expandable segment reserves. `freed_bytes`: of each event the size of the
    block it frees, 0 where that is not known (`Replay.freed_bytes`); without it a block is what was asked for, rounded,
    and what lies idle behind it and is too small to be split off.
    """
    rewinder = _Rewinder(snapshot, events, settings, freed_bytes)
    rewinder.undo_back_to(first)
    areas = tuple(sorted(rewinder.areas.values(), key=lambda area: area.address))
    blocks = _whole_sizes(areas, sorted(rewinder.live.items()), settings)
    inside = [_area_of(areas, block.address) for block in blocks]
    outside = sum(
        area is None or block.address + block.size_bytes > area.end for block, area in zip(blocks, inside, strict=True)
    )
    outside += sum(not area.size_bytes for area in areas)
    overlaps = sum(one.end > other.address for one, other in pairwise(areas))
    overlaps += sum(one.address + one.size_bytes > other.address for one, other in pairwise(blocks))
    return MemoryMap(
        areas=areas,
        blocks=tuple(block for block, area in zip(blocks, inside, strict=True) if area is not None),
        contradictions=rewinder.contradictions + outside + overlaps,
        bases=rewinder.bases(window_bytes),
    )


def areas_before(
    snapshot: Snapshot, events: Events, settings: AllocatorSettings, first: int
) -> tuple[tuple[Area, ...], int]:
    """The segments just before event `first`, by address, and how many events did not fit them."""
    rewinder = _Rewinder(snapshot, events, settings)
    rewinder.undo_segments_back_to(first)
    areas = tuple(sorted(rewinder.areas.values(), key=lambda area: area.address))
    overlaps = sum(one.end > other.address for one, other in pairwise(areas))
    return areas, rewinder.contradictions + overlaps


def _area_of(areas: tuple[Area, ...], address: int) -> Area | None:
    at = bisect_right(areas, address, key=lambda area: area.address) - 1
    return areas[at] if at >= 0 and address < areas[at].end else None


def _whole_sizes(
    areas: tuple[Area, ...], live: list[tuple[int, tuple[int, bool]]], settings: AllocatorSettings
) -> list[LiveBlock]:
    """Blocks of the large pool with the rest that was too small to be split off, which no event tells.

    A rest of up to 1 MiB before the next block, or before the end of the segment, cannot be a block of its own.
    """
    found = []
    for position, (address, (size, waiting)) in enumerate(live):
        area = _area_of(areas, address)
        if area is not None and not area.small and not area.expandable:
            following = live[position + 1][0] if position + 1 < len(live) else area.end
            rest = min(following, area.end) - address - size
            whole = settings.max_split_bytes is not None and size >= settings.max_split_bytes
            if 0 < rest <= SMALL_BYTES or (whole and 0 < rest < settings.max_non_split_rounding_bytes):
                size += rest
        found.append(LiveBlock(address, size, waiting))
    return found


class _SmallPages:
    """Which pages of expandable segments are the small pool's: it maps 2 MiB at a time, the large one more.

    Addresses are used again for another pool once nothing of a segment is mapped, so what counts is what was last done.
    """

    def __init__(self, events: Events, settings: AllocatorSettings) -> None:
        self.page = settings.large_segment_bytes
        self.mapped = np.flatnonzero(events.action == _CODE["segment_map"])
        self.allocated = np.flatnonzero(events.action == _CODE["alloc"])
        self.address, self.size = events.address.astype(np.int64), events.size_bytes

    def __call__(self, index: int, address: int, size: int) -> bool:
        """Of the pages that event `index` maps or unmaps."""
        if size % self.page:
            return True
        for rows, at_most in ((self.mapped, SMALL_BUFFER_BYTES), (self.allocated, SMALL_BYTES)):
            before = rows[: np.searchsorted(rows, index, side="right")]
            start = self.address[before]
            inside = before[(start < address + size) & (start + self.size[before] > address)]
            if len(inside):
                return bool(self.size[inside[-1]] <= at_most)
        return False


def _same_reservation(one: Area, other: Area) -> bool:
    return one.expandable and (one.stream, one.pool, one.small) == (other.stream, other.pool, other.small)
