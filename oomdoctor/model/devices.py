"""Accelerators and the processes on them as one look shows them (NVML, `nvidia-smi`)."""

from __future__ import annotations

from dataclasses import dataclass

from .source import Source


@dataclass(frozen=True)
class DeviceProcess:
    """A process on a device. `used_bytes` is None where the tool could not say (WSL, MIG, another namespace)."""

    pid: int | None
    """None: the tool names the user or the program only."""
    used_bytes: int | None
    name: str | None = None
    kind: str | None = None
    """'C' compute, 'G' graphics, 'C+G'."""
    own: bool | None = None
    """Belongs to the watched command; None where that cannot be known."""


@dataclass(frozen=True)
class DeviceReading:
    """One device at one moment. None: not shown."""

    index: int
    source: Source
    name: str | None = None
    uuid: str | None = None
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    reserved_by_driver_bytes: int | None = None
    utilization: float | None = None
    mig_mode: bool | None = None
    processes: tuple[DeviceProcess, ...] | None = None
    """None: no process table was shown; empty: the table was shown and names none."""
    time_seconds: float | None = None
    index_told: bool = True
    """False: the tool did not say which device it is; it is numbered as it was listed."""
    at_failure: bool = False
    """Read while a process that had run out of this machine's device memory waited with all of it still held."""


@dataclass(frozen=True)
class MigInstance:
    """A slice of a card that programs see as a card of its own. None: not shown."""

    uuid: str | None
    total_bytes: int | None = None
    free_bytes: int | None = None


@dataclass(frozen=True)
class DeviceTraits:
    """What of a card bears on a run before it begins. None: not shown."""

    index: int
    compute_mode: str | None = None
    """'default', 'exclusive' (one process), 'prohibited'."""
    ecc_enabled: bool | None = None
    uncorrected_errors: int | None = None
    """Of its memory, since the driver was loaded."""
    instances: tuple[MigInstance, ...] | None = None
    """Empty: MIG has none, or is off."""
