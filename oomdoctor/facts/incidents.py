"""Which failures the input holds, latest first, and which device failures belong to the latest."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.diagnosis import Incident
from ..model.events import EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.run import DeviceOomRecord, RunRecord
from .until import is_host_error, was_killed

_FAILURES: dict[EventKind, str] = {
    EventKind.DEVICE_OOM: "device out of memory",
    EventKind.ENGINE_BUFFER_FAILED: "an engine could not allocate a buffer",
    EventKind.ENGINE_KV_NONE: "nothing left for the KV pool",
    EventKind.ENGINE_KV_TOO_SMALL: "the KV pool is too small for one request",
    EventKind.ENGINE_STARTUP_SHORT: "too little free memory at start",
    EventKind.ENGINE_NEIGHBOUR_CHANGED: "free memory changed while the engine profiled",
    EventKind.ENGINE_WARMUP_FAILED: "warm-up failed",
    EventKind.ENGINE_TOKEN_POOL_EXHAUSTED: "a KV token pool ran out",
    EventKind.ENGINE_STATE_POOL_SHORT: "a state pool is too small",
    EventKind.ENGINE_HOST_SHORT: "too little host memory for the engine",
    EventKind.HOST_ALLOCATION_FAILED: "host allocation failed",
    EventKind.PINNED_ALLOCATION_FAILED: "page-locked host memory refused",
    EventKind.PROCESS_KILLED: "process killed",
    EventKind.KERNEL_OOM: "killed by the kernel for want of memory",
    EventKind.MEMORY_LIMIT_HIT: "a memory limit was hit",
    EventKind.SHM_EXHAUSTED: "shared memory ran out",
    EventKind.KERNEL_RESOURCE: "a GPU kernel ran out of on-chip resources",
    EventKind.DEVICE_ASSERT: "device-side assertion",
    EventKind.IMPOSSIBLE_SIZE: "impossible size requested",
    EventKind.SLOT_TABLE_FULL: "request slots ran out",
    EventKind.WORKSPACE_TOO_SMALL: "library workspace too small",
}

_ROUNDING = 0.01
"""Messages round to two decimals of a unit; two figures this close are one request."""


def same_request(first: int | None, second: int | None) -> bool:
    """Whether two figures can be one request, printed with different rounding (unknown fits anything)."""
    if first is None or second is None:
        return True
    return abs(first - second) <= _ROUNDING * max(first, second)


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
        elif not same_request(standing.size("requested_bytes"), event.size("requested_bytes")):
            break
        elif len(event.fields) > len(standing.fields):
            kept[place] = event
    return tuple(reversed(kept.values()))


def latest_device_records(evidence: Evidence) -> tuple[DeviceOomRecord, ...]:
    """The probe's record of the last failure on each device."""
    kept: dict[tuple[int, int], DeviceOomRecord] = {}
    for run in evidence.runs:
        for record in sorted(run.device_ooms, key=lambda record: record.time_seconds):
            kept[(record.device, record.pid)] = record
    return tuple(kept.values())


def find_incidents(evidence: Evidence) -> tuple[Incident, ...]:
    """Every failure of the input, latest first; what several inputs say of one failure counts once.

    Times decide where every incident has one; otherwise the order of the input does, a run's own records being last.
    """
    told: dict[tuple[object, ...], Incident] = {}
    for incident in [*_of_events(evidence), *(found for run in evidence.runs for found in _of_run(run, evidence))]:
        second = None if incident.when_seconds is None else round(incident.when_seconds)
        told.setdefault((incident.where, incident.cause, incident.requested_bytes, second), incident)
    found = list(told.values())
    if all(incident.when_seconds is not None for incident in found):
        found.sort(key=lambda incident: incident.when_seconds or 0.0)
    return tuple(reversed(found))


def _of_events(evidence: Evidence) -> Iterator[Incident]:
    kill = kernels_word(evidence)
    recorded = [record for run in evidence.runs for record in run.device_ooms]
    host_errors = [e for run in evidence.runs for e in run.exceptions if is_host_error(e)]
    for event in evidence.events:
        words = _FAILURES.get(event.kind)
        requested = event.size("requested_bytes")
        if event is kill and any(was_killed(run) for run in evidence.runs):
            continue  # it is how the run ended, told there
        if words is None or event.fields.get("recovered") is True or event.fields.get("fatal") is False:
            continue
        if event.kind is EventKind.DEVICE_OOM and any(same_request(requested, r.requested_bytes) for r in recorded):
            continue  # the probe's record says the same, exactly
        if event.kind is EventKind.HOST_ALLOCATION_FAILED and host_errors:
            continue  # so does its record of the exception
        where = f"cuda:{event.device}" if event.device is not None else _place(event)
        yield Incident(event.time_seconds, where, words, str(event.source), requested)


def _place(event: LogEvent) -> str:
    if event.rank is not None:
        return f"rank {event.rank}"
    return str(event.fields.get("engine") or "the program")


def kernels_word(evidence: Evidence) -> LogEvent | None:
    """The kernel's last line about a kill for want of memory."""
    kills = evidence.of_kind(EventKind.KERNEL_OOM)
    return kills[-1] if kills else None


def _of_run(run: RunRecord, evidence: Evidence) -> Iterator[Incident]:
    for record in run.device_ooms:
        cause = f"CUDA out of memory in process {record.pid}"
        yield Incident(record.time_seconds, f"cuda:{record.device}", cause, str(record.source), record.requested_bytes)
    for exception in run.exceptions:
        if is_host_error(exception):
            cause = f"{exception.exception_type} in process {exception.pid}"
            yield Incident(exception.time_seconds, "host", cause, str(exception.source))
    if was_killed(run) and (kernels_word(evidence) or _kills_counted(run)):
        word = kernels_word(evidence)
        source = str(word.source) if word else f"{run.path} (counters before and after)"
        yield Incident(run.ended_seconds, "host", "killed by the kernel for want of memory", source)
    elif run.signal is not None:
        yield Incident(run.ended_seconds, "the command", f"ended by signal {run.signal}", f"{run.path} (exit record)")


def _kills_counted(run: RunRecord) -> bool:
    """The cgroup's own counter of kills rose during the run."""
    before, after = run.counters.cgroup_oom_kill_before, run.counters.cgroup_oom_kill_after
    return before is not None and after is not None and after > before
