"""Ends that are not of memory: a time limit, an eviction for want of disk space, a crash, a status."""

from __future__ import annotations

import re

from ...model.events import EventKind, LogEvent
from .family import Build, Family, Line, Pattern
from .prose import mentioned
from .statement import event

_BY_REASON = {"TIME LIMIT": "time-limit", "PREEMPTION": "preemption", "NODE FAILURE": "node-failure", "": "cancelled"}
_KILLED = {137, 247}
"""Statuses of a process that SIGKILL ended: told as that."""
_LOWEST_OF_SIGNAL, _OF_SEGFAULT = 128, 139


def _ended(how: str, reported_by: str | None = None) -> Build:
    def build(match: re.Match[str], line: Line) -> LogEvent | None:
        if mentioned(line.text, match.start(), match.end()):
            return None
        return event(EventKind.ENDED, line, how=how, reported_by=reported_by)

    return build


def _slurm(match: re.Match[str], line: Line) -> LogEvent | None:
    how = _BY_REASON.get((match["reason"] or "").strip())
    return None if how is None else event(EventKind.ENDED, line, how=how, reported_by="slurm")


def _status(match: re.Match[str], line: Line) -> LogEvent | None:
    """A runner's word on its job; a kill has an event of its own."""
    status = int(match["status"])
    if status == 0 or status in _KILLED or mentioned(line.text, match.start(), match.end()):
        return None
    if status == _OF_SEGFAULT:
        return event(EventKind.ENDED, line, how="segmentation-fault", exit_code=status)
    return None if status > _LOWEST_OF_SIGNAL else event(EventKind.ENDED, line, how="status", exit_code=status)


_CRASH = r"(?:^|: {0,8}(?:line )?\d{1,9}:? {1,8}\d{0,9} {0,8}|^Fatal Python error: )"
"""What a shell or Python writes before the name of the signal."""

FAMILY = Family(
    "endings",
    (
        Pattern(
            "CANCELLED AT",
            r"\*\*\* (?:JOB|STEP) \S{1,60} (?:ON \S{1,120} )?CANCELLED AT \S{1,40}"
            r"(?: DUE TO (?P<reason>[A-Z][A-Z -]{2,40}?))?(?:,| \*\*\*|$)",
            _slurm,
        ),
        Pattern("TERM_RUNLIMIT", r"\bTERM_RUNLIMIT\b", _ended("time-limit", "lsf")),
        Pattern(
            "exceeded limit", r"PBS: job killed: (?:walltime|cput) \d{1,12} exceeded limit", _ended("time-limit", "pbs")
        ),
        Pattern(
            "ephemeral",
            r"low on resource: ephemeral-storage|[Ee]phemeral local storage usage exceeds",
            _ended("disk", "kubernetes"),
        ),
        Pattern(
            "longer than specified deadline",
            r"(?:Job|Pod) was active (?:on the node )?longer than (?:the )?specified deadline",
            _ended("deadline", "kubernetes"),
        ),
        Pattern(
            "[Errno 28] No space left on device: '",
            r"\bOSError: \[Errno 28\] No space left on device: '(?!/dev/shm)[^']",
            _ended("disk-full"),
        ),
        Pattern(
            "o space left on device",
            r"^(?:ERROR: |Error |\S{1,60}: )?(?:failed to register layer: )?(?:write|cp|tar|dd|mv|rsync):? "
            r"(?!/dev/shm)\S.{0,200}: [nN]o space left on device(?: \(28\))?\s*$",
            _ended("disk-full"),
        ),
        Pattern("Segmentation fault", _CRASH + r"Segmentation fault\b", _ended("segmentation-fault")),
        Pattern("segfault at", r"\[\d{1,6}\]: segfault at [0-9a-f]{1,16} ip ", _ended("segmentation-fault", "kernel")),
        Pattern("Aborted", _CRASH + r"Aborted {0,24}(?:\(core dumped\)|$)", _ended("abort")),
        Pattern("Illegal instruction", _CRASH + r"Illegal instruction\b", _ended("illegal-instruction")),
        Pattern(
            "-1073741819",
            r"(?i:exit (?:code|status):?|exited with(?: code)?) -1073741819\b",
            _ended("segmentation-fault", "windows"),
        ),
        Pattern("Process completed with exit code", r"Process completed with exit code (?P<status>\d{1,3})\b", _status),
        Pattern("Job failed: exit", r"Job failed: exit (?:code|status) (?P<status>\d{1,3})\b", _status),
        Pattern("] Error ", r"^make(?:\[\d{1,3}\])?: \*\*\* \[[^\]]{1,200}\] Error (?P<status>\d{1,3})$", _status),
    ),
)
