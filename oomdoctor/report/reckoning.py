"""What was reckoned beside what was seen: the estimate, an engine's figures, what is written in vain. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..language import N_, _, told
from ..model.diagnosis import Comparison, Misuse
from ..model.estimated import Estimated, EstimatedPart
from ..model.printable import one_line
from ..model.units import format_bytes
from .text import source_of, to_copy

MISUSED = N_("What here does not do what it says")
"""The heading over the misuses."""
ESTIMATED = N_("Estimated for these settings, and what was found")
"""The heading over the estimate."""
RECKONED = N_("What the engine reckoned with, and what was seen")
"""The heading over the comparisons."""

OUTCOMES = {
    "refused": N_("the program ends with it"),
    "ignored": N_("nothing reads it"),
    "unsafe": N_("it does something else"),
}

_LINE, _SOURCE = 400, 240


@dataclass(frozen=True)
class ComparisonView:
    """What an engine reckoned with, what was seen, and how far apart they are."""

    what: str
    reckoned: str
    seen: str
    apart: str
    how_reckoned: str
    how_seen: str


@dataclass(frozen=True)
class EstimatedRow:
    """A part: what was estimated, what was observed, and how far apart they are."""

    what: str
    estimated: str
    observed: str
    apart: str
    how_estimated: str
    how_observed: str


@dataclass(frozen=True)
class EstimatedView:
    """The estimate of the settings."""

    settings: str
    sentences: tuple[str, ...]
    rows: tuple[EstimatedRow, ...]


def view_estimated(estimated: Estimated) -> EstimatedView:
    """The estimate, part by part."""
    return EstimatedView(
        settings=one_line(told(estimated.settings), _LINE),
        sentences=tuple(one_line(told(each), _LINE) for each in estimated.sentences),
        rows=tuple(
            EstimatedRow(
                what=one_line(_(each.what), _LINE),
                estimated=format_bytes(each.estimated_bytes),
                observed=_observed(each),
                apart="" if each.observed_bytes is None else _apart(each.observed_bytes - each.estimated_bytes),
                how_estimated=one_line(each.how_estimated, _SOURCE),
                how_observed=one_line(
                    told(each.how_observed) if each.how_observed else _("not told by the input"), _SOURCE
                ),
            )
            for each in estimated.parts
        ),
    )


def _observed(part: EstimatedPart) -> str:
    """With what kind of figure it is: an engine's own is no observation."""
    if part.observed_bytes is None or not part.observed_by:
        return "" if part.observed_bytes is None else format_bytes(part.observed_bytes)
    return _("{size}, {how}").format(size=format_bytes(part.observed_bytes), how=_(part.observed_by))


def _apart(size: int) -> str:
    return f"{'+' if size > 0 else '-' if size < 0 else ''}{format_bytes(abs(size))}"


def view_comparison(comparison: Comparison) -> ComparisonView:
    """A figure of an engine beside what was seen."""
    return ComparisonView(
        what=one_line(told(comparison.what), _LINE),
        reckoned=format_bytes(comparison.reckoned_bytes),
        seen=format_bytes(comparison.seen_bytes),
        apart=_apart(comparison.seen_bytes - comparison.reckoned_bytes),
        how_reckoned=one_line(source_of(comparison.how_reckoned), _SOURCE),
        how_seen=one_line(source_of(comparison.how_seen), _SOURCE),
    )


def view_misuse(misuse: Misuse) -> Misuse:
    """The same, in the language of the report."""
    colon = _(":") if misuse.lines and misuse.instead and misuse.instead[-1:] != "?" else ""
    return Misuse(
        what=one_line(misuse.what, _LINE),
        outcome=_(OUTCOMES.get(misuse.outcome, misuse.outcome)),
        why=one_line(told(misuse.why), _LINE),
        instead=one_line(told(misuse.instead) + colon, _LINE),
        lines=tuple(one_line(to_copy(line)) for line in misuse.lines),
        where=one_line(told(misuse.where), _SOURCE),
    )
