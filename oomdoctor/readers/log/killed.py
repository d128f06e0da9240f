"""What the families about the host share: the builders of their events."""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Callable

from ...model.events import EventKind, FieldValue, LogEvent
from ...model.units import KIB
from .family import Build, Line
from .prose import mentioned
from .statement import event, integer, size

_EXIT_BY_SIGNAL = 128


def killed(reported_by: str, oom_stated: bool = False, **more: FieldValue) -> Build:
    """A kill; groups `pid`, `program`, `signal`, `name`, `exit` are taken where named. Only signals count as kills."""

    def build(match: re.Match[str], line: Line) -> LogEvent | None:
        if mentioned(line.text, match.start(), match.end()):
            return None
        given = match.groupdict()
        number = signal_number(given.get("signal"), given.get("name"))
        code = integer(given.get("exit"))
        if code is not None:
            number = -code if code < 0 else code - _EXIT_BY_SIGNAL if code > _EXIT_BY_SIGNAL else None
            if number is None:
                return None
        program = (given.get("program") or "").strip() or None
        fields: dict[str, FieldValue] = {
            "signal": number,
            "exit_code": code,
            "pid": integer(given.get("pid")),
            "program": program,
            "reported_by": reported_by,
            "oom_stated": oom_stated,
            **more,
        }
        return event(EventKind.PROCESS_KILLED, line, **fields)

    return build


def signal_number(number: str | None, name: str | None) -> int | None:
    """Of a signal given by number or by name; None for a name that no signal has."""
    if number is not None:
        return int(number)
    if name is None:
        return None
    try:
        return int(signals.Signals[name])
    except KeyError:
        return None


def limit_hit(system: str, unit: int = KIB) -> Build:
    """Used and allowed in `unit`s, in the groups `used` and `limit`."""

    def build(match: re.Match[str], line: Line) -> LogEvent:
        given = match.groupdict()
        used, limit = integer(given.get("used")), integer(given.get("limit"))
        return event(
            EventKind.MEMORY_LIMIT_HIT,
            line,
            system=system,
            used_bytes=None if used is None else used * unit,
            limit_bytes=None if limit is None else limit * unit,
        )

    return build


def failed(allocator: str, **more: FieldValue) -> Callable[[re.Match[str], Line], LogEvent]:
    """A refused allocation; groups `bytes` (or `size`), `limit` and `in_use` are taken where named."""

    def build(match: re.Match[str], line: Line) -> LogEvent:
        given = match.groupdict()
        return event(
            EventKind.HOST_ALLOCATION_FAILED,
            line,
            allocator=allocator,
            requested_bytes=integer(given.get("bytes")) if given.get("bytes") else size(given.get("size")),
            limit_bytes=integer(given.get("limit")),
            used_bytes=integer(given.get("in_use")),
            **more,
        )

    return build
