"""The form that most events of a pickle have, learned from a sample of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .pickle_operations import (
    BININT,
    BININT1,
    BININT2,
    EMPTY_LIST,
    LONG1,
    PAIR_END,
    REFERENCE,
    SETITEMS,
    scalar_length,
)

START = b"}\x94("
"""A dict, put into the memo, and the mark before its first key."""
_SAMPLES = 64
_NUMBERS = (BININT1, BININT2, BININT, LONG1)


class Kind(Enum):
    """What a value of a row is."""

    NUMBER = "number"
    TEXT = "text"
    PAIR = "pair"
    """Two numbers, as a `pool_id` is."""


@dataclass(frozen=True)
class Layout:
    """The form of a row: its keys, and which of the values are numbers."""

    keys: tuple[bytes, ...]
    """The operation that fetches each key, the first is that of the action."""
    kinds: tuple[Kind, ...]
    """Of each value, the frames left out."""


def find_layout(payload: bytes) -> Layout | None:
    """That of most rows, by a sample."""
    found: dict[Layout, int] = {}
    for part in range(_SAMPLES):
        start = payload.find(START, len(payload) * (part + 1) // (_SAMPLES + 2))
        layout = _layout_of(payload, start) if start >= 0 else None
        if layout is not None:
            found[layout] = found.get(layout, 0) + 1
    return max(found, key=lambda layout: found[layout], default=None)


def _layout_of(payload: bytes, start: int) -> Layout | None:
    at, keys, kinds = start + len(START), [], list[Kind]()
    while key := REFERENCE.match(payload, at):
        keys.append(key.group())
        at = key.end()
        operation = payload[at]
        if operation == EMPTY_LIST:
            break
        length = scalar_length(payload, at)
        if length is None:
            return None
        pair = _pair_length(payload, at)
        kinds.append(Kind.PAIR if pair else Kind.NUMBER if operation in _NUMBERS else Kind.TEXT)
        at += pair or length
        if at >= len(payload):
            return None
    else:
        if payload[at] != SETITEMS or not kinds:
            return None
        if kinds[-1] is Kind.TEXT:
            kinds.pop()  # the frames, which another row has written
    return Layout(tuple(keys), tuple(kinds)) if len(keys) > 3 and kinds[0] is Kind.TEXT else None


def _pair_length(payload: bytes, at: int) -> int:
    """Of the operations that make a pair of numbers; 0 where none stands there."""
    end = at
    for _ in range(2):
        length = scalar_length(payload, end) if payload[end] in _NUMBERS else None
        if length is None or end + length >= len(payload):
            return 0
        end += length
    return end + len(PAIR_END) - at if payload.startswith(PAIR_END, end) else 0
