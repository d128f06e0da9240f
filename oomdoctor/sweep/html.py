"""A sweep as one HTML file with the map as a heat map: no network, no script, both colour schemes."""

from __future__ import annotations

from ..estimate.budget import FITS, NO
from ..forecast.html import map_style
from ..language import N_, _, tidy
from ..model.printable import one_line
from ..report.pages import asset, render_page
from .conduct import Swept
from .map import Entry, How, Map, room_of
from .measure import Recipe
from .outline import (
    Page,
    cell_text,
    cell_words,
    details,
    facts,
    headline,
    legend,
    pages,
    title_of,
    unit_of,
    value_text,
)

_COLOURS = N_(
    "Green leaves the headroom asked for, darker where it is fuller. The cell with the heavy frame is the largest that"
    " was tried and leaves it."
)
_SHADES = 4
"""Steps of the heat map: how full the place is within a verdict."""


def swept_as_html(swept: Swept, recipe: Recipe) -> str:
    """The page."""
    found = swept.map
    return render_page(
        __package__,
        "sweep.html.j2",
        f"{map_style()}\n{asset(__package__, 'sweep.css')}",
        title=one_line(headline(found)),
        subject=one_line(" ".join(recipe.shown[0]), 160),
        verdict="fits" if found.safe else "no",
        lines=facts(swept),
        heats=[_heat(found, page) for page in pages(found)],
        legend=tidy(f"{legend(found)} {_(_COLOURS)}"),
        sections=details(found),
    )


def _heat(found: Map, page: Page) -> dict[str, object]:
    safe = set(found.safe.values())
    _name, unit = unit_of(found)
    return {
        "title": title_of(found, page),
        "corner": page.rows.name if page.rows is not None else page.columns.name,
        "columns": [value_text(page.columns, place) for place in range(len(page.columns.values))],
        "rows": [
            {
                "name": value_text(page.rows, number) if page.rows is not None else unit_of(found)[0],
                "cells": [
                    {
                        "text": cell_text(found.entries[cell], unit),
                        "class": _class(found.entries[cell], found) + (" asked" if cell in safe else ""),
                        "words": cell_words(found.entries[cell], found.variables),
                    }
                    for cell in cells
                ],
            }
            for number, cells in enumerate(page.cells)
        ],
    }


def _class(entry: Entry, found: Map) -> str:
    """The cell's colour, and the frame that tells how it is known."""
    known = entry.how.value
    if entry.bytes is None:
        return f"{known} no" if entry.fits == NO else f"{known} unknown"
    if entry.fits is None:
        return f"{known} unknown"
    room = _room(entry, found)
    shade = min(_SHADES, 1 + int(_SHADES * entry.bytes / room)) if entry.fits == FITS and room else 1
    return f"{known} {entry.fits} shade-{shade}"


def _room(entry: Entry, found: Map) -> int | None:
    if entry.peak is not None:
        return room_of(entry.peak)
    if entry.how is How.PREDICTED and entry.bytes is not None and entry.left_bytes is not None:
        return entry.bytes + entry.left_bytes
    return None
