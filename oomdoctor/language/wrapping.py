"""Lines of text in a terminal's cells: a Chinese character takes two, and a line may break beside it."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterator

_NOT_FIRST = "，。；：、！？）》」』】”’％"
"""Marks that no line begins with."""
_NOT_LAST = "（《「『【“‘"
"""Marks that no line ends with."""
_COMMAND = re.compile(r"`[^`]*`")
_HELD = "\ue000"
"""Stands for a blank within a command while lines are broken."""
_PIECE = re.compile(r"\s+|`[^`]*`|[^\s\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]+|.")


def cells(text: str) -> int:
    """The columns that the text takes in a terminal."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


def padded(text: str, width: int, *, right: bool = False) -> str:
    """The text with blanks up to `width` cells, after it or (`right`) before it."""
    blanks = " " * max(width - cells(text), 0)
    return blanks + text if right else text + blanks


def wrap(text: str, width: int, first: str = "", others: str = "") -> list[str]:
    """Lines of at most `width` cells, broken between words and beside Chinese characters.

    A longer word stays whole, and so does a command in backticks.
    """
    if "`" in text:
        text = _COMMAND.sub(lambda found: found[0].replace(" ", _HELD), text)
        return [line.replace(_HELD, " ") for line in _wrapped(text, width, first, others)]
    return _wrapped(text, width, first, others)


def _wrapped(text: str, width: int, first: str, others: str) -> list[str]:
    if cells(text) == len(text):
        return textwrap.wrap(
            text, width, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
        )
    lines, line, taken = [], first, cells(first)
    empty = True
    for piece in _unbreakable(text):
        size = cells(piece.rstrip())
        if not empty and taken + size > width:
            lines.append(line.rstrip())
            line, taken, empty = others, cells(others), True
        if empty and not piece.strip():
            continue
        line, taken, empty = line + piece, taken + cells(piece), False
    return lines if empty else [*lines, line.rstrip()]


def chopped(text: str, width: int) -> list[str]:
    """The line in pieces of at most `width` cells, wherever they end: for a word that is longer."""
    pieces, piece, taken = [], "", 0
    for each in text:
        size = cells(each)
        if piece and taken + size > width:
            pieces.append(piece)
            piece, taken = "", 0
        piece, taken = piece + each, taken + size
    return [*pieces, piece]


def broken(text: str, width: int) -> str:
    """Chinese with line breaks for so many cells; other text as it is: whoever prints it breaks it between words."""
    return "\n".join(wrap(text, width)) if cells(text) > len(text) else text


def _unbreakable(text: str) -> Iterator[str]:
    """Pieces that no line break divides: a word, a character with the marks that belong to it; blanks by themselves."""
    held = ""
    for piece in _PIECE.findall(text):
        if held and (piece[0] in _NOT_FIRST or held[-1] in _NOT_LAST):
            held += piece
            continue
        if held:
            yield held
        held = " " if piece.isspace() else piece
    if held:
        yield held
