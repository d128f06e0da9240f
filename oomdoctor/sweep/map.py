"""The map: of every setting what was measured, what cannot fit, what is predicted, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from ..estimate.budget import FITS, NO, TIGHT
from .fit import Fit, Point, fit
from .outcomes import HOST, Kind, Outcome, Peak, places
from .plan import Knowledge, by_size, plane_of
from .variables import Cell, Variable, all_cells

UNSURE = "unsure"
"""Predicted so close to what there is that it may or may not fit."""


class How(str, Enum):
    """How a setting is known."""

    MEASURED = "measured"
    OUT_OF_MEMORY = "out-of-memory"
    LARGER = "larger-than-failed"
    """Not run: a smaller one ran out of memory."""
    PREDICTED = "predicted"
    PEAK_UNKNOWN = "peak-unknown"
    """It ran, and nobody saw what it held."""
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    NOT_KNOWN = "not-known"


@dataclass(frozen=True)
class Entry:
    """One setting on the map."""

    cell: Cell
    how: How
    fits: str | None = None
    """fits, tight, no or unsure; None: not known."""
    peak: Peak | None = None
    """Of the place that is fullest."""
    bytes: int | None = None
    """Measured or predicted."""
    error_bytes: int | None = None
    """Of a prediction; of several runs of one setting by how much they differed."""
    left_bytes: int | None = None
    """Of what others had left, beside it."""
    smaller: Cell | None = None
    """The setting that failed, where it is larger than that."""
    outcome: Outcome | None = None


@dataclass(frozen=True)
class Growth:
    """What grows with what in one place, for one choice of categories."""

    plane: Cell
    where: str
    fit: Fit
    variables: tuple[str, ...]
    limit_bytes: int | None
    """What there is for the command; less where settings failed that were predicted to need less."""
    contradicted_by: Cell | None = None
    """A setting that failed although it was predicted to fit into what was free."""


@dataclass(frozen=True)
class Map:
    """All of it."""

    variables: tuple[Variable, ...]
    entries: Mapping[Cell, Entry]
    wheres: tuple[str, ...]
    """The places that it is about: devices, or the host."""
    headroom: float
    growths: tuple[Growth, ...]
    known: Knowledge
    safe: Mapping[Cell, Cell]
    """By choice of categories the largest setting that was tried and leaves the headroom."""
    also_safe: tuple[Cell, ...]
    """Others that were tried and leave it, and are larger in some variable."""
    promising: tuple[Cell, ...]
    """Predicted to leave it, not tried, and larger than the one that is safe."""
    squeezed: tuple[Cell, ...] = ()
    """Ran while the allocator gave memory back: left out of the fit."""


def draw_map(
    variables: Sequence[Variable], outcomes: Mapping[Cell, Outcome], headroom: float, on: str | None = None
) -> Map:
    """The map of what is known so far. `on`: `host` or `device`; None: the device where one was seen."""
    seen = places(tuple(outcomes.values()))
    devices = tuple(where for where in seen if where != HOST)
    if on == HOST or (on is None and not devices):
        wheres: tuple[str, ...] = (HOST,)
    else:
        wheres = devices
    peaks = {cell: peak for cell, outcome in outcomes.items() if (peak := _fullest(outcome, wheres)) is not None}
    known = Knowledge(variables, outcomes, {cell: peak.bytes for cell, peak in peaks.items()})
    growths = _growths(variables, outcomes, wheres)
    entries = {cell: _entry(cell, known, peaks, growths, headroom) for cell in all_cells(variables)}
    safe, also, promising = _safe(variables, entries)
    return Map(
        variables=tuple(variables),
        entries=entries,
        wheres=wheres,
        headroom=headroom,
        growths=tuple(growth for found in growths.values() for growth in found),
        known=known,
        safe=safe,
        also_safe=also,
        promising=promising,
        squeezed=tuple(sorted(cell for cell, peak in peaks.items() if peak.squeezed)),
    )


def room_of(peak: Peak) -> int | None:
    """What there was for the command."""
    return peak.total_bytes if peak.available_bytes is None else peak.available_bytes


def _fullest(outcome: Outcome, wheres: Sequence[str]) -> Peak | None:
    """Of the places the one that runs out first."""
    peaks = [peak for where in wheres if (peak := outcome.peak(where)) is not None]
    return max(peaks, key=lambda peak: peak.bytes / (room_of(peak) or 1 << 60), default=None)


def _numbers(variables: Sequence[Variable], cell: Cell) -> Point:
    pairs = zip(variables, cell, strict=True)
    return tuple(variable.numbers[place] for variable, place in pairs if variable.numbers is not None)


# --- what grows ----------------------------------------------------------------------------------------------------


def _growths(
    variables: Sequence[Variable], outcomes: Mapping[Cell, Outcome], wheres: Sequence[str]
) -> dict[Cell, tuple[Growth, ...]]:
    """By choice of categories, one a place."""
    found: dict[Cell, tuple[Growth, ...]] = {}
    for plane in dict.fromkeys(plane_of(variables, cell) for cell in outcomes):
        mine = {cell: outcome for cell, outcome in outcomes.items() if plane_of(variables, cell) == plane}
        growths = (_growth(variables, mine, plane, where) for where in wheres)
        found[plane] = tuple(growth for growth in growths if growth is not None)
    return found


def _growth(variables: Sequence[Variable], outcomes: Mapping[Cell, Outcome], plane: Cell, where: str) -> Growth | None:
    peaks = {cell: peak for cell, outcome in outcomes.items() if (peak := outcome.peak(where)) is not None}
    used = {cell: peak for cell, peak in peaks.items() if not peak.squeezed and not outcomes[cell].degraded}
    noise = max((outcomes[cell].spread_bytes(where) for cell in used), default=0)
    fitted = fit([_numbers(variables, cell) for cell in used], [peak.bytes for peak in used.values()], noise)
    if fitted is None:
        return None
    limit = min((room for peak in peaks.values() if (room := room_of(peak)) is not None), default=None)
    contradicted: Cell | None = None
    for cell, outcome in outcomes.items():
        if outcome.kind is Kind.OUT_OF_MEMORY and limit is not None:
            predicted = fitted.predict(_numbers(variables, cell))
            highest = None if predicted is None else predicted.bytes + predicted.error_bytes
            if highest is not None and highest < limit:
                limit, contradicted = highest, cell
    names = tuple(variable.name for variable in variables if variable.numbers is not None)
    return Growth(plane, where, fitted, names, limit, contradicted)


# --- one setting ---------------------------------------------------------------------------------------------------


def _entry(
    cell: Cell,
    known: Knowledge,
    peaks: Mapping[Cell, Peak],
    growths: Mapping[Cell, Sequence[Growth]],
    headroom: float,
) -> Entry:
    outcome = known.outcomes.get(cell)
    if outcome is not None:
        return _tried(cell, outcome, peaks.get(cell), headroom)
    failed = known.ruled_out_by(cell)
    if failed is not None:
        return Entry(cell, How.LARGER, NO, smaller=failed)
    mine = growths.get(plane_of(known.variables, cell), ())
    in_plane = [peaks[each] for each in peaks if plane_of(known.variables, each) == plane_of(known.variables, cell)]
    predictions = [_predicted(cell, known.variables, growth, in_plane, headroom) for growth in mine]
    told = [entry for entry in predictions if entry is not None]
    if len(told) < len({peak.where for peak in in_plane}) or not told:
        return Entry(cell, How.NOT_KNOWN)
    return max(told, key=lambda entry: (_RANKS[entry.fits], -(entry.left_bytes or 0)))


_RANKS = {FITS: 0, TIGHT: 1, UNSURE: 2, None: 3, NO: 4}
"""Of several places the worst decides."""


def _tried(cell: Cell, outcome: Outcome, peak: Peak | None, headroom: float) -> Entry:
    if outcome.kind is Kind.OUT_OF_MEMORY:
        return Entry(cell, How.OUT_OF_MEMORY, NO, outcome=outcome)
    if outcome.kind is not Kind.RAN:
        how = How.FAILED if outcome.kind is Kind.FAILED else How.TIMED_OUT
        return Entry(cell, how, outcome=outcome)
    if peak is None:
        return Entry(cell, How.PEAK_UNKNOWN, outcome=outcome)
    room = room_of(peak)
    left = None if room is None else room - peak.bytes
    fits = None
    if left is not None and peak.total_bytes is not None:
        fits = FITS if left >= headroom * peak.total_bytes and not outcome.degraded and not peak.squeezed else TIGHT
    return Entry(cell, How.MEASURED, fits, peak, peak.bytes, outcome.spread_bytes(peak.where), left, outcome=outcome)


def _predicted(
    cell: Cell, variables: Sequence[Variable], growth: Growth, peaks: Sequence[Peak], headroom: float
) -> Entry | None:
    prediction = growth.fit.predict(_numbers(variables, cell))
    if prediction is None:
        return None
    total = next((peak.total_bytes for peak in peaks if peak.where == growth.where and peak.total_bytes), None)
    fits = None
    if growth.limit_bytes is not None and total is not None:
        high, low = prediction.bytes + prediction.error_bytes, prediction.bytes - prediction.error_bytes
        proven = min(growth.limit_bytes, _held_well(growth.where, peaks, headroom))
        if growth.limit_bytes - high >= headroom * total or high <= proven:
            fits = FITS
        elif high <= growth.limit_bytes and growth.contradicted_by is None:
            fits = TIGHT
        else:
            fits = NO if low > growth.limit_bytes else UNSURE
    left = None if growth.limit_bytes is None else growth.limit_bytes - prediction.bytes
    return Entry(cell, How.PREDICTED, fits, None, prediction.bytes, prediction.error_bytes, left)


def _held_well(where: str, peaks: Sequence[Peak], headroom: float) -> int:
    """The most that a setting was seen to hold there while it left the headroom."""
    return max(
        (
            peak.bytes
            for peak in peaks
            if peak.where == where and peak.total_bytes and not peak.squeezed
            if (room_of(peak) or 0) - peak.bytes >= headroom * peak.total_bytes
        ),
        default=0,
    )


# --- the answer ----------------------------------------------------------------------------------------------------


def _safe(
    variables: Sequence[Variable], entries: Mapping[Cell, Entry]
) -> tuple[dict[Cell, Cell], tuple[Cell, ...], tuple[Cell, ...]]:
    tried = [cell for cell, entry in entries.items() if entry.how is How.MEASURED and entry.fits == FITS]
    predicted = [cell for cell, entry in entries.items() if entry.how is How.PREDICTED and entry.fits == FITS]
    safe: dict[Cell, Cell] = {}
    for cell in sorted(tried, key=lambda each: by_size(variables, each)):
        safe[plane_of(variables, cell)] = cell
    best = set(safe.values())
    largest = _largest(variables, tried)
    also = tuple(cell for cell in largest if cell not in best)
    promising = tuple(cell for cell in _largest(variables, [*tried, *predicted]) if cell in set(predicted))
    return safe, also, promising


def _largest(variables: Sequence[Variable], cells: Sequence[Cell]) -> list[Cell]:
    """Those that no other covers, in order."""
    found: list[Cell] = []
    for cell in sorted(cells, key=sum, reverse=True):
        if not any(_covers(variables, other, cell) for other in found):
            found.append(cell)
    return sorted(found)


def _covers(variables: Sequence[Variable], larger: Cell, cell: Cell) -> bool:
    """Whether `larger` is no smaller in any variable, and another setting."""
    if larger == cell or plane_of(variables, larger) != plane_of(variables, cell):
        return False
    return all(a >= b for a, b in zip(larger, cell, strict=True))
