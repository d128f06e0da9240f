"""`oomdoctor whatif`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from snapshots.make import write
from snapshots.recorder import MIB, Recorder

from oomdoctor.allocator.simulation import run as simulated_run
from oomdoctor.cli import progress
from oomdoctor.cli.main import oomdoctor
from oomdoctor.cli.whatif import LATER, whatif
from oomdoctor.diagnose.pipeline import diagnose
from oomdoctor.errors import UsageError


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """300 MiB find no room beside five live pieces of 100 MiB in a segment of 1,000."""
    recorder = Recorder(1100 * MIB)
    whole = recorder.malloc(1000 * MIB)
    assert whole is not None
    recorder.free(whole)
    for tensor in [recorder.malloc(100 * MIB) for _ in range(10)][::2]:
        assert tensor is not None
        recorder.free(tensor)
    assert recorder.malloc(300 * MIB) is None
    return write(tmp_path / "oom.pickle", recorder.snapshot())


def run(*arguments: object) -> Result:
    return CliRunner().invoke(whatif, [str(argument) for argument in arguments])


def test_the_answer_says_what_is_left_and_how_far_it_goes(snapshot: Path) -> None:
    result = run(snapshot, "--set", "expandable_segments=True")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("cuda:0: a request of 300.00 MiB failed (event 24 of ")
    assert lines[2] == "With expandable_segments=True: the request is served, 300.00 MiB to spare."
    assert "it serves all 11 requests before it at the addresses at which torch did" in lines[4]
    assert lines[-1] == LATER


def test_without_a_question_the_usual_ones_are_asked(snapshot: Path) -> None:
    lines = run(snapshot).stdout.splitlines()
    assert [line.partition(":")[0] for line in lines[2:4]] == [
        "With expandable_segments=True",
        "With max_split_size_mb=512",
    ]


def test_json_is_for_programs(snapshot: Path) -> None:
    told = json.loads(run(snapshot, "--set", "expandable_segments:True", "--format", "json").stdout)
    assert told["schema"] == "oomdoctor.whatif/1"
    assert told["reproduced"] is True
    (answer,) = told["answers"]
    assert (answer["outcome"], answer["spare_bytes"]) == ("served", 300 * MIB)


@pytest.mark.parametrize(
    ("size", "said", "certain"),
    [
        # 1,000 MiB are reserved and 300 asked for.
        (
            "2GiB",
            "the request is served, 748.00 MiB to spare for the context and everybody else on that card; if they",
            False,
        ),
        (
            "1300MiB",
            "it cannot be told: the request is served if the context and everybody else on that card take 0 B",
            False,
        ),
        ("1298MiB", "fails at the same request, 2.00 MiB short. The context (mostly", True),
    ],
)
def test_another_card_without_the_size_of_the_first(snapshot: Path, size: str, said: str, certain: bool) -> None:
    """What others held of it is not known either: a lack is certain, enough is not."""
    alone = run(snapshot, "--memory", size)
    assert alone.exit_code == 0
    assert said in alone.stdout
    told = json.loads(run(snapshot, "--memory", size, "--format", "json").stdout)
    assert told["answers"][0]["certain"] is certain
    assert json.loads(run(snapshot, "--format", "json").stdout)["answers"][0]["certain"] is True


def test_another_card_is_as_full_of_others_as_the_first(snapshot: Path, tmp_path: Path) -> None:
    log = tmp_path / "crash.log"
    log.write_text(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 300.00 MiB. GPU 0 has a total capacity of"
        " 1.20 GiB of which 100.00 MiB is free. Including non-PyTorch memory, this process has 1.07 GiB memory in use."
        " Of the allocated memory 500.00 MiB is allocated by PyTorch, and 500.00 MiB is reserved by PyTorch but"
        " unallocated.\n"
    )
    beside = run(snapshot, log, "--memory", "2GiB")
    assert beside.exit_code == 0, beside.stdout
    assert "On a card of 2.00 GiB: the request is served, " in beside.stdout
    assert "The context" not in beside.stdout


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("max_split_size_mb=19", "at least 20"),
        ("max_split_size_mb=2.5", "whole number"),
        ("max_split=128", "has no option 'max_split' that can be simulated; these can: expandable_segments,"),
        ("expandable_segments=true", "True or False, spelled so"),
        ("garbage_collection_threshold=1", "below 1"),
        ("per_process_memory_fraction=1.5", "at most 1"),
        ("roundup_power2_divisions=3", "power of two"),
        ("roundup_power2_divisions=[100:2]", "pairs of powers of two"),
        ("backend=cudaMallocAsync", "another backend"),
        ("pinned_num_register_threads=8", "does not change which requests are served"),
        ("expandable_segments", "NAME=VALUE"),
    ],
)
def test_a_setting_that_torch_refuses_is_refused(snapshot: Path, setting: str, said: str) -> None:
    result = run(snapshot, "--set", setting)
    assert isinstance(result.exception, UsageError)
    assert said in str(result.exception)


@pytest.mark.parametrize("size", ["much", "0", "-4GiB"])
def test_a_memory_that_is_no_size_is_refused(snapshot: Path, size: str) -> None:
    assert isinstance(run(snapshot, "--memory", size).exception, UsageError)


def test_what_is_no_snapshot_has_no_answer(snapshot: Path, tmp_path: Path) -> None:
    (tmp_path / "crash.log").write_text("nothing\n")
    result = run(tmp_path / "crash.log")
    assert result.exit_code == 3
    assert "No memory snapshot could be read" in result.stdout
    assert "No snapshot of device 3 holds the request" in run(snapshot, "--device", 3).stdout
    told = json.loads(run(tmp_path / "crash.log", "--format", "json").stdout)
    assert told["why_not"].startswith("No memory snapshot")
    assert told["answers"] == []


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        (0, "segments; no request before it was recorded."),
        (1, "segments; it serves the one request before it at the address at which torch did."),
        (2, "segments; it serves all 2 requests before it at the addresses at which torch did."),
    ],
)
def test_one_request_is_one(tmp_path: Path, requests: int, words: str) -> None:
    recorder = Recorder(200 * MIB)
    for _ in range(requests):
        recorder.malloc(30 * MIB)
    assert recorder.malloc(300 * MIB) is None
    assert words in run(write(tmp_path / "s.pickle", recorder.snapshot())).stdout


@pytest.mark.parametrize(
    ("times", "device"),
    [((None, None), 0), ((7, 7), 0), ((5, 7), 1), ((7, 5), 0), ((None, 7), 0)],
)
def test_of_several_failures_all_commands_take_the_same(
    tmp_path: Path, times: tuple[int | None, int | None], device: int
) -> None:
    """The latest by the times, if both have one; else the lowest device."""
    content: dict[str, Any] = {}
    for index, (time, size) in enumerate(zip(times, (300, 400), strict=True)):
        recorder = Recorder(200 * MIB)
        for _ in range(1 + index):
            recorder.malloc(50 * MIB)
        assert recorder.malloc(size * MIB) is None
        part = recorder.snapshot()
        for segment in part["segments"]:
            segment["device"] = index
        if time is not None:
            for event in part["device_traces"][0]:
                event["time_us"] = time * 1_000_000
        content.setdefault("segments", []).extend(part["segments"])
        content.setdefault("device_traces", []).extend(part["device_traces"])
        content["allocator_settings"] = part["allocator_settings"]
    path = write(tmp_path / "s.pickle", content)
    told = json.loads(run(path, "--set", "expandable_segments=True", "--format", "json").stdout)
    diagnosis = diagnose([path])
    assert told["device"] == f"cuda:{device}" == diagnosis.incidents[0].where
    assert told["request_bytes"] == diagnosis.incidents[0].requested_bytes
    assert {one.where for one in diagnosis.failed_requests} == {"cuda:0", "cuda:1"}


@pytest.mark.parametrize("command", [("whatif", "--set", "expandable_segments=True"), ("analyze",)])
def test_who_waits_at_a_terminal_is_told_how_far_the_simulation_is(
    command: tuple[str, ...], snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int, int]] = []
    monkeypatch.setattr(simulated_run, "_STEPS_BETWEEN", 4)
    monkeypatch.setattr(progress, "is_terminal", lambda stream: True)
    monkeypatch.setattr(progress.Bar, "simulating", lambda bar, *what: told.append(what))
    assert CliRunner().invoke(oomdoctor, [*command, str(snapshot)]).exit_code == 0
    ((_, length),) = {(path, all_) for path, _, all_ in told if path == str(snapshot)}
    done = [done for _, done, _ in told]
    assert done == [*range(0, length, 4)] * (len(done) // len(range(0, length, 4)))
    assert len(done) > length // 4 + 1


def test_a_log_of_another_failure_is_said_not_to_belong(snapshot: Path, tmp_path: Path) -> None:
    log = tmp_path / "other.log"
    said = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {size}. GPU {device} has a total capacity of"
        " 23.69 GiB of which 5.11 GiB is free. Of the allocated memory 17.71 GiB is allocated by PyTorch, and 7 MiB is"
        " reserved by PyTorch but unallocated.\n"
    )
    for size, device, belongs in (("300.00 MiB", 0, True), ("6.00 GiB", 0, False), ("300.00 MiB", 1, False)):
        log.write_text(said.format(size=size, device=device))
        result = run(snapshot, log, "--set", "expandable_segments=True", "--format", "json")
        assert result.exit_code == 0
        notes = " ".join(json.loads(result.stdout)["notes"])
        assert ("does not belong to this snapshot" in notes) != belongs
        assert (f"{size} on cuda:{device}" in notes) != belongs
    text = run(snapshot, log).stdout
    assert "it does not belong to this snapshot, and nothing is taken from it" in text
    other_card = run(snapshot, log, "--memory", "40GiB", "--format", "json")
    assert "does not belong to this snapshot" in " ".join(json.loads(other_card.stdout)["notes"])
    assert json.loads(other_card.stdout)["answers"][0]["certain"] is False
