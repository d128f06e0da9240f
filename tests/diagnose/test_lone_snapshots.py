"""GIVEN a snapshot and nothing beside it WHEN it is diagnosed THEN what it cannot tell is not told for certain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from snapshots import programs
from snapshots.make import MIB, NO_GRAD, Device, snapshot, write

from oomdoctor.diagnose import diagnose
from oomdoctor.model.diagnosis import Diagnosis, Finding

GIB = 1 << 30


def _diagnose(device: Device, tmp_path: Path, card_bytes: int | None = None) -> Diagnosis:
    return diagnose([write(tmp_path / "s.pickle", snapshot(device))], card_bytes=card_bytes)


def _told(found: Diagnosis) -> list[tuple[str, str]]:
    return [(each.rule, each.confidence.value) for each in found.findings]


def _finding(found: Diagnosis, rule: str) -> Finding:
    return next(each for each in found.findings if each.rule == rule)


def _idle_in_small_pieces() -> Device:
    """1 GiB lies idle between live tensors, 900 MiB are free, 1.5 GiB are asked for."""
    device = Device()
    for line in range(10, 26, 2):
        device.free(device.malloc(400 * MIB, programs.at(line)))
        device.malloc(270 * MIB, programs.at(line + 1))
    device.fail(1536 * MIB, 900 * MIB, programs.at(30))
    return device


def test_idle_pieces_that_would_close_the_gap_are_not_the_cause_for_sure(tmp_path: Path) -> None:
    """Whether a neighbour holds the rest of the card is decided by how large that is."""
    device = _idle_in_small_pieces()
    assert _told(_diagnose(device, tmp_path)) == [("FRG003", "possible"), ("NBR012", "possible")]
    assert _told(_diagnose(device, tmp_path, 5 * GIB))[0] == ("FRG003", "confirmed")
    told = _told(_diagnose(device, tmp_path, 24 * GIB))
    assert told[0] == ("NBR001", "likely")
    assert "FRG003" not in dict(told)


def test_memory_that_the_process_had_and_no_longer_gets_went_to_somebody_outside(tmp_path: Path) -> None:
    device = Device()
    device.free(device.malloc(20 * GIB, programs.at(10)))
    device.release_idle()
    device.malloc(4 * GIB, programs.at(11))
    device.fail(12 * GIB, 3 * GIB, programs.at(12))
    found = _diagnose(device, tmp_path)
    assert _told(found) == [("NBR012", "likely")]
    assert found.facts["oom.taken_meanwhile_bytes@cuda:0"].value == 13 * GIB
    assert "Earlier in the recording there was 13.00 GiB more" in found.findings[0].explain


def test_an_earlier_failure_tells_what_there_was(tmp_path: Path) -> None:
    device = Device()
    device.malloc(GIB, programs.at(10))
    device.fail(24 * GIB, 20 * GIB, programs.at(11))
    device.malloc(GIB, programs.at(12))
    device.fail(12 * GIB, 3 * GIB, programs.at(13))
    found = _diagnose(device, tmp_path)
    assert found.facts["oom.taken_meanwhile_bytes@cuda:0"].value == 16 * GIB
    assert _told(found) == [("NBR012", "likely")]


def test_what_is_still_there_was_not_taken(tmp_path: Path) -> None:
    device = Device()
    device.malloc(4 * GIB, programs.at(11))
    device.fail(12 * GIB, 3 * GIB, programs.at(12))
    found = _diagnose(device, tmp_path)
    assert "oom.taken_meanwhile_bytes@cuda:0" not in found.facts
    assert sorted(_told(found)) == [("CAP014", "possible"), ("NBR012", "possible")]


def test_a_contradictory_history_accuses_nobody(tmp_path: Path) -> None:
    device = Device()
    device.free(device.malloc(20 * GIB, programs.at(10)))
    device.release_idle()
    device.malloc(4 * GIB, programs.at(11))
    device.fail(12 * GIB, 3 * GIB, programs.at(12))
    del device.events[1]  # the alloc of what was freed
    device.events.insert(0, {**device.events[1], "action": "free_completed"})
    found = _diagnose(device, tmp_path)
    assert found.facts["allocator.contradictions@cuda:0"].value
    assert "oom.taken_meanwhile_bytes@cuda:0" not in found.facts


def test_a_store_that_is_filled_and_a_leak_of_a_block_a_turn_are_told_as_what_they_may_be(tmp_path: Path) -> None:
    device = Device()
    for _ in range(40):
        device.malloc(26 * MIB, programs.at(10))
    device.fail(100 * MIB, 96 * MIB, programs.at(10))
    told = _diagnose(device, tmp_path)
    assert {("CAP014", "possible"), ("RET010", "possible")} <= set(_told(told))
    assert {each.confidence.value for each in told.findings} == {"possible"}
    for rule in ("CAP014", "RET010"):
        assert "leak" in _finding(told, rule).explain
    beside = _diagnose(device, tmp_path, 1536 * MIB)
    assert {each.confidence.value for each in beside.findings} == {"possible"}


def _micro_batches(*, backward: bool, no_grad: bool = False) -> Device:
    """A forward pass a turn of which half is kept; with `backward` each ends in a backward pass."""
    device = Device()
    programs.load(device, 4, 20 * MIB)
    outer = [NO_GRAD, *programs.at(90)] if no_grad else programs.at(90)
    for _ in range(20):
        batch = device.malloc(20 * MIB, programs.at(89))
        for line in (20, 21, 22, 23):
            passing = device.malloc(20 * MIB, programs.nested(line, 11, outer))
            device.malloc(20 * MIB, programs.nested(line + 10, 11, outer))
            device.free(passing)
        if backward:
            device.free(device.malloc(5 * MIB, []))
        device.free(batch)
    device.fail(30 * MIB, programs.FREE // 4, programs.nested(20, 11, outer))
    return device


def test_turns_before_any_backward_pass_may_be_of_one_step(tmp_path: Path) -> None:
    found = _diagnose(_micro_batches(backward=False), tmp_path)
    assert _told(found)[:2] == [("RET001", "possible"), ("ACT001", "possible")]
    assert "micro-batches of one step" in found.findings[0].explain


def test_what_is_kept_beyond_backward_passes_or_without_gradients_leaks(tmp_path: Path) -> None:
    for device in (_micro_batches(backward=True), _micro_batches(backward=False, no_grad=True)):
        found = _diagnose(device, tmp_path)
        assert _told(found)[0] in (("RET001", "likely"), ("RET001", "confirmed"))
        assert "micro-batches" not in found.findings[0].explain


def _damaged(how: str) -> dict[str, Any]:
    content = snapshot(programs.cut_to_pieces())
    (segment,) = content["segments"]
    blocks = segment["blocks"]
    if how == "blocks in one place":
        blocks[:] = [{**block, "address": segment["address"]} for block in blocks]
    elif how == "blocks elsewhere":
        blocks[:] = [{**block, "address": block["address"] + (1 << 40)} for block in blocks]
    elif how == "larger than its blocks":
        segment["total_size"] *= 2
    elif how == "smaller than its blocks":
        segment["total_size"] //= 2
    else:
        content["segments"].append({**segment, "address": segment["address"] + MIB, "blocks": []})
    return content


@pytest.mark.parametrize(
    "how",
    [
        "blocks in one place",
        "blocks elsewhere",
        "larger than its blocks",
        "smaller than its blocks",
        "two in one place",
    ],
)
def test_a_state_that_cannot_be_is_named_and_accuses_nobody(how: str, tmp_path: Path) -> None:
    whole = diagnose([write(tmp_path / "whole.pickle", snapshot(programs.cut_to_pieces()))])
    assert _told(whole) == [("FRG001", "confirmed")]
    assert "allocator.broken_segments@cuda:0" not in whole.facts
    found = diagnose([write(tmp_path / "s.pickle", _damaged(how))])
    assert found.facts["allocator.broken_segments@cuda:0"].value == 1
    assert {each.confidence.value for each in found.findings} == {"possible"}
    assert not found.failed_requests
    assert found.verdict == "out-of-memory"
    assert "a consistent final state of cuda:0" in [each.what for each in found.missing]


def test_times_that_go_backwards_are_no_times(tmp_path: Path) -> None:
    content = snapshot(programs.kept_outputs())
    for number, event in enumerate(content["device_traces"][0]):
        event["time_us"] = 1_800_000_000_000_000 - 10 * number
    found = diagnose([write(tmp_path / "s.pickle", content)])
    assert found.facts["growth.steady@cuda:0"].value is True
    assert "growth.bytes_per_second@cuda:0" not in found.facts
    (window,) = found.windows
    assert not window.has_times
    assert all(each.median_lifetime_seconds is None for each in window.owners)
    assert not found.series


def test_blocks_of_no_size_break_nothing(tmp_path: Path) -> None:
    content = snapshot(programs.kept_outputs())
    for segment in content["segments"]:
        segment["total_size"] = 0
        segment["blocks"] = [{**block, "size": 0} for block in segment["blocks"]]
    assert diagnose([write(tmp_path / "s.pickle", content)]).verdict == "out-of-memory"


def test_a_pool_of_the_programs_own_is_not_told_as_a_captured_graph(tmp_path: Path) -> None:
    """The snapshot tells that the pool is private, not who made it."""
    device = Device()
    blocks = [device.malloc(150 * MIB, programs.at(10), pool=(0, 1)) for _ in range(10)]
    device.malloc(GIB, programs.at(11))
    for block in blocks[2:]:
        device.free(block)
    device.fail(1100 * MIB, 100 * MIB, programs.at(12))
    first = _finding(_diagnose(device, tmp_path), "OVH004")
    assert "CUDA graphs were captured" not in first.explain
    assert "torch.cuda.MemPool" in first.explain
