"""The data from which the report's scripts draw its charts anew, so that they can be zoomed and read by the pointer.

Everything the script shows is in the page without it; it reads numbers and plain text from a JSON block, builds no
markup from them and asks nothing from outside.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from ..language import _
from .owners import HoldingView
from .palette import CATEGORIES
from .stacks import StackView
from .timeline import Chart
from .tones import ON_SCREEN
from .window import Area, Band, WindowView

_COPY = "copy.js"
_VIEWS = ("begin", "texts", "marks", "mount", "courses", "window", "owners", "stacks", "end")
"""Of `charts/`, by subject: together the body of one function."""
LIBRARIES = ("vendor/uPlot.iife.min.js", "vendor/d3-hierarchy.min.js")
_UNIT_BYTES = 512
"""Of values in the data: allocators and the kernel count in multiples of it, and the numbers are shorter."""
_MOST_OWNERS = 60
"""Of a place in the map of owners: smaller ones cannot be seen in it."""


def page_data(
    charts: Sequence[Chart],
    windows: Sequence[WindowView],
    holdings: Sequence[HoldingView],
    stacks: Sequence[StackView] = (),
) -> Markup:
    """The JSON for the page's data block; empty where there are no charts. `<` is escaped: no text ends it."""
    data = {
        "charts": [_chart(chart, number) for number, chart in enumerate(charts, 1)],
        "windows": [
            _window(window, f"{kind}-{number}", title, areas)
            for number, window in enumerate(windows, 1)
            for kind, title, areas in (
                ("window", window.title, window.areas),
                ("lines", window.lines_title, window.lines),
            )
            if kind == "window" or len(areas) > 1
        ],
        "owners": list(_owners(holdings)),
        "stacks": [{"id": f"stacks-{number}", "where": view.where} for number, view in enumerate(stacks, 1)],
        "words": _words(),
        "unit": _UNIT_BYTES,
        "colours": {_(category.label): category.colour for category in CATEGORIES},
        "patterns": {category.colour: category.key for category in CATEGORIES if category.key in ON_SCREEN},
    }
    if not any(data[name] for name in ("charts", "windows", "owners", "stacks")):
        return Markup("")
    return _as_block(data)


def words_data() -> Markup:
    """The data block of a page without charts: what the buttons say."""
    return _as_block({"words": _words_of_buttons()})


def _as_block(data: dict[str, Any]) -> Markup:
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _words() -> dict[str, str]:
    """What the script says itself."""
    return {
        "keys": _("{picture}: arrow keys read values, + and - zoom, Escape shows all"),
        "failure": _("the failure"),
        "unseen": _("not seen"),
        "limit": _("limit {size}"),
        **_words_of_buttons(),
        "event": _("event {number}"),
        "all": _("in all"),
        "hint": _(" area is bytes; open a category by click or Enter, Escape goes back"),
        "held": _("Who held {place}"),
        "stacks": _(
            "{place}: live memory by the stacks that allocated it; Enter or a click opens a frame, Escape goes back"
        ),
        "owner": _("{owner}: {size} ({category}; {how})"),
    }


def _words_of_buttons() -> dict[str, str]:
    return {"copy": _("Copy"), "copied": _("Copied"), "selected": _("Selected")}


@cache
def scripts(charts: bool) -> tuple[Markup, ...]:
    """Each the content of one inline script: the buttons, and for charts the libraries and what draws with them."""
    folder = files(__package__) / "assets"

    def text(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8").strip().replace("</script", "<\\/script")

    found = [text(name) for name in ((_COPY, *LIBRARIES) if charts else (_COPY,))]
    if charts:
        views = "\n".join(text(f"charts/{name}.js") for name in _VIEWS)
        found.append(f'(function () {{\n"use strict";\n{views}\n}})();')
    return tuple(map(Markup, found))


def _chart(chart: Chart, number: int) -> dict[str, Any]:
    return {
        "id": f"chart-{number}",
        "where": chart.where,
        "dated": not chart.relative,
        "ceiling": chart.ceiling_bytes,
        "limits": list(chart.limits_bytes),
        "unseen": 0 if chart.unseen is None else chart.unseen.total_bytes,
        "gaps": [[each.begin_seconds, each.end_seconds, each.total_bytes] for each in chart.gaps],
        "begin": chart.begin_seconds,
        "end": chart.end_seconds,
        "strokes": [{"at": each.seconds, "kind": each.kind, "label": each.label} for each in chart.strokes],
        "samples": [
            {
                "id": each.anchor,
                "letter": each.letter,
                "at": each.seconds,
                "bytes": round(each.bytes),
                "beside": each.beside,
            }
            for each in chart.samples
        ],
        "numbers": [{"at": at, "text": text} for at, text in chart.numbers],
        "times": _steps([round(10_000 * time) for time in chart.area_times_seconds]),
        "areas": [
            {
                "name": area.name,
                "colour": area.category.colour,
                "values": _steps([round(value / _UNIT_BYTES) for value in area.values_bytes]),
            }
            for area in chart.areas
        ],
        "curves": [
            {
                "name": curve.name,
                "place": curve.place % 4,
                "times": _steps([round(10_000 * time) for time in curve.times_seconds]),
                "values": [round(value / _UNIT_BYTES) for value in curve.values_bytes],
            }
            for curve in chart.curves
        ],
    }


def _steps(numbers: list[int]) -> list[int]:
    """The first, then by how much each is more than the one before."""
    return [now - before for before, now in zip([0, *numbers], numbers, strict=False)]


def _window(window: WindowView, name: str, title: str, areas: tuple[Area, ...]) -> dict[str, Any]:
    return {
        "id": name,
        "title": title,
        "timed": window.is_timed,
        "failed": window.failure is not None,
        "times": window.times_seconds,
        "bands": [_bands(bands, window) for bands in (window.phases, window.marks) if bands],
        "areas": [
            {
                "name": f"{area.number} · {area.names}" if area.number else area.names,
                "colour": area.category.colour,
                "number": str(area.number or ""),
                "values": area.values_bytes,
            }
            for area in areas
        ],
    }


def _bands(bands: Sequence[Band], window: WindowView) -> list[dict[str, Any]]:
    begin, span = window.times_seconds[0], window.times_seconds[-1] - window.times_seconds[0]
    return [
        {
            "name": each.name,
            "begin": round(begin + each.start * span, 6),
            "end": round(begin + (each.start + each.width) * span, 6),
        }
        for each in bands
    ]


def _owners(holdings: Sequence[HoldingView]) -> Iterator[dict[str, Any]]:
    """A tree for each place: categories, in them owners. Only rows that add up are in it."""
    places: dict[str, dict[str, list[HoldingView]]] = {}
    for row in holdings:
        if row.is_owner and row.bytes > 0:
            places.setdefault(row.where, {}).setdefault(_(row.category.label), []).append(row)
    for where, categories in places.items():
        if sum(map(len, categories.values())) < 2:
            continue
        yield {
            "where": where,
            "children": [
                {
                    "name": label,
                    "children": [
                        {"name": row.owner, "bytes": row.bytes, "how": row.how_known} for row in rows[:_MOST_OWNERS]
                    ],
                }
                for label, rows in categories.items()
            ],
        }
