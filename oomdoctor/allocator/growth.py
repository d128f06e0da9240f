"""Whether live bytes rose from step to step, under which lines, and how high each step reached.

A step is a turn of the program's outermost loop that allocates: a request, a token, a batch. It is found in the stacks:
the position that is left and come back to again and again, outside of nested module calls (a loop in there goes over
layers). What the same point of each turn finds live can be compared; what different points find cannot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..model.snapshot import ACTIONS, Frame, IntColumn
from ..model.units import MIB
from .owners import Ownership
from .stacks import FORWARD, Category

_ALLOC = ACTIONS.index("alloc")
_NOT_OF_THE_LOOP = frozenset({Category.WEIGHTS, Category.OPTIMIZER_STATE, Category.GRADIENT})
_FEWEST_STEPS = 3
_FEWEST_TURNS_OF_ONE_LINE = 8
_MORE_THAN_LAYERS = 256
_MOST_STEPS = 64
"""More are joined, so that each window holds several."""
_FEWEST_SETTLED = 3
_RISING = 0.8
_LARGEST_STEP = 0.6
_FEWEST_BYTES = 16 * MIB
_LEAST_SHARE = 0.005
_STILL_HELD = 0.8
_FORGOTTEN = 0.01
_SAME_COUNT = 0.1
_FEWEST_CACHE_BLOCKS = 4
_FEWEST_SAVED_STACKS = 4
_LEAST_SHARE_SAVED = 0.5
_NEXT_TO_NOTHING = 0.01
_MOST = 0.5
_GOOD_PART = 0.25
"""Autograd keeps more than this of what a forward pass makes; what is collected of outputs is mostly less."""


@dataclass(frozen=True)
class Steps:
    """The steps of a recording. The first may be the warm-up."""

    first_event: IntColumn
    """The event each step begins with."""
    last_event: int
    """The event the last step ends with."""
    peak_bytes: IntColumn
    """Most live in each step."""
    live_bytes: IntColumn
    """Live where each step begins, by kind of Ownership: shape (kinds, steps). What waits for another stream is not."""
    live_blocks: IntColumn
    """Blocks live there, of the same shape."""
    of_one_line: bool = False
    """Each step is one allocation of a line; a turn of the program may hold several."""

    @property
    def heights_before_the_last(self) -> IntColumn:
        """`peak_bytes` of all but the last; of turns that are several steps each, of the highest of a turn only."""
        peaks = self.peak_bytes[:-1]
        if not self.of_one_line or len(peaks) < 3:
            return peaks
        tops = peaks[1:-1][(peaks[1:-1] >= peaks[:-2]) & (peaks[1:-1] >= peaks[2:])]
        return tops if len(tops) >= _FEWEST_SETTLED else peaks

    def __len__(self) -> int:
        return len(self.first_event)


@dataclass(frozen=True)
class Growth:
    """How live bytes, weights aside, went from step to step (the first aside)."""

    rose: bool
    """What was asked for and held rose in at least four of five steps, no step made most of the gain, the gain is worth
    the name, and its kinds were still held at the last event."""
    works: bool
    """Most steps made other memory too and gave it back, or ran the operations of a forward pass: the turns are steps
    of work. Else a store that is filled piece by piece looks like them."""
    gained_bytes: int
    seconds: float | None
    """From the first step compared to the last; None where events have no times."""
    top_owner: str | None
    """The line under which live bytes rose most; None where they rose under none."""
    top_gained_bytes: int
    top_live_bytes: int
    top_count: int
    """Live bytes and blocks under it, where the last step begins."""
    top_is_kv: bool
    """It appends keys and values to a cache."""
    kv_owners: frozenset[str]
    """That line and others like it, where it is a cache: keys may be appended on one line, values on another."""
    retains_graph: bool
    """What grows is kept from forward passes by autograd: many operations of a forward pass grow together."""
    unfinished_bytes: int
    """What is still held of the turns' forward passes, a good part of all that they made, where no backward pass and no
    optimizer ran in the recording: so do turns of one step (micro-batches) that goes backward at its end. Else 0."""

    @property
    def steady(self) -> bool:
        """Live bytes rose step after step, beside the work that the steps did."""
        return self.rose and self.works

    @property
    def fills(self) -> bool:
        """They rose piece by piece, and nothing else happened meanwhile."""
        return self.rose and not self.works


def find_steps(ownership: Ownership, until: int) -> Steps | None:
    """The steps up to event `until`; None where the stacks show no loop (or there are no stacks).

    Loops that build the model or the optimizer's state, or run backward, are none: they go over layers and parameters.
    """
    events = ownership.replay.events
    rows = np.flatnonzero((events.action[: until + 1] == _ALLOC) & (events.stack[: until + 1] >= 0))
    of_the_loop = np.asarray(
        [
            bool(reading.position) and not reading.constructed and reading.category not in _NOT_OF_THE_LOOP
            for reading in ownership.readings
        ],
        dtype=np.bool_,
    )
    rows = rows[of_the_loop[events.stack[rows]]]
    if not len(rows):
        return None
    first = _outermost_loop(ownership, rows)
    of_one_line = first is None
    if first is None:
        first = _one_line_loop(ownership, rows)
    if first is None:
        return None
    first = first[:: -(-len(first) // _MOST_STEPS)]
    live_bytes, live_blocks = _live_at(ownership, first)
    peaks = np.maximum.reduceat(ownership.replay.live_bytes[: until + 1], first)
    return Steps(first, until, peaks, live_bytes, live_blocks, of_one_line)


def growth(ownership: Ownership, steps: Steps) -> Growth | None:
    """How live bytes went from step to step; None where there are too few steps to say."""
    if len(steps) - 1 < _FEWEST_SETTLED:
        return None
    begin = _first_settled(steps)
    readings = ownership.readings
    counted = np.asarray(
        [reading.category is not Category.WEIGHTS and not reading.constructed for reading in readings], dtype=np.bool_
    )
    live = np.where(counted[:, None], steps.live_bytes, 0)[:, begin:]
    gained_by_kind = live[:, -1] - live[:, 0]
    more_blocks = steps.live_blocks[:, -1] > steps.live_blocks[:, begin]
    timeline = ownership.replay.events.timeline_us
    time_us = None if timeline is None else timeline[steps.first_event[[begin, -1]]]
    total = live.sum(axis=0)
    # Of each kind: what the program allocated elsewhere since does not stand in for what it gave back.
    at_end = int(np.minimum(_held_at(ownership, steps.last_event)[counted], live[counted, -1]).sum())
    retains = _retains_graph(ownership, int(steps.first_event[begin]), gained_by_kind, more_blocks)

    by_owner: dict[str, list[int]] = {}
    for kind in np.flatnonzero(live.any(axis=1)).tolist():
        by_owner.setdefault(readings[kind].owner, []).append(kind)
    gains = {owner: int(gained_by_kind[kinds].sum()) for owner, kinds in by_owner.items()}
    top = max(gains, key=lambda owner: gains[owner], default=None)
    top = top if top is not None and gains[top] > 0 else None
    top_kinds = by_owner[top] if top is not None else []
    is_kv = _is_cache(ownership, steps, begin, [kind for kind in top_kinds if gained_by_kind[kind] > 0])
    like_top = {
        owner
        for owner, kinds in by_owner.items()
        if is_kv and top is not None and 2 * gains[owner] >= gains[top]
        if _is_cache(ownership, steps, begin, [kind for kind in kinds if gained_by_kind[kind] > 0])
    }
    return Growth(
        rose=_is_steady(_asked_at(ownership, counted, steps.first_event[begin:]), ownership.replay.peak_bytes)
        and at_end >= _STILL_HELD * int(total[-1])
        and not _is_one_step(ownership, steps, int(total[-1] - total[0])),
        works=retains or _comes_and_goes(ownership, steps, begin),
        gained_bytes=int(total[-1] - total[0]),
        seconds=None if time_us is None else (int(time_us[1]) - int(time_us[0])) / 1e6,
        top_owner=top,
        top_gained_bytes=gains[top] if top is not None else 0,
        top_live_bytes=int(steps.live_bytes[top_kinds, -1].sum()),
        top_count=int(steps.live_blocks[top_kinds, -1].sum()),
        top_is_kv=is_kv,
        kv_owners=frozenset(like_top),
        retains_graph=retains,
        unfinished_bytes=0 if is_kv else _unfinished_bytes(ownership, steps, begin),
    )


# --- finding the loop --------------------------------------------------------------------------------------------


def _outermost_loop(ownership: Ownership, rows: IntColumn) -> IntColumn | None:
    """Events at which the outermost position that recurs is come to; None where none recurs often enough."""
    positions = [reading.position for reading in ownership.readings]
    stack = ownership.replay.events.stack[rows]
    changed = np.flatnonzero(np.concatenate([[True], stack[1:] != stack[:-1]]))
    stack, rows = stack[changed], rows[changed]
    depths = max((len(positions[kind]) for kind in set(stack.tolist())), default=0)
    numbers = [0] * len(positions)
    """Of each kind of stack, what its first `depth` frames are alike with; -1: it ends further out."""
    for depth in range(1, depths + 1):
        place: dict[tuple[int, Frame], int] = {}
        # A stack that ends further out has no place at this depth; it neither begins a turn nor ends one.
        numbers = [
            place.setdefault((number, position[depth - 1]), len(place)) if len(position) >= depth else -1
            for number, position in zip(numbers, positions, strict=True)
        ]
        of_kind = np.asarray(numbers, dtype=np.int64)
        here = of_kind[stack]
        at = np.flatnonzero(here >= 0)
        here = here[at]
        arrivals = np.flatnonzero(np.concatenate([[True], here[1:] != here[:-1]]))
        turns = np.bincount(here[arrivals], minlength=len(place))
        if int(turns.max(initial=0)) >= _FEWEST_STEPS:
            # The place come to most often, and of those the first: where the loop begins.
            often = np.flatnonzero(turns[here[arrivals]] == turns.max())[0]
            anchor = here[arrivals][often]
            found: IntColumn = rows[at[arrivals[here[arrivals] == anchor]]]
            return found
    return None


def _one_line_loop(ownership: Ownership, rows: IntColumn) -> IntColumn | None:
    """A loop on one line: each allocation of its most frequent stack is a turn.

    Outside any module a few turns make a loop. Inside one they may be its layers, unless there are more than any has.
    """
    stack = ownership.replay.events.stack[rows]
    outside = np.asarray([not reading.in_module for reading in ownership.readings], dtype=np.bool_)
    for eligible, fewest in ((outside[stack], _FEWEST_TURNS_OF_ONE_LINE), (~outside[stack], _MORE_THAN_LAYERS)):
        turns = np.bincount(stack[eligible], minlength=1)
        if int(turns.max()) >= fewest:
            found: IntColumn = rows[stack == turns.argmax()]
            return found
    return None


def _live_at(ownership: Ownership, first: IntColumn) -> tuple[IntColumn, IntColumn]:
    """Bytes and blocks live just before each of the events `first`, by kind: two arrays (kinds, len(first))."""
    lifetimes, kinds = ownership.replay.lifetimes, len(ownership.readings)
    # Held before first[k] means start < first[k] <= when it was given back.
    begin = np.searchsorted(first, lifetimes.start, side="right")
    end = np.searchsorted(first, ownership.replay.given_back, side="right")
    size = np.zeros((kinds, len(first) + 1), dtype=np.int64)
    count = np.zeros_like(size)
    for table, value in ((size, lifetimes.size_bytes), (count, np.ones_like(lifetimes.size_bytes))):
        np.add.at(table, (ownership.kind, begin), value)
        np.subtract.at(table, (ownership.kind, end), value)
    return size.cumsum(axis=1)[:, :-1], count.cumsum(axis=1)[:, :-1]


def _asked_at(ownership: Ownership, counted: NDArray[np.bool_], first: IntColumn) -> IntColumn:
    """Bytes asked for, of the `counted` kinds, that the program held just before each of the events `first`.

    A block may be up to 1 MiB larger than asked for: that comes and goes by chance, and hides a slow growth.
    """
    lifetimes = ownership.replay.lifetimes
    rows = np.flatnonzero(counted[ownership.kind])
    change = np.zeros(len(first) + 1, dtype=np.int64)
    asked = lifetimes.asked_bytes[rows]
    np.add.at(change, np.searchsorted(first, lifetimes.start[rows], side="right"), asked)
    np.subtract.at(change, np.searchsorted(first, ownership.replay.given_back[rows], side="right"), asked)
    return change.cumsum()[:-1]


# --- judging it --------------------------------------------------------------------------------------------------


def _first_settled(steps: Steps) -> int:
    """The first step to compare with: not the warm-up, nor one where blocks with forgotten stacks still hold much."""
    forgotten = steps.live_bytes[-1, 1:] <= _FORGOTTEN * steps.live_bytes[:, 1:].sum(axis=0)
    settled = int(forgotten.argmax()) + 1 if forgotten.any() else 1
    return settled if len(steps) - settled >= _FEWEST_SETTLED else 1


def _is_steady(total: IntColumn, peak_bytes: int) -> bool:
    steps, gained = np.diff(total), int(total[-1] - total[0])
    return bool(
        gained >= max(_FEWEST_BYTES, _LEAST_SHARE * peak_bytes)
        and (steps > 0).mean() >= _RISING
        and steps.max() <= _LARGEST_STEP * gained
    )


def _held_at(ownership: Ownership, event: int) -> IntColumn:
    """Bytes that the program held after `event`, by kind."""
    replay = ownership.replay
    held = (replay.lifetimes.start <= event) & (event < replay.given_back)
    size = np.zeros(len(ownership.readings), dtype=np.int64)
    np.add.at(size, ownership.kind[held], replay.lifetimes.size_bytes[held])
    return size


def _comes_and_goes(ownership: Ownership, steps: Steps, begin: int) -> bool:
    """Whether most of the steps compared gave back some of what they made. The smallest temporaries do not count."""
    lifetimes, given_back = ownership.replay.lifetimes, ownership.replay.given_back
    first = steps.first_event[begin:]
    rows = np.flatnonzero((lifetimes.start >= first[0]) & (lifetimes.start <= steps.last_event))
    step, size = np.searchsorted(first, lifetimes.start[rows], side="right") - 1, lifetimes.size_bytes[rows]
    made = np.bincount(step, weights=size, minlength=len(first))
    passed = np.bincount(step, weights=size * (given_back[rows] <= steps.last_event), minlength=len(first))
    # The last step ended at the failure, in the middle of its work.
    return bool((passed > _NEXT_TO_NOTHING * made)[:-1].mean() > _MOST)


def _unfinished_bytes(ownership: Ownership, steps: Steps, begin: int) -> int:
    """As Growth says. What ran with gradients off goes backward never."""
    if _is_training(ownership):
        return 0
    lifetimes, readings = ownership.replay.lifetimes, ownership.readings
    first = steps.first_event[begin:]
    rows = (lifetimes.start >= first[0]) & (lifetimes.start < first[-1])
    forward = np.asarray([one.category in FORWARD and not one.gradients_off for one in readings], dtype=np.bool_)
    held = rows & (ownership.replay.given_back > steps.last_event)
    kept = int(lifetimes.size_bytes[held & forward[ownership.kind]].sum())
    return kept if kept >= _GOOD_PART * int(lifetimes.size_bytes[rows].sum()) else 0


def _is_training(ownership: Ownership) -> bool:
    """Whether a backward pass or an optimizer allocated during the recording."""
    return bool((_goes_backward(ownership)[ownership.kind] & (ownership.replay.lifetimes.start >= 0)).any())


def _goes_backward(ownership: Ownership) -> NDArray[np.bool_]:
    """Of each kind, whether a backward pass or an optimizer allocated it."""
    return np.asarray(
        [one.category in (Category.GRADIENT, Category.OPTIMIZER_STATE) for one in ownership.readings], dtype=np.bool_
    )


def _is_one_step(ownership: Ownership, steps: Steps, gained_bytes: int) -> bool:
    """Whether most of the gain came after the last backward pass, from forward passes whose earlier blocks were given
    back: one step that is larger than those before, in several passes or in one, and not what steps leave behind.
    """
    lifetimes, given_back, kind = ownership.replay.lifetimes, ownership.replay.given_back, ownership.kind
    backward = lifetimes.start[_goes_backward(ownership)[kind] & (lifetimes.start <= steps.last_event)]
    last = int(backward.max(initial=-1))
    if last < 0:
        return False
    forward = np.asarray([one.category in FORWARD for one in ownership.readings], dtype=np.bool_)[kind]
    held = given_back > steps.last_event
    since = forward & held & (lifetimes.start > last) & (lifetimes.start <= steps.last_event)
    alike = np.zeros(len(ownership.readings), dtype=np.bool_)
    alike[kind[since]] = True
    before = alike[kind] & (lifetimes.start >= 0) & (lifetimes.start < last)
    earlier, kept = int(lifetimes.size_bytes[before].sum()), int(lifetimes.size_bytes[before & held].sum())
    return 2 * kept < earlier and 2 * int(lifetimes.size_bytes[since].sum()) > gained_bytes


def _is_cache(ownership: Ownership, steps: Steps, begin: int, kinds: list[int]) -> bool:
    """Whether the growing `kinds` are named as a cache, or are, in inference, the same several blocks, ever larger.

    torch.cat leaves no frame of its own: concatenation shows as blocks that are replaced by larger ones, their number
    staying what it is: a key and a value for each layer.
    """
    gained = steps.live_bytes[:, -1] - steps.live_bytes[:, begin]
    named = [kind for kind in kinds if ownership.readings[kind].category is Category.KV_APPEND]
    if named and 2 * int(gained[named].sum()) > int(gained[kinds].sum()):
        return True
    if not kinds or _is_training(ownership):
        return False
    before, after = (int(steps.live_blocks[kinds, step].sum()) for step in (begin, -1))
    if not _are_replaced(ownership, kinds, int(steps.first_event[begin]), int(steps.first_event[-1])):
        return False
    return after >= _FEWEST_CACHE_BLOCKS and abs(after - before) <= _SAME_COUNT * after


def _are_replaced(ownership: Ownership, kinds: list[int], begin: int, end: int) -> bool:
    """Whether most of the bytes of these kinds that were held just before event `begin` were gone before `end`.

    Among many blocks that stay, a few new ones do not change the number much.
    """
    lifetimes, given_back = ownership.replay.lifetimes, ownership.replay.given_back
    held = np.isin(ownership.kind, kinds) & (lifetimes.start < begin) & (given_back >= begin)
    gone = held & (given_back < end)
    return 2 * int(lifetimes.size_bytes[gone].sum()) > int(lifetimes.size_bytes[held].sum())


def _retains_graph(ownership: Ownership, since: int, gained: IntColumn, more_blocks: NDArray[np.bool_]) -> bool:
    """Whether most of the gain is of forward passes, from most of the operations that they ran since event `since`.

    Without autograd an operation's input is freed once the next has its result; only what is returned can pile up.
    """
    readings = ownership.readings
    ran = np.unique(ownership.kind[ownership.replay.lifetimes.start >= since]).tolist()
    ran = [kind for kind in ran if readings[kind].category in FORWARD and not readings[kind].gradients_off]
    saved = [kind for kind in ran if gained[kind] > 0 and more_blocks[kind]]
    return len(saved) >= max(_FEWEST_SAVED_STACKS, _LEAST_SHARE_SAVED * len(ran)) and int(
        gained[saved].sum()
    ) * 2 > int(gained[gained > 0].sum())
