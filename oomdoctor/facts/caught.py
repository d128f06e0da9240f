"""Errors about memory that a watched program caught before something else ended it: they are not why it ended."""

from __future__ import annotations

import signal
from dataclasses import replace

from ..model.events import EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.run import RunRecord

_RAISED_BY = {"python", "numpy", "torch-cpu"}
"""Allocators whose refusals Python raises: whichever is not caught the probe sees end the process or a thread."""
_ABOUT_IT = {EventKind.EXCEPTION, EventKind.ACCELERATOR_ERROR, EventKind.DEVICE_OOM_TRY, EventKind.RECOVERED}
_ENDED_BY = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV, signal.SIGBUS}
"""Not SIGABRT: that is how C++ ends for an error of its own allocator."""


def parted_by_end(piece: Evidence) -> list[Evidence]:
    """What ended the run, then what it had caught; all of it in one where a signal did not end it, or nothing tells."""
    if len(piece.runs) != 1 or not _ended_by_signal(piece.runs[0]) or not is_alone(piece.runs[0], piece):
        return [piece]
    run = piece.runs[0]
    caught = [number for number, event in enumerate(piece.events) if was_caught(run, event)]
    kept = [e for e in run.exceptions if not (e.is_memory_error or e.is_device_oom)]
    if _ended_by_memory(run) or not (caught or run.device_ooms or len(kept) < len(run.exceptions)):
        return [piece]
    until = caught[-1] if caught else -1
    of_it = {number for number, e in enumerate(piece.events) if e.kind in _ABOUT_IT and number <= until} | set(caught)
    dumped = {record.snapshot_path for record in run.device_ooms} - {None}
    ending = replace(
        piece,
        events=tuple(event for number, event in enumerate(piece.events) if number not in of_it),
        snapshots=tuple(each for each in piece.snapshots if each.path not in dumped),
        runs=(replace(run, exceptions=tuple(kept), device_ooms=()),),
    )
    before = Evidence(
        events=tuple(piece.events[number] for number in sorted(of_it)),
        snapshots=tuple(each for each in piece.snapshots if each.path in dumped),
        runs=(
            replace(
                run,
                exit_status=None,
                signal=None,
                exceptions=tuple(e for e in run.exceptions if e not in kept),
            ),
        ),
    )
    return [ending, before]


def was_caught(run: RunRecord, event: LogEvent) -> bool:
    """Whether what is printed is an error that Python raised: one that is not caught, the run's records tell of."""
    if not run.processes or event.fields.get("recovered") is True or event.fields.get("fatal") is False:
        return False
    if event.kind is EventKind.DEVICE_OOM:
        return event.word("backend") in (None, "cuda", "hip")
    if event.kind is EventKind.IMPOSSIBLE_SIZE:
        return True
    return event.kind is EventKind.HOST_ALLOCATION_FAILED and event.word("allocator") in _RAISED_BY


def is_alone(run: RunRecord, evidence: Evidence) -> bool:
    """Whether no other process of the command can have ended it, or answered for it, because this one failed.

    An engine's worker catches its error, tells its parent, and that one kills them all or ends without an error.
    """
    engines = (EventKind.ENGINE_STEP_FAILED, EventKind.ENGINE_START, EventKind.ENGINE_WARMUP_FAILED)
    return len(run.processes) == 1 and not evidence.of_kind(*engines)


def _ended_by_signal(run: RunRecord) -> bool:
    return run.signal in _ENDED_BY or (run.exit_status or 0) - 128 in _ENDED_BY


def _ended_by_memory(run: RunRecord) -> bool:
    """An error about memory ended a process, or a thread, or another process told of it."""
    about = (e for e in run.exceptions if e.is_memory_error or e.is_device_oom or e.is_library_oom)
    return bool(run.library_ooms) or any(e.fatal or e.from_worker for e in about)
