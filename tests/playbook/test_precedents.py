"""What the input leaves open is told by how often it was the cause of reports like it; never as more than possible."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomdoctor.facts.registry import REGISTRY
from oomdoctor.model.diagnosis import Confidence
from oomdoctor.model.facts import FactType
from oomdoctor.model.units import GIB, MIB
from oomdoctor.playbook.causes import FAMILY_OF
from oomdoctor.playbook.load import Playbook
from oomdoctor.playbook.match import match_rules
from oomdoctor.playbook.precedents import Precedent, Precedents, by_precedent, load_precedents, signs_of

from .rule_text import facts, rule

FAILED = {"oom__failed": True, "engine__name": "vllm"}
SIGNS = frozenset({"oom.failed = True", "engine.name = vllm"})
FRAGMENTATION = rule()
OTHER = replace(rule(), id="TST002", cause="graph-capture")


def reports(*causes, signs=SIGNS):
    return tuple(Precedent(f"some/project#{number}", cause, signs) for number, cause in enumerate(causes))


def told(known, precedents, rules=(FRAGMENTATION, OTHER)):
    playbook = Playbook(rules)
    return by_precedent(playbook, known, match_rules(playbook, known), Precedents(precedents))


def test_rules_left_open_are_told_by_the_number_of_reports():
    precedents = reports("fragmentation", "graph-capture", "graph-capture", "fragmentation", "graph-capture", "logits")
    first, second = told(facts(**FAILED), precedents)
    assert (first.cause, first.confidence, first.by_precedent) == ("graph-capture", Confidence.POSSIBLE, True)
    assert "Of the 6 public reports most like it, 3 had this cause." in first.explain
    assert "some/project#1, some/project#2, some/project#4" in first.explain
    assert second.cause == "fragmentation"


def test_one_report_is_no_precedent():
    assert told(facts(**FAILED), reports("fragmentation", "graph-capture", "logits")) == ()


def test_a_rule_that_the_facts_refuse_is_not_told():
    refused = facts(**FAILED, oom__requested_bytes=GIB, oom__reserved_unallocated_bytes=MIB)
    assert told(refused, reports("fragmentation", "fragmentation"), (FRAGMENTATION,)) == ()


def test_nothing_is_added_to_what_is_surer():
    sure = facts(
        **FAILED, oom__requested_bytes=2 * GIB, oom__reserved_unallocated_bytes=9 * GIB, allocator__segments=60
    )
    assert match_rules(Playbook((FRAGMENTATION,)), sure)[0].confidence is Confidence.LIKELY
    assert told(sure, reports("graph-capture", "graph-capture")) == ()


def test_three_findings_are_followed_by_none():
    playbook, known = Playbook((FRAGMENTATION, OTHER)), facts(**FAILED)
    possible = by_precedent(playbook, known, (), Precedents(reports(*["graph-capture"] * 3, *["fragmentation"] * 2)))
    assert len(possible) == 2
    three = tuple(replace(possible[0], rule=name, cause=name) for name in ("A", "B", "C"))
    assert by_precedent(playbook, known, three, Precedents(reports(*["graph-capture"] * 3))) == ()


def test_reports_that_share_no_sign_tell_nothing():
    assert told(facts(exit__killed=True), reports("graph-capture", "graph-capture")) == ()


def test_a_rare_sign_says_more_than_a_common_one():
    common = reports(*["logits"] * 30, signs=frozenset({"oom.failed = True"}))
    rare = reports("graph-capture", "graph-capture", signs=frozenset({"oom.failed = True", "engine.name = sglang"}))
    nearest = Precedents((*common, *rare)).most_alike(frozenset({"oom.failed = True", "engine.name = sglang"}))
    assert [report.cause for report in nearest[:2]] == ["graph-capture", "graph-capture"]


def test_those_as_near_as_the_last_are_told_with_it():
    assert len(Precedents(reports(*["logits"] * 50)).most_alike(SIGNS)) == 50


@pytest.mark.parametrize(
    ("requested", "share"), [(MIB, 0), (GIB, 0.002), (2 * GIB, 0.02), (9 * GIB, 0.1), (70 * GIB, 0.8), (81 * GIB, 1)]
)
def test_sizes_count_as_shares_of_the_card(requested, share):
    known = facts(oom__requested_bytes=requested, oom__total_bytes=80 * GIB)
    assert signs_of(known) == {f"oom.requested_bytes > {share:g} of the card"}
    assert signs_of(facts(oom__requested_bytes=requested)) == frozenset()


@given(st.lists(st.sampled_from(["logits", "graph-capture", "fragmentation"]), max_size=30))
@settings(max_examples=30)
def test_what_is_told_is_never_more_than_possible(causes):
    for finding in told(facts(**FAILED), reports(*causes)):
        assert finding.confidence is Confidence.POSSIBLE
        assert finding.by_precedent
        assert causes.count(finding.cause) >= 2


def test_the_shipped_reports_speak_of_known_causes_and_facts():
    shipped = load_precedents().reports
    assert len(shipped) > 500
    assert {report.cause for report in shipped} <= set(FAMILY_OF)
    for sign in {sign for report in shipped for sign in report.signs}:
        name, value = sign.split(" ", 1)
        spec = REGISTRY[name]
        if spec.type is FactType.FLAG:
            assert value in ("= True", "= False")
        elif spec.type is FactType.NAME:
            assert value.removeprefix("= ") in spec.names
        else:
            assert spec.type is FactType.BYTES
            assert value.endswith(" of the card")
