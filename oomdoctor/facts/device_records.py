"""The probe's records of failed device requests: which one the facts of a device are about, and what belongs to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..model.devices import DeviceProcess, DeviceReading
from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.run import DeviceOomRecord, RunRecord, VisibleDevice
from ..model.snapshot import Snapshot

_SHARED_SECONDS = 0.1
"""Processes that fail together may share a look that began a little before the later one's record."""
SAME_MOMENT_SECONDS = 2.0
"""A look that the failing process asked for is recorded within this time; ranks that fail together do so as well."""


def latest_device_records(evidence: Evidence) -> tuple[DeviceOomRecord, ...]:
    """The probe's record of the last failure on each device in each process.

    One of an uncaught error that no observer saw may not say which device: a message does, if all speak of the same, or
    the census, if the process used no other.
    """
    told = {event.device for event in evidence.of_kind(EventKind.DEVICE_OOM)}
    of_messages = told.pop() if len(told) == 1 else None
    kept: dict[tuple[int | None, int], DeviceOomRecord] = {}
    for run in evidence.runs:
        for record in sorted(run.device_ooms, key=lambda record: record.time_seconds):
            counted = {device.device for device in record.census.devices} if record.census is not None else set()
            only = of_messages if of_messages is not None else counted.pop() if len(counted) == 1 else None
            known = record if record.device is not None else replace(record, device=only)
            kept[(known.device, known.pid)] = known
    return tuple(kept.values())


def speaking_records(evidence: Evidence) -> dict[int, DeviceOomRecord]:
    """For each device the one failure that all its facts are about, so that no two are blended.

    The latest; of processes that failed within the same moment the one with a census.
    """
    found: dict[int, DeviceOomRecord] = {}
    records = latest_device_records(evidence)
    for device in sorted({record.device for record in records if record.device is not None}):
        mine = [record for record in records if record.device == device]
        latest = max(record.time_seconds for record in mine)
        together = [record for record in mine if latest - record.time_seconds <= SAME_MOMENT_SECONDS]
        found[device] = max(together, key=lambda record: (record.census is not None, record.time_seconds))
    return found


def speaking_record(evidence: Evidence, device: int | None) -> DeviceOomRecord | None:
    """That of one device."""
    return None if device is None else speaking_records(evidence).get(device)


def run_of(evidence: Evidence, record: DeviceOomRecord) -> RunRecord | None:
    """The run that a record belongs to."""
    for run in evidence.runs:
        if any(record.source == one.source for one in (*run.device_ooms, *run.library_ooms)):
            return run
    return None


def library_records(evidence: Evidence) -> tuple[DeviceOomRecord, ...]:
    """The last failure of a library or the driver in each process, latest first; they do not say on which device."""
    latest: dict[int, DeviceOomRecord] = {}
    for run in evidence.runs:
        for record in sorted(run.library_ooms, key=lambda record: record.time_seconds):
            latest[record.pid] = record
    return tuple(sorted(latest.values(), key=lambda record: -record.time_seconds))


def snapshot_of(evidence: Evidence, record: DeviceOomRecord) -> Snapshot | None:
    """The snapshot that was taken at this failure."""
    if record.snapshot_path is None:
        return None
    return next((one for one in evidence.snapshots if one.path.endswith(record.snapshot_path)), None)


def card_of(run: RunRecord, record: DeviceOomRecord) -> VisibleDevice | None:
    """The device as the failed process saw it."""
    process = next((process for process in run.processes if process.pid == record.pid), None)
    seen: Iterable[VisibleDevice] = process.devices if process is not None else ()
    return next((device for device in seen if device.index == record.device), None)


def reading_at_failure(run: RunRecord, record: DeviceOomRecord) -> DeviceReading | None:
    """What the driver said of the device and of all processes on it while the failed one still held its memory.

    None where nobody looked then, where it is not known which card it was, or where the driver's numbers of processes
    are not ours (in a container).
    """
    looks = [reading for reading in _readings_of(run, record) if _is_of(reading, record)]
    return min(looks, key=lambda reading: abs((reading.time_seconds or 0.0) - record.time_seconds), default=None)


def _is_of(reading: DeviceReading, record: DeviceOomRecord) -> bool:
    late = (reading.time_seconds or 0.0) - record.time_seconds
    if not reading.at_failure or not -_SHARED_SECONDS <= late <= SAME_MOMENT_SECONDS:
        return False
    own = process_on(reading, record.pid)
    reserved = record.state.reserved_bytes if record.state is not None else None
    # One that shows less than the process had reserved was taken before it failed.
    return own is not None and own.used_bytes is not None and own.used_bytes >= (reserved or 0)


def _readings_of(run: RunRecord, record: DeviceOomRecord) -> Iterator[DeviceReading]:
    card = card_of(run, record)
    for reading in run.device_readings:
        if card is not None and card.uuid is not None and reading.uuid is not None:
            if reading.uuid.lower().endswith(card.uuid.lower()):
                yield reading
        elif run.device_numbers_known and reading.index == record.device:
            yield reading


def process_on(reading: DeviceReading, pid: int) -> DeviceProcess | None:
    """A process on the device."""
    return next((process for process in reading.processes or () if process.pid == pid), None)


def processes_beside(
    record: DeviceOomRecord, reading: DeviceReading
) -> tuple[list[DeviceProcess], list[DeviceProcess]]:
    """The other processes on the device: those of the same command, and strangers."""
    beside = [process for process in reading.processes or () if process.pid != record.pid]
    related = [process for process in beside if process.own]
    return related, [process for process in beside if process not in related]


def outside_the_allocator(run: RunRecord, record: DeviceOomRecord) -> tuple[int, DeviceReading] | None:
    """What the failed process held beside torch's segments: by the look at this failure, else at an earlier one."""
    mine = [one for one in run.device_ooms if (one.pid, one.device) == (record.pid, record.device)]
    for one in sorted(mine, key=lambda one: (one.source == record.source, one.time_seconds), reverse=True):
        if one.time_seconds > record.time_seconds or one.state is None or one.state.reserved_bytes is None:
            continue
        reading = reading_at_failure(run, one)
        own = None if reading is None else process_on(reading, record.pid)
        if reading is not None and own is not None and own.used_bytes is not None:
            return own.used_bytes - one.state.reserved_bytes, reading
    return None
