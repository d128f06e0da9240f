"""GIVEN recordings of real control groups of version 2 WHEN they are analyzed THEN the limit is named, and no other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from oomdoctor.collect.cgroup import CgroupCounters
from oomdoctor.diagnose import diagnose
from oomdoctor.model.diagnosis import Verdict
from oomdoctor.readers.bundle import read_run
from oomdoctor.run import watch

RECORDED = Path(__file__).with_name("version_2")


@pytest.mark.parametrize("kernel_log", [True, False], ids=["with the kernel's log", "without"])
@pytest.mark.parametrize("name", ["moves-in", "inside", "above", "worker"])
def test_a_kill_by_the_groups_limit(tmp_path: Path, name: str, kernel_log: bool) -> None:
    shutil.copytree(RECORDED / name, tmp_path / "i")
    if not kernel_log:
        (tmp_path / "i/kernel.log").unlink()
    run = read_run(tmp_path / "i").run
    assert (run.counters.cgroup_kills, run.counters.limit_hits, run.limits.cgroup_version) == (1, 1, 2)
    found = diagnose([tmp_path / "i"])
    assert found.verdict is Verdict.OUT_OF_MEMORY
    assert found.findings[0].rule == "HST002"
    assert "HST001" not in {finding.rule for finding in found.findings}
    assert found.facts.value("host.cgroup_limit_bytes") == 160 << 20


def test_a_group_that_is_killed_whole_leaves_what_was_recorded() -> None:
    found = diagnose([RECORDED / "whole-group"])
    assert found.inputs[0].status == "partly"
    assert "oomdoctor was ended before the command" in found.inputs[0].why
    assert found.facts.value("host.cgroup_limit_bytes") == 160 << 20
    assert found.findings == ()


def test_a_group_that_counts_nothing_hides_no_kill_of_another_and_proves_none_away() -> None:
    root, limited = CgroupCounters(), CgroupCounters(oom=0, oom_kill=2, failcnt=5)
    kills = [one.oom_kill for one in (root, limited)]
    assert watch._totals(kills, [None, 3]) == (2, 3)
    assert watch._totals(kills, [None, 2]) == (None, None)
    assert watch._totals([2, 1], [2, 1]) == (3, 3)
    assert watch._totals([], []) == (None, None)
