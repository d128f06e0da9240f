"""What the report is about: one failure at one place, and the cause found for that place."""

from __future__ import annotations

from collections.abc import Sequence

from ..facts.deriver import failed_devices
from ..language import _, ngettext, pgettext
from ..model.diagnosis import Confidence, Finding, Incident
from ..model.facts import FactSet
from ..model.places import place_in_words

_TOGETHER_SECONDS = 60.0
"""Devices that fail within this time fail of one run; nobody is told of the first before the last."""
_MOST_NAMED = 2


def told_of_one_place(
    findings: Sequence[Finding], incidents: Sequence[Incident], facts: FactSet
) -> tuple[tuple[Finding, ...], tuple[Incident, ...]]:
    """Both in an order in which the first incident is at the place that the first finding is about.

    Of devices that failed together the surest finding tells which one comes first. A device that failed long before is
    not what the report is about, however sure its cause.
    """
    failed = failed_devices(facts)
    findings = _host_first(findings, incidents, failed)
    place = findings[0].scope.get("device") if findings else None
    if not incidents or place is None or place == incidents[0].where:
        return tuple(findings), tuple(incidents)
    chosen = next((incident for incident in incidents if incident.where == place), None)
    if chosen is None:
        return tuple(findings), tuple(incidents)
    if not incidents[0].is_memory and findings[0].confidence is not Confidence.POSSIBLE:
        # An end that proves nothing by itself, of a program whose memory ran out: the cause is not the end's.
        return tuple(findings), (chosen, *(incident for incident in incidents if incident is not chosen))
    if incidents[0].where not in failed:
        return tuple(findings), tuple(incidents)
    here = next((each for each in findings if each.scope.get("device") == incidents[0].where), None)
    if here is not None and here.confidence is findings[0].confidence:
        return (here, *(each for each in findings if each is not here)), tuple(incidents)
    elsewhere = [each for each in findings if each.scope.get("device", incidents[0].where) != incidents[0].where]
    if not _together(chosen, incidents[0]) and len(elsewhere) < len(findings):
        return (*(each for each in findings if each not in elsewhere), *elsewhere), tuple(incidents)
    return tuple(findings), (chosen, *(incident for incident in incidents if incident is not chosen))


def _host_first(findings: Sequence[Finding], incidents: Sequence[Incident], failed: Sequence[str]) -> Sequence[Finding]:
    """Where the latest failure is the host's, what is as sure of the host comes before what explains a device's."""
    if not incidents or not findings or incidents[0].where in failed or "device" not in findings[0].scope:
        return findings
    sure = findings[0].confidence
    of_host = next((each for each in findings if each.family == "host" and each.confidence is sure), None)
    if of_host is None or sure is Confidence.POSSIBLE:
        return findings
    return (of_host, *(each for each in findings if each is not of_host))


def _together(one: Incident, other: Incident) -> bool:
    if one.when_seconds is None or other.when_seconds is None:
        return True
    return abs(one.when_seconds - other.when_seconds) <= _TOGETHER_SECONDS


def causes_of_devices(findings: Sequence[Finding], facts: FactSet) -> dict[str, Finding | None]:
    """The first finding of each device that failed; None where there is none about it alone."""
    return {
        member: next((each for each in findings if each.scope.get("device") == member), None)
        for member in failed_devices(facts)
    }


def of_other_devices(findings: Sequence[Finding], incidents: Sequence[Incident], facts: FactSet) -> list[str]:
    """Sentences about the devices that failed beside the one that the report is about, where its cause is its own."""
    causes = causes_of_devices(findings, facts)
    if not incidents or not findings or "device" not in findings[0].scope or incidents[0].where not in causes:
        return []
    others = {member: found for member, found in causes.items() if member != incidents[0].where}
    alike = [member for member, found in others.items() if found is not None and found.rule == findings[0].rule]
    unlike = [(member, found) for member, found in others.items() if member not in alike]
    said = []
    if alike:
        number = len(alike)
        places = pgettext("numbers", ", ").join(map(place_in_words, alike))
        if number > _MOST_NAMED:
            places = ngettext("{number} more device", "{number} more devices", number).format(number=number)
        said.append(_("Beside it {places} failed, for the same cause.").format(places=places))
    for member, found in unlike[:_MOST_NAMED]:
        if found is None:
            said.append(_("Beside it {place} failed; why is not known.").format(place=place_in_words(member)))
            continue
        how = {
            Confidence.CONFIRMED: _(
                "Beside it {place} failed, for another cause, which is confirmed: {title} ({rule})."
            ),
            Confidence.LIKELY: _("Beside it {place} failed, likely for another cause: {title} ({rule})."),
            Confidence.POSSIBLE: _("Beside it {place} failed, possibly for another cause: {title} ({rule})."),
        }[found.confidence]
        said.append(how.format(place=place_in_words(member), title=uncapitalised(found.title), rule=found.rule))
    left = len(unlike) - _MOST_NAMED
    if left > 0:
        more = ngettext(
            "Beside it {number} more device failed, each for a cause of its own.",
            "Beside it {number} more devices failed, each for a cause of its own.",
            left,
        )
        said.append(more.format(number=left))
    return said


def uncapitalised(title: str) -> str:
    """As it stands within a sentence; a name in capitals stays as it is."""
    return title[:1].lower() + title[1:] if title[:2].istitle() else title
