"""host.*: memory of the machine and of one process, from samples, limits, counters and messages."""

from __future__ import annotations

import re

from ..language import N_
from ..model.events import EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.source import Source
from ..model.units import format_bytes, parse_size
from .activity import memory_exceptions
from .deriver import computed
from .frames import describe, frames_of, users_frame
from .host_kills import put_equal_workers, put_kills
from .host_run import put_process_limit_reached, put_run
from .tensor_size import requested_bytes

_ALLOCATORS = {"torch-cpu", "numpy", "python", "malloc", "fork", "windows-paging", "llama.cpp", "java", "v8"}
_HEAP_POOLS = {"heap", "metaspace", "direct", "thread", "native", "own-limit"}
_OF_A_DEVICE = re.compile(r"\bCUDA|\bcuda[A-Z_]|\bRMM\b|\brmm/|\bGPU\b|\bhip[A-Z]")
"""A MemoryError's message about the memory of a device, as libraries for devices raise it."""


def derive(evidence: Evidence, facts: FactSet) -> None:
    """A run's own records first, then what the log says."""
    for run in reversed(evidence.runs):
        put_run(run, facts)
    _put_messages(evidence, facts)
    _put_heap_limit(evidence, facts)
    put_kills(evidence, facts)
    _put_failing_line(evidence, facts)
    put_process_limit_reached(evidence.runs, facts)
    _put_bound_hit(facts)
    _put_shortfall(facts)


def _put_messages(evidence: Evidence, facts: FactSet) -> None:
    for event in reversed(evidence.of_kind(EventKind.HOST_ALLOCATION_FAILED)):
        name = event.word("allocator") or "other"
        if name == "shm":
            facts.put("host.shm_exhausted", True, event.source)
            continue
        facts.put("host.memory_error", True, event.source)
        facts.put("host.failed_request_bytes", requested_bytes(event), event.source)
        facts.put("host.failed_allocator", name if name in _ALLOCATORS else "other", event.source)
        _put_heap(event, facts)
        shape = event.fields.get("shape")
        if isinstance(shape, tuple):
            facts.put("host.failed_shape", str(shape), event.source)
        if name == "windows-paging":
            facts.put("host.platform", "windows", event.source)
    for event in reversed(evidence.of_kind(EventKind.PINNED_ALLOCATION_FAILED)):
        facts.put("host.pinned_failed", True, event.source)
        facts.put("host.pinned_request_bytes", event.size("requested_bytes"), event.source)
        if event.fields.get("recovered") is True:
            facts.put("host.pinned_recovered", True, event.source)
        if event.fields.get("reason_unstated") is True:
            facts.put("host.pinned_reason_unstated", True, event.source)
    for event in evidence.of_kind(EventKind.ACCELERATOR_ERROR):
        if event.word("thread") == "pin_memory":
            facts.put("host.pinned_failed", True, event.source)
    if facts.value("activity.operation") == "pinned-memory" and facts.value("oom.stated_by_driver_only"):
        facts.put("host.pinned_failed", True, computed("activity.operation", "oom.stated_by_driver_only"))
    short = evidence.of_kind(EventKind.SHM_EXHAUSTED)
    for event in short:
        facts.put("host.shm_exhausted", True, event.source)
    if short and all(event.fields.get("reason_unstated") is True for event in short):
        facts.put("host.shm_reason_unstated", True, short[-1].source)
    for event in reversed(evidence.of_kind(EventKind.HOST_STATE)):
        facts.put("host.total_bytes", event.size("total_bytes"), event.source)
        facts.put("host.shm_total_bytes", event.size("shm_total_bytes"), event.source)
        percent = event.number("percent")
        if percent is not None:
            facts.put("host.used_ratio", percent / 100, event.source)
        facts.put("host.platform", "wsl" if event.word("platform") == "wsl" else None, event.source)
        facts.put("oom.hidden_total_bytes", event.size("device_total_bytes"), event.source)
        put_equal_workers(event.fields.get("top_processes"), event.source, facts)
    warnings = evidence.of_kind(EventKind.HOST_LARGE_ALLOCATION)
    if warnings:
        facts.put("host.large_allocations", len(warnings), warnings[-1].source)
    for event in evidence.of_kind(EventKind.PROCESS_KILLED):
        if event.word("reported_by") == "dataloader":
            facts.put("host.worker_died", True, event.source)
    for event in evidence.of_kind(EventKind.EXCEPTION):
        is_memory_error = event.word("exception_type") in ("MemoryError", "numpy.core._exceptions._ArrayMemoryError")
        if is_memory_error and not _OF_A_DEVICE.search(event.word("message") or ""):
            facts.put("host.memory_error", True, event.source)


def _put_heap(event: LogEvent, facts: FactSet) -> None:
    """What a runtime says of its own heap: the JVM and V8 refuse at a limit of theirs, whatever the machine has."""
    pool = event.word("pool")
    if pool is None or (event.word("allocator") not in ("java", "v8") and pool not in ("thread", "own-limit")):
        return
    facts.put("host.failed_pool", pool if pool in _HEAP_POOLS else None, event.source)
    facts.put("host.heap_used_bytes", event.size("used_bytes"), event.source)
    facts.put("host.heap_limit_bytes", event.size("limit_bytes"), event.source)
    own = event.word("allocator") if pool == "own-limit" else None
    facts.put("host.heap_program", event.word("program") or own, event.source)


def _put_heap_limit(evidence: Evidence, facts: FactSet) -> None:
    """As the launch line sets it."""
    found = _HEAP_OPTION.search(evidence.command or "")
    if found is None or facts.value("host.failed_pool") != "heap":
        return
    text = f"{found['mib']} MiB" if found["mib"] else f"{found['size']}{found['unit'] or ''}"
    facts.put("host.heap_limit_bytes", parse_size(text), Source(path=N_("command line")))


_HEAP_OPTION = re.compile(
    r"(?:-Xmx|--(?:driver|executor)-memory[= ]|spark\.(?:driver|executor)\.memory=)"
    r"(?P<size>\d{1,15})(?P<unit>[kmgtKMGT])?"
    r"|--max[-_]old[-_]space[-_]size=(?P<mib>\d{1,9})"
)


def _put_failing_line(evidence: Evidence, facts: FactSet) -> None:
    if not facts.value("host.memory_error"):
        return
    for event in reversed(memory_exceptions(evidence)):
        frame = users_frame(frames_of(event))
        if frame is not None:
            facts.put("host.failing_line", describe(frame), event.source)


def _put_shortfall(facts: FactSet) -> None:
    """By the bound that was met: the process's own, a heap's, a job's, else what the machine had available."""
    request = "host.failed_request_bytes"
    pairs: list[tuple[tuple[str, ...], str]]
    if facts.value("host.process_limit_reached") is True:
        pairs = [((request, "host.failing_process_bytes"), "host.process_limit_bytes")]
    elif facts.value("host.failed_pool") is not None:
        pairs = [((request, "host.heap_used_bytes"), "host.heap_limit_bytes")]
    else:
        pairs = [(("host.job_used_bytes",), "host.job_limit_bytes"), ((request,), "host.available_bytes")]
    for wanted, had in pairs:
        sizes = [facts.size(name) for name in wanted]
        bound = facts.size(had)
        if bound is None or any(size is None for size in sizes):
            continue
        lacking = sum(size for size in sizes if size is not None) - bound
        if lacking > 0:
            facts.put("host.shortfall_bytes", lacking, computed(*wanted, had))
            return


def _put_bound_hit(facts: FactSet) -> None:
    """Only a limit that is known to have stopped something is named."""
    process, cgroup = facts.value("host.process_limit_bytes"), facts.value("host.cgroup_limit_bytes")
    kills = facts.value("host.cgroup_oom_kills")
    counted = isinstance(kills, int) and kills > 0 and facts.value("host.kill_above_group") is None
    if facts.value("host.process_limit_reached") is True and isinstance(process, int):
        words, names = (
            N_("the process's own limit of {process}").format(process=format_bytes(process)),
            ["host.process_limit_reached"],
        )
    elif (counted or facts.value("host.kernel_killed") == "memcg") and isinstance(cgroup, int):
        cause = "host.cgroup_oom_kills" if counted else "host.kernel_killed"
        words, names = (
            N_("the cgroup's limit of {cgroup}").format(cgroup=format_bytes(cgroup)),
            [cause, "host.cgroup_limit_bytes"],
        )
    else:
        return
    facts.put("host.bound_hit", words, computed(*names))
