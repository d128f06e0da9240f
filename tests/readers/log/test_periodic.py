"""Of the figures that a server prints again and again, the first and the last are read, and what else matters."""

from __future__ import annotations

import io

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.readers.log.engine import LogReading, read_log

START = "INFO 11-29 12:00:00 [gpu_worker.py:298] Available KV cache memory: 20.00 GiB\n"
OOM = "RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"


def load(number: int) -> str:
    return (
        f"INFO 11-29 12:00:00 [loggers.py:118] Engine 000: Avg prompt throughput: {number}.0 tokens/s, Avg generation"
        f" throughput: 1.0 tokens/s, Running: {number} reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache"
        " hit rate: 0.0%\n"
    )


def read(text: str) -> LogReading:
    return read_log(io.BytesIO(text.encode()), "server.log")


def running(reading: LogReading) -> list[object]:
    return [event.fields["running"] for event in reading.events if event.kind is K.ENGINE_LOAD]


def test_a_short_log_is_read_whole() -> None:
    reading = read("".join(map(load, range(3000))))
    assert running(reading) == list(range(3000))
    assert reading.notes == ()


def test_of_a_long_one_the_first_and_the_last() -> None:
    reading = read("".join(map(load, range(40_000))))
    found = running(reading)
    assert found[:1000] == list(range(1000))
    assert found[-2000:] == list(range(38_000, 40_000))
    assert len(found) == 3000
    assert [event.source.line for event in reading.events] == [number + 1 for number in found]  # type: ignore[operator]
    assert reading.lines_read == 40_000
    assert "those between the earliest and the latest were passed over" in reading.notes[0]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_other_events_among_them_are_read_and_so_is_what_follows_them(end: str) -> None:
    middle = START + load(555_555) + load(666_666)
    text = "".join(map(load, range(30_000))) + middle + "".join(map(load, range(100_000, 130_000))) + OOM
    reading = read(text.replace("\n", end))
    kinds = [event.kind for event in reading.events]
    assert kinds.count(K.ENGINE_KV_AVAILABLE) == kinds.count(K.DEVICE_OOM) == 1
    after = kinds.index(K.ENGINE_KV_AVAILABLE) + 1
    assert [event.fields["running"] for event in reading.events[after : after + 2]] == [555_555, 666_666]
    assert [event.source.line for event in reading.events] == sorted(event.source.line for event in reading.events)  # type: ignore[type-var]
    assert reading.events[-1].source.line == 60_004
    assert len(running(reading)) == len(set(running(reading)))


def test_a_failure_on_the_same_line_is_not_passed_over() -> None:
    text = "".join(map(load, range(10_000))) + load(7).strip() + " " + OOM + "".join(map(load, range(20_000, 90_000)))
    (oom,) = (event for event in read(text).events if event.kind is K.DEVICE_OOM)
    assert oom.source.line == 10_001


def test_work_on_ever_new_failures_is_bounded_and_the_first_and_the_last_are_kept() -> None:
    def oom(mib: int) -> str:
        return OOM.replace("2.50 GiB", f"{mib} MiB")

    end = "srun: error: node1: task 0: Out Of Memory\n"
    count = 15_000
    text = "".join(oom(number) for number in range(1, count // 2)) + START
    text += "".join(oom(number) for number in range(count // 2, count)) + end
    reading = read(text)
    sizes = [event.fields["requested_bytes"] // (1 << 20) for event in reading.events if event.kind is K.DEVICE_OOM]  # type: ignore[operator]
    assert sizes[:1000] == list(range(1, 1001))
    assert sizes[-2000:] == list(range(count - 2000, count))
    assert len(sizes) == len(set(sizes)) == 4000
    kinds = [event.kind for event in reading.events]
    assert kinds.count(K.ENGINE_KV_AVAILABLE) == 1
    assert kinds[-1] is K.PROCESS_KILLED
    assert reading.events[-1].source.line == count + 1
    assert any("passed over" in note for note in reading.notes)


FLOODS = {
    "kv_usage": (
        lambda number, high: load(number).replace("usage: 1.0%", f"usage: {98.7 if high else 1.0}%"),
        0.987,
    ),
    "token usage": (
        lambda number, high: (
            f"[2026-01-01 00:00:00] Decode batch. #running-req: {number}, #token: 10, "
            f"token usage: {0.97 if high else 0.01}, gen throughput (token/s): 1.0\n"
        ),
        0.97,
    ),
    "allocated": (
        lambda number, high: (
            f"(after {number} iterations) memory (MB) | allocated: {number}.5 | max allocated: "
            f"{90000.5 if high else number + 0.5} | reserved: 1.0 | max reserved: 2.0\n"
        ),
        round(90000.5 * (1 << 20)),
    ),
}


@pytest.mark.parametrize(("line", "highest"), FLOODS.values(), ids=FLOODS)
def test_the_highest_figure_is_read_wherever_it_stands(line, highest) -> None:
    reading = read("".join(line(number, number == 9_000) for number in range(30_000)))
    fields = ("kv_usage", "peak_allocated_bytes")
    found = [event for event in reading.events if highest in [event.fields.get(name) for name in fields]]
    assert [event.source.line for event in found] == [9_001]
    assert len(reading.events) <= 4001
