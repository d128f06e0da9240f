"""The machine and the command's process tree, from outside. Nothing here raises: what cannot be read is None."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..model.host import HostLimits, HostSample
from .cgroup import MemoryCgroup, find_memory_cgroup, read_pressure

if TYPE_CHECKING:
    import psutil

Got = TypeVar("Got")

PSS_BUDGET_SECONDS = 0.02
"""A look at shared pages walks page tables while holding the process's memory map; longer than this is not cheap."""


@dataclass(frozen=True)
class Tree:
    """The command and its descendants at one moment."""

    pids: tuple[int, ...] = ()
    resident_bytes: int | None = None
    virtual_bytes: int | None = None
    """Largest of one process."""
    address_space_limit_bytes: int | None = None
    """Smallest RLIMIT_AS of one process; None: no limit."""
    data_limit_bytes: int | None = None


_DEEPEST_TREE = 64


@dataclass
class TreeReader:
    """Reads the tree below one process again and again; remembers only whether counting shared pages is affordable."""

    root: int
    shared_once: bool = True
    """Shared pages are counted once (PSS); False: a page shared by n processes is counted n times."""
    _known: dict[int, psutil.Process] = field(default_factory=dict)

    def read(self) -> Tree:
        """The tree now; empty when the root has ended."""
        import psutil

        try:
            root = self._known.get(self.root) or psutil.Process(self.root)
            processes = [root, *root.children(recursive=True)]
        except (psutil.Error, OSError):
            return Tree()
        self._known = {process.pid: process for process in processes}
        memory = {process.pid: used for process in processes if (used := _quietly(process.memory_info)) is not None}
        resident: int | None = sum(used.rss for used in memory.values()) if memory else None
        if len(memory) > 1 and self.shared_once:
            resident = self._proportional({pid: used.rss for pid, used in memory.items()})
        return Tree(
            pids=tuple(memory),
            resident_bytes=resident,
            virtual_bytes=max((used.vms for used in memory.values()), default=None),
            address_space_limit_bytes=_smallest_limit(tuple(memory), resource.RLIMIT_AS),
            data_limit_bytes=_smallest_limit(tuple(memory), resource.RLIMIT_DATA),
        )

    def holds(self, pid: int) -> bool:
        """Whether a process is in the tree just now: it may have been started since the tree was read."""
        import psutil

        for _ in range(_DEEPEST_TREE):
            if pid == self.root:
                return True
            try:
                pid = psutil.Process(pid).ppid()
            except (psutil.Error, OSError):
                return False
            if pid <= 1:
                return False
        return False

    def _proportional(self, resident: dict[int, int]) -> int:
        begun = time.monotonic()
        total = 0
        for pid, rss in resident.items():
            pss = _proportional_bytes(pid)
            total += rss if pss is None else pss
            if pss is None or time.monotonic() - begun > PSS_BUDGET_SECONDS:
                self.shared_once = False
                return sum(resident.values())
        return total


def read_host(tree: Tree, group: MemoryCgroup | None = None, root: Path = Path("/")) -> HostSample:
    """The machine now, with what is already known of the tree."""
    memory = _meminfo(root)
    shm = _quietly(lambda: os.statvfs(root / "dev/shm"))
    return HostSample(
        time_seconds=time.time(),
        total_bytes=memory.get("MemTotal"),
        available_bytes=memory.get("MemAvailable"),
        swap_free_bytes=memory.get("SwapFree"),
        tree_rss_bytes=tree.resident_bytes,
        tree_virtual_bytes=tree.virtual_bytes,
        processes=len(tree.pids) or None,
        cgroup_used_bytes=group.used() if group else None,
        pressure_full_avg10=read_pressure(root),
        shm_free_bytes=shm.f_bavail * shm.f_frsize if shm else None,
    )


def read_limits(pid: int | None = None, root: Path = Path("/")) -> HostLimits:
    """The limits that process `pid` (None: this one) runs under."""
    memory = _meminfo(root)
    group = find_memory_cgroup(pid or "self", root)
    limit = group.limit()[0] if group else None
    address, data = _own_limit(pid, resource.RLIMIT_AS), _own_limit(pid, resource.RLIMIT_DATA)
    shm = _quietly(lambda: os.statvfs(root / "dev/shm"))
    unlimited = (
        *(("cgroup_limit_bytes",) if group and limit is None else ()),
        *(("address_space_limit_bytes",) if address == resource.RLIM_INFINITY else ()),
        *(("data_limit_bytes",) if data == resource.RLIM_INFINITY else ()),
    )
    return HostLimits(
        memory_total_bytes=memory.get("MemTotal"),
        cgroup_path=group.path if group else None,
        cgroup_version=group.version if group else None,
        cgroup_limit_bytes=limit,
        address_space_limit_bytes=None if address in (None, resource.RLIM_INFINITY) else address,
        data_limit_bytes=None if data in (None, resource.RLIM_INFINITY) else data,
        shm_total_bytes=shm.f_blocks * shm.f_frsize if shm else None,
        swap_total_bytes=memory.get("SwapTotal"),
        unlimited=unlimited,
    )


def describe_host() -> dict[str, str]:
    """The machine in words, for the report's head."""
    machine = os.uname()
    return {
        "platform": machine.sysname.lower(),
        "kernel": machine.release,
        "machine": machine.machine,
        "cpus": str(os.cpu_count() or "unknown"),
        "node": machine.nodename,
    }


def _meminfo(root: Path) -> dict[str, int]:
    """/proc/meminfo in bytes."""
    try:
        lines = (root / "proc/meminfo").read_text("ascii", "replace").splitlines()
    except OSError:
        return {}
    sizes: dict[str, int] = {}
    for line in lines:
        words = line.replace(":", " ").split()
        if len(words) == 3 and words[1].isdecimal() and words[2] == "kB":
            sizes[words[0]] = int(words[1]) * 1024
    return sizes


def _proportional_bytes(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as stream:
            for line in stream:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None


def _own_limit(pid: int | None, kind: int) -> int | None:
    """The soft limit of a process in bytes; None: not readable."""
    return _quietly(lambda: resource.prlimit(pid or 0, kind)[0])


def _smallest_limit(pids: tuple[int, ...], kind: int) -> int | None:
    limits = [limit for pid in pids if (limit := _own_limit(pid, kind)) not in (None, resource.RLIM_INFINITY)]
    return min((limit for limit in limits if limit is not None), default=None)


def _quietly(call: Callable[[], Got]) -> Got | None:
    """The answer; None when the process has gone or the system refuses."""
    try:
        return call()
    except Exception:
        return None
