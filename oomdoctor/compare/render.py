"""A comparison for the terminal, for a ticket and for programs."""

from __future__ import annotations

import io
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..language import _
from ..language.wrapping import broken
from ..model.printable import one_line
from ..report.json_text import json_text
from ..report.markup import cell, table, text_of
from .change import Change, PlaceChange
from .outline import Section
from .places import Held, Place, Side, Stack
from .spread import Spread

SCHEMA = "oomdoctor.diff/1"
WIDTH = 80
_NARROW = 60
_INDENT = 2


def as_terminal(sections: tuple[Section, ...], width: int = WIDTH) -> str:
    """Plain text of so many columns. Where they are few, each row of a table is a name with its figures below it."""
    out = io.StringIO()
    console = Console(file=out, width=width, no_color=True, force_terminal=False, color_system=None)
    for section in sections:
        console.print()
        console.print(_wrapped(section.title, width))
        for line in section.lines:
            console.print(Padding(_wrapped(line, width - _INDENT), (0, 0, 0, _INDENT)), highlight=False)
        if section.rows:
            console.print(
                Padding(_stacked(section) if width < _NARROW else _grid(section), (0, 0, 0, _INDENT)), highlight=False
            )
        if section.remark:
            console.print(Padding(_wrapped(section.remark, width - _INDENT), (0, 0, 0, _INDENT)), highlight=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _wrapped(text: str, width: int) -> Text:
    return Text(broken(one_line(text), width), overflow="fold")


def _stacked(section: Section) -> Text:
    """One figure a line: columns would break every name and number."""
    lines = []
    for row in section.rows:
        lines.append(one_line(row[0]))
        for name, each in zip(section.head[1:], row[1:], strict=False):
            if each:
                text = one_line(each)
                lines.append("  " + (_("{what}: {why}").format(what=one_line(name), why=text) if name else text))
    return Text("\n".join(lines), overflow="fold")


def _grid(section: Section) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=any(section.head))
    for number, name in enumerate(section.head):
        left = number == 0 or not name
        grid.add_column(
            Text(one_line(name)), justify="left" if left else "right", overflow="fold", no_wrap=number > 0 and not left
        )
    for row in section.rows:
        grid.add_row(*(Text(one_line(each)) for each in row))
    return grid


def as_markdown(sections: tuple[Section, ...]) -> str:
    """What one pastes into a ticket."""
    blocks = []
    for place, section in enumerate(sections):
        blocks.append(f"{'##' if place == 0 else '###'} {text_of(one_line(section.title))}")
        if len(section.lines) == 1:
            blocks.append(text_of(section.lines[0]))
        elif section.lines:
            blocks.append("\n".join(f"- {text_of(one_line(line))}" for line in section.lines))
        if section.rows:
            rows = [tuple(cell(one_line(each)) for each in row) for row in section.rows]
            head = tuple(cell(one_line(name)) for name in section.head)
            blocks.append(table(head, rows, [n for n, name in enumerate(head) if n and name]))
        if section.remark:
            blocks.append(text_of(section.remark))
    return "\n\n".join(blocks) + "\n"


def change_as_json(change: Change) -> str:
    """One object of the schema `oomdoctor.diff/1`: sizes in bytes, null where a side does not tell."""
    return json_text(
        SCHEMA,
        {
            "kind": "change",
            "before": _side(change.before),
            "after": _side(change.after),
            "places": [_place_change(place) for place in change.places],
            "only_before": [place.name for place in change.only_before],
            "only_after": [place.name for place in change.only_after],
            "settings": [asdict(each) for each in change.settings],
            "settings_not_compared": list(change.settings_not_compared),
            "cautions": list(change.cautions),
        },
    )


def spread_as_json(found: Spread) -> str:
    """One object of the schema `oomdoctor.diff/1`; `bytes` has one number a place, in the order of `places`."""
    return json_text(
        SCHEMA,
        {
            "kind": "spread",
            "places": [{"path": side.path, **_place(place)} for side, place in found.places],
            "how_known": found.how_known or None,
            "cautions": list(found.cautions),
            "categories": [{"name": row.name, "bytes": list(row.bytes)} for row in found.categories],
            "owners": [{"name": row.name, "bytes": list(row.bytes)} for row in found.owners],
        },
    )


def _side(side: Side) -> dict[str, Any]:
    return {"path": side.path, "problems": list(side.problems)}


def _place(place: Place) -> dict[str, Any]:
    return {
        "name": place.name, "where": place.where, "rank": place.rank, "pid": place.pid, "moment": place.moment,
        "sizes": dict(place.sizes),
        "budget": dict(place.budget),
    }  # fmt: skip


def _place_change(change: PlaceChange) -> dict[str, Any]:
    return {
        "name": change.name,
        "before": _place(change.before),
        "after": _place(change.after),
        "how_known": change.how_known or None,
        "categories": [_row(row.key, row.before, row.after) for row in change.categories],
        "owners": [_row(row.key, row.before, row.after) for row in change.owners],
        "stacks": [{"stack": _stack(row.key), **_held(row.before, row.after)} for row in change.stacks],
        "not_compared": list(change.not_compared),
    }


def _row(name: str, before: Held, after: Held) -> dict[str, Any]:
    return {"name": name, **_held(before, after)}


def _held(before: Held, after: Held) -> dict[str, Any]:
    return {
        "before_bytes": before.bytes,
        "after_bytes": after.bytes,
        "before_blocks": before.count,
        "after_blocks": after.count,
    }


def _stack(stack: Stack) -> list[str]:
    return [f"{frame.file}:{frame.line} in {frame.function}" for frame in stack]
