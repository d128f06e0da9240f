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
_PIECE = re.compile(r"\s+|[^\s\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]+|.")


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
    """Lines of at most `width` cells, broken between words and beside Chinese characters; a longer word stays whole."""
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
