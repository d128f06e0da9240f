"""Small tools of the families: building an event, reading a size, joining a statement that a terminal wrapped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from ...model.events import EventKind, FieldValue, LogEvent
from ...model.units import TIB, parse_size
from .family import Line

SIZE = r"-?\d[\d,]{0,24}(?:\.\d{0,6})? ?(?:bytes|[KMGTPE]i?B|[KMGT])(?![A-Za-z])"
"""A size with its unit, to be put into a group. NumPy prints three digits with a bare dot: `298. GiB`."""

NO_MACHINE = TIB << 10
"""One pebibyte."""

_LONGEST_TEXT = 2000
_DIMENSION = re.compile(r"[0-9]{1,20}")


def event(kind: EventKind, line: Line, device: int | None = None, /, **fields: FieldValue) -> LogEvent:
    """`event_of` with the fields written out."""
    return event_of(kind, line, fields if device is None else {**fields, "device": device})


def event_of(kind: EventKind, line: Line, fields: Mapping[str, FieldValue]) -> LogEvent:
    """An event of `line`. Fields that are None are left out: what the text does not give is absent.

    A field `device` becomes the event's device. A request for less than nothing, or for what no machine has, is no
    size: `request_impossible` says so in its place.
    """
    device, requested = fields.get("device"), fields.get("requested_bytes")
    if isinstance(requested, int) and not 0 <= requested < NO_MACHINE:
        fields = {**fields, "requested_bytes": None, "request_impossible": True}
    return LogEvent(
        kind,
        line.source,
        {name: value for name, value in fields.items() if value is not None and name != "device"},
        line.text.strip()[:_LONGEST_TEXT],
        device if isinstance(device, int) else None,
        line.rank,
        line.pid,
        line.time_seconds,
    )


def size(text: str | None) -> int | None:
    """Bytes of a size as printed; None where there is none (or it is not one)."""
    if text is None:
        return None
    try:
        return parse_size(text.strip())
    except ValueError:
        return None


def integer(text: str | None) -> int | None:
    """The number that digits with or without thousands separators spell."""
    return None if text is None else int(text.replace(",", ""))


def shape(text: str | None) -> tuple[int, ...] | None:
    """`[64,372,32,32]` or `(10, 3)` as a tuple; None where it is not all numbers."""
    if text is None:
        return None
    parts = [part.strip() for part in text.strip("[]() ").split(",") if part.strip()]
    numbers = [int(part) for part in parts if _DIMENSION.fullmatch(part)]
    return tuple(numbers) if len(numbers) == len(parts) else None


def joined(line: Line, ends: Iterable[str], beginnings: Iterable[str], most: int = 12) -> str:
    """The line, continued to the first of the next `most` lines that holds one of `ends`.

    When none does, or another statement begins before it, this one was cut rather than wrapped: the line stands alone.
    """
    ends, beginnings = tuple(ends), tuple(beginnings)
    if any(end in line.text for end in ends):
        return line.text
    pieces = [line.text]
    for more in line.following(most):
        if any(beginning in more for beginning in beginnings):
            break
        pieces.append(more)
        text = _unwrapped(pieces)
        if any(end in text for end in ends):
            return text
    return line.text


def _unwrapped(pieces: list[str]) -> str:
    """Pieces as one line. A terminal cuts at its width, also in a word; where all are as long as that, it did.

    A blank at the edge is lost when it is copied.
    """
    width = max(map(len, pieces[:-1]))
    is_cut = len(pieces) > 2 and all(len(piece) >= width - 1 for piece in pieces[:-1])
    if not is_cut:
        return " ".join([pieces[0].rstrip(), *(piece.strip() for piece in pieces[1:])])
    return "".join(piece if len(piece) == width else f"{piece} " for piece in pieces[:-1]) + pieces[-1]


def in_order_of_line(said: Sequence[tuple[int, LogEvent]]) -> list[LogEvent]:
    """What one line says, with where it says so: a device's failure and a host's in the order of the line."""
    places = [number for number, (_, event) in enumerate(said) if event.kind in _UNLIKE]
    events = [event for _, event in said]
    if len({events[number].kind for number in places}) > 1:
        for number, (_, event) in zip(places, sorted((said[n] for n in places), key=itemgetter(0)), strict=True):
            events[number] = event
    return events


_UNLIKE = frozenset(
    {
        EventKind.DEVICE_OOM,
        EventKind.HOST_ALLOCATION_FAILED,
        EventKind.KERNEL_OOM,
        EventKind.MEMORY_LIMIT_HIT,
        EventKind.SHM_EXHAUSTED,
    }
)
