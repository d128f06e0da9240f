"""GIVEN a failure and a table of the device WHEN the one that failed is in it THEN it is no neighbour of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from given import gib, mib, oom, run

from oomdoctor.facts import derive_facts
from oomdoctor.facts.budget import budgets
from oomdoctor.facts.devices import device_looks
from oomdoctor.facts.holdings import holdings
from oomdoctor.model.devices import DeviceProcess, DeviceReading
from oomdoctor.model.diagnosis import Holding
from oomdoctor.model.events import LogEvent
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.run import ProcessRecord
from oomdoctor.model.source import Source

OWN, OTHER = gib(12.9), mib(9804)
SENTENCES = oom(
    total_bytes=gib(23.69), free_bytes=gib(1.2), allocated_bytes=gib(12.1), reserved_unallocated_bytes=mib(300),
    process_used_bytes=OWN, requested_bytes=gib(2),
)  # fmt: skip
OLDER = oom(
    total_bytes=gib(23.69), free_bytes=gib(1.2), allocated_bytes=gib(12.1), reserved_bytes=gib(12.4),
    requested_bytes=gib(2),
)  # fmt: skip


def _table(*processes: tuple[int, int | None], used: int = mib(23029)) -> DeviceReading:
    listed = tuple(DeviceProcess(pid, size, "python", "C") for pid, size in processes)
    return DeviceReading(
        0, Source(path="smi.txt", line=9), "card", None, gib(24), used, gib(24) - used, processes=listed
    )


def _evidence(event: LogEvent, *processes: tuple[int, int | None], used: int = mib(23029)) -> Evidence:
    return Evidence(events=(event,), devices=(_table(*processes, used=used),))


def _whose(evidence: Evidence) -> dict[int | None, bool | None]:
    (look,) = device_looks(evidence)
    return {process.pid: process.own for process in look.reading.processes or ()}


def _rows(evidence: Evidence) -> Sequence[Holding]:
    facts = derive_facts(evidence)
    return holdings(evidence, facts, budgets(evidence, facts))


@pytest.mark.parametrize(
    "event", [replace(SENTENCES, pid=4410), SENTENCES, OLDER], ids=["by number", "by size", "older"]
)
def test_the_one_that_failed_is_found_by_its_number_or_its_size(event: LogEvent) -> None:
    evidence = _evidence(event, (4410, mib(13210)), (5120, OTHER))
    assert _whose(evidence) == {4410: True, 5120: False}
    facts = derive_facts(evidence)
    assert facts.value("device.foreign_bytes", "cuda:0") == OTHER
    assert facts.value("oom.foreign_process", "cuda:0") == "python (pid 5120)"
    told = {row.owner: row.category for row in _rows(evidence)}
    assert told == {
        "this command's process 4410 (python)": "processes on the device",
        "process 5120 (python)": "other processes",
    }
    (budget, *_) = budgets(evidence, facts)
    assert {part.name: part.bytes for part in budget.parts}["other processes"] == OTHER


def test_in_a_container_the_message_lists_it_under_the_hosts_number() -> None:
    event = replace(OLDER, fields={**OLDER.fields, "other_processes": ((88410, OWN), (85120, OTHER))})
    evidence = _evidence(event, (88410, mib(13210)), (85120, OTHER))
    assert _whose(evidence) == {88410: True, 85120: False}


def test_whom_the_message_lists_is_another_also_where_the_one_that_failed_is_not_found() -> None:
    event = replace(SENTENCES, fields={**SENTENCES.fields, "other_processes": ((85120, OTHER),)})
    assert _whose(_evidence(event, (85120, OTHER), (7, gib(1)))) == {85120: False, 7: None}


@pytest.mark.parametrize(
    "evidence",
    [
        _evidence(SENTENCES, (1, mib(13210)), (2, mib(13210))),
        _evidence(SENTENCES, (1, OTHER), (2, None)),
        _evidence(OLDER, (1, mib(13210)), (2, mib(100)), used=mib(13310)),
    ],
    ids=["two of one size", "none of its size", "a table of another moment"],
)
def test_where_it_cannot_be_told_nobody_is_called_a_neighbour(evidence: Evidence) -> None:
    assert set(_whose(evidence).values()) == {None}
    assert derive_facts(evidence).value("device.foreign_bytes", "cuda:0") is None
    assert "other processes" not in {row.category for row in _rows(evidence)}


def test_processes_of_a_watched_run_are_its_own_in_a_table_that_was_printed_beside_it() -> None:
    record = run(processes=(ProcessRecord(4410, 1, ("python",), 0.0),))
    evidence = Evidence(runs=(record,), devices=(_table((4410, gib(3)), (5120, OTHER)),))
    assert _whose(evidence) == {4410: True, 5120: False}


def test_what_nobody_is_listed_to_hold_is_told_as_such() -> None:
    facts = derive_facts(Evidence(events=(SENTENCES,)))
    left = gib(23.69) - gib(1.2) - OWN
    assert facts.value("oom.foreign_listed_bytes", "cuda:0") == 0
    assert facts.value("oom.unlisted_bytes", "cuda:0") == left
    assert facts.value("oom.foreign_process", "cuda:0") is None
    listed = replace(SENTENCES, fields={**SENTENCES.fields, "other_processes": ((85120, gib(4)),)})
    facts = derive_facts(Evidence(events=(listed,)))
    assert facts.value("oom.foreign_listed_bytes", "cuda:0") == gib(4)
    assert facts.value("oom.unlisted_bytes", "cuda:0") == left - gib(4)


def test_a_line_under_a_process_number_is_that_processs_own() -> None:
    event = replace(OLDER, pid=42, fields={**OLDER.fields, "other_processes": ((42, gib(20)), (42, gib(20)))})
    facts = derive_facts(Evidence(events=(event,)))
    assert facts.value("oom.listed_self", "cuda:0") == "process 42"
    assert facts.value("oom.foreign_process", "cuda:0") is None
    assert facts.value("oom.foreign_listed_bytes", "cuda:0") == 0


def test_listed_processes_that_hold_more_than_was_in_use_accuse_nobody() -> None:
    """10.09 GiB were neither free nor the segments of the one that failed."""
    for listed, accused in ((((7, gib(6)), (8, gib(4))), "process 7"), (((7, gib(9)), (8, gib(8))), None)):
        event = replace(OLDER, fields={**OLDER.fields, "other_processes": listed})
        facts = derive_facts(Evidence(events=(event,)))
        assert facts.value("oom.foreign_process", "cuda:0") == accused
        assert facts.value("oom.foreign_listed_bytes", "cuda:0") == (gib(10) if accused else None)
