"""Which setting is run next. Nothing here runs anything."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

from .outcomes import Kind, Outcome
from .variables import Cell, Variable, all_cells

_NOISE = 0.01
"""A peak that is lower by less than this share is no lower."""


class Knowledge:
    """What the runs say of other settings without a fit: which cannot fit, because a smaller one did not."""

    def __init__(
        self, variables: Sequence[Variable], outcomes: Mapping[Cell, Outcome], peaks: Mapping[Cell, int]
    ) -> None:
        """`peaks`: of settings that ran, in bytes, where seen."""
        self.variables = variables
        self.outcomes = outcomes
        self._falling = _falling(variables, peaks)
        self._failed = [cell for cell, outcome in outcomes.items() if outcome.kind is Kind.OUT_OF_MEMORY]

    @property
    def falling(self) -> tuple[str, ...]:
        """Variables of which more was seen to need less memory: no setting is ruled out along them."""
        return tuple(self.variables[place].name for place in sorted(self._falling))

    def ruled_out_by(self, cell: Cell) -> Cell | None:
        """A setting that ran out of memory and is smaller in every variable that differs; None: there is none."""
        if cell in self.outcomes:
            return None
        return next((failed for failed in self._failed if self._is_larger(cell, failed)), None)

    def _is_larger(self, cell: Cell, failed: Cell) -> bool:
        for place, variable in enumerate(self.variables):
            ordered = variable.numbers is not None and place not in self._falling
            if cell[place] != failed[place] and not (ordered and cell[place] > failed[place]):
                return False
        return cell != failed


def next_cell(
    known: Knowledge, safe: Collection[Cell], fitting: Collection[Cell], predicted: Collection[Cell]
) -> Cell | None:
    """The setting to run next; None when all is known.

    From the smallest, one variable at a time, each until it runs out of memory; then the smallest setting in which two
    variables have grown, a step from either; then the largest that is predicted to fit, so that the answer is one that
    was tried; then what cannot be predicted. `safe`: settings that were tried and leave the headroom; `fitting`: those
    predicted to leave it; `predicted`: those with any prediction. With nothing predicted every setting is run.

    Each setting but the first of its categories differs in one variable only from one that was run before: on the way
    to one that does not, the setting between is run.
    """
    planes: dict[Cell, list[Cell]] = {}
    for cell in all_cells(known.variables):
        planes.setdefault(plane_of(known.variables, cell), []).append(cell)
    for plane in planes.values():
        found = _next_of_plane(known, plane, safe, fitting, predicted)
        if found is not None:
            return found
    return None


def step_from(done: Iterable[Cell], cell: Cell) -> Cell | None:
    """Of the settings that were run the nearest that differs in one variable only; None: there is none."""
    near = [other for other in done if sum(a != b for a, b in zip(other, cell, strict=True)) == 1]
    return max(near, key=lambda other: sum(min(a, b) for a, b in zip(other, cell, strict=True)), default=None)


def by_size(variables: Sequence[Variable], cell: Cell) -> tuple[float, int]:
    """Orders settings: by the product of their numbers, which is what most programs' memory grows with."""
    pairs = [(variable.numbers, place) for variable, place in zip(variables, cell, strict=True)]
    if any(numbers is not None and numbers[0] <= 0 for numbers, _ in pairs):
        sizes = [float(place + 1) for numbers, place in pairs if numbers is not None]
    else:
        sizes = [numbers[place] for numbers, place in pairs if numbers is not None]
    return math.prod(sizes), sum(cell)


def plane_of(variables: Sequence[Variable], cell: Cell) -> Cell:
    """The categories of the setting: only within one plane is there an order."""
    return tuple(place for variable, place in zip(variables, cell, strict=True) if variable.numbers is None)


def _next_of_plane(
    known: Knowledge,
    plane: Sequence[Cell],
    safe: Collection[Cell],
    fitting: Collection[Cell],
    predicted: Collection[Cell],
) -> Cell | None:
    smallest = plane[0]
    done = known.outcomes
    if smallest in done and done[smallest].kind in (Kind.FAILED, Kind.TIMED_OUT):
        return None  # what does not even work says nothing of memory, nor would its larger brothers

    def is_open(cell: Cell) -> bool:
        return cell not in done and known.ruled_out_by(cell) is None

    for cell in _walk(known.variables, smallest):
        if is_open(cell):
            return cell
    left = sorted((cell for cell in plane if is_open(cell)), key=lambda cell: by_size(known.variables, cell))
    tried = max((by_size(known.variables, cell) for cell in plane if cell in safe), default=(0.0, 0))
    wanted = next((cell for cell in reversed(left) if cell in fitting and by_size(known.variables, cell) > tried), None)
    if wanted is None:
        wanted = next((cell for cell in left if cell not in predicted), None)
    return None if wanted is None else _on_the_way(known, plane, wanted)


def _on_the_way(known: Knowledge, plane: Sequence[Cell], wanted: Cell) -> Cell:
    """The setting itself, or one between, so that it is one variable's step from one that was run in this plane."""
    done = [cell for cell in plane if cell in known.outcomes]
    between = wanted
    for place in reversed(range(len(wanted))):
        if step_from(done, between) is not None:
            break
        if known.variables[place].numbers is not None:
            between = _with(between, {place: 0})
    return wanted if known.ruled_out_by(between) is not None else between


def _walk(variables: Sequence[Variable], smallest: Cell) -> list[Cell]:
    """The smallest, then each variable by itself, then each two of them by one step."""
    ordered = [place for place, variable in enumerate(variables) if variable.numbers is not None]
    walk = [smallest]
    for place in ordered:
        walk += [_with(smallest, {place: step}) for step in range(1, len(variables[place].values))]
    for first, second in combinations(ordered, 2):
        if len(variables[first].values) > 1 and len(variables[second].values) > 1:
            walk.append(_with(smallest, {first: 1, second: 1}))
    return walk


def _with(cell: Cell, changes: Mapping[int, int]) -> Cell:
    return tuple(changes.get(place, value) for place, value in enumerate(cell))


def _falling(variables: Sequence[Variable], peaks: Mapping[Cell, int]) -> frozenset[int]:
    """Variables of which a larger value, all else equal, was seen to need clearly less."""
    falling = set()
    for first, second in combinations(sorted(peaks), 2):
        differ = [place for place in range(len(variables)) if first[place] != second[place]]
        if len(differ) == 1 and variables[differ[0]].numbers is not None:
            low, high = sorted((first, second), key=lambda cell: cell[differ[0]])
            if peaks[high] < peaks[low] * (1 - _NOISE):
                falling.add(differ[0])
    return frozenset(falling)
