"""A traceback that is cut before its error, under a headline that says memory ran out: the two make one failure."""

from __future__ import annotations

from dataclasses import replace

from ..language import N_
from ..model.events import FAILURES, EventKind, LogEvent
from ..model.evidence import Evidence

ONLY_TOLD = N_("The error itself is not in the text: that memory ran out is what its headline says ({source})")
_OTHER_ENDS = FAILURES | {EventKind.ACCELERATOR_ERROR, EventKind.RECOVERED, EventKind.PEER_LOST}


def with_told_failure(evidence: Evidence) -> tuple[Evidence, LogEvent | None]:
    """The evidence with the failure that only a headline names, and that headline.

    Where a program prints any failure or error of its own, its word counts and the headline is passed over.
    """
    told = evidence.of_kind(EventKind.TOLD_IN_WORDS)
    if not told or evidence.runs or evidence.snapshots or any(map(_is_an_end, evidence.events)):
        return evidence, None
    tracebacks = evidence.of_kind(EventKind.EXCEPTION)
    if not tracebacks or any(event.word("exception_type") for event in tracebacks):
        return evidence, None
    cut, headline = tracebacks[-1], told[-1]
    failure = replace(headline, kind=EventKind.DEVICE_OOM, fields={"generation": "bare"}, rank=cut.rank, pid=cut.pid)
    return replace(evidence, events=(*evidence.events, failure)), headline


def _is_an_end(event: LogEvent) -> bool:
    """Whether a program says how it ended or that it went on; a later start tells nothing of the one before."""
    return event.kind in _OTHER_ENDS and event.word("how") != "restart"
