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


RELEASES = {
    "torch": ["1.13.1", "2.0.1", "2.1.2", "2.5.1", "2.8.0", "2.9.0", "2.9.1", "2.10.0", "2.15.0"],
    "vllm": ["0.4.2", "0.6.3.post1", "0.8.5", "0.10.1.1", "0.10.2", "0.11.0", "0.11.1", "0.17.1", "0.18.0", "0.33.0"],
    "sglang": ["0.4.0", "0.4.6.post5", "0.5.3", "0.5.13.post1", "0.5.14", "0.5.23"],
    "transformers": ["4.40.2", "4.44.2", "4.50.3", "4.55.4", "4.57.6", "5.0.0", "5.24.0"],
}


@pytest.mark.parametrize("rule", PLAYBOOK.rules, ids=lambda rule: rule.id)
def test_a_remedy_that_asks_for_a_version_names_a_setting_of_that_version(rule):
    knobs = load_knobs()
    for remedy in rule.remedies:
        if remedy.set is None:
            continue
        knob, value = knobs[remedy.set.knob], remedy.set.value.outline()
        assert knobs.spell(knob.id, value or "<N>", None).lines
        version_fact = "torch.version" if knob.framework == "torch" else "engine.version"
        if remedy.applies is None or version_fact not in remedy.applies.names:
            continue
        for release in RELEASES.get(knob.framework, ()):
            known = {version_fact: release, "engine.name": knob.framework, "host.platform": "linux"}
            if remedy.applies.value(known.get) is True:
                assert knobs.spell(knob.id, value or "<N>", release).lines, f"{remedy.id} for {release}"


def test_the_example_in_the_documentation_holds():
    text = DOCUMENTATION.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    rule = read_rule(parse_document(text, "rules.md"))
    assert [result.got for result in run_cases([rule])] == [case.expect for case in rule.cases]
    assert rule.remedies[0].set.knob in load_knobs()


def test_codes_stand_in_their_file_names():
    for rule in PLAYBOOK.rules:
        assert f"/{rule.id}-" in rule.place.path
