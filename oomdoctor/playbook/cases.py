"""The cases that rules carry with them: facts and the outcome they must have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import RuleError
from ..facts.registry import REGISTRY
from ..model.diagnosis import Confidence
from ..model.facts import FactSet, Scope
from ..model.source import Source
from .evaluate import Outcome, RuleOutcome
from .match import finding_of, outcomes
from .rule import Case, Rule

DEFAULT_MEMBER = {Scope.DEVICE: "cuda:0", Scope.RANK: "rank:0", Scope.PROCESS: "pid:1"}
"""Whom a case speaks about when it writes a fact without `@member`."""


@dataclass(frozen=True)
class CaseResult:
    """What a case got, and the condition that decided it."""

    rule: Rule
    case: Case
    got: str
    why: str

    @property
    def passed(self) -> bool:
        """Whether that is what it must be."""
        return self.got == self.case.expect


def run_cases(rules: Iterable[Rule]) -> tuple[CaseResult, ...]:
    """Every case of every rule. Raises RuleError for facts that cannot be (a member in the incident's scope)."""
    return tuple(run_case(rule, case) for rule in rules for case in rule.cases)


def run_case(rule: Rule, case: Case) -> CaseResult:
    """One case. With several members, the surest match counts, then 'unknown'."""
    facts = case_facts(case)
    tried = sorted(outcomes(rule, facts), key=_strength)
    if not tried:
        return CaseResult(rule, case, "unknown", f"no fact is about one {rule.scope.value}")
    best = tried[0]
    if best.outcome is Outcome.MATCHED and case.frees and best.word == case.expect:
        worth = {remedy.id: remedy.frees_bytes for remedy in finding_of(best, facts).remedies}
        for name, wanted in case.frees.items():
            if name not in worth:
                return CaseResult(rule, case, f"{best.word}, without the remedy {name}", "")
            if worth[name] != wanted:
                return CaseResult(rule, case, f"{best.word}, and {name} is worth {worth[name]}", f"wanted: {wanted}")
    return CaseResult(rule, case, best.word, _why(best, facts))


def _why(outcome: RuleOutcome, facts: FactSet) -> str:
    step = outcome.decided_by
    if step is None:
        return ""
    missing = [name for name in step.condition.names if facts.find(name, outcome.member) is None]
    note = f" (not known: {', '.join(missing)})" if missing and step.value is None else ""
    return f"{step.role}: {step.condition.text}{note}"


def case_facts(case: Case) -> FactSet:
    """The facts of a case. Raises RuleError for a value or member that the registry refuses."""
    facts = FactSet(REGISTRY)
    source = Source(path=case.place.path, line=case.place.line, record=case.name)
    for key, value in case.facts.items():
        name, _, member = key.partition("@")
        try:
            facts.put(name, value, source, member or DEFAULT_MEMBER.get(REGISTRY[name].scope))
        except ValueError as error:
            raise RuleError(str(error), case.place.path, case.place.line, case.place.column) from error
    return facts


def _strength(outcome: RuleOutcome) -> int:
    if outcome.confidence is not None:
        return outcome.confidence.rank
    return len(Confidence) + (outcome.outcome is Outcome.NOT)
