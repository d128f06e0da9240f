"""GIVEN a command that sees some cards WHEN the driver's readings are read THEN they bear the command's numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oomdoctor.model.devices import DeviceReading
from oomdoctor.model.run import ProcessRecord, VisibleDevice
from oomdoctor.model.source import Source
from oomdoctor.readers.numbering import number_devices

UUIDS = ("GPU-aaaa-1", "GPU-bbbb-2", "GPU-cccc-3")


def readings(*totals: int) -> tuple[DeviceReading, ...]:
    return tuple(
        DeviceReading(n, Source(path="NVML"), uuid=uuid, total_bytes=total)
        for n, (uuid, total) in enumerate(zip(UUIDS, totals or (24, 24, 24), strict=True))
    )


def process(*uuids: str | None, pid: int = 7) -> ProcessRecord:
    devices = tuple(VisibleDevice(n, None if uuid is None else uuid[4:]) for n, uuid in enumerate(uuids))
    return ProcessRecord(pid, 1, (), 0.0, devices=devices)


def told(found: tuple[DeviceReading, ...]) -> dict[int, str | None]:
    return {reading.index: reading.uuid for reading in found}


def test_the_processes_word_counts_before_the_variable() -> None:
    numbered = number_devices(readings(), [process(UUIDS[2], UUIDS[0])], {"CUDA_VISIBLE_DEVICES": "1"})
    assert numbered.known
    assert told(numbered.seen) == {0: UUIDS[2], 1: UUIDS[0]}
    assert told(numbered.hidden) == {1: UUIDS[1]}


@pytest.mark.parametrize("value", ["1,2", "GPU-bbbb-2,GPU-cccc-3", "GPU-bbbb, GPU-cc"])
def test_without_their_word_the_variable_counts(value: str) -> None:
    numbered = number_devices(readings(), [process()], {"CUDA_VISIBLE_DEVICES": value})
    assert (numbered.known, told(numbered.seen)) == (True, {0: UUIDS[1], 1: UUIDS[2]})


def test_without_a_variable_the_numbers_are_the_driver_s() -> None:
    numbered = number_devices(readings(), [process()], {})
    assert (numbered.known, numbered.seen, numbered.hidden) == (True, readings(), ())


SLICES = (
    "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f",  # since driver 470
    "MIG-GPU-aaaa-1/1/0",  # before: card / GPU instance / compute instance
)
"""As NVIDIA's guide to MIG names slices."""


NAMES_NONE = ("GPU-nowhere", "7", "-1", "", "0,0", "GPU-", "NoDevFiles", "none", "void", "0x1", "+", "²", "9" * 5000)


@pytest.mark.parametrize("value", [*SLICES, "MIG-1234", "0,MIG-1234", *NAMES_NONE])
def test_a_value_that_names_no_card_makes_the_numbers_unknown(value: str) -> None:
    numbered = number_devices(readings(), [], {"CUDA_VISIBLE_DEVICES": value})
    assert (numbered.known, numbered.seen) == (False, readings())


@pytest.mark.parametrize("value", ["2,-1,0", "2,7,0", " 02 , 7", "2," + "9" * 5000])
def test_what_stands_behind_a_number_that_is_none_is_not_seen(value: str) -> None:
    numbered = number_devices(readings(), [], {"CUDA_VISIBLE_DEVICES": value})
    assert (numbered.known, told(numbered.seen)) == (True, {0: UUIDS[2]})


@pytest.mark.parametrize(
    ("processes", "variables", "known"),
    [
        ([], {}, False),  # CUDA shows the first slice as device 0
        ([], {"CUDA_VISIBLE_DEVICES": "0"}, False),
        ([process(UUIDS[0])], {}, False),  # where the process tells the card's own number
        ([process(UUIDS[1])], {}, True),
        ([], {"CUDA_VISIBLE_DEVICES": "1"}, True),
    ],
)
def test_the_numbers_of_a_divided_card_are_unknown(processes, variables, known: bool) -> None:
    first, *others = readings()
    assert number_devices((replace(first, mig_mode=True), *others), processes, variables).known is known


def test_cards_that_differ_are_numbered_by_speed_unless_told_otherwise() -> None:
    unequal = readings(24, 80, 24)
    assert not number_devices(unequal, [], {"CUDA_VISIBLE_DEVICES": "1"}).known
    assert not number_devices(unequal, [], {}).known
    assert not number_devices(unequal, [], {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}).known
    assert number_devices(unequal, [], {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}).known
    assert number_devices(unequal, [process(*UUIDS)], {}).known
    assert told(number_devices(unequal, [], {"CUDA_VISIBLE_DEVICES": "GPU-cccc"}).seen) == {0: UUIDS[2]}
    by_place = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert told(number_devices(unequal, [], by_place).seen) == {0: UUIDS[1]}


@pytest.mark.parametrize(
    "others",
    [
        (process(UUIDS[1], pid=8),),  # each rank sees its own card as the first
        (process("GPU-a-slice", pid=8),),
        (process(None, pid=8),),  # an old torch tells no names, and sees one card of three
    ],
)
def test_processes_that_differ_make_the_numbers_unknown(others: tuple[ProcessRecord, ...]) -> None:
    assert not number_devices(readings(), [process(UUIDS[0]), *others], {}).known
