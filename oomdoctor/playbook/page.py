"""A rule as a page for people: what `oomdoctor explain` prints and docs/playbook/ holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..facts.registry import REGISTRY
from ..knobs.load import SYSTEMS, load_knobs
from ..language import N_, _, chosen
from ..model.diagnosis import Effect
from ..model.facts import Scope
from .causes import FAMILY_OF, MEANING_OF
from .rule import Rule, RuleRemedy, Translation
from .terms import merged

_LISTS = (
    ("when", N_("All of these must hold")),
    ("supports", N_("Any of these makes it likely")),
    ("confirms", N_("Any of these confirms it")),
    ("excludes", N_("Any of these rules it out")),
)


_SCOPES = {
    Scope.INCIDENT: N_("the whole incident"),
    Scope.DEVICE: N_("each device"),
    Scope.RANK: N_("each rank"),
    Scope.PROCESS: N_("each process"),
}


_EFFECTS = {
    Effect.FREES: N_("frees {size}"),
    Effect.SPARES: N_("needs {size} less"),
    Effect.GIVES_THE_POOL: N_("gives the pool {size} more"),
    Effect.ALLOWS: N_("allows {size} more"),
    Effect.JOINS: N_("makes {size} of what is reserved usable"),
    Effect.LEAVES: N_("leaves {size} to others"),
}


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


def title_of(rule: Rule) -> str:
    """The rule's title in the language in use, in English where it has no other."""
    return rule.translations.get(chosen(), Translation()).title or rule.title


def page_of(rule: Rule) -> Page:
    """The page of one rule; facts in its texts stand as ‹name›."""
    words = rule.translations.get(chosen(), Translation())
    return Page(
        rule.id,
        title_of(rule),
        f"{rule.cause} ({FAMILY_OF[rule.cause]}): {_(MEANING_OF[rule.cause])}",
        _(_SCOPES[rule.scope]),
        tuple(section for section in _sections(rule, words) if section.text or section.items),
    )


def _sections(rule: Rule, words: Translation) -> Iterator[Section]:
    yield Section(_("What it means"), (words.explain or rule.explain).outline())
    for name, title in _LISTS:
        yield Section(_(title), items=tuple(Item("", code=condition.text) for condition in getattr(rule, name)))
    names = merged(*(condition.names for _role, condition in rule.conditions))
    facts = tuple(Item(f"{name} ({REGISTRY[name].type.value}): {_(REGISTRY[name].meaning)}") for name in names)
    yield Section(_("The facts it asks for"), items=facts)
    remedies = tuple(_remedy(remedy, words) for remedy in rule.remedies)
    yield Section(_("What helps"), items=remedies, numbered=True)
    not_remedies = words.not_remedies or rule.not_remedies
    in_vain = tuple(Item(_("{what}: {why}").format(what=each.what, why=each.why.outline())) for each in not_remedies)
    yield Section(_("What does not help"), items=in_vain)
    to_confirm = words.to_confirm or rule.to_confirm
    yield Section(_("How to be sure"), items=tuple(Item(item.what, code=item.command) for item in to_confirm))
    if rule.masks:
        codes = ", ".join(rule.masks)
        yield Section(_("It comes before"), _("{codes}: these show only its symptoms").format(codes=codes))


def _remedy(remedy: RuleRemedy, words: Translation) -> Item:
    settings: list[str] = []
    remarks = [_("where {condition}").format(condition=remedy.applies.text)] if remedy.applies else []
    if remedy.set and remedy.set.knob in load_knobs():
        knob = load_knobs()[remedy.set.knob]
        for spelling in knob.spellings:
            span = f"   ({knob.framework} {spelling.versions})" if spelling.versions else ""
            span = f"   ({_(SYSTEMS[spelling.system])})" if spelling.system else span
            settings.extend(line + span for line in spelling.lines(remedy.set.value.outline() or "<N>"))
        remarks += [_(knob.note)] if knob.note else []
    cost = words.cost.get(remedy.id, remedy.cost)
    if remedy.frees:
        remarks.append(_(_EFFECTS[remedy.effect]).format(size=f"‹{remedy.frees.text}›"))
    remarks += [_("cost: {cost}").format(cost=cost)] if cost else []
    remarks += [_("source: {source}").format(source=remedy.source)] if remedy.source else []
    return Item(words.do.get(remedy.id, remedy.do).outline(), tuple(settings), tuple(remarks))
