"""Memory control groups (v1 and v2): which one a process is in, its effective limit, its use and its kill counters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_V1_UNLIMITED = 1 << 60
"""Version 1 writes 'no limit' as the largest page-aligned number; no machine comes near this."""


@dataclass(frozen=True)
class CgroupCounters:
    """What a group counted since it was made. None: not readable, or not counted by this kernel."""

    oom: int | None = None
    """Times the limit was hit with nothing left to reclaim (v2 only)."""
    oom_kill: int | None = None
    """Processes of the group that the kernel's out-of-memory killer ended."""
    failcnt: int | None = None
    """Times the limit was hit (v1 memory.failcnt, v2 memory.events max)."""


@dataclass(frozen=True)
class MemoryCgroup:
    """The memory control group of a process."""

    version: int
    path: str
    """As /proc/<pid>/cgroup names it."""
    directory: Path
    top: Path
    """Where the hierarchy is mounted; ancestors are looked at up to here."""

    def limit(self) -> tuple[int | None, MemoryCgroup | None]:
        """The effective limit in bytes (smallest over the ancestors) and the group that sets it; None: no limit."""
        smallest: int | None = None
        setter: MemoryCgroup | None = None
        name = "memory.max" if self.version == 2 else "memory.limit_in_bytes"
        for group in self._with_ancestors():
            limit = _number(group.directory / name)
            if limit is not None and limit < _V1_UNLIMITED and (smallest is None or limit < smallest):
                smallest, setter = limit, group
        return smallest, setter

    def used(self) -> int | None:
        """Bytes charged to the group that sets the limit (this one, where none does), page cache included."""
        _, setter = self.limit()
        name = "memory.current" if self.version == 2 else "memory.usage_in_bytes"
        return _number((setter or self).directory / name)

    def file_bytes(self) -> int | None:
        """Of what is charged to the group that sets the limit: cached files, which go when room is needed."""
        _, setter = self.limit()
        table = _table((setter or self).directory / "memory.stat")
        prefix = "" if self.version == 2 else "total_"
        sizes = [table.get(f"{prefix}{name}_file") for name in ("active", "inactive")]
        known = [size for size in sizes if size is not None]
        return sum(known) if known else None

    def counters(self) -> CgroupCounters:
        """The counters now: kills of this group; hits of the limit from the group that sets it."""
        _, setter = self.limit()
        limited = setter or self
        if self.version == 2:
            events = _table(limited.directory / "memory.events")
            own = _table(self.directory / "memory.events")
            return CgroupCounters(oom=events.get("oom"), oom_kill=own.get("oom_kill"), failcnt=events.get("max"))
        control = _table(self.directory / "memory.oom_control")
        return CgroupCounters(oom_kill=control.get("oom_kill"), failcnt=_number(limited.directory / "memory.failcnt"))

    def _with_ancestors(self) -> Iterator[MemoryCgroup]:
        directory, path = self.directory, self.path
        while True:
            yield MemoryCgroup(self.version, path, directory, self.top)
            if directory == self.top or self.top not in directory.parents:
                return
            directory, path = directory.parent, path.rpartition("/")[0] or "/"


def find_memory_cgroup(pid: int | str = "self", root: Path = Path("/")) -> MemoryCgroup | None:
    """The memory group that `pid` is in; None when it has none or it is not visible. `root` stands for `/` in tests."""
    try:
        lines = (root / f"proc/{pid}/cgroup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    entries = [line.split(":", 2) for line in lines if line.count(":") >= 2]
    # where both versions are mounted, memory belongs to the one that lists it
    for version, path in (
        *((1, path) for _, controllers, path in entries if "memory" in controllers.split(",")),
        *((2, path) for number, controllers, path in entries if number == "0" and not controllers),
    ):
        found = _locate(version, path, root)
        if found is not None:
            return found
    return None


def read_pressure(root: Path = Path("/")) -> float | None:
    """PSI memory 'full avg10' of the machine in percent; None where the kernel does not keep it."""
    try:
        lines = (root / "proc/pressure/memory").read_text("ascii", "replace").splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if words[:1] == ["full"] and len(words) > 1 and words[1].startswith("avg10="):
            try:
                return float(words[1].partition("=")[2])
            except ValueError:
                return None
    return None


def read_system_oom_kills(root: Path = Path("/")) -> int | None:
    """Processes that the kernel's killer ended since boot, in any group; None where the kernel does not count them."""
    return _table(root / "proc/vmstat").get("oom_kill")


def _locate(version: int, path: str, root: Path) -> MemoryCgroup | None:
    for mounted, top in _mounts(version, root):
        inside = path
        if mounted != "/" and (path == mounted or path.startswith(mounted + "/")):
            inside = path[len(mounted) :]
        directory = top / inside.strip("/")
        if ".." in Path(inside).parts or not directory.is_dir():
            # the path is another namespace's; what is mounted here is the container's own group
            directory = top
        if (
            version == 1
            or (directory / "memory.max").exists()
            or (directory / "memory.current").exists()
            or directory == top
        ):
            return MemoryCgroup(version, path, directory, top)
    return None


def _mounts(version: int, root: Path) -> Iterator[tuple[str, Path]]:
    """Which part of the hierarchy is mounted, and where."""
    try:
        lines = (root / "proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) < 5 or len(kind) < 3:
            continue
        if (version == 2 and kind[0] == "cgroup2") or (
            version == 1 and kind[0] == "cgroup" and "memory" in kind[2].split(",")
        ):
            yield fields[3], root / fields[4].lstrip("/")


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text("ascii", "replace"))
    except (OSError, ValueError):
        return None


def _table(file: Path) -> dict[str, int]:
    """A file of `name value` lines."""
    try:
        text = file.read_text("ascii", "replace")
    except OSError:
        return {}
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}
