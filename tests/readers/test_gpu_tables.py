"""Every form in which people paste what their devices hold."""

from __future__ import annotations

import io

import gpu_samples as samples
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomdoctor.model.devices import DeviceProcess, DeviceReading
from oomdoctor.model.events import EventKind, LogEvent
from oomdoctor.model.source import Source
from oomdoctor.readers.gpu_tables.forms import find_devices
from oomdoctor.readers.gpu_tables.shelf import MOST_POINTS, ReadingShelf
from oomdoctor.readers.log.engine import LogReading, read_log
from oomdoctor.readers.unplaced import placed

MIB = 1 << 20
EVENING = 1741384173.0
"""Fri Mar  7 21:49:33 2025."""


def read(text: str) -> LogReading:
    return read_log(io.BytesIO(text.encode()), "p")


def course(readings: tuple[DeviceReading, ...], index: int) -> list[int | None]:
    """Of one device, MiB in use."""
    used = [reading.used_bytes for reading in readings if reading.index == index]
    return [None if size is None else size // MIB for size in used]


def listed(reading: DeviceReading) -> list[tuple[int | None, int | None]] | None:
    """Processes and what they hold in MiB."""
    if reading.processes is None:
        return None
    return [(p.pid, None if p.used_bytes is None else p.used_bytes // MIB) for p in reading.processes]


def test_tables_of_four_generations():
    (wide,) = read(samples.WIDE).device_readings
    assert (wide.used_bytes, wide.total_bytes, wide.mig_mode) == (60234 * MIB, 81920 * MIB, False)
    assert listed(wide) == [(62563, 51200), (71000, 8500)]
    (narrow,) = read(samples.NARROW).device_readings
    assert (narrow.name, narrow.used_bytes, narrow.processes) == ("Tesla T4", 7021 * MIB, ())
    (sliced,) = read(samples.MIG).device_readings
    assert (sliced.used_bytes, sliced.mig_mode, listed(sliced)) == (50 * MIB, True, [(40961, 11)])
    (unified,) = read(samples.UNIFIED).device_readings
    assert (unified.used_bytes, unified.total_bytes, listed(unified)) == (None, None, [(4242, 98304)])


def test_csv_in_a_loop_is_a_series_with_its_times():
    readings = read(samples.CSV).device_readings
    assert (course(readings, 0), course(readings, 1)) == ([1000, 1500], [200, 200])
    assert [reading.time_seconds for reading in readings] == [EVENING + s for s in (0.5, 0.504, 5.5, 5.504)]
    assert [reading.utilization for reading in readings] == [0.07, None, 0.93, None]
    assert readings[1].free_bytes is None


def test_csv_without_header_has_the_columns_of_its_command():
    readings = read(samples.BARE_CSV).device_readings
    assert (course(readings, 0), course(readings, 1)) == ([1000, 1500], [200, 200])
    assert readings[0].total_bytes == 23034 * MIB
    (only,) = read("$ nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits\n1234\n").device_readings
    assert (only.index, only.used_bytes) == (0, 1234 * MIB)


def test_csv_of_unknown_columns_is_said_and_not_guessed():
    reading = read("2025/03/07 21:49:33.500, 1000 MiB, 23034 MiB\n2025/03/07 21:49:34.500, 1100 MiB, 23034 MiB\n")
    assert reading.device_readings == ()
    (note,) = reading.notes
    assert "without their header" in note


def test_csv_without_an_index_is_numbered_only_where_one_look_is_told_from_the_next():
    loop = "timestamp, memory.used [MiB]\n" + "".join(
        f"2025/03/07 21:49:{second}.{part}, {used} MiB\n"
        for second, used in ((33, 5), (38, 6))
        for part in ("500", "510")
    )
    readings = read(loop).device_readings
    assert (course(readings, 0), course(readings, 1)) == ([5, 6], [5, 6])
    repeated = read("memory.used [MiB]\n5 MiB\n7 MiB\n" * 2).device_readings
    assert (course(repeated, 0), course(repeated, 1)) == ([5, 5], [7, 7])
    untold = read("memory.used [MiB], memory.total [MiB]\n5 MiB, 9 MiB\n7 MiB, 9 MiB\n")
    assert untold.device_readings == ()
    assert untold.notes == ("2 rows of nvidia-smi's CSV do not say which device they are of: query index too",)


def test_a_list_of_processes_without_its_device_is_said():
    reading = read("pid, process_name, used_gpu_memory [MiB]\n42, python, 4 MiB\n")
    assert not any(one.index_told for one in reading.device_readings)
    assert "on which device" in reading.notes[0]
    both = read(
        "index, memory.used [MiB]\n0, 9 MiB\npid, process_name, used_gpu_memory [MiB]\n42, python, [N/A]\n"
    ).device_readings
    assert [listed(one) for one in both] == [[(42, None)]]


def test_a_program_that_logs_between_the_rows_is_no_hindrance():
    lines = samples.CSV.splitlines(keepends=True)
    mixed = lines[0] + "".join(f"{line}step 1, loss 2, a, b, c, d, e\nplain\n" for line in lines[1:])
    assert course(read(mixed).device_readings, 0) == [1000, 1500]
    numbers = "index, memory.used [MiB]\n0, 5 MiB\n0, 17\n1, 2\n0, 6 MiB\n"  # a program's own rows have no units
    assert course(read(numbers).device_readings, 0) == [5, 6]


def test_dmon():
    readings = read(samples.DMON).device_readings
    assert (course(readings, 0), course(readings, 1)) == ([14813, 15325, 15837], [300, 300])
    assert (readings[0].utilization, readings[0].total_bytes, readings[0].processes) == (1.0, None, None)
    timed = read(samples.TIMED_DMON).device_readings
    assert [(one.used_bytes, one.time_seconds) for one in timed] == [(3611 * MIB, EVENING), (3711 * MIB, EVENING + 1)]
    power = read(samples.POWER_DMON)
    assert power.device_readings == ()
    assert "-s m" in power.notes[0]


def test_pmon():
    readings = read(samples.PMON).device_readings
    assert [listed(one) for one in readings if one.index == 0] == [
        [(447153, 7669), (447160, 11057)],
        [(447153, 7800), (447160, 11057)],
    ]
    assert [listed(one) for one in readings if one.index == 1] == [[], []]
    assert readings[0].processes[1] == DeviceProcess(447160, 11057 * MIB, "python3.9", "C+G")
    assert readings[0].used_bytes is None


def test_query_with_slices_and_of_an_old_driver():
    (sliced,) = read(samples.QUERY).device_readings
    assert (sliced.total_bytes, sliced.used_bytes, sliced.free_bytes) == (40960 * MIB, 100 * MIB, 40424 * MIB)
    assert (sliced.reserved_by_driver_bytes, sliced.mig_mode, sliced.utilization) == (435 * MIB, True, None)
    assert listed(sliced) == [(42, 90)]
    first, second = read(samples.OLD_QUERY).device_readings
    assert (first.index, first.used_bytes, first.processes) == (0, 190 * MIB, None)
    assert (second.index, second.used_bytes, second.processes) == (1, 20 * MIB, ())


def test_xml():
    first, second = read(samples.XML).device_readings
    assert (first.index, first.uuid, first.time_seconds, first.mig_mode) == (0, "GPU-a", EVENING, True)
    assert (first.total_bytes, first.used_bytes, first.free_bytes) == (40960 * MIB, 249 * MIB, 40276 * MIB)
    assert (first.reserved_by_driver_bytes, first.utilization) == (435 * MIB, 1.0)
    assert first.processes == (DeviceProcess(4201, 1024 * MIB, "train.py <a>", "C"),)
    assert (second.index, second.used_bytes, second.processes) == (1, None, ())
    in_one_line = samples.XML.replace("\n", "").replace("\t", "")
    assert course(read(in_one_line).device_readings, 0) == [249]
    assert course(read(samples.XML + samples.XML).device_readings, 0) == [249, 249]


def test_gpustat():
    first, second, third = read(samples.GPUSTAT).device_readings
    assert (first.name, first.used_bytes, first.total_bytes) == ("GeForce GTX Titan X", 11848 * MIB, 12287 * MIB)
    assert (first.utilization, first.time_seconds, listed(first)) == (0.96, EVENING, [(52046, 11821), (7, None)])
    assert first.processes[0].name == "alice:python"
    assert (second.name, second.utilization, second.processes) == ("Tesla K80", None, None)
    assert (third.used_bytes, third.processes) == (7 * MIB, None)
    (coloured,) = read(samples.COLOURED_GPUSTAT).device_readings
    assert (coloured.name, coloured.used_bytes) == ("NVIDIA A100-SXM4-80GB", 69424 * MIB)
    assert coloured.processes == (DeviceProcess(None, 69422 * MIB, "poong"),)


def test_gpustat_json():
    first, second = read(samples.GPUSTAT_JSON).device_readings
    assert (first.index, first.uuid, first.used_bytes, first.total_bytes) == (0, "GPU-a", 1000 * MIB, 23034 * MIB)
    assert (first.time_seconds, first.processes) == (EVENING + 0.5, (DeviceProcess(52046, 990 * MIB, "python"),))
    assert (second.index, second.used_bytes, second.processes) == (1, 3 * MIB, None)
    compact = "".join(line.strip() for line in samples.GPUSTAT_JSON.splitlines())
    assert course(read(f"{compact}\n{compact}\n").device_readings, 1) == [3, 3]


@pytest.mark.parametrize("name", sorted(samples.ALL))
@pytest.mark.parametrize(
    "pasted",
    [
        lambda text: "".join(f"> {line}" for line in f"see\n\n```\n{text}```\nwhat now?\n".splitlines(keepends=True)),
        lambda text: "".join(f"    {line}" for line in f"see\n\n{text}what now?\n".splitlines(keepends=True)),
        lambda text: "".join(
            f"2025-03-07T21:49:33.000000Z {line}" for line in f"see\n{text}after\n".splitlines(keepends=True)
        ),
        lambda text: f"see\n{text}after\n".replace("\n", "\r\n"),
        lambda text: "an ordinary line\n" * 5000 + text + "an ordinary line\n" * 5000,
    ],
    ids=["quoted", "indented", "stamped", "windows", "buried"],
)
def test_a_piece_is_found_wherever_it_was_pasted(name, pasted):
    text = samples.ALL[name]
    alone, there = read(text), read(pasted(text))

    def seen(reading: LogReading) -> list[tuple[object, ...]]:
        return [(one.index, one.used_bytes, one.total_bytes, one.processes) for one in reading.device_readings]

    assert seen(there) == seen(alone)
    assert there.notes == alone.notes
    assert seen(alone) or name == "POWER_DMON"


def test_the_time_a_line_was_logged_stands_in_where_the_tool_prints_none():
    (reading,) = read(
        "".join(f"2025-03-07T21:49:33.000000Z {line}" for line in samples.MIG.splitlines(keepends=True))
    ).device_readings
    assert reading.time_seconds == EVENING


@pytest.mark.parametrize("name", ["CSV", "NARROW", "DMON", "XML", "GPUSTAT"])
def test_a_loop_longer_than_any_buffer_is_read_to_its_end_and_once(name):
    text = samples.ALL[name]
    alone = read(text).device_readings
    times = 1200 * 1024 // len(text)
    looped = read(text * times)
    assert len(looped.device_readings) < 4 * MOST_POINTS
    last = [one for one in looped.device_readings if one.index == 0][-1]
    assert last.source.line == [one for one in alone if one.index == 0][-1].source.line + (times - 1) * text.count("\n")
    if times * len(alone) < MOST_POINTS:
        assert len(looped.device_readings) == times * len(alone)


def test_a_week_of_readings_is_kept_within_bounds_with_its_first_its_last_and_its_highest():
    shelf, whole = ReadingShelf(), 100_000
    for second in range(whole):
        used = 10_000 * MIB if second == 23_457 else (100 + second % 7) * MIB
        shelf.add(DeviceReading(0, alike := Source(path="p", line=second), used_bytes=used, time_seconds=float(second)))
        shelf.add(DeviceReading(0, alike, processes=(DeviceProcess(1, used),)))
    kept = shelf.readings()
    of_device = [one for one in kept if one.used_bytes is not None]
    assert MOST_POINTS / 2 <= len(of_device) <= MOST_POINTS + 2
    assert len(kept) <= 2 * (MOST_POINTS + 2)
    assert (of_device[0].time_seconds, of_device[-1].time_seconds) == (0.0, whole - 1.0)
    assert max(one.used_bytes for one in of_device) == 10_000 * MIB
    assert [one.time_seconds for one in of_device] == sorted(one.time_seconds for one in of_device)
    assert shelf.notes() == ("200,000 readings of devices were thinned to the highest of each stretch",)


@pytest.mark.parametrize("name", sorted(samples.ALL))
def test_every_cut_of_a_piece_is_read_without_complaint(name):
    text = samples.ALL[name]
    for cut in range(0, len(text), 37):
        read(text[:cut])
        read(text[cut:])


_PIECES = sorted({line for text in samples.ALL.values() for line in text.splitlines()})


@given(st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=60)), max_size=60))
@settings(max_examples=100)
def test_no_text_makes_a_reader_raise(lines):
    text = "\n".join(lines)
    read(text)
    find_devices(lines, "p")


_APPS = "pid, process_name, used_gpu_memory [MiB]\n4410, python, 13210 MiB\n5120, serve, 9804 MiB\n"
_BY_UUID = "gpu_uuid, pid, used_gpu_memory [MiB]\nGPU-a, 4410, 13210 MiB\nGPU-b, 5120, 9804 MiB\n"


def test_a_list_of_processes_alone_is_read_and_says_that_its_device_is_not_told():
    (reading,) = read(_APPS).device_readings
    assert (reading.index, reading.index_told, listed(reading)) == (0, False, [(4410, 13210), (5120, 9804)])
    assert "does not say on which device" in read(_APPS).notes[0]
    assert [(one.index, one.index_told, listed(one)) for one in read(_BY_UUID).device_readings] == [
        (0, False, [(4410, 13210)]),
        (1, False, [(5120, 9804)]),
    ]


def _event(device):
    return LogEvent(EventKind.DEVICE_OOM, Source(path="a.log", line=1), {}, "", device)


def test_such_a_list_is_of_the_only_device_that_is_known_and_of_none_where_several_are():
    (listing,) = read(_APPS).device_readings
    assert [one.index for one in placed([listing], [_event(3)], [], [])] == [3]
    assert placed([listing], [_event(3), _event(4)], [], []) == ()
    assert placed([listing], [_event(None)], [], []) == (listing,)
    told = DeviceReading(1, Source(path="gpus.csv", line=2), used_bytes=1)
    assert [one.index for one in placed([told, listing], [], [], [])] == [1, 1]
    assert placed([told, *read(_BY_UUID).device_readings], [], [], []) == (told,)
