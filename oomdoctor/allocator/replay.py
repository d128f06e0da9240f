"""What a device's allocator held over the recorded events, rebuilt backwards from the final state.

The history is a ring: what was allocated before its first event left no `alloc`. Counting forwards from nothing would
miss it and understate the peak. So every allocation gets a lifetime: a block of the final state that no event
allocated, and a `free_completed` without an `alloc`, stood before the ring began.

Bytes live are those of active blocks: from `alloc` to `free_completed`, so that a block waiting for another
stream counts until it can be used again. Sizes: a block that is still live has the size the final state gives. Events
record the bytes asked for; those of a block that is gone are rounded as the recorded settings ask, and what was too
little to be split off is found by the addresses around it (`whole_blocks`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..model.snapshot import ACTIONS, BLOCK_STATES, AddressColumn, Events, IntColumn, Snapshot
from .request import settings_of
from .simulation.settings import AllocatorSettings
from .whole_blocks import Spans, block_sizes, rests, too_large

_PENDING = BLOCK_STATES.index("active_pending_free")

BEFORE_RING = -1
"""Start of a lifetime that began before the first recorded event."""

_CODE = {name: code for code, name in enumerate(ACTIONS)}
_ALLOC, _ASKED, _FREE = _CODE["alloc"], _CODE["free_requested"], _CODE["free_completed"]
_SEGMENT_CHANGES = ((("segment_alloc", "segment_map"), 1), (("segment_free", "segment_unmap"), -1))
_CHANGES = [_ALLOC, _ASKED, _FREE, *(_CODE[name] for names, _ in _SEGMENT_CHANGES for name in names)]


@dataclass(frozen=True)
class Lifetimes:
    """One row an allocation. It is live after event `start` and up to, not including, event `end`."""

    start: IntColumn
    """Event that allocated it; BEFORE_RING when none of the ring did."""
    end: IntColumn
    """Event that freed it; the number of events when it is still live."""
    size_bytes: IntColumn
    stack: IntColumn
    """Index into Snapshot.stacks of who allocated it; -1 where that is not recorded."""
    block: IntColumn
    """Row of its block in the final state; -1 when it is gone."""
    address: AddressColumn
    is_pending_at_end: NDArray[np.bool_]
    """Its block of the final state is freed, but waits for another stream."""
    asked_bytes: IntColumn
    """What it needed of its size: what was asked for, rounded. The rest is by chance, whatever block was at hand."""
    may_be_more: Mapping[int, int] = field(default_factory=dict)
    """By row, where the size is a least: up to how many bytes the block may have been larger."""

    def __len__(self) -> int:
        return len(self.start)

    def live_after(self, event: int) -> NDArray[np.bool_]:
        """Which are live after this event (BEFORE_RING: before the first)."""
        return (self.start <= event) & (event < self.end)


@dataclass(frozen=True)
class Disagreement:
    """Where events and final state contradict each other; all zero for a history that is whole."""

    allocated_twice: int
    """An `alloc` at an address that was still live: its free went unrecorded."""
    freed_twice: int
    """A `free_completed` at an address that was not live: its alloc went unrecorded."""
    missing_at_end: int
    """Live by the events, but not an active block of the final state."""
    revived_at_end: int
    """Freed by the events, but an active block of the final state."""
    never_reserved: int
    """Events after which less was reserved than what was live: a segment's coming or going went unrecorded."""

    @property
    def total(self) -> int:
        """All contradictions together."""
        return (
            self.allocated_twice
            + self.freed_twice
            + self.missing_at_end
            + self.revived_at_end
            + bool(self.never_reserved)
        )


@dataclass(frozen=True)
class Replay:
    """One device's allocator over the recorded events. Curves have one value an event: what holds after it."""

    device: int
    events: Events
    lifetimes: Lifetimes
    before_bytes: int
    """Live before the first event."""
    live_bytes: IntColumn
    reserved_before_bytes: int
    reserved_bytes: IntColumn
    pending_at_end_bytes: int
    """Freed, but waiting for another stream, in the final state."""
    disagreement: Disagreement

    @property
    def peak_event(self) -> int:
        """The event after which most was live, the first of equals; BEFORE_RING when more was before any."""
        if not len(self.live_bytes) or int(self.live_bytes.max()) < self.before_bytes:
            return BEFORE_RING
        return int(self.live_bytes.argmax())

    @property
    def peak_bytes(self) -> int:
        """Most bytes live at once, from just before the first event on."""
        return self.live_at(self.peak_event)

    @cached_property
    def peak_may_be_more_bytes(self) -> int:
        """By how much most bytes live may be more than `peak_bytes`: blocks that stood before the ring began and went
        within it may have been larger than the addresses around them tell. 0 where every size is known.
        """
        unsure = self.lifetimes.may_be_more
        if not unsure:
            return 0
        gone = np.zeros(len(self.events) + 1, dtype=np.int64)
        np.add.at(gone, self.lifetimes.end[list(unsure)], list(unsure.values()))
        left = sum(unsure.values()) - np.cumsum(gone)[:-1]
        most = max(self.before_bytes + sum(unsure.values()), int((self.live_bytes + left).max(initial=0)))
        return most - self.peak_bytes

    @property
    def peak_reserved_bytes(self) -> int:
        """Most bytes reserved from the driver at once."""
        return max(self.reserved_before_bytes, int(self.reserved_bytes.max(initial=0)))

    @property
    def has_history(self) -> bool:
        """Whether any allocation or release was recorded at all."""
        return bool(np.isin(self.events.action, (_ALLOC, _FREE)).any())

    @property
    def starts_empty(self) -> bool:
        """Whether the history reaches back to an allocator that held nothing."""
        return self.has_history and self.before_bytes == 0 and self.reserved_before_bytes == 0

    def live_at(self, event: int) -> int:
        """Bytes live after this event."""
        return self.before_bytes if event == BEFORE_RING else int(self.live_bytes[event])

    def pending_at(self, event: int) -> int:
        """Bytes that were freed but waited for another stream after this event (part of what was live)."""
        return int(self.lifetimes.size_bytes[self.pending_after(event)].sum())

    def pending_after(self, event: int) -> NDArray[np.bool_]:
        """Which lifetimes, of those live after this event, are freed and wait for another stream."""
        return self.lifetimes.live_after(event) & (self.given_back <= event)

    @cached_property
    def given_back(self) -> IntColumn:
        """Event at which the program gave each lifetime back; until its end it then waited for another stream.

        Its start where it waited already as the ring began, or no event says since when; the number of events where it
        never was given back.
        """
        lifetimes, events, count = self.lifetimes, self.events, len(self.events)
        found: IntColumn = lifetimes.end.copy()
        asked = np.flatnonzero(events.action == _ASKED)
        # A lifetime whose free went unrecorded ends at another event: nothing says that it waited.
        ends = np.flatnonzero(lifetimes.end < count)
        end = lifetimes.end[ends]
        freed = ends[(events.action[end] == _FREE) & (events.address[end] == lifetimes.address[ends])]
        at_once = self._at_once[lifetimes.end[freed]]
        found[freed[at_once]] -= 1
        waited = freed[~at_once]
        # A release without the request for it: that was made before the ring.
        found[waited[lifetimes.start[waited] == BEFORE_RING]] = BEFORE_RING
        waits = np.flatnonzero(lifetimes.is_pending_at_end)
        found[waits] = BEFORE_RING
        later = asked[~np.append(self._at_once[1:], False)[asked]]
        row, request = _latest_before(lifetimes, np.concatenate([waited, waits]), events.address[later], later)
        found[row] = request
        return np.maximum(found, lifetimes.start)

    @cached_property
    def freed_bytes(self) -> IntColumn:
        """Of each event the size of the block whose release it completes; 0 for all others."""
        found = np.zeros(len(self.events), dtype=np.int64)
        gone = (self.lifetimes.block < 0) & (self.lifetimes.end < len(self.events))
        end = self.lifetimes.end[gone]
        freed = self.events.action[end] == _FREE
        found[end[freed]] = self.lifetimes.size_bytes[gone][freed]
        return found

    @cached_property
    def held_until(self) -> IntColumn:
        """As `given_back`; the end of what was free at the next event, which did not wait to speak of."""
        end = self.lifetimes.end
        return np.where(self.given_back < end - 1, self.given_back, end)

    @property
    def _at_once(self) -> NDArray[np.bool_]:
        """Of each event whether it completes what the event before it asked for."""
        events = self.events
        found = np.zeros(len(events), dtype=np.bool_)
        found[1:] = (
            (events.action[1:] == _FREE) & (events.action[:-1] == _ASKED) & (events.address[1:] == events.address[:-1])
        )
        return found

    def is_final(self, event: int) -> bool:
        """Whether nothing changed after this event: the final state is that of the event."""
        return not bool(np.isin(self.events.action[event + 1 :], _CHANGES).any())

    def reserved_at(self, event: int) -> int:
        """Bytes reserved after this event."""
        return self.reserved_before_bytes if event == BEFORE_RING else int(self.reserved_bytes[event])


def replay(snapshot: Snapshot, device: int) -> Replay:
    """The allocator of `device` over its recorded events. Works as well where no event was recorded."""
    found: Replay | None = snapshot.derived.get(("replay", device))
    if found is None:
        found = snapshot.derived["replay", device] = _replay(snapshot, device)
    return found


def _replay(snapshot: Snapshot, device: int) -> Replay:
    events = next((events for events in snapshot.events if events.device == device), None) or _no_events(device)
    count = len(events)
    blocks = snapshot.blocks
    active = np.flatnonzero((snapshot.segments.device[blocks.segment] == device) & (blocks.state > 0))
    lifetimes, disagreement = _lifetimes(events, snapshot, active)

    # One more entry than events: index 0 collects what stood before the ring, so that a running sum begins with it.
    change = np.zeros(count + 1, dtype=np.int64)
    np.add.at(change, lifetimes.start + 1, lifetimes.size_bytes)
    ended = lifetimes.end < count
    np.subtract.at(change, lifetimes.end[ended] + 1, lifetimes.size_bytes[ended])
    live = np.cumsum(change)

    reserved_change = np.zeros(count, dtype=np.int64)
    for names, sign in _SEGMENT_CHANGES:
        chosen = np.isin(events.action, [_CODE[name] for name in names])
        reserved_change[chosen] = sign * events.size_bytes[chosen]
    reserved_end = int(snapshot.segments.total_bytes[snapshot.segments.device == device].sum())
    reserved = reserved_end - int(reserved_change.sum()) + np.cumsum(reserved_change)
    return Replay(
        device=device,
        events=events,
        lifetimes=lifetimes,
        before_bytes=int(live[0]),
        live_bytes=live[1:],
        reserved_before_bytes=reserved_end - int(reserved_change.sum()),
        reserved_bytes=reserved,
        pending_at_end_bytes=int(blocks.size_bytes[active][blocks.state[active] == _PENDING].sum()),
        disagreement=(
            replace(disagreement, never_reserved=int((reserved < live[1:]).sum()))
            if len(snapshot.segments)
            # There is no final state to be contradicted.
            else replace(disagreement, missing_at_end=0)
        ),
    )


def _lifetimes(events: Events, snapshot: Snapshot, active: IntColumn) -> tuple[Lifetimes, Disagreement]:
    """Pair each alloc with the free of the same address, and both with the final blocks in rows `active`.

    Sorted by address and then by event, with the block of the final state last, the entries of one address alternate
    between opening (alloc) and closing (free, or the final block). Where they do not, the missing partner is taken to
    be at the neighbouring entry of that address, and the contradiction is counted.
    """
    chosen = np.flatnonzero((events.action == _ALLOC) | (events.action == _FREE))
    count = len(events)
    address = np.concatenate([events.address[chosen], snapshot.blocks.address[active]])
    index = np.concatenate([chosen, np.full(len(active), count, dtype=np.int64)])
    block = np.concatenate([np.full(len(chosen), -1, dtype=np.int64), active])
    order = np.lexsort((index, address))
    address, index, block = address[order], index[order], block[order]
    is_final = index == count
    is_open = np.zeros(len(order), dtype=np.bool_)
    is_open[~is_final] = events.action[index[~is_final]] == _ALLOC

    # Each row is joined with the one above it at the same address.
    same = np.zeros(len(order), dtype=np.bool_)
    same[1:] = address[1:] == address[:-1]
    above = np.arange(len(order)) - 1
    above_open = same & is_open[above]
    last_of_address = np.ones(len(order), dtype=np.bool_)
    last_of_address[:-1] = ~same[1:]

    closes = ~is_open
    paired = closes & above_open
    # Its alloc is not recorded: before the ring if this is the first word on the address, else at the entry above.
    unopened = closes & ~above_open
    # Its free is not recorded: at the next alloc of the address, or, unknown when, before the final state was taken.
    unclosed_again = is_open & above_open
    vanished = is_open & last_of_address

    start_rows = np.flatnonzero(closes)
    # Two final blocks at one address (a damaged file) have no event between them.
    after_event = same & ~is_final[above]
    started = np.where(after_event, index[above], BEFORE_RING)[start_rows]
    twice_rows = np.flatnonzero(unclosed_again)
    gone_rows = np.flatnonzero(vanished)
    start = np.concatenate([started, index[above[twice_rows]], index[gone_rows]])
    end = np.concatenate([index[start_rows], index[twice_rows], np.full(len(gone_rows), count - 1, dtype=np.int64)])
    final_block = np.concatenate([block[start_rows], np.full(len(twice_rows) + len(gone_rows), -1, dtype=np.int64)])
    # The event that tells size and stack: the alloc where there is one, else the free.
    teller = np.concatenate(
        [np.where(paired[start_rows], started, index[start_rows]), index[above[twice_rows]], index[gone_rows]]
    )
    allocated = np.concatenate([paired[start_rows], np.ones(len(twice_rows) + len(gone_rows), dtype=np.bool_)])
    where = np.concatenate([address[start_rows], address[twice_rows], address[gone_rows]])
    settings = settings_of(snapshot, events.device)
    size, stack = _sizes_and_stacks(events, snapshot, final_block, teller, allocated, settings)
    dead_rows = final_block < 0
    dead = np.flatnonzero(dead_rows)
    if any(divisions > 1 for divisions in settings.roundup_power2_divisions):
        least = block_sizes(events.size_bytes[teller[dead]], replace(settings, roundup_power2_divisions=()))
        wrong = too_large(snapshot, events, Spans(where, start, end), size, least, dead)
        size[wrong] = least[np.searchsorted(dead, wrong)]
    rest, more = rests(snapshot, events, settings, Spans(where, start, end), size, dead)
    asked = size.copy()
    asked[~dead_rows] = np.minimum(
        size[~dead_rows], block_sizes(snapshot.blocks.requested_bytes[final_block[~dead_rows]], settings)
    )
    size[dead] += rest
    unsure = np.flatnonzero(more)
    waits = np.zeros(len(start), dtype=np.bool_)
    waits[final_block >= 0] = snapshot.blocks.state[final_block[final_block >= 0]] == _PENDING
    may_be_more = dict(zip(dead[unsure].tolist(), more[unsure].tolist(), strict=True))
    return (
        Lifetimes(start, end, size, stack, final_block, where, waits, asked, may_be_more),
        Disagreement(
            allocated_twice=len(twice_rows),
            freed_twice=int((unopened & same & ~is_final).sum()),
            missing_at_end=len(gone_rows),
            revived_at_end=int((unopened & same & is_final).sum()),
            never_reserved=0,
        ),
    )


def _sizes_and_stacks(
    events: Events,
    snapshot: Snapshot,
    block: IntColumn,
    teller: IntColumn,
    allocated: NDArray[np.bool_],
    settings: AllocatorSettings,
) -> tuple[IntColumn, IntColumn]:
    """Size and allocating stack of each lifetime: by its final block, else by the event `teller`."""
    live = block >= 0
    size = np.empty(len(block), dtype=np.int64)
    stack = np.full(len(block), -1, dtype=np.int64)
    size[live] = snapshot.blocks.size_bytes[block[live]]
    size[~live] = block_sizes(events.size_bytes[teller[~live]], settings)
    stack[live] = snapshot.blocks.stack[block[live]]
    # A free's stack says who let go, not who allocated; a live block without frames takes those of its alloc.
    by_event = allocated & (stack < 0)
    stack[by_event] = events.stack[teller[by_event]]
    return size, stack


def _latest_before(
    lifetimes: Lifetimes, rows: IntColumn, address: AddressColumn, event: IntColumn
) -> tuple[IntColumn, IntColumn]:
    """Of each of `rows` the event of its address within its life, where there is one: rows, events."""
    every = np.concatenate([lifetimes.address[rows], address])
    when = np.concatenate([lifetimes.start[rows], event])
    order = np.lexsort((when, every))
    is_row = order < len(rows)
    # Sorted so, the lifetime of an event is the nearest one above it.
    above = np.maximum.accumulate(np.where(is_row, np.arange(len(order)), -1))
    those = np.flatnonzero(~is_row & (above >= 0))
    row, at = rows[order[above[those]]], event[order[those] - len(rows)]
    inside = (lifetimes.address[row] == every[order[those]]) & (at <= lifetimes.end[row])
    return row[inside], at[inside]


def _no_events(device: int) -> Events:
    none = np.zeros(0, dtype=np.int64)
    return Events(device, none, none.astype(np.uint64), none, none.astype(np.uint64), none, none)
