"""GIVEN what is dated in the evidence WHEN the timeline is marked THEN each event stands at its time, none twice."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

from facts.given import HERE, oom, run

from oomdoctor.facts.moments import moments
from oomdoctor.model.diagnosis import Incident, MomentKind
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.run import AllocatorState, DeviceOomRecord, ProcessRecord
from oomdoctor.model.snapshot import SnapshotOom
from oomdoctor.model.units import MIB
from oomdoctor.readers.snapshot import read_snapshot

SNAPSHOT = Path(__file__).parents[2] / "sample_logs" / "fragmentation" / "snapshot.pickle"


def refused(when: float, size: int | None = 8 * MIB, device: int = 0) -> DeviceOomRecord:
    return DeviceOomRecord(HERE, when, 7, device, size, None, None, None)


def state(when: float, retries: int) -> AllocatorState:
    return AllocatorState(when, 0, retries=retries, pid=7)


def test_a_run_from_its_ranks_to_its_kill() -> None:
    watched = run(
        processes=(ProcessRecord(7, 1, ("python",), 1001.0, rank=0),),
        device_ooms=(refused(1050.0), refused(1060.0, 4 * MIB)),
        allocator_states=(state(1040.0, 0), state(1045.0, 2), state(1060.0, 2)),
        signal=signal.SIGKILL,
        exit_status=None,
    )
    told = moments(Evidence(runs=(watched,)), ())
    assert [(one.when_seconds, one.kind, one.where, one.what) for one in told] == [
        (1001.0, MomentKind.PHASE, None, "rank 0 starts"),
        (1045.0, MomentKind.RETRY, "cuda:0", "the allocator emptied its cache and asked again, 2 times"),
        (1050.0, MomentKind.FAILURE, "cuda:0", "first out-of-memory error, 8.00 MiB asked for"),
        (1060.0, MomentKind.FAILURE, "cuda:0", "4.00 MiB refused"),
        (1100.0, MomentKind.KILL, None, "the command is killed"),
    ]


def test_a_try_that_is_counted_only_after_the_failure_came_before_it() -> None:
    watched = run(device_ooms=(refused(1050.0),), allocator_states=(state(1040.0, 0), state(1050.2, 2)))
    told = [(one.when_seconds, one.kind) for one in moments(Evidence(runs=(watched,)), ())]
    assert told[:2] == [(1050.0, MomentKind.RETRY), (1050.0, MomentKind.FAILURE)]


def test_of_very_many_failures_the_first_and_the_last_are_marked() -> None:
    watched = run(device_ooms=tuple(refused(1000.0 + number) for number in range(90)))
    failed = [one for one in moments(Evidence(runs=(watched,)), ()) if one.kind is MomentKind.FAILURE]
    assert [one.when_seconds for one in failed] == [1000.0, 1089.0]


def test_a_dated_line_is_marked_and_an_incident_that_it_tells_of_is_not_marked_again() -> None:
    told = Incident(500.5, "cuda:1", "device out of memory", "crash.log:9")
    line = replace(oom(1), time_seconds=500.0)
    assert [one.where for one in moments(Evidence(events=(line,)), (told,))] == ["cuda:1"]
    assert [one.what for one in moments(Evidence(), (told,))] == ["device out of memory"]
    assert moments(Evidence(events=(oom(1),)), (replace(told, when_seconds=None),)) == ()


def test_a_failure_that_only_a_snapshot_dates_is_marked_once() -> None:
    at = SnapshotOom(0, 8 * MIB, None, 1_050_200_000, -1, 3)
    taken = replace(read_snapshot(SNAPSHOT), path="s.pickle", ooms=(at, replace(at, device=1, time_us=None)))
    told = moments(Evidence(snapshots=(taken,)), ())
    assert [(one.when_seconds, one.kind, one.where, one.what) for one in told] == [
        (1050.2, MomentKind.FAILURE, "cuda:0", "8.00 MiB refused")
    ]
    assert told[0].source == "s.pickle (oom event)"
    recorded = moments(Evidence(runs=(run(device_ooms=(refused(1050.0),)),), snapshots=(taken,)), ())
    failed = [one.what for one in recorded if one.kind is MomentKind.FAILURE]
    assert failed == ["first out-of-memory error, 8.00 MiB asked for"]
