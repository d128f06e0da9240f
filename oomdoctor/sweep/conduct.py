"""The whole sweep: which setting next, run it, write down what came of it, until all is known or somebody says stop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import BundleError
from ..estimate.budget import FITS
from ..language import N_, _, ngettext
from .map import UNSURE, How, Map, draw_map
from .measure import CannotRun, Recipe, measure
from .outcomes import Attempt, Kind
from .plan import next_cell, plane_of
from .process import Interrupted, adopt_orphans
from .state import State
from .variables import Cell, Variable, values_of

_INTERRUPTED = N_("it was interrupted; the same command goes on from here")


@dataclass(frozen=True)
class Wishes:
    """What the sweep is to find out, and how much it may run for that."""

    headroom: float = 0.1
    on: str | None = None
    """`host` or `device`; None: the device where one is seen."""
    repeat: int = 1
    every: bool = False
    """Run also what can be predicted."""
    most_runs: int | None = None


@dataclass(frozen=True)
class Swept:
    """The map, and why it ends there."""

    map: Map
    runs: int
    stopped: str = ""
    """Empty: all is known that was asked for."""
    signal: int | None = None
    in_trouble: bool = False
    """It was stopped by what no further run would be spared."""


Told = Callable[[Cell, int, Attempt], None]
"""A run has ended: the setting, its number, what came of it."""


def sweep(
    variables: Sequence[Variable],
    recipe: Recipe,
    wishes: Wishes,
    state: State,
    say: Callable[[str], None],
    begins: Callable[[Cell, int], None],
    ended: Told,
) -> Swept:
    """Run until all is known. Trouble that no further run would be spared is told in `stopped`."""
    adopt_orphans()
    if wishes.most_runs != 0:
        # What failed for another reason may have been mended meanwhile; what ran, or ran out of memory, counts.
        state.forget((Kind.FAILED, Kind.TIMED_OUT))
    runs = 0
    try:
        while True:
            now = draw_map(variables, state.outcomes(), wishes.headroom, wishes.on)
            cell = _next(now, wishes)
            if cell is None:
                return Swept(now, runs)
            if runs == wishes.most_runs:
                said = ngettext("after {number} run, as asked", "after {number} runs, as asked", runs)
                return Swept(now, runs, said.format(number=runs))
            begins(cell, runs + 1)
            attempt = measure(recipe, values_of(variables, cell), state.folder, say)
            runs += 1
            state.add(cell, attempt)
            ended(cell, runs, attempt)
    except (CannotRun, BundleError) as error:
        number, why, in_trouble = None, str(error), True
    except Interrupted as interruption:
        number, why, in_trouble = interruption.number, _(_INTERRUPTED), False
    except KeyboardInterrupt:  # between two runs: what follows one, a diagnosis too, takes its time
        number, why, in_trouble = int(signal.SIGINT), _(_INTERRUPTED), False
    now = draw_map(variables, state.outcomes(), wishes.headroom, wishes.on)
    return Swept(now, runs, why, number, in_trouble)


def _next(now: Map, wishes: Wishes) -> Cell | None:
    for cell, outcome in now.known.outcomes.items():
        if outcome.kind is Kind.RAN and len(outcome.attempts) < wishes.repeat:
            return cell
    safe = [cell for cell, entry in now.entries.items() if entry.how is How.MEASURED and entry.fits == FITS]
    # Where a prediction was contradicted, what it says of the settings between is no answer: they are run.
    wrong = {growth.plane for growth in now.growths if growth.contradicted_by is not None}
    predicted = [
        cell
        for cell, entry in now.entries.items()
        if entry.how is How.PREDICTED and not (entry.fits == UNSURE and plane_of(now.known.variables, cell) in wrong)
    ]
    if wishes.every:
        predicted = []
    fitting = [cell for cell in predicted if now.entries[cell].fits == FITS]
    return next_cell(now.known, safe, fitting, predicted)
