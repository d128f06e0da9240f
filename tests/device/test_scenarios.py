"""GIVEN a planted cause WHEN its scenario runs out of memory under `oomdoctor run` THEN the first diagnosis is it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from closing import CONTEXT, INSIDE, LIBRARY_HANDLE, check_closes, check_inside, check_outside
from emulation.cards import MIB
from emulation.scenario import Scenario, load, machine_of, names
from emulation.wheel import DEFAULT_TORCH, FURTHER_TORCH, environment
from extended import extended_but

from oomdoctor.bundle.read import StoredBundle, read_bundle
from oomdoctor.diagnose import diagnose
from oomdoctor.readers.snapshot import read_snapshot
from oomdoctor.report import render

pytestmark = [pytest.mark.device, pytest.mark.slow]

OF_EACH_KIND = (
    "kv_growth", "logits_spike", "losses_kept", "oom_in_backward", "oom_in_thread", "optimizer_state", "other_process",
    "random_frees", "retried_smaller", "slow_leak", "spawn_worker", "startup_weights",
)  # fmt: skip
"""Run with each torch: the rest differ in what is done, not in what torch is asked for."""

IN_SHORT = ("kv_growth", "losses_kept", "other_process", "random_frees", "ranks_on_card_0")
"""Of the default suite; `make test-extended` runs the others."""

WRAPPER = (sys.executable, "-c", "from oomdoctor.cli.main import main; main()", "run")


@dataclass(frozen=True)
class Outcome:
    """What one scenario left."""

    scenario: Scenario
    status: int
    folder: Path
    printed: str

    @cached_property
    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(render(diagnose([self.folder]), "json"))
        return report

    @cached_property
    def bundle(self) -> StoredBundle:
        return read_bundle(self.folder)

    def ooms(self) -> list[dict[str, Any]]:
        """The records of a device out of memory; of those that were written twice, the one with the snapshot."""
        return self.latest("device-oom")

    def latest(self, kind: str) -> list[dict[str, Any]]:
        """Of records that were written twice the later one."""
        found: dict[str, dict[str, Any]] = {}
        for records in self.bundle.probes.values():
            for record in records.of_kind(kind):
                found[record.data["id"]] = dict(record.data)
        return list(found.values())


@pytest.mark.parametrize("name", extended_but(names(), *IN_SHORT))
def test_what_was_planted_is_what_is_found(name: str, tmp_path: Path) -> None:
    _check(_run(load(name), tmp_path / "incident", DEFAULT_TORCH))


@pytest.mark.extended
@pytest.mark.parametrize("name", OF_EACH_KIND)
@pytest.mark.parametrize("torch", FURTHER_TORCH)
def test_it_is_found_with_an_older_torch_too(torch: str, name: str, tmp_path: Path) -> None:
    if not environment(torch).is_made:
        pytest.skip(
            f"torch {torch} is not there for this Python: `make device-versions` makes it, or says why it cannot"
        )
    outcome = _run(load(name), tmp_path / "incident", torch)
    told = [record.data["version"] for one in outcome.bundle.probes.values() for record in one.of_kind("torch")]
    assert {version.partition("+")[0] for version in told} == {torch}
    _check(outcome)


def _check(outcome: Outcome) -> None:
    assert outcome.status == outcome.scenario.status, outcome.printed[-3000:]
    _check_records(outcome)
    _check_sums(outcome)
    _check_budgets(outcome)
    _check_diagnosis(outcome)


def _run(scenario: Scenario, folder: Path, torch: str) -> Outcome:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("OOMDOCTOR_", "PYTORCH_"))}
    with machine_of(scenario, torch) as machine:
        command = [*WRAPPER, "--report", "never", "--output", str(folder), "--", *scenario.command()]
        ended = subprocess.run(
            command, env=machine.variables(variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=180
        )
    return Outcome(scenario, ended.returncode, folder, ended.stdout.decode(errors="replace"))


def _check_records(outcome: Outcome) -> None:
    """Torch's failures are recorded, the first of them with its snapshot."""
    ooms = outcome.ooms()
    assert bool(ooms) == outcome.scenario.record
    if ooms:
        paths = [oom["snapshot_path"] for oom in ooms if oom["snapshot_path"]]
        assert paths
        assert all((outcome.folder / path).exists() for path in paths[:1])


def _check_sums(outcome: Outcome) -> None:
    """Used = contexts + what libraries took + other processes + the segments of this one's allocator, to the byte."""
    for oom in outcome.ooms():
        if oom["snapshot_path"] is None or not (outcome.folder / oom["snapshot_path"]).exists():
            continue
        segments = read_snapshot(outcome.folder / oom["snapshot_path"]).segments
        held = int(segments.total_bytes[segments.device == oom["device"]].sum())
        assert held == oom["state"]["reserved_bytes"]
        cards = outcome.scenario.cards()
        # the record's own total is the allowed share, where a memory fraction is set
        outside = cards.memory_bytes[oom["device"]] - oom["device_free_bytes"] - held - cards.context_bytes
        assert outside >= 0
        if not outcome.scenario.neighbours and len(outcome.bundle.probes) == 1:
            assert outside in (0, LIBRARY_HANDLE, 2 * LIBRARY_HANDLE)


def _check_budgets(outcome: Outcome) -> None:
    """Every byte of every card that failed has a name, and each part is what an independent count gives."""
    cards, ooms = outcome.scenario.cards(), outcome.ooms()
    budgets = {budget["where"]: budget for budget in outcome.report["budget"]}
    assert len(budgets) == len(outcome.report["budget"])
    for device in {oom["device"] for oom in ooms} or {0}:
        budget = budgets[f"cuda:{device}"]
        parts = check_closes(budget)
        assert budget["total_bytes"] == cards.memory_bytes[device] + cards.reserve_bytes
        if not ooms:
            _check_budget_of_library(outcome, parts, device)
            continue
        free = sum(parts.get(name, 0) for name in ("free", "free beyond the cap of the process"))
        # of ranks that fail together, the one that the budget is about
        told = [oom for oom in ooms if (oom["device"], oom["device_free_bytes"]) == (device, free)]
        assert told, f"nobody failed with {free} bytes free"
        last = max(told, key=lambda oom: (oom["snapshot_path"] is not None, oom["time"]))
        check_outside(parts, cards, device, last["state"]["reserved_bytes"], free)
        snapshot = outcome.folder / (last["snapshot_path"] or "none")
        if snapshot.exists():
            check_inside(parts, snapshot, device)
            assert "live tensors of this process" not in parts


def _check_budget_of_library(outcome: Outcome, parts: Mapping[str, int], device: int) -> None:
    """A library or the driver failed: what torch held then is named all the same; it may not have come to hold any."""
    cards, states = outcome.scenario.cards(), _allocator_states(outcome)
    if not states:
        assert not any(name in parts for name in (*INSIDE, CONTEXT))
        return
    state = next(data for data in states if data["device"] == device)
    reserved = state["reserved_bytes"]
    check_outside(parts, cards, device, reserved, cards.memory_bytes[device] - reserved - cards.context_bytes)
    (failed,) = outcome.latest("library-oom")
    check_inside(parts, outcome.folder / failed["snapshot_path"], device)
    assert "live tensors of this process" not in parts


def _allocator_states(outcome: Outcome) -> list[dict[str, Any]]:
    """Latest first."""
    found = [dict(r.data) for records in outcome.bundle.probes.values() for r in records.of_kind("allocator")]
    return sorted(found, key=lambda data: -float(data["time"]))


def _check_diagnosis(outcome: Outcome) -> None:
    """The first one is the planted cause; its owner and bytes are the planted ones."""
    diagnoses = outcome.report["diagnoses"]
    came_out = (outcome.report["verdict"], diagnoses[0]["cause"] if diagnoses else None)
    planted = (outcome.scenario.verdict, outcome.scenario.cause)
    told = [(one["rule"], one["cause"], one["confidence"], one["owner"]) for one in diagnoses]
    for each in diagnoses:
        facts = [item["fact"] for item in each["evidence"]]
        assert len(facts) == len(set(facts)), f"{each['rule']} has a fact on both sides"
    assert came_out == planted, f"{told} {outcome.report['summary']}"
    if outcome.scenario.owner is not None:
        assert outcome.scenario.owner in (diagnoses[0]["owner"] or ""), told
    if outcome.scenario.frees_gib is not None:
        freed = {remedy["id"]: remedy["frees_bytes"] for remedy in diagnoses[0]["remedies"]}
        wanted = pytest.approx(outcome.scenario.frees_gib * 1024 * MIB, rel=0.05)
        assert any(size == wanted for size in freed.values()), freed
