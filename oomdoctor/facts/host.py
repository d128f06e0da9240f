"""host.*: memory of the machine, of its cgroups and of one process, from samples, limits, counters and messages."""

from __future__ import annotations

import re

from ..language import N_
from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.source import Source
from ..model.units import GIB, format_bytes
from .activity import memory_exceptions
from .deriver import computed
from .frames import describe, frames_of, users_frame
from .host_run import put_process_limit_reached, put_run
from .incidents import victim
from .tensor_size import requested_bytes

_ALLOCATORS = {"torch-cpu", "numpy", "python", "malloc", "fork", "windows-paging", "llama.cpp"}
_JOB_SYSTEMS = {"slurm", "kubernetes", "docker", "ray", "systemd"}
_CONTAINER_SYSTEMS = {"slurm", "kubernetes", "docker", "container"}
_WATCHERS = {"systemd-oomd", "earlyoom"}
"""They kill before the machine has run out."""
_RANK = re.compile(r"^ray::\w{0,80}(?:[Ww]orker(?!:idle)|Rank|Trainer|Engine|LLM)")


def derive(evidence: Evidence, facts: FactSet) -> None:
    """A run's own records first, then what the log says."""
    for run in reversed(evidence.runs):
        put_run(run, facts)
    _put_messages(evidence, facts)
    _put_jobs(evidence, facts)
    _put_stated_kills(evidence, facts)
    _put_kernel(evidence, facts)
    _put_counters(evidence, facts)
    _put_failing_line(evidence, facts)
    _put_kill_above_group(facts)
    put_process_limit_reached(evidence.runs, facts)
    _put_bound_hit(facts)


def _put_messages(evidence: Evidence, facts: FactSet) -> None:
    for event in reversed(evidence.of_kind(EventKind.HOST_ALLOCATION_FAILED)):
        name = event.word("allocator") or "other"
        if name == "shm":
            facts.put("host.shm_exhausted", True, event.source)
            continue
        facts.put("host.memory_error", True, event.source)
        facts.put("host.failed_request_bytes", requested_bytes(event), event.source)
        facts.put("host.failed_allocator", name if name in _ALLOCATORS else "other", event.source)
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
    for event in evidence.of_kind(EventKind.HOST_STATE):
        facts.put("host.total_bytes", event.size("total_bytes"), event.source)
        percent = event.number("percent")
        if percent is not None:
            facts.put("host.used_ratio", percent / 100, event.source)
        facts.put("host.platform", "wsl" if event.word("platform") == "wsl" else None, event.source)
        facts.put("oom.hidden_total_bytes", event.size("device_total_bytes"), event.source)
        _put_equal_workers(event.fields.get("top_processes"), event.source, facts)
    warnings = evidence.of_kind(EventKind.HOST_LARGE_ALLOCATION)
    if warnings:
        facts.put("host.large_allocations", len(warnings), warnings[-1].source)
    for event in evidence.of_kind(EventKind.PROCESS_KILLED):
        if event.word("reported_by") == "dataloader":
            facts.put("host.worker_died", True, event.source)
    for event in evidence.of_kind(EventKind.EXCEPTION):
        if event.word("exception_type") in ("MemoryError", "numpy.core._exceptions._ArrayMemoryError"):
            facts.put("host.memory_error", True, event.source)


def _put_jobs(evidence: Evidence, facts: FactSet) -> None:
    """A job system's own statement. Ray watches the whole node: what it hit is the machine's memory."""
    for event in reversed(evidence.of_kind(EventKind.MEMORY_LIMIT_HIT)):
        system = event.word("system") or "other"
        facts.put("host.job_limit_hit", True, event.source)
        facts.put("host.job_system", system if system in _JOB_SYSTEMS else "other", event.source)
        facts.put("host.job_limit_bytes", event.size("limit_bytes"), event.source)
        facts.put("host.job_used_bytes", event.size("used_bytes"), event.source)
        facts.put("host.limit_is_machine", system == "ray", event.source)
        if system == "ray":
            facts.put("host.total_bytes", event.size("total_bytes"), event.source)
        _put_equal_workers(event.fields.get("top_processes"), event.source, facts)


def _put_stated_kills(evidence: Evidence, facts: FactSet) -> None:
    """`OOMKilled` and its like: the container's or job's own memory limit, as its system states."""
    latest_first = tuple(reversed(evidence.of_kind(EventKind.PROCESS_KILLED)))
    for event in sorted(latest_first, key=lambda kill: kill.word("reported_by") not in _WATCHERS):
        system = event.word("reported_by")
        if event.fields.get("oom_stated") is True and system in _CONTAINER_SYSTEMS:
            facts.put("host.job_limit_hit", True, event.source)
            facts.put("host.job_system", system if system in _JOB_SYSTEMS else "other", event.source)
            facts.put("host.limit_is_machine", False, event.source)
        elif event.fields.get("oom_stated") is True and (system in _WATCHERS or system == "systemd"):
            facts.put("host.oom_killer", "watcher" if system in _WATCHERS else "systemd", event.source)
            program = event.word("program")
            facts.put("host.oom_killer_victim", program if system in _WATCHERS else None, event.source)


def _put_equal_workers(table: object, source: Source, facts: FactSet) -> None:
    """Two or more processes within 10 % of the largest: every rank or worker holds its own copy.

    Tasks that do the same work are as large as one another because each works on a part: they are no copies.
    """
    rows = [row for row in table if isinstance(row, tuple) and len(row) > 2] if isinstance(table, tuple) else []
    sizes = sorted((row[1] for row in rows if isinstance(row[1], int) and not _is_task(row[2])), reverse=True)
    if not sizes:
        return
    equal = sum(size >= 0.9 * sizes[0] for size in sizes)
    facts.put("host.equal_workers", equal >= 2 and sizes[0] >= GIB // 2, source)
    if equal >= 2:
        facts.put("host.workers", equal, source)


def _is_task(command: object) -> bool:
    return isinstance(command, str) and command.startswith("ray::") and _RANK.match(command) is None


def _put_kernel(evidence: Evidence, facts: FactSet) -> None:
    for event in reversed(evidence.of_kind(EventKind.KERNEL_OOM)):
        constraint = event.word("constraint")
        facts.put("host.kernel_killed", constraint if constraint in ("global", "memcg") else None, event.source)
        if constraint not in ("global", "memcg"):
            facts.put("host.oom_killer", "kernel", event.source)
        facts.put("host.kernel_victim", victim(event), event.source)
        facts.put("host.kernel_victim_bytes", event.size("anon_rss_bytes"), event.source)
        facts.put("host.cgroup_limit_bytes", event.size("limit_bytes"), event.source)
        facts.put("host.cgroup_used_bytes", event.size("usage_bytes"), event.source)
        facts.put("host.limit_counts_swap", True if event.fields.get("swap_counts") is True else None, event.source)


def _put_counters(evidence: Evidence, facts: FactSet) -> None:
    """The kernel's own files as pasted: the last print of each counts. That of the machine counts from its start."""
    for event in reversed(evidence.of_kind(EventKind.OOM_KILL_COUNT)):
        count = event.size("count")
        if event.word("scope") == "cgroup":
            facts.put("host.cgroup_oom_kills", count, event.source)
        elif count == 0:
            facts.put("host.system_oom_kills", count, event.source)
    for event in reversed(evidence.of_kind(EventKind.CGROUP_LIMIT)):
        facts.put("host.cgroup_limit_bytes", event.size("limit_bytes"), event.source)


def _put_kill_above_group(facts: FactSet) -> None:
    """The group counts a kill, but its own limit was never reached: the machine ran out, or a limit further up."""
    kills, hits = facts.value("host.cgroup_oom_kills"), facts.value("host.cgroup_limit_hits")
    stated = facts.value("host.kernel_killed") is not None or facts.value("host.job_limit_hit") is True
    if isinstance(kills, int) and kills > 0 and hits == 0 and not stated:
        source = computed("host.cgroup_oom_kills", "host.cgroup_limit_hits")
        facts.put("host.kill_above_group", True, source)
        facts.put("host.oom_killer", "kernel", source)


def _put_failing_line(evidence: Evidence, facts: FactSet) -> None:
    if not facts.value("host.memory_error"):
        return
    for event in reversed(memory_exceptions(evidence)):
        frame = users_frame(frames_of(event))
        if frame is not None:
            facts.put("host.failing_line", describe(frame), event.source)


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
