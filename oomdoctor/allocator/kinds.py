"""The kinds of a device's allocations: the stack each was made under, or why it has none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..language import N_
from ..model.snapshot import ACTIONS, IntColumn, Snapshot
from .replay import BEFORE_RING, Replay
from .stacks import Category, StackReading, read_stack

_ALLOC = ACTIONS.index("alloc")
_FEWEST_TURNS, _SHARE_OF_TURNS = 8, 0.2
_MORE_THAN_LAYERS = 200


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
            *self._of_stacks(),
            autograd if has_stacks else unrecorded,
            before if has_stacks else unrecorded,
            StackReading(N_("allocated before recording began, freed since"), Category.UNKNOWN, False, False, ()),
        )

    def _of_stacks(self) -> list[StackReading]:
        """What stacks say. A constructor that is called again and again, other work between, hardly makes weights: its
        kind is not known then; and if it is called more often than any model has layers, it is of the program's loop.
        """
        found = [*map(read_stack, self.snapshot.stacks)]
        constructors = [kind for kind, reading in enumerate(found) if reading.constructed]
        if not constructors:
            return found
        lifetimes = self.replay.lifetimes
        made = np.bincount(lifetimes.stack[lifetimes.stack >= 0], minlength=len(found))
        constructors = [kind for kind in constructors if made[kind] >= _FEWEST_TURNS]
        if not constructors:
            return found
        weights = np.asarray([reading.category is Category.WEIGHTS for reading in found], dtype=np.bool_)
        passing = (lifetimes.start >= 0) & (lifetimes.end < len(self.replay.events)) & (lifetimes.stack >= 0)
        passing[passing] = ~weights[lifetimes.stack[passing]]
        order = np.argsort(lifetimes.start[passing], kind="stable")
        begin, end = lifetimes.start[passing][order], lifetimes.end[passing][order]
        rows = np.flatnonzero(np.isin(lifetimes.stack, constructors) & (lifetimes.start >= 0))
        rows = rows[np.lexsort((lifetimes.start[rows], lifetimes.stack[rows]))]
        edges = np.searchsorted(lifetimes.stack[rows], [*constructors, len(found)])
        none = np.int64(1) << 62
        for kind, first, last in zip(constructors, edges[:-1], edges[1:], strict=True):
            turns = lifetimes.start[rows[first:last]]
            # Between two turns in a row: what began after the one and ended before the other.
            after = np.searchsorted(begin, turns)
            earliest = np.minimum.reduceat(np.append(end, none), np.minimum(after, len(end)))
            worked = int(np.count_nonzero((after[1:] > after[:-1]) & (earliest[:-1] < turns[1:])))
            # One line may allocate several things a turn.
            if worked >= max(_FEWEST_TURNS, _SHARE_OF_TURNS * len(turns)):
                sure = worked >= _MORE_THAN_LAYERS
                found[kind] = replace(found[kind], category=Category.OTHER, constructed=not sure)
        return found

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
