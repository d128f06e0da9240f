"""How large the blocks were that are gone: events tell what was asked for, not what was handed out.

A cached block of the large pool is split only where more than 1 MiB would be left (`should_split`); what is less stays
with the block, and no event tells it. The addresses do: an idle block of that pool is larger than 1 MiB and is used
from its start on, so the lowest address above the request that something else had during the block's life, or the end
of its segment, is the block's end where it lies that near. Where nothing lies there, the block was split: for certain
if its allocation is recorded. Of what stood before the ring began and went within it, the rest may lie unseen in the
idle memory behind it: its size is a least.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..model.snapshot import ACTIONS, AddressColumn, Events, IntColumn, Snapshot
from .simulation.rounding import MIN_BLOCK_BYTES, SMALL_BYTES
from .simulation.settings import AllocatorSettings

_SEGMENT_ALLOC, _SEGMENT_FREE = ACTIONS.index("segment_alloc"), ACTIONS.index("segment_free")
_BEFORE_RING = -1
_TOGETHER, _MOMENTS, _MOST_CELLS = 32, 2048, 4_000_000
"""Addresses and moments that are looked at together where nothing was in use."""


@dataclass(frozen=True)
class Spans:
    """Addresses and when they were in use: after event `start` up to, not including, event `end`."""

    address: AddressColumn
    start: IntColumn
    end: IntColumn

    def sorted(self) -> Spans:
        """By address, then by start."""
        above, same = self.address[1:] > self.address[:-1], self.address[1:] == self.address[:-1]
        if bool((above | (same & (self.start[1:] > self.start[:-1]))).all()):
            return self
        order = np.lexsort((self.start, self.address))
        return self.rows(order)

    def rows(self, chosen: NDArray[np.bool_] | IntColumn) -> Spans:
        """These of them."""
        return Spans(self.address[chosen], self.start[chosen], self.end[chosen])


def block_sizes(requested_bytes: IntColumn, settings: AllocatorSettings) -> IntColumn:
    """The block that each request needs: `simulation.rounding.block_size` of a column."""
    requested_bytes = requested_bytes + settings.padding_bytes if settings.padding_bytes else requested_bytes
    whole: IntColumn = np.maximum(-(-requested_bytes // MIN_BLOCK_BYTES), 1) * MIN_BLOCK_BYTES
    if not any(divisions > 1 for divisions in settings.roundup_power2_divisions):
        return whole
    length: IntColumn = np.frexp(requested_bytes.astype(np.float64))[1].astype(np.int64)
    table = np.asarray(settings.roundup_power2_divisions, dtype=np.int64)
    divisions = table[np.clip(length - 21, 0, len(table) - 1)]
    rows = np.flatnonzero((divisions > 1) & (requested_bytes > MIN_BLOCK_BYTES * divisions))
    # More than 512 bytes a division, so a step is never less than one.
    step = (np.int64(1) << (length[rows] - 1)) // divisions[rows]
    whole[rows] = -(-requested_bytes[rows] // step) * step
    return whole


def rests(
    snapshot: Snapshot, events: Events, settings: AllocatorSettings, spans: Spans, size_bytes: IntColumn, of: IntColumn
) -> tuple[IntColumn, IntColumn]:
    """Of the rows `of` of `spans`: what the block had beyond `size_bytes`, and what more it may have had.

    `size_bytes` has a value for every row: what the request needs, or the final block where that still stands.
    """
    none = np.zeros(len(of), dtype=np.int64)
    large = size_bytes > SMALL_BYTES
    chosen = np.flatnonzero(large[of])
    if settings.expandable_segments or not len(chosen):
        return none, none
    mine = of[chosen]
    limit = np.full(len(mine), SMALL_BYTES, dtype=np.int64)
    if settings.max_split_bytes is not None:
        limit[size_bytes[mine] >= settings.max_split_bytes] = settings.max_non_split_rounding_bytes - 1
    lives = spans.rows(mine)
    behind = lives.address + size_bytes[mine].astype(np.uint64)
    blocks, ends = spans.rows(large).sorted(), _segment_ends(snapshot, events)
    found = _nearest(blocks, behind, limit, lives, len(events))
    of_segment = _nearest(ends, behind, np.where(found < 0, limit, found), lives, len(events))
    found = np.where(of_segment < 0, found, of_segment)
    rest, more = none.copy(), none.copy()
    rest[chosen] = np.maximum(found, 0)
    more[chosen] = np.where((found < 0) & (lives.start == _BEFORE_RING), limit, 0)
    return rest, more


def too_large(
    snapshot: Snapshot, events: Events, spans: Spans, size_bytes: IntColumn, least_bytes: IntColumn, of: IntColumn
) -> IntColumn:
    """Which of the rows `of` cannot have `size_bytes`: during their life something else began within these.

    Each had `least_bytes`, one value for each of `of`, at least. So it is where the allocator's settings were changed
    while it ran: only the last ones are recorded.
    """
    chosen = np.flatnonzero(size_bytes[of] > least_bytes)
    if not len(chosen):
        return of[:0]
    mine, least = of[chosen], least_bytes[chosen]
    lives, limit = spans.rows(mine), size_bytes[mine] - least - 1
    behind = lives.address + least.astype(np.uint64)
    found = _nearest(spans.sorted(), behind, limit, lives, len(events))
    ends = _segment_ends(snapshot, events)
    if len(ends.address):
        found = np.maximum(found, _nearest(ends, behind, limit, lives, len(events)))
    return mine[found >= 0]


def _nearest(spans: Spans, behind: AddressColumn, limit: IntColumn, lives: Spans, count: int) -> IntColumn:
    """How far from `behind` the lowest address lies that was in use during each life; -1: beyond `limit`."""
    found = np.full(len(behind), -1, dtype=np.int64)
    first = np.ones(len(spans.address), dtype=np.bool_)
    first[1:] = spans.address[1:] != spans.address[:-1]
    begin = np.flatnonzero(first)
    places, rank = spans.address[begin], np.cumsum(first) - 1
    key = rank * (count + 2) + spans.start + 1
    in_use, moments = _in_use(spans, rank, len(places), count)
    moment = _moment(lives.start + 1, moments, count)
    at, rows = np.searchsorted(places, behind), np.arange(len(behind))
    while True:
        rows = rows[at[rows] < len(places)]
        away = (places[at[rows]] - behind[rows]).astype(np.int64)
        near = away <= limit[rows]
        rows, away = rows[near], away[near]
        if not len(rows):
            return found
        # Of one address the last that began before this life ended is the one that may reach into it.
        last = np.searchsorted(key, at[rows] * (count + 2) + lives.end[rows], side="right") - 1
        seen = (last >= begin[at[rows]]) & (spans.end[last] > lives.start[rows])
        found[rows[seen]] = away[seen]
        rows = rows[~seen]
        at[rows] += 1
        # What came later than the block came directly behind it: further on only what stood there already counts.
        leap = rows[(lives.start[rows] != _BEFORE_RING) & ~in_use[at[rows] // _TOGETHER, moment[rows]]]
        at[leap] += _TOGETHER - at[leap] % _TOGETHER


def _in_use(spans: Spans, rank: IntColumn, places: int, count: int) -> tuple[NDArray[np.bool_], int]:
    """Whether any of so many neighbouring addresses was in use at about a moment: a table of both, and its moments."""
    groups = places // _TOGETHER + 2
    moments = max(16, min(_MOMENTS, _MOST_CELLS // groups))
    group, cells = rank // _TOGETHER * (moments + 1), groups * (moments + 1)
    change = np.bincount(group + _moment(spans.start + 1, moments, count), minlength=cells)
    change -= np.bincount(group + _moment(spans.end, moments, count) + 1, minlength=cells)
    return change.reshape(groups, moments + 1).cumsum(axis=1) > 0, moments


def _moment(event: IntColumn, moments: int, count: int) -> IntColumn:
    found: IntColumn = event * moments // (count + 1)
    return np.minimum(found, moments - 1)


def _segment_ends(snapshot: Snapshot, events: Events) -> Spans:
    """Where the segments end that are not expandable, and while which events they were there."""
    segments, count = snapshot.segments, len(events)
    chosen = np.flatnonzero((events.action == _SEGMENT_ALLOC) | (events.action == _SEGMENT_FREE))
    final = np.flatnonzero((segments.device == events.device) & ~segments.is_expandable)
    address = np.concatenate([events.address[chosen], segments.address[final]])
    index = np.concatenate([chosen, np.full(len(final), count, dtype=np.int64)])
    size = np.concatenate([events.size_bytes[chosen], segments.total_bytes[final]])
    opens = np.concatenate([events.action[chosen] == _SEGMENT_ALLOC, np.zeros(len(final), dtype=np.bool_)])
    order = np.lexsort((index, address))
    address, index, size, opens = address[order], index[order], size[order], opens[order]
    after = np.zeros(len(order), dtype=np.bool_)
    after[1:] = (address[1:] == address[:-1]) & opens[:-1]
    closes = np.flatnonzero(~opens)
    start = np.where(after[closes], index[closes - 1], _BEFORE_RING)
    # A segment whose end no event tells is there until something else is.
    unclosed = np.flatnonzero(opens & ~np.append(after[1:], False))
    rows = np.concatenate([closes, unclosed])
    return Spans(
        address[rows] + size[rows].astype(np.uint64),
        np.concatenate([start, index[unclosed]]),
        np.concatenate([index[closes], np.full(len(unclosed), count, dtype=np.int64)]),
    ).sorted()
