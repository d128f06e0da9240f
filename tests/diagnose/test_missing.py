"""GIVEN a kill WHEN nothing says why THEN what is asked for is what was not there, and no more."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from snapshots.make import MIB, Device, frame, snapshot, write

from oomdoctor.allocator.replay import replay
from oomdoctor.diagnose import diagnose
from oomdoctor.diagnose.missing import missing_evidence
from oomdoctor.facts import derive_facts
from oomdoctor.model.events import EventKind, LogEvent
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.host import OomCounters
from oomdoctor.model.run import (
    Census,
    CensusDevice,
    DeviceOomRecord,
    ExceptionRecord,
    ProcessRecord,
    RunRecord,
    VisibleDevice,
)
from oomdoctor.model.source import Source
from oomdoctor.readers.snapshot import read_snapshot
from oomdoctor.report import FORMATS, render

STILL = OomCounters(
    cgroup_oom_kill_before=3, cgroup_oom_kill_after=3, system_oom_kill_before=9, system_oom_kill_after=9
)

RUN = RunRecord("incident", ("python", "train.py"), None, 0.0, 9.0, 0, None)


@pytest.mark.parametrize("watched", [True, False])
def test_a_watched_run_without_a_snapshot_is_not_told_to_be_watched(watched: bool) -> None:
    failed = LogEvent(EventKind.DEVICE_OOM, Source(path="stdout.log", line=1), {"requested_bytes": MIB}, device=0)
    evidence = Evidence(events=(failed,), runs=(RUN,) if watched else ())
    gaps = missing_evidence(evidence, derive_facts(evidence))
    (gap,) = [gap for gap in gaps if gap.what == "a memory snapshot of the failure"]
    assert ("oomdoctor run" in gap.how_to_get_it) is not watched


@pytest.mark.parametrize(
    ("counters", "words"),
    [(OomCounters(), "neither a kernel line nor a counter"), (STILL, "the counters show no kill for want of memory")],
)
def test_counters_that_were_read_are_not_called_missing(counters: OomCounters, words: str) -> None:
    run = RunRecord("incident", ("sleep", "9"), None, 0.0, 9.0, None, 9, counters=counters)
    evidence = Evidence(runs=(run,))
    (gap,) = [gap for gap in missing_evidence(evidence, derive_facts(evidence)) if "killed" in gap.what]
    assert words in gap.why


def test_a_counter_that_fell_belongs_to_another_cgroup() -> None:
    assert OomCounters(cgroup_oom_kill_before=5, cgroup_oom_kill_after=0).cgroup_kills == 0
    assert OomCounters(cgroup_oom_kill_after=1).cgroup_kills is None
    assert STILL.system_kills == 0


def test_what_the_drivers_allocator_hides_is_said() -> None:
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
    evidence = Evidence(runs=(replace(RUN, variables=settings),))
    assert "who held the memory at failures that the program caught" in [
        gap.what for gap in missing_evidence(evidence, derive_facts(evidence))
    ]
    evidence = Evidence(runs=(RUN,))
    assert [gap for gap in missing_evidence(evidence, derive_facts(evidence)) if "caught" in gap.what] == []


@pytest.mark.parametrize(("version", "said"), [("1.13.1+cu117", True), ("2.0.1", True), ("2.1.2", False)])
def test_what_is_not_heard_of_an_old_torch_is_said(version: str, said: bool) -> None:
    process = ProcessRecord(7, 1, ("train.py",), 0.0, torch_version=version, devices=(VisibleDevice(0, None, None),))
    for one, expected in ((process, said), (replace(process, devices=()), False)):
        evidence = Evidence(runs=(replace(RUN, processes=(one,)),))
        gaps = [gap for gap in missing_evidence(evidence, derive_facts(evidence)) if "caught" in gap.what]
        assert bool(gaps) == expected
        assert all(version in gap.why and "2.1" in gap.how_to_get_it for gap in gaps)


def _device() -> Device:
    device = Device()
    for _ in range(3):
        device.malloc(3 * MIB, [frame("step", "train.py", 3)])
    device.fail(1 << 30, 0, [])
    return device


@pytest.mark.parametrize("format", FORMATS)
def test_every_report_says_that_the_events_contradict_the_final_state(tmp_path: Path, format: str) -> None:
    device = _device()
    gone = device.events[1]["addr"]
    device.events.insert(3, {**device.events[1], "action": "free_completed"})
    path = write(tmp_path / "s.pickle", snapshot(device))
    assert replay(read_snapshot(path), 0).disagreement.revived_at_end == 1, gone
    text = " ".join(render(diagnose([path]), format).split()).replace("│ ", "")
    assert "a history of cuda:0 without gaps" in text
    assert "contradict the final state once" in text


def test_no_report_says_so_of_a_history_that_is_whole_or_has_no_final_state(tmp_path: Path) -> None:
    whole = snapshot(_device())
    for content, told in ((whole, 0), ({"device_traces": whole["device_traces"]}, None)):
        report = json.loads(render(diagnose([write(tmp_path / "s.pickle", content)]), "json"))
        assert not [gap for gap in report["missing"] if "without gaps" in gap["what"]]
        values = [fact for name, fact in report["facts"].items() if name.startswith("allocator.contradictions")]
        assert [fact["value"] for fact in values] == ([] if told is None else [told])


def test_more_live_than_reserved_is_a_contradiction(tmp_path: Path) -> None:
    device = _device()
    device.events[0]["size"] = 2 * MIB
    content = snapshot(device)
    content["device_traces"][0].append({**device.events[0], "action": "segment_alloc", "size": 40 * MIB})
    found = replay(read_snapshot(write(tmp_path / "s.pickle", content)), 0).disagreement
    assert found.never_reserved > 0
    assert found.total == 1


@pytest.mark.parametrize(
    ("stopped", "asked"),
    [
        ("the pass over all objects, for want of time: what no variable leads to was not seen", 1),
        ("autograd's graphs: this torch does not say which saved tensors have hooks, and some may", 0),
        (None, 0),
    ],
)
def test_a_census_that_time_cut_short_is_said(stopped: str | None, asked: int) -> None:
    here = Source(path="probe/7.records")
    census = Census(here, (CensusDevice(0, None, 5 * MIB),), (), complete=stopped is None, stopped=stopped)
    oom = DeviceOomRecord(here, 5.0, 7, 0, MIB, 256 * MIB, 0, None, census=census)
    run = replace(RUN, device_ooms=(oom,))
    evidence = Evidence(runs=(run,))
    gaps = [gap for gap in missing_evidence(evidence, derive_facts(evidence)) if "cut short" in gap.why]
    assert len(gaps) == asked


@pytest.mark.parametrize(("devices", "asked"), [((), False), ((VisibleDevice(0, "GPU-a", 0),), True)])
def test_device_memory_is_asked_for_only_where_a_device_can_matter(
    devices: tuple[VisibleDevice, ...], asked: bool
) -> None:
    error = ExceptionRecord(Source(path="incident"), 5.0, 7, "MemoryError", "", (), True)
    unseen = (("device memory", "NVML does not start", "look there"), ("kernel log", "not readable", "as root"))
    run = replace(RUN, unseen=unseen, exceptions=(error,), processes=(ProcessRecord(7, 1, (), 0.0, devices=devices),))
    evidence = Evidence(runs=(run,))
    told = [gap.what for gap in missing_evidence(evidence, derive_facts(evidence))]
    assert ("the driver's samples of device memory" in told) is asked
    assert "kernel log" in told


@pytest.mark.parametrize(("dropped", "failed", "told"), [(0, False, False), (3, False, True), (3, True, False)])
def test_a_history_that_may_have_lost_the_failure_says_so(
    dropped: int, failed: bool, told: bool, tmp_path: Path
) -> None:
    """A ring of events forgets its oldest: one that failed, was caught, and lies before its first event."""
    device, stack = Device(), [frame("main", "train.py", 3)]
    blocks = [device.malloc(4 * MIB, stack) for _ in range(8)]
    device.free(blocks[-1], stack)
    if failed:
        device.fail(64 * MIB, MIB, stack)
    content = snapshot(device)
    del content["device_traces"][0][:dropped]
    evidence = Evidence(snapshots=(read_snapshot(write(tmp_path / "ring.pickle", content)),))
    gaps = [gap for gap in missing_evidence(evidence, derive_facts(evidence)) if "before the recorded" in gap.what]
    assert [("max_entries" in gap.how_to_get_it) for gap in gaps] == [True] * told
