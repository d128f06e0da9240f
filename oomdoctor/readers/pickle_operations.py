"""The operations of a pickle of protocol 4 or 5, as bytes: only those that make plain data, as torch writes it."""

from __future__ import annotations

import re

FRAME, STOP, MEMOIZE = 0x95, 0x2E, 0x94
BININT1, BININT2, BININT, LONG1 = 0x4B, 0x4D, 0x4A, 0x8A
BINGET, LONG_BINGET, SHORT_TEXT, TEXT, NONE = 0x68, 0x6A, 0x8C, 0x58, 0x4E
EMPTY_LIST, SETITEMS = 0x5D, 0x75
PAIR_END = b"\x86\x94"
"""Makes a tuple of the two values before it, and puts it into the memo."""
REFERENCE = re.compile(rb"h.|j....", re.DOTALL)
"""Pushes what stands in the memo."""
PADDING = 32
"""Zeros behind the last operation, so that a few bytes can be looked at from any place on."""

_WITHOUT_LENGTH = re.compile(rb"(?:[}\])(useat\x85-\x87N\x88\x89]|[hK].|M..|[Jj]....|G.{8}){0,4096}", re.DOTALL)
"""As many as the matcher can note down for each without taking much memory."""
_LENGTHS = {BININT1: 2, BINGET: 2, BININT2: 3, BININT: 5, LONG_BINGET: 5, NONE: 1}


def without_frames(pickled: bytes) -> bytes | None:
    """All operations in one piece, padded: the pickler chops them into frames. None where there is anything else."""
    if pickled[:2] not in (b"\x80\x04", b"\x80\x05"):
        return None
    view, parts, at = memoryview(pickled), [], 2
    while at < len(pickled):
        if pickled[at] != FRAME:
            return None
        end = at + 9 + int.from_bytes(pickled[at + 1 : at + 9], "little")
        parts.append(view[at + 9 : end])
        at = end
    if at != len(pickled) or not parts or not parts[-1] or parts[-1][-1] != STOP:
        return None
    return b"".join([*parts, bytes(PADDING)])


def scalar_length(payload: bytes, at: int) -> int | None:
    """Of the operation that makes a number or a text, or fetches one; None for another one."""
    if payload[at] == LONG1:
        return 2 + payload[at + 1]
    if payload[at] == SHORT_TEXT:
        return 3 + payload[at + 1]  # with the one that puts it into the memo
    return _LENGTHS.get(payload[at])


def walk(payload: bytes, at: int, until: int) -> int | None:
    """How many objects the operations from `at` to `until` put into the memo; None where none ends there, or one may
    do anything else than make plain data.
    """
    puts = 0
    while at < until:
        plain, operation = _WITHOUT_LENGTH.match(payload, at, until), payload[at]
        if plain is not None and plain.end() > at:
            at = plain.end()
        elif operation == MEMOIZE:
            puts, at = puts + 1, at + 1
        elif operation in (SHORT_TEXT, LONG1):
            at += 2 + payload[at + 1]
        elif operation == TEXT:
            at += 5 + int.from_bytes(payload[at + 1 : at + 5], "little")
        else:
            return None
    return puts if at == until else None


def last_place(fetches: bytes) -> int:
    """The last place in the memo that these operations refer to."""
    return max((int.from_bytes(one[1:], "little") for one in REFERENCE.findall(fetches)), default=-1)


def fetch(place: int) -> bytes:
    """The operation that pushes what stands at this place in the memo."""
    return b"j" + place.to_bytes(4, "little")
