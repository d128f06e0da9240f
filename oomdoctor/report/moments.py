"""What happened when: the numbered marks of the timeline, times relative to the failure. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from ..language import _, told
from ..model.diagnosis import Incident, Moment, MomentKind
from ..model.places import place_in_words
from ..model.printable import one_line
from ..model.units import format_seconds
from .anchors import Anchors
from .text import source_of

_MOST = 40
_LINE, _SOURCE = 200, 240


@dataclass(frozen=True)
class MomentView:
    """A row of the events, and a mark in the charts."""

    number: int
    seconds: float
    """Unix time."""
    when: str
    where: str
    """As in the diagnosis; empty: everywhere."""
    place: str
    kind: str
    what: str
    source: str
    leads_to: str
    """The anchor of the line that says so; empty where none is shown."""


def failure_seconds(incidents: Sequence[Incident], moments: Sequence[Moment] = ()) -> float | None:
    """What times are relative to; None where the input does not date the failure.

    A log without times may stand beside a snapshot that dates the failure of the same device.
    """
    if not incidents or incidents[0].when_seconds is not None:
        return incidents[0].when_seconds if incidents else None
    failed = [each for each in moments if each.kind is MomentKind.FAILURE and each.where == incidents[0].where]
    return failed[-1].when_seconds if failed else None


def view_moments(moments: Sequence[Moment], incidents: Sequence[Incident], anchors: Anchors) -> tuple[MomentView, ...]:
    """The events in their order; of very many the first and the last."""
    zero = failure_seconds(incidents, moments)
    chosen = list(moments) if len(moments) <= _MOST else [*moments[: _MOST // 2], *moments[-_MOST // 2 :]]
    return tuple(
        MomentView(
            number=number,
            seconds=each.when_seconds,
            when=format_moment(each.when_seconds) if zero is None else _relative(each.when_seconds - zero),
            where=each.where or "",
            place=one_line(place_in_words(each.where), 60) if each.where else "",
            kind=each.kind.value,
            what=one_line(told(each.what), _LINE),
            source=one_line(source_of(each.source), _SOURCE),
            leads_to=anchors.of_happening(each.source, each.where or ""),
        )
        for number, each in enumerate(chosen, 1)
    )


def format_moment(seconds: float) -> str:
    """A moment in UTC: reports travel between time zones."""
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return f"{seconds!r} s"


def _relative(seconds: float) -> str:
    if abs(seconds) < 0.005:
        return _("the failure")
    time = format_seconds(abs(seconds))
    return _("{time} before").format(time=time) if seconds < 0 else _("{time} after").format(time=time)
