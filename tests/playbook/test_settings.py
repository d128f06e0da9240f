"""Every setting that a rule names exists, with that value, in every version that the rule can meet it in."""

import re

import pytest

from oomdoctor.knobs.load import load_knobs
from oomdoctor.knobs.versions import version_key
from oomdoctor.playbook.load import default_rules_directory, load_playbook

KNOBS = load_knobs()
PLAYBOOK = load_playbook([default_rules_directory()])
SETTINGS = [(rule, remedy) for rule in PLAYBOOK.rules for remedy in rule.remedies if remedy.set is not None]
REMEDIES = [(rule, remedy) for rule in PLAYBOOK.rules for remedy in rule.remedies]
ENGINES = ("vllm", "sglang", "tgi", "llama.cpp", "ollama", "lmdeploy", "tensorrt-llm")
"""Frameworks whose options mean nothing to another: a remedy with such a knob is for this engine alone."""
MORE_RELEASES = {
    "torch": ["1.13.1", "2.0.1", "2.5.1", "2.7.1", "2.9.1", "2.15.0"],
    "vllm": ["0.6.3.post1", "0.8.5", "0.10.1.1", "0.14.0", "0.17.1", "0.19.1", "0.25.0", "0.33.0"],
    "sglang": ["0.4.6.post5", "0.5.9", "0.5.13.post1", "0.5.19", "0.5.23"],
    "transformers": ["4.40.2", "4.49.0", "4.57.6", "5.0.0", "5.24.0"],
}


def releases(framework: str) -> list[str]:
    """All releases at which some knob of the framework changes, and some between."""
    bounds = {
        bound
        for knob in KNOBS.values()
        for item in ((*knob.spellings, *knob.choices) if knob.framework == framework else ())
        for bound in (item.since, item.until)
        if bound is not None
    }
    return sorted(bounds.union(MORE_RELEASES.get(framework, ())))


def name(pair) -> str:
    return f"{pair[0].id}-{pair[1].id}"


def known_of(framework: str, release: str) -> dict[str, object]:
    fact = "torch.version" if framework == "torch" else "engine.version"
    known: dict[str, object] = {"host.platform": "linux"}
    if framework in (*ENGINES, "transformers", "deepspeed"):
        known["engine.name"] = framework
    known[fact] = release
    return known


@pytest.mark.parametrize("pair", SETTINGS, ids=name)
def test_the_value_is_taken_by_every_version_that_has_the_knob(pair):
    _, remedy = pair
    knob, value = KNOBS[remedy.set.knob], remedy.set.value.outline()
    if remedy.set.value.names:
        value = "1"  # computed from facts: a number
        assert knob.takes in ("integer", "number", "text", "size"), "a choice is not computed"
    shown, hidden = [], []
    for release in releases(knob.framework):
        if not knob.spelled(release):
            continue  # the version lacks the option, and the remedy is not shown
        known = known_of(knob.framework, release)
        decided = remedy.applies is not None and known.keys() >= set(remedy.applies.names)
        if decided and remedy.applies.value(known.get) is False:
            continue
        if knob.refusal(value or "<N>", release) is not None:
            assert not KNOBS.spell(knob.id, value, release).lines, "a refused value is not shown"
            hidden.append(version_key(release))
            continue
        assert KNOBS.spell(knob.id, value or "<N>", release).lines, release
        shown.append(version_key(release))
    assert shown or not releases(knob.framework), "no version ever shows it"
    # A value may be younger than its knob; one that newer versions refuse is an error of the rule.
    assert not hidden or max(hidden) < min(shown)


@pytest.mark.parametrize("pair", SETTINGS, ids=name)
def test_where_the_version_is_unknown_each_spelling_says_which_versions_it_is_for(pair):
    _, remedy = pair
    knob, value = KNOBS[remedy.set.knob], remedy.set.value.outline()
    setting = KNOBS.spell(knob.id, value or "<N>", None)
    assert setting.lines
    for spelling in knob.spellings:
        if spelling.versions:
            assert spelling.versions in setting.note


@pytest.mark.parametrize("pair", SETTINGS, ids=name)
def test_a_value_written_out_can_be(pair):
    _, remedy = pair
    knob, value = KNOBS[remedy.set.knob], remedy.set.value.outline()
    if knob.takes == "switch" or remedy.set.value.names or value.startswith("<"):
        return
    assert not value.startswith("-") or knob.takes == "text"
    if knob.takes == "integer" and value:
        assert int(value) >= 0
    if knob.takes == "number" and value and re.search(r"fraction|utilization|entry_count|threshold", knob.id):
        assert 0 < float(value) <= 1


@pytest.mark.parametrize("pair", SETTINGS, ids=name)
def test_a_setting_of_one_engine_is_not_shown_to_another(pair):
    rule, remedy = pair
    framework = KNOBS[remedy.set.knob].framework
    if framework not in ENGINES:
        return
    for other in set(ENGINES) - {framework}:
        known = {"engine.name": other, "engine.buffer_purpose": None}
        applies = None if remedy.applies is None else remedy.applies.value(known.get)
        excluded = any(condition.value(known.get) is False for condition in rule.when)
        excluded = excluded or any(condition.value(known.get) is True for condition in rule.excludes)
        assert applies is False or excluded, f"{remedy.set.knob} is shown to users of {other}"


@pytest.mark.parametrize("pair", REMEDIES, ids=name)
def test_a_remedy_says_what_it_costs_and_where_that_is_written(pair):
    _, remedy = pair
    assert remedy.cost
    assert re.fullmatch(r"https://[\w.-]+/\S*|man .+", remedy.source), remedy.source
