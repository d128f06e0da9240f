"""GIVEN an incident WHEN a rule matches THEN the popular changes that cannot help there are named, and only those."""

from __future__ import annotations

import pytest

from oomdoctor.facts.registry import REGISTRY
from oomdoctor.model.facts import FactSet, Scope
from oomdoctor.model.source import Source
from oomdoctor.model.units import GIB, MIB
from oomdoctor.playbook.load import Playbook, default_rules_directory, load_playbook
from oomdoctor.playbook.match import match_rules

from .rule_text import facts
from .rule_text import rule as made_rule

PLAYBOOK = load_playbook([default_rules_directory()])
FULL = {"oom.failed": True, "oom.total_bytes": 24 * GIB, "oom.requested_bytes": 2 * GIB}


def finding(rule: str, **given: object):
    facts = FactSet(REGISTRY)
    for name, value in given.items():
        scoped = REGISTRY[name].scope is Scope.DEVICE
        facts.put(name, value, Source("crash.log", 1), "cuda:0" if scoped else None)
    found = PLAYBOOK.find(rule)
    assert found is not None
    (one,) = match_rules(Playbook((found,)), facts)
    return one


def in_vain(rule: str, **given: object) -> set[str]:
    return {each.what for each in finding(rule, **given).not_remedies}


SCORES = {**FULL, "activity.operation": "attention-scores"}
LOOP = {**FULL, "activity.operation": "kv-append", "growth.steady": True}
TRAINING = {
    **FULL,
    "activity.operation": "activation",
    "activity.during_training": True,
    "activity.autograd_on": True,
    "oom.allocated_bytes": 20 * GIB,
}


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        ("ACT003", SCORES),
        ("CAP002", {**FULL, "activity.operation": "optimizer-state"}),
        ("KV008", LOOP),
        ("NBR001", {**FULL, "oom.foreign_bytes": 12 * GIB, "oom.shortfall_bytes": GIB}),
    ],
)
def test_settings_against_fragmentation_only_where_little_is_idle(rule, given):
    what = "Expandable segments and other settings against fragmentation"
    assert what in in_vain(rule, **given, **{"oom.reserved_unallocated_bytes": 200 * MIB})
    assert what not in in_vain(rule, **given, **{"oom.reserved_unallocated_bytes": 6 * GIB})
    assert what not in in_vain(rule, **given)  # how much is idle is not known
    little = {**given, "oom.reserved_unallocated_bytes": 200 * MIB}
    assert what not in in_vain(rule, **{**little, "oom.shortfall_bytes": 100 * MIB})  # with what is free it would do


def test_the_share_of_an_engine_is_told_to_its_users():
    what = "A smaller --gpu-memory-utilization to make room for the weights"
    short = {"engine.kv_pool_none": True, "engine.weights_bytes": 20 * GIB}
    assert what in in_vain("KV001", **short, **{"engine.name": "vllm"})
    assert what not in in_vain("KV001", **short, **{"engine.name": "sglang"})
    assert "A smaller --mem-fraction-static" in in_vain("KV001", **short, **{"engine.name": "sglang"})
    assert what in in_vain("CAP001", **{"engine.name": "vllm", "engine.buffer_purpose": "weights"})


def test_a_loop_whose_cache_grows():
    found = in_vain("KV008", **LOOP)
    assert {"Quantising the weights", "model.config.sliding_window set after loading"} <= found
    assert "Speculative decoding" in found
    assert any("use_cache=False" in what for what in found)


def test_use_cache_where_it_is_not_the_cache():
    assert "use_cache=False" in in_vain("ACT001", **TRAINING)
    assert "use_cache=False" in in_vain("ACT003", **SCORES)
    assert "use_cache=False" not in in_vain("ACT003", **SCORES, **{"activity.during_training": True})


def test_a_smaller_batch_only_where_one_input_is_what_is_too_large():
    spike = {**FULL, "spike.sudden": True, "spike.bytes": 8 * GIB}
    assert "A smaller batch" in in_vain("ACT010", **spike, **{"spike.largest_request_bytes": 6 * GIB})
    assert "A smaller batch" not in in_vain("ACT010", **spike, **{"spike.largest_request_bytes": 1 * GIB})


def test_no_rule_recommends_what_it_says_is_in_vain():
    for rule in PLAYBOOK.rules:
        wanted = {remedy.set.knob for remedy in rule.remedies if remedy.set is not None}
        for each in rule.not_remedies:
            if "Expandable segments" in each.what:
                assert "torch.expandable_segments" not in wanted, rule.id
            if "empty_cache" in each.what:
                assert "torch.empty_cache" not in wanted, rule.id


@pytest.mark.parametrize(("given", "told"), [({}, set()), ({"allocator__largest_free_block_bytes": MIB}, {"a pool"})])
def test_a_reason_that_needs_what_is_unknown_is_not_given(given: dict[str, int], told: set[str]) -> None:
    one = made_rule(not_remedies='[{what: a pool, why: "{allocator.largest_free_block_bytes} stay"}]')
    known = facts(oom__requested_bytes=GIB, oom__reserved_unallocated_bytes=2 * GIB, **given)
    (found,) = match_rules(Playbook((one,)), known)
    assert {each.what for each in found.not_remedies} == told
