"""devices.idle_*: room on another device that the failing process could have used."""

from __future__ import annotations

from ..model.devices import DeviceReading
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.run import DeviceOomRecord, RunRecord
from ..model.units import MIB
from .deriver import device_member
from .device_records import SAME_MOMENT_SECONDS, latest_device_records

_NOBODY_BYTES = 64 * MIB
"""A process that holds less than this on a device does not work on it."""


def derive(evidence: Evidence, facts: FactSet) -> None:
    """For each failure of a process that works alone: ranks and workers have a device each, and leave the others be."""
    for run in evidence.runs:
        for record in latest_device_records(evidence):
            if record in run.device_ooms and _works_alone(record, run):
                _put(record, run, facts)


def _works_alone(record: DeviceOomRecord, run: RunRecord) -> bool:
    """No rank, and no other process of the command has run out or has a rank."""
    ranks = [process.rank for process in run.processes if process.rank is not None]
    return record.rank is None and not ranks and all(other.pid == record.pid for other in run.device_ooms)


def _put(record: DeviceOomRecord, run: RunRecord, facts: FactSet) -> None:
    readings = {
        reading.index: reading
        for reading in run.device_readings
        if reading.at_failure and -1.0 <= (reading.time_seconds or 0.0) - record.time_seconds <= SAME_MOMENT_SECONDS
    }
    # Only where the readings have the numbers of the process, and show all that it sees.
    if not run.device_numbers_known or record.visible_devices != len(readings):
        return
    idle = [
        (free, reading)
        for index, reading in readings.items()
        if index != record.device and (free := _free_for(record, reading)) is not None
    ]
    if not idle:
        return
    free, emptiest = max(idle, key=lambda one: one[0])
    member = device_member(record.device)
    works_there = any(process.pid == record.pid for process in emptiest.processes or ())
    facts.put("devices.idle_bytes", free, emptiest.source, member)
    facts.put("devices.idle_device", device_member(emptiest.index), emptiest.source, member)
    facts.put("devices.idle_is_used_too", works_there, emptiest.source, member)


def _free_for(record: DeviceOomRecord, reading: DeviceReading) -> int | None:
    """What the process could still take of the device; None where that is not known or others work on it."""
    if reading.processes is None or reading.free_bytes is None:
        return None
    others = [process for process in reading.processes if process.pid != record.pid]
    if any(process.used_bytes is None or process.used_bytes >= _NOBODY_BYTES for process in others):
        return None
    return reading.free_bytes
