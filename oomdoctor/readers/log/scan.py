"""Finds the places of a buffer where any of many literals may stand, in one vectorised pass.

Looking for each literal by itself costs a pass each. Here a window of seven bytes is chosen from every literal, as
rare in ordinary text as the literal allows. Any seven bytes contain one whole word of the buffer read as 4-byte words,
at one of four offsets; so a table of four hashed words a window, looked up for every word of the buffer, finds all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_WINDOW = 7
_BITS = 20
_FACTOR = np.uint32(0x9E3779B1)
_SHIFT = np.uint32(32 - _BITS)

_COMMON_FIRST = b" etaoinsrhldcumfpgwybv0.,1k-_/2:" + b"345678'\"=()[]|xjqz"
_COMMONNESS = {code: len(_COMMON_FIRST) - rank for rank, code in enumerate(_COMMON_FIRST)}


@dataclass(frozen=True)
class Hit:
    """A place where the window of some literals was found. `position` is inside the literal, if it is there at all."""

    position: int
    literals: tuple[str, ...]


class LiteralScanner:
    """Finds literals in bytes. A hit is a hint: the caller checks that the literal itself is there."""

    def __init__(self, literals: Iterable[str]) -> None:
        windows: dict[bytes, list[str]] = {}
        for literal in sorted(set(literals)):
            windows.setdefault(_rarest_window(literal.encode()), []).append(literal)
        self._short = {window: tuple(owners) for window, owners in windows.items() if len(window) < _WINDOW}
        self._words: dict[int, list[tuple[int, bytes, tuple[str, ...]]]] = {}
        self._table = np.zeros(1 << _BITS, dtype=np.bool_)
        for window, owners in windows.items():
            if len(window) == _WINDOW:
                for offset in range(4):
                    word = int.from_bytes(window[offset : offset + 4], "little")
                    self._words.setdefault(word, []).append((offset, window, tuple(owners)))
        words = np.array(list(self._words), dtype=np.uint32)
        self._table[_hashed(words)] = True

    def hits(self, buffer: bytes, start: int, end: int) -> Iterator[Hit]:
        """Hits whose position lies in [start, end), in order of position. The buffer may go on after `end`."""
        found = [
            (position, owners)
            for window, owners in self._short.items()
            for position in _occurrences(buffer, window, start, end)
        ]
        stop = min(len(buffer), end + _WINDOW)
        words = np.frombuffer(buffer, dtype="<u4", count=max(0, stop - start) // 4, offset=min(start, len(buffer)))
        places = np.flatnonzero(self._table[_hashed(words)])
        for place, word in zip(places.tolist(), words[places].tolist(), strict=True):
            for offset, window, owners in self._words.get(word, ()):
                position = start + 4 * place - offset
                if start <= position < end and buffer.startswith(window, position):
                    found.append((position, owners))
        for position, owners in sorted(found):
            yield Hit(position, owners)


def _hashed(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    hashed: NDArray[np.uint32] = (words * _FACTOR) >> _SHIFT
    return hashed


def _rarest_window(literal: bytes) -> bytes:
    """The seven bytes of a literal that ordinary text holds least; the literal itself when it is shorter."""
    if len(literal) <= _WINDOW:
        return literal
    windows = [literal[start : start + _WINDOW] for start in range(len(literal) - _WINDOW + 1)]
    return min(windows, key=lambda window: sum(_COMMONNESS.get(code, 0) for code in window))


def _occurrences(buffer: bytes, literal: bytes, start: int, end: int) -> Iterator[int]:
    position = buffer.find(literal, start, end + len(literal) - 1)
    while position >= 0:
        yield position
        position = buffer.find(literal, position + len(literal), end + len(literal) - 1)
