"""Which failures the input holds, latest first, and which device failures belong to the latest."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace

from ..language import N_
from ..model.diagnosis import Incident
from ..model.events import FAILURES, EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.run import ExceptionRecord, RunRecord
from ..model.source import Source
from .allocator import in_order, latest_oom
from .deriver import NAMED_BACKENDS, device_member, member_namer
from .focus import focus, others
from .host_errors import is_host_error, joined_by, last_host_error, own_host_errors
from .one_failure import apart_in_time, can_be_one_process, failures_of, is_aftermath, is_bare_kill, same_request, says
from .otherwise import other_end, words_for
from .tensor_size import requested_bytes
from .until import shared_memory_ran_out, stalled_on_memory, was_killed

_FAILURES: dict[EventKind, str] = {
    EventKind.DEVICE_OOM: N_("device out of memory"),
    EventKind.ENGINE_BUFFER_FAILED: N_("an engine could not allocate a buffer"),
    EventKind.ENGINE_KV_NONE: N_("nothing left for the KV pool"),
    EventKind.ENGINE_KV_TOO_SMALL: N_("the KV pool is too small for one request"),
    EventKind.ENGINE_STARTUP_SHORT: N_("too little free memory at start"),
    EventKind.ENGINE_NEIGHBOUR_CHANGED: N_("free memory changed while the engine profiled"),
    EventKind.ENGINE_WARMUP_FAILED: N_("warm-up failed"),
    EventKind.ENGINE_TOKEN_POOL_EXHAUSTED: N_("a KV token pool ran out"),
    EventKind.ENGINE_STATE_POOL_SHORT: N_("a state pool is too small"),
    EventKind.ENGINE_HOST_SHORT: N_("too little host memory for the engine"),
    EventKind.HOST_ALLOCATION_FAILED: N_("host allocation failed"),
    EventKind.PINNED_ALLOCATION_FAILED: N_("page-locked host memory refused"),
    EventKind.PROCESS_KILLED: N_("process killed"),
    EventKind.KERNEL_OOM: N_("killed by the kernel for want of memory"),
    EventKind.MEMORY_LIMIT_HIT: N_("a memory limit was hit"),
    EventKind.SHM_EXHAUSTED: N_("shared memory ran out"),
    EventKind.KERNEL_RESOURCE: N_("a GPU kernel ran out of on-chip resources"),
    EventKind.DEVICE_ASSERT: N_("device-side assertion"),
    EventKind.IMPOSSIBLE_SIZE: N_("impossible size requested"),
    EventKind.SLOT_TABLE_FULL: N_("request slots ran out"),
    EventKind.WORKSPACE_TOO_SMALL: N_("library workspace too small"),
    EventKind.SERVER_POOL_FULL: N_("fixed pool of the server full"),
}

_OTHER_RESOURCES = {EventKind.KERNEL_RESOURCE, EventKind.DEVICE_ASSERT, EventKind.SLOT_TABLE_FULL}
_DRIVERS = {"cuda", "hip", "xpu", None}

_OWN_HEAPS = {"heap", "metaspace", "direct"}
"""Parts of a runtime's memory that have a limit of the runtime's own."""
_STATES_A_KILL = (EventKind.KERNEL_OOM, EventKind.MEMORY_LIMIT_HIT)


def latest_device_failures(evidence: Evidence) -> tuple[LogEvent, ...]:
    """The DEVICE_OOM events of the latest incident, one a device and rank, the message with most figures each.

    Engines print one error several times (worker, wrapper, launcher): repeats with the same request are one failure.
    An earlier, different request of the same device and rank belongs to an earlier incident.
    """
    kept: dict[tuple[int | None, int | None], LogEvent] = {}
    for event in reversed(evidence.of_kind(EventKind.DEVICE_OOM)):
        place = (event.device, event.rank)
        standing = kept.get(place)
        if standing is None:
            kept[place] = event
        elif not same_request(requested_bytes(standing), requested_bytes(event)):
            break
        elif len(event.fields) > len(standing.fields):
            kept[place] = event
    return tuple(reversed(kept.values()))


def find_incidents(evidence: Evidence) -> tuple[Incident, ...]:
    """Every failure of the input: that of the report first, then its others and those of other runs, latest first.

    What several inputs say of one failure counts once. Times decide where every incident has one; otherwise the order
    of the input does, a run's own records being last.
    """
    mine = _latest_first([_told_by(focus(evidence))])
    if mine and not evidence.runs and _started_again(evidence):
        mine[0] = replace(mine[0], then=N_("another start ran on after it"))
    rest = _latest_first([_told_by(piece) for piece in others(evidence)])
    return _told_once([*mine, *rest])


def same_incident(one: Incident, other: Incident) -> bool:
    """Whether two are the same statement of one failure, whatever else is known of them."""
    return (one.source, one.where, one.cause, one.when_seconds) == (
        other.source,
        other.where,
        other.cause,
        other.when_seconds,
    )


def _started_again(evidence: Evidence) -> bool:
    """Whether a start after the last failure is seen to work: it counts on, or serves."""
    started, works = False, False
    for event in evidence.events:
        if event.kind is EventKind.RECOVERED and event.word("how") == "restart":
            works = True
        elif event.kind in FAILURES and event.fields.get("fatal") is not False:
            started, works = False, False
        elif event.kind is EventKind.ENGINE_START:
            started = True
        elif event.kind in (EventKind.ENGINE_LOAD, EventKind.ENGINE_PHASE) and started:
            works = works or event.kind is EventKind.ENGINE_LOAD or event.word("phase") == "serving"
    return works


def _told_once(incidents: list[Incident]) -> tuple[Incident, ...]:
    """Of those that say the same of the same second the first, unless another failure of that kind came between."""
    told: list[Incident] = []
    latest: dict[tuple[str, str], tuple[int | None, int | None]] = {}
    for incident in incidents:
        second = None if incident.when_seconds is None else round(incident.when_seconds)
        kind = (incident.where, incident.cause)
        size, before = latest.get(kind, (-1, None))
        # One of two records of it may have no time.
        if size != incident.requested_bytes or (None not in (before, second) and before != second):
            told.append(incident)
        latest[kind] = (incident.requested_bytes, second)
    return tuple(told)


def _latest_first(pieces: list[tuple[Incident, ...]]) -> list[Incident]:
    found = [incident for piece in pieces for incident in reversed(piece)]
    if all(incident.when_seconds is not None for incident in found):
        found.sort(key=lambda incident: -(incident.when_seconds or 0.0))
    return found


def _told_by(evidence: Evidence) -> tuple[Incident, ...]:
    """In the order of the input; of equal ones the first is told."""
    of_runs = (found for run in evidence.runs for found in _of_run(run, evidence))
    return _told_once([*_of_snapshots(evidence), *_of_events(evidence), *of_runs])


def _of_snapshots(evidence: Evidence) -> Iterator[Incident]:
    """The last oom event of each device, where no message or record tells of the same request."""
    told = [event.size("requested_bytes") for event in evidence.of_kind(EventKind.DEVICE_OOM)]
    told += [record.requested_bytes for run in evidence.runs for record in run.device_ooms]
    for snapshot in evidence.snapshots:
        last = (latest_oom(snapshot, device) for device in snapshot.devices)
        for oom in in_order([[oom for oom in last if oom is not None]]):
            if any(same_request(oom.requested_bytes, size) for size in told):
                continue
            when = None if oom.time_us is None else oom.time_us / 1e6
            source = str(Source(path=snapshot.path, record=N_("oom event {event}").format(event=oom.event_index)))
            where = device_member(oom.device, snapshot.backend)
            yield Incident(when, where, _FAILURES[EventKind.DEVICE_OOM], source, oom.requested_bytes)


def _of_events(evidence: Evidence) -> Iterator[Incident]:
    """One incident a failure: of those that tell of the same the one that says most."""
    told = list(_each_told(evidence))
    incidents = {id(event): incident for event, incident in told}
    for witnesses in failures_of(event for event, _ in told):
        named = next((incidents[id(one)].where for one in witnesses if one.word("node")), None)
        fullest = incidents[id(max(witnesses, key=says))]
        yield fullest if named is None else replace(fullest, where=named)


def _each_told(evidence: Evidence) -> Iterator[tuple[LogEvent, Incident]]:
    kill = kernels_word(evidence)
    recorded = [one for run in evidence.runs for one in run.device_ooms if one.requested_bytes is not None]
    host_errors = [e for run in evidence.runs for e in run.exceptions if is_host_error(e)]
    told = (e for run in evidence.runs for e in run.exceptions)
    vanished = any(is_vanished_worker(e.exception_type, e.message) for e in told)
    recorded_too: list[LogEvent] = []
    name_member = member_namer(evidence)
    explained = _killed_for_memory(evidence)
    sized = {e.source.path for e in evidence.of_kind(EventKind.DEVICE_OOM) if e.size("requested_bytes") is not None}
    stated = [e for e in evidence.events if e.kind in _STATES_A_KILL or e.fields.get("oom_stated") is True]
    end = None if evidence.runs else other_end(evidence)
    if end is not None:
        yield end, Incident(end.time_seconds, _place(end), words_for(end), str(end.source), is_memory=False)
    for event in evidence.events:
        words = _of_killed_process(event, evidence) or _words_for(event, evidence)
        requested = requested_bytes(event)
        if event is kill and any(was_killed(run) for run in evidence.runs):
            continue  # it is how the run ended, told there
        if words is None or event.fields.get("recovered") is True or event.fields.get("fatal") is False:
            continue
        if event.kind is EventKind.DEVICE_OOM and any(same_request(requested, r.requested_bytes) for r in recorded):
            recorded_too.append(event)
            continue  # the probe's record says the same, exactly
        if is_aftermath(event) and any(not apart_in_time(one, event) for one in recorded_too):
            continue  # its launcher ended the others
        if event.kind is EventKind.DEVICE_OOM and event.source.path in sized and _says_nothing_more(event):
            continue  # a summary of what a fuller message says
        if event.kind is EventKind.EXCEPTION and vanished:
            continue
        if is_bare_kill(event) and any(can_be_one_process(event, other) for other in stated):
            continue  # the end of what another line explains
        if host_errors and (event.kind is EventKind.HOST_ALLOCATION_FAILED or is_aftermath(event)):
            continue  # so does its record of the exception
        where = _place(event)
        if event.kind is EventKind.KERNEL_OOM:
            where = victim(event) or where
        backend = event.word("backend") or "cuda"
        if event.device is not None or (event.rank is None and backend in NAMED_BACKENDS):
            where = name_member(event.device, backend)
        is_memory = _speaks_of_memory(event, explained)
        yield event, Incident(event.time_seconds, where, words, str(event.source), requested, is_memory)


def _says_nothing_more(event: LogEvent) -> bool:
    """`CUDA out of memory. Tried to...`: no size, no device, nobody's name."""
    sizes = [name for name in event.fields if name.endswith("_bytes")]
    return not sizes and event.device is None and event.rank is None


def _words_for(event: LogEvent, evidence: Evidence) -> str | None:
    """What failed, in plain words; None for what is no failure, or none of its own."""
    if event.kind is EventKind.PROCESS_KILLED and not is_bare_kill(event):
        return N_("killed for want of memory, says {value}").format(value=event.word("reported_by") or "the log")
    if event.kind is EventKind.HOST_ALLOCATION_FAILED and event.word("pool") in _OWN_HEAPS:
        return N_("V8's heap is full") if event.word("allocator") == "v8" else N_("the JVM's heap is full")
    if event.kind is EventKind.HOST_ALLOCATION_FAILED and event.word("pool") == "own-limit":
        return N_("{value} reached its own memory limit").format(value=_named(event.word("allocator") or ""))
    if event.kind is EventKind.HOST_ALLOCATION_FAILED and event.word("pool") == "thread":
        return N_("no further thread or process could be started")
    if event.kind is EventKind.MEMORY_LIMIT_HIT and event.fields.get("of_node") is True:
        return N_("the node ran low on memory, says {value}").format(value=event.word("system"))
    if event.size("signal") == signal.SIGBUS and is_bare_kill(event):
        return N_("a process ended with a bus error")
    if event.word("cause") == "probe":
        return N_("killed because its probe failed, says {value}").format(value=event.word("reported_by"))
    if event.fields.get("request_impossible") is True:
        return _FAILURES[EventKind.IMPOSSIBLE_SIZE]
    if event.kind in _FAILURES:
        return _FAILURES[event.kind]
    if event.kind is EventKind.EXCEPTION:
        vanished = is_vanished_worker(event.word("exception_type"), event.word("message"))
        return N_("a worker process of a pool vanished") if vanished else None
    told_by_allocator = evidence.of_kind(EventKind.DEVICE_OOM) or any(run.device_ooms for run in evidence.runs)
    if event.kind is not EventKind.ACCELERATOR_ERROR or event.fields.get("masks_oom") is not True or told_by_allocator:
        return None
    library = event.word("library")
    if event.word("thread") == "pin_memory":
        return _FAILURES[EventKind.PINNED_ALLOCATION_FAILED]
    if library in _DRIVERS:
        return N_("the driver reported out of memory")
    if library:
        return N_("a library ({name}) found no memory left on the device").format(name=library)
    return N_("a library found no memory left on the device")


def _named(program: str) -> str:
    return {"php": "PHP", "clickhouse": "ClickHouse", "duckdb": "DuckDB", "ghc": "GHC", "matlab": "MATLAB"}.get(
        program, program.capitalize()
    )


def _of_killed_process(event: LogEvent, evidence: Evidence) -> str | None:
    """`rank 1, process 4410, killed`: a launcher tells which of its processes was, and the probe which rank that is."""
    pid, rank = event.size("pid"), rank_of(event, evidence)
    known = any(process.pid == pid for run in evidence.runs for process in run.processes)
    if not known or not is_bare_kill(event) or is_aftermath(event) or event.word("cause"):
        return None
    said = N_("process {pid} killed") if rank is None else N_("rank {rank}, process {pid}, killed")
    return said.format(rank=rank, pid=pid)


def rank_of(event: LogEvent, evidence: Evidence) -> int | None:
    """The rank of the process that it names, as its probe told it."""
    pid = event.size("pid")
    known = (process for run in evidence.runs for process in run.processes)
    return next((process.rank for process in known if process.pid == pid and process.rank is not None), None)


def _speaks_of_memory(event: LogEvent, explained: bool) -> bool:
    """Whether it says for itself, or something else does, that memory ran out; a kill and some codes do not."""
    if event.kind in (EventKind.PROCESS_KILLED, EventKind.EXCEPTION):
        return explained or event.fields.get("oom_stated") is True
    if event.kind is EventKind.ACCELERATOR_ERROR:
        code = (event.word("code") or "").lower()
        return "memory" in code or "alloc" in code
    return event.kind not in _OTHER_RESOURCES


def _killed_for_memory(evidence: Evidence) -> bool:
    """Something beside a kill itself says that it was for want of memory."""
    stated = evidence.of_kind(EventKind.KERNEL_OOM, EventKind.MEMORY_LIMIT_HIT)
    counted = any(run.counters.kernel_kills for run in evidence.runs)
    printed = any(
        event.size("count") and event.word("scope") == "cgroup" for event in evidence.of_kind(EventKind.OOM_KILL_COUNT)
    )
    return bool(stated) or counted or printed


def victim(event: LogEvent) -> str | None:
    """`python (pid 4410)`: what a person looks for in his own lists."""
    program, pid = event.word("program"), event.size("pid")
    if pid is None:
        return program
    return f"{program} (pid {pid})" if program else N_("process {pid}").format(pid=pid)


def is_vanished_worker(exception_type: str | None, message: str | None) -> bool:
    """`BrokenProcessPool`: what Python raises where a worker of a pool was killed or ended without a word."""
    return "BrokenProcessPool" in (exception_type or "") or "process pool was terminated abruptly" in (message or "")


def _place(event: LogEvent) -> str:
    if event.rank is not None:
        return N_("rank {rank}").format(rank=event.rank)
    if event.word("node") and event.word("tasks"):
        return N_("task {tasks} on {node}").format(tasks=event.word("tasks"), node=event.word("node"))
    if event.word("step"):
        return N_("step {step}").format(step=event.word("step"))
    return str(event.fields.get("engine") or N_("the program"))


def kernels_word(evidence: Evidence) -> LogEvent | None:
    """The kernel's last line about a kill for want of memory."""
    kills = evidence.of_kind(EventKind.KERNEL_OOM)
    return kills[-1] if kills else None


def of_process(error: ExceptionRecord) -> str:
    """`MemoryError in rank 1, process 4410`."""
    said = N_("{exception_type} in process {pid}")
    if error.rank is not None:
        said = N_("{exception_type} in rank {rank}, process {pid}")
    return said.format(exception_type=error.exception_type, rank=error.rank, pid=error.pid)


def _of_run(run: RunRecord, evidence: Evidence) -> Iterator[Incident]:
    for record in run.device_ooms:
        if record.requested_bytes is None and evidence.of_kind(EventKind.DEVICE_OOM):
            continue  # the message says more
        cause = N_("CUDA out of memory in process {pid}").format(pid=record.pid)
        where = device_member(record.device) if record.device is not None else N_("the program")
        yield Incident(record.time_seconds, where, cause, str(record.source), record.requested_bytes)
    for record in run.library_ooms:
        if not any(e.fields.get("masks_oom") is True for e in evidence.of_kind(EventKind.ACCELERATOR_ERROR)):
            cause = N_("a library or the driver found no memory left on a device, in process {pid}").format(
                pid=record.pid
            )
            yield Incident(record.time_seconds, N_("the program"), cause, str(record.source), is_memory=False)
    own, joined = own_host_errors(run), joined_by(run)
    first = last_host_error(run) if joined else None
    for exception in run.exceptions:
        if exception in own and exception not in joined:
            more = {error.pid for error in joined} if exception is first else ()
            then = N_("{number} more processes ran out after it").format(number=len(more)) if more else ""
            yield Incident(exception.time_seconds, "host", of_process(exception), str(exception.source), then=then)
        elif is_vanished_worker(exception.exception_type, exception.message):
            explained = _killed_for_memory(evidence)
            cause = N_("a worker process of a pool vanished")
            yield Incident(exception.time_seconds, "host", cause, str(exception.source), is_memory=explained)
    ended, here = run.ended_seconds, N_("{path} (exit record)").format(path=run.path)
    word = kernels_word(evidence)
    if was_killed(run) and (word or run.counters.cgroup_kills):
        source = str(word.source) if word else N_("{path} (counters before and after)").format(path=run.path)
        yield Incident(ended, "host", N_("killed by the kernel for want of memory"), source)
    elif was_killed(run) and run.counters.kernel_kills:
        cause = N_("killed, while the kernel killed on this machine for want of memory")
        yield Incident(ended, "host", cause, N_("{path} (counters before and after)").format(path=run.path))
    elif shared_memory_ran_out(run):
        yield Incident(ended, "host", N_("a bus error, with /dev/shm full"), here)
    elif stalled_on_memory(run):
        yield Incident(ended, "host", N_("ended while the machine stalled on memory"), here)
    elif run.signal is not None:
        yield Incident(
            ended, N_("the command"), N_("ended by signal {signal}").format(signal=run.signal), here, is_memory=False
        )
    elif was_killed(run):
        yield Incident(
            ended,
            N_("the command"),
            N_("ended with status {exit_status}").format(exit_status=run.exit_status),
            here,
            is_memory=False,
        )
