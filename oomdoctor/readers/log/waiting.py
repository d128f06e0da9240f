"""Bounds the work on lines of which a log has very many: after a number of them, only those at its end are read."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from .index import TABLES, PatternIndex
from .scan import Anchor

_LIMIT = 20_000
_COST_OF_PERIODIC, _COST_OF_NEW, _COST = 20, 5, 1
"""What a line counts: periodic ones wait after 1,000, ever new statements after 4,000, any others after 20,000."""


class Tally:
    """Counts the lines with each anchor, and says which of them have had their share of the work."""

    def __init__(self, patterns: PatternIndex) -> None:
        self._patterns = patterns
        self._counts: Counter[Anchor] = Counter()
        self.full: frozenset[Anchor] = frozenset()

    def add(self, anchors: Iterable[Anchor], new: bool) -> bool:
        """Counts a line, `new` where it said something new; whether that filled the share of an anchor."""
        cost = _COST_OF_NEW if new else _COST
        for anchor in anchors:
            self._counts[anchor] += _COST_OF_PERIODIC if self._patterns.is_periodic(anchor) else cost
        filled = {anchor for anchor in anchors if self._counts[anchor] >= _LIMIT} - TABLES - self.full
        self.full |= filled
        return bool(filled)


class WaitingText:
    """The latest text of a log, up to a number of bytes, and which of its lines have been read."""

    def __init__(self, most_bytes: int, begin: int) -> None:
        self._most_bytes = most_bytes
        self._begin = begin
        """Place in the log before which nothing waits."""
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._start = begin
        self._lines_before = 0
        self._read: set[int] = set()
        self.dropped = False
        """Whether some of what was added is not kept any more."""

    def add(self, text: bytes, start: int, lines_before: int) -> None:
        """Adds the text that begins at `start` of the log, where the one before ended."""
        if not self._pieces:
            self._start, self._lines_before = start, lines_before
        self._pieces.append(text)
        self._bytes += len(text)
        while self._bytes - len(self._pieces[0]) >= self._most_bytes:
            dropped, self.dropped = self._pieces.popleft(), True
            self._bytes -= len(dropped)
            self._start += len(dropped)
            self._lines_before += dropped.count(b"\n")
            self._read = {place for place in self._read if place >= self._start}

    def mark(self, place: int) -> None:
        """Says that the line that begins at `place` of the log has been read."""
        self._read.add(place)

    def take(self) -> tuple[bytes, int]:
        """The text and the number of lines before it."""
        text = b"".join(self._pieces)
        self._pieces.clear()
        return text, self._lines_before

    def waits(self, place: int) -> bool:
        """Whether the line that begins at `place` of the text is still to be read."""
        return place + self._start >= self._begin and place + self._start not in self._read
