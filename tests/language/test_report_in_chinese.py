"""GIVEN a sample WHEN its report is made in Chinese THEN English stands in it only where the evidence is quoted."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from english import ENGLISH, Texts

from oomdoctor.diagnose import diagnose
from oomdoctor.language import speaking
from oomdoctor.language.wrapping import cells
from oomdoctor.model.diagnosis import Diagnosis, Finding
from oomdoctor.playbook.load import load_playbook
from oomdoctor.report import render

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"
NAMES = sorted(path.name for path in SAMPLES.iterdir() if path.name != "README.md")
NAMES_OF_THINGS = {"PSI full avg"}


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


@pytest.mark.parametrize("name", NAMES)
def test_no_english_is_left(name: str) -> None:
    with speaking("zh"):
        page = render(without_english_rules(diagnose([SAMPLES / name])), "html")
    assert '<html lang="zh-Hans">' in page
    quoted = " ".join(re.sub(r"[^A-Za-z'’-]+", " ", evidence(name)).split())
    left = {
        found
        for text in Texts(page).texts
        for found in ENGLISH.findall(text)
        if " ".join(re.sub(r"[^A-Za-z'’-]+", " ", found).split()) not in quoted
    } - NAMES_OF_THINGS
    assert not left


@pytest.mark.parametrize("name", NAMES)
def test_a_terminal_of_80_columns_holds_it(name: str) -> None:
    with speaking("zh"):
        diagnosis = diagnose([SAMPLES / name])
        lines = render(diagnosis, "terminal").splitlines()
    to_copy = {
        line for finding in diagnosis.findings for each in finding.remedies if each.set for line in each.set.lines
    }
    assert [line for line in lines if cells(line) > 80 and line.strip() not in to_copy] == []


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
