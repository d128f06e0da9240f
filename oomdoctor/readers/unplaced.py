"""Lists of processes that do not say on which device they are, beside what the other inputs tell of devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..model.devices import DeviceReading
from ..model.events import LogEvent
from ..model.run import RunRecord
from ..model.snapshot import Snapshot


def placed(
    readings: Sequence[DeviceReading],
    events: Iterable[LogEvent],
    snapshots: Iterable[Snapshot],
    runs: Iterable[RunRecord],
) -> tuple[DeviceReading, ...]:
    """The readings, those without a device on the only one that the rest tells of.

    Where several devices are told, nobody knows which of them such a list is of, and it is left out; where none is, the
    lists stay numbered as they stand.
    """
    unsure = {reading.index for reading in readings if not reading.index_told}
    if not unsure:
        return tuple(readings)
    told = {reading.index for reading in readings if reading.index_told}
    told |= {event.device for event in events if event.device is not None}
    told |= {device for snapshot in snapshots for device in snapshot.devices}
    told |= {reading.index for run in runs for reading in run.device_readings}
    told |= {record.device for run in runs for record in run.device_ooms if record.device is not None}
    if not told:
        return tuple(readings)
    if len(told) > 1 or len(unsure) > 1:
        return tuple(reading for reading in readings if reading.index_told)
    (only,) = told
    return tuple(reading if reading.index_told else replace(reading, index=only) for reading in readings)
