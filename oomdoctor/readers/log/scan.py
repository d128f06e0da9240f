"""Finds the places of a buffer where any of many anchors stands, and which of them stand in a line.

RE2 looks for all of them in one pass and in time proportional to the text, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import re2

ESCAPE = b"\x1b"
_COLOUR = rb"\x1b\[[0-?]*[@-~]"
_COLOURS = re.compile(_COLOUR)
_MOST_MEMORY = 64 << 20
"""Bytes for the states of the automatons: many times what they need, for without room they would give up."""
_LONGEST = 1024
"""Bytes that an anchor may take, colours included."""


@dataclass(frozen=True)
class Anchor:
    """A literal, and a regular expression (in RE2's syntax) of what stands before it."""

    literal: str
    led_by: str = ""

    def pattern(self, gap: bytes = b"") -> bytes:
        """A regular expression in which `gap` may stand between any two bytes of the literal."""
        raw = self.literal.encode()
        if not gap:
            return self.led_by.encode() + re.escape(raw)
        return self.led_by.encode() + gap + gap.join(re.escape(raw[place : place + 1]) for place in range(len(raw)))


class AnchorScanner:
    """Finds anchors in bytes."""

    def __init__(self, anchors: Sequence[Anchor]) -> None:
        self._anchors = anchors

    def find(self, buffer: bytes, start: int, end: int, coloured: bool) -> int:
        """The first place in [start, end) where an anchor begins; it may reach beyond `end`. -1 where none does.

        `coloured`: escape sequences may stand between its letters.
        """
        found = (self._any_coloured if coloured else self._any).search(buffer, start, end + _LONGEST)
        place: int = -1 if found is None else found.start()
        return place if place < end else -1

    def anchors_in(self, raw: bytes) -> Sequence[int]:
        """The numbers of the anchors that `raw` holds, in no order."""
        return self._which(_COLOURS.sub(b"", raw) if ESCAPE in raw else raw)

    @cached_property
    def _any(self) -> Any:
        return _compiled(b"|".join(anchor.pattern() for anchor in self._anchors))

    @cached_property
    def _any_coloured(self) -> Any:
        """Thrice as long to compile, and as fast."""
        return _compiled(b"|".join(anchor.pattern(b"(?:%b)*" % _COLOUR) for anchor in self._anchors))

    @cached_property
    def _which(self) -> Callable[[bytes], Sequence[int]]:
        patterns = [anchor.pattern() for anchor in self._anchors]
        anchors = re2.Set.SearchSet(_options())
        for pattern in patterns:
            anchors.Add(pattern)
        anchors.Compile()
        return lambda raw: anchors.Match(raw) or ()


def _options() -> Any:
    options = re2.Options()
    options.encoding, options.never_capture, options.max_mem = re2.Options.Encoding.LATIN1, True, _MOST_MEMORY
    return options


def _compiled(pattern: bytes) -> Any:
    return re2.compile(pattern, _options())
