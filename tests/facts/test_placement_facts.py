"""GIVEN a process that runs out on one device WHEN others are in sight THEN what is free there is known, or unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from given import HERE, gib, mib, run

from oomdoctor.facts import derive_facts
from oomdoctor.model.devices import DeviceProcess, DeviceReading
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.facts import FactSet
from oomdoctor.model.run import DeviceOomRecord, ProcessRecord

RECORD = DeviceOomRecord(HERE, 1050.0, 7, 0, gib(1), gib(24), mib(300), None, visible_devices=2)
FULL = DeviceReading(
    0, HERE, total_bytes=gib(24), used_bytes=gib(23.7), free_bytes=mib(300), time_seconds=1050.1, at_failure=True,
    processes=(DeviceProcess(7, used_bytes=gib(23.7), own=True),),
)  # fmt: skip
EMPTY = replace(FULL, index=1, used_bytes=mib(420), free_bytes=gib(23.5), processes=())
HERE_TOO = DeviceProcess(7, used_bytes=mib(420), own=True)


def facts_of(record: DeviceOomRecord, *readings: DeviceReading, **fields: object) -> FactSet:
    return derive_facts(Evidence(runs=(run(device_ooms=(record,), device_readings=readings, **fields),)))


@pytest.mark.parametrize(("processes", "works_there"), [((), False), ((HERE_TOO,), True)])
def test_room_on_the_other_device(processes: tuple[DeviceProcess, ...], works_there: bool) -> None:
    facts = facts_of(RECORD, FULL, replace(EMPTY, processes=processes))
    assert facts.value("devices.idle_bytes", "cuda:0") == gib(23.5)
    assert facts.value("devices.idle_device", "cuda:0") == "cuda:1"
    assert facts.value("devices.idle_is_used_too", "cuda:0") is works_there


@pytest.mark.parametrize(
    ("record", "other", "fields"),
    [
        (replace(RECORD, visible_devices=1), EMPTY, {}),
        (replace(RECORD, visible_devices=None), EMPTY, {}),
        (RECORD, replace(EMPTY, processes=(DeviceProcess(99, used_bytes=gib(1), own=False),)), {}),
        (RECORD, replace(EMPTY, processes=(DeviceProcess(99, None, own=False),)), {}),
        (RECORD, replace(EMPTY, processes=None), {}),
        (RECORD, replace(EMPTY, at_failure=False), {}),
        (RECORD, EMPTY, {"processes": (ProcessRecord(7, 1, ("python",), 1000.0, rank=0),)}),
    ],
    ids=["sees one", "not said", "somebody works there", "holds how much", "no table", "another moment", "a rank"],
)
def test_room_that_is_not_this_process_s(
    record: DeviceOomRecord, other: DeviceReading, fields: dict[str, object]
) -> None:
    assert facts_of(record, FULL, other, **fields).value("devices.idle_bytes", "cuda:0") is None
