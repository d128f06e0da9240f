"""GIVEN the blocks that one holder keeps WHEN the history says when each came THEN bit by bit is told from at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from snapshots.make import MIB, Device, snapshot, write

from oomdoctor.allocator.accrual import Accrual, accrual
from oomdoctor.allocator.replay import replay
from oomdoctor.readers.snapshot import read_snapshot


def _found(folder: Path, device: Device, held: list[int], ring: int | None = None) -> Accrual | None:
    found = read_snapshot(write(folder / "s.pickle", snapshot(device, ring=ring)))
    return accrual(found, replay(found, 0), held, [oom.event_index for oom in found.ooms])


def _step(device: Device) -> None:
    for address in [device.malloc(size * MIB, []) for size in (8, 2, 4)]:
        device.free(address)


def kept_by_step(device: Device, held: list[int]) -> None:
    for _ in range(20):
        _step(device)
        held.append(device.malloc(MIB, []))


def kept_now_and_then(device: Device, held: list[int]) -> None:
    """Every fourth step."""
    for number in range(80):
        _step(device)
        if number % 4 == 0:
            held.append(device.malloc(MIB, []))


def kept_before_the_loop(device: Device, held: list[int]) -> None:
    held += [device.malloc(MIB, []) for _ in range(20)]
    for _ in range(20):
        _step(device)


def kept_early_then_level(device: Device, held: list[int]) -> None:
    for number in range(80):
        _step(device)
        if number < 20:
            held.append(device.malloc(MIB, []))


def kept_until_shortly_before(device: Device, held: list[int]) -> None:
    """In nearly every part of the time, but not in the last."""
    for number in range(80):
        _step(device)
        if number < 66:
            held.append(device.malloc(MIB, []))


def few(device: Device, held: list[int]) -> None:
    for _ in range(5):
        _step(device)
        held.append(device.malloc(MIB, []))


@pytest.mark.parametrize(
    ("program", "steady"),
    [
        (kept_by_step, True),
        (kept_now_and_then, True),
        (kept_before_the_loop, False),
        (kept_early_then_level, False),
        (kept_until_shortly_before, False),
    ],
)
def test_steady(tmp_path: Path, program: Callable[[Device, list[int]], None], steady: bool) -> None:
    device, held = Device(), list[int]()
    program(device, held)
    found = _found(tmp_path, device, held)
    assert found is not None
    assert (found.steady, found.share_in_recording) == (steady, 1.0)
    assert found.seconds is not None
    assert found.seconds > 0


def test_a_ring_that_has_forgotten_the_first_judges_the_rest(tmp_path: Path) -> None:
    device, held = Device(), list[int]()
    kept_by_step(device, held)
    found = _found(tmp_path, device, held, ring=len(device.events) // 2)
    assert found is not None
    assert found.steady
    assert found.share_in_recording == pytest.approx(0.5, abs=0.1)


def test_too_few_to_say(tmp_path: Path) -> None:
    device, held = Device(), list[int]()
    few(device, held)
    assert _found(tmp_path, device, held) is None
    assert _found(tmp_path, device, []) is None
    assert _found(tmp_path, device, [1, 2, 3]) is None


def test_workers_that_fail_one_after_the_other_do_not_make_it_level(tmp_path: Path) -> None:
    device, held = Device(), list[int]()
    kept_by_step(device, held)
    for _ in range(40):
        _step(device)
        device.fail(MIB, 0, [])
    found = _found(tmp_path, device, held)
    assert found is not None
    assert found.steady


def test_one_failure_long_before_the_last_is_another_incident(tmp_path: Path) -> None:
    device, held = Device(), list[int]()
    kept_by_step(device, held)
    device.fail(MIB, 0, [])
    for _ in range(80):
        _step(device)
    device.fail(MIB, 0, [])
    found = _found(tmp_path, device, held)
    assert found is not None
    assert not found.steady


def _collects_in_each_step(device: Device, held: list[int], last_scale: int) -> None:
    """A step fills a store, which the next one clears; the last is of larger tensors, and fails near its end."""
    store = list[int]()
    for step in range(5):
        for address in store:
            device.free(address)
        size = MIB * (last_scale if step == 4 else 1)
        store = []
        for _ in range(20 if step < 4 else 18):
            temporary = device.malloc(size, [])
            store.append(device.malloc(size, []))
            device.free(temporary)
    held += store
    device.fail(MIB * last_scale, 0, [])


@pytest.mark.parametrize("last_scale", [1, 16])
def test_what_each_step_fills_and_empties_is_within_a_step(tmp_path: Path, last_scale: int) -> None:
    device, held = Device(), list[int]()
    _collects_in_each_step(device, held, last_scale)
    found = _found(tmp_path, device, held)
    assert found is not None
    assert (found.steady, found.within_a_step) == (True, True)


def test_results_of_many_steps_that_are_collected_after_others_are_not(tmp_path: Path) -> None:
    """Training steps with many blocks at once, then an evaluation that keeps one block of each of its steps."""
    device, held = Device(), list[int]()
    for _ in range(6):
        for address in [device.malloc(MIB, []) for _ in range(60)]:
            device.free(address)
    for _ in range(30):
        for address in [device.malloc(MIB, []) for _ in range(12)]:
            device.free(address)
        held.append(device.malloc(MIB, []))
    found = _found(tmp_path, device, held)
    assert found is not None
    assert (found.steady, found.within_a_step) == (True, False)


@pytest.mark.parametrize("program", [kept_by_step, kept_now_and_then])
def test_what_steps_add_to_is_not_within_one(tmp_path: Path, program: Callable[[Device, list[int]], None]) -> None:
    device, held = Device(), list[int]()
    program(device, held)
    found = _found(tmp_path, device, held)
    assert found is not None
    assert not found.within_a_step
