"""What it most often was: rules that the input leaves open, in the order of their causes in public reports like it.

A precedent is a public report whose cause is known, kept as its cause, its address and its signs: facts that are names
or flags, and how large the request and what was free were beside the card. None of its words is kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib import resources
from math import log

from ..language import _
from ..model.diagnosis import Confidence, Finding
from ..model.facts import FactSet, FactType
from .evaluate import Outcome, RuleOutcome, lookup_for
from .load import Playbook
from .match import finding_of, outcomes

_ALIKE = 20
"""Reports that are looked at: fewer tell little of rare causes, more are no longer alike."""
_FEWEST = 2
"""Of them, with a cause that is told."""
_MOST_FINDINGS = 3
_MOST_EXAMPLES = 3
_OF_THE_CARD = ("oom.requested_bytes", "oom.free_bytes", "oom.allocated_bytes", "oom.reserved_unallocated_bytes")
_SHARES = (0.002, 0.02, 0.1, 0.4, 0.8, 1.0)


@dataclass(frozen=True)
class Precedent:
    """One public report."""

    source: str
    """`owner/repository#number`; empty where it has no such address."""
    cause: str
    signs: frozenset[str]


@dataclass(frozen=True)
class Precedents:
    """All of them."""

    reports: tuple[Precedent, ...]

    @cached_property
    def _weight(self) -> dict[str, float]:
        """What few reports share says more than what most do."""
        count = Counter(sign for report in self.reports for sign in report.signs)
        return {sign: log((len(self.reports) + 1) / number) for sign, number in count.items()}

    def most_alike(self, signs: frozenset[str]) -> list[Precedent]:
        """The reports that share most with these signs, the nearest first; all that are as near as the last one too."""
        known = signs & self._weight.keys()
        likeness = {number: self._likeness(known, report.signs) for number, report in enumerate(self.reports)}
        nearest = sorted(likeness, key=lambda number: -likeness[number])
        if not known or not nearest:
            return []
        last = likeness[nearest[min(_ALIKE, len(nearest)) - 1]]
        return [self.reports[number] for number in nearest if likeness[number] >= max(last, 1e-9)]

    def _likeness(self, one: frozenset[str], other: frozenset[str]) -> float:
        """From 0 to 1: the weight of the signs that both have, of all that either has (weighted Jaccard index)."""
        weight = self._weight
        shared, all_ = sum(weight[sign] for sign in one & other), sum(weight[sign] for sign in one | other)
        return shared / all_ if all_ else 0.0


@lru_cache(maxsize=1)
def load_precedents() -> Precedents:
    """Those shipped (`scripts/make_precedents.py` writes them)."""
    table = json.loads(resources.files(__package__).joinpath("precedents.json").read_text(encoding="utf-8"))
    signs = table["signs"]
    return Precedents(
        tuple(
            Precedent(source, cause, frozenset(signs[number] for number in numbers))
            for source, cause, numbers in table["reports"]
        )
    )


def signs_of(facts: FactSet) -> frozenset[str]:
    """What a report is compared by: names, flags, and sizes as shares of the card they are on."""
    found = set()
    for fact in facts.values():
        if facts.specs[fact.name].type in (FactType.NAME, FactType.FLAG):
            found.add(f"{fact.name} = {fact.value}")
        elif fact.name in _OF_THE_CARD:
            total = facts.size("oom.total_bytes", fact.member)
            if total and isinstance(fact.value, int):
                above = sum(fact.value >= share * total for share in _SHARES)
                found.add(f"{fact.name} > {((0.0, *_SHARES)[above]):g} of the card")
    return frozenset(found)


def by_precedent(
    playbook: Playbook, facts: FactSet, findings: Sequence[Finding], precedents: Precedents | None = None
) -> tuple[Finding, ...]:
    """What comes after `findings`, where none of them is surer than possible: rules left open, as 'possible'.

    A cause is told where at least two of the reports most alike had it, and where a rule for it is neither met nor
    refused by the facts.
    """
    if any(finding.confidence is not Confidence.POSSIBLE for finding in findings):
        return ()
    alike = (load_precedents() if precedents is None else precedents).most_alike(signs_of(facts))
    told = {finding.cause for finding in findings}
    causes = [cause for cause in _most_frequent(alike) if cause not in told]
    found: list[Finding] = []
    for cause in causes:
        if len(findings) + len(found) >= _MOST_FINDINGS:
            break
        outcome = _nearest_to_met(_left_open(playbook, facts, cause))
        if outcome is not None:
            found.append(_finding(outcome, facts, alike))
    return tuple(found)


def _most_frequent(alike: Iterable[Precedent]) -> list[str]:
    """The causes that several have; of equally frequent ones first that of the nearest report."""
    return [cause for cause, number in Counter(report.cause for report in alike).most_common() if number >= _FEWEST]


def _left_open(playbook: Playbook, facts: FactSet, cause: str) -> Iterator[RuleOutcome]:
    for rule in playbook.rules:
        if rule.cause == cause:
            yield from (outcome for outcome in outcomes(rule, facts) if outcome.outcome is Outcome.UNKNOWN)


def _nearest_to_met(outcomes_: Iterable[RuleOutcome]) -> RuleOutcome | None:
    """The rule with the most conditions that hold already."""
    return max(outcomes_, key=lambda outcome: sum(step.value is True for step in outcome.trace), default=None)


def _finding(outcome: RuleOutcome, facts: FactSet, alike: Sequence[Precedent]) -> Finding:
    same = [report for report in alike if report.cause == outcome.rule.cause]
    examples = [report.source for report in same if report.source][:_MOST_EXAMPLES]
    said = _(
        "What the input shows neither meets nor excludes this rule. Of the {count} public reports most like it, "
        "{number} had this cause."
    ).format(count=len(alike), number=len(same))
    if examples:
        said += " " + _("See {examples}.").format(examples=", ".join(examples))
    met = finding_of(replace(outcome, outcome=Outcome.MATCHED, confidence=Confidence.POSSIBLE), facts)
    lookup = lookup_for(facts, outcome.member)
    whole = {remedy.id for remedy in outcome.rule.remedies if remedy.do.complete(lookup)}
    remedies = tuple(remedy for remedy in met.remedies if remedy.id in whole)
    return replace(met, explain=said, owner=None, remedies=remedies, by_precedent=True)
