"""Finds the places of a buffer where any of many literals may stand, in one vectorised pass.

Looking for each literal by itself costs a pass each. Here a window of seven bytes is chosen from every literal, as
rare in ordinary text as the literal allows. Any seven bytes contain one whole word of the buffer read as 4-byte words,
at one of four offsets; so a table of four hashed words a window, looked up for every word of the buffer, finds the
places where a second table, of whole windows, is asked. Python sees only what passes both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_WINDOW = 7
_NEAR = 200
"""Where an escape sequence is this near, a literal may be interrupted by it."""
_BITS = 20
_FACTOR = 0x9E3779B97F4A7C15
_SEVEN_BYTES = np.uint64((1 << 8 * _WINDOW) - 1)

_COMMON_WORDS = """
the and for with from this that was has have not are is in of to on at by be as it or an if can will all more than
file line module function class return self import None True False object value data error errors warning info debug
exception failed failure traceback most recent call last raise step epoch loss train training validation eval test model
models layer layers batch size token tokens time seconds memory allocated reserved allocate free total used usage peak
cached device devices cuda gpu cpu rank node worker workers process processes run running engine request requests
server client start started starting stop done finished loading load loaded saving save saved checkpoint weights
parameters gradient optimizer learning rate config configuration using use set default available version number
python torch forward backward input output shape type dtype float int size max min average throughput prompt generation
cache hit queue pending waiting buffer kernel graph attention hidden linear embedding dataset loader iteration iter
average progress download downloading running out please try allocation context sequence length killed user system
"""
_LETTERS = b" etaoinsrhldcumfpgwybv0.,1k-_/2:" + b"345678'\"=()[]|xjqz"


def _frequency_of_words() -> dict[bytes, int]:
    """How often four bytes begin or stand in words that logs are full of."""
    counts: dict[bytes, int] = {}
    for word in _COMMON_WORDS.split():
        padded = f" {word} ".encode()
        for start in range(len(padded) - 3):
            counts[padded[start : start + 4]] = counts.get(padded[start : start + 4], 0) + 1
    return counts


_FREQUENCY = _frequency_of_words()
_RARENESS = {code: rank for rank, code in enumerate(_LETTERS)}


class Hit(NamedTuple):
    """A place where some literals stand, or may stand with escape sequences between their letters."""

    position: int
    literals: tuple[str, ...]


@dataclass(frozen=True)
class _Owner:
    """A literal and where its window is in it."""

    literal: str
    raw: bytes
    offset: int


class LiteralScanner:
    """Finds literals in bytes. A hit is a hint: the caller checks the literal in the cleaned line."""

    def __init__(self, literals: Iterable[str]) -> None:
        windows: dict[bytes, list[_Owner]] = {}
        for literal in sorted(set(literals)):
            raw = literal.encode()
            window = _rarest_window(raw)
            windows.setdefault(window, []).append(_Owner(literal, raw, raw.index(window)))
        self._short = {window: tuple(owners) for window, owners in windows.items() if len(window) < _WINDOW}
        self._owners = {
            int.from_bytes(window, "little"): tuple(owners)
            for window, owners in windows.items()
            if len(window) == _WINDOW
        }
        keys = np.array(list(self._owners), dtype=np.uint64)
        self._windows = np.zeros(1 << _BITS, dtype=np.bool_)
        self._windows[_hashed_window(keys)] = True
        self._words = np.zeros(1 << _BITS, dtype=np.bool_)
        for offset in range(4):
            self._words[_hashed_word((keys >> np.uint64(8 * offset)).astype(np.uint32))] = True

    def hits(self, buffer: bytes, start: int, end: int) -> Iterator[Hit]:
        """Hits whose position lies in [start, end), in order of position. The buffer may go on after `end`."""
        found = [
            (position, owners)
            for window, owners in self._short.items()
            for position in _occurrences(buffer, window, start, end)
        ]
        # Zeros at the end let every place be read as eight bytes.
        area = buffer[start : end + _WINDOW] + bytes(8)
        words = np.frombuffer(area, dtype="<u4", count=len(area) // 4)
        at_words = np.flatnonzero(self._words[_hashed_word(words)]) * 4
        anywhere: NDArray[np.uint64] = np.ndarray((len(area) - 7,), dtype="<u8", buffer=area, strides=(1,))
        for offset in range(4):
            places = at_words - offset
            places = places[(places >= 0) & (places < min(end - start, len(anywhere)))]
            keys = anywhere[places] & _SEVEN_BYTES
            likely = np.flatnonzero(self._windows[_hashed_window(keys)])
            for place, key in zip(places[likely].tolist(), keys[likely].tolist(), strict=True):
                if owners_there := self._owners.get(key):
                    found.append((start + place, owners_there))
        found.sort(key=_place)
        escapes = buffer.find(b"\x1b", start, end) >= 0
        for position, owners in found:
            if escapes and buffer.find(b"\x1b", max(0, position - _NEAR), position + _NEAR) >= 0:
                yield Hit(position, tuple(owner.literal for owner in owners))
            elif there := [owner.literal for owner in owners if buffer.startswith(owner.raw, position - owner.offset)]:
                yield Hit(position, tuple(there))


def _place(found: tuple[int, object]) -> int:
    return found[0]


def _hashed_word(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    hashed: NDArray[np.uint32] = (words * np.uint32(_FACTOR & 0xFFFFFFFF)) >> np.uint32(32 - _BITS)
    return hashed


def _hashed_window(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    hashed: NDArray[np.uint64] = (keys * np.uint64(_FACTOR)) >> np.uint64(64 - _BITS)
    return hashed


def _rarest_window(literal: bytes) -> bytes:
    """The seven bytes of a literal that ordinary text holds least; the literal itself when it is shorter."""
    if len(literal) <= _WINDOW:
        return literal
    return min((literal[start : start + _WINDOW] for start in range(len(literal) - _WINDOW + 1)), key=_commonness)


def _commonness(window: bytes) -> tuple[int, int]:
    """First how often its words of four bytes stop the scan, then how common its letters are."""
    stops = sum(_FREQUENCY.get(window[start : start + 4], 0) for start in range(4))
    return stops, -sum(_RARENESS.get(code, len(_LETTERS)) for code in window)


def _occurrences(buffer: bytes, literal: bytes, start: int, end: int) -> Iterator[int]:
    position = buffer.find(literal, start, end + len(literal) - 1)
    while position >= 0:
        yield position
        position = buffer.find(literal, position + len(literal), end + len(literal) - 1)
