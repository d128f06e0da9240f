"""What a deriver is: a function from evidence to facts. One file per subject."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from ..model.facts import FactSet, Scope
from ..model.places import UNIFIED
from ..model.source import Source

if TYPE_CHECKING:
    from ..model.evidence import Evidence

Deriver: TypeAlias = "Callable[[Evidence, FactSet], None]"
"""Reads the evidence (and facts of derivers before it), puts facts. Never reads a file, never judges a cause."""

_PREFIX_OF_BACKEND = {
    "xpu": "xpu",
    "mps": "mps",
    "npu": "npu",
    "mlu": "mlu",
    "neuron": "neuron",
    "metal": "mps",
    "mlx": "mps",
}
"""Backends whose devices are not called `cuda:N`; torch calls ROCm's so as well."""


NAMED_BACKENDS = frozenset(_PREFIX_OF_BACKEND)


def device_member(device: int | None, backend: str = "cuda") -> str:
    """`cuda:0`, or `cuda:?` where the index is not given. Apple's machines have one device."""
    prefix = _PREFIX_OF_BACKEND.get(backend, "cuda")
    return UNIFIED if prefix == "mps" else f"{prefix}:{'?' if device is None else device}"


def failed_devices(facts: FactSet) -> tuple[str, ...]:
    """The members of the devices on which a request failed, in the order in which they became known."""
    return tuple(member for member in facts.members(Scope.DEVICE) if facts.value("oom.failed", member))


def known_devices(evidence: Evidence) -> set[int]:
    """Indices of all devices that any input names."""
    devices = {event.device for event in evidence.events if event.device is not None}
    devices.update(device for snapshot in evidence.snapshots for device in snapshot.devices)
    devices.update(reading.index for reading in evidence.devices)
    for run in evidence.runs:
        devices.update(reading.index for reading in run.device_readings)
        devices.update(record.device for record in run.device_ooms if record.device is not None)
    return devices


def member_namer(evidence: Evidence) -> Callable[..., str]:
    """`member_for` for many events: the evidence is looked through once."""
    known = known_devices(evidence)
    only = next(iter(known)) if len(known) == 1 else None

    def name(device: int | None, backend: str = "cuda") -> str:
        return device_member(only if device is None else device, backend)

    return name


def member_for(evidence: Evidence, device: int | None, backend: str = "cuda") -> str:
    """The member for a device; one that is not named is the only device of the evidence, where there is just one."""
    return device_member(device, backend) if device is not None else str(member_namer(evidence)(None, backend))


def computed(*names: str) -> Source:
    """The source of a value computed from other facts."""
    return Source(derived_from=names)


def last(items: Iterable[int | float | None]) -> int | float | None:
    """The last value that is known."""
    found = [item for item in items if item is not None]
    return found[-1] if found else None
