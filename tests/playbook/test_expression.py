"""The rule language: what it accepts, what it refuses and where, and its three-valued truth."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomdoctor.errors import RuleError
from oomdoctor.facts.registry import REGISTRY
from oomdoctor.knobs.document import parse_document
from oomdoctor.model.facts import Scope
from oomdoctor.model.units import GIB
from oomdoctor.playbook.expression import UNITS, parse_condition, parse_expression

FACTS = {
    "oom.requested_bytes": 2 * GIB,
    "oom.free_bytes": GIB,
    "oom.total_bytes": 24 * GIB,
    "engine.kv_bytes_per_token": 1024,
    "engine.kv_pool_tokens": 4096,
    "engine.utilization": 0.9,
    "torch.version": "2.10.0+cu128",
    "activity.phase": "load",
    "exit.killed": True,
    "exit.status": 0,
    "command.line": "vllm serve m --Enforce-Eager",
}
"""Anything else is unknown."""


def value(text):
    return parse_expression(text, Scope.DEVICE).value(FACTS.get)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("oom.free_bytes < oom.requested_bytes", True),
        ("oom.free_bytes < oom.requested_bytes < oom.total_bytes", True),
        ("oom.free_bytes < oom.requested_bytes > oom.total_bytes", False),
        ("oom.requested_bytes >= 1.5 * GiB", True),
        ("oom.requested_bytes - oom.free_bytes", GIB),
        ("-oom.free_bytes", -GIB),
        ("oom.total_bytes // oom.requested_bytes == 12", True),
        ("oom.free_bytes / oom.total_bytes > 0.5", False),
        ("0.5 * oom.total_bytes == 12 * GiB", True),
        ("engine.utilization * oom.total_bytes < oom.total_bytes", True),
        ("engine.kv_bytes_per_token * engine.kv_pool_tokens == 4 * MiB", True),
        ("oom.free_bytes / engine.kv_bytes_per_token > 1000", True),
        ("oom.free_bytes > 0", True),
        ("activity.phase == 'load'", True),
        ("activity.phase in ('profile', 'load')", True),
        ("activity.phase not in ['profile', 'load']", False),
        ("'--enforce-eager' in command.line", True),
        ("exit.killed and not exit.killed", False),
        ("exit.killed == True", True),
        ("exit.signal == 9", None),
        ("exit.signal is unknown", True),
        ("exit.killed is known", True),
        ("exit.clean or exit.killed", True),
        ("exit.clean and not exit.killed", False),
        ("exit.clean or not exit.killed", None),
        ("not exit.clean", None),
        ("oom.total_bytes / exit.status > 1 * GiB", None),
        ("oom.total_bytes" + " * 1e18" * 20 + " > 1 * GiB", None),
        ("engine.version >= '0.9'", None),
        ("command.line == '#'", False),
        ("4611686018427387904" + " * 4611686018427387904" * 20 + " > exit.status", None),
    ],
)
def test_values(text, expected):
    found = value(text)
    assert found == expected
    assert (found is None) == (expected is None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch.version > '2.9'", True),
        ("torch.version >= '2.10'", True),
        ("torch.version == '2.10.0'", True),
        ("torch.version < '2.10.0.post1'", True),
        ("torch.version > '2.10.0rc2'", True),
        ("torch.version < '2.11.0.dev20260101'", True),
    ],
)
def test_versions_are_ordered_by_number(text, expected):
    assert value(text) is expected


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("oom.requestd_bytes > 1 * GiB", 1, "did you mean 'oom.requested_bytes'"),
        ("oom.free_bytes > 5", 18, "write it with a unit"),
        ("oom.free_bytes + engine.kv_pool_tokens > 1 * GiB", 18, "bytes does not go with tokens"),
        ("engine.utilization > exit.status", 22, "a ratio does not go with a count"),
        ("activity.phase == 'loading'", 19, "is not one of the names"),
        ("activity.phase < 'load'", 18, "no order"),
        ("torch.version > 2.1", 17, "does not go with|no order"),
        ("torch.version > 'new'", 17, "quoted version"),
        ("command.line > 'a'", 16, "no order"),
        ("exit.killed and oom.free_bytes", 17, "true or false is expected"),
        ("exit.killed + 1 > 2", 1, "no arithmetic"),
        ("len(command.line) > 3", 1, "no calls"),
        ("[exit.killed for x in y]", 1, "list comp"),
        ("exit.status ** 2 > 3", 1, "only"),
        ("exit.status is 3", 16, "known or unknown"),
        ("known", 1, "stands after 'is'"),
        ("'ä' == command.line and foo", 25, "there is no fact"),
        ("exit.status >", 13, "not an expression"),
        ("'a' 'b", 5, "not an expression"),
        ("exit.status > 1e400", 15, "too large"),
        ("exit.status > 2j", 15, "a literal is"),
        ("not " * 40 + "exit.killed", 97 + 4, "deeper"),
        ("exit.status" + " " * 500, 1, "a condition is"),
        ("exit.status > 1 or " * 40 + "exit.killed", 1, "longer than"),
        ("exit.killed # and more", 13, "no comments"),
        ("command.line == '#' # x", 21, "no comments"),
        ("   ", 1, "empty"),
    ],
)
def test_faults_carry_their_place(text, column, message):
    with pytest.raises(RuleError, match=message) as caught:
        parse_condition(text, Scope.DEVICE)
    assert (caught.value.line, caught.value.column) == (1, column)


def test_a_rule_of_the_incident_cannot_name_facts_of_a_device():
    with pytest.raises(RuleError, match="is about one device; this rule is about one incident"):
        parse_expression("oom.free_bytes > 1 * GiB", Scope.INCIDENT)


@pytest.mark.parametrize(
    ("yaml", "line", "column"),
    [
        ("when: exit.killed and foo", 1, 23),
        ("when: 'exit.killed and foo'", 1, 24),
        ("when: >-\n  exit.killed\n  and foo\n", 3, 7),
        ("when: |\n  exit.killed and foo\n", 2, 19),
        ("when: exit.killed\n  and foo\n", 2, 7),
    ],
)
def test_columns_are_those_of_the_file(yaml, line, column):
    scalar = parse_document(yaml, "rule.yaml").scalar("when")
    with pytest.raises(RuleError) as caught:
        parse_condition(scalar, Scope.INCIDENT)
    assert (caught.value.path, caught.value.line, caught.value.column) == ("rule.yaml", line, column)


def test_only_the_facts_that_decided_are_named():
    expression = parse_expression("exit.clean or exit.killed or exit.status == 1", Scope.INCIDENT)
    assert expression.evaluate(FACTS.get).facts == {"exit.killed": True}
    assert expression.names == ("exit.clean", "exit.killed", "exit.status")


ATOMS = st.sampled_from(["True", "False", "exit.clean"])
TRUTH = st.recursive(
    ATOMS, lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner), max_leaves=6
)


@given(TRUTH, TRUTH)
@settings(max_examples=100)
def test_kleene_laws(a, b):
    assert value(f"not ({a} and {b})") is value(f"not {a} or not {b}")
    assert value(f"{a} and {b}") is value(f"{b} and {a}")
    assert value(f"not not {a}") is value(a)
    assert value(f"{a} or ({a} and {b})") is value(a)


@given(TRUTH)
@settings(max_examples=100)
def test_more_knowledge_never_turns_an_answer(text):
    expression = parse_expression(text, Scope.INCIDENT)
    before = expression.value(lambda name: None)
    for known in (True, False):
        if before is not None:
            assert expression.value(lambda name, known=known: known) is before


SIGNS = ["and", "or", "not", "is", "known", "(", ")", "+", "*", "/", "<", "==", "1", "'a'", "in", ",", "[", "]"]
ODD = ["if", "else", "lambda:", "**", ":=", "~", "f''", "#"]
WORDS = st.sampled_from([*list(REGISTRY)[:12], *UNITS, *SIGNS, *ODD])


@given(st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=25).map(" ".join)))
@settings(max_examples=100)
def test_no_text_raises_anything_but_a_rule_error(text):
    try:
        expression = parse_expression(text, Scope.DEVICE)
    except RuleError as fault:
        place = fault.line, fault.column
        assert None not in place
        return
    expression.value(lambda name: None)
    expression.evaluate(FACTS.get)
