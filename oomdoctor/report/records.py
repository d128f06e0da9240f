"""What the input holds: its failures, its environment, lines of it, every fact with its source. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..language import N_, _, pgettext, told
from ..model.diagnosis import Diagnosis, Incident, Verdict
from ..model.places import place_in_words
from ..model.printable import one_line, plain
from ..model.units import format_bytes
from .anchors import Anchors
from .findings import CONFIDENCE
from .moments import format_moment
from .text import format_value, source_of

TAGS = {
    Verdict.OUT_OF_MEMORY: N_("Out of memory"),
    Verdict.DEGRADED: N_("Degraded, not dead"),
    Verdict.NOT_OUT_OF_MEMORY: N_("Not out of memory"),
    Verdict.NO_FAILURE: N_("No failure"),
    Verdict.UNDETERMINED: N_("Cause not determined"),
}

DEVICE_OUT_OF_MEMORY = N_("device out of memory")
"""What an incident is called of which the input says no more."""

_LINE, _SOURCE = 400, 240
_DEVICE = re.compile(r"[a-z]+:[0-9]+")


@dataclass(frozen=True)
class Figure:
    """A number of the verdict with its name."""

    label: str
    value: str


@dataclass(frozen=True)
class IncidentView:
    """One failure of the input."""

    when: str
    where: str
    cause: str
    requested: str
    why: str
    """Its own verdict and cause; empty where it was not looked at by itself."""
    source: str
    leads_to: str
    """The anchor of the line that says so; empty where none is shown."""


@dataclass(frozen=True)
class FactView:
    """A fact with its source."""

    key: str
    value: str
    meaning: str
    source: str
    anchor: str
    leads_to: str
    """The anchor of the line that it was read from, else of what shows the record; empty where neither is shown."""


@dataclass(frozen=True)
class ExcerptLine:
    """A line of an excerpt."""

    number: int
    text: str
    marked: bool
    anchor: str


@dataclass(frozen=True)
class ExcerptView:
    """Lines of an input."""

    path: str
    lines: tuple[ExcerptLine, ...]


def is_device(where: str) -> bool:
    """Whether a place is a device, as `cuda:0` is."""
    return _DEVICE.fullmatch(where) is not None


def verdict_in_words(verdict: Verdict, on_device: bool) -> str:
    """A verdict; some languages have a word of their own for the memory of a device."""
    if verdict is Verdict.OUT_OF_MEMORY and on_device:
        return pgettext("device", "Out of memory")
    return _(TAGS[verdict])


def view_incident(incident: Incident, anchors: Anchors) -> IncidentView:
    """A failure as a row."""
    return IncidentView(
        when=_("time not known") if incident.when_seconds is None else format_moment(incident.when_seconds),
        where=one_line(place_in_words(incident.where), 80),
        cause=one_line(_cause_of(incident), _LINE),
        requested="" if incident.requested_bytes is None else format_bytes(incident.requested_bytes),
        why=one_line(_why(incident), _LINE),
        source=one_line(source_of(incident.source), _SOURCE),
        leads_to=anchors.of_record(incident.source, incident.where),
    )


def _why(incident: Incident) -> str:
    if incident.verdict is None:
        return ""
    verdict, why = verdict_in_words(incident.verdict, is_device(incident.where)), incident.explanation
    if why is None:
        return verdict
    said = _("{verdict}; {sureness}: {title} ({rule})")
    return said.format(verdict=verdict, sureness=_(CONFIDENCE[why.confidence]), title=why.title, rule=why.rule)


def _cause_of(incident: Incident) -> str:
    if not incident.then:
        return told(incident.cause)
    return _("{cause}; {then}").format(cause=told(incident.cause), then=told(incident.then))


def view_environment(diagnosis: Diagnosis) -> Iterator[Figure]:
    """The command, when it ran and how it ended."""
    environment = diagnosis.environment
    if environment.command:
        yield Figure(_("command"), one_line(environment.command, 4000))
    if environment.working_directory:
        yield Figure(_("directory"), one_line(environment.working_directory, _LINE))
    if environment.started_seconds is not None:
        yield Figure(_("started"), format_moment(environment.started_seconds))
    if environment.ended_seconds is not None:
        yield Figure(_("ended"), format_moment(environment.ended_seconds))
    if environment.ended_how:
        yield Figure(_("how it ended"), one_line(told(environment.ended_how), _LINE))


def view_pairs(mapping: Mapping[str, str]) -> tuple[Figure, ...]:
    """Names with their values, as they are."""
    return tuple(Figure(one_line(name, 80), one_line(value, 1000)) for name, value in mapping.items())


def view_machine(mapping: Mapping[str, str]) -> tuple[Figure, ...]:
    """What the sampler wrote of the machine: the names are ours, the values as they are."""
    return tuple(Figure(one_line(told(name), 80), one_line(value, 1000)) for name, value in mapping.items())


def view_excerpts(diagnosis: Diagnosis) -> Iterator[ExcerptView]:
    """Lines of the input around what is evidence."""
    for place, excerpt in enumerate(diagnosis.excerpts, 1):
        marked = set(excerpt.marked)
        yield ExcerptView(
            one_line(excerpt.path, _SOURCE),
            tuple(
                # Indentation carries meaning in a traceback, so the line keeps its blanks.
                ExcerptLine(
                    number, plain(line.expandtabs(8)).rstrip("\n")[:2000], number in marked, f"line-{place}-{number}"
                )
                for number, line in enumerate(excerpt.lines, excerpt.first_line)
            ),
        )


def view_facts(diagnosis: Diagnosis, anchors: Anchors) -> Iterator[FactView]:
    """Every fact in the order in which it became known."""
    for key, fact in diagnosis.facts.items():
        spec = diagnosis.facts.specs[fact.name]
        source = str(fact.source)
        yield FactView(
            key=one_line(key, 160),
            value=format_value(fact.value, spec.type.value),
            meaning=one_line(_(spec.meaning), _LINE),
            source=one_line(source_of(source), _SOURCE),
            anchor=anchors.facts[key],
            leads_to=anchors.of_evidence(fact.name, source, diagnosis.facts, key.partition("@")[2] or None),
        )
