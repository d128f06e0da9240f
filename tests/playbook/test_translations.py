"""A rule's texts in another language: they are whole, show what the English ones show, and fall back to them."""

import pytest

from oomdoctor.knobs.document import parse_document
from oomdoctor.playbook.lint import lint
from oomdoctor.playbook.load import Playbook, default_rules_directory, load_playbook, read_rule
from oomdoctor.playbook.translations import faults_of

from .rule_text import RULE, rule

WHOLE = {
    "title": "显存碎片",
    "explain": "'请求 {oom.requested_bytes}[[，最大的块为 {allocator.largest_free_block_bytes}]]。'",
    "remedies": "{grow: {do: 就地扩展, cost: 很小}}",
    "not_remedies": "[{what: empty_cache(), why: '已为 {oom.requested_bytes} 做过'}]",
    "to_confirm": "[{what: 一份快照}]",
}


def faults(**changes):
    texts = {key: text for key, text in {**WHOLE, **changes}.items() if text is not None}
    block = "".join(f"  {key}: {text}\n" for key, text in texts.items())
    without = RULE[: RULE.index("zh:")] + RULE[RULE.index("cases:") :]
    found = read_rule(parse_document(f"{without}zh:\n{block}", "rule.yaml"))
    return found, [str(each) for each in lint(Playbook((found,))) if each.severity == "error"]


def test_a_whole_translation_has_no_fault_and_takes_commands_from_the_english_texts():
    found, problems = faults()
    assert problems == []
    assert found.translations["zh"].to_confirm[0].command == "oomdoctor run"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"title": None}, "error: zh: title is missing"),
        ({"remedies": "{grow: {do: 就地扩展}}"}, "error: zh: cost of grow is missing"),
        ({"remedies": None}, "error: zh: do of grow is missing"),
        ({"not_remedies": None}, "error: zh: what of not_remedies 1 is missing"),
        ({"to_confirm": None}, "error: zh: what of to_confirm 1 is missing"),
        ({"explain": "'请求 {oom.requested_bytes}'"}, "explain does not show allocator.largest_free_block_bytes"),
        (
            {"explain": "'{oom.requested_bytes} {oom.free_bytes}[[{allocator.largest_free_block_bytes}]]'"},
            "explain shows oom.free_bytes, which the English text does not",
        ),
        (
            {"explain": "'请求 {oom.requested_bytes}，{allocator.largest_free_block_bytes}'"},
            "explain shows allocator.largest_free_block_bytes outside [[ … ]]",
        ),
    ],
)
def test_what_is_wrong_is_said_at_its_place(changes, message):
    _, problems = faults(**changes)
    (problem,) = [each for each in problems if message in each]
    line = int(problem.split(":")[1])
    assert problem.startswith("rule.yaml:")
    assert line > RULE[: RULE.index("zh:")].count("\n")


def test_a_rule_without_texts_in_the_language_is_no_error():
    assert not [each for each in lint(Playbook((rule(zh=None),))) if each.severity == "error"]


def test_an_owner_without_words_needs_no_translation_but_one_with_words_does():
    def problems(owner):
        return [each for each in lint(Playbook((rule(owner=owner),))) if "owner is missing" in each.message]

    assert not problems("'{owner.top}'")
    assert problems("'the tensor at {owner.top}'")


def test_every_shipped_rule_has_its_texts_in_chinese():
    playbook = load_playbook([default_rules_directory()])
    if not any("zh" in found.translations for found in playbook.rules):
        pytest.skip("no rule has texts in Chinese yet")
    assert [str(fault) for found in playbook.rules for fault in faults_of(found, "zh")] == []
