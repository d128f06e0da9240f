"""Parts of a course: what is live by category and what is idle inside torch's allocator, at given times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..allocator.stacks import CATEGORY_WORDS, Category
from ..language import N_
from ..model.diagnosis import CoursePart
from ..model.run import AllocatorState
from ..model.window import Window
from .device_budget import IDLE

Values = NDArray[np.float64]
Weights = tuple[str, int, str]
"""What the model's parameters come to: name, bytes, how known."""

UNDIVIDED = N_("allocated by torch (kind not recorded)")

AFTER_SECONDS = 0.5
"""What was live at the end of the history still is for so long: a failed program has hardly begun to end."""
_SAMPLED_SECONDS = 1.0
"""The allocator's figures are recorded this often where they have changed: until then the last ones held."""

_UNKNOWN = frozenset(CATEGORY_WORDS[each] for each in (Category.OTHER, Category.UNKNOWN))
_COUNTED = N_("counted by the allocator")
_EVENTS = N_("by the allocator's history")


@dataclass
class Parts:
    """Parts in the order in which they were found, with how each is known."""

    count: int
    values: dict[str, Values] = field(default_factory=dict)
    how: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, values: Values, how: str) -> None:
        """Adds to a part, at each time; of what is nowhere there is no part."""
        if not values.any():
            return
        self.values[name] = self.values.get(name, np.zeros(self.count)) + values
        if how not in self.how.setdefault(name, []):
            self.how[name].append(how)

    def closed(self, total: int, rest: str | None, how: str = "") -> Iterator[CoursePart]:
        """All of them, cut where they exceed the total between two looks, and what is left of it where it was seen."""
        taken = np.zeros(self.count, dtype=np.int64)
        for name, values in self.values.items():
            whole = np.minimum(np.maximum(np.rint(values), 0).astype(np.int64), total - taken)
            taken += whole
            if whole.any():
                yield CoursePart(name, tuple(whole.tolist()), "; ".join(self.how[name]))
        if rest is not None and (total - taken).any():
            yield CoursePart(rest, tuple((total - taken).tolist()), how)


def add_inside(
    parts: Parts,
    times: Values,
    allocated: Values,
    reserved: Values,
    looked: Values,
    window: Window | None,
    weights: Weights | None,
    processes: int,
) -> None:
    """Adds what torch's allocator holds; `looked` are the times at which `reserved` was measured."""
    live, recorded = _live(parts, times, np.minimum(allocated, reserved), window, weights, processes)
    idle = np.maximum(reserved - live, 0)
    # What is live is exact at each event, what is reserved between two looks is not: their difference would show
    # memory idle that was never taken.
    measured = np.isin(times, looked)
    between = recorded & ~measured
    if measured.any():
        idle[between] = np.interp(times[between], times[measured], idle[measured])
    parts.add(IDLE, idle, N_("computed: reserved - live"))


def held(times: Values, states: Sequence[AllocatorState]) -> tuple[Values, Values]:
    """Allocated and reserved by one process at these times: before its first state nothing."""
    at: list[float] = []
    allocated: list[float] = []
    reserved: list[float] = []
    before = (0.0, 0.0)
    for state in states:
        if not at or state.time_seconds - at[-1] > 2 * _SAMPLED_SECONDS:
            at.append(state.time_seconds - _SAMPLED_SECONDS)
            allocated.append(before[0])
            reserved.append(before[1])
        before = (float(state.allocated_bytes or 0), float(state.reserved_bytes or 0))
        at.append(state.time_seconds)
        allocated.append(before[0])
        reserved.append(before[1])
    return np.interp(times, at, allocated), np.interp(times, at, reserved)


def _live(
    parts: Parts,
    times: Values,
    allocated: Values,
    window: Window | None,
    weights: Weights | None,
    processes: int,
) -> tuple[Values, NDArray[np.bool_]]:
    """Adds what is live, by category where it is known; gives what it comes to, and which times were recorded."""
    rest, whole = allocated.copy(), allocated.copy()
    within = np.zeros(len(times), dtype=bool)
    if window is not None:
        at = np.asarray(window.times_seconds)
        within = (times >= at[0]) & (times <= at[-1] + AFTER_SECONDS)
        event = np.clip(np.searchsorted(at, times, side="right") - 1, 0, len(at) - 1)
        recorded, unknown = np.zeros(len(times)), np.zeros(len(times))
        for each in window.categories:
            values = np.where(within, np.asarray(each.values_bytes, dtype=np.float64)[event], 0)
            recorded += values
            if each.name in _UNKNOWN:
                unknown += values
            else:
                parts.add(each.name, values, _EVENTS)
                weights = None if weights is not None and each.name == "weights" else weights
        # The history is of one process: others may hold more on the same device.
        others = np.maximum(allocated - recorded, 0) if processes > 1 else np.zeros(len(times))
        rest = np.where(within, unknown + others, allocated)
        whole = np.where(within, recorded + others, allocated)
    if weights is not None:
        name, size, how = weights
        known = np.minimum(rest, size)
        parts.add(name, known, N_("{how}; taken to have been there since so much was allocated").format(how=how))
        rest = rest - known
    parts.add(UNDIVIDED, rest, _COUNTED)
    return whole, within
