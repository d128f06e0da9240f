"""The rules that are shipped: they load, pass their own cases, and name settings that exist."""

import pytest

from oomdoctor.knobs.load import load_knobs
from oomdoctor.knobs.versions import version_key
from oomdoctor.playbook.cases import run_case
from oomdoctor.playbook.lint import lint
from oomdoctor.playbook.load import default_rules_directory, load_playbook

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


@pytest.mark.parametrize("rule", PLAYBOOK.rules, ids=lambda rule: rule.id)
def test_settings_exist_where_the_remedy_applies(rule):
    """A remedy's own bound on the version is not below the first version that has the option."""
    knobs = load_knobs()
    for remedy in rule.remedies:
        if remedy.set is None:
            continue
        knob = knobs[remedy.set.knob]
        assert knobs.spell(knob.id, remedy.set.value.outline() or "<N>", None).lines
        for spelling in knob.spellings:
            for bound in filter(None, (spelling.since, spelling.until)):
                assert version_key(bound)
                assert knob.spelled(bound), f"{rule.id}: {knob.id} in {bound}"


def test_codes_stand_in_their_file_names():
    for rule in PLAYBOOK.rules:
        assert f"/{rule.id}-" in rule.place.path
