"""Rule files to rules. A broken file is a problem with its place; the others still work."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import RuleError
from ..facts.registry import REGISTRY
from ..knobs.document import Node, Scalar, Section, as_scalar, as_section, did_you_mean, read_document
from ..language import ENGLISH, LANGUAGES
from ..model.diagnosis import Effect
from ..model.facts import FactSpec, FactType, FactValue, Scope
from ..model.units import parse_size
from .causes import FAMILY_OF
from .expression import Expression, parse_condition, parse_expression
from .prepared import prepared_rules
from .quantity import BYTES, ValueType
from .rule import Case, KnobValue, Rule, RuleNotRemedy, RuleRemedy, RuleToConfirm, Translation
from .template import Template, parse_template

RULES_VARIABLE = "OOMDOCTOR_RULES"
TRANSLATED = tuple(language for language in LANGUAGES if language != ENGLISH)
"""The languages that a rule can have texts in, besides its own."""
OUTCOMES = ("confirmed", "likely", "possible", "no-match", "unknown")
_ID = re.compile(r"[A-Z]{2,5}[0-9]{3}")
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


@dataclass(frozen=True)
class Playbook:
    """The rules that could be loaded, in the order of their files, and what was wrong with the others."""

    rules: tuple[Rule, ...]
    problems: tuple[RuleError, ...] = ()

    def find(self, rule_id: str) -> Rule | None:
        """The rule with this id."""
        return next((rule for rule in self.rules if rule.id == rule_id), None)


def default_rules_directory() -> Path:
    """The rules shipped with oomdoctor: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "rules"
    return inside if inside.is_dir() else package.parent / "rules"


def rule_directories(extra: Sequence[Path | str] = ()) -> tuple[Path, ...]:
    """The shipped rules, then those of `extra` (--rules), then those that OOMDOCTOR_RULES lists, ':' between.

    A directory named twice, also by another path, is read once.
    """
    listed = [part for part in os.environ.get(RULES_VARIABLE, "").split(os.pathsep) if part]
    named = [Path(directory).resolve() for directory in (*extra, *listed)]
    return tuple(dict.fromkeys([default_rules_directory(), *named]))


def load_playbook(directories: Iterable[Path] | None = None, *, without: Collection[str] = ()) -> Playbook:
    """The rules in these directories (the shipped ones where none are given), with the problems found.

    Never raises for a fault in a rule or a directory that is not there: those become problems. `without` names
    optional parts of a rule that are not wanted (`cases`, a language): about half of the reading.
    """
    rules: dict[str, Rule] = {}
    problems: list[RuleError] = []
    for directory in rule_directories() if directories is None else directories:
        paths = rule_files(directory)
        if not rules and directory == default_rules_directory():
            prepared = prepared_rules(directory, paths, without)
            if prepared is not None:
                rules.update((rule.id, rule) for rule in prepared)
                continue
        if not paths:
            problems.append(RuleError("there are no rules (*.yaml) here, nor one level below", directory))
        for path in paths:
            try:
                rule = load_rule(path, without)
                if rule.id in rules:
                    rule.place.refuse(f"the id {rule.id} is taken by {rules[rule.id].place.path}")
                rules[rule.id] = rule
            except RuleError as problem:
                problems.append(problem)
    return Playbook(tuple(rules.values()), tuple(problems))


def rule_files(directory: Path) -> list[Path]:
    """The files that hold a rule each: those in the directory and one level below."""
    return sorted(
        path for pattern in ("*", "*/*") for end in ("yaml", "yml") for path in directory.glob(f"{pattern}.{end}")
    )


def load_rule(path: Path, without: Collection[str] = ()) -> Rule:
    """The rule in a file, less the optional parts in `without`. Raises RuleError at the place of the first fault."""
    return read_rule(read_document(path, without))


def read_rule(document: Section, specs: Mapping[str, FactSpec] = REGISTRY) -> Rule:
    """The rule that a document holds. Raises RuleError at the place of the first fault."""
    return _RuleReader(document, specs).rule()


_KEYS = (
    *("id", "cause", "title", "scope", "when", "supports", "confirms", "excludes", "masks", "explain", "owner"),
    *("explains", "degraded", "remedies", "not_remedies", "to_confirm", "cases", *TRANSLATED),
)


class _RuleReader:
    def __init__(self, document: Section, specs: Mapping[str, FactSpec]) -> None:
        self.document, self.specs = document.only(_KEYS, "a rule"), specs
        self.scope = Scope(self._word("scope", [scope.value for scope in Scope], Scope.INCIDENT.value))

    def rule(self) -> Rule:
        document = self.document
        when = self._conditions("when")
        if not when:
            document.place.refuse("'when' needs at least one condition")
        remedies = tuple(self._remedy(as_section(item)) for item in document.sequence("remedies"))
        _unique(remedies)
        not_remedies = tuple(self._not_remedy(as_section(item)) for item in document.sequence("not_remedies"))
        to_confirm = tuple(self._to_confirm(as_section(item)) for item in document.sequence("to_confirm"))
        return Rule(
            id=self._id(),
            cause=self._word("cause", list(FAMILY_OF)),
            title=" ".join(document.text("title").split()),
            scope=self.scope,
            when=when,
            supports=self._conditions("supports"),
            confirms=self._conditions("confirms"),
            excludes=self._conditions("excludes"),
            masks=document.texts("masks"),
            explain=self._required_template(document, "explain"),
            owner=self._template(document, "owner"),
            explains=self._quantity(document, "explains", BYTES),
            degraded=self._condition(document, "degraded"),
            remedies=remedies,
            not_remedies=not_remedies,
            to_confirm=to_confirm,
            translations={
                language: self._translation(
                    found, {"remedies": remedies, "not_remedies": not_remedies, "to_confirm": to_confirm}
                )
                for language in TRANSLATED
                if (found := document.section(language)) is not None
            },
            cases=tuple(
                self._case(as_section(item), number) for number, item in enumerate(document.sequence("cases"), 1)
            ),
            place=document.places["id"],
        )

    def _id(self) -> str:
        found = self.document.text("id")
        if not _ID.fullmatch(found):
            self.document.entries["id"].place.refuse(f"an id is letters and three digits, like FRG001; not {found!r}")
        return found

    def _word(self, key: str, known: Sequence[str], default: str | None = None) -> str:
        found = self.document.text(key, default)
        if found not in known:
            self.document.entries[key].place.refuse(f"there is no {key} {found!r}{did_you_mean(found, known)}")
        return found

    def _conditions(self, key: str) -> tuple[Expression, ...]:
        items = self.document.sequence(key)
        return tuple(parse_condition(as_scalar(item), self.scope, self.specs) for item in items)

    def _condition(self, section: Section, key: str) -> Expression | None:
        found = section.scalar(key)
        if found is None:
            return None
        if found.text.strip() in ("true", "false"):
            found = Scalar(found.text.strip().title(), found.place, found.raw)
        return parse_condition(found, self.scope, self.specs)

    def _quantity(self, section: Section, key: str, wanted: ValueType) -> Expression | None:
        found = section.scalar(key)
        if found is None:
            return None
        expression = parse_expression(found, self.scope, self.specs)
        if expression.type.exponents != wanted.exponents and not expression.type.zero:
            expression.place.refuse(f"{key!r} is {wanted}; this is {expression.type}")
        return expression

    def _template(self, section: Section, key: str) -> Template | None:
        found = section.scalar(key)
        return None if found is None else parse_template(found, self.scope, self.specs)

    def _required_template(self, section: Section, key: str) -> Template:
        found = self._template(section, key)
        if found is None:
            section.place.refuse(f"{key!r} is missing")
        return found

    def _remedy(self, section: Section) -> RuleRemedy:
        section.only(("id", "applies", "do", "set", "frees", "effect", "enough", "cost", "source"), "a remedy")
        name = section.text("id")
        if not _NAME.fullmatch(name):
            section.entries["id"].place.refuse(f"an id of a remedy is words-joined-by-hyphens; not {name!r}")
        return RuleRemedy(
            id=name,
            do=self._required_template(section, "do"),
            cost=" ".join(section.text("cost", "").split()),
            source=section.text("source", ""),
            place=section.place,
            applies=self._condition(section, "applies"),
            set=self._knob_value(section.section("set")),
            frees=self._quantity(section, "frees", BYTES),
            effect=self._effect(section),
            enough=self._condition(section, "enough"),
        )

    def _effect(self, section: Section) -> Effect:
        word, known = section.text("effect", Effect.FREES.value), [effect.value for effect in Effect]
        if word not in known:
            section.entries["effect"].place.refuse(f"'effect' is one of {', '.join(known)}; not {word!r}")
        effect = Effect(word)
        if effect in (Effect.COUNTS, Effect.FINDS_OUT) and "frees" in section.entries:
            section.entries["effect"].place.refuse(f"what {word} has no bytes; leave 'frees' out")
        return effect

    def _knob_value(self, section: Section | None) -> KnobValue | None:
        if section is None:
            return None
        section.only(("knob", "value", "go"), "a setting")
        go = section.text("go", "")
        if go not in ("", "down", "up"):
            section.entries["go"].place.refuse(f"'go' is down or up; not {go!r}")
        value = section.entries.get("value")
        empty = isinstance(value, Scalar) and not value.text.strip()
        template = None if empty else self._template(section, "value")
        return KnobValue(section.text("knob"), template or Template(()), section.place, go)

    def _not_remedy(self, section: Section) -> RuleNotRemedy:
        section.only(("what", "why", "applies"), "what does not help")
        what = " ".join(section.text("what").split())
        return RuleNotRemedy(what, self._required_template(section, "why"), self._condition(section, "applies"))

    def _to_confirm(self, section: Section) -> RuleToConfirm:
        section.only(("what", "command"), "evidence to collect")
        return RuleToConfirm(" ".join(section.text("what").split()), section.text("command", ""))

    def _translation(self, section: Section, rule: Mapping[str, Sequence[object]]) -> Translation:
        section.only(("title", "explain", "owner", "remedies", "not_remedies", "to_confirm"), "a translation")
        places = {key: section.entries[key].place for key in ("title", "explain", "owner") if key in section.entries}
        do: dict[str, Template] = {}
        cost: dict[str, str] = {}
        known = [remedy.id for remedy in rule["remedies"] if isinstance(remedy, RuleRemedy)]
        translated = section.section("remedies")
        for key, node in (translated.entries if translated else {}).items():
            if translated and key not in known:
                translated.places[key].refuse(f"the rule has no remedy {key!r}{did_you_mean(key, known)}")
            entry = as_section(node).only(("do", "cost"), "a translated remedy")
            if found := self._template(entry, "do"):
                do[key] = found
            if "cost" in entry.entries:
                cost[key] = " ".join(entry.text("cost").split())
            places |= {f"{name} of {key}": part.place for name, part in entry.entries.items()}
        for key, names in (("not_remedies", ("what", "why")), ("to_confirm", ("what", "command"))):
            for number, item in enumerate(_parallel(section, key, len(rule[key])), 1):
                item.only(names, f"a translation of {key}")
                places |= {f"{name} of {key} {number}": part.place for name, part in item.entries.items()}
        commands = [item.command for item in rule["to_confirm"] if isinstance(item, RuleToConfirm)]
        confirm = map(self._to_confirm, _parallel(section, "to_confirm", len(commands)))
        return Translation(
            place=section.place,
            places=places,
            title=" ".join(section.text("title", "").split()) or None,
            explain=self._template(section, "explain"),
            owner=self._template(section, "owner"),
            do=do,
            cost=cost,
            not_remedies=tuple(map(self._not_remedy, _parallel(section, "not_remedies", len(rule["not_remedies"])))),
            to_confirm=tuple(
                RuleToConfirm(item.what, item.command or command)
                for item, command in zip(confirm, commands, strict=False)
            ),
        )

    def _case(self, section: Section, number: int) -> Case:
        section.only(("name", "expect", "facts", "frees"), "a case")
        expect = section.text("expect")
        if expect not in OUTCOMES:
            section.entries["expect"].place.refuse(f"the outcome is one of {', '.join(OUTCOMES)}; not {expect!r}")
        facts = section.section("facts")
        values: dict[str, FactValue] = {}
        for key, node in (facts.entries if facts else {}).items():
            spec = self.specs.get(key.partition("@")[0])
            if spec is None and facts:
                facts.places[key].refuse(f"there is no fact {key!r}{did_you_mean(key, self.specs)}")
            if spec is not None:
                values[key] = read_fact(as_scalar(node), spec)
        freed = section.section("frees")
        frees = {key: _size_of(as_scalar(node)) for key, node in (freed.entries if freed else {}).items()}
        return Case(section.text("name", f"case {number}"), expect, values, section.place, frees)


def _size_of(scalar: Scalar) -> int | None:
    """A size as a case writes it; `unknown` is None. Raises RuleError otherwise."""
    if scalar.text.strip() == "unknown":
        return None
    try:
        return parse_size(scalar.text.strip().replace("_", ""))
    except ValueError:
        scalar.place.refuse(f"{scalar.text!r} is no size")


def read_fact(scalar: Scalar, spec: FactSpec) -> FactValue:
    """The value of a fact as a case writes it: `8 GiB`, 1024, 0.9, true, a name. Raises RuleError otherwise."""
    text = scalar.text.strip()
    if spec.type is FactType.FLAG:
        return scalar.flag()
    if spec.names and text not in spec.names:
        scalar.place.refuse(f"{spec.name} is one of {', '.join(spec.names)}; not {text!r}")
    try:
        if spec.type is FactType.BYTES:
            return parse_size(text.replace("_", ""))
        if spec.type is FactType.TOKENS:
            return int(text.replace(",", ""))
        if spec.type in (FactType.SECONDS, FactType.RATIO, FactType.COUNT):
            number = float(text.replace(",", ""))
            return int(number) if number.is_integer() else number
    except (ValueError, OverflowError):
        scalar.place.refuse(f"{spec.name} is of type {spec.type.value}; {text!r} is not")
    return text


def _parallel(section: Section, key: str, count: int) -> list[Section]:
    """Translations of a list stand in its order, so they are as many."""
    items: tuple[Node, ...] = section.sequence(key)
    if items and len(items) != count:
        section.entries[key].place.refuse(f"the rule has {count} {key}; here are {len(items)}")
    return [as_section(item) for item in items]


def _unique(remedies: Sequence[RuleRemedy]) -> None:
    seen: set[str] = set()
    for remedy in remedies:
        if remedy.id in seen:
            remedy.place.refuse(f"the remedy {remedy.id!r} stands here twice")
        seen.add(remedy.id)
