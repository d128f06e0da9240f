"""Logs whose newest line comes first (`journalctl -r`, exports of log stores): found by their times, and turned round.

What is read then is in the order in which it was written; the line numbers that are told are those of the file.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import BinaryIO

from ...model.diagnosis import Excerpt
from ...model.source import Source
from ..text import clean, decode
from .stamps import stamp_of

MOST_TURNED_BYTES = 64 << 20
"""A log that is larger is read as it stands."""
TURNED = "its newest lines come first, as their times show: it was read from its end"
NOT_TURNED = (
    f"its newest lines come first, and it is larger than {MOST_TURNED_BYTES >> 20} MiB: what it says was read in that "
    "order; give it in order of time, as tac FILE > log.txt makes it"
)
_FEWEST_STEPS = 3
"""Times that go back, at least; in as many lines some clock may have been set back."""
_MOST_LINES = 400
_LONGEST_SHOWN = 2000


def is_newest_first(head: bytes) -> bool:
    """Whether the times of these lines never go on, and go back now and then; within a second tracebacks tell."""
    back, last, before = 0, None, ""
    upside_down = False
    for raw in head.splitlines()[:_MOST_LINES]:
        text = clean(decode(raw[:_LONGEST_SHOWN]))
        stamp = stamp_of(text)
        if stamp is None:
            continue
        if last is not None and stamp > last:
            return False
        back += last is not None and stamp < last
        upside_down = upside_down or (_HEADER in text and _FRAME.search(before) is not None)
        last, before = stamp, text
    return back >= _FEWEST_STEPS or upside_down


_HEADER = "Traceback (most recent call last)"
_FRAME = re.compile(r"\bFile \"[^\"]{1,400}\", line \d")


class Turned:
    """A log with its entries in order of time. An entry is a line with a time and those without one that follow it."""

    def __init__(self, raw: bytes) -> None:
        self._lines = raw.splitlines(keepends=True)
        if self._lines and not self._lines[-1].endswith((b"\n", b"\r")):
            self._lines[-1] += b"\n"
        entries: list[list[int]] = [[]]
        for number, line in enumerate(self._lines, start=1):
            if stamp_of(clean(decode(line[:_LONGEST_SHOWN]))) is not None and entries[-1]:
                entries.append([])
            entries[-1].append(number)
        self._numbers = [number for entry in reversed(entries) for number in entry]
        """By place in the turned log, the number of the line in the file."""

    def stream(self) -> BinaryIO:
        """The turned log."""
        return io.BytesIO(b"".join(self._lines[number - 1] for number in self._numbers))

    def source(self, source: Source) -> Source:
        """Where it stands in the file."""
        line = source.line
        known = line is not None and 1 <= line <= len(self._numbers)
        return replace(source, line=self._numbers[line - 1]) if known and line is not None else source

    def excerpts(self, excerpts: Sequence[Excerpt]) -> tuple[Excerpt, ...]:
        """The same lines in the order of the file."""
        found = []
        for excerpt in excerpts:
            places = range(excerpt.first_line, excerpt.first_line + len(excerpt.lines))
            numbers = sorted(self._numbers[place - 1] for place in places if 1 <= place <= len(self._numbers))
            marked = tuple(sorted(self._numbers[place - 1] for place in excerpt.marked if place <= len(self._numbers)))
            for piece in _without_gaps(numbers):
                lines = tuple(
                    clean(decode(self._lines[number - 1].rstrip(b"\r\n")))[:_LONGEST_SHOWN] for number in piece
                )
                here = tuple(number for number in marked if piece[0] <= number <= piece[-1])
                if here:
                    found.append(Excerpt(excerpt.path, piece[0], lines, here))
        return tuple(sorted(found, key=lambda one: one.first_line))


def _without_gaps(numbers: Sequence[int]) -> list[list[int]]:
    pieces: list[list[int]] = []
    for number in numbers:
        if pieces and number == pieces[-1][-1] + 1:
            pieces[-1].append(number)
        else:
            pieces.append([number])
    return pieces
