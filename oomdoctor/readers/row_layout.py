"""The form that most events of a pickle have, learned from a sample of them."""

from __future__ import annotations

from dataclasses import dataclass

from .pickle_operations import BININT, BININT1, BININT2, EMPTY_LIST, LONG1, REFERENCE, SETITEMS, scalar_length

START = b"}\x94("
"""A dict, put into the memo, and the mark before its first key."""
_SAMPLES = 64


@dataclass(frozen=True)
class Layout:
    """The form of a row: its keys, and which of the values are numbers."""

    keys: tuple[bytes, ...]
    """The operation that fetches each key, the first is that of the action."""
    is_number: tuple[bool, ...]
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
    at, keys, is_number = start + len(START), [], []
    while key := REFERENCE.match(payload, at):
        keys.append(key.group())
        at = key.end()
        operation = payload[at]
        if operation == EMPTY_LIST:
            break
        length = scalar_length(payload, at)
        if length is None:
            return None
        is_number.append(payload[at] in (BININT1, BININT2, BININT, LONG1))
        at += length
        if at >= len(payload):
            return None
    else:
        if payload[at] != SETITEMS or not is_number:
            return None
        if not is_number[-1]:
            is_number.pop()  # the frames, which another row has written
    return Layout(tuple(keys), tuple(is_number)) if len(keys) > 3 and not is_number[0] else None
