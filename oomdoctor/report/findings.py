"""Diagnoses as the report shows them: evidence linked to where it stands, remedies with what they free. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..language import N_, _, told
from ..model.diagnosis import (
    Confidence,
    Diagnosis,
    Effect,
    EvidenceItem,
    Finding,
    NotRemedy,
    Remedy,
    ToConfirm,
    Verdict,
)
from ..model.facts import FactSet, FactType
from ..model.places import place_in_words
from ..model.printable import one_line
from ..model.units import format_bytes
from .anchors import Anchors
from .text import format_value, listed, source_of, to_copy

CONFIDENCE = {
    Confidence.CONFIRMED: N_("confirmed"),
    Confidence.LIKELY: N_("likely"),
    Confidence.POSSIBLE: N_("possible"),
}

EFFECTS = {
    Effect.FREES: N_("Frees {size}"),
    Effect.SPARES: N_("Needs {size} less"),
    Effect.GIVES_THE_POOL: N_("Gives the pool {size} more"),
    Effect.ALLOWS: N_("Allows {size} more"),
    Effect.JOINS: N_("Makes {size} of what is reserved usable"),
    Effect.LEAVES: N_("Leaves {size} to others"),
}

_FREES_UNKNOWN = N_("How much it frees is not known.")
_NOT_KNOWN = {
    Effect.SPARES: N_("How much less it needs is not known."),
    Effect.GIVES_THE_POOL: N_("How much the pool gets is not known."),
    Effect.ALLOWS: N_("How much is needed is not known."),
    Effect.JOINS: N_("How much of what is reserved becomes usable is not known."),
    Effect.LEAVES: N_("How much it leaves to others is not known."),
    Effect.COUNTS: N_("What is short here is counted, not measured in bytes."),
    Effect.FINDS_OUT: N_("Frees nothing by itself; it tells what to change."),
}

_LINE, _SOURCE, _PROSE = 400, 240, 4000
"""The most characters shown of a kind of text: generous for what the tool writes, a bound on what an input can do."""


@dataclass(frozen=True)
class RemedyView:
    """A change to make."""

    do: str
    check_first: str
    """What it depends on and the input does not show, in a sentence; empty otherwise."""
    lines: tuple[str, ...]
    """Alternatives to copy; empty where the change is not a setting."""
    systems: tuple[str, ...]
    """Whose each line is, where they differ by what starts the program; else empty."""
    note: str
    effect: str
    """What it does with how many bytes, and whether that is enough, in one sentence."""
    enough: bool | None
    cost: str
    source: str


@dataclass(frozen=True)
class EvidenceView:
    """A fact that speaks for or against."""

    fact: str
    meaning: str
    value: str
    source: str
    leads_to: str
    """Where in the page the source stands: the log's line, the chart, map or table of its record; else the fact."""
    anchor: str
    """Of the fact among all facts; empty where it is not there."""


@dataclass(frozen=True)
class FindingView:
    """A diagnosis."""

    anchor: str
    rule: str
    cause: str
    family: str
    title: str
    confidence: str
    sureness: str
    """The confidence in the language of the report."""
    scope: str
    explain: tuple[str, ...]
    """Paragraphs."""
    owner: str | None
    explains: str | None
    speaks_for: tuple[EvidenceView, ...]
    speaks_against: tuple[EvidenceView, ...]
    conditions: tuple[str, ...]
    """The lines of the rule that the evidence decided, each once."""
    remedies: tuple[RemedyView, ...]
    not_remedies: tuple[NotRemedy, ...]
    to_confirm: tuple[ToConfirm, ...]


def view_findings(diagnosis: Diagnosis, anchors: Anchors) -> tuple[FindingView, ...]:
    """The findings in their order."""
    return tuple(_findings(diagnosis, anchors))


def _findings(diagnosis: Diagnosis, anchors: Anchors) -> Iterator[FindingView]:
    # Where memory was short a remedy is measured by what it frees.
    short = diagnosis.verdict is not Verdict.NOT_OUT_OF_MEMORY
    failed = diagnosis.verdict is Verdict.OUT_OF_MEMORY or bool(diagnosis.incidents)
    taken: set[str] = set()
    for finding in diagnosis.findings:
        anchor = "rule-" + (re.sub(r"[^A-Za-z0-9]+", "-", finding.rule).strip("-")[:40] or "unnamed")
        if anchor in taken:
            anchor += "-" + re.sub(r"[^A-Za-z0-9]+", "-", " ".join(finding.scope.values())).strip("-")[:40]
        while anchor in taken:
            anchor += "x"
        taken.add(anchor)
        yield FindingView(
            anchor=anchor,
            rule=one_line(finding.rule, 40),
            cause=one_line(finding.cause, 60),
            family=one_line(finding.family, 40),
            title=one_line(finding.title, _LINE),
            confidence=finding.confidence.value,
            sureness=_(CONFIDENCE[finding.confidence]),
            scope=one_line(listed(map(place_in_words, finding.scope.values())), 80),
            explain=tuple(one_line(each, _PROSE) for each in re.split(r"\n\s*\n", finding.explain) if each.strip()),
            owner=None if finding.owner is None else one_line(told(finding.owner), _LINE),
            explains=None if finding.explains_bytes is None else format_bytes(finding.explains_bytes),
            speaks_for=tuple(
                _evidence(each, finding, anchors, diagnosis.facts)
                for each in sorted(finding.evidence, key=_names_nothing)
                if each.speaks == "for"
            ),
            speaks_against=tuple(
                _evidence(each, finding, anchors, diagnosis.facts)
                for each in finding.evidence
                if each.speaks == "against"
            ),
            conditions=tuple(dict.fromkeys(one_line(e.condition, _LINE) for e in finding.evidence if e.condition)),
            remedies=tuple(_remedy(each, short=short, failed=failed) for each in finding.remedies),
            not_remedies=tuple(
                NotRemedy(one_line(each.what, _LINE), one_line(each.why, _PROSE)) for each in finding.not_remedies
            ),
            to_confirm=tuple(
                ToConfirm(one_line(each.what, _LINE), one_line(to_copy(each.command))) for each in finding.to_confirm
            ),
        )


def _names_nothing(item: EvidenceItem) -> bool:
    """What names something comes before what is said of it; else the order is that of the strength."""
    return item.unit != FactType.TEXT.value


def _evidence(item: EvidenceItem, finding: Finding, anchors: Anchors, facts: FactSet) -> EvidenceView:
    anchor = anchors.of_fact(item.fact, finding.scope.values())
    return EvidenceView(
        fact=one_line(item.fact, 120),
        meaning=one_line(_(item.meaning), _LINE),
        value=format_value(item.value, item.unit),
        source=one_line(source_of(item.source), _SOURCE),
        leads_to=anchors.of_evidence(item.fact, item.source, facts, next(iter(finding.scope.values()), None)) or anchor,
        anchor=anchor,
    )


def _remedy(remedy: Remedy, *, short: bool, failed: bool = True) -> RemedyView:
    unknown = listed(map(_, remedy.check_first))
    return RemedyView(
        do=one_line(remedy.do, _LINE),
        check_first=one_line(_("Check first, the input does not show it: {facts}.").format(facts=unknown), _LINE)
        if unknown
        else "",
        # A line to copy is never shortened, and never more than one line: what is pasted is what is seen.
        lines=_lines(remedy),
        systems=() if remedy.set is None else remedy.set.systems,
        note="" if remedy.set is None else one_line(remedy.set.note, _LINE),
        effect=_effect(remedy, failed=failed) if short or remedy.frees_bytes is not None else "",
        enough=remedy.enough,
        cost=one_line(remedy.cost, _PROSE),
        source=one_line(remedy.source, _SOURCE),
    )


def _lines(remedy: Remedy) -> tuple[str, ...]:
    """The setting by itself, and in the command that the input shows."""
    if remedy.set is None:
        return ()
    lines = remedy.set.lines if remedy.command is None else (*remedy.set.lines, remedy.command)
    return tuple(one_line(to_copy(line)) for line in lines)


def _effect(remedy: Remedy, *, failed: bool) -> str:
    """What it does with how many bytes, and whether that is enough, or that it is not known."""
    if remedy.simulated is not None:
        return one_line(remedy.simulated, _PROSE)
    if remedy.frees_bytes is None:
        unknown = _(_NOT_KNOWN.get(remedy.effect, _FREES_UNKNOWN))
        if remedy.depends_on:
            on = listed(map(_, remedy.depends_on))
            unknown = _("{sentence} It depends on what the input does not show: {facts}.").format(
                sentence=unknown, facts=on
            )
        if remedy.needed_bytes is not None:
            needed = _("{sentence} It must be at least {size}: what is short and a tenth to spare.")
            unknown = needed.format(sentence=unknown, size=format_bytes(remedy.needed_bytes))
        return {True: _("Enough by itself."), False: _("Not enough by itself."), None: unknown}[remedy.enough]
    if not failed and remedy.enough is None:
        said_of_none = _("{effect}; no request failed here for which it would have to be enough.")
        return said_of_none.format(effect=_(EFFECTS[remedy.effect]).format(size=format_bytes(remedy.frees_bytes)))
    said = {
        True: _("{effect}, which is enough."),
        False: _("{effect}, which is not enough by itself."),
        None: _("{effect}; whether that is enough is not known."),
    }[remedy.enough]
    return said.format(effect=_(EFFECTS[remedy.effect]).format(size=format_bytes(remedy.frees_bytes)))
