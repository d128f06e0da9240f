"""What has to be read before the command starts, to compare the end with. It delays the start: kept light."""

from __future__ import annotations

from dataclasses import dataclass

from ..collect.cgroup import CgroupCounters, MemoryCgroup, find_memory_cgroup, read_system_oom_kills
from ..collect.kernel_log import KernelLog


@dataclass(frozen=True)
class Baseline:
    """The counters before, and a place in the kernel log to read on from."""

    group: MemoryCgroup | None
    counters: CgroupCounters
    system_oom_kills: int | None
    kernel: KernelLog


def read_baseline() -> Baseline:
    """Look now; never raises."""
    group = find_memory_cgroup()
    counters = group.counters() if group else CgroupCounters()
    return Baseline(group, counters, read_system_oom_kills(), KernelLog())
