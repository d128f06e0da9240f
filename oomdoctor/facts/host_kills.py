"""host.*: who ended processes of the host for want of memory, and whose memory it was that ran out."""

from __future__ import annotations

import re
import signal

from ..model.events import EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.source import Source
from ..model.units import GIB
from .deriver import computed
from .incidents import victim

_JOB_SYSTEMS = {"slurm", "kubernetes", "docker", "ray", "systemd"}
_CONTAINER_SYSTEMS = {"slurm", "kubernetes", "docker", "container"}
_WATCHERS = {"systemd-oomd", "earlyoom", "nohang"}
"""They kill before the machine has run out."""
_AT_LIMIT = 0.97
"""Of its limit a unit that was killed for it has used this much, as systemd rounds."""
_RANK = re.compile(r"^ray::\w{0,80}(?:[Ww]orker(?!:idle)|Rank|Trainer|Engine|LLM)")


def put_kills(evidence: Evidence, facts: FactSet) -> None:
    """What job systems and containers state, then watchers, the kernel and its counters."""
    _put_jobs(evidence, facts)
    _put_stated_kills(evidence, facts)
    _put_kernel(evidence, facts)
    _put_counters(evidence, facts)
    _put_kill_above_group(facts)


def _put_jobs(evidence: Evidence, facts: FactSet) -> None:
    """A job system's own statement. What Ray watches, and what the kubelet evicts for, is the whole node's memory."""
    for event in reversed(evidence.of_kind(EventKind.MEMORY_LIMIT_HIT)):
        system, of_node = event.word("system") or "other", event.fields.get("of_node") is True
        facts.put("host.job_limit_hit", True, event.source)
        facts.put("host.job_system", system if system in _JOB_SYSTEMS else "other", event.source)
        facts.put("host.job_limit_bytes", event.size("limit_bytes"), event.source)
        facts.put("host.job_used_bytes", event.size("used_bytes"), event.source)
        facts.put("host.job_sampled_bytes", event.size("sampled_bytes"), event.source)
        facts.put("host.limit_is_machine", of_node, event.source)
        if of_node:
            facts.put("host.total_bytes", event.size("total_bytes"), event.source)
            facts.put("host.available_bytes", event.size("available_bytes"), event.source)
            facts.put("host.eviction_threshold_bytes", event.size("threshold_bytes"), event.source)
            facts.put("host.evicted", event.word("program"), event.source)
            facts.put("host.evicted_used_bytes", event.size("container_used_bytes"), event.source)
            facts.put("host.evicted_request_bytes", event.size("container_request_bytes"), event.source)
        put_equal_workers(event.fields.get("top_processes"), event.source, facts)


def _put_stated_kills(evidence: Evidence, facts: FactSet) -> None:
    """`OOMKilled` and its like: the container's or job's own memory limit, as its system states."""
    latest_first = tuple(reversed(evidence.of_kind(EventKind.PROCESS_KILLED)))
    for event in sorted(latest_first, key=lambda kill: kill.word("reported_by") not in _WATCHERS):
        if event.size("signal") == signal.SIGBUS:
            facts.put("host.bus_error", victim(event), event.source)
        if event.fields.get("oom_stated") is not True:
            continue
        system = event.word("reported_by")
        facts.put("exit.restarts", event.size("restarts") or None, event.source)
        if system in _CONTAINER_SYSTEMS or (system == "systemd" and _at_its_limit(event)):
            facts.put("host.job_limit_hit", True, event.source)
            facts.put("host.job_system", system if system in _JOB_SYSTEMS else "other", event.source)
            facts.put("host.job_limit_bytes", event.size("limit_bytes"), event.source)
            facts.put("host.job_container", event.word("container"), event.source)
            facts.put("host.limit_is_machine", False, event.source)
        elif system == "systemd":
            facts.put("host.oom_killer", "systemd", event.source)
        elif event.fields.get("of_node") is True:
            facts.put("host.limit_is_machine", True, event.source)
        elif system in _WATCHERS:
            _put_watcher(event, facts)


def _at_its_limit(event: LogEvent) -> bool:
    limit, peak = event.size("limit_bytes"), event.size("peak_bytes")
    return limit is not None and peak is not None and peak >= _AT_LIMIT * limit


def _put_watcher(event: LogEvent, facts: FactSet) -> None:
    facts.put("host.oom_killer", "watcher", event.source)
    facts.put("host.oom_killer_victim", victim(event), event.source)
    facts.put("host.oom_killer_victim_bytes", event.size("rss_bytes"), event.source)
    facts.put("host.oom_killer_pressure", event.number("pressure"), event.source)
    facts.put("host.available_bytes", event.size("available_bytes"), event.source)
    total, used = event.size("total_bytes"), event.size("used_bytes")
    facts.put("host.total_bytes", total, event.source)
    if total and used is not None:
        facts.put("host.used_ratio", used / total, event.source)


def put_equal_workers(table: object, source: Source, facts: FactSet) -> None:
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
    """The kernel's own lines; the kubelet retells them without figures, and older ones call any kill the machine's."""
    latest_first = tuple(reversed(evidence.of_kind(EventKind.KERNEL_OOM)))
    for event in sorted(latest_first, key=_is_retold):
        if _is_retold(event) and facts.value("host.kernel_killed") is not None:
            continue
        constraint = event.word("constraint")
        facts.put("host.kernel_killed", constraint if constraint in ("global", "memcg") else None, event.source)
        facts.put("host.kernel_kill_retold", True if _is_retold(event) else None, event.source)
        if constraint not in ("global", "memcg"):
            facts.put("host.oom_killer", "kernel", event.source)
        facts.put("host.kernel_victim", victim(event), event.source)
        resident = event.size("anon_rss_bytes")
        facts.put(
            "host.kernel_victim_bytes", event.size("resident_bytes") if resident is None else resident, event.source
        )
        facts.put("host.cgroup_limit_bytes", event.size("limit_bytes"), event.source)
        facts.put("host.cgroup_used_bytes", event.size("usage_bytes"), event.source)
        for name in ("anonymous", "file", "shared", "kernel"):
            facts.put(f"host.cgroup_{name}_bytes", event.size(f"{name}_bytes"), event.source)
        facts.put("host.limit_counts_swap", True if event.fields.get("swap_counts") is True else None, event.source)
        facts.put("host.platform", "macos" if event.word("platform") == "macos" else None, event.source)


def _is_retold(event: LogEvent) -> bool:
    return event.word("reported_by") == "kubelet"


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
