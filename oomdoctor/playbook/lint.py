"""What is wrong, or only doubtful, in a playbook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..errors import RuleError
from ..knobs.document import Place, did_you_mean
from ..knobs.load import Knob, Knobs, load_knobs
from .cases import case_facts
from .load import Playbook
from .rule import KnobValue, Rule, RuleRemedy
from .translations import bare, faults_of

_ALWAYS_SHOWN = ("oom.requested_bytes", "oom.total_bytes", "oom.free_bytes")
"""Facts that nearly every report holds; a text may show them without a condition on them."""


@dataclass(frozen=True)
class Problem:
    """An error (the rule cannot be used as it is) or a warning, at a place."""

    severity: str
    """'error' or 'warning'."""
    message: str
    path: str
    line: int | None
    column: int | None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.path, self.line, self.column) if part is not None)
        return f"{place}: {self.severity}: {self.message}"


def lint(playbook: Playbook, knobs: Knobs | None = None) -> tuple[Problem, ...]:
    """Everything found, in the order of the files: faults of loading first."""
    table = load_knobs() if knobs is None else knobs
    found = [Problem("error", fault.message, fault.path, fault.line, fault.column) for fault in playbook.problems]
    known = [rule.id for rule in playbook.rules]
    for rule in playbook.rules:
        found.extend(_masks(rule, known))
        found.extend(_cases(rule))
        found.extend(_texts(rule))
        found.extend(_translations(rule))
        for remedy in rule.remedies:
            found.extend(_remedy(rule, remedy, table))
    return tuple(found)


def _masks(rule: Rule, known: Iterable[str]) -> Iterator[Problem]:
    for other in rule.masks:
        if other == rule.id:
            yield _problem("error", f"{rule.id} masks itself", rule.place)
        elif other not in known:
            yield _problem("warning", f"{rule.id} masks {other}, which is not here", rule.place)


def _cases(rule: Rule) -> Iterator[Problem]:
    outcomes = {case.expect for case in rule.cases}
    if not rule.cases:
        yield _problem("warning", f"{rule.id} has no cases", rule.place)
        return
    for missing in ("no-match", "unknown"):
        if missing not in outcomes:
            yield _problem("warning", f"{rule.id} has no case that must be {missing}", rule.place)
    if not outcomes & {"confirmed", "likely", "possible"}:
        yield _problem("warning", f"{rule.id} has no case that matches", rule.place)
    for case in rule.cases:
        try:
            case_facts(case)
        except RuleError as fault:
            yield Problem("error", fault.message, fault.path, fault.line, fault.column)


def _texts(rule: Rule) -> Iterator[Problem]:
    """A fact that no condition needs may be unknown, and then the sentence says 'unknown'."""
    needed = {name for condition in rule.when for name in condition.names}.union(_ALWAYS_SHOWN)
    texts = [("explain", rule.explain), *((f"do of {remedy.id}", remedy.do) for remedy in rule.remedies)]
    texts.extend((f"why of {item.what!r}", item.why) for item in rule.not_remedies)
    for where, template in texts:
        doubtful = dict.fromkeys(name for part in bare(template) for name in part.names if name not in needed)
        if doubtful:
            message = f"{where} shows {', '.join(doubtful)}, which 'when' does not need; use [[ … ]]"
            yield _problem("warning", message, rule.place)


def _translations(rule: Rule) -> Iterator[Problem]:
    """A language that is begun is whole, and shows what the English texts show."""
    for language in rule.translations:
        for fault in faults_of(rule, language):
            yield _problem("error", f"{language}: {fault.message}", fault.place)


def _remedy(rule: Rule, remedy: RuleRemedy, knobs: Knobs) -> Iterator[Problem]:
    if not remedy.source:
        yield _problem("warning", f"the remedy {remedy.id!r} of {rule.id} has no source", remedy.place)
    if remedy.set is None:
        return
    knob = knobs.get(remedy.set.knob)
    if knob is None:
        message = f"there is no knob {remedy.set.knob!r}{did_you_mean(remedy.set.knob, knobs)}"
        yield _problem("error", message, remedy.set.place)
    elif refusal := _value(knob, remedy.set):
        yield _problem("error", f"{knob.id}: {refusal}", remedy.set.place)


def _value(knob: Knob, wanted: KnobValue) -> str | None:
    """Why a value written in full cannot be; one computed from facts is checked when it is known."""
    written = wanted.value.outline()
    if knob.takes == "switch":
        return None if written in ("", "True") else f"it is a switch and takes no value, not {written!r}"
    if not written:
        return f"it takes one of {', '.join(knob.choices[-1].values)}" if knob.choices else None
    return None if wanted.value.names else knob.refusal(written, None)


def _problem(severity: str, message: str, place: Place) -> Problem:
    return Problem(severity, message, place.path, place.line, place.column)
