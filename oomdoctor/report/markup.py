"""Pieces of Markdown; text from the input stays text in them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from ..language.wrapping import cells, padded
from ..model.printable import shorten

_CELL, _NAME = 60, 44
_SPECIAL = re.compile(r"[\\`*\[\]|~{}$]|(?<![^\W_])_|_(?![^\W_])|!(?=\S)")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_MENTION = re.compile(r"(?<!\w)@(?=\w)")
_REFERENCE = re.compile(r"(?<![\w&])(GH-|[#!$%&])(?=\d)|(:)(?=[a-z+-][\w+-]*:)")
"""What GitHub or GitLab makes a link of (an issue, a merge request, a snippet, a milestone, an epic), or a face."""
_BLOCK_START = re.compile(r"^(?:(\d+)(?=[.)](?:\s|$))|(?=[-+>=#]))")


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], numbers: Collection[int]) -> str:
    """A table, the columns `numbers` to the right; it also lines up as raw text, for places that show it so."""
    widths = [max(cells(row[column]) for row in (head, *rows)) for column in range(len(head))]

    def line(cells: tuple[str, ...]) -> str:
        lined_up = (
            padded(cell, width, right=column in numbers)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(lined_up)} |"

    rule = "".join("|" + "-" * (width + 1) + (":" if column in numbers else "-") for column, width in enumerate(widths))
    return "\n".join([line(head), rule + "|", *(line(row) for row in rows)])


def aligned(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Aligned lines, for places without tables: the first column to the left, the others to the right.

    Like a table of Markdown they call nobody.
    """
    shown = [(_unheard(shorten(row[0], _NAME)), *row[1:]) for row in (head, *rows)]
    widths = [max(cells(row[column]) for row in shown) for column in range(len(head))]
    lines = [
        "  ".join(
            padded(cell, width, right=column > 0) for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in shown
    ]
    lines.insert(1, "-" * (sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join(line.rstrip() for line in lines)


def _unheard(text: str) -> str:
    """Also in a fence Slack reads `<!channel>`: a word joiner keeps a log line from calling people."""
    return _MENTION.sub("@\u2060", text).replace("<", "<\u2060")


def text_of(text: str) -> str:
    """Text from the input: nothing in it is markup, a mention or HTML."""
    escaped = _SPECIAL.sub(r"\\\g<0>", text)
    # `<` as an entity: HTML in GitHub and GitLab, and `<!channel>` in Slack, are told apart from text only so.
    escaped = _ENTITY.sub("&amp;", escaped).replace("<", "&lt;")
    # GitHub finds mentions after it has removed backslashes; a word joiner keeps a log line from calling people.
    escaped = _MENTION.sub("@\u2060", escaped)
    escaped = _REFERENCE.sub("\\g<0>\u2060", escaped)
    return _BLOCK_START.sub(r"\g<0>\\", escaped)


def cell(text: str) -> str:
    """Text from the input in a table's cell, shortened."""
    return text_of(shorten(text, _CELL))


def code(text: str) -> str:
    """A code span; one that the text cannot close."""
    marks = "`" * (_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{marks}{pad}{text}{pad}{marks}"


def fence(text: str) -> str:
    """Fenced lines; a fence that they cannot close."""
    marks = "`" * max(3, _longest_run(text) + 1)
    return f"{marks}\n{text}\n{marks}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
