"""An estimate as one HTML file with the map as a heat map: no network, no script, both colour schemes."""

from __future__ import annotations

from ..compare.outline import Section
from ..estimate.answer import Answer
from ..estimate.budget import FITS, NO, TIGHT, weakest
from ..estimate.model_input import Model
from ..estimate.training import Training, TrainingBudget
from ..language import N_, _, ngettext
from ..model.diagnosis import Budget, BudgetPart
from ..model.printable import one_line
from ..report.bars import BudgetView, view_budget
from ..report.html import style_sheet
from ..report.pages import asset, render_page
from .outline import REMARKS, cell_text, facts, headline, outline, short_tokens
from .training_outline import training_headline, training_outline

_SHOWN = {FITS: N_("fits"), TIGHT: N_("tight"), NO: N_("no")}
_SHADES = 4
"""Steps of the heat map: how full the card is within a verdict."""
_TABLES_TOLD_OTHERWISE = 3
"""The first sections of an outline are the page's head, its bar and its map."""


def answer_as_html(answer: Answer) -> str:
    """Inference."""
    budget, capacity = answer.budget, answer.settings.capacity_bytes
    parts = [BudgetPart(part.name, part.bytes, part.known) for part in budget.parts if part.bytes]
    grid = answer.grid
    rows = [
        {
            "count": count,
            "cells": [
                {"text": cell_text(cell), "class": _class(cell.verdict, cell.total_bytes, capacity),
                 "verdict": _(_SHOWN[cell.verdict]), "asked": _is_asked(answer, cell.concurrency, cell.context)}
                for cell in row
            ],
            "largest": f"{largest:,}" if largest else "-",
        }
        for count, row, largest in zip(grid.concurrencies, grid.rows, grid.max_contexts, strict=True)
    ]  # fmt: skip
    heat = {
        "contexts": [short_tokens(each) for each in grid.contexts],
        "rows": rows,
        "remark": _(REMARKS[answer.settings.engine.queues]),
        "most": [str(each or "-") for each in grid.max_concurrencies],
    }
    sections = outline(answer)
    return _page(
        answer.model, headline(answer), budget.verdict, facts(answer),
        _bar(capacity, parts, budget.headroom_bytes, budget.known), heat,
        sections[1:2] + sections[_TABLES_TOLD_OTHERWISE:],
    )  # fmt: skip


def training_as_html(model: Model, settings: Training, budget: TrainingBudget) -> str:
    """Training: the parts of the moment that needs most."""
    named = {part.name: part for part in budget.parts}
    parts = [BudgetPart(name, named[name].bytes, named[name].known) for name in budget.peak.parts if named[name].bytes]
    first, *rest = training_outline(model, settings, budget)
    bar = _bar(
        settings.capacity_bytes, parts, budget.headroom_bytes, weakest(named[name] for name in budget.peak.parts)
    )
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
        verdict=_SHOWN[verdict],
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


def _class(verdict: str, total: int, capacity: int) -> str:
    """The cell's colour: its verdict, and how full the card is within it."""
    shade = min(_SHADES, 1 + int(_SHADES * total / capacity)) if verdict == FITS else 1
    return f"{_SHOWN[verdict]} shade-{shade}"


def _is_asked(answer: Answer, concurrency: int, context: int) -> bool:
    return (concurrency, context) == (answer.settings.concurrency, answer.settings.context)


def map_style() -> str:
    """The look of a page with a map."""
    return f"{style_sheet()}\n{asset(__package__, 'estimate.css')}"
