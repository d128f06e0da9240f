"""An estimate as one HTML file with the map as a heat map: no network, no script, both colour schemes."""

from __future__ import annotations

from ..compare.outline import Section
from ..estimate.answer import Answer
from ..estimate.budget import FITS, NO, TIGHT
from ..estimate.model_input import Model
from ..estimate.settings import Settings
from ..estimate.training import Training, TrainingBudget
from ..language import N_, _, ngettext
from ..model.diagnosis import Budget, BudgetPart
from ..model.printable import one_line
from ..report.bars import BudgetView, view_budget
from ..report.html import style_sheet
from ..report.pages import asset, render_page
from .outline import (
    CLOSE,
    MARKS,
    WAITS,
    cell_text,
    facts,
    headline,
    how_left_is_known,
    kind_of,
    longest_name,
    most_name,
    outline,
    share_text,
    short_tokens,
)
from .training_outline import training_headline, training_outline

_SHOWN = {
    FITS: N_("fits"), CLOSE: N_("fits, close"), TIGHT: N_("tight"), WAITS: N_("requests wait"), NO: N_("no"),
}  # fmt: skip
_COLOURS = {FITS: "fits", CLOSE: "close", TIGHT: "tight", WAITS: "waits", NO: "no"}
_SHADES = 4
"""Steps of the heat map: how full the card is within a verdict."""
_FITS_AND_BUDGET, _TABLES_TOLD_OTHERWISE = slice(1, 3), 4
"""Of an outline the first section is the page's head, the fourth its map."""


def answer_as_html(answer: Answer) -> str:
    """Inference."""
    budget, capacity = answer.budget, answer.settings.capacity_bytes
    parts = [BudgetPart(part.name, part.bytes, part.known) for part in budget.parts if part.bytes]
    grid = answer.grid
    rows = [
        {
            "count": count,
            "cells": [
                {"text": cell_text(cell), "class": _class(kind_of(cell), cell.total_bytes, capacity),
                 "verdict": _(_SHOWN[kind_of(cell)]), "asked": _is_asked(answer, cell.concurrency, cell.context)}
                for cell in row
            ],
            "largest": [f"{each.contexts[place]:,}" if each.contexts[place] else "-" for each in grid.largest],
        }
        for place, (count, row) in enumerate(zip(grid.concurrencies, grid.rows, strict=True))
    ]  # fmt: skip
    several = len(grid.largest) > 1
    heat = {
        "contexts": [short_tokens(each) for each in grid.contexts],
        "longest": [
            _("longest, {share} left").format(share=share_text(each.headroom)) if several else longest_name(each, grid)
            for each in grid.largest
        ],
        "rows": rows,
        "legend": _legend(answer.settings),
        "most": [
            {
                "name": _("most, {share} left").format(share=share_text(each.headroom))
                if several
                else most_name(each, grid),
                "counts": [str(count or "-") for count in each.concurrencies],
            }
            for each in grid.largest
        ],
    }
    sections = outline(answer)
    return _page(
        answer.model, headline(answer), budget.verdict, facts(answer),
        _bar(capacity, parts, budget.headroom_bytes, how_left_is_known(budget.parts)), heat,
        sections[_FITS_AND_BUDGET] + sections[_TABLES_TOLD_OTHERWISE:],
    )  # fmt: skip


def training_as_html(model: Model, settings: Training, budget: TrainingBudget) -> str:
    """Training: the parts of the moment that needs most."""
    named = {part.name: part for part in budget.parts}
    parts = [BudgetPart(name, named[name].bytes, named[name].known) for name in budget.peak.parts if named[name].bytes]
    first, *rest = training_outline(model, settings, budget)
    live = [named[name] for name in budget.peak.parts]
    bar = _bar(settings.capacity_bytes, parts, budget.headroom_bytes, how_left_is_known(live))
    return _page(model, training_headline(budget, settings), budget.verdict, first.lines, bar, None, tuple(rest))


def _page(
    model: Model,
    title: str,
    verdict: str,
    lines: tuple[str, ...],
    bar: BudgetView,
    heat: dict[str, object] | None,
    sections: tuple[Section, ...],
) -> str:
    return render_page(
        __package__,
        "estimate.html.j2",
        map_style(),
        title=one_line(title),
        subject=one_line(
            ngettext(
                "{path}: {family}, {number} layer", "{path}: {family}, {number} layers", model.architecture.layers
            ).format(path=model.path, family=model.architecture.family, number=model.architecture.layers),
            160,
        ),
        verdict=_COLOURS[verdict],
        lines=lines,
        bar=bar,
        heat=heat,
        sections=sections,
    )


def _bar(capacity: int, parts: list[BudgetPart], headroom: int, known: str) -> BudgetView:
    """The card's bar: what does not fit runs over its end."""
    if headroom > 0:
        parts = [*parts, BudgetPart(N_("free (headroom)"), headroom, known)]
    return view_budget(Budget(N_("one card"), capacity, tuple(parts), min(headroom, 0)))


def _class(kind: str, total: int, capacity: int) -> str:
    """The cell's colour: its kind, and how full the card is where it fits."""
    shade = min(_SHADES, 1 + int(_SHADES * total / capacity)) if kind == FITS else 1
    return f"{_COLOURS[kind]} shade-{shade}"


def _legend(settings: Settings) -> list[dict[str, str]]:
    """The kinds of cells that this engine can have: colour, mark, words."""
    least, most = share_text(settings.headroom), share_text(settings.headrooms[-1])
    words = {FITS: _("{share} of the card and more are left").format(share=most)}
    if settings.comfort is not None:
        words[CLOSE] = _("{least} to {most} are left").format(least=least, most=most)
    words[TIGHT] = _("less than {least} is left").format(least=least)
    if settings.engine.queues:
        words[WAITS] = _("it starts, but requests wait for room in the pool")
    words[NO] = _("does not start") if settings.engine.queues else _("does not fit")
    return [{"class": f"{_COLOURS[kind]} shade-3", "mark": MARKS[kind], "words": said} for kind, said in words.items()]


def _is_asked(answer: Answer, concurrency: int, context: int) -> bool:
    return (concurrency, context) == (answer.settings.concurrency, answer.settings.context)


def map_style() -> str:
    """The look of a page with a map."""
    return f"{style_sheet()}\n{asset(__package__, 'estimate.css')}"
