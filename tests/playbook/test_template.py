"""Texts with facts in them."""

import time

import pytest

from oomdoctor.errors import RuleError
from oomdoctor.knobs.document import Place, Scalar
from oomdoctor.model.facts import Scope
from oomdoctor.model.units import GIB, MIB
from oomdoctor.playbook.template import format_raw, parse_template

FACTS = {
    "oom.requested_bytes": 3 * GIB // 2,
    "oom.total_bytes": 24 * GIB,
    "engine.kv_pool_tokens": 1234567,
    "engine.utilization": 0.925,
    "growth.bytes_per_second": 5 * MIB,
    "host.watched_seconds": 90,
    "exit.killed": True,
    "torch.version": "2.10.0",
    "devices.count": 8,
}


def template(text):
    return parse_template(Scalar(text, Place("rule.yaml", 3, 5), text), Scope.DEVICE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("asked {oom.requested_bytes}", "asked 1.50 GiB"),
        ("{oom.total_bytes - oom.requested_bytes} else", "22.50 GiB else"),
        ("{engine.kv_pool_tokens} tokens", "1,234,567 tokens"),
        ("{engine.utilization}", "92 %"),
        ("{oom.requested_bytes / oom.total_bytes}", "6.2 %"),
        ("{engine.utilization + 0.07} {engine.utilization + 0.0749}", "99.5 % 99.9 %"),
        ("{growth.bytes_per_second}", "5.00 MiB per second"),
        ("{host.watched_seconds}", "90 s"),
        ("{exit.killed} {torch.version} {devices.count}", "yes 2.10.0 8"),
        ("free {oom.free_bytes}", "free unknown"),
        ("a[[, free {oom.free_bytes}]].", "a."),
        ("a[[, asked {oom.requested_bytes}]].", "a, asked 1.50 GiB."),
        ("a [[(asked {oom.requested_bytes})]] b", "a (asked 1.50 GiB) b"),
        ("[[{oom.free_bytes} of {oom.total_bytes}]]", ""),
        ("[[{oom.free_bytes}]][[; asked {oom.requested_bytes}]]", "asked 1.50 GiB"),
        ("a {{b}} [c] d]]", "a {b} [c] d]]"),
        ("two\n  lines", "two lines"),
    ],
)
def test_filling(text, expected):
    assert template(text).fill(FACTS.get) == expected


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("a {oom.free_byte}", 8, "did you mean"),
        ("a {oom.free_bytes", 7, "{ without }"),
        ("a } b", 7, "} without {"),
        ("a [[b {oom.free_bytes}", 7, r"\[\[ without"),
        ("a [[b]]", 7, "never left out"),
        ("[[a [[{oom.free_bytes}]]]]", 9, "inside"),
    ],
)
def test_faults_carry_their_place(text, column, message):
    with pytest.raises(RuleError, match=message) as caught:
        template(text)
    assert (caught.value.line, caught.value.column) == (3, column)


def test_values_for_programs_are_whole_and_never_rounded_up():
    assert template("{engine.kv_pool_tokens // 256 * 256}").fill(FACTS.get, "<N>", format_raw) == "1234432"
    assert template("{engine.utilization}").fill(FACTS.get, "<N>", format_raw) == "0.92"
    assert template("{engine.utilization}").fill({"engine.utilization": 0.57}.get, "<N>", format_raw) == "0.57"
    assert template("{oom.free_bytes}").fill(FACTS.get, "<N>", format_raw) == "<N>"


def test_the_outline_shows_placeholders():
    assert template("a {oom.free_bytes}[[ b {exit.killed}]]").outline() == "a ‹oom.free_bytes› b ‹exit.killed›"


def test_many_placeholders_take_time_by_their_number():
    """Each place was counted from the beginning of the text: 36,000 characters took four seconds."""
    raw = "{oom.requested_bytes}\n   " * 4_000
    folded = " ".join(raw.split())
    begun = time.process_time()
    parse_template(Scalar(folded, Place("rule.yaml", 3, 5), raw), Scope.DEVICE)
    assert time.process_time() - begun < 10
    with pytest.raises(RuleError) as fault:
        parse_template(Scalar(folded + " {", Place("rule.yaml", 3, 5), raw + "{"), Scope.DEVICE)
    assert (fault.value.line, fault.value.column) == (4003, 4)
