"""A snapshot of a failure is simulated under the settings that people try; what is not reproduced says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from snapshots.make import write
from snapshots.recorder import MIB, Recorder

from oomdoctor.facts import derive_facts, simulation
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.facts import FactSet
from oomdoctor.readers.snapshot import read_snapshot


def in_pieces(request: int) -> Recorder:
    """1,000 MiB in one segment, of which every other 100 are live, on a device with 100 more."""
    recorder = Recorder(1100 * MIB)
    whole = recorder.malloc(1000 * MIB)
    assert whole is not None
    recorder.free(whole)
    tensors = [recorder.malloc(100 * MIB) for _ in range(10)]
    for tensor in tensors[::2]:
        assert tensor is not None
        recorder.free(tensor)
    assert recorder.malloc(request) is None
    return recorder


def facts_of(recorder: Recorder, folder: Path, **changes: object) -> FactSet:
    content = recorder.snapshot()
    content["allocator_settings"].update(changes)
    return derive_facts(Evidence(snapshots=(read_snapshot(write(folder / "s.pickle", content)),)))


def test_what_expandable_segments_would_have_done_is_a_fact(tmp_path: Path) -> None:
    facts = facts_of(in_pieces(300 * MIB), tmp_path)
    assert facts.value("simulated.reproduced", "cuda:0") is True
    assert facts.value("simulated.expandable_outcome", "cuda:0") == "served"
    assert facts.value("simulated.expandable_spare_bytes", "cuda:0") == 300 * MIB
    assert facts.value("simulated.expandable_missing_bytes", "cuda:0") is None
    assert str(facts["simulated.expandable_outcome@cuda:0"].source).endswith("(25 events, simulated)")


def test_a_request_that_is_too_large_fails_all_the_same(tmp_path: Path) -> None:
    facts = facts_of(in_pieces(900 * MIB), tmp_path)
    assert facts.value("simulated.expandable_outcome", "cuda:0") == "fails"
    assert facts.value("simulated.expandable_missing_bytes", "cuda:0") == 300 * MIB
    assert facts.value("simulated.max_split_outcome", "cuda:0") == "fails"


def test_a_setting_that_the_run_had_already_is_not_asked(tmp_path: Path) -> None:
    recorder = Recorder(300 * MIB)
    recorder.malloc(200 * MIB)
    assert recorder.malloc(200 * MIB) is None
    facts = facts_of(recorder, tmp_path, max_split_size=512 * MIB)
    assert facts.value("simulated.max_split_outcome", "cuda:0") is None
    assert facts.value("simulated.expandable_outcome", "cuda:0") == "fails"


def test_a_run_that_the_model_does_not_reproduce_says_nothing(tmp_path: Path) -> None:
    facts = facts_of(in_pieces(300 * MIB), tmp_path, max_split_size=200 * MIB)
    assert facts.value("simulated.reproduced", "cuda:0") is False
    assert facts.value("simulated.expandable_outcome", "cuda:0") is None


def test_a_long_recording_waits_to_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "MOST_EVENTS", 24)
    assert facts_of(in_pieces(300 * MIB), tmp_path).value("simulated.reproduced", "cuda:0") is None


def test_a_snapshot_without_a_failure_or_of_another_backend_is_not_simulated(tmp_path: Path) -> None:
    recorder = Recorder(300 * MIB)
    recorder.malloc(200 * MIB)
    assert facts_of(recorder, tmp_path).value("simulated.reproduced", "cuda:0") is None
