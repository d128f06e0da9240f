"""GIVEN a holder by the census and the ages of its blocks WHEN facts are derived THEN growth needs no stacks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from given import HERE, run
from snapshots.make import MIB, Device, snapshot, write

from oomdoctor.facts import derive_facts
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.facts import FactSet
from oomdoctor.model.run import Census, CensusDevice, CensusGroup, DeviceOomRecord
from oomdoctor.readers.snapshot import read_snapshot


def _facts(folder: Path, *groups: CensusGroup, late: bool = True) -> FactSet:
    """A device where twenty blocks are kept: one with each of the last steps, or (`late` is false) all before them."""
    device, kept = Device(), list[int]()
    if not late:
        kept = [device.malloc(8 * MIB, []) for _ in range(20)]
    for _ in range(20):
        for address in [device.malloc(size * MIB, []) for size in (8, 2, 4)]:
            device.free(address)
        if late:
            kept.append(device.malloc(8 * MIB, []))
    found = read_snapshot(write(folder / "s.pickle", snapshot(device)), "snapshots/7-1.pickle")
    held = tuple(replace(g, sample_addresses=tuple(kept)) for g in groups)
    census = Census(HERE, (CensusDevice(0, 160 * MIB, 160 * MIB, 0, 0),), held)
    record = DeviceOomRecord(
        HERE, 1050.0, 7, 0, 8 * MIB, 256 * MIB, 0, None, snapshot_path="snapshots/7-1.pickle", census=census
    )
    return derive_facts(Evidence(runs=(run(device_ooms=(record,)),), snapshots=(found,)))


LIST = CensusGroup(0, "other", "list 'kept' global in train.py", 160 * MIB, 20, length=20)
VARIABLES = CensusGroup(0, "other", "'x' local to stream(), a suspended function", 160 * MIB, 20)
ONE_GRAPH = CensusGroup(0, "saved-for-backward", "'loss' local to step()", 160 * MIB, 20)
IN_FORWARD = CensusGroup(0, "activations", "list 'outputs' local to Net.forward()", 160 * MIB, 20, length=20)


@pytest.mark.parametrize("group", [LIST, VARIABLES])
def test_what_came_step_by_step_grew(tmp_path: Path, group: CensusGroup) -> None:
    facts = _facts(tmp_path, group)
    assert facts.value("owner.holder_accrued", "cuda:0") is True
    assert facts.value("growth.steady", "cuda:0") is True
    assert facts.value("growth.bytes", "cuda:0") == 160 * MIB
    assert str(facts["growth.steady@cuda:0"].source).startswith("snapshots/7-1.pickle (ages of blocks of ")


def test_what_was_there_before_the_steps_did_not(tmp_path: Path) -> None:
    facts = _facts(tmp_path, LIST, late=False)
    assert facts.value("owner.holder_accrued", "cuda:0") is False
    assert facts.value("growth.steady", "cuda:0") is None


@pytest.mark.parametrize("group", [ONE_GRAPH, IN_FORWARD])
def test_what_goes_with_the_step_is_not_judged(tmp_path: Path, group: CensusGroup) -> None:
    facts = _facts(tmp_path, group)
    assert facts.value("owner.holder_accrued", "cuda:0") is None
    assert facts.value("growth.steady", "cuda:0") is None


@pytest.mark.parametrize(("earlier", "accrued"), [(30, False), (4, True)])
def test_graphs_of_one_steps_micro_batches_are_told_from_those_that_pile_up(
    tmp_path: Path, earlier: int, accrued: bool
) -> None:
    """Where each of the steps before made as many and gave them back, the list is emptied by every step."""
    device = Device()
    for _ in range(3):
        for address in [device.malloc(2 * MIB, []) for _ in range(earlier)]:
            device.free(address)
    kept = [device.malloc(8 * MIB, []) for _ in range(30)]
    found = read_snapshot(write(tmp_path / "s.pickle", snapshot(device)), "snapshots/7-1.pickle")
    saved = CensusGroup(0, "saved-for-backward", "list 'outputs' local to run()", 240 * MIB, 30, length=15,
                        saved_bytes=240 * MIB, sample_addresses=tuple(kept))  # fmt: skip
    census = Census(HERE, (CensusDevice(0, 240 * MIB, 240 * MIB, 0, 0),), (saved,))
    record = DeviceOomRecord(
        HERE, 1050.0, 7, 0, 8 * MIB, 256 * MIB, 0, None, snapshot_path="snapshots/7-1.pickle", census=census
    )
    facts = derive_facts(Evidence(runs=(run(device_ooms=(record,)),), snapshots=(found,)))
    assert facts.value("owner.holder_accrued", "cuda:0") is accrued
    assert facts.value("owner.holder_is_of_a_step", "cuda:0") is not accrued
    assert facts.value("growth.steady", "cuda:0") is (True if accrued else None)


def test_a_store_that_each_step_fills_and_empties_is_of_the_step(tmp_path: Path) -> None:
    device = Device()
    for _ in range(3):
        for address in [device.malloc(MIB, []) for _ in range(30)]:
            device.free(address)
    kept = [device.malloc(8 * MIB, []) for _ in range(28)]
    device.fail(8 * MIB, 0, [])
    found = read_snapshot(write(tmp_path / "s.pickle", snapshot(device)), "snapshots/7-1.pickle")
    store = CensusGroup(
        0, "other", "dict 'cache' global in t.py", 224 * MIB, 28, length=28, sample_addresses=tuple(kept)
    )
    census = Census(HERE, (CensusDevice(0, 224 * MIB, 224 * MIB, 0, 0),), (store,))
    record = DeviceOomRecord(
        HERE, 1050.0, 7, 0, 8 * MIB, 256 * MIB, 0, None, snapshot_path="snapshots/7-1.pickle", census=census
    )
    facts = derive_facts(Evidence(runs=(run(device_ooms=(record,)),), snapshots=(found,)))
    assert facts.value("owner.holder_is_of_a_step", "cuda:0") is True
    assert facts.value("owner.step_bytes", "cuda:0") == 224 * MIB


def test_what_the_source_makes_anew_in_each_step_has_not_grown(tmp_path: Path) -> None:
    facts = _facts(tmp_path, replace(LIST, of_a_step=True))
    assert facts.value("owner.holder_is_of_a_step", "cuda:0") is True
    assert facts.value("owner.holder_accrued", "cuda:0") is False
    assert facts.value("growth.steady", "cuda:0") is False
