"""GIVEN looks out of step with the allocator's figures WHEN a context is asked for THEN it is one figure."""

from __future__ import annotations

from dataclasses import replace

from given import gib

from oomdoctor.facts.contexts import context_at, context_bytes
from oomdoctor.model.devices import DeviceProcess, DeviceReading
from oomdoctor.model.run import AllocatorState, DeviceOomRecord, RunRecord
from oomdoctor.model.source import Source

EMPTY = RunRecord("run", ("python",), None, 0.0, None, None, None)


def look(seconds: float, used: float, *, at_failure: bool = False) -> DeviceReading:
    own = (DeviceProcess(7, gib(used), own=True),)
    source = Source("run", 1)
    return DeviceReading(
        0, source, total_bytes=gib(24), used_bytes=gib(used), time_seconds=seconds, processes=own, at_failure=at_failure
    )


def state(seconds: float, reserved: float) -> AllocatorState:
    return AllocatorState(seconds, 0, gib(reserved), gib(reserved), pid=7)


def test_a_look_that_came_later_shows_what_was_reserved_in_between_and_one_before_shows_nothing():
    """GIVEN a context of 1 GiB and memory that rises by 2 GiB a second THEN the nearest look decides nothing."""
    run = replace(
        EMPTY,
        device_readings=(look(0.9, 2.8), look(1.4, 3.8), look(5.0, 13.0)),
        allocator_states=(state(1.0, 2.0), state(5.0, 12.0)),
    )
    assert context_bytes(run, 0, 7) == ([1.4, 5.0], [gib(1), gib(1)])
    assert context_at(run, 0, 7, 1.0) == gib(1)


def test_what_libraries_take_later_was_not_there_before():
    run = replace(
        EMPTY,
        device_readings=(look(1.0, 3.0), look(5.0, 14.0)),
        allocator_states=(state(1.0, 2.0), state(5.0, 12.0)),
    )
    assert (context_at(run, 0, 7, 1.0), context_at(run, 0, 7, 5.0)) == (gib(1), gib(2))


def test_of_a_process_that_was_never_seen_with_both_it_is_not_known():
    far = replace(EMPTY, device_readings=(look(9.0, 3.0),), allocator_states=(state(1.0, 2.0),))
    assert context_bytes(far, 0, 7) is None
    assert context_at(EMPTY, 0, 7, 1.0) is None


def failure(seconds: float, reserved: float) -> DeviceOomRecord:
    return DeviceOomRecord(Source("run", 2), seconds, 7, 0, None, None, None, state(seconds, reserved))


def test_a_failure_tells_it_exactly_and_bounds_what_was_before():
    """GIVEN looks that leave room for 3 GiB WHEN a failure shows 1.25 THEN it was no more at any time before."""
    run = replace(
        EMPTY,
        device_readings=(look(1.0, 5.0), look(6.05, 23.25, at_failure=True)),
        allocator_states=(state(1.0, 2.0),),
        device_ooms=(failure(6.0, 22.0),),
    )
    assert context_bytes(run, 0, 7) == ([1.0, 6.0], [gib(1.25), gib(1.25)])
    assert context_at(run, 0, 7, 6.0) == gib(1.25)


def test_a_failure_alone_is_enough_and_one_of_another_process_or_card_says_nothing():
    run = replace(EMPTY, device_readings=(look(6.05, 23.25, at_failure=True),), device_ooms=(failure(6.0, 22.0),))
    assert context_bytes(run, 0, 7) == ([6.0], [gib(1.25)])
    assert context_bytes(run, 1, 7) is None
    assert context_bytes(run, 0, 8) is None


def test_a_failure_whose_look_shows_less_than_was_reserved_says_nothing():
    """A look that counts another process (a container's numbers) is no measure of this one."""
    run = replace(EMPTY, device_readings=(look(6.05, 20.0, at_failure=True),), device_ooms=(failure(6.0, 22.0),))
    assert context_bytes(run, 0, 7) is None
