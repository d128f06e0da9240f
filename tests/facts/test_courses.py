"""GIVEN looks at a device and the allocator's own figures WHEN drawn over the run THEN the parts add up to the card."""

from __future__ import annotations

from dataclasses import replace

import pytest
from given import gib

from oomdoctor.facts.course_parts import UNDIVIDED
from oomdoctor.facts.courses import FREE, OUTSIDE, OWN, UNLISTED, all_courses
from oomdoctor.facts.device_budget import CONTEXT, FOREIGN, IDLE, IN_USE
from oomdoctor.model.devices import DeviceProcess, DeviceReading
from oomdoctor.model.diagnosis import Budget, BudgetPart, Course
from oomdoctor.model.events import EventKind, LogEvent
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.host import HostSample
from oomdoctor.model.run import AllocatorState, RunRecord
from oomdoctor.model.source import Source
from oomdoctor.model.window import CategoryCourse, Window

CARD = gib(24)


def look(seconds: float, used: float, processes: tuple[DeviceProcess, ...] | None = None) -> DeviceReading:
    return DeviceReading(
        0, Source("run", 1), total_bytes=CARD, used_bytes=gib(used), time_seconds=seconds, processes=processes
    )


def own(pid: int, size: float | None) -> DeviceProcess:
    return DeviceProcess(pid, None if size is None else gib(size), own=True)


def state(seconds: float, allocated: float, reserved: float, pid: int = 7) -> AllocatorState:
    return AllocatorState(seconds, 0, gib(allocated), gib(reserved), pid=pid)


def courses(
    looks: tuple[DeviceReading, ...],
    states: tuple[AllocatorState, ...] = (),
    windows: tuple[Window, ...] = (),
    budgets: tuple[Budget, ...] = (),
    samples: tuple[HostSample, ...] = (),
) -> tuple[Course, ...]:
    run = RunRecord(
        "run", ("python",), None, 0.0, None, None, None, device_readings=looks, allocator_states=states, samples=samples
    )
    return all_courses(Evidence(runs=(run,)), windows, budgets)


def at(course: Course, seconds: float) -> dict[str, float]:
    """GiB by part at a time that the course has."""
    place = course.times_seconds.index(seconds)
    return {part.name: part.values_bytes[place] / gib(1) for part in course.parts if part.values_bytes[place]}


def add_up(course: Course) -> bool:
    return all(
        sum(values) == course.total_bytes for values in zip(*(part.values_bytes for part in course.parts), strict=True)
    )


def test_a_process_with_an_allocator_a_stranger_and_what_is_free():
    stranger = DeviceProcess(9, gib(2), own=False)
    (course,) = courses(
        (look(0, 2, (stranger,)), look(10, 13, (stranger, own(7, 11)))),
        (state(10, 8, 10),),
    )
    assert at(course, 10) == {FOREIGN: 2, CONTEXT: 1, UNDIVIDED: 8, IDLE: 2, FREE: 11}
    assert at(course, 0) == {FOREIGN: 2, FREE: 22}
    assert add_up(course)


def test_between_two_records_the_last_one_held_until_a_second_before_the_next():
    looks = tuple(look(when, 11, (own(7, 11),)) for when in range(22))
    (course,) = courses(looks, (state(1, 2, 10), state(20, 8, 10)))
    assert at(course, 15)[UNDIVIDED] == pytest.approx(2)
    assert at(course, 19)[UNDIVIDED] == pytest.approx(2)
    assert at(course, 20)[UNDIVIDED] == 8
    assert add_up(course)


def test_what_no_look_tells_apart_stays_one_part():
    """GIVEN sizes of processes that nobody could read THEN what is outside the allocator has no owner."""
    (course,) = courses((look(0, 0, ()), look(5, 12, (own(7, None),))), (state(5, 8, 10),))
    assert at(course, 5) == {OUTSIDE: 2, UNDIVIDED: 8, IDLE: 2, FREE: 12}


def test_a_program_without_torch_and_memory_that_nobody_is_listed_for():
    (course,) = courses((look(0, 1, ()), look(5, 12, (own(7, 11),))))
    assert at(course, 0) == {UNLISTED: 1, FREE: 23}
    assert at(course, 5) == {UNLISTED: 1, OWN: 11, FREE: 12}


def window(times: tuple[float, ...], **categories: tuple[float, ...]) -> Window:
    rows = tuple(
        CategoryCourse("live, kind not known" if name == "unknown" else name, tuple(map(gib, values)))
        for name, values in categories.items()
    )
    return Window(
        "cuda:0", 9, True, times, rows, times[-1], 0, False, 0, 0, (), None, (), (), (), times[-1], 0, "snapshot"
    )


def test_where_the_history_was_recorded_it_is_by_category_and_else_as_the_census_knows_the_weights():
    looks = tuple(look(when, 11, (own(7, 11),)) for when in range(30))
    weights = Budget("cuda:0", CARD, (BudgetPart("weights and buffers", gib(3), "counted by the probe"),), 0)
    (course,) = courses(
        looks,
        (state(2, 4, 10), state(25, 9, 10)),
        (window((20.0, 25.0), activations=(0, 6), unknown=(4, 3)),),
        (weights,),
    )
    assert at(course, 10) == pytest.approx({CONTEXT: 1, "weights and buffers": 3, UNDIVIDED: 1, IDLE: 6, FREE: 13})
    assert at(course, 25)["activations"] == 6
    part = next(each for each in course.parts if each.name == "weights and buffers")
    assert part.how_known.startswith("counted by the probe; taken to have been there")
    assert add_up(course)


def test_a_rise_between_two_looks_shows_nothing_idle_that_was_not():
    """GIVEN a history that rises just before the second look THEN what the looks say is idle holds between them."""
    looks = (look(0, 2, (own(7, 2),)), look(10, 11, (own(7, 11),)))
    (course,) = courses(looks, (state(0, 1, 1), state(10, 9, 10)), (window((0.0, 9.0, 10.0), activations=(1, 1, 9)),))
    assert at(course, 9) == pytest.approx({CONTEXT: 1, "activations": 1, IDLE: 0.9, FREE: 21.1})
    assert at(course, 10) == {CONTEXT: 1, "activations": 9, IDLE: 1, FREE: 13}
    assert add_up(course)


def test_kinds_that_are_known_no_longer_do_not_end_in_a_slope_to_nothing():
    looks = tuple(look(when, 11, (own(7, 11),)) for when in range(13))
    known = window((5.0, 10.0), activations=(2, 9))
    (course,) = courses(looks, (state(5, 9, 10), state(10, 9, 10)), (known,))
    assert course.times_seconds[-1] == 10.5
    assert at(course, 10.5)["activations"] == 9
    before = max(when for when in course.times_seconds if when < 5)
    assert 5 - before == pytest.approx(0.001)
    (goes_on,) = courses(looks, (state(5, 9, 10), state(10, 9, 10)), (replace(known, failure_seconds=None),))
    after = min(when for when in goes_on.times_seconds if when > 10.5)
    assert after - 10.5 == pytest.approx(0.001)
    assert "activations" not in at(goes_on, after)


def test_two_processes_on_one_card_are_added_up():
    looks = (look(0, 0, ()), look(5, 14, (own(7, 8), own(8, 6))))
    (course,) = courses(looks, (state(5, 6, 7), state(5, 3, 5, pid=8)))
    assert at(course, 5) == {CONTEXT: 2, UNDIVIDED: 9, IDLE: 3, FREE: 10}


def test_the_host_adds_up_to_the_machine():
    rows = tuple(
        HostSample(float(when), total_bytes=gib(16), available_bytes=gib(12 - when), tree_rss_bytes=gib(1 + when))
        for when in range(5)
    )
    (course,) = courses((), samples=rows)
    assert course.where == "host"
    assert at(course, 4.0) == {
        "other processes and the kernel": 3,
        "this command and its descendants": 5,
        "available": 8,
    }
    assert add_up(course)


@pytest.mark.parametrize("looks", [(), (look(0, 1, ()),)])
def test_one_look_is_no_course(looks: tuple[DeviceReading, ...]):
    assert courses(looks) == ()


def test_without_a_look_from_outside_what_torch_held_is_divided_and_the_rest_was_not_seen():
    """GIVEN a probe and no driver's word THEN nothing is called free, and the size is that of the failure's budget."""
    card = Budget("cuda:0", CARD, (BudgetPart("weights and buffers", gib(3), "counted by the probe"),), 0)
    (course,) = courses((), (state(0, 1, 2), state(10, 8, 10)), budgets=(card,))
    assert at(course, 10) == {"weights and buffers": 3, UNDIVIDED: 5, IDLE: 2}
    assert (course.total_bytes, course.total_known) == (CARD, True)
    assert course.unseen.startswith("not seen")
    (unsized,) = courses((), (state(0, 1, 2), state(10, 8, 10)))
    assert (unsized.total_bytes, unsized.total_known) == (gib(10), False)


def printed(seconds: float, allocated: float, reserved: float | None, rank: int | None = None) -> LogEvent:
    fields = {"allocated_bytes": gib(allocated)} | ({} if reserved is None else {"reserved_bytes": gib(reserved)})
    return LogEvent(
        EventKind.DEVICE_STATE, Source("train.log", 1), time_seconds=seconds, device=0, rank=rank, fields=fields
    )


def test_printed_lines_are_divided_too_and_ranks_of_one_device_stay_curves():
    rows = (printed(0, 1, 2), printed(30, 8, 10))
    (course,) = all_courses(Evidence(events=rows), (), (Budget("cuda:0", CARD, (), 0),))
    assert at(course, 30) == {UNDIVIDED: 8, IDLE: 2}
    assert (course.total_bytes, course.unseen != "") == (CARD, True)
    (live,) = all_courses(Evidence(events=(printed(0, 1, None), printed(30, 8, None))), (), ())
    assert at(live, 30) == {UNDIVIDED: 8}
    assert "idle" in live.unseen
    of_ranks = tuple(printed(when, 1, 2, rank) for when in (0, 30) for rank in (0, 1))
    assert all_courses(Evidence(events=of_ranks), (), ()) == ()


def test_a_loop_of_tables_tells_what_is_in_use_and_what_is_free():
    tables = tuple(replace(look(when, size), source=Source("smi.txt", 1)) for when, size in ((0, 2), (60, 20)))
    (course,) = all_courses(Evidence(devices=tables), (), ())
    assert at(course, 60) == {IN_USE: 20, FREE: 4}
    assert course.unseen == ""
