"""device.rise_*, device.level and what grows outside torch, from tables in a loop."""

from __future__ import annotations

import pytest
from given import HERE, gib, mib

from oomdoctor.facts import derive_facts
from oomdoctor.facts.series import all_series
from oomdoctor.model.devices import DeviceProcess, DeviceReading
from oomdoctor.model.events import EventKind, LogEvent
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.facts import FactSet
from oomdoctor.model.source import Source


def reading(line: int, used: float | None, dated: bool = True, **more: object) -> DeviceReading:
    """One in MiB, five seconds after the one of the line before."""
    return DeviceReading(
        index=0,
        source=Source(path="loop.csv", line=line),
        total_bytes=gib(24),
        used_bytes=None if used is None else mib(used),
        time_seconds=1000.0 + 5 * line if dated else None,
        **more,
    )


def loop(sizes: list[float], dated: bool = True) -> tuple[DeviceReading, ...]:
    return tuple(reading(line, used, dated) for line, used in enumerate(sizes, start=1))


def facts_of_loop(*devices: DeviceReading, events: tuple[LogEvent, ...] = ()) -> FactSet:
    return derive_facts(Evidence(devices=devices, events=events))


def test_a_rise_with_its_time():
    facts = facts_of_loop(*loop([2000 + 100 * step for step in range(31)]))
    assert facts.value("device.readings", "cuda:0") == 31
    assert facts.value("device.watched_seconds", "cuda:0") == 150.0
    assert facts.value("device.rise_steady", "cuda:0") is True
    assert facts.value("device.rise_bytes", "cuda:0") == mib(2900)  # the first reading does not count
    assert facts.value("device.rise_bytes_per_second", "cuda:0") == mib(20)
    assert facts.value("device.level", "cuda:0") is False
    assert facts.value("growth.steady", "cuda:0") is None


def test_a_rise_without_times_has_no_rate():
    facts = facts_of_loop(*loop([2000 + 100 * step for step in range(31)], dated=False))
    assert facts.value("device.rise_bytes", "cuda:0") == mib(2900)
    assert facts.value("device.watched_seconds", "cuda:0") is None
    assert facts.value("device.rise_bytes_per_second", "cuda:0") is None


def test_a_pool_set_aside_at_start_is_level():
    facts = facts_of_loop(*loop([500, 9000] + [21000 + step % 3 for step in range(28)]))
    assert facts.value("device.level", "cuda:0") is True
    assert facts.value("device.rise_steady", "cuda:0") is False
    assert facts.value("device.rise_bytes", "cuda:0") is None


@pytest.mark.parametrize("teeth", [5, 10, 13])
def test_what_is_given_back_again_and_again_does_not_rise(teeth):
    facts = facts_of_loop(*loop([2000 + step % teeth * 900 for step in range(10 * teeth)]))
    assert facts.value("device.rise_steady", "cuda:0") is False
    assert facts.value("device.level", "cuda:0") is False


def test_one_look_says_nothing_of_its_course():
    facts = facts_of_loop(reading(1, 20000))
    assert facts.value("device.readings", "cuda:0") == 1
    for name in ("level", "rise_steady", "watched_seconds"):
        assert facts.value(f"device.{name}", "cuda:0") is None


def test_a_loop_that_went_on_after_the_end_is_judged_to_its_peak():
    rising = [2000 + 100 * step for step in range(31)]
    facts = facts_of_loop(*loop([*rising, 3, 3, 3, 3]))
    assert facts.value("device.rise_bytes", "cuda:0") == mib(2900)


def test_readings_after_a_dated_failure_do_not_count():
    when = 1000.0 + 5 * 20.5
    failure = LogEvent(EventKind.DEVICE_OOM, HERE, {"requested_bytes": gib(1)}, device=0, time_seconds=when)
    facts = facts_of_loop(*loop([2000] * 20 + [3] * 10), events=(failure,))
    assert facts.value("device.used_bytes", "cuda:0") == mib(2000)
    assert facts.value("device.readings", "cuda:0") == 20


def test_a_table_pasted_after_the_failure_still_shows_who_holds_the_device():
    failure = LogEvent(EventKind.DEVICE_OOM, Source(path="loop.csv", line=2), {"requested_bytes": gib(1)}, device=0)
    facts = facts_of_loop(reading(1, 3, dated=False), reading(9, 9000, dated=False), events=(failure,))
    assert facts.value("device.used_bytes", "cuda:0") == mib(9000)


def test_the_process_that_rose_and_a_strangers_rise():
    mine, other = 7, 8
    readings = tuple(
        reading(
            line,
            5000 + 200 * line,
            processes=(
                DeviceProcess(mine, mib(4000), "train.py", "C"),
                DeviceProcess(other, mib(1000 + 200 * line), "serve.py", "C"),
            ),
        )
        for line in range(1, 21)
    )
    facts = facts_of_loop(*readings)
    assert facts.value("device.rise_process", "cuda:0") == "serve.py (pid 8)"
    assert facts.value("device.rise_process_bytes", "cuda:0") == mib(200 * 18)
    assert facts.value("device.foreign_rise_bytes", "cuda:0") is None  # nothing says whose process 8 is
    failed = LogEvent(EventKind.DEVICE_OOM, HERE, {"requested_bytes": gib(1)}, device=0, pid=mine)
    facts = facts_of_loop(*readings, events=(failed,))
    assert facts.value("device.foreign_rise_bytes", "cuda:0") == mib(200 * 18)
    assert facts.value("device.foreign_process", "cuda:0") == "serve.py (pid 8)"


def torch_prints(line: int, reserved: float) -> LogEvent:
    fields = {"reserved_bytes": mib(reserved), "allocated_bytes": mib(reserved - 100)}
    return LogEvent(EventKind.DEVICE_STATE, Source(path="loop.csv", line=line), fields, device=0)


def alone(line: int, used: float) -> DeviceReading:
    process = DeviceProcess(7, mib(used), "train.py", "C")
    return reading(line, used + 300, dated=False, processes=(process,))


def test_what_grows_beside_torch_in_the_only_process():
    readings = [alone(2 * line, 9000 + 300 * line) for line in range(1, 25)]
    level = tuple(torch_prints(2 * line - 1, 8000 + line % 2) for line in range(1, 25))
    facts = facts_of_loop(*readings, events=level)
    assert facts.value("growth.outside_torch_steady", "cuda:0") is True
    assert facts.value("growth.outside_torch_bytes", "cuda:0") == pytest.approx(mib(300 * 22), abs=mib(1))
    assert facts.value("growth.steady", "cuda:0") is False
    rising = tuple(torch_prints(2 * line - 1, 8000 + 300 * line) for line in range(1, 25))
    facts = facts_of_loop(*readings, events=rising)
    assert facts.value("growth.outside_torch_steady", "cuda:0") is False
    assert facts.value("growth.outside_torch_bytes", "cuda:0") is None


def test_beside_another_process_or_in_another_log_nothing_is_said_of_it():
    level = tuple(torch_prints(2 * line - 1, 8000) for line in range(1, 25))
    two = [
        reading(2 * line, 9000, dated=False, processes=(DeviceProcess(7, mib(9000)), DeviceProcess(8, mib(300 * line))))
        for line in range(1, 25)
    ]
    assert facts_of_loop(*two, events=level).value("growth.outside_torch_steady", "cuda:0") is None
    elsewhere = tuple(
        LogEvent(one.kind, Source(path="other.log", line=one.source.line), one.fields, device=0) for one in level
    )
    readings = [alone(2 * line, 9000 + 300 * line) for line in range(1, 25)]
    assert facts_of_loop(*readings, events=elsewhere).value("growth.outside_torch_steady", "cuda:0") is None


def test_prints_that_never_change_are_level():
    first, last = torch_prints(1, 8000), torch_prints(90, 8000)
    last = LogEvent(last.kind, last.source, {**last.fields, "repeats": 40}, device=0)
    assert facts_of_loop(events=(first, last)).value("growth.steady", "cuda:0") is False
    few = LogEvent(last.kind, last.source, {**first.fields, "repeats": 3}, device=0)
    assert facts_of_loop(events=(first, few)).value("growth.steady", "cuda:0") is None


def test_two_tools_that_show_one_moment_make_one_look():
    of_process = DeviceReading(
        0, Source(path="loop.csv", line=9), processes=(DeviceProcess(7, mib(4000)),), time_seconds=1051.0
    )
    facts = facts_of_loop(reading(10, 5000), of_process)
    assert facts.value("device.used_bytes", "cuda:0") == mib(5000)
    assert facts.value("device.processes", "cuda:0") == 1
    assert facts.value("device.unlisted_bytes", "cuda:0") == mib(1000)
    late = DeviceReading(0, of_process.source, processes=of_process.processes, time_seconds=9999.0)
    facts = facts_of_loop(reading(10, 5000), late)
    assert facts.value("device.used_bytes", "cuda:0") is None


def test_processes_that_are_only_named_are_told_apart_by_their_name():
    listed = (DeviceProcess(None, mib(400), "alice"), DeviceProcess(None, mib(300), "bob"))
    facts = facts_of_loop(reading(1, 900, processes=listed))
    assert facts.value("device.processes", "cuda:0") == 2
    assert facts.value("devices.processes_on_several") == 0


def test_curves_of_dated_readings():
    readings = tuple(
        reading(line, 5000 + line, processes=(DeviceProcess(7, mib(4000 + line), "train.py"),)) for line in range(1, 4)
    )
    of_device, of_process = all_series(Evidence(devices=readings))
    assert (of_device.where, of_device.name, of_device.limit_bytes) == ("cuda:0", "used on the device", gib(24))
    assert of_device.times_seconds == (1005.0, 1010.0, 1015.0)
    assert of_device.values_bytes == (mib(5001), mib(5002), mib(5003))
    assert of_device.how_sampled == "about every 5.00 s as printed"
    assert (of_process.name, of_process.values_bytes[-1]) == ("train.py (pid 7)", mib(4003))
    assert all_series(Evidence(devices=loop([1, 2, 3], dated=False))) == ()


def test_curves_of_what_a_program_printed_of_its_allocator():
    prints = tuple(
        LogEvent(
            EventKind.DEVICE_STATE,
            Source(path="train.log", line=step),
            {"allocated_bytes": mib(100 * step), "reserved_bytes": mib(200 * step)},
            device=0,
            time_seconds=60.0 * step,
        )
        for step in range(1, 4)
    )
    allocated, reserved = all_series(Evidence(events=prints))
    assert (allocated.where, allocated.name, allocated.values_bytes[-1]) == ("cuda:0", "allocated by torch", mib(300))
    assert (reserved.name, reserved.how_sampled) == ("reserved by torch", "about every 60 s as printed")
    undated = tuple(LogEvent(one.kind, one.source, one.fields, device=0) for one in prints)
    assert all_series(Evidence(events=undated)) == ()
