"""Which of several inputs is the latest: by the times in them where they can be compared, else as they were given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timezone

from ..language import N_
from ..model.events import FAILURES, LogEvent
from ..model.evidence import Evidence

_FIRST_DATED = 63072000.0 + 366 * 86400
"""1973: an earlier time is one without a year."""

BY_TIME = N_("Which failure is the latest was told by the times in the inputs, not by their order")
AS_GIVEN = N_(
    "The inputs hold failures whose times cannot be compared: the one in the input given last counts as the latest. "
    "Give the files in the order of their time"
)


def chronological(evidence: Evidence) -> tuple[Evidence, tuple[str, ...]]:
    """The evidence with the events of the input that failed last at the end, and a sentence on how that was known.

    Events stay together by their input, and those of a run are told apart by its own records.
    """
    failed = list(_last_failures(evidence.events))
    if evidence.runs or len(failed) < 2:
        return evidence, ()
    moments = moments_of_inputs(evidence)
    if any(path not in moments for path in failed):
        return evidence, (AS_GIVEN,)
    ordered = sorted(failed, key=lambda path: moments[path])
    if ordered == failed:
        return evidence, ()
    rank = {path: number for number, path in enumerate(ordered, 1)}
    events = sorted(evidence.events, key=lambda event: rank.get(event.source.path, 0))
    return replace(evidence, events=tuple(events)), (BY_TIME,)


def moments_of_inputs(evidence: Evidence) -> dict[str | None, float]:
    """By input, when its last failure was; inputs that do not tell are left out."""
    moments = {path: e.after_seconds for path, e in _last_failures(evidence.events).items()}
    return _dated({path: moment for path, moment in moments.items() if moment is not None})


def is_earlier(event: LogEvent, other: LogEvent) -> bool:
    """Whether the times of both say so; of a time without a year the day and the clock count."""
    at, then = event.after_seconds, other.after_seconds
    if at is None or then is None:
        return False
    if (at < _FIRST_DATED) != (then < _FIRST_DATED):
        dated, yearless = max(at, then), min(at, then)
        nearest = min(_in_years(yearless, dated), key=lambda moment: abs(moment - dated))
        at, then = (nearest, then) if at == yearless else (at, nearest)
    return at < then


def _last_failures(events: Iterable[LogEvent]) -> dict[str | None, LogEvent]:
    """By input in the order given, its last failure that it did not recover from."""
    found: dict[str | None, LogEvent] = {}
    for event in events:
        recovered = event.fields.get("recovered") is True or event.fields.get("fatal") is False
        if event.kind in FAILURES and not recovered:
            found[event.source.path] = event
    return found


def _dated(moments: dict[str | None, float]) -> dict[str | None, float]:
    """Times without a year are given the one that brings them nearest to those that have one."""
    known = [moment for moment in moments.values() if moment >= _FIRST_DATED]
    if not known:
        return moments
    latest = max(known)
    return {
        path: moment if moment >= _FIRST_DATED else min(_in_years(moment, latest), key=lambda at: abs(at - latest))
        for path, moment in moments.items()
    }


def _in_years(moment: float, near: float) -> list[float]:
    """The same day and clock in the years around `near`."""
    yearless = datetime.fromtimestamp(moment, tz=timezone.utc)
    year = datetime.fromtimestamp(near, tz=timezone.utc).year
    found = []
    for candidate in (year - 1, year, year + 1):
        try:
            found.append(yearless.replace(year=candidate).timestamp())
        except ValueError:  # the 29th of February
            found.append(yearless.replace(year=candidate, day=28).timestamp())
    return found
