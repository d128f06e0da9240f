"""GIVEN a setting that was simulated on the run WHEN a rule recommends it THEN the report says what came of it."""

from __future__ import annotations

from typing import Any

from oomdoctor.facts.registry import REGISTRY
from oomdoctor.language import speaking
from oomdoctor.model.diagnosis import Finding
from oomdoctor.model.facts import FactSet, Scope
from oomdoctor.model.source import Source
from oomdoctor.model.units import GIB, MIB
from oomdoctor.playbook.load import Playbook, default_rules_directory, load_playbook
from oomdoctor.playbook.match import match_rules

PLAYBOOK = load_playbook([default_rules_directory()])
PIECES: dict[str, Any] = {
    "oom.failed": True,
    "oom.requested_bytes": 3 * GIB,
    "oom.free_bytes": GIB,
    "oom.allocated_bytes": 9 * GIB,
    "oom.reserved_bytes": 22 * GIB,
    "oom.reserved_unallocated_bytes": 13 * GIB,
    "oom.shortfall_bytes": 2 * GIB,
}


def finding(rule: str, **given: Any) -> Finding:
    facts = FactSet(REGISTRY)
    for name, value in given.items():
        scoped = REGISTRY[name].scope is Scope.DEVICE
        facts.put(name, value, Source("s.pickle"), "cuda:0" if scoped else None)
    found = PLAYBOOK.find(rule)
    assert found is not None
    (one,) = match_rules(Playbook((found,)), facts)
    return one


def test_a_setting_under_which_the_request_is_served_says_so_and_is_enough() -> None:
    served = {"simulated.expandable_outcome": "served", "simulated.expandable_spare_bytes": 2 * GIB}
    first = finding("FRG001", **PIECES, **served).remedies[0]
    assert (first.id, first.enough) == ("expandable-segments", True)
    assert first.simulated is not None
    assert first.simulated.startswith("Simulated on this run: the request is served, 2.00 GiB to spare.")
    with speaking("zh"):
        translated = finding("FRG001", **PIECES, **served).remedies[0].simulated
    assert translated is not None
    assert "尚余 2.00 GiB" in translated


def test_a_setting_under_which_it_fails_all_the_same_stands_under_what_does_not_help() -> None:
    failed = {"simulated.expandable_outcome": "fails", "simulated.expandable_missing_bytes": 300 * MIB}
    found = finding("FRG001", **PIECES, **failed)
    assert "expandable-segments" not in {remedy.id for remedy in found.remedies}
    first = found.not_remedies[0]
    assert first.what == "expandable_segments:True"
    assert first.why == "Simulated on this run: it fails at the same request, 300.00 MiB short."


def test_where_it_depends_on_what_was_not_recorded_nobody_says_that_it_is_enough() -> None:
    depends = {"simulated.expandable_outcome": "depends", "simulated.expandable_spare_bytes": GIB}
    remedies = {remedy.id: remedy for remedy in finding("FRG001", **PIECES, **depends).remedies}
    assert remedies["expandable-segments"].enough is None
    assert "depends on how the memory lay" in (remedies["expandable-segments"].simulated or "")


def test_what_came_out_in_every_way_that_was_tried_is_not_told_as_certain() -> None:
    for outcome, words in (("served-as-tried", "1.00 GiB to spare or more"), ("fails-as-tried", "in neither")):
        tried = {"simulated.expandable_outcome": outcome, "simulated.expandable_spare_bytes": GIB}
        first = finding("FRG001", **PIECES, **tried)
        (remedy,) = (one for one in first.remedies if one.id == "expandable-segments")
        assert remedy.enough is None
        assert remedy.simulated is not None
        assert "cannot be told for certain" in remedy.simulated
        assert words in remedy.simulated


def test_what_was_not_simulated_reads_as_before() -> None:
    remedies = {remedy.id: remedy for remedy in finding("FRG001", **PIECES).remedies}
    assert remedies["expandable-segments"].simulated is None
    assert remedies["expandable-segments"].enough is True


def test_settings_against_fragmentation_are_in_vain_unless_the_simulation_serves_the_request() -> None:
    full = {
        "oom.failed": True,
        "oom.total_bytes": 24 * GIB,
        "oom.requested_bytes": 2 * GIB,
        "oom.reserved_unallocated_bytes": 200 * MIB,
        "activity.operation": "optimizer-state",
    }
    what = "Expandable segments and other settings against fragmentation"
    failed = {"simulated.expandable_outcome": "fails", "simulated.expandable_missing_bytes": 300 * MIB}
    (why,) = [one.why for one in finding("CAP002", **full, **failed).not_remedies if one.what == what]
    assert "simulated on this run it is still 300.00 MiB short" in why
    served = {"simulated.expandable_outcome": "served", "simulated.expandable_spare_bytes": MIB}
    assert what not in {one.what for one in finding("CAP002", **full, **served).not_remedies}


def test_a_setting_of_cudas_allocator_is_not_advised_for_another_backend() -> None:
    for backend, advised in (("cuda", True), ("hip", True), ("xpu", False), ("npu", False), ("jax", False)):
        found = finding("FRG001", **PIECES, **{"oom.backend": backend})
        settings = {remedy.id for remedy in found.remedies} & {"expandable-segments", "max-split-size"}
        assert bool(settings) is advised, backend
        assert found.remedies
