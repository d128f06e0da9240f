"""One rule on one member: does it match, how surely, and which condition decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ..model.diagnosis import Confidence
from ..model.facts import FactSet, FactValue
from .expression import Expression
from .rule import Rule


class Outcome(str, Enum):
    """What became of a rule."""

    MATCHED = "matched"
    NOT = "not"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ConditionTrace:
    """A condition and the value it had; `role` is the list it stands in ('when', 'supports', …)."""

    role: str
    condition: Expression
    value: bool | None


@dataclass(frozen=True)
class RuleOutcome:
    """How a rule fared. `decided_by` is the condition without which the outcome would be another."""

    rule: Rule
    member: str | None
    outcome: Outcome
    confidence: Confidence | None
    decided_by: ConditionTrace | None
    trace: tuple[ConditionTrace, ...]
    """The conditions that were looked at, in order."""

    @property
    def word(self) -> str:
        """The outcome as a rule's cases write it."""
        if self.confidence is not None:
            return self.confidence.value
        return "no-match" if self.outcome is Outcome.NOT else "unknown"


def lookup_for(facts: FactSet, member: str | None) -> Callable[[str], FactValue | None]:
    """Values as one member sees them."""
    return lambda name: facts.value(name, member)


def evaluate_rule(rule: Rule, facts: FactSet, member: str | None = None) -> RuleOutcome:
    """Try a rule on a member of its scope (None for the incident).

    One false in `when`, or one true in `excludes`: no match. Else one unknown in `when`: unknown. Else the rule
    matches: 'confirmed' by a true one of `confirms`, 'likely' by one of `supports`, otherwise 'possible'.
    """
    lookup = lookup_for(facts, member)
    trace: list[ConditionTrace] = []
    unknown: ConditionTrace | None = None
    for condition in rule.when:
        trace.append(step := _try("when", condition, lookup))
        if step.value is False:
            return RuleOutcome(rule, member, Outcome.NOT, None, step, tuple(trace))
        if step.value is None and unknown is None:
            unknown = step
    for condition in rule.excludes:
        trace.append(step := _try("excludes", condition, lookup))
        if step.value:
            return RuleOutcome(rule, member, Outcome.NOT, None, step, tuple(trace))
    if unknown is not None:
        return RuleOutcome(rule, member, Outcome.UNKNOWN, None, unknown, tuple(trace))
    confidence, decided_by = Confidence.POSSIBLE, trace[len(rule.when) - 1]
    weights = (("supports", rule.supports, Confidence.LIKELY), ("confirms", rule.confirms, Confidence.CONFIRMED))
    for role, conditions, reached in weights:
        steps = [_try(role, condition, lookup) for condition in conditions]
        trace.extend(steps)
        first = next((step for step in steps if step.value), None)
        if first is not None:
            confidence, decided_by = reached, first
    return RuleOutcome(rule, member, Outcome.MATCHED, confidence, decided_by, tuple(trace))


def _try(role: str, condition: Expression, lookup: Callable[[str], FactValue | None]) -> ConditionTrace:
    value = condition.value(lookup)
    return ConditionTrace(role, condition, None if value is None else bool(value))
