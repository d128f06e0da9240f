"""Errors about host memory in a job of several processes: whose own they are, and which process failed first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile

from ..model.run import ExceptionRecord, RunRecord

_ONE_FAILURE_SECONDS = 60
"""Processes of a job that end so soon after one another end together."""


def is_host_error(exception: ExceptionRecord) -> bool:
    """A failed request for host memory (torch's device errors are memory errors of another kind)."""
    return exception.is_memory_error and "OutOfMemory" not in exception.exception_type


def own_host_errors(run: RunRecord) -> tuple[ExceptionRecord, ...]:
    """Without what a process only received: pools and launchers raise a worker's error again where they wait for it.

    One whose origin nobody recorded stays.
    """
    errors = [error for error in run.exceptions if is_host_error(error)]
    parents = {process.pid: process.parent_pid for process in run.processes}
    return tuple(
        error
        for place, error in enumerate(errors)
        if not any(_is_from(origin, error, parents) for origin in errors[:place])
    )


def last_host_error(run: RunRecord) -> ExceptionRecord | None:
    """The last failure of a host request; where processes ended together, that of the first."""
    own = own_host_errors(run)
    return min([own[-1], *_just_before(own)], key=lambda error: error.time_seconds) if own else None


def joined_by(run: RunRecord) -> tuple[ExceptionRecord, ...]:
    """The errors of other processes that ended together with the one that failed first."""
    first, own = last_host_error(run), own_host_errors(run)
    if first is None or first is own[-1]:
        return ()
    return tuple(error for error in own if error.time_seconds > first.time_seconds and error.pid != first.pid)


def _just_before(own: tuple[ExceptionRecord, ...]) -> Iterator[ExceptionRecord]:
    last = own[-1]
    near = takewhile(lambda e: last.time_seconds - e.time_seconds <= _ONE_FAILURE_SECONDS, reversed(own))
    return (error for error in near if error.pid != last.pid and error.fatal and error.thread is None)


def _is_from(origin: ExceptionRecord, error: ExceptionRecord, parents: Mapping[int, int | None]) -> bool:
    if origin.pid == error.pid:
        return False
    if error.from_worker:
        return True
    same = (origin.exception_type, origin.message) == (error.exception_type, error.message)
    return same and _descends(origin.pid, error.pid, parents)


def _descends(pid: int, ancestor: int, parents: Mapping[int, int | None]) -> bool:
    """Whether one process was started by the other, or by what that started."""
    seen: set[int] = set()
    parent = parents.get(pid)
    while parent is not None and parent != ancestor and parent not in seen:
        seen.add(parent)
        parent = parents.get(parent)
    return parent == ancestor
