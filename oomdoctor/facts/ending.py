"""exit.*: how the command ended, and whether anything but the signal itself speaks of memory."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from ..language import N_
from ..model.events import FAILURES, EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.run import DeviceOomRecord, ExceptionRecord, RunRecord
from ..model.source import Source
from .caught import is_alone, was_caught
from .deriver import computed
from .incidents import is_vanished_worker
from .otherwise import other_end
from .until import was_killed

_TIMED_OUT = 124
"""What coreutils' `timeout` ends with."""
_KILLED_STATUS = 128 + signal.SIGKILL
_KEPT_BY_POOL = re.compile(r"concurrent[/\\]futures[/\\]thread\.py$|multiprocessing[/\\]pool\.py$")


def derive(evidence: Evidence, facts: FactSet) -> None:
    """The run's exit record, then what launchers and supervisors report in the log."""
    for run in reversed(evidence.runs):
        source = Source(path=run.path, record="exit")
        recorded = run.exit_status is not None or run.signal is not None
        facts.put("exit.recorded", recorded, source)
        facts.put("exit.status", run.exit_status, source)
        facts.put("exit.signal", run.signal, source)
        if run.exit_status is not None:
            facts.put("exit.clean", run.exit_status == 0, source)
        if was_killed(run):
            facts.put("exit.killed", True, source)
    for event in evidence.of_kind(EventKind.PROCESS_KILLED):
        if _is_kill(event):
            facts.put("exit.killed", True, event.source)
        if event.fields.get("oom_stated") is True:
            facts.put("exit.kill_explained_by_memory", True, event.source)
        if event.word("cause") == "probe":
            facts.put("exit.probe_failed", True, event.source)
        if event.fields.get("guess_only") is True:
            facts.put("exit.kill_guessed", True, event.source)
    _put_vanished(evidence, facts)
    for event in evidence.of_kind(EventKind.KERNEL_OOM, EventKind.MEMORY_LIMIT_HIT):
        facts.put("exit.kill_explained_by_memory", True, event.source)
    # the group's own count tells of its processes alone; the machine's of all, those of other containers included
    name = "host.system_oom_kills" if facts.value("host.cgroup_oom_kills") is None else "host.cgroup_oom_kills"
    count = facts.value(name)
    if isinstance(count, int) and count > 0:
        for end in ("exit.killed", "exit.worker_vanished"):
            if facts.value(end):
                facts.put("exit.kill_explained_by_memory", True, computed(name, end))
    if count == 0 and evidence.runs:
        facts.put("exit.no_kill_counted", True, computed(name))
    _put_ended_from_outside(evidence, facts)
    told = None if evidence.runs else other_end(evidence)
    if told is not None:
        facts.put("exit.ended_by", told.word("how"), told.source)
    _put_recovered(evidence, facts)


def _put_ended_from_outside(evidence: Evidence, facts: FactSet) -> None:
    """Somebody's SIGTERM, ^C or `timeout`. SIGKILL is not passed on, so who sent that is never known."""
    for run in evidence.runs:
        number = run.signal if run.signal is not None else (run.exit_status or 0) - 128
        sent = number in run.received_signals
        timed_out = run.exit_status == _TIMED_OUT and run.command[:1] and Path(run.command[0]).name == "timeout"
        own = (*run.device_ooms, *run.library_ooms, *(e for e in run.exceptions if e.is_memory_error))
        if (sent or timed_out) and not own and not run.counters.kernel_kills:
            facts.put("exit.ended_from_outside", True, Source(path=run.path, record="exit"))


def _put_vanished(evidence: Evidence, facts: FactSet) -> None:
    for run in evidence.runs:
        for exception in run.exceptions:
            if is_vanished_worker(exception.exception_type, exception.message):
                facts.put("exit.worker_vanished", True, exception.source)
    for event in evidence.of_kind(EventKind.EXCEPTION):
        if is_vanished_worker(event.word("exception_type"), event.word("message")):
            facts.put("exit.worker_vanished", True, event.source)


def _is_kill(event: LogEvent) -> bool:
    return event.size("signal") in (signal.SIGKILL, -signal.SIGKILL) or event.size("exit_code") in (
        -signal.SIGKILL,
        _KILLED_STATUS,
    )


def _put_recovered(evidence: Evidence, facts: FactSet) -> None:
    """The program says that it went on, and no failure stands after it, nor a traceback that may be of one."""
    fatal = (
        EventKind.DEVICE_OOM,
        EventKind.PROCESS_KILLED,
        EventKind.ENGINE_BUFFER_FAILED,
        EventKind.HOST_ALLOCATION_FAILED,
        EventKind.KERNEL_OOM,
        EventKind.MEMORY_LIMIT_HIT,
    )
    recovered: LogEvent | None = None
    later: LogEvent | None = None
    for event in evidence.events:
        if event.kind is EventKind.RECOVERED:
            recovered, later = (None if event.word("how") == "restart" else event), None
        elif (event.kind in fatal and event.fields.get("fatal") is not False) or _may_be_the_end(event):
            if recovered is not None and event.kind is EventKind.EXCEPTION:
                facts.put("exit.recovery_failed", True, event.source)
            recovered = None
        elif event.kind is EventKind.EXCEPTION:
            later = event
    if recovered is not None:
        facts.put("exit.recovered", True, recovered.source)
        rest = [event for event in evidence.events if event.kind is not EventKind.ENDED]
        if later is not None and rest[-1] is later:
            facts.put("exit.ended_otherwise", later.word("exception_type"), later.source)
    for run in evidence.runs:
        if _went_on(run) or _caught_what_it_printed(run, evidence):
            source = Source(path=run.path, record=N_("exit; no error about memory ended a thread"))
            facts.put("exit.recovered", True, source)
            fatal_later = [e for e in run.exceptions if e.fatal and e.thread is None and not e.is_memory_error]
            if run.exit_status != 0 and fatal_later:
                facts.put("exit.ended_otherwise", fatal_later[-1].exception_type, source)


def _may_be_the_end(event: LogEvent) -> bool:
    """A traceback cut off before it says of what, or of a parent whose child process ended."""
    if event.kind is not EventKind.EXCEPTION:
        return False
    return event.word("message") is None or bool(_CHILD_ENDED.search(event.word("message") or ""))


_CHILD_ENDED = re.compile(r"\bprocess \d{1,6} (?:terminated|exited|failed)", re.IGNORECASE)


def _went_on(run: RunRecord) -> bool:
    """Memory ran out, and the program caught every error about it: it ended well, or of something else later.

    A pool's thread keeps the error of a task for whoever asks; whether anybody did is not known.
    """
    caught = [e for e in run.exceptions if e.is_memory_error and not e.fatal]
    met: list[DeviceOomRecord | ExceptionRecord] = [*run.device_ooms, *caught]
    last = max(met, key=lambda record: record.time_seconds, default=None)
    others = (e for e in run.exceptions if e not in caught)
    if last is None or any(e.is_device_oom or e.is_library_oom or e.is_memory_error for e in others):
        return False
    if any(_KEPT_BY_POOL.search(frame.file) for record in met for frame in record.frames):
        return False
    ended = {process.pid: process.ended_cleanly for process in run.processes}
    if not all(ended.get(record.pid) for record in met):
        return False
    if run.exit_status == 0:
        return True
    return any(
        e.fatal and e.thread is None and e.time_seconds > last.time_seconds and not _is_aftermath(e)
        for e in run.exceptions
    )


def _caught_what_it_printed(run: RunRecord, evidence: Evidence) -> bool:
    """It printed errors about memory, and none ended it, a thread of it or a process that it started: it ended well."""
    if run.exit_status != 0 or not is_alone(run, evidence) or run.exceptions or run.device_ooms or run.library_ooms:
        return False
    failed = [event for event in evidence.events if event.kind in FAILURES]
    clean = all(process.ended_cleanly for process in run.processes)
    return bool(failed) and clean and all(was_caught(run, event) for event in failed)


def _is_aftermath(exception: ExceptionRecord) -> bool:
    """What the step that failed was to make is missing."""
    return exception.exception_type in ("NameError", "UnboundLocalError", "SystemExit", "KeyboardInterrupt")
