"""Rule files: what a broken one says, and that it does not spoil the others."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomdoctor.errors import RuleError
from oomdoctor.knobs.document import MAX_CHARACTERS, Section, parse_document
from oomdoctor.model.facts import Scope
from oomdoctor.model.units import GIB
from oomdoctor.playbook.load import default_rules_directory, load_playbook, load_rule, rule_directories

from .rule_text import RULE, rule


def test_a_rule_is_read_whole():
    found = rule()
    assert (found.id, found.cause, found.scope) == ("FRG001", "fragmentation", Scope.DEVICE)
    assert [condition.text for condition in found.supports] == ["allocator.segments > 50"]
    assert found.remedies[0].set.knob == "torch.expandable_segments"
    assert found.translations["zh"].title == "碎片"
    assert found.cases[0].facts == {"oom.requested_bytes": 2 * GIB}
    assert (found.place.path, found.place.line) == ("rule.yaml", 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "frg1"}, "an id is letters and three digits"),
        ({"cause": "fragmentatoin"}, "did you mean 'fragmentation'"),
        ({"scope": "gpu"}, "there is no scope 'gpu'"),
        ({"when": "[]"}, "at least one condition"),
        ({"when": None}, "at least one condition"),
        ({"when": "exit.killed"}, "'when' is a list"),
        ({"when": "[oom.free_bytes]"}, "a condition is true or false"),
        ({"title": None}, "'title' is missing"),
        ({"explain": None}, "'explain' is missing"),
        ({"explain": "{oom.free_byte}"}, "a text is expected"),
        ({"explain": "'{oom.free_byte}'"}, "did you mean 'oom.free_bytes'"),
        ({"suports": "[exit.killed]"}, "did you mean 'supports'"),
        ({"explains": "engine.kv_pool_tokens"}, "'explains' is bytes; this is tokens"),
        ({"remedies": "[{id: a, do: x}, {id: a, do: y}]", "zh": None}, "stands here twice"),
        ({"remedies": "[{id: A b, do: x}]", "zh": None}, "words-joined-by-hyphens"),
        ({"remedies": "[{id: a, do: x, frees: engine.utilization}]", "zh": None}, "'frees' is bytes"),
        (
            {"remedies": "[{id: a, do: x, effect: helps}]", "zh": None},
            "'effect' is one of frees, .*, counts, finds-out",
        ),
        ({"remedies": "[{id: a, do: x, frees: oom.free_bytes, effect: counts}]", "zh": None}, "counts has no bytes"),
        ({"remedies": "[{id: a, do: x, set: {nob: y}}]", "zh": None}, "did you mean 'knob'"),
        ({"zh": "{remedies: {grown: {do: x}}}"}, "no remedy 'grown'"),
        ({"zh": "{not_remedies: [{what: a, why: b}, {what: c, why: d}]}"}, "has 1 not_remedies; here are 2"),
        ({"cases": "[{expect: maybe}]"}, "the outcome is one of"),
        ({"cases": "[{expect: unknown, facts: {oom.free_byte: 1}}]"}, "did you mean 'oom.free_bytes'"),
        ({"cases": "[{expect: unknown, facts: {oom.free_bytes: many}}]"}, "is of type bytes"),
        ({"cases": "[{expect: unknown, facts: {exit.killed: 1}}]"}, "true or false"),
        ({"cases": "[{expect: unknown, facts: {activity.phase: lunch}}]"}, "is one of"),
    ],
)
def test_faults_are_named(changes, message):
    with pytest.raises(RuleError, match=message) as caught:
        rule(**changes)
    assert caught.value.path == "rule.yaml"
    assert caught.value.line is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("- a", "a mapping"),
        ("a: [", "not YAML"),
        ("a: b: c", "not YAML"),
        ("a: &x 1\nb: *x", "anchors"),
        ("a: *x", "aliases"),
        ("a: !!python/object:os.system x", "tags"),
        ("a: 1\na: 2", "stands here twice"),
        ("a: 1\n---\nb: 2", "one document"),
        ("? [a]\n: 1", "a key is a text"),
        ("[" * 20, "nested deeper"),
        ("[" * 5000, "nest"),
        ("a: " + "x" * MAX_CHARACTERS, "larger than"),
        ("a: \x00", "not YAML"),
    ],
)
def test_documents_that_are_refused(text, message):
    with pytest.raises(RuleError, match=message):
        parse_document(text, "rule.yaml")


@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\"#, \n\t\x85é\ud800?%@`0"), max_size=60))
@settings(max_examples=100)
def test_no_text_raises_anything_but_a_rule_error(text):
    try:
        section = parse_document(text, "rule.yaml")
    except RuleError:
        return
    assert isinstance(section, Section)


def test_scalars_stay_text():
    found = parse_document("a: 2.10\nb: no\nc: 0x10\nd: 2024-01-01", "x")
    assert isinstance(found, Section)
    assert [found.text(key) for key in "abcd"] == ["2.10", "no", "0x10", "2024-01-01"]


def test_a_broken_rule_is_a_problem_and_the_others_still_work(tmp_path):
    (tmp_path / "family").mkdir()
    (tmp_path / "family" / "good.yaml").write_text(RULE, encoding="utf-8")
    (tmp_path / "family" / "twin.yaml").write_text(RULE, encoding="utf-8")
    (tmp_path / "bad.yaml").write_text(RULE.replace("oom.reserved_una", "oom.reservd_una"), encoding="utf-8")
    (tmp_path / "latin.yaml").write_bytes(b"id: \xe9")
    playbook = load_playbook([tmp_path, tmp_path / "missing"])
    assert [found.id for found in playbook.rules] == ["FRG001"]
    messages = [str(problem) for problem in playbook.problems]
    assert any("bad.yaml:6:5: there is no fact" in message for message in messages)
    assert any("the id FRG001 is taken by" in message for message in messages)
    assert any("latin.yaml: not UTF-8" in message for message in messages)
    assert any("missing: there are no rules" in message for message in messages)


def test_parts_that_are_not_wanted_are_left_out_and_the_others_keep_their_place(tmp_path):
    for path in default_rules_directory().glob("*/*.yaml"):
        whole, short = load_rule(path), load_rule(path, without=("cases", "zh"))
        assert whole.cases
        assert not short.cases
        assert replace(whole, cases=(), translations={}) == short
    moved = RULE.replace("oom.reserved_una", "oom.reservd_una")
    text = "cases:\n  - name: one\n    expect: [\n" + moved
    (tmp_path / "rule.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(RuleError, match=r"rule\.yaml:9:5: there is no fact"):
        load_rule(tmp_path / "rule.yaml", without=("cases",))


def test_a_file_that_is_not_there_is_a_rule_error(tmp_path):
    with pytest.raises(RuleError, match="cannot be read"):
        load_rule(tmp_path / "none.yaml")


def test_directories_of_rules_come_from_the_package_the_option_and_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("OOMDOCTOR_RULES", f"{tmp_path / 'a'}:{tmp_path / 'b'}")
    found = rule_directories([tmp_path / "c", tmp_path / "a", tmp_path / "x" / ".." / "a", default_rules_directory()])
    assert found == (default_rules_directory(), tmp_path / "c", tmp_path / "a", tmp_path / "b")
