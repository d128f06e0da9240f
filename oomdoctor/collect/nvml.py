"""The one door to NVML, the driver's own view of every device and of who is on it. It never creates a CUDA context."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any, TypeVar

from ..language import N_
from ..model.devices import DeviceProcess, DeviceReading, DeviceTraits, MigInstance
from ..model.source import Source

Got = TypeVar("Got")

_SOURCE = Source(path="NVML")


class Nvml:
    """NVML opened once and read many times. Its methods never raise; what cannot be read is None."""

    def __init__(self) -> None:
        self._module: ModuleType | None = None
        self._lock = threading.Lock()
        self.reason: str | None = None
        """Why there is no NVML; None while there is, or before `open`."""

    @property
    def is_open(self) -> bool:
        """Whether NVML can be read."""
        return self._module is not None

    def open(self) -> bool:
        """Load and initialise NVML (may take seconds where the driver is not kept loaded); whether that worked."""
        with self._lock:
            if self._module is not None:
                return True
            try:
                import pynvml
            except Exception as error:
                self.reason = N_("pynvml cannot be imported: {error}").format(error=error)
                return False
            try:
                pynvml.nvmlInit()
            except Exception as error:
                self.reason = N_("NVML does not start: {error}").format(error=error)
                return False
            self._module, self.reason = pynvml, None
            return True

    def versions(self) -> dict[str, str]:
        """The driver's version and the highest CUDA it serves, as far as NVML tells."""
        nvml = self._module
        if nvml is None:
            return {}
        versions: dict[str, str] = {}
        driver = _try(nvml.nvmlSystemGetDriverVersion)
        if driver is not None:
            versions["nvidia-driver"] = _text(driver)
        cuda = _try(nvml.nvmlSystemGetCudaDriverVersion_v2)
        if isinstance(cuda, int):
            versions["cuda-driver"] = f"{cuda // 1000}.{cuda % 1000 // 10}"
        return versions

    def read(self, own: Collection[int] = ()) -> tuple[DeviceReading, ...]:
        """Every device now. `own`: process ids of the watched command.

        Empty when NVML is not open or names no device.
        """
        nvml = self._module
        if nvml is None:
            return ()
        now = time.time()
        return tuple(_read_device(nvml, index, own, now) for index in range(_count(nvml)))

    def traits(self) -> tuple[DeviceTraits, ...]:
        """What of every device bears on a run before it begins, in the order of `read`."""
        nvml = self._module
        if nvml is None:
            return ()
        return tuple(_read_traits(nvml, index) for index in range(_count(nvml)))

    def close(self) -> None:
        """Shut NVML down."""
        with self._lock:
            if self._module is not None:
                _try(self._module.nvmlShutdown)
                self._module = None


_MOST_DEVICES = 1024
"""A driver in disorder may tell any number."""


def _count(nvml: Any) -> int:
    count = _try(nvml.nvmlDeviceGetCount)
    return count if isinstance(count, int) and 0 <= count <= _MOST_DEVICES else 0


def _read_device(nvml: Any, index: int, own: Collection[int], now: float) -> DeviceReading:
    handle = _try(nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return DeviceReading(index=index, source=_SOURCE, time_seconds=now)
    # the second version tells the driver's reserve apart from what is used
    memory = _try(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
    if memory is None:
        memory = _try(nvml.nvmlDeviceGetMemoryInfo, handle)
    name, uuid = _try(nvml.nvmlDeviceGetName, handle), _try(nvml.nvmlDeviceGetUUID, handle)
    load = _try(nvml.nvmlDeviceGetUtilizationRates, handle)
    mode = _try(nvml.nvmlDeviceGetMigMode, handle)
    gpu_percent = getattr(load, "gpu", None)
    return DeviceReading(
        index=index,
        source=_SOURCE,
        name=None if name is None else _text(name),
        uuid=None if uuid is None else _text(uuid),
        total_bytes=_size(getattr(memory, "total", None)),
        used_bytes=_size(getattr(memory, "used", None)),
        free_bytes=_size(getattr(memory, "free", None)),
        reserved_by_driver_bytes=_size(getattr(memory, "reserved", None)),
        utilization=gpu_percent / 100 if isinstance(gpu_percent, int) and 0 <= gpu_percent <= 100 else None,
        mig_mode=bool(mode[0]) if mode else None,
        processes=_read_processes(nvml, handle, own),
        time_seconds=now,
    )


_COMPUTE_MODES = {0: "default", 1: "exclusive", 2: "prohibited", 3: "exclusive"}


def _read_traits(nvml: Any, index: int) -> DeviceTraits:
    handle = _try(nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return DeviceTraits(index)
    mode, ecc = (_try(lambda name=name: getattr(nvml, name)(handle)) for name in _TRAIT_CALLS)
    errors = _try(
        lambda: nvml.nvmlDeviceGetTotalEccErrors(
            handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        )
    )
    return DeviceTraits(
        index=index,
        compute_mode=None if mode is None else _COMPUTE_MODES.get(mode),
        ecc_enabled=None if ecc is None else bool(ecc[0]),
        uncorrected_errors=_size(errors),
        instances=_read_instances(nvml, handle),
    )


_TRAIT_CALLS = ("nvmlDeviceGetComputeMode", "nvmlDeviceGetEccMode")


def _read_instances(nvml: Any, handle: Any) -> tuple[MigInstance, ...] | None:
    mode = _try(lambda: nvml.nvmlDeviceGetMigMode(handle))
    if not mode or not mode[0]:
        return () if mode else None
    most = _try(lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle))
    if most is None or not 0 <= most <= _MOST_DEVICES:
        return None
    found = []
    for place in range(most):
        instance = _try(lambda place=place: nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place))
        if instance is None:
            continue
        memory = _try(lambda instance=instance: nvml.nvmlDeviceGetMemoryInfo(instance))
        uuid = _try(lambda instance=instance: nvml.nvmlDeviceGetUUID(instance))
        sizes = (_size(getattr(memory, name, None)) for name in ("total", "free"))
        found.append(MigInstance(None if uuid is None else _text(uuid), *sizes))
    return tuple(found)


def _read_processes(nvml: Any, handle: Any, own: Collection[int]) -> tuple[DeviceProcess, ...] | None:
    tables = {
        "C": _try(nvml.nvmlDeviceGetComputeRunningProcesses, handle),
        "G": _try(nvml.nvmlDeviceGetGraphicsRunningProcesses, handle),
    }
    if all(table is None for table in tables.values()):
        return None
    kinds: dict[int, str] = {}
    used: dict[int, int | None] = {}
    for kind, table in tables.items():
        for process in table or ():
            size = _size(getattr(process, "usedGpuMemory", None))
            kinds[process.pid] = "C+G" if process.pid in kinds else kind
            # a process in both tables has the same bytes in each
            known = used.get(process.pid)
            used[process.pid] = size if known is None else max(known, size or 0)
    return tuple(
        DeviceProcess(pid=pid, used_bytes=used[pid], name=_process_name(nvml, pid), kind=kind, own=_is_own(pid, own))
        for pid, kind in sorted(kinds.items())
    )


def _is_own(pid: int, own: Collection[int]) -> bool | None:
    if pid in own:
        return True
    # a process that /proc does not show is of another PID namespace; NVML's number for it cannot be translated here
    return False if own and _process_exists(pid) else None


def _process_exists(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb"):
            return True
    except OSError:
        return False


def _process_name(nvml: Any, pid: int) -> str | None:
    name = _try(nvml.nvmlSystemGetProcessName, pid)
    return None if name is None else _text(name)[:256]


def _size(value: object) -> int | None:
    """A size in bytes; None for NVML's 'not available' (all bits set)."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < (1 << 63) else None


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _try(call: Callable[..., Got], *arguments: object) -> Got | None:
    """The answer; None for every NVML error and for what this NVML does not have."""
    try:
        return call(*arguments)
    except Exception:
        return None
