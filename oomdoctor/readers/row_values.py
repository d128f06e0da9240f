"""Reads the values of many rows at once: numbers, pairs of numbers and texts, at given places of a pickle's bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model.snapshot import IntColumn
from .pickle_operations import (
    BINGET,
    BININT,
    BININT1,
    BININT2,
    LONG1,
    LONG_BINGET,
    MEMOIZE,
    NONE,
    PADDING,
    PAIR_END,
    SHORT_TEXT,
)

_NOT_ASCII = np.uint64(0x8080_8080_8080_8080)


class RowValues:
    """The bytes of a pickle, which end with PADDING of no meaning, as the operations at any of their places.

    What reads values takes the places `at`, the eight bytes (`word`) and the operation there, fills `value`, and
    returns the length of each, 0 where there is none of the kind; objects put into the memo are added to `puts`.
    """

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.words: NDArray[np.uint64] = np.ndarray((len(payload) - 7,), np.dtype("<u8"), payload, strides=(1,))
        """The eight bytes from each place on."""

    def expect(self, at: IntColumn, operation: bytes, ok: NDArray[np.bool_]) -> None:
        """Leaves `ok` only where these operations (eight bytes at most) stand."""
        ok &= (self.words[at] & mask(len(operation))) == np.uint64(int.from_bytes(operation, "little"))

    def numbers(
        self, at: IntColumn, word: NDArray[np.uint64], operation: NDArray[np.uint8], value: IntColumn
    ) -> IntColumn:
        """Puts the number that stands at each place into `value`; returns its length, 0 where none stands there."""
        length = np.zeros(len(at), dtype=np.int64)
        value[:] = 0
        for code, bits in ((BININT1, 8), (BININT2, 16), (BININT, 32)):
            rows = np.flatnonzero(operation == code)
            if len(rows):
                part = (word[rows] >> np.uint64(8)) & np.uint64((1 << bits) - 1)
                value[rows] = part.astype(np.int64) if code != BININT else part.astype(np.uint32).astype(np.int32)
                length[rows] = 1 + bits // 8
        rows = np.flatnonzero(operation == LONG1)
        if len(rows):
            size = ((word[rows] >> np.uint64(8)) & np.uint64(0xFF)).astype(np.int64)
            if int(size.min()) < 1 or int(size.max()) > 8:
                fits = (size > 0) & (size <= 8)
                rows, size = rows[fits], size[fits]
            # Shifted up and down again, so that the sign of the number fills what is above it.
            shift = 64 - 8 * size
            value[rows] = (self.words[at[rows] + 2] << shift.astype(np.uint64)).astype(np.int64) >> shift
            length[rows] = 2 + size
        return length

    def pairs(
        self,
        at: IntColumn,
        word: NDArray[np.uint64],
        operation: NDArray[np.uint8],
        value: IntColumn,
        puts: IntColumn,
    ) -> IntColumn:
        """The same for pairs of numbers, each of which fits in 31 bits."""
        first, second = np.empty(len(at), dtype=np.int64), np.empty(len(at), dtype=np.int64)
        length = self.numbers(at, word, operation, first)
        behind = self.words[np.minimum(at + length, len(self.payload) - PADDING)]
        more = self.numbers(at + length, behind, behind.astype(np.uint8), second)
        end = np.minimum(at + length + more, len(self.payload) - PADDING)
        made = (self.words[end] & mask(len(PAIR_END))) == np.uint64(int.from_bytes(PAIR_END, "little"))
        made &= (length > 0) & (more > 0) & ((first | second) >> 31 == 0)
        value[:] = (first << 32) | second
        puts += made
        return np.where(made, length + more + len(PAIR_END), 0)

    def texts(
        self,
        at: IntColumn,
        word: NDArray[np.uint64],
        operation: NDArray[np.uint8],
        value: IntColumn,
        puts: IntColumn,
        is_action: bool,
    ) -> IntColumn:
        """The same for texts: the place of each in the memo, -1 less its length for one that stands here.

        No action stands here.
        """
        length = np.zeros(len(at), dtype=np.int64)
        value[:] = -1
        for code, bits in ((BINGET, 8), (LONG_BINGET, 32)):
            rows = np.flatnonzero(operation == code)
            value[rows] = (word[rows] >> np.uint64(8)) & np.uint64((1 << bits) - 1)
            length[rows] = 1 + bits // 8
        if not is_action:
            length[operation == NONE] = 1
            rows = np.flatnonzero(operation == SHORT_TEXT)
            size = ((word[rows] >> np.uint64(8)) & np.uint64(0xFF)).astype(np.int64)
            kept = at[rows] + 2 + size < len(self.payload) - PADDING
            rows, size = rows[kept], size[kept]
            kept = self.words[at[rows] + 2 + size].astype(np.uint8) == MEMOIZE
            # Of what is not ASCII the unpickler finds out whether it is UTF-8.
            kept &= (self.words[at[rows] + 2] & _NOT_ASCII & _masks(np.minimum(size, 8))) == 0
            for row in np.flatnonzero(kept & (size > 8)).tolist():
                begin = int(at[rows[row]]) + 2
                kept[row] = self.payload[begin : begin + int(size[row])].isascii()
            rows = rows[kept]
            length[rows] = 3 + size[kept]
            value[rows] = -1 - size[kept]
            puts[rows] += 1
        return length


def mask(length: int) -> Any:
    """Of the lowest bytes of a word, up to eight."""
    return np.uint64((1 << 8 * length) - 1)


def _masks(lengths: IntColumn) -> NDArray[np.uint64]:
    """Of the lowest 0 to 8 bytes. (A shift by 64 would do nothing.)"""
    masks = np.asarray([(1 << 8 * length) - 1 for length in range(9)], dtype=np.uint64)
    chosen: NDArray[np.uint64] = masks[lengths]
    return chosen
