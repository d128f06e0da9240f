"""A rule as a page for people: what `oomdoctor explain` prints and docs/playbook/ holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..facts.registry import REGISTRY
from ..knobs.load import load_knobs
from ..model.facts import Scope
from .causes import FAMILY_OF, MEANING_OF
from .rule import Rule, RuleRemedy
from .terms import merged

_LISTS = (
    ("when", "All of these must hold"),
    ("supports", "Any of these makes it likely"),
    ("confirms", "Any of these confirms it"),
    ("excludes", "Any of these rules it out"),
)


@dataclass(frozen=True)
class Item:
    """One point of a section."""

    text: str
    settings: tuple[str, ...] = ()
    """Lines to copy, each with the versions in which it holds."""
    remarks: tuple[str, ...] = ()
    code: str = ""
    """A condition or a command that belongs to the text."""


@dataclass(frozen=True)
class Section:
    """A heading with a paragraph or with points."""

    title: str
    text: str = ""
    items: tuple[Item, ...] = ()
    numbered: bool = False


@dataclass(frozen=True)
class Page:
    """All there is to say about a rule."""

    code: str
    title: str
    cause: str
    """`kv-pool-zero (kv-cache): Nothing is left …`"""
    scope: str
    sections: tuple[Section, ...]


def page_of(rule: Rule) -> Page:
    """The page of one rule; facts in its texts stand as ‹name›."""
    whole = "the whole incident" if rule.scope is Scope.INCIDENT else f"each {rule.scope.value}"
    return Page(
        rule.id,
        rule.title,
        f"{rule.cause} ({FAMILY_OF[rule.cause]}): {MEANING_OF[rule.cause]}",
        whole,
        tuple(section for section in _sections(rule) if section.text or section.items),
    )


def _sections(rule: Rule) -> Iterator[Section]:
    yield Section("What it means", rule.explain.outline())
    for name, title in _LISTS:
        yield Section(title, items=tuple(Item("", code=condition.text) for condition in getattr(rule, name)))
    names = merged(*(condition.names for _, condition in rule.conditions))
    facts = tuple(Item(f"{name} ({REGISTRY[name].type.value}): {REGISTRY[name].meaning}") for name in names)
    yield Section("The facts it asks for", items=facts)
    yield Section("What helps", items=tuple(map(_remedy, rule.remedies)), numbered=True)
    in_vain = tuple(Item(f"{item.what}: {item.why.outline()}") for item in rule.not_remedies)
    yield Section("What does not help", items=in_vain)
    yield Section("How to be sure", items=tuple(Item(item.what, code=item.command) for item in rule.to_confirm))
    if rule.masks:
        yield Section("It comes before", f"{', '.join(rule.masks)}: these show only its symptoms")


def _remedy(remedy: RuleRemedy) -> Item:
    settings: list[str] = []
    remarks = [f"where {remedy.applies.text}"] if remedy.applies else []
    if remedy.set and remedy.set.knob in load_knobs():
        knob = load_knobs()[remedy.set.knob]
        for spelling in knob.spellings:
            span = f"   ({knob.framework} {spelling.versions})" if spelling.versions else ""
            settings.extend(line + span for line in spelling.lines(remedy.set.value.outline()))
        remarks += [knob.note] if knob.note else []
    remarks += [f"frees ‹{remedy.frees.text}›"] if remedy.frees else []
    remarks += [f"cost: {remedy.cost}"] if remedy.cost else []
    remarks += [f"source: {remedy.source}"] if remedy.source else []
    return Item(remedy.do.outline(), tuple(settings), tuple(remarks))
