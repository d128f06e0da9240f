"""From lists of Python values to columns: integers checked and typed, stacks interned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputRefused
from ..language import N_
from ..model.snapshot import AddressColumn, Frame, IntColumn
from ..model.units import TIB

_LARGEST_SIZE = 1024 * TIB
"""No allocation is larger; the bound also keeps sums of a million sizes within 64 bits."""
_FEW = 64
_MOST_ALIKE = 8
"""Stacks of one outline that are compared in turn before a stack is looked up by all its frames."""


def field(rows: Sequence[dict[str, Any]], key: str, default: Any = None) -> list[Any]:
    """The values under `key`, `default` where a row lacks it."""
    values: list[Any] = []
    rest, get = iter(rows), itemgetter(key)
    # A few events lack a key that all others have; what all lack is looked up the slower way.
    for _ in range(_FEW):
        try:
            values.extend(map(get, rest))
        except KeyError:
            values.append(default)
        else:
            return values
    values.extend(row.get(key, default) for row in rest)
    return values


def integers(values: Sequence[Any] | IntColumn, what: str) -> IntColumn:
    """Signed 64-bit integers. Raises InputRefused, naming `what`, for anything else."""
    try:
        column = np.asarray(values, dtype=np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputRefused(
            N_("{what} must be whole numbers; {culprit}").format(what=what, culprit=_culprit(values))
        ) from error
    _refuse_nested(column, what)
    return column


def sizes(values: Sequence[Any] | IntColumn, what: str) -> IntColumn:
    """Bytes: integers from 0 to 1 PiB. Raises InputRefused, naming `what`, for anything else."""
    column = integers(values, what)
    if len(column) and (int(column.min()) < 0 or int(column.max()) > _LARGEST_SIZE):
        place = int(np.flatnonzero((column < 0) | (column > _LARGEST_SIZE))[0])
        raise InputRefused(
            N_("{what} must lie between 0 and 1 PiB; number {place} is {value}").format(
                what=what, place=place, value=int(column[place])
            )
        )
    return column


def _culprit(values: Iterable[Any]) -> str:
    """Which of the values is none, in the words of who made the file."""
    for place, value in enumerate(values):
        if value is None:
            return f"number {place} has none"
        if not isinstance(value, (int, float)):
            return f"number {place} is {_NAMES.get(type(value), 'something else')}"
        if value != value or abs(value) >= 1 << 63:
            return f"number {place} does not fit in 64 bits"
    return "one of them is none"


_NAMES: dict[type, str] = {
    str: "text", bytes: "bytes", list: "a list", tuple: "a tuple", dict: "a dict", set: "a set", bytearray: "bytes",
}  # fmt: skip


def is_size(value: object) -> bool:
    """Whether one value, of which there is no column, is a number of bytes as `sizes` takes them."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_SIZE


def addresses(values: Sequence[Any], what: str) -> AddressColumn:
    """Unsigned 64-bit integers, exact above 2^53; negative ones are read as their two's complement."""
    try:
        try:
            column = np.asarray(values, dtype=np.uint64)
        except OverflowError:
            column = np.asarray([value & 0xFFFF_FFFF_FFFF_FFFF for value in values], dtype=np.uint64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputRefused(
            N_("{what} must be whole numbers; {culprit}").format(what=what, culprit=_culprit(values))
        ) from error
    _refuse_nested(column, what)
    return column


def flags(values: Iterable[Any]) -> NDArray[np.bool_]:
    """Truth values."""
    return np.fromiter(map(bool, values), dtype=np.bool_)


def coded(values: list[Any], codes: dict[Any, int], other: int, what: str) -> IntColumn:
    """The code of each value; `other` for a value without one."""
    try:
        return np.asarray([codes.get(value, other) for value in values], dtype=np.int64)
    except TypeError as error:
        raise InputRefused(N_("{what} must be text").format(what=what)) from error


def _refuse_nested(column: NDArray[Any], what: str) -> None:
    if column.ndim != 1:
        raise InputRefused(N_("{what} must be single numbers").format(what=what))


class StackTable:
    """Every distinct stack once, with its row number.

    torch gives each event a fresh list, but the frames in it are shared, so lists are told apart by the identity
    of the list, then of its frames, and only a stack not met before is compared by content.
    The lists handed in must stay alive as long as the table: identities of freed objects are used again.
    """

    def __init__(self) -> None:
        self._latest: dict[tuple[int, int], tuple[list[Any], int]] = {}
        self._alike: dict[tuple[int, int], list[tuple[list[Any], int]]] = {}
        self._by_frames: dict[tuple[int, ...], int] = {}
        self._by_content: dict[tuple[Frame, ...], int] = {}
        self._frames: dict[int, Frame] = {}

    @property
    def stacks(self) -> tuple[tuple[Frame, ...], ...]:
        """The stacks, by row."""
        return tuple(self._by_content)

    @property
    def frames(self) -> Iterable[Frame]:
        """Every distinct frame met."""
        return self._frames.values()

    def rows(self, lists: list[Any]) -> IntColumn:
        """The row of each list of frames; -1 for none (None or empty).

        Raises InputRefused for a list that does not hold frames.
        """
        if not set(map(type, lists)) <= {list, tuple, type(None)}:
            raise InputRefused(N_("a stack must be a list of frames"))
        rows: list[int] = []
        find, add = self._latest.get, rows.append
        latest, row = None, -1
        for frames in lists:
            if frames is latest:
                add(row)
                continue
            latest = frames
            if frames:
                # Comparing two lists whose members are identical costs far less than hashing all their identities.
                half = len(frames) >> 1
                outline = (id(frames[half]), id(frames[half >> 1]))
                seen = find(outline)
                row = seen[1] if seen is not None and seen[0] == frames else self._row(frames, outline)
            else:
                row = -1
            add(row)
        return np.asarray(rows, dtype=np.int64)

    def _row(self, frames: list[Any], outline: tuple[int, int]) -> int:
        """The row of a list that is not the latest of its outline."""
        alike = self._alike.setdefault(outline, [])
        for seen in alike:
            if seen[0] == frames:
                self._latest[outline] = seen
                return seen[1]
        key = tuple(map(id, frames))
        row = self._by_frames.get(key)
        if row is None:
            stack = tuple(map(self._frame, frames))
            row = self._by_frames[key] = self._by_content.setdefault(stack, len(self._by_content))
        seen = self._latest[outline] = (frames, row)
        if len(alike) < _MOST_ALIKE:
            alike.append(seen)
        else:
            alike[row % _MOST_ALIKE] = seen
        return row

    def _frame(self, frame: Any) -> Frame:
        known = self._frames.get(id(frame))
        if known is None:
            if not isinstance(frame, dict):
                raise InputRefused(N_("a frame of a stack must be a dict with name, filename and line"))
            line = frame.get("line", 0)
            known = self._frames[id(frame)] = Frame(
                str(frame.get("name", ""))[:1000],
                str(frame.get("filename", ""))[:1000],
                line if isinstance(line, int) else 0,
            )
        return known
