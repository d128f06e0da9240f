"""GIVEN a log of several failures WHEN it is diagnosed THEN every sentence speaks of one; the others have theirs."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest

from oomdoctor.facts.focus import focus, others
from oomdoctor.language import speaking
from oomdoctor.model.diagnosis import Diagnosis, Verdict
from oomdoctor.report import render
from oomdoctor.report.view import ReportView, view_report

from .asked import ask
from .mixtures import CAUGHT, FRAGMENTED, LATER_STEPS, MIXTURES, STEPS, TRAINING, Mixture, torch

every_mixture = pytest.mark.parametrize("name", MIXTURES)


@cache
def asked(name: str) -> Diagnosis:
    return ask(MIXTURES[name].log)


def first_screen(view: ReportView) -> str:
    """What is said of the failure that the report is about."""
    cause, change, budget = view.cause, view.change, view.budget
    said = [view.headline]
    said += [] if cause is None else [cause.title, cause.owner or "", *cause.explain]
    said += [] if change is None else [change.do, change.effect, *change.lines]
    said += [] if budget is None else [budget.where, budget.total, *(each.size for each in budget.segments)]
    return " ".join(said)


@every_mixture
def test_the_report_is_about_what_ended_it(name):
    mixture, found = MIXTURES[name], asked(name)
    assert mixture.ended in found.incidents[0].cause
    assert mixture.where in (None, found.incidents[0].where)
    if mixture.cause is not None:
        assert found.findings[0].cause == mixture.cause


@every_mixture
def test_nothing_of_the_first_screen_is_of_another_failure(name):
    said = first_screen(view_report(asked(name))).lower()
    assert [word for word in MIXTURES[name].never if word.lower() in said] == []


@every_mixture
def test_the_others_are_told_latest_first_with_their_own_cause(name):
    mixture, found = MIXTURES[name], asked(name)
    others_told = found.incidents[1:]
    assert [want in one.cause for want, one in zip(mixture.before, others_told, strict=True)] == [True] * len(
        others_told
    )
    for want, one in zip(mixture.causes_before, others_told, strict=False):
        assert one.explanation is not None
        assert one.explanation.cause == want
    assert all(one.verdict is not None for one in found.incidents)


@every_mixture
def test_every_finding_and_budget_is_of_a_place_of_the_failure(name):
    """Of another failure there is neither: what is scoped to a device is scoped to one that failed in it."""
    found = asked(name)
    places = {one.where for one in found.incidents}
    for finding in found.findings:
        assert finding.scope.get("device", found.incidents[0].where) in places
    for budget in found.budgets:
        assert budget.moment == ""


@every_mixture
def test_each_form_tells_of_them(name):
    found = asked(name)
    data = json.loads(render(found, "json"))
    assert [one["verdict"] for one in data["incidents"]] == [one.verdict.value for one in found.incidents]
    assert data["incidents"][0]["cause"] == found.incidents[0].cause
    if found.findings:
        assert data["incidents"][0]["diagnosis"]["rule"] == found.findings[0].rule
    headline = view_report(found).headline
    page = render(found, "html")
    text = re.sub(r"<[^>]+>", "", page.replace("&#39;", "'"))
    markdown = render(found, "markdown").replace("\\", "")
    for said in (text, markdown):
        assert headline.split(":")[0].rstrip(".") in said
        assert ("Another failure in the input:" in said) or ("Beside it" in said)
    assert page.count('id="incident-') == len(found.incidents)


@every_mixture
def test_in_chinese_no_sentence_is_left_in_english(name):
    with speaking("zh"):
        found = ask(MIXTURES[name].log)
        view = view_report(found)
    for text in (view.headline, view.lead, *(one.why for one in view.incidents)):
        assert re.search(r"[\u4e00-\u9fff]", text) or not text
        assert not re.search(r"\b(?:failure|cause|input|likely|confirmed)\b", text)


def test_a_failure_that_comes_first_but_is_the_latest_is_said_to_be_told_by_the_times():
    found = asked("the later of two stands first")
    assert any("told by the times" in note for note in found.notes)
    assert not any("told by the times" in note for note in asked("two hours apart, the same card").notes)


def test_the_same_failure_has_the_same_fingerprint_whatever_came_before():
    alone = ask(FRAGMENTED).fingerprint
    for before in (TRAINING + "$ python serve.py\n", STEPS + CAUGHT + LATER_STEPS):
        assert ask(before + FRAGMENTED).fingerprint == alone


def test_what_went_on_after_a_start_that_ended_does_not_hide_the_end():
    found = ask(FRAGMENTED + "$ python train.py\n" + STEPS + CAUGHT + LATER_STEPS + "Training complete.\n")
    assert found.verdict is Verdict.OUT_OF_MEMORY
    assert found.findings[0].cause == "fragmentation"
    assert found.incidents[1].verdict is Verdict.DEGRADED


def test_many_failures_are_told_in_bounded_time_and_counted():
    pieces = [torch(f"{2 + n / 8:.2f} GiB", f"{100 + n}.00 MiB", "37.00 GiB") for n in range(80)]
    found = ask("$ python serve.py\n".join(pieces))
    assert len(found.incidents) == 80
    assert sum(one.explanation is not None for one in found.incidents) <= 8
    said = re.findall(r"There are (\d+) such failures", found.summary)
    left = re.findall(r"The input holds (\d+) more failure", found.summary)
    assert sum(map(int, said + left)) == 79
    assert found.summary.count("Another failure in the input") <= 2


def test_failures_that_are_alike_are_told_once_with_their_number_and_lines():
    pieces = [torch(f"{2 + n / 8:.2f} GiB", f"{100 + n}.00 MiB", "37.00 GiB") for n in range(3)]
    found = ask("$ python serve.py\n".join(pieces))
    assert found.summary.count("Another failure in the input") == 1
    lines = sorted(int(one.source.split(":")[1].split()[0]) for one in found.incidents[1:])
    assert "There are 2 such failures: " in found.summary
    assert all(f":{line}" in found.summary for line in lines)


@every_mixture
def test_what_is_in_focus_stays_so(name):
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from oomdoctor.readers.inputs import read_inputs

    with TemporaryDirectory() as folder:
        path = Path(folder, "crash.log")
        path.write_text(MIXTURES[name].log, encoding="utf-8")
        evidence = read_inputs([path])
    assert focus(focus(evidence)) == focus(evidence)
    assert others(focus(evidence)) == ()


def test_the_mixtures_are_many():
    assert len(MIXTURES) >= 25
    assert all(isinstance(each, Mixture) for each in MIXTURES.values())
