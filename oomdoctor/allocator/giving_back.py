"""Which live blocks would have to go so that the allocator gives enough back to the driver for a request.

Rules of torch's caching allocator (c10/cuda/CUDACachingAllocator.cpp, release_cached_blocks): before it fails, each
segment of the shared pools that is one idle block goes back, whoever used it; of an expandable segment every page that
is idle. While a graph is captured nothing does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..model.snapshot import BLOCK_STATES, IntColumn, Snapshot
from ..model.units import MIB
from .request import Request
from .simulation.rounding import page_size

_IDLE = BLOCK_STATES.index("inactive")
_GRAIN_BYTES = 2 * MIB
"""Segments and pages are multiples of it."""
_MOST_CELLS = 30_000_000
"""Of the table in which the fewest live bytes are found; beyond it the cheapest segments are taken first."""


@dataclass(frozen=True)
class GivingBack:
    """Live blocks without which enough goes back to the driver."""

    in_the_way: tuple[int, ...]
    """Rows of Snapshot.blocks."""
    in_the_way_bytes: int
    given_back_bytes: int
    """What then goes back: whole segments, and whole pages of expandable ones."""


@dataclass(frozen=True)
class _Unit:
    """What goes back as one: a segment, or a page."""

    bytes: int
    blocks: tuple[int, ...]
    """Live ones that keep it."""
    live_bytes: int
    """Of these blocks, also where they reach into other pages."""


def giving_back(snapshot: Snapshot, request: Request, room_bytes: int) -> GivingBack | None:
    """The fewest live bytes that were found; None where nothing is missing, or nothing can make up for it.

    `room_bytes` is what the allocator could still take of the driver.
    """
    missing = request.driver_bytes - room_bytes
    if missing <= 0 or request.is_capturing:
        return None
    whole, stretches = list(_segments(snapshot, request)), list(_stretches(snapshot, request))
    units = [*whole, *(each.unit(page) for each in stretches for page in range(len(each.lowest)))]
    ways = []
    for chosen in _enough(whole, stretches, units, missing):
        gone = frozenset(row for unit in chosen for row in unit.blocks)
        if gone:
            given = sum(unit.bytes for unit in units if gone.issuperset(unit.blocks))
            rows = tuple(sorted(gone))
            ways.append(GivingBack(rows, int(snapshot.blocks.size_bytes[list(rows)].sum()), given))
    return min(ways, key=lambda way: (way.in_the_way_bytes, way.in_the_way), default=None)


def _enough(
    whole: list[_Unit], stretches: list[_Stretch], units: list[_Unit], missing: int
) -> Iterator[Sequence[_Unit]]:
    """Several choices of units that give back enough together."""
    if sum(unit.bytes for unit in units) < missing:
        return
    yield _fewest(whole, missing)
    yield _cheapest_first(units, missing)
    large = [unit for unit in units if unit.bytes >= missing]
    yield [min(large, key=lambda unit: unit.live_bytes)] if large else []
    yield from ([window] for each in stretches for window in each.windows(missing))


def _shared(snapshot: Snapshot, request: Request, *, expandable: bool) -> Iterator[tuple[int, IntColumn]]:
    """The segments of the shared pools, with the rows of their live blocks."""
    segments, blocks = snapshot.segments, snapshot.blocks
    order = np.arange(len(segments) + 1)
    first = np.searchsorted(blocks.segment, order)
    chosen = (segments.device == request.device) & ~segments.private_pool & (segments.is_expandable == expandable)
    for segment in np.flatnonzero(chosen).tolist():
        rows = np.arange(first[segment], first[segment + 1])
        yield segment, rows[blocks.state[rows] != _IDLE]


def _segments(snapshot: Snapshot, request: Request) -> Iterator[_Unit]:
    sizes = snapshot.blocks.size_bytes
    for segment, live in _shared(snapshot, request, expandable=False):
        total = int(snapshot.segments.total_bytes[segment])
        yield _Unit(total, tuple(live.tolist()), int(sizes[live].sum()))


@dataclass(frozen=True)
class _Stretch:
    """The pages of a mapped stretch, in order."""

    page_bytes: int
    live: IntColumn
    """Rows of the live blocks in it."""
    sizes: IntColumn
    lowest: IntColumn
    highest: IntColumn
    """Of each page the first of `live` that reaches into it, and the one after the last."""

    def unit(self, first: int, count: int = 1) -> _Unit:
        """Some pages, from one on."""
        inside = slice(int(self.lowest[first]), int(self.highest[first + count - 1]))
        return _Unit(count * self.page_bytes, tuple(self.live[inside].tolist()), int(self.sizes[inside].sum()))

    def windows(self, missing: int) -> Iterator[_Unit]:
        """The neighbouring pages with the fewest live bytes that are enough; none where there are not so many."""
        count = -(-missing // self.page_bytes)
        if count <= len(self.lowest):
            total = np.concatenate([[0], np.cumsum(self.sizes)])
            live = total[self.highest[count - 1 :]] - total[self.lowest[: len(self.lowest) - count + 1]]
            yield self.unit(int(np.argmin(live)), count)


def _stretches(snapshot: Snapshot, request: Request) -> Iterator[_Stretch]:
    segments, blocks = snapshot.segments, snapshot.blocks
    for segment, live in _shared(snapshot, request, expandable=True):
        page = page_size(small=bool(segments.is_small[segment]), settings=request.settings)
        begin = (blocks.address[live] - segments.address[segment]).astype(np.int64)
        start = np.arange(int(segments.total_bytes[segment]) // page) * page
        lowest = np.searchsorted(begin + blocks.size_bytes[live], start, side="right")
        highest = np.maximum(np.searchsorted(begin, start + page), lowest)
        yield _Stretch(page, live, blocks.size_bytes[live], lowest, highest)


def _fewest(units: list[_Unit], missing: int) -> list[_Unit]:
    """Those that give back enough with the fewest live bytes; none where there are too many to try."""
    need = -(-missing // _GRAIN_BYTES)
    if not units or len(units) * need > _MOST_CELLS or sum(unit.bytes // _GRAIN_BYTES for unit in units) < need:
        return []
    never = np.iinfo(np.int64).max // 2
    least: IntColumn = np.full(need + 1, never, dtype=np.int64)
    least[0] = 0
    taken = np.zeros((len(units), need + 1), dtype=np.bool_)
    place = np.arange(need + 1)
    for number, unit in enumerate(units):
        with_it = least[np.maximum(place - unit.bytes // _GRAIN_BYTES, 0)] + unit.live_bytes
        taken[number] = with_it < least
        least = np.minimum(least, with_it)
    return list(_taken(units, taken, need))


def _taken(units: list[_Unit], taken: NDArray[np.bool_], need: int) -> Iterator[_Unit]:
    for number in range(len(units) - 1, -1, -1):
        if taken[number, need]:
            yield units[number]
            need = max(need - units[number].bytes // _GRAIN_BYTES, 0)


def _cheapest_first(units: list[_Unit], missing: int) -> list[_Unit]:
    """By live bytes for what goes back; then those are left out that are not needed, the dearest first."""
    chosen: list[_Unit] = []
    given = 0
    for unit in sorted(units, key=lambda unit: unit.live_bytes / unit.bytes):
        if given >= missing:
            break
        chosen.append(unit)
        given += unit.bytes
    for unit in sorted(chosen, key=lambda unit: -unit.live_bytes):
        if given - unit.bytes >= missing:
            chosen.remove(unit)
            given -= unit.bytes
    return chosen
