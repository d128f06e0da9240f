"""All that is observed of a running command from outside, written to the bundle as it is seen."""

from __future__ import annotations

import threading
from dataclasses import replace

from .. import __version__
from ..bundle.redact import mask_text
from ..bundle.write import BundleWriter
from ..collect.cgroup import find_memory_cgroup, read_pressure, read_system_oom_kills
from ..collect.host import Tree, TreeReader, read_host, read_limits
from ..collect.namespace import in_the_first_namespace, inner_pid
from ..collect.nvml_process import NvmlProcess
from ..collect.sampler import Sampler, Thinner
from ..language import N_
from ..model.devices import DeviceProcess, DeviceReading
from ..model.host import HostLimits, OomCounters
from .baseline import Baseline
from .handshake import Handshake

_HOST_DELAY_SECONDS = 0.03
_DEVICE_DELAY_SECONDS = 0.2
"""No command has memory on a device sooner; a short one is spared the start of NVML."""
_HOST_PATIENCE_SECONDS = 0.5
_DEVICE_PATIENCE_SECONDS = 0.1
_DEVICE_PATIENCE_AFTER_CRASH_SECONDS = 2.0
_LAST_LOOK_SECONDS = 2.0
"""A driver that no longer answers must not keep the end of the command from whoever waits for it."""


class Watch:
    """Started when the command has started, finished after its end."""

    def __init__(self, writer: BundleWriter, interval: float, before: Baseline, socket_path: str | None = None) -> None:
        """`interval`: seconds between samples; `socket_path`: where the probe may ask for one at once.

        To be made before any thread is started, for it forks.
        """
        self._writer = writer
        self._interval = interval
        self._group = before.group
        self._groups = {before.group.path: (before.group, before.counters)} if before.group else {}
        self._system_kills = before.system_oom_kills
        self._kernel = before.kernel
        self._limits = HostLimits()
        self._nvml = NvmlProcess()
        self._pids: tuple[int, ...] = ()
        self._samplers: list[Sampler] = []
        self._host_thinner = Thinner()
        self._device_thinners: dict[int, Thinner] = {}
        self._devices_seen = threading.Event()
        self._translated: set[int] = set()
        self._whose_unknown = False
        self._unseen: list[tuple[str, str, str]] = []
        self._handshake = Handshake(socket_path, self._look_now, self._look_at_end) if socket_path is not None else None

    def start(self, pid: int) -> None:
        """Begin to sample the command `pid` and its descendants."""
        self._tree_reader = TreeReader(pid)
        self._pids = (pid,)
        self._note_limits(read_limits(pid))
        self._writer.append("versions", {"versions": {"oomdoctor": __version__}})
        self._samplers = [
            Sampler(self._look_at_host, self._interval, _HOST_DELAY_SECONDS, "host"),
            Sampler(self._look_at_devices, self._interval, _DEVICE_DELAY_SECONDS, "devices"),
        ]
        for sampler in self._samplers:
            sampler.start()
        if self._handshake is not None:
            self._handshake.start()

    def finish(self, crashed: bool) -> OomCounters:
        """Stop sampling, take the last sample and read the counters again."""
        if self._handshake is not None:
            self._handshake.stop()
        host, devices = self._samplers
        host.stop(_HOST_PATIENCE_SECONDS)
        in_time = devices.stop(_DEVICE_PATIENCE_AFTER_CRASH_SECONDS if crashed else _DEVICE_PATIENCE_SECONDS)
        self._writer.append("sample", vars(read_host(Tree(), self._group)))
        if in_time and self._devices_seen.is_set():
            last = threading.Thread(target=self._look_a_last_time, name="oomdoctor-last-look", daemon=True)
            last.start()
            last.join(_LAST_LOOK_SECONDS)
            in_time = not last.is_alive() and self._nvml.answers
        counters = self._counters()
        self._writer.append("counters", vars(counters))
        lines = self._kernel.lines()
        if lines:
            self._writer.write_file("kernel.log", mask_text("\n".join(lines) + "\n").encode("utf-8", "replace"))
        self._kernel.close()
        self._note_unseen(in_time)
        self._nvml.close()
        return counters

    def _look_a_last_time(self) -> None:
        self._write_devices(self._nvml.read(self._pids), always=True)

    @property
    def unseen(self) -> tuple[tuple[str, str, str], ...]:
        """(what, why, how to get it) for what could not be observed; complete after `finish`."""
        return tuple(self._unseen)

    def _look_at_host(self) -> None:
        tree = self._tree_reader.read()
        if not tree.pids:
            return  # ended; the last sample is taken by `finish`
        self._pids = tree.pids
        group = find_memory_cgroup(tree.pids[0])
        # '/' is also what a process shows that is about to end
        if group is not None and group.path != "/" and group.path not in self._groups:
            # moved since its start, as by systemd-run or cgexec
            self._groups[group.path] = (group, group.counters())
            self._group = group
            self._note_limits(
                replace(
                    self._limits,
                    cgroup_path=group.path,
                    cgroup_version=group.version,
                    cgroup_limit_bytes=group.limit()[0],
                )
            )
        self._note_limits(
            replace(
                self._limits,
                address_space_limit_bytes=_smaller(
                    self._limits.address_space_limit_bytes, tree.address_space_limit_bytes
                ),
                data_limit_bytes=_smaller(self._limits.data_limit_bytes, tree.data_limit_bytes),
            )
        )
        sample = read_host(tree, self._group)
        values = (sample.available_bytes, sample.tree_rss_bytes, sample.tree_virtual_bytes, sample.cgroup_used_bytes)
        if self._host_thinner.keeps(values, self._limits.cgroup_limit_bytes or sample.total_bytes):
            self._writer.append("sample", {**vars(sample), "time": sample.time_seconds})

    def _look_at_devices(self) -> float:
        before = self._nvml.cpu_seconds
        if self._devices_seen.is_set() or self._nvml.open():
            if not self._devices_seen.is_set():
                self._writer.append("versions", {"versions": self._nvml.versions()})
            self._write_devices(self._read_devices())
        return self._nvml.cpu_seconds - before

    def _read_devices(self) -> tuple[DeviceReading, ...]:
        """Every device now. A process that the command has started since the last look at the host is its own."""
        return tuple(
            replace(
                reading, processes=None if reading.processes is None else tuple(map(self._judged, reading.processes))
            )
            for reading in self._nvml.read(self._pids)
        )

    def _judged(self, process: DeviceProcess) -> DeviceProcess:
        if process.own or process.pid is None or not self._tree_reader.holds(process.pid):
            return process
        return replace(process, own=True)

    def _write_devices(self, readings: tuple[DeviceReading, ...], always: bool = False, asked: bool = False) -> None:
        for reading in readings:
            self._devices_seen.set()
            self._translate(reading.processes or ())
            thinner = self._device_thinners.setdefault(reading.index, Thinner())
            if thinner.keeps((reading.used_bytes,), reading.total_bytes) or always:
                fields = {name: value for name, value in vars(reading).items() if name != "source"}
                fields["processes"] = None if reading.processes is None else [vars(one) for one in reading.processes]
                fields["at_failure"] = asked
                self._writer.append("device", {**fields, "time": reading.time_seconds})

    def _translate(self, processes: tuple[DeviceProcess, ...]) -> None:
        """Record what the command's processes call themselves, where they live in a PID namespace of their own."""
        for process in processes:
            self._whose_unknown |= process.own is None
            if process.own and process.pid is not None and process.pid not in self._translated:
                self._translated.add(process.pid)
                inner = inner_pid(process.pid)
                if inner is not None:
                    self._writer.append("namespace", {"pid": process.pid, "inner_pid": inner})

    def _look_at_end(self) -> None:
        """A process that used a device is about to end, and still holds what it did."""
        if self._devices_seen.is_set() or self._nvml.open():
            self._write_devices(self._read_devices(), always=True)

    def _look_now(self) -> None:
        """A process has run out of device memory and still holds it."""
        # A command may fail before NVML has been opened. A look that comes too late names its process no longer.
        if self._devices_seen.is_set() or self._nvml.open():
            self._write_devices(self._read_devices(), always=True, asked=True)
        sample = read_host(self._tree_reader.read(), self._group)
        self._writer.append("sample", {**vars(sample), "time": sample.time_seconds})

    def _note_limits(self, limits: HostLimits) -> None:
        named = {
            "address_space_limit_bytes": limits.address_space_limit_bytes,
            "data_limit_bytes": limits.data_limit_bytes,
        }
        named["cgroup_limit_bytes"] = limits.cgroup_limit_bytes
        limits = replace(limits, unlimited=tuple(name for name in limits.unlimited if named.get(name) is None))
        if limits != self._limits:
            self._limits = limits
            self._writer.append("limits", vars(limits))

    def _counters(self) -> OomCounters:
        """Sums over the groups that the command was in: what counts is the difference."""
        before = [counters for _, counters in self._groups.values()]
        after = [group.counters() for group, _ in self._groups.values()]
        oom = _totals([one.oom for one in before], [one.oom for one in after])
        kills = _totals([one.oom_kill for one in before], [one.oom_kill for one in after])
        failcnt = _totals([one.failcnt for one in before], [one.failcnt for one in after])
        return OomCounters(
            cgroup_oom_before=oom[0],
            cgroup_oom_after=oom[1],
            cgroup_oom_kill_before=kills[0],
            cgroup_oom_kill_after=kills[1],
            system_oom_kill_before=self._system_kills,
            system_oom_kill_after=read_system_oom_kills(),
            cgroup_failcnt_before=failcnt[0],
            cgroup_failcnt_after=failcnt[1],
        )

    def _note_unseen(self, devices_in_time: bool) -> None:
        unseen = self._unseen
        if self._nvml.reason is not None:
            unseen.append(
                (
                    N_("the devices at the end") if self._devices_seen.is_set() else "device memory",
                    self._nvml.reason,
                    N_("run where the NVIDIA driver's libnvidia-ml.so.1 is visible"),
                )
            )
        elif not self._devices_seen.is_set():
            if not self._nvml.is_open:
                why = N_("the command ended before NVML answered")
            else:
                why = N_("NVML names no device") if devices_in_time else N_("NVML did not answer")
            unseen.append(("device memory", why, N_("nvidia-smi, while the command runs")))
        elif not devices_in_time:
            unseen.append(
                (
                    N_("the devices at the end"),
                    N_("NVML did not answer"),
                    N_("`nvidia-smi`, and the kernel log for Xid"),
                )
            )
        if self._whose_unknown and in_the_first_namespace() is False:
            unseen.append(
                (
                    N_("whose the processes on the devices are"),
                    N_("NVML tells their numbers outside of this container, which cannot be translated inside"),
                    N_("start the container with --pid=host"),
                )
            )
        if self._kernel.reason is not None:
            unseen.append(
                (N_("kernel log"), self._kernel.reason, N_("`dmesg -T | grep -i -B40 'killed process'`, as root"))
            )
        if self._group is None:
            unseen.append(
                (
                    N_("cgroup memory limit"),
                    N_("no memory cgroup is visible"),
                    N_("docker inspect, kubectl describe pod"),
                )
            )
        if read_pressure() is None:
            unseen.append(
                (N_("memory pressure"), N_("this kernel does not keep /proc/pressure/memory"), N_("boot with psi=1"))
            )
        if not self._tree_reader.shared_once:
            unseen.append(
                (
                    N_("shared memory counted once"),
                    N_("reading it would have slowed the command"),
                    "`smem -t -P <name>`",
                )
            )
        if self._handshake is not None and self._handshake.failure is not None:
            unseen.append(
                (N_("the devices at the moment of failure"), self._handshake.failure, N_("name another --output"))
            )
        for sampler in self._samplers:
            if sampler.failure is not None:
                unseen.append((N_("further samples"), sampler.failure, N_("report this to oomdoctor")))


def _smaller(known: int | None, seen: int | None) -> int | None:
    return min((limit for limit in (known, seen) if limit is not None), default=None)


def _totals(before: list[int | None], after: list[int | None]) -> tuple[int | None, int | None]:
    """The sums before and after. Where a group counts nothing, as the first of version 2, only a rise of others counts.

    That they did not rise would say nothing of the group that does not count.
    """
    pairs = [(old, new) for old, new in zip(before, after, strict=True) if old is not None and new is not None]
    sums = sum(old for old, _ in pairs), sum(new for _, new in pairs)
    if pairs and (len(pairs) == len(before) or sums[1] > sums[0]):
        return sums
    return None, None
