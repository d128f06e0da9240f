"""GIVEN a kill WHEN nothing says why THEN what is asked for is what was not there, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oomdoctor.diagnose.missing import missing_evidence
from oomdoctor.facts import derive_facts
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.run import OomCounters, ProcessRecord, RunRecord, VisibleDevice

STILL = OomCounters(
    cgroup_oom_kill_before=3, cgroup_oom_kill_after=3, system_oom_kill_before=9, system_oom_kill_after=9
)

RUN = RunRecord("incident", ("python", "train.py"), None, 0.0, 9.0, 0, None)


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
