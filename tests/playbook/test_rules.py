"""The rules that are shipped: they load, pass their own cases, and name settings that exist."""

from pathlib import Path

import pytest

from oomdoctor.knobs.document import parse_document
from oomdoctor.knobs.load import load_knobs
from oomdoctor.playbook.cases import run_case, run_cases
from oomdoctor.playbook.lint import lint
from oomdoctor.playbook.load import default_rules_directory, load_playbook, read_rule

DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs" / "rules.md"
PLAYBOOK = load_playbook([default_rules_directory()])


def test_every_rule_loads():
    assert not [str(problem) for problem in PLAYBOOK.problems]


def test_no_rule_has_an_error():
    assert not [str(problem) for problem in lint(PLAYBOOK) if problem.severity == "error"]


@pytest.mark.parametrize("rule", PLAYBOOK.rules, ids=lambda rule: rule.id)
def test_a_rule_passes_its_cases(rule):
    results = [run_case(rule, case) for case in rule.cases]
    assert [f"{item.case.name}: {item.got} by {item.why}" for item in results if not item.passed] == []


@pytest.mark.parametrize("rule", PLAYBOOK.rules, ids=lambda rule: rule.id)
def test_a_rule_has_cases_that_match_and_that_must_not(rule):
    outcomes = {case.expect for case in rule.cases}
    assert outcomes & {"confirmed", "likely", "possible"}
    assert outcomes & {"no-match", "unknown"}


def test_the_example_in_the_documentation_holds():
    text = DOCUMENTATION.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    rule = read_rule(parse_document(text, "rules.md"))
    assert [result.got for result in run_cases([rule])] == [case.expect for case in rule.cases]
    assert rule.remedies[0].set.knob in load_knobs()


def test_codes_stand_in_their_file_names():
    for rule in PLAYBOOK.rules:
        assert f"/{rule.id}-" in rule.place.path
