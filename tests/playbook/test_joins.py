"""GIVEN texts of rules WHEN optional parts are left out or shown THEN sentences stand apart, in each language."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from oomdoctor.language import speaking, tidy
from oomdoctor.playbook.load import load_playbook
from oomdoctor.playbook.rule import Rule
from oomdoctor.playbook.template import Template

JOINED = re.compile(r"[a-z0-9›)\]'`][.;,!?][A-Z‹(]| [.,;!?](?=\s|$)| {2}")
JOINED_CHINESE = re.compile(r"[，。；：、！？] | [，。；：、！？）]| {2}|[，。；：、][，。；：、]")
CODE = re.compile(r"`[^`]*`|\S+[/=(]\S*|\b(?:torch|nn|optim|cuda)\.\S+")


def texts(rule: Rule) -> Iterator[tuple[str, Template]]:
    for language, words in (("en", None), *rule.translations.items()):
        told = rule if words is None else words
        yield language, told.explain
        for each in told.not_remedies:
            yield language, each.why
        if told.owner is not None:
            yield language, told.owner
        for each in rule.remedies if words is None else words.do.values():
            yield language, each.do if words is None else each


def variants(template: Template) -> Iterator[str]:
    """With all that may be left out, with none of it, and with each by itself."""
    optional = [part for part in template.parts if isinstance(part, Template)]
    for kept in (optional, [], *([part] for part in optional)):
        yield template._join(lambda part: f"‹{part.text}›", lambda part, kept=kept: part in kept).strip()  # type: ignore[misc]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_sentence_runs_into_the_next(language: str) -> None:
    joined = JOINED if language == "en" else JOINED_CHINESE
    with speaking(language):
        found = set(_found(language, joined))
    assert sorted(found) == []


def _found(language: str, joined: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    for rule in load_playbook().rules:
        for of, template in texts(rule):
            for text in variants(template) if of == language and template is not None else ():
                told = CODE.sub("code", tidy(text))
                yield from ((rule.id, told[max(0, at.start() - 20) : at.end() + 20]) for at in joined.finditer(told))
