"""Who held a device's memory, at the end or at any recorded event: live bytes by owner and by category."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..language import N_
from ..model.snapshot import ACTIONS, IntColumn, Snapshot
from .replay import BEFORE_RING, Replay, replay
from .stacks import FORWARD, Category, StackReading, read_stack

_ALLOC = ACTIONS.index("alloc")
_FROM_NAMES = N_("recorded stack; what it is for is guessed from names in it")
_FROM_AUTOGRAD = N_("allocated while stacks were recorded, yet without one: the autograd thread has no Python frames")
_WITHOUT_STACK = N_("the allocator's snapshot; no stack was recorded")


@dataclass(frozen=True)
class Owner:
    """A line of code (or what stands in its place) and the live bytes allocated under it."""

    name: str
    category: Category
    """That of most of its bytes."""
    bytes: int
    count: int
    """Live blocks."""
    how_known: str


def ownership_of(snapshot: Snapshot, device: int) -> Ownership:
    """The owners of `device`, worked out once for each snapshot."""
    found: Ownership | None = snapshot.derived.get(("ownership", device))
    if found is None:
        found = snapshot.derived["ownership", device] = Ownership(snapshot, replay(snapshot, device))
    return found


@dataclass(frozen=True)
class Ownership:
    """The stacks of one device's allocations, read once.

    Each lifetime has a `kind`: its stack, or one of three more for lifetimes without a stack: allocated while stacks
    were recorded (`kind == len(stacks)`: by the autograd thread), before that and still live (`+ 1`), or before the
    recording and freed since (`+ 2`: blocks keep their stacks, but theirs is gone with the block).
    """

    snapshot: Snapshot
    replay: Replay

    @cached_property
    def readings(self) -> tuple[StackReading, ...]:
        """What each kind says."""
        has_stacks = self.first_with_stack < len(self.replay.events)
        unrecorded = StackReading(N_("no stack was recorded"), Category.UNKNOWN, False, False, ())
        autograd = StackReading(N_("backward pass (autograd thread)"), Category.GRADIENT, False, False, ())
        before = StackReading(N_("allocated before stacks were recorded"), Category.UNKNOWN, False, False, ())
        return (
            *map(read_stack, self.snapshot.stacks),
            autograd if has_stacks else unrecorded,
            before if has_stacks else unrecorded,
            StackReading(N_("allocated before recording began, freed since"), Category.UNKNOWN, False, False, ()),
        )

    @cached_property
    def first_with_stack(self) -> int:
        """The first allocation with a stack, where they were switched on during the recording; the number of events
        where none has one.
        """
        events = self.replay.events
        return int(next(iter(np.flatnonzero((events.action == _ALLOC) & (events.stack >= 0))), len(events)))

    @property
    def has_all_stacks(self) -> bool:
        """Whether stacks were recorded from the first allocation on."""
        first = next(iter(np.flatnonzero(self.replay.events.action == _ALLOC)), None)
        return first is not None and first == self.first_with_stack

    @cached_property
    def kind(self) -> IntColumn:
        """The kind of each lifetime."""
        lifetimes, stacks = self.replay.lifetimes, len(self.snapshot.stacks)
        forgotten = (lifetimes.start == BEFORE_RING) & (lifetimes.block < 0)
        before = np.where(forgotten, stacks + 2, stacks + 1)
        without = np.where(lifetimes.start < self.first_with_stack, before, stacks)
        return np.where(lifetimes.stack >= 0, lifetimes.stack, without)

    def live_by_kind(self, event: int) -> tuple[IntColumn, IntColumn]:
        """Bytes and blocks live after `event`, for each kind."""
        kinds, live = len(self.readings), self.replay.lifetimes.live_after(event)
        size = np.zeros(kinds, dtype=np.int64)
        np.add.at(size, self.kind[live], self.replay.lifetimes.size_bytes[live])
        return size, np.bincount(self.kind[live], minlength=kinds)

    def owners(self, event: int) -> tuple[Owner, ...]:
        """Who held what after `event`, most bytes first; the bytes add up to what was live."""
        size, count = self.live_by_kind(event)
        held: dict[str, list[int]] = {}
        for kind in np.flatnonzero(count).tolist():
            held.setdefault(self.readings[kind].owner, []).append(kind)
        owners = [
            Owner(
                name=name,
                category=self.readings[max(kinds, key=lambda kind: int(size[kind]))].category,
                bytes=sum(int(size[kind]) for kind in kinds),
                count=sum(int(count[kind]) for kind in kinds),
                how_known=self._how_known(kinds),
            )
            for name, kinds in held.items()
        ]
        return tuple(sorted(owners, key=lambda owner: (-owner.bytes, owner.name)))

    def by_category(self, event: int, cache_owner: str | None = None) -> Mapping[Category, int]:
        """Bytes live after `event`, for each category that holds any.

        What `cache_owner` holds of forward passes, or of no category, counts as keys and values.
        """
        size, _ = self.live_by_kind(event)
        held: dict[Category, int] = {}
        for kind in np.flatnonzero(size).tolist():
            category = self.readings[kind].category
            if self.readings[kind].owner == cache_owner and (category in FORWARD or category is Category.OTHER):
                category = Category.KV_APPEND
            held[category] = held.get(category, 0) + int(size[kind])
        return held

    def _how_known(self, kinds: list[int]) -> str:
        stacks = len(self.snapshot.stacks)
        if min(kinds) < stacks:
            return _FROM_NAMES
        return _FROM_AUTOGRAD if self.readings[kinds[0]].category is Category.GRADIENT else _WITHOUT_STACK
