"""The machine's memory, the limits on it and the kernel's counters, as `oomdoctor run` read them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostSample:
    """The machine and the command's process tree at one moment. None: could not be read."""

    time_seconds: float
    total_bytes: int | None = None
    available_bytes: int | None = None
    swap_free_bytes: int | None = None
    tree_rss_bytes: int | None = None
    """Resident bytes of the command and all its descendants (shared pages counted once where PSS is readable)."""
    tree_virtual_bytes: int | None = None
    """Largest virtual size of one process of the tree (what RLIMIT_AS limits)."""
    processes: int | None = None
    cgroup_used_bytes: int | None = None
    pressure_full_avg10: float | None = None
    """PSI memory 'full avg10', in percent."""
    shm_free_bytes: int | None = None


@dataclass(frozen=True)
class HostLimits:
    """The limits the command ran under. None: not readable, or (when named in `unlimited`) without limit."""

    memory_total_bytes: int | None = None
    cgroup_path: str | None = None
    cgroup_version: int | None = None
    cgroup_limit_bytes: int | None = None
    address_space_limit_bytes: int | None = None
    """RLIMIT_AS of the command."""
    data_limit_bytes: int | None = None
    """RLIMIT_DATA of the command."""
    shm_total_bytes: int | None = None
    swap_total_bytes: int | None = None
    unlimited: tuple[str, ...] = ()


@dataclass(frozen=True)
class OomCounters:
    """The cgroup's and kernel's counters before and after the command. None: not readable."""

    cgroup_oom_before: int | None = None
    cgroup_oom_after: int | None = None
    cgroup_oom_kill_before: int | None = None
    cgroup_oom_kill_after: int | None = None
    system_oom_kill_before: int | None = None
    """oom_kill in /proc/vmstat."""
    system_oom_kill_after: int | None = None
    cgroup_failcnt_before: int | None = None
    """cgroup v1 memory.failcnt / v2 memory.events max."""
    cgroup_failcnt_after: int | None = None

    @property
    def cgroup_ooms(self) -> int | None:
        """Out-of-memory events of the cgroup during the run."""
        return _risen(self.cgroup_oom_before, self.cgroup_oom_after)

    @property
    def cgroup_kills(self) -> int | None:
        """Processes that the cgroup's limit killed during the run."""
        return _risen(self.cgroup_oom_kill_before, self.cgroup_oom_kill_after)

    @property
    def system_kills(self) -> int | None:
        """Processes that the kernel killed for want of memory during the run, on the whole machine."""
        return _risen(self.system_oom_kill_before, self.system_oom_kill_after)

    @property
    def kernel_kills(self) -> int | None:
        """Processes of the command that the kernel killed for want of memory, whoever's; None: not known.

        Its cgroup counts them whether its own limit or the machine's memory ran out. Only where it does not is the
        machine's count taken, to which every other container adds.
        """
        return self.system_kills if self.cgroup_kills is None else self.cgroup_kills

    @property
    def limit_hits(self) -> int | None:
        """Times the cgroup's own limit was reached: with nothing left to reclaim, where that is counted (v2)."""
        hits = self.cgroup_ooms
        return _risen(self.cgroup_failcnt_before, self.cgroup_failcnt_after) if hits is None else hits


def _risen(before: int | None, after: int | None) -> int | None:
    """By how much a counter rose; one that fell belongs to another cgroup, and rose by nothing."""
    return None if before is None or after is None else max(0, after - before)
