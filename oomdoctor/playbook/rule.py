"""A rule as loaded: conditions, texts and settings, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..knobs.document import Place
from ..model.diagnosis import Effect
from ..model.facts import FactValue, Scope
from .expression import Expression
from .template import Template


@dataclass(frozen=True)
class KnobValue:
    """A setting that a remedy asks for: a knob and its value, which may hold facts; empty leaves it to the reader.

    `go`: what helps is less ('down') or more ('up') than what is set now; where the value is not, it goes a step on.
    """

    knob: str
    value: Template
    place: Place
    go: str = ""


@dataclass(frozen=True)
class RuleRemedy:
    """One change. `applies`: only where it is not false. `enough` overrules the comparison with the shortfall."""

    id: str
    do: Template
    cost: str
    source: str
    place: Place
    applies: Expression | None = None
    set: KnobValue | None = None
    frees: Expression | None = None
    effect: Effect = Effect.FREES
    enough: Expression | None = None


@dataclass(frozen=True)
class RuleNotRemedy:
    """What people try in vain, and why it is in vain."""

    what: str
    why: Template
    applies: Expression | None = None


@dataclass(frozen=True)
class RuleToConfirm:
    """Evidence that would settle the matter."""

    what: str
    command: str


@dataclass(frozen=True)
class Translation:
    """The texts of a rule in another language. What is not translated is None or not there."""

    place: Place | None = None
    places: Mapping[str, Place] = field(default_factory=dict)
    """Where each text stands, by its name in `translations.texts_of`."""
    title: str | None = None
    explain: Template | None = None
    owner: Template | None = None
    do: Mapping[str, Template] = field(default_factory=dict)
    """By id of the remedy."""
    cost: Mapping[str, str] = field(default_factory=dict)
    not_remedies: tuple[RuleNotRemedy, ...] = ()
    """In the order of the rule's own."""
    to_confirm: tuple[RuleToConfirm, ...] = ()


@dataclass(frozen=True)
class Case:
    """Facts and the outcome they must have: a confidence, 'no-match' or 'unknown'."""

    name: str
    expect: str
    facts: Mapping[str, FactValue]
    """By `name` or `name@member`."""
    place: Place
    frees: Mapping[str, int | None] = field(default_factory=dict)
    """What remedies, by their ids, must be worth in bytes; None: not known."""


@dataclass(frozen=True)
class Rule:
    """One rule. All of `when` must be true; the other lists need one each."""

    id: str
    cause: str
    title: str
    scope: Scope
    when: tuple[Expression, ...]
    explain: Template
    place: Place
    supports: tuple[Expression, ...] = ()
    confirms: tuple[Expression, ...] = ()
    excludes: tuple[Expression, ...] = ()
    masks: tuple[str, ...] = ()
    owner: Template | None = None
    explains: Expression | None = None
    degraded: Expression | None = None
    remedies: tuple[RuleRemedy, ...] = ()
    not_remedies: tuple[RuleNotRemedy, ...] = ()
    to_confirm: tuple[RuleToConfirm, ...] = ()
    translations: Mapping[str, Translation] = field(default_factory=dict)
    cases: tuple[Case, ...] = ()

    @property
    def conditions(self) -> tuple[tuple[str, Expression], ...]:
        """Every condition with the name of its list, in the order in which they are tried."""
        lists = (("when", self.when), ("excludes", self.excludes), ("confirms", self.confirms))
        return tuple((role, item) for role, items in (*lists, ("supports", self.supports)) for item in items)
