"""Reads a log of any size once: finds lines that may matter, hands them to the families, keeps what they say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from typing import BinaryIO, NamedTuple

from ...model.devices import DeviceReading
from ...model.diagnosis import Excerpt
from ...model.events import FAILURES, EventKind, LogEvent
from ...model.source import Source
from ..gpu_tables.forms import Follower
from ..gpu_tables.piece import TableLine
from ..gpu_tables.shelf import ReadingShelf
from ..text import Utf8Chunks, clean, decode
from .cut import may_be_cut, with_cut_told, without_cut_figures
from .document import is_document
from .family import Family, Line
from .history import is_history
from .index import TABLES, index_of
from .ledger import EventLedger, ExcerptShelf
from .order import MOST_TURNED_BYTES, NOT_TURNED, TURNED, Turned, is_newest_first
from .peaks import Peaks
from .prefixes import Stripped, strip, unfold
from .registry import ALL_FAMILIES
from .scan import ESCAPE, Anchor, AnchorScanner
from .stamps import stamp_of
from .statement import in_order_of_line
from .torch_statistics import told_by_statistics
from .waiting import Tally, WaitingText

_CONTEXT = 6
"""Lines shown on either side of an event."""
_REACH = 1 << 16
"""Bytes before and after a line that its family may look at, and the most of them that count as one line."""
_LONGEST = 1 << 14
"""Bytes of a line that are matched at once; a longer one is matched around each anchor it holds."""
_BEFORE_ANCHOR = 1 << 12
_LONGEST_SHOWN = 2000
_WAITING = 4 << 20
"""Bytes at the end of a log in which the last of the lines are looked for that wait for it (at most a chunk more)."""
_LAST_WAITING = 2000
_WAITING_PIECE = 128 << 10
_LINES_AFTER_NEWS = 8
"""Lines that do not wait after a new statement: that a server serves again is news after a start or a failure."""
_PASSED_OVER = (
    "of lines that a log repeats with ever other figures, those between the earliest and the latest were passed over"
)
_MOST_STAMPS, _LINES_TO_A_STAMP = 500, 200
_HEAD = 1 << 16
"""Bytes in which the order of a log shows."""
_LONGEST_DOCUMENT = 1 << 20
_LINE_ENDS = re.compile(rb"\r\n|\n|\r")


# Messages that follow each other closely look around themselves at the same lines.
@lru_cache(maxsize=1024)
def _shown(raw: bytes) -> str:
    return clean(decode(raw))


@lru_cache(maxsize=1024)
def _stripped(text: str) -> Stripped:
    """To be read only."""
    return strip(text)


@dataclass(frozen=True)
class LogReading:
    """What one log said."""

    events: tuple[LogEvent, ...] = ()
    """In the order of the log. Of equal events the first and the last are kept; the last has `repeats`."""
    excerpts: tuple[Excerpt, ...] = ()
    device_readings: tuple[DeviceReading, ...] = ()
    """From what nvidia-smi, gpustat and the like printed into the log."""
    bytes_read: int = 0
    lines_read: int = 0
    notes: tuple[str, ...] = ()
    is_document: bool = False
    """It reads as a text about failures, not as the log of one."""


def read_log(
    source: BinaryIO,
    shown_path: str,
    families: Sequence[Family] = ALL_FAMILIES,
    progress: Callable[[int], None] | None = None,
) -> LogReading:
    """Reads `source` to its end. `progress` is told the bytes read so far, now and then. Never raises for content."""
    chunks = Utf8Chunks(source)
    pieces = iter(chunks)
    read: list[bytes] = []
    left = MOST_TURNED_BYTES
    while left > MOST_TURNED_BYTES - _HEAD and (piece := next(pieces, b"")):
        read.append(piece)
        left -= len(piece)
    head = b"".join(read)[:_HEAD]
    if not is_newest_first(head):
        reading = _Reader(shown_path, families).read(chunks, chain(read, pieces), progress)
        about = bool(reading.events) and reading.bytes_read <= _LONGEST_DOCUMENT and is_document(decode(head))
        return replace(reading, is_document=about)
    while left > 0 and (piece := next(pieces, b"")):
        read.append(piece)
        left -= len(piece)
    if left <= 0:
        reading = _Reader(shown_path, families).read(chunks, chain(read, pieces), progress)
        return replace(reading, notes=(*reading.notes, NOT_TURNED))
    turned = Turned(b"".join(read))
    again = Utf8Chunks(turned.stream())
    return _in_place(_Reader(shown_path, families).read(again, iter(again), progress), turned, chunks)


def _in_place(reading: LogReading, turned: Turned, chunks: Utf8Chunks) -> LogReading:
    """What a turned log said, with the line numbers of the file."""
    return replace(
        reading,
        events=tuple(replace(event, source=turned.source(event.source)) for event in reading.events),
        excerpts=turned.excerpts(reading.excerpts),
        device_readings=tuple(replace(one, source=turned.source(one.source)) for one in reading.device_readings),
        bytes_read=chunks.bytes_read,
        notes=(*chunks.notes, *reading.notes, TURNED),
    )


class _Span(NamedTuple):
    """One line (or one tqdm segment, or one piece of a gigantic line) of the buffer."""

    start: int
    end: int
    number: int


class _Kept:
    """The first of many, made once: a dozen patterns ask for a line's neighbours, of which few may be near."""

    def __init__(self, more: Iterator[str]) -> None:
        self._more = more
        self._found: list[str] = []

    def first(self, count: int) -> list[str]:
        self._found += islice(self._more, max(0, count - len(self._found)))
        return self._found[:count]


class _Reader:
    def __init__(self, path: str, families: Sequence[Family]) -> None:
        self.path = path
        self.all = index_of(tuple(families))
        self.sought = self.all
        """What is looked for now: all, or what has not had its share yet."""
        self.rest = self.all
        self.tally = Tally(self.all)
        self.waiting: WaitingText | None = None
        self.peaks = Peaks(())
        """Of the lines that wait, those with the highest figures do not."""
        self.lines_of_all = 0
        """Lines for which everything is looked for once more."""
        self.ledger, self.shelf = EventLedger(), ExcerptShelf(path)
        self.tables, self.devices = Follower(path), ReadingShelf()
        self.followed_to = 0
        """Place in the buffer up to which lines were read as parts of tables."""
        self.followed_line = 0
        """Number of the line that begins there."""
        self.buffer = b""
        self.offset = 0
        """Where in the log the buffer begins."""
        self.coloured = False
        """Whether the log holds terminal escapes."""
        self.lines_before = 0
        """Lines of the log that end before the place counted to."""
        self.counted_to = 0
        self.stamps_left = _MOST_STAMPS
        """Failures of which it is still looked up when they were."""
        self.cut = ""
        """The last line, where it has no end and stops in a number."""
        self.unended = ""
        """The last line, where it has no end."""
        self.stamped: tuple[int, float | None] = (0, None)
        """Where in the log it was last looked up, and what was found."""

    def read(self, chunks: Utf8Chunks, pieces: Iterable[bytes], progress: Callable[[int], None] | None) -> LogReading:
        done = 0
        """Place in the buffer up to which lines were handled."""
        for chunk in pieces:
            self.coloured = self.coloured or ESCAPE in chunk
            drop = max(0, done - _REACH)
            self.count_lines(drop)
            self.buffer = self.buffer[drop:] + chunk
            self.offset += drop
            done, self.counted_to, self.followed_to = done - drop, self.counted_to - drop, self.followed_to - drop
            done = self.handle(done, self.last_line_start(done))
            if progress is not None:
                progress(chunks.bytes_read)
        self.note_end()
        self.handle(done, len(self.buffer))
        self.keep(self.tables.close())
        self.count_lines(len(self.buffer))
        lines_read = self.lines_before + (bool(self.buffer) and not self.buffer.endswith(b"\n"))
        passed_over = self.read_waiting()
        notes = [*chunks.notes, *self.ledger.notes(), *self.devices.notes(), *self.tables.notes, *passed_over]
        return LogReading(
            told_by_statistics(self.ledger.events()),
            self.shelf.excerpts(),
            self.devices.readings(),
            chunks.bytes_read,
            lines_read,
            tuple(notes),
        )

    def note_end(self) -> None:
        """Remembers the last line of the log where it may have been cut within a number."""
        tail = self.buffer[-_LONGEST:]
        if tail and tail[-1:] not in b"\r\n":
            start = max(tail.rfind(b"\n"), tail.rfind(b"\r")) + 1
            last = strip(clean(decode(tail[start:]))).text
            self.cut, self.unended = last if may_be_cut(last) else "", last

    def last_line_start(self, done: int) -> int:
        """Up to where lines can be handled now, so that each still has its following lines in the buffer."""
        limit = len(self.buffer) - _REACH
        start = self.buffer.rfind(b"\n", done, max(done, limit)) + 1
        return start if start > done else max(done, limit)

    def count_lines(self, place: int) -> None:
        """Counts on or back to `place`."""
        if place >= self.counted_to:
            self.lines_before += self.buffer.count(b"\n", self.counted_to, place)
        else:
            self.lines_before -= self.buffer.count(b"\n", place, self.counted_to)
        self.counted_to = place

    def handle(self, start: int, end: int) -> int:
        """Handles the lines of the buffer that begin in [start, end); returns `end`."""
        self.follow_tables(end)
        place = start
        while (found := self.sought.scanner.find(self.buffer, place, end, self.coloured)) >= 0:
            place = self.handle_found(found, end)
        if self.waiting is not None:
            passed_over = self.buffer[start:end]
            for found in sorted(self.peaks.beyond(passed_over)):
                self.handle_passed_over(start + found, end)
            self.count_lines(start)
            self.waiting.add(passed_over, self.offset + start, self.lines_before)
        return end

    def handle_found(self, found: int, end: int) -> int:
        """Handles the line with an anchor at `found`; returns where it ends."""
        span = self.span_at(found)
        anchors = self.all.anchors_in(self.buffer[found : span.end])
        if found < self.followed_to and TABLES.issuperset(anchors):
            return max(span.end, found + 1)  # of a table, and read
        new = self.handle_line(span, anchors, end)
        if self.waiting is not None:
            self.waiting.mark(self.offset + span.start)
            self.lines_of_all -= 1
            if new and not self.tally.full.issuperset(anchors):
                self.lines_of_all = _LINES_AFTER_NEWS
            self.sought = self.all if self.lines_of_all > 0 else self.rest
        if self.tally.add(anchors, new):
            self.sought = self.rest = self.all.without(self.tally.full)
            if self.waiting is None:
                self.waiting = WaitingText(_WAITING, self.offset + span.end)
                self.peaks = Peaks(self.all.peaks())
                tuple(self.peaks.beyond(self.buffer[: span.end]))  # all of which has been read
        return max(span.end, found + 1)

    def handle_passed_over(self, found: int, end: int) -> None:
        """Reads a line that waits, or would be passed over."""
        span = self.span_at(found)
        self.handle_line(span, self.all.anchors_in(self.buffer[span.start : span.end]), end)
        if self.waiting is not None:
            self.waiting.mark(self.offset + span.start)

    def read_waiting(self) -> Sequence[str]:
        """Reads the last of the lines that were passed over; a note where there were more."""
        if self.waiting is None:
            return ()
        waiting, scanner = self.waiting, self.all.only(self.tally.full).scanner
        self.buffer, self.lines_before = waiting.take()
        self.counted_to, self.followed_to, self.stamped = 0, len(self.buffer), (0, None)
        places: list[int] = []
        begin = len(self.buffer)
        while begin > 0 and len(places) <= _LAST_WAITING:  # from the end, a piece at a time
            begin, stop = self.buffer.rfind(b"\n", 0, max(0, begin - _WAITING_PIECE)) + 1, begin
            places[:0] = self.waiting_in(begin, stop, waiting, scanner)
        self.waiting = None
        for found in places[-_LAST_WAITING:]:
            self.handle_found(found, len(self.buffer))
        return (_PASSED_OVER,) if waiting.dropped or len(places) > _LAST_WAITING else ()

    def waiting_in(self, begin: int, stop: int, waiting: WaitingText, scanner: AnchorScanner) -> list[int]:
        """Places in [begin, stop) of lines that were passed over."""
        places: list[int] = []
        while (found := scanner.find(self.buffer, begin, stop, self.coloured)) >= 0:
            span = self.span_at(found)
            if waiting.waits(span.start):
                places.append(found)
            begin = max(span.end, found + 1)
        return places

    def span_at(self, place: int) -> _Span:
        buffer = self.buffer
        floor = max(0, place - _REACH)
        start = buffer.rfind(b"\n", floor, place) + 1 or floor
        start = buffer.rfind(b"\r", start, place) + 1 or start
        if place - start > _LONGEST - _BEFORE_ANCHOR:
            start = place - _BEFORE_ANCHOR
        longest = start + _LONGEST
        end = buffer.find(b"\n", place, longest)
        end = end if end >= 0 else min(longest, len(buffer))
        carriage = buffer.find(b"\r", place, end)
        self.count_lines(start)
        return _Span(start, carriage if carriage >= 0 else end, self.lines_before + 1)

    def handle_line(self, span: _Span, anchors: Sequence[Anchor], end: int) -> bool:
        """Whether the line says something new."""
        text = clean(decode(self.buffer[span.start : span.end]))
        stripped = strip(text)
        if span.start >= self.followed_to and (of_tables := TABLES.intersection(anchors)):
            self.open_table(span, stripped, {anchor.literal for anchor in of_tables}, end)
        patterns = self.all.patterns(anchors)
        new = False
        for line in self.lines(span, stripped):
            said: list[tuple[int, LogEvent]] = []
            for pattern in patterns:
                if (match := pattern.compiled.search(line.text)) is None:
                    continue
                events = _events(pattern.build(match, line))
                if self.cut and span.start + _REACH > len(self.buffer):
                    events = without_cut_figures(events, pattern, line, self.cut)
                if self.unended and span.start + _REACH > len(self.buffer):
                    events = [with_cut_told(event, line, self.unended) for event in events]
                said += ((line.text.find(pattern.anchor), event) for event in events)
            if said and is_history(text, self.texts_before(span), self.texts_after(span)):
                continue
            for event in in_order_of_line(said):
                new = self.record(event, span, text) or new
        return new

    def lines(self, span: _Span, stripped: Stripped) -> Sequence[Line]:
        """The line; or the lines of the text that a JSON record holds, each with the others as its neighbours."""
        texts = unfold(stripped.text)
        if len(texts) == 1:
            return (self.line(span, stripped),)
        return [
            replace(
                self.line(span, stripped),
                text=text,
                following=lambda count, place=place: texts[place + 1 : place + 1 + count],  # type: ignore[misc]
                preceding=lambda count, place=place: texts[max(0, place - count) : place],  # type: ignore[misc]
            )
            for place, text in enumerate(texts)
        ]

    def line(self, span: _Span, stripped: Stripped) -> Line:
        following = _Kept(self.neighbours(self.texts_after(span), stripped.stream, nameless=True))
        preceding = _Kept(self.neighbours(self.texts_before(span), stripped.stream))
        return Line(
            text=stripped.text,
            source=Source(path=self.path, line=span.number),
            rank=stripped.rank,
            pid=stripped.pid,
            time_seconds=stripped.time_seconds,
            following=following.first,
            preceding=lambda count: preceding.first(count)[::-1],
        )

    @staticmethod
    def neighbours(texts: Iterator[str], stream: str, nameless: bool = False) -> Iterator[str]:
        """The nearest lines of the same writer, where the lines name their writer.

        `nameless`: a logger names it on the first line of a statement only, so lines that name nobody are more of that
        statement, up to the first of another writer.
        """
        for text in texts:
            stripped = _stripped(text)
            if not stream or stripped.stream == stream or (nameless and not stripped.stream):
                yield stripped.text
            else:
                nameless = False

    def texts_after(self, span: _Span) -> Iterator[str]:
        place, last = span.end, min(len(self.buffer), span.end + _REACH)
        ends = _LINE_ENDS.match(self.buffer, place, last)
        while ends is not None and ends.end() < last:
            place = ends.end()
            ends = _LINE_ENDS.search(self.buffer, place, last)
            end = ends.start() if ends is not None else last
            yield _shown(self.buffer[place : min(end, place + _LONGEST)])

    def texts_before(self, span: _Span, floor: int = 0) -> Iterator[str]:
        """Nearest first, those that begin at `floor` or later."""
        place, first = span.start, max(0, floor, span.start - _REACH)
        while place > first:
            end = place - 1
            if self.buffer[end : end + 1] == b"\n" and self.buffer[end - 1 : end] == b"\r":
                end -= 1
            if end < first:
                return
            place = max(self.buffer.rfind(b"\n", first, end), self.buffer.rfind(b"\r", first, end)) + 1 or first
            yield _shown(self.buffer[place : min(end, place + _LONGEST)])

    def record(self, event: LogEvent, span: _Span, text: str) -> bool:
        """Whether it is something new."""
        if (event.kind in FAILURES or event.kind is EventKind.ENGINE_PHASE) and self.stamps_left > 0:
            self.stamps_left -= 1
            event = replace(event, after_seconds=self.stamp_above(span, text))
        new = self.ledger.add(event, span.number)
        if not self.shelf.wants(event.kind, span.number):
            return new
        before = self.shown_before(span.start)
        lines = [*before, text, *self.shown_after(span.end)]
        first = max(1, span.number - len(before))
        self.shelf.add(event.kind, span.number, first, [line[:_LONGEST_SHOWN] for line in lines])
        return new

    def stamp_above(self, span: _Span, text: str) -> float | None:
        """The time of the line, or of the nearest one above that has one; each line is looked at once."""
        before, known = self.stamped if self.stamped[0] <= self.offset + span.start else (0, None)
        lines = [text, *islice(self.texts_before(span, before - self.offset), _LINES_TO_A_STAMP)]
        stamp = next((stamp for line in lines if (stamp := stamp_of(line)) is not None), None)
        if stamp is None and len(lines) <= _LINES_TO_A_STAMP:
            stamp = known
        self.stamped = (self.offset + span.start, stamp)
        return stamp

    def shown_before(self, place: int) -> list[str]:
        """Lines as an editor numbers them: of one that was overwritten by carriage returns, the last state."""
        floor = max(0, place - _REACH)
        end = self.buffer.rfind(b"\n", floor, place)
        lines: list[str] = []
        while end >= 0 and len(lines) < _CONTEXT:
            start = self.buffer.rfind(b"\n", floor, end) + 1 or floor
            lines.append(_last_state(self.buffer[start:end]))
            end = start - 1 if start > floor else -1
        return lines[::-1]

    def shown_after(self, place: int) -> list[str]:
        ceiling = min(len(self.buffer), place + _REACH)
        start = self.buffer.find(b"\n", place, ceiling) + 1
        lines: list[str] = []
        while 0 < start < ceiling and len(lines) < _CONTEXT:
            end = self.buffer.find(b"\n", start, ceiling)
            lines.append(_last_state(self.buffer[start : end if end >= 0 else ceiling]))
            start = end + 1
        return lines

    def open_table(self, span: _Span, stripped: Stripped, anchors: set[str], end: int) -> None:
        """Reads the output that begins here, or a little above, as far as the lines go that are handled now."""
        above = (strip(text).text for text in self.texts_before(span, self.followed_to))
        before = self.tables.open(stripped.text, [anchor for anchor in anchors if anchor in stripped.text], above)
        if before is None:
            return
        for back, text in enumerate(before, start=-len(before)):
            self.keep(self.tables.read(TableLine(span.number + back, text)))
        self.followed_to, self.followed_line = span.start, span.number
        self.follow_tables(end)

    def follow_tables(self, end: int) -> None:
        """Reads on in the output that was begun, line by line up to `end`."""
        while self.tables.is_open and self.followed_to < end:
            ends = _LINE_ENDS.search(self.buffer, self.followed_to, end + 2)
            stop, after = (ends.start(), ends.end()) if ends is not None else (end, end)
            line = strip(clean(decode(self.buffer[self.followed_to : min(stop, self.followed_to + _LONGEST)])))
            self.keep(self.tables.read(TableLine(self.followed_line, line.text, line.time_seconds)))
            self.followed_to = after
            self.followed_line += ends is not None and ends[0] != b"\r"

    def keep(self, readings: Iterable[DeviceReading]) -> None:
        for reading in readings:
            self.devices.add(reading)


def _last_state(line: bytes) -> str:
    return clean(decode(line.rstrip(b"\r").rpartition(b"\r")[2][:_LONGEST]))


def _events(built: LogEvent | Iterable[LogEvent] | None) -> Iterable[LogEvent]:
    if built is None:
        return ()
    return (built,) if isinstance(built, LogEvent) else built
