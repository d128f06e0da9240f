# ruff: noqa: E501  (log lines are as long as they are)
from __future__ import annotations

import gzip
import io
import random
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oomdoctor.model.events import EventKind as K
from oomdoctor.readers.log.engine import LogReading, read_log
from oomdoctor.readers.log.registry import ALL_FAMILIES

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 1 has a total capacity of 23.50 GiB of which"
    " 1.25 GiB is free. Including non-PyTorch memory, this process has 22.25 GiB memory in use. Of the allocated memory"
    " 20.00 GiB is allocated by PyTorch, and 1.50 GiB is reserved by PyTorch but unallocated."
)
LOG = f"""epoch 1 café
Traceback (most recent call last):
  File "train.py", line 10, in main
    step(batch)
  File "model.py", line 20, in step
    return a @ b
{OOM}
train.sh: line 3:  4242 Killed                  python train.py
bye
"""


def read(raw: bytes | str) -> LogReading:
    return read_log(io.BytesIO(raw.encode() if isinstance(raw, str) else raw), "some.log")


def essence(reading: LogReading) -> list[object]:
    return [(event.kind, dict(event.fields), event.device, event.source.line) for event in reading.events]


PLAIN = essence(read(LOG))


def test_the_plain_log() -> None:
    assert [(kind, line) for kind, _, _, line in PLAIN] == [  # type: ignore[misc]
        (K.EXCEPTION, 2),
        (K.DEVICE_OOM, 7),
        (K.PROCESS_KILLED, 8),
    ]


@pytest.mark.parametrize(
    "raw",
    [
        LOG.replace("\n", "\r\n").encode(),
        LOG.encode("utf-8-sig"),
        LOG.encode("utf-16"),
        LOG.encode("utf-16-le"),
        LOG.encode("utf-16-be"),
        LOG.encode("latin-1"),
        gzip.compress(LOG.encode(), mtime=0),
        LOG.replace("CUDA out of memory", "\x1b[31mCUDA out\x1b[1m of memory\x1b[0m").encode(),
        LOG.replace("Tried to allocate 2.50 GiB", "Tried to allocate \x1b[1;36m2.50\x1b[0m GiB").encode(),
        LOG.replace("epoch 1", "\r 1%|#\r 2%|##\repoch 1").encode(),
        "".join(f"trainer  | {line}\n" for line in LOG.splitlines()).encode(),
        "".join(f"[rank0]: {line}\n" for line in LOG.splitlines()).encode(),
        "".join(f"2025-03-07T21:49:33.5Z stdout F {line}\n" for line in LOG.splitlines()).encode(),
        "".join(f"> {line}\n" for line in LOG.splitlines()).encode(),
    ],
)
def test_the_same_events_however_it_is_written(raw: bytes) -> None:
    assert essence(read(raw)) == PLAIN


def test_tqdm_segments_are_lines_of_the_same_number() -> None:
    reading = read(f"start\n  1%|a\r  2%|b{OOM}\r  3%|c\nend\n")
    (event,) = [event for event in reading.events if event.kind is K.DEVICE_OOM]
    assert event.source.line == 2
    assert reading.lines_read == 3


def test_where_an_event_was_found() -> None:
    reading = read(f"a\n[rank3]: {OOM}\n")
    (event,) = (event for event in reading.events if event.kind is K.DEVICE_OOM)
    assert (event.source.path, event.source.line, event.rank, event.device) == ("some.log", 2, 3, 1)
    assert event.text.startswith("torch.OutOfMemoryError")


def test_a_statement_across_chunks_and_lines_counted() -> None:
    filler = "nothing of interest here\n"
    before = filler * (1_048_500 // len(filler))
    for shift in range(0, 400, 37):
        reading = read(f"{before}{'y' * shift}\n{LOG}{filler * 5000}")
        first = before.count("\n") + 2
        assert [event.source.line for event in reading.events] == [first + 1, first + 6, first + 7]
        assert reading.lines_read == before.count("\n") + 1 + 9 + 5000


def test_an_anchor_far_into_a_gigantic_line() -> None:
    reading = read(b"x" * 3_000_000 + OOM.encode() + b" " + b"y" * 2_000_000 + b"\nKilled\n")
    assert [(event.kind, event.source.line) for event in reading.events] == [(K.DEVICE_OOM, 1), (K.PROCESS_KILLED, 2)]
    assert reading.events[0].size("requested_bytes") == 5 << 29


def test_repeats_are_counted_first_and_last_kept() -> None:
    reading = read("a\n" + f"{OOM}\n" * 1500 + "b\n")
    first, last = [event for event in reading.events if event.kind is K.DEVICE_OOM]
    assert (first.source.line, last.source.line) == (2, 1501)
    assert "repeats" not in first.fields
    assert last.fields["repeats"] == 1500


def test_failed_tries_are_one_statement_whatever_their_numbers() -> None:
    tries = "".join(
        f"[W1129 15:39:39.5 CUDACachingAllocator.cpp:3934] memory allocation failed with OOM on device 0 while trying to"
        f" allocate {i} bytes (free: {i}, total: 25769803776).\n"
        for i in range(1, 500)
    )
    events = read(tries).events
    assert [(event.kind, event.fields.get("repeats")) for event in events] == [
        (K.DEVICE_OOM_TRY, None),
        (K.DEVICE_OOM_TRY, 499),
    ]
    assert (events[0].fields["requested_bytes"], events[1].fields["free_bytes"]) == (1, 498 + 1)


def test_different_events_are_bounded_and_the_result_says_so() -> None:
    text = "".join(f"tcmalloc: large alloc {i} bytes == 0x1 @\n" for i in range(1, 10_001))
    reading = read(text)
    sizes = [event.fields["requested_bytes"] for event in reading.events]
    assert len(sizes) == 4000
    assert (sizes[:1000], sizes[-2000:]) == (list(range(1, 1001)), list(range(8001, 10_001)))
    assert "2000 events" in reading.notes[0]
    assert "passed over" in reading.notes[1]


def test_excerpts_hold_the_latest_failure_and_are_few() -> None:
    text = "".join(f"line {i}\n" * 30 + OOM.replace("2.50", f"{i}.00") + "\n" for i in range(1, 100))
    reading = read(text)
    assert len(reading.excerpts) <= 12
    latest = reading.excerpts[-1]
    assert latest.marked == (99 * 31,)
    assert latest.lines[latest.marked[0] - latest.first_line].startswith("torch.OutOfMemoryError")
    assert all(len(excerpt.lines) <= 13 for excerpt in reading.excerpts)


def test_an_excerpt_shows_lines_as_an_editor_numbers_them() -> None:
    (excerpt,) = read("a\nb\n1%|\r2%|\r\n" + OOM + "\nend").excerpts
    assert (excerpt.first_line, excerpt.marked) == (1, (4,))
    assert excerpt.lines == ("a", "b", "2%|", OOM, "end")


def test_progress_and_bytes() -> None:
    told: list[int] = []
    reading = read_log(io.BytesIO(b"text\n" * 1_000_000), "p", progress=told.append)
    assert told == sorted(told)
    assert told[-1] == reading.bytes_read == 5_000_000


def test_interleaved_ranks_are_kept_apart() -> None:
    lines = [
        f"[rank{rank}]: {line.replace('step', f'step{rank}')}" for line in LOG.splitlines()[1:7] for rank in (0, 1)
    ]
    events = [event for event in read("\n".join(lines)).events if event.kind is K.EXCEPTION]
    assert [event.rank for event in events] == [0, 1]
    assert [event.fields["frames"][1][2] for event in events] == ["step0", "step1"]  # type: ignore[index]


def test_nvidia_smi_in_a_log() -> None:
    reading = read(
        "before\n"
        "| NVIDIA-SMI 550.54   Driver Version: 550.54   CUDA Version: 12.4     |\n"
        "|   0  NVIDIA L4                      On  |   00000000:07:00.0 Off |                    0 |\n"
        "| N/A   35C    P0             64W /  400W |   100MiB /  23034MiB |      7%      Default |\n"
        "+------+\n\n"
        "| Processes:                                  |\n"
        "|    0   N/A  N/A     62563      C   python                                 96MiB |\n"
        "after\n"
    )
    (device,) = reading.device_readings
    assert (device.index, device.name, device.used_bytes) == (0, "NVIDIA L4", 100 << 20)
    assert device.processes is not None
    assert device.processes[0].used_bytes == 96 << 20


ANCHORS = sorted({pattern.anchor for family in ALL_FAMILIES for pattern in family.patterns})


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from([a.encode() for a in ANCHORS]),
            st.sampled_from([b"\n", b"\r", b"\x1b[0m", b"| ", b" 5 GiB ", b"["]),
        ),
        max_size=60,
    )
)
@example([b"\xff\xfe", b"Killed"])
@settings(max_examples=100)
def test_no_bytes_raise(parts: list[bytes]) -> None:
    read(b"".join(parts))


@given(
    st.sampled_from(ANCHORS),
    st.sampled_from(["a", "1", " ", "a ", "1 ", "(", "x.", "[1,", "Error: ", "1.5 GiB ", "| ", "File "]),
)
@settings(max_examples=100)
def test_no_line_takes_long(anchor: str, filler: str) -> None:
    started = time.process_time()
    read(f"{filler * 8000}{anchor}{filler * 8000}\n")
    assert time.process_time() - started < 3


def test_noise_is_read_fast_and_with_bounded_memory() -> None:
    chooser = random.Random(3)
    words = [
        "the",
        "step",
        "loss",
        "epoch",
        "memory",
        "reserved",
        "model",
        "layer",
        "batch",
        "0.123",
        "tensor",
        "device",
        "cuda",
        "token",
        "running",
        "error",
        "GPU",
    ]
    block = "\n".join(" ".join(chooser.choices(words, k=14)) for _ in range(12_000)).encode()
    source = io.BytesIO(block * (50_000_000 // len(block)))
    started = time.process_time()
    reading = read_log(source, "noise.log")
    assert reading.events == ()
    assert time.process_time() - started < 30
