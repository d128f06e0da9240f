"""GIVEN a sample WHEN its report is made in Chinese THEN English stands in it only where the evidence is quoted."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from english import Texts

from oomdoctor.diagnose import diagnose
from oomdoctor.facts.registry import REGISTRY
from oomdoctor.language import speaking
from oomdoctor.language.wrapping import cells
from oomdoctor.model.diagnosis import Diagnosis, Finding
from oomdoctor.model.named_values import words_of as words_of_sets
from oomdoctor.playbook.load import load_playbook
from oomdoctor.playbook.quantity import Kind, ValueType
from oomdoctor.playbook.template import format_value as fill_value
from oomdoctor.report import render
from oomdoctor.report.text import format_value
from oomdoctor.report.text import to_copy as in_place
from oomdoctor.report.view import view_report

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"
NAMES = sorted(path.name for path in SAMPLES.iterdir() if path.name != "README.md")
STAY = {
    *("logits", "flashinfer", "ggml", "tvm", "spark-driver", "spark-executor", "php"),
    *("redis", "elasticsearch", "clickhouse", "duckdb", "ghc", "erlang", "matlab"),
}
"""Words that the field has no other for in Chinese, and names."""
NAMES_OF_THINGS = {"PSI full avg", "PSI full", "CUDA Graph", "OOM killer"}


@cache
def playbook_languages() -> dict[str, bool]:
    return {rule.id: "zh" in rule.translations for rule in load_playbook().rules}


def without_english_rules(diagnosis: Diagnosis) -> Diagnosis:
    """Leaves out what rules say that have no Chinese texts yet; the playbook's own test asks for those."""
    if all(playbook_languages()[finding.rule] for finding in diagnosis.findings):
        return diagnosis
    return replace(diagnosis, findings=tuple(map(_evidence_only, diagnosis.findings)), summary="")


def _evidence_only(finding: Finding) -> Finding:
    if playbook_languages()[finding.rule]:
        return finding
    remedies = tuple(replace(each, do="", cost="") for each in finding.remedies)
    return replace(
        finding, title="", explain="", owner=None, remedies=remedies, not_remedies=(), to_confirm=(), degraded=False
    )


def evidence(name: str) -> str:
    path = SAMPLES / name
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return "\n".join(each.read_bytes().decode("utf-8", "ignore") for each in files)


QUOTED_WORDS = re.compile(
    r"`[^`]*`|'[^'\n]*'|https?://\S+|:\d+ in \S+|\S*[/_=]\S*|\S+\(\)|\w+\.\w[\w.*]*|\*\*", re.MULTILINE
)
"""What is quoted within a sentence: code, names, settings, places."""
PHRASE = re.compile(r"[A-Za-z][A-Za-z'’-]*(?: +[A-Za-z][A-Za-z'’-]*)+")


def prose_of(page: str, form: str) -> list[str]:
    """What the report says itself: not what is code, nor lines set off to be copied."""
    if form == "html":
        return Texts(page).texts
    if form == "markdown":
        # The second and each further fence holds lines to copy; the first the figures of the budget.
        return [line for place, part in enumerate(page.split("```")) if place % 2 == 0 or place == 1 for line in
                part.splitlines()]  # fmt: skip
    return [line for line in page.splitlines() if not line.startswith("      ")]


@pytest.mark.parametrize("form", ["html", "markdown", "terminal"])
@pytest.mark.parametrize("name", NAMES)
def test_no_english_is_left(name: str, form: str) -> None:
    page = in_chinese(name, form)
    assert form != "html" or '<html lang="zh-Hans">' in page
    quoted = words_of(evidence(name))
    left = {
        found
        for text in prose_of(page, form)
        if text.strip() not in to_copy(_diagnosis(name))
        for found in PHRASE.findall(QUOTED_WORDS.sub("·", text))
        if words_of(found) not in quoted
    } - NAMES_OF_THINGS
    assert not left


@pytest.mark.parametrize("form", ["html", "markdown", "terminal"])
@pytest.mark.parametrize("name", NAMES)
def test_no_blank_stands_beside_a_chinese_mark(name: str, form: str) -> None:
    aligned = re.compile(r" {2}|[█░]")
    found = [
        text[max(0, at.start() - 20) : at.end() + 20]
        for text in prose_of(in_chinese(name, form), form)
        if not aligned.search(text.strip())
        for at in re.finditer(
            r"[，。；：、！？] +[^\s*`·→]|[^\s*`·] +[，。；：、！？]|\d bytes", text.replace("\xa0", " ")
        )
    ]
    assert found == []


@cache
def in_chinese(name: str, form: str) -> str:
    with speaking("zh"):
        return render(_diagnosis(name), form)


@cache
def _diagnosis(name: str) -> Diagnosis:
    return without_english_rules(diagnose([SAMPLES / name]))


def to_copy(diagnosis: Diagnosis) -> set[str]:
    """As they are shown: what the reader is to fill in is told in Chinese."""
    with speaking("zh"):
        return {
            in_place(line)
            for finding in diagnosis.findings
            for each in finding.remedies
            if each.set
            for line in each.set.lines
        }


def words_of(text: str) -> str:
    return " ".join(re.sub(r"[^A-Za-z'’-]+", " ", text).split())


@pytest.mark.parametrize("name", NAMES)
def test_a_terminal_of_80_columns_holds_it(name: str) -> None:
    with speaking("zh"):
        diagnosis = diagnose([SAMPLES / name])
        lines = render(diagnosis, "terminal").splitlines()
    collected = [each.how_to_get_it for each in view_report(diagnosis).missing]
    wide = [line.strip() for line in lines if cells(line) > 80 and line.strip() not in to_copy(diagnosis)]
    assert [line for line in wide if not any(line in told for told in collected)] == []


def test_numbers_and_the_fingerprint_are_those_of_the_english_report() -> None:
    for name in ("fragmentation", "run-kept-losses"):
        english = diagnose([SAMPLES / name], now_seconds=0.0)
        with speaking("zh"):
            chinese = diagnose([SAMPLES / name], now_seconds=0.0)
        assert chinese.fingerprint == english.fingerprint
        assert [(key, fact.value) for key, fact in chinese.facts.items()] == [
            (key, fact.value) for key, fact in english.facts.items()
        ]
        assert [budget.parts for budget in chinese.budgets] == [budget.parts for budget in english.budgets]


@pytest.mark.parametrize("word", words_of_sets(REGISTRY.values()))
def test_a_value_of_a_named_set_is_chinese(word: str) -> None:
    with speaking("zh"):
        shown = {format_value(word, "name"), fill_value(word, ValueType(Kind.NAME))}
    assert len(shown) == 1
    assert word in STAY or re.search("[\u4e00-\u9fff]", shown.pop())
