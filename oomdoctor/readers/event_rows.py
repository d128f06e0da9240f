"""Reads the rows of a recorded history from the bytes of its pickle, without making a million dicts first.

What torch writes by `pickle.dump` is regular: every event is `EMPTY_DICT MEMOIZE MARK key value … SETITEMS`, with keys
and actions from the memo. Such rows are cut out of the stream and their numbers read by numpy; the unpickler makes the
rest. In place of each run of rows stands its number, and what they would have put into the memo is put there as None.

Nothing is taken on trust. A row is read from what is known to be the start of an operation, by the unpickler's own
rules, to its last byte; what lies between the runs is walked over operation by operation. What has any other form, or
is referred to from outside, stays in the stream. Where that leaves little to gain, or anything is amiss, `cut_rows`
gives None and the file is unpickled as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputRefused
from ..model.snapshot import IntColumn
from .pickle_operations import (
    BINGET,
    EMPTY_LIST,
    LONG_BINGET,
    PADDING,
    SETITEMS,
    fetch,
    last_place,
    walk,
    without_frames,
)
from .pickles import SHARE_OF_READING, Tell
from .row_layout import START, Kind, Layout, find_layout
from .row_values import RowValues, mask

_FRAMES = re.compile(rb"\]\x94((?:\((?:h.|j....){2,}e|(?:h.|j....)a)?)u", re.DOTALL)
_FEWEST_ROWS = 8
"""Of a run; fewer are not worth it."""
_PIECE = 1 << 15
"""Rows that are read together: what is worked out of them stays in a cache."""
_LONGEST = 1 << 20
"""Bytes of frames in a row."""
_WORTH_CUTTING_BYTES = 1 << 18
_MOST_ROUNDS = 4
_FIRST_LONG_INDEX = 256
"""What lies below it in the memo is referred to by one byte, which is not worth telling from other bytes."""
_SHARE_OF_NUMBERS = 0.3
_LEAST_SHARE = 0.5
"""Of the stream, to be in rows that are cut; else it is unpickled as it is."""


@dataclass(frozen=True)
class EventRows:
    """Rows that were cut out, in the order of the file."""

    run: IntColumn
    """Where the rows of each run begin; one more entry says where the last one ends."""
    numbers: Mapping[str, IntColumn]
    """The columns of numbers, by key."""
    pairs: Mapping[str, IntColumn]
    """The columns of pairs of numbers, each as one number, the first in the upper half."""
    action: IntColumn
    """Index into `actions`."""
    actions: list[Any]
    stack: IntColumn
    """Index into `stacks`; -1 where a row has no frames."""
    stacks: list[Any]
    keys: tuple[str, ...]
    """All keys of these rows, those that are not read included."""


@dataclass(frozen=True)
class CutContent:
    """What a stream holds: in a trace, the number of a run stands in place of its rows."""

    content: object
    rows: EventRows


@dataclass(frozen=True)
class CutStream:
    """A pickle without most of its events."""

    rest: bytes
    """A pickle of the content, the keys, the actions, the stacks, and for each other key of texts the only one that
    its rows have, or None."""
    run: IntColumn
    columns: tuple[IntColumn, ...]
    """A column for each key; of texts their places in the memo."""
    kinds: tuple[Kind, ...]
    action: IntColumn
    stack: IntColumn

    def resolved(self, loaded: object) -> CutContent:
        """The content, from what the rest is unpickled to. Raises InputRefused where the rows are no events."""
        if not isinstance(loaded, tuple) or len(loaded) != 5:
            raise InputRefused("its end is not that of a pickle")
        content, keys, actions, stacks, texts = loaded
        if not all(type(one) is str for one in (*keys, *actions)) or keys[0] != "action" or len(set(keys)) < len(keys):
            raise InputRefused("rows of another kind than events")
        if (
            "oom" in actions
            or keys[len(self.columns) :] not in ([], ["frames"])
            or "frames" in keys[: len(self.columns)]
        ):
            raise InputRefused("events of another form")

        def columns(kind: Kind) -> dict[str, IntColumn]:
            return {key: one for key, one, own in zip(keys, self.columns, self.kinds, strict=False) if own is kind}

        numbers, pairs = columns(Kind.NUMBER), columns(Kind.PAIR)
        if _NUMBERS & set(keys) - set(numbers):
            raise InputRefused("no numbers where numbers should be")
        of_texts = [key for key, own in zip(keys, self.kinds, strict=False) if own is Kind.TEXT][1:]
        if any(key == _NOTE and text != "" for key, text in zip(of_texts, texts, strict=True)):
            raise InputRefused("notes on events are read one by one")
        rows = EventRows(self.run, numbers, pairs, self.action, actions, self.stack, stacks, tuple(keys))
        return CutContent(content, rows)


_NUMBERS = frozenset({"addr", "size", "stream", "time_us"})
_NOTE = "user_metadata"
"""What a program may say of each event; it is empty in nearly all snapshots."""
_NO_TEXT = b"\x8c\x00"


def cut_rows(pickled: bytes, tell: Tell = lambda share: None) -> CutStream | None:
    """The stream without its regular rows; None where it is not of the form that this reads, or has few of them.

    `tell` is told how far it is, from the share on that reading the stream has taken.
    """
    payload = without_frames(pickled) if len(pickled) >= _WORTH_CUTTING_BYTES else None
    if payload is None:
        return None
    layout = find_layout(payload)
    return None if layout is None else _Rows(payload, layout, tell).cut()


# --- all rows ----------------------------------------------------------------------------------------------------


class _Lists(dict[bytes, int]):
    """From what follows the scalars of a row to the number of its frames and how far they go, as one integer."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}

    def __missing__(self, text: bytes) -> int:
        read = _FRAMES.match(text, 0, _LONGEST - 1)
        found = 0 if read is None else self.numbers.setdefault(read.group(1), len(self.numbers)) * _LONGEST + read.end()
        self[text] = found
        return found


class _Rows:
    def __init__(self, payload: bytes, layout: Layout, tell: Tell) -> None:
        self.payload, self.layout, self.tell = payload, layout, tell
        self.values = RowValues(payload)
        self.start = self._starts()
        self.ok = np.ones(len(self.start), dtype=np.bool_)
        self.puts = np.ones(len(self.start), dtype=np.int64)
        """How many objects each row puts into the memo: the dict first, the frames last."""
        self.end = self.start
        self.tails: list[bytes] = []
        """The frames, of each distinct list once, as the operations that make it."""
        self.tail = np.full(len(self.start), -1, dtype=np.int64)
        """Which of `tails` a row has; -1 where another row wrote its frames."""
        self.reference = np.full(len(self.start), -1, dtype=np.int64)
        self.walked: dict[tuple[int, int], int | None] = {}

    def _starts(self) -> IntColumn:
        """Where a row may begin."""
        bytes_ = np.frombuffer(self.payload, dtype=np.uint8)
        first = START + self.layout.keys[0]
        step, found = 1 << 18, []
        for begin in range(0, len(bytes_) - PADDING, step):
            at = np.flatnonzero(bytes_[begin : begin + step] == first[0]) + begin
            found.append(at[at < len(bytes_) - PADDING])
        start: IntColumn = np.concatenate(found)
        word = int.from_bytes(first[:8].ljust(8, b"\0"), "little")
        begun: IntColumn = start[(self.values.words[start] & mask(min(len(first), 8))) == word]
        return begun

    def cut(self) -> CutStream | None:
        if len(self.start) < _FEWEST_ROWS:
            return None
        columns = self._columns()
        self._lists()
        for _ in range(_MOST_ROUNDS):
            pieces = self._pieces()
            if pieces is None:
                return None
            firsts, lasts, base = pieces
            rows = np.repeat(firsts, lasts - firsts + 1) + _running(np.ones_like(self.puts), firsts, lasts)
            if not len(rows) or int((self.end[rows] - self.start[rows]).sum()) < _LEAST_SHARE * len(self.payload):
                return None
            memo = np.repeat(base, lasts - firsts + 1) + _running(self.puts, firsts, lasts)
            wanted = self._wanted_by_others(rows, memo, firsts, lasts)
            if not len(wanted):
                return self._emit(columns, rows, memo, firsts, lasts)
            self.ok[wanted] = False
        return None

    def _columns(self) -> tuple[IntColumn, ...]:
        """Reads value after value; rows of another form drop out. A piece at a time, which fits in a cache."""
        count = len(self.start)
        columns = tuple(np.empty(count, dtype=np.int64) for _ in self.layout.kinds)
        self.end = np.empty(count, dtype=np.int64)
        for begin in range(0, count, _PIECE):
            part = slice(begin, min(begin + _PIECE, count))
            self._read(part, [column[part] for column in columns])
            self.tell(SHARE_OF_READING + _SHARE_OF_NUMBERS * begin / count)
        return columns

    def _read(self, part: slice, columns: list[IntColumn]) -> None:
        start, ok, limit = self.start[part], self.ok[part], len(self.payload) - PADDING
        values = self.values
        at = start + len(START)
        for place, (key, kind) in enumerate(zip(self.layout.keys, self.layout.kinds, strict=False)):
            values.expect(at, key, ok)
            at += len(key)
            word = self.values.words[at]
            operation = word.astype(np.uint8)
            if kind is Kind.NUMBER:
                length = values.numbers(at, word, operation, columns[place])
            elif kind is Kind.PAIR:
                length = values.pairs(at, word, operation, columns[place], self.puts[part])
            else:
                length = values.texts(at, word, operation, columns[place], self.puts[part], is_action=not place)
            ok &= (length > 0) & (at + length < limit)
            at = np.where(ok, at + length, start)
        if len(self.layout.keys) > len(self.layout.kinds):
            values.expect(at, self.layout.keys[-1], ok)
            at = np.where(ok, at + len(self.layout.keys[-1]), start)
        self._finish(part, at)

    def _finish(self, part: slice, at: IntColumn) -> None:
        """Reads the end of each row, or frames that another row wrote and the end; of other frames the beginning."""
        word = self.values.words[at]
        operation = word.astype(np.uint8)
        if len(self.layout.keys) == len(self.layout.kinds):
            rows = np.flatnonzero(operation == SETITEMS)
            at[rows] += 1
            self.ok[part] &= operation == SETITEMS
        else:
            reference = self.reference[part]
            is_list = operation == EMPTY_LIST
            for code, bits in ((BINGET, 8), (LONG_BINGET, 32)):
                ends = ((word >> np.uint64(8 + bits)) & np.uint64(0xFF)) == SETITEMS
                rows = np.flatnonzero((operation == code) & ends)
                reference[rows] = (word[rows] >> np.uint64(8)) & np.uint64((1 << bits) - 1)
                at[rows] += 2 + bits // 8
            self.ok[part] &= is_list | (reference >= 0)
            self.puts[part] += is_list
        self.end[part] = at

    def _lists(self) -> None:
        """Reads the frames that stand in their rows, each distinct list once, and the end of those rows."""
        payload = self.payload
        has_list = np.flatnonzero(self.ok & (self.reference < 0))
        if len(self.layout.keys) == len(self.layout.kinds):
            has_list = has_list[:0]
        following = np.append(self.start[1:], len(payload) - PADDING)[has_list]
        lists, read = _Lists(), np.empty(len(has_list), dtype=np.int64)
        for first in range(0, len(has_list), _PIECE):
            part = slice(first, first + _PIECE)
            begins, untils = self.end[has_list[part]].tolist(), following[part].tolist()
            # Each ends before the next row begins, or earlier: then what follows is not of this row.
            read[part] = [lists[payload[i:j]] for i, j in zip(begins, untils, strict=True)]
            done = SHARE_OF_READING + _SHARE_OF_NUMBERS
            self.tell(done + (1 - done) * first / len(has_list))
        number, length = np.divmod(read, _LONGEST)
        self.tail[has_list] = number
        self.end[has_list] += length
        self.ok[has_list] = length > 0
        self.tails = list(lists.numbers)

    # --- where they lie ---

    def _pieces(self) -> tuple[IntColumn, IntColumn, IntColumn] | None:
        """The first and the last row of each run, and how much is in the memo before it."""
        ok = np.flatnonzero(self.ok)
        if not len(ok):
            return None
        joined = (np.diff(ok) == 1) & (self.end[ok[:-1]] == self.start[ok[1:]])
        breaks = np.flatnonzero(~joined)
        firsts = ok[np.concatenate([[0], breaks + 1])]
        lasts = ok[np.concatenate([breaks, [len(ok) - 1]])]
        long = lasts - firsts >= _FEWEST_ROWS
        firsts, lasts = firsts[long], lasts[long]
        running = np.concatenate([[0], np.cumsum(self.puts)])
        put = running[lasts + 1] - running[firsts]
        memo, at, base = 0, 0, []
        for begin, end, count in zip(self.start[firsts].tolist(), self.end[lasts].tolist(), put.tolist(), strict=True):
            walked = self._walk(at, begin)
            if walked is None:
                return None
            base.append(memo + walked)
            memo, at = memo + walked + count, end
        if self._walk(at, len(self.payload) - PADDING - 1) is None:
            return None
        return firsts, lasts, np.asarray(base, dtype=np.int64)

    def _walk(self, at: int, until: int) -> int | None:
        if (at, until) not in self.walked:
            self.walked[at, until] = walk(self.payload, at, until)
        return self.walked[at, until]

    def _wanted_by_others(self, rows: IntColumn, memo: IntColumn, firsts: IntColumn, lasts: IntColumn) -> IntColumn:
        """Rows of which something is referred to by what is not cut, or by a row other than for its frames."""
        edges = np.concatenate(
            [[0], np.column_stack([self.start[firsts], self.end[lasts]]).ravel(), [len(self.payload)]]
        )
        kept = [self.payload[begin:end] for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)]
        text = b"\0".join([*kept, *self.tails, *self.layout.keys, bytes(8)])
        bytes_ = np.frombuffer(text, dtype=np.uint8)
        words: NDArray[np.uint32] = np.ndarray((len(text) - 4,), np.dtype("<u4"), text, strides=(1,))
        at = np.flatnonzero(bytes_[:-8] == LONG_BINGET)
        named = np.unique(words[at + 1]).astype(np.int64)
        row, is_put = _put_by(named, memo, self.puts[rows])
        wanted = rows[np.unique(row[is_put])]
        if int(memo[0]) < _FIRST_LONG_INDEX:
            wanted = np.concatenate([wanted, rows[memo < _FIRST_LONG_INDEX]])
        return wanted

    # --- what is left ---

    def _emit(
        self, columns: tuple[IntColumn, ...], rows: IntColumn, memo: IntColumn, firsts: IntColumn, lasts: IntColumn
    ) -> CutStream | None:
        if not self._is_all_there(columns, rows, memo):
            return None
        found = self._stacks(rows, memo)
        action_at, action = np.unique(columns[0][rows], return_inverse=True)
        if found is None or _put_by(action_at, memo, self.puts[rows])[1].any():
            return None
        stack, others = found
        parts, at = [b"("], 0
        puts = np.add.reduceat(self.puts[rows], np.concatenate([[0], np.cumsum(lasts - firsts + 1)[:-1]]))
        for number, (begin, end, count) in enumerate(
            zip(self.start[firsts].tolist(), self.end[lasts].tolist(), puts.tolist(), strict=True)
        ):
            parts += [self.payload[at:begin], b"N", b"\x94" * count, b"0J", number.to_bytes(4, "little")]
            at = end
        parts.append(self.payload[at : len(self.payload) - PADDING - 1])
        parts += [b"](", *self.layout.keys, b"e](", *map(fetch, action_at.tolist()), b"e]("]
        parts += [b"]" + tail for tail in self.tails]
        texts = [
            self._only_text(column[rows], memo, self.puts[rows])
            for column, kind in zip(columns[1:], self.layout.kinds[1:], strict=True)
            if kind is Kind.TEXT
        ]
        parts += [*map(fetch, others), b"e](", *texts, b"et."]
        rest = b"".join(parts)
        return CutStream(
            rest=b"\x80\x04\x95" + len(rest).to_bytes(8, "little") + rest,
            run=np.concatenate([[0], np.cumsum(lasts - firsts + 1)]),
            columns=tuple(column[rows] for column in columns),
            kinds=self.layout.kinds,
            action=action.astype(np.int64),
            stack=stack,
        )

    def _only_text(self, column: IntColumn, memo: IntColumn, puts: IntColumn) -> bytes:
        """The operations that make the one text of a column, or None where it may have several."""
        places = np.unique(column[column >= 0])
        maker, is_here = _put_by(places, memo, puts)
        elsewhere = places[~is_here]
        if (column < -1).any() or (column[maker[is_here]] != -1).any() or len(elsewhere) > 1:
            return b"N"
        return fetch(int(elsewhere[0])) if len(elsewhere) else _NO_TEXT

    def _is_all_there(self, columns: tuple[IntColumn, ...], rows: IntColumn, memo: IntColumn) -> bool:
        """Whether all that a row refers to was in the memo before it."""
        tops = np.asarray([last_place(tail) for tail in self.tails] + [-1], dtype=np.int64)
        texts = (one[rows] for one, kind in zip(columns, self.layout.kinds, strict=True) if kind is Kind.TEXT)
        keys = max(last_place(key) for key in self.layout.keys)
        return keys < int(memo[0]) and all(
            bool((places < memo).all()) for places in (*texts, self.reference[rows], tops[self.tail[rows]])
        )

    def _stacks(self, rows: IntColumn, memo: IntColumn) -> tuple[IntColumn, list[int]] | None:
        """Index of each row's frames in `tails`, followed by those whose places in the memo come second."""
        stack, reference, puts = self.tail[rows], self.reference[rows], self.puts[rows]
        refers = np.flatnonzero(reference >= 0)
        maker, is_here = _put_by(reference[refers], memo, puts)
        here, maker = refers[is_here], maker[is_here]
        of_frames = (stack[maker] >= 0) & (reference[here] == memo[maker] + puts[maker] - 1) & (maker < here)
        if not of_frames.all():
            return None
        others, other = np.unique(reference[refers[~is_here]], return_inverse=True)
        stack[here] = stack[maker]
        stack[refers[~is_here]] = len(self.tails) + other
        return stack, others.tolist()


def _put_by(places: IntColumn, memo: IntColumn, puts: IntColumn) -> tuple[IntColumn, NDArray[np.bool_]]:
    """For each place in the memo the row that may have filled it, and whether that row did."""
    row = np.searchsorted(memo, places, side="right") - 1
    return row, (row >= 0) & (places < memo[row] + puts[row])


def _running(values: IntColumn, firsts: IntColumn, lasts: IntColumn) -> IntColumn:
    """Of the rows of all runs: the sum of the values before each within its run."""
    counts = lasts - firsts + 1
    if not len(counts):
        return np.zeros(0, dtype=np.int64)
    begins = np.cumsum(counts) - counts
    index = np.arange(int(counts.sum())) - np.repeat(begins - firsts, counts)
    before = np.cumsum(values[index]) - values[index]
    running: IntColumn = before - np.repeat(before[begins], counts)
    return running
