"""The end of a log, kept for what is read of it only once it is known to be the end."""

from __future__ import annotations

from collections import deque

from .scan import AnchorScanner


class WaitingText:
    """Keeps the latest pieces of text that were added, up to a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._pieces: deque[tuple[bytes, int]] = deque()
        self._bytes = 0
        self._dropped: bytes = b""
        """The piece that was dropped first."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._pieces

    def add(self, text: bytes, lines_before: int) -> None:
        """Adds a piece of whole lines and the number of lines before it."""
        self._pieces.append((text, lines_before))
        self._bytes += len(text)
        while self._bytes > self._most_bytes and len(self._pieces) > 1:
            dropped, _ = self._pieces.popleft()
            self._bytes -= len(dropped)
            self._dropped = self._dropped or dropped

    def last(
        self, scanner: AnchorScanner, most: int, coloured: bool
    ) -> tuple[list[tuple[bytes, int, list[int]]], bool]:
        """The pieces with their last `most` lines that hold an anchor, oldest first, and whether there were more."""
        chosen: list[tuple[bytes, int, list[int]]] = []
        more = scanner.find(self._dropped, 0, len(self._dropped), coloured) >= 0
        for text, lines_before in reversed(self._pieces):
            places = _lines_with_anchor(scanner, text, coloured)
            if len(places) > most:
                places, more = places[len(places) - most :], True
            most -= len(places)
            chosen.append((text, lines_before, places))
        return chosen[::-1], more


def _lines_with_anchor(scanner: AnchorScanner, text: bytes, coloured: bool) -> list[int]:
    """The place of the first anchor of each line."""
    places: list[int] = []
    place = scanner.find(text, 0, len(text), coloured)
    while place >= 0:
        places.append(place)
        end = text.find(b"\n", place)
        place = scanner.find(text, end, len(text), coloured) if end >= 0 else -1
    return places
