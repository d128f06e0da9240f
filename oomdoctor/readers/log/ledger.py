"""Keeps what a log said within bounds: repeats are counted, and each kind of event has its share of room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...model.diagnosis import Excerpt
from ...model.events import EventKind, LogEvent

_FIRST, _LAST = 1000, 3000
"""Different statements kept of each kind: the earliest and the latest."""

_ONE_STATEMENT = frozenset({EventKind.DEVICE_OOM_TRY})
"""Kinds of which hundreds stand for one failure, each with other numbers: all count as repeats of one statement."""


@dataclass
class _Entry:
    order: tuple[int, int]
    first: LogEvent
    last_order: tuple[int, int]
    last: LogEvent
    count: int = 1

    def events(self) -> list[tuple[tuple[int, int], LogEvent]]:
        if self.count == 1:
            return [(self.order, self.first)]
        last = replace(self.last, fields={**self.last.fields, "repeats": self.count})
        return [(self.order, self.first), (self.last_order, last)]


class EventLedger:
    """Collects events. Of equal ones the first and the last are kept; the last carries `repeats`, the whole number."""

    def __init__(self) -> None:
        self._first: dict[EventKind, dict[object, _Entry]] = {}
        self._last: dict[EventKind, OrderedDict[object, _Entry]] = {}
        self._dropped: dict[EventKind, int] = {}
        self._count = 0

    def add(self, event: LogEvent, line: int) -> bool:
        """Records `event` of a line, whether or not it is new; events of one line stay in the order they come in."""
        self._count += 1
        order = (line, self._count)
        same: object = event.kind if event.kind in _ONE_STATEMENT else frozenset(event.fields.items())
        key = (same, event.device, event.rank)
        first, last = self._first.setdefault(event.kind, {}), self._last.setdefault(event.kind, OrderedDict())
        if entry := first.get(key) or last.get(key):
            entry.last, entry.last_order, entry.count = event, order, entry.count + 1
            if key in last:
                last.move_to_end(key)
            return False
        entry = _Entry(order, event, order, event)
        if len(first) < _FIRST:
            first[key] = entry
            return True
        last[key] = entry
        if len(last) > _LAST:
            _, gone = last.popitem(last=False)
            self._dropped[event.kind] = self._dropped.get(event.kind, 0) + gone.count
        return True

    def events(self) -> tuple[LogEvent, ...]:
        """What was kept, in the order of the log."""
        entries = [entry for table in (*self._first.values(), *self._last.values()) for entry in table.values()]
        kept = sorted((item for entry in entries for item in entry.events()), key=lambda item: item[0])
        return tuple(event for _, event in kept)

    def notes(self) -> list[str]:
        """A sentence for each kind of which something had to be let go."""
        return [
            f"{count} events of kind {kind.value} between the earliest and the latest were counted but not kept"
            for kind, count in self._dropped.items()
        ]


_DETAILS = frozenset(
    {
        EventKind.ENGINE_PROFILE,
        EventKind.ENGINE_KV_AVAILABLE,
        EventKind.ENGINE_KV_POOL,
        EventKind.ENGINE_FIT,
        EventKind.ENGINE_PREEMPTED,
        EventKind.ENGINE_NEIGHBOUR_CHANGED,
        EventKind.ENGINE_MEMORY_TABLE,
        EventKind.ENGINE_SLEEP,
        EventKind.ENGINE_ENCODER_BUDGET,
        EventKind.HOST_LARGE_ALLOCATION,
        EventKind.RECOVERED,
        EventKind.DEVICE_STATE,
    }
)
_BACKGROUND = frozenset(
    {
        EventKind.PEER_LOST,
        EventKind.VERSION,
        EventKind.PARALLELISM,
        EventKind.ENGINE_LOAD,
        EventKind.ENGINE_PHASE,
        EventKind.ENGINE_START,
        EventKind.ENGINE_WEIGHTS,
        EventKind.HOST_STATE,
        EventKind.DEVICE_OOM_TRY,
    }
)
"""Not worth an excerpt."""


class ExcerptShelf:
    """Chooses the few places of a log worth showing: failures before tracebacks before what an engine reported."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._shelves = {
            "failure": _Shelf(first=3, last=5),
            "exception": _Shelf(first=0, last=2),
            "detail": _Shelf(first=1, last=1),
        }

    def wants(self, kind: EventKind, line: int) -> bool:
        """Whether the lines around this event are still needed; notes the line where they are there already."""
        return kind not in _BACKGROUND and not self._shelves[_shelf_of(kind)].mark(line)

    def add(self, kind: EventKind, line: int, first_line: int, lines: Sequence[str]) -> None:
        """Offers the lines around `line`, of which the first is `first_line`."""
        self._shelves[_shelf_of(kind)].add(Excerpt(self.path, first_line, tuple(lines), (line,)))

    def excerpts(self) -> tuple[Excerpt, ...]:
        """The chosen ones in the order of the log, overlapping ones joined."""
        chosen = sorted(
            (one for shelf in self._shelves.values() for one in shelf.all()), key=lambda one: one.first_line
        )
        joined: list[Excerpt] = []
        for excerpt in chosen:
            if joined and excerpt.first_line <= joined[-1].first_line + len(joined[-1].lines):
                joined[-1] = _join(joined[-1], excerpt)
            else:
                joined.append(excerpt)
        return tuple(joined)


def _shelf_of(kind: EventKind) -> str:
    return "exception" if kind is EventKind.EXCEPTION else "detail" if kind in _DETAILS else "failure"


class _Shelf:
    def __init__(self, first: int, last: int) -> None:
        self._room, self._late_room = first, last
        self._early: list[Excerpt] = []
        self._late: list[Excerpt] = []

    def mark(self, line: int) -> bool:
        """Marks `line` in the latest excerpt; False where that does not show it with a few lines after it."""
        for shelf in (self._late, self._early):
            if shelf and shelf[-1].first_line <= line < shelf[-1].first_line + len(shelf[-1].lines) - 2:
                shelf[-1] = replace(shelf[-1], marked=tuple(sorted({*shelf[-1].marked, line})))
                return True
        return False

    def add(self, excerpt: Excerpt) -> None:
        if len(self._early) < self._room:
            self._early.append(excerpt)
            return
        self._late = [*self._late, excerpt][-self._late_room :]

    def all(self) -> list[Excerpt]:
        return self._early + self._late


def _join(one: Excerpt, other: Excerpt) -> Excerpt:
    new = other.lines[max(0, one.first_line + len(one.lines) - other.first_line) :]
    marked = tuple(sorted({*one.marked, *other.marked}))
    return Excerpt(one.path, one.first_line, one.lines + new, marked)
