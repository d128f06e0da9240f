"""What the checks look at, collected once: the command, its Python, the cards, the machine's limits."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..collect.cgroup import find_memory_cgroup
from ..collect.host import Tree, read_host, read_limits
from ..collect.nvml_process import NvmlProcess
from ..language import _, told
from ..model.devices import DeviceReading, DeviceTraits
from ..model.host import HostLimits, HostSample
from .command import Command, read_command
from .interpreter import Interpreter, find_interpreter

NVML_SECONDS = 1.0
"""A driver that takes longer is said not to answer: the whole look is to end within two seconds."""
_RLIMITS = {
    "address space": resource.RLIMIT_AS,
    "locked memory": resource.RLIMIT_MEMLOCK,
    "open files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "data": resource.RLIMIT_DATA,
}


@dataclass(frozen=True)
class Cards:
    """What NVML shows."""

    readings: tuple[DeviceReading, ...] = ()
    traits: tuple[DeviceTraits, ...] = ()
    driver: str | None = None
    why_none: str | None = None
    """Why there is nothing to see; None where there is."""


@dataclass(frozen=True)
class Limits:
    """What the machine and the limits on this process leave. None: could not be read."""

    now: HostSample
    host: HostLimits
    cgroup_file_bytes: int | None = None
    soft: Mapping[str, int | None] = field(default_factory=dict)
    """Soft limits of this process, which the command inherits; None: no limit. One that is not there was not read."""
    overcommit: int | None = None
    commit_limit_bytes: int | None = None
    committed_bytes: int | None = None

    @property
    def cgroup_free_bytes(self) -> int | None:
        """What the group may still take, with cached files given up; None: no limit, or not read."""
        limit, used, cached = self.host.cgroup_limit_bytes, self.now.cgroup_used_bytes, self.cgroup_file_bytes
        if limit is None or used is None or cached is None:
            return None
        return max(0, limit - used + min(used, cached))

    @property
    def free_bytes(self) -> int | None:
        """Host memory that a program started here can still get, swap left out; None: not all of it was read."""
        available, group = self.now.available_bytes, self.cgroup_free_bytes
        if available is None or (group is None and (self.host.cgroup_limit_bytes or available) < available):
            return None
        return available if group is None else min(available, group)


@dataclass(frozen=True)
class Asked:
    """The model and the settings to judge it by. None: not given."""

    model: Path | None = None
    context: int | None = None
    concurrency: int | None = None
    engine: str | None = None
    dtype: str | None = None
    kv_dtype: str | None = None
    tensor_parallel: int | None = None
    fraction: float | None = None
    headroom: float = 0.1
    gpu_bytes: int | None = None


@dataclass(frozen=True)
class Setup:
    """Everything that was collected."""

    command: Command
    variables: Mapping[str, str]
    """The environment that the command would have."""
    interpreter: Interpreter
    cards: Cards
    limits: Limits
    asked: Asked = Asked()
    root: Path = Path("/")


def collect(given: tuple[str, ...], asked: Asked, variables: Mapping[str, str], root: Path = Path("/")) -> Setup:
    """Look at everything once. Nothing is started, and no card is opened; `root` stands for `/` in tests."""
    command = read_command(given)
    environment = {**variables, **command.assigned}
    return Setup(
        command=command,
        variables=environment,
        interpreter=find_interpreter(command.words, environment),
        cards=look_at_cards(),
        limits=read_all_limits(root),
        asked=asked,
        root=root,
    )


def look_at_cards(seconds: float = NVML_SECONDS) -> Cards:
    """One look through NVML, for which a broken driver has so many seconds."""
    nvml, deadline = NvmlProcess(), time.monotonic() + seconds

    def left() -> float:
        return max(0.0, deadline - time.monotonic())

    try:
        if nvml.open(left()):
            readings, traits = nvml.read((), left()), nvml.traits(left())
            driver = nvml.versions(left()).get("nvidia-driver")
            if nvml.is_open and nvml.answers:
                return Cards(readings, traits, driver, None if readings else _("NVML names no device"))
    finally:
        nvml.close()
    return Cards(
        why_none=told(nvml.reason)
        if nvml.reason
        else _("NVML did not answer within {seconds} s").format(seconds=f"{seconds:g}")
    )


def read_all_limits(root: Path = Path("/")) -> Limits:
    """The machine now, its limits and those of this process."""
    group = find_memory_cgroup("self", root)
    sizes = _commit(root)
    return Limits(
        now=read_host(Tree(), group, root),
        host=read_limits(None, root),
        cgroup_file_bytes=group.file_bytes() if group else None,
        soft={name: limit for name, kind in _RLIMITS.items() for limit in _soft(kind)},
        overcommit=_overcommit(root),
        commit_limit_bytes=sizes.get("CommitLimit"),
        committed_bytes=sizes.get("Committed_AS"),
    )


def _soft(kind: int) -> tuple[int | None, ...]:
    """The limit in a tuple, which is empty where it cannot be read."""
    try:
        limit = resource.getrlimit(kind)[0]
    except (OSError, ValueError):
        return ()
    return (None if limit == resource.RLIM_INFINITY else limit,)


def _overcommit(root: Path) -> int | None:
    try:
        return int((root / "proc/sys/vm/overcommit_memory").read_text("ascii", "replace"))
    except (OSError, ValueError):
        return None


def _commit(root: Path) -> dict[str, int]:
    try:
        lines = (root / "proc/meminfo").read_text("ascii", "replace").splitlines()
    except OSError:
        return {}
    rows = (line.replace(":", " ").split() for line in lines if line.startswith("Commit"))
    return {row[0]: int(row[1]) * 1024 for row in rows if len(row) == 3 and row[1].isdecimal()}
