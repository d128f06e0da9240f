"""GIVEN looks out of step with the allocator's figures WHEN a context is asked for THEN it is one figure."""

from __future__ import annotations

from dataclasses import replace

from given import gib

from oomdoctor.facts.contexts import context_at, context_bytes
from oomdoctor.model.devices import DeviceProcess, DeviceReading
from oomdoctor.model.run import AllocatorState, RunRecord
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
