"""The kinds of a device's allocations: the stack each was made under, or why it has none."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..language import N_
from ..model.snapshot import ACTIONS, IntColumn, Snapshot
from .replay import BEFORE_RING, Replay
from .stacks import Category, StackReading, read_stack

_ALLOC = ACTIONS.index("alloc")


@dataclass(frozen=True)
class LifetimeKinds:
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
