"""Finds the highest figure among lines that a log has too many of to read each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import re2

_MOST_STEPS = 8
"""Ever higher figures in one piece of text that are found one by one; of more the last is found at once."""


class Peaks:
    """Remembers the highest figure that stands behind each of some literals, and says where a text goes beyond it."""

    def __init__(self, literals: Sequence[str]) -> None:
        self._literals = [literal.encode() for literal in literals]
        self._beyond: list[Any] = [_figure(literal) for literal in self._literals]

    def beyond(self, text: bytes) -> Iterator[int]:
        """For each literal, its place in `text` where the figure is higher than it was ever before, if it is."""
        for number, literal in enumerate(self._literals):
            place, start, steps = -1, 0, 0
            while (found := self._beyond[number].search(text, start)) is not None:
                steps += 1
                if steps > _MOST_STEPS:
                    found = max(_figure(literal).finditer(text, start), key=lambda one: float(one[1]))
                place, start = found.start(), found.end()
                self._beyond[number] = _higher(literal, found[1])
            if place >= 0:
                yield place


def _figure(literal: bytes) -> Any:
    return re2.compile(re2.escape(literal) + rb"([0-9]{1,12}(?:\.[0-9]{1,6})?)")


def _higher(literal: bytes, figure: bytes) -> Any:
    """The literal with a higher figure of as many decimals: so a text without one is gone through in no time."""
    whole, _, decimals = figure.partition(b".")
    forms = [rb"[1-9][0-9]{%d,12}(?:\.[0-9]+)?" % len(whole)]
    for digits, before, after in ((whole, b"", rb"(?:\.[0-9]+)?"), (decimals, whole + rb"\.", b"")):
        for place, digit in enumerate(digits):
            if digit != ord("9"):
                rest = len(digits) - place - 1
                forms.append(before + digits[:place] + rb"[%c-9][0-9]{%d}" % (digit + 1, rest) + after)
    return re2.compile(re2.escape(literal) + rb"(" + rb"|".join(forms) + rb")(?:[^0-9.]|\.?$|\.[^0-9])")
