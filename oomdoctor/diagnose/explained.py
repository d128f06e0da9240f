"""Each failure of the input with its own verdict and cause, by what the input tells of that failure alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..facts import derive_facts
from ..facts.apart import apart
from ..facts.focus import others
from ..facts.incidents import find_incidents, same_incident
from ..language import _, ngettext, pgettext, told
from ..model.diagnosis import Confidence, Explanation, Finding, Incident, InputRecord, Verdict
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.places import place_in_words
from ..model.printable import one_line
from ..playbook.load import Playbook
from ..playbook.match import match_rules
from .subject import told_of_one_place, uncapitalised

_MOST_EXPLAINED = 6
_MOST_NAMED = 2
_MOST_PLACES, _PLACE = 3, 120

Decide = Callable[[Sequence[Finding], Sequence[Incident], FactSet, Sequence[InputRecord]], Verdict]


def of_each_rank(
    told: Evidence, facts: FactSet, findings: tuple[Finding, ...], playbook: Playbook
) -> tuple[FactSet, tuple[Finding, ...]]:
    """The facts and findings of the ranks that the surest finding is about; of each other device its own.

    Both as they are where all ranks failed at one place of the code, or none shows its own.
    """
    groups = apart(told)
    if not groups:
        return facts, findings
    found = []
    for group in groups:
        own = derive_facts(group.evidence)
        mine = [each for each in match_rules(playbook, own) if each.scope.get("device", "") in {*group.devices, ""}]
        found.append((own, mine))
    chosen = min(found, key=lambda each: each[1][0].confidence.rank if each[1] else len(Confidence))
    beside = (each for own, mine in found if own is not chosen[0] for each in mine if "device" in each.scope)
    return chosen[0], (*chosen[1], *sorted(beside, key=lambda each: each.confidence.rank))


def explained(
    evidence: Evidence,
    incidents: Sequence[Incident],
    in_focus: Sequence[Incident],
    findings: Sequence[Finding],
    verdict: Verdict,
    playbook: Playbook,
    decide: Decide,
) -> tuple[Incident, ...]:
    """The incidents; those of other failures than the report's looked at by themselves, the latest few of them."""
    known: list[Incident] = []
    for place, incident in enumerate(in_focus):
        if place == 0:
            known.append(_with(incident, findings, verdict))
        elif any(each.scope.get("device") == incident.where for each in findings):
            own = [each for each in findings if each.scope.get("device") == incident.where]
            known.append(_with(incident, own, verdict))
    for piece in others(evidence)[:_MOST_EXPLAINED]:
        alone = find_incidents(piece)
        if not alone:
            continue
        facts = derive_facts(piece)
        found, alone = told_of_one_place(match_rules(playbook, facts), alone, facts)
        # What is told of it was read, wherever from.
        own_verdict = decide(found, alone, facts, evidence.inputs)
        known.append(_with(alone[0], found, own_verdict))
        known += [replace(each, verdict=own_verdict) for each in alone[1:]]
    return tuple(_known_as(each, known) for each in incidents)


def _known_as(incident: Incident, known: Sequence[Incident]) -> Incident:
    same = next((one for one in known if same_incident(one, incident)), None)
    return incident if same is None else replace(incident, verdict=same.verdict, explanation=same.explanation)


def _with(incident: Incident, findings: Sequence[Finding], verdict: Verdict) -> Incident:
    first = findings[0] if findings else None
    why = None if first is None else Explanation(first.rule, first.cause, first.title, first.confidence)
    return replace(incident, verdict=verdict, explanation=why)


def of_other_failures(incidents: Sequence[Incident], in_focus: Sequence[Incident]) -> list[str]:
    """Sentences about the failures of the input that the report is not about."""
    others = [each for each in incidents if not any(same_incident(each, one) for one in in_focus)]
    alike: dict[str, list[Incident]] = {}
    for each in others:
        alike.setdefault(_told(each), []).append(each)
    named = list(alike.items())[:_MOST_NAMED]
    said = [sentence if len(group) == 1 else f"{sentence} {_how_often(group)}" for sentence, group in named]
    left = len(others) - sum(len(group) for _sentence, group in named)
    if left > 0:
        more = ngettext("The input holds {number} more failure.", "The input holds {number} more failures.", left)
        said.append(more.format(number=left))
    return said


def _how_often(alike: Sequence[Incident]) -> str:
    """How many failures a sentence stands for, and where they are."""
    places = pgettext("numbers", ", ").join(one_line(told(each.source), _PLACE) for each in alike[:_MOST_PLACES])
    if len(alike) <= _MOST_PLACES:
        return _("There are {number} such failures: {places}.").format(number=len(alike), places=places)
    return _("There are {number} such failures, the latest at {places}.").format(number=len(alike), places=places)


def _told(incident: Incident) -> str:
    what, where = told(incident.cause), incident.where
    if where and not where.startswith("the "):
        what = _("{cause} ({place})").format(cause=what, place=place_in_words(where))
    why = incident.explanation
    if incident.verdict is Verdict.DEGRADED:
        return _("Another failure in the input: {what}; the program went on after it.").format(what=what)
    if why is None:
        return _("Another failure in the input: {what}; why is not known.").format(what=what)
    how = {
        Confidence.CONFIRMED: _("Another failure in the input: {what}; its cause is confirmed: {title} ({rule})."),
        Confidence.LIKELY: _("Another failure in the input: {what}; its likely cause: {title} ({rule})."),
        Confidence.POSSIBLE: _("Another failure in the input: {what}; a possible cause: {title} ({rule})."),
    }[why.confidence]
    return how.format(what=what, title=uncapitalised(why.title), rule=why.rule)
