"""GIVEN a finding with changes WHEN their bytes are not known THEN it says how many are needed, and what would tell."""

from __future__ import annotations

import pytest

from oomdoctor.facts.registry import REGISTRY
from oomdoctor.model.diagnosis import Finding, Remedy
from oomdoctor.model.facts import FactSet
from oomdoctor.model.source import Source
from oomdoctor.model.units import GIB, MIB
from oomdoctor.playbook.cases import run_case
from oomdoctor.playbook.load import load_playbook
from oomdoctor.playbook.match import HEADROOM, match_rules
from oomdoctor.report.findings import _remedy

FULL = {
    "oom.failed": True,
    "oom.requested_bytes": 2 * GIB,
    "oom.total_bytes": 24 * GIB,
    "oom.free_bytes": 500 * MIB,
    "oom.allocated_bytes": 22 * GIB,
    "oom.foreign_bytes": 0,
    "oom.shortfall_bytes": 1548 * MIB,
    "activity.phase": "forward",
    "activity.during_training": True,
}


def finding(rule: str, **facts: object) -> Finding:
    known = FactSet(REGISTRY)
    for name, value in facts.items():
        scope = REGISTRY[name].scope.value
        known.put(name, value, Source(path="x.log"), "cuda:0" if scope == "device" else None)
    return next(each for each in match_rules(load_playbook(), known) if each.rule == rule)


def remedy(found: Finding, name: str) -> Remedy:
    return next(each for each in found.remedies if each.id == name)


def test_a_change_of_unknown_bytes_says_how_many_are_needed():
    change = remedy(finding("ACT001", **FULL), "half-precision")
    assert (change.frees_bytes, change.enough, change.needed_bytes) == (None, None, round(HEADROOM * 1548 * MIB))
    assert _remedy(change, short=True).effect.endswith(
        "It must be at least 1.66 GiB: what is short and a tenth to spare."
    )


def test_a_change_whose_bytes_are_known_needs_no_such_word():
    found = finding("ACT001", **FULL, **{"owner.saved_for_backward_bytes": 17 * GIB, "model.layers": 34})
    change = remedy(found, "checkpoint-activations")
    assert (change.frees_bytes, change.enough, change.needed_bytes) == (round(15.5 * GIB), True, None)


@pytest.mark.parametrize("phase", ["load", "init", "optimizer-step"])
def test_where_more_requests_would_follow_no_number_is_enough(phase):
    found = finding("ACT001", **{**FULL, "activity.phase": phase})
    assert remedy(found, "half-precision").needed_bytes is None


def test_what_is_lacking_is_not_known():
    known = {name: value for name, value in FULL.items() if name != "oom.shortfall_bytes"}
    change = remedy(finding("ACT001", **known), "half-precision")
    assert change.needed_bytes is None
    said = "How much it frees is not known. It depends on what the input does not show: "
    assert _remedy(change, short=True).effect == f"{said}what the forward pass keeps for backward."


def test_a_leak_is_not_measured_by_one_request():
    found = finding("RET001", **{**FULL, "growth.steady": True, "growth.bytes": 20 * GIB})
    assert all(each.needed_bytes is None for each in found.remedies)


def test_the_hosts_own_lack_counts_in_a_rule_about_the_host():
    found = finding("HST008", **{"host.failed_allocator": "fork", "host.shortfall_bytes": 10 * GIB})
    assert remedy(found, "fewer-workers").needed_bytes == 11 * GIB


def test_what_would_tell_the_bytes_is_asked_for_once():
    asked = finding("HST008", **{"host.failed_allocator": "fork"}).to_confirm
    assert sum("oomdoctor run" in each.command for each in asked) == 1
    asked = finding("ACT001", **FULL).to_confirm
    assert sum("oomdoctor run" in each.command for each in asked) == 1


def test_nothing_is_asked_where_all_is_known():
    found = finding(
        "MGP008", **{"oom.failed": True, "oom.requested_bytes": GIB, "activity.restores_saved_device": True}
    )
    assert all(each.frees_bytes is not None for each in found.remedies)
    assert not any("How much each change frees" in each.what for each in found.to_confirm)


RULE = """
id: OWN001
cause: activation-peak
title: t
scope: device
when: [oom.failed]
explain: e
remedies:
  - {{id: a, do: d, frees: 0.5 * oom.requested_bytes, cost: c, source: "https://example.org"}}
cases:
  - {{expect: possible, facts: {{oom.failed: true, oom.requested_bytes: 2 GiB}}, frees: {{{worth}}}}}
"""


@pytest.mark.parametrize(
    ("worth", "passes"), [("a: 1 GiB", True), ("a: 2 GiB", False), ("a: unknown", False), ("b: 1 GiB", False)]
)
def test_a_case_says_what_a_remedy_is_worth(tmp_path, worth, passes):
    (tmp_path / "OWN001-t.yaml").write_text(RULE.format(worth=worth), encoding="utf-8")
    playbook = load_playbook([tmp_path])
    rule = next(each for each in playbook.rules if each.id == "OWN001")
    assert run_case(rule, rule.cases[0]).passed is passes


def test_a_limit_that_is_counted_is_no_matter_of_bytes():
    found = finding("HST019", **{"host.failed_pool": "thread", "host.shortfall_bytes": 2 * GIB})
    assert {each.needed_bytes for each in found.remedies} == {None}
    assert {_remedy(each, short=True).effect for each in found.remedies} == {
        "What is short here is counted, not measured in bytes."
    }
    assert not any("oomdoctor run" in asked.command for asked in found.to_confirm)


def test_a_look_frees_nothing():
    change = remedy(finding("HST005", **{"exit.killed": True, "host.shortfall_bytes": 2 * GIB}), "find-out-first")
    assert change.needed_bytes is None
    assert _remedy(change, short=True).effect == "Frees nothing by itself; it tells what to change."


@pytest.mark.parametrize(("phase", "offered"), [("prefill", True), ("profile", False)])
def test_nobody_is_told_to_refuse_prompts_where_the_engine_tried_its_largest_step_alone(phase, offered):
    room = {"engine.weights_bytes": 40 * GIB, "oom.largest_device_bytes": 80 * GIB, "engine.name": "vllm"}
    found = finding("ACT009", **{**FULL, "activity.phase": phase, "oom.count": 1, **room})
    assert ("refuse-longer" in [each.id for each in found.remedies]) is offered


def test_of_a_list_that_is_known_the_list_comes_first_and_without_it_what_is_kept() -> None:
    """GIVEN tensors without graphs in a list THEN what to change is where it grows, not where they are made."""
    grew = {"oom.failed": True, "oom.total_bytes": 6 * GIB, "growth.steady": True, "growth.bytes": 5 * GIB}
    made = {"growth.top_stack": "model.py:6 in forward"}
    held = {
        "owner.holder": "list 'kept', grown at train.py:12",
        "owner.holder_is_container": True,
        "owner.holder_length": 160,
        "owner.holder_bytes": 5 * GIB,
        "owner.holder_saved_bytes": 0,
    }
    of_list = finding("RET001", **grew, **made, **held).remedies
    assert [each.id for each in of_list] == ["bound-the-holder", "keep-numbers"]
    assert "train.py:12" in of_list[0].do
    assert "model.py:6" not in of_list[0].do
    of_none = finding("RET001", **grew, **made).remedies
    assert [each.id for each in of_none] == ["keep-numbers", "bound-the-store"]
    assert "model.py:6" in of_none[0].do
