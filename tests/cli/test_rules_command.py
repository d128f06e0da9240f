"""`oomdoctor rules` and `oomdoctor explain`."""

import pytest
from click.testing import CliRunner

from oomdoctor.cli.explain import explain
from oomdoctor.cli.rules import rules
from oomdoctor.errors import UsageError
from oomdoctor.playbook.load import default_rules_directory

RULE = """\
id: ZZZ001
cause: fragmentation
title: Enough memory is reserved, but it lies in many pieces and none of them can hold the request
scope: device
when:
  - oom.reserved_unallocated_bytes >= oom.requested_bytes
excludes:
  - allocator.expandable_segments
explain: "{oom.requested_bytes} were asked[[, {allocator.largest_free_block_bytes} lay in one piece]]."
remedies:
  - id: grow
    do: Grow in place
    set: {knob: torch.expandable_segments, value: "True"}
    source: https://example.org
not_remedies:
  - {what: empty_cache(), why: It has been done}
cases:
  - name: plenty
    expect: possible
    facts: {oom.requested_bytes: 2 GiB, oom.reserved_unallocated_bytes: 9 GiB}
  - {expect: no-match, facts: {oom.requested_bytes: 2 GiB, oom.reserved_unallocated_bytes: 1 GiB}}
  - {expect: unknown, facts: {oom.requested_bytes: 2 GiB}}
"""


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "ZZZ001-pieces.yaml").write_text(RULE)
    return tmp_path


def call(command, *words):
    return CliRunner().invoke(command, [str(word) for word in words])


def test_check_passes_a_sound_rule(directory):
    result = call(rules, "check", directory)
    assert (result.exit_code, result.output) == (0, "1 rule, 0 errors, 0 warnings\n")


def test_check_knows_the_codes_that_are_taken(directory):
    (directory / "FRG001-mine.yaml").write_text(RULE.replace("ZZZ001", "FRG001"))
    result = call(rules, "check", directory)
    assert result.exit_code == 2
    assert "the id FRG001 is taken by" in result.output


def test_the_shipped_rules_may_be_named_by_another_path(monkeypatch):
    monkeypatch.chdir(default_rules_directory().parent)
    assert "taken" not in call(rules, "check", default_rules_directory().name).output


def test_check_of_a_directory_without_rules_fails(tmp_path):
    assert call(rules, "check", tmp_path).exit_code == 2


def test_check_names_the_place_of_a_fault(directory):
    path = directory / "ZZZ001-pieces.yaml"
    path.write_text(RULE.replace("oom.reserved_unallocated_bytes >=", "oom.reserved_unalocated_bytes >="))
    result = call(rules, "check", directory)
    assert result.exit_code == 2
    assert f"{path}:6:5: error: there is no fact 'oom.reserved_unalocated_bytes'; did you mean" in result.output


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        ("  - {expect: unknown, facts: {oom.requested_bytes: 2 GiB}}\n", "", "no case that must be unknown"),
        ("    source: https://example.org\n", "", "has no source"),
        ("[[, {allocator.largest_free_block_bytes} lay in one piece]]", " {exit.status}", "use [[ … ]]"),
        ("explain:", "masks: [AAA001]\nexplain:", "masks AAA001, which is not here"),
    ],
)
def test_check_warns_and_strict_makes_it_fail(directory, old, new, warning):
    path = directory / "ZZZ001-pieces.yaml"
    path.write_text(RULE.replace(old, new))
    result = call(rules, "check", directory)
    assert result.exit_code == 0
    assert warning in result.output
    assert call(rules, "check", "--strict", directory).exit_code == 2


@pytest.mark.parametrize(
    ("knob", "value", "message"),
    [
        ("torch.expandable_segment", "True", "did you mean 'torch.expandable_segments'"),
        ("torch.expandable_segments", "true", "no version of torch accepts 'true'"),
        ("torch.expandable_segments", "", "it takes one of True, False"),
        ("torch.no_grad", "on", "takes no value"),
        ("vllm.max_num_seqs", "many", "not a whole number"),
    ],
)
def test_check_knows_the_knobs(directory, knob, value, message):
    setting = RULE.replace('torch.expandable_segments, value: "True"', f'{knob}, value: "{value}"')
    (directory / "ZZZ001-pieces.yaml").write_text(setting)
    result = call(rules, "check", directory)
    assert result.exit_code == 2
    assert message in result.output


def test_test_runs_the_cases(directory):
    result = call(rules, "test", directory)
    assert (result.exit_code, result.output) == (0, "1 rule, 3 cases: 3 passed, 0 failed\n")


def test_test_says_what_decided_a_case_that_fails(directory):
    path = directory / "ZZZ001-pieces.yaml"
    path.write_text(RULE.replace("expect: unknown", "expect: no-match"))
    result = call(rules, "test", directory)
    assert result.exit_code == 1
    assert "ZZZ001, case 3: expected no-match, got unknown" in result.output
    assert "(not known: oom.reserved_unallocated_bytes)" in result.output


def test_list_fits_the_terminal(directory):
    result = call(rules, "list", directory)
    assert "ZZZ001" in result.output
    assert all(len(line) <= 80 for line in result.output.splitlines())


def test_the_shipped_rules_are_the_default():
    assert call(rules, "list").exit_code == 0


def test_explain_is_a_plain_page(directory):
    result = call(explain, "zzz001", "--rules", directory)
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert all(len(line) <= 80 for line in result.output.splitlines() if str(directory) not in line)
    for words in (
        "ZZZ001  Enough memory",
        "All of these must hold",
        "oom.requested_bytes (bytes): size of the request",
        "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "What does not help",
    ):
        assert words in result.output


def test_explain_suggests_a_code(directory):
    result = call(explain, "ZZZ002", "--rules", directory)
    assert isinstance(result.exception, UsageError)
    assert "did you mean 'ZZZ001'" in str(result.exception)
