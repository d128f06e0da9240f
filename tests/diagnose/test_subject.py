"""GIVEN several devices that failed WHEN they are reported THEN the first sentences are about one and its cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oomdoctor.diagnose.pipeline import diagnose_evidence
from oomdoctor.readers.inputs import read_inputs
from oomdoctor.report.view import view_report

from .asked import PLAYBOOK, ask, first, sentences, told


def _message(rank: int, **said: str) -> str:
    return f"[rank{rank}]: " + sentences(**{"total": "79.15 GiB", **said}, device=rank)  # type: ignore[arg-type]


def _fragmented(rank: int, time: str = "") -> str:
    message = _message(
        rank, requested="4.00 GiB", free="3.10 GiB", allocated="60.20 GiB", idle="14.90 GiB", own="75.90 GiB"
    )
    return f"{time}{message}"


def _crowded(rank: int, time: str = "") -> str:
    others = f" Process {99870 + rank} has 48.00 GiB memory in use."
    message = _message(
        rank, requested="512.00 MiB", free="0.12 GiB", allocated="29.80 GiB", idle="0.50 GiB", own="31.00 GiB",
        others=others,
    )  # fmt: skip
    return f"{time}{message}"


@pytest.mark.parametrize("order", [(_fragmented(0), _crowded(1)), (_crowded(1), _fragmented(0))], ids=["one", "other"])
def test_the_figures_and_the_cause_are_of_one_device(order):
    found = ask("\n".join(order))
    view = view_report(found)
    assert first(found).rule == "NBR001"
    assert first(found).scope == {"device": "cuda:1"}
    assert found.incidents[0].where == "cuda:1"
    assert view.headline.startswith("cuda:1 ran out of memory:")
    assert "512.00 MiB asked for" in view.headline
    assert view.budget is not None
    assert view.budget.place == "cuda:1"
    assert view.lead.startswith("Beside it cuda:0 failed, likely for another cause: enough memory is reserved")
    assert view.lead.endswith("(FRG001).")
    assert view.tag == "Out of memory · 2 devices failed"


def test_the_notes_do_not_give_one_cause_to_devices_that_have_two():
    found = ask(f"{_fragmented(0)}\n{_crowded(1)}")
    assert told(found, "All 2 ranks that are seen report the error, and not for one cause")
    assert not any("hold alike" in note for note in found.notes)


def test_devices_that_failed_alike_are_told_together():
    found = ask("\n".join(map(_crowded, range(4))))
    assert "Beside it 3 more devices failed, for the same cause." in found.summary
    assert told(found, "All 4 ranks that are seen report the error, and their devices hold alike")


def test_of_an_input_that_was_read_in_part_nothing_is_said_of_all_ranks(tmp_path):
    log = tmp_path / "crash.log"
    log.write_text("\n".join(map(_crowded, range(4))))
    evidence = read_inputs([log])
    in_part = replace(evidence, inputs=tuple(replace(each, status="partly") for each in evidence.inputs))
    found = diagnose_evidence(in_part, PLAYBOOK, 1.8e9)
    assert not any(note.startswith("All ") for note in found.notes)
    assert "4 ranks at least report the error; the input was read in part." in found.notes


def test_one_device_that_failed_has_no_others():
    assert "Beside it" not in ask(_crowded(1)).summary


def test_a_device_that_failed_long_before_is_not_what_the_report_is_about():
    early, late = "2026-11-29 10:00:00,000 ", "2026-11-29 12:00:00,000 "
    found = ask(f"{_crowded(1, early)}\n{_fragmented(0, late)}")
    assert found.incidents[0].where == "cuda:0"
    assert first(found).scope == {"device": "cuda:0"}
    assert first(found).rule == "FRG001"
    assert "Another failure in the input: device out of memory (cuda:1); its cause is confirmed" in found.summary


@pytest.mark.parametrize(
    ("later", "rule"),
    [
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=81.0.",
            "HST002",
        ),
        ("java.lang.OutOfMemoryError: Java heap space", "HST018"),
        # An hour later it is another end, of which nothing says why: it has not the earlier failure's cause.
        ("Killed", "HST005"),
    ],
)
def test_a_later_failure_of_the_host_has_the_hosts_cause(later, rule):
    found = ask(f"2026-11-29 10:00:00,000 {_fragmented(0)}\n2026-11-29 11:00:00,000 {later}")
    assert first(found).rule == rule


def test_the_end_of_a_program_whose_memory_ran_out_is_not_what_the_report_is_about():
    found = ask(f"2026-11-29 10:00:00,000 {_fragmented(0)}\n2026-11-29 10:00:03,000 Killed")
    assert first(found).rule == "FRG001"
    assert [incident.cause for incident in found.incidents] == ["device out of memory", "process killed"]
    assert view_report(found).headline.startswith("cuda:0 ran out of memory: 4.00 GiB asked for")
