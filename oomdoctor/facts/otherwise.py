"""Ends that are not of memory, where nothing else failed: a time limit, a full disk, a crash, a status."""

from __future__ import annotations

from ..language import N_
from ..model.events import FAILURES, EventKind, LogEvent
from ..model.evidence import Evidence

FROM_OUTSIDE = ("time-limit", "preemption", "cancelled", "deadline", "disk", "disk-full")
"""Who ended it says why; the others say that it ended, or how."""
ENDS = (*FROM_OUTSIDE, "node-failure", "segmentation-fault", "abort", "illegal-instruction", "status")

_WORDS = {
    "time-limit": N_("the job reached its time limit, says {value}"),
    "preemption": N_("the job was preempted, says {value}"),
    "cancelled": N_("the job was cancelled, says {value}"),
    "deadline": N_("the job ran past its deadline, says {value}"),
    "disk": N_("evicted for want of disk space, says {value}"),
    "disk-full": N_("no space was left on a file system"),
    "node-failure": N_("the node failed, says {value}"),
    "segmentation-fault": N_("the program ended with a segmentation fault"),
    "abort": N_("the program aborted"),
    "illegal-instruction": N_("the program met an illegal instruction"),
}


def other_end(evidence: Evidence) -> LogEvent | None:
    """The last word on how it ended, where no failure is told that may be why; of several the one that says so."""
    ends = evidence.of_kind(EventKind.ENDED)
    if not ends or any(_may_be_why(event) for event in evidence.events):
        return None
    if evidence.of_kind(EventKind.EXCEPTION):
        ends = tuple(event for event in ends if event.word("how") != "status")  # the error says more
    why = [event for event in ends if event.word("how") in FROM_OUTSIDE]
    told = [event for event in ends if event.word("how") != "status"]
    return next(iter([*reversed(why), *reversed(told), *reversed(ends)]), None)


def words_for(event: LogEvent) -> str:
    """What ended, in plain words."""
    words = _WORDS.get(event.word("how") or "")
    if words is None:
        return N_("ended with status {exit_status}").format(exit_status=event.size("exit_code"))
    return words.format(value=event.word("reported_by"))


def _may_be_why(event: LogEvent) -> bool:
    recovered = event.fields.get("recovered") is True or event.fields.get("fatal") is False
    return (event.kind in FAILURES and not recovered) or event.kind is EventKind.ACCELERATOR_ERROR
