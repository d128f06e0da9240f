"""Ranks that failed together, each at work on something else: the stack of one tells nothing of the other's device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..model.events import EventKind, LogEvent
from ..model.evidence import Evidence
from .deriver import device_member
from .frames import frames_of, users_frame

_MOST_GROUPS = 4


@dataclass(frozen=True)
class Apart:
    """Devices whose ranks failed at one place of the code, and the evidence with the stacks of these ranks alone."""

    devices: frozenset[str]
    evidence: Evidence


def apart(evidence: Evidence) -> tuple[Apart, ...]:
    """One a place of the code where several ranks of one failure show several, the last that failed first."""
    failures = [e for e in evidence.of_kind(EventKind.DEVICE_OOM) if e.rank is not None and e.device is not None]
    stacks = {e.rank: e for e in evidence.of_kind(EventKind.EXCEPTION)}
    groups: dict[tuple[str, str], list[LogEvent]] = {}
    for event in reversed(failures):
        place = _place(stacks.get(event.rank))
        if place is None:
            return ()
        groups.setdefault(place, []).append(event)
    if evidence.runs or not 2 <= len(groups) <= _MOST_GROUPS:
        return ()
    return tuple(_of(group, evidence) for group in groups.values())


def _place(traceback: LogEvent | None) -> tuple[str, str] | None:
    if traceback is None:
        return None
    frame = users_frame(frames_of(traceback))
    return None if frame is None else (frame.file, frame.function)


def _of(group: list[LogEvent], evidence: Evidence) -> Apart:
    ranks = {event.rank for event in group} | {None}
    events = tuple(e for e in evidence.events if e.kind is not EventKind.EXCEPTION or e.rank in ranks)
    devices = frozenset(device_member(e.device, e.word("backend") or "cuda") for e in group)
    return Apart(devices, replace(evidence, events=events))
