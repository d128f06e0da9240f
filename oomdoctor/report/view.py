"""A diagnosis as what the report says, in the order it says it. Pure: every choice of a report is made here.

All strings of a view are free of control characters; a renderer still escapes them for its own format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from .. import __version__
from ..model.diagnosis import (
    Budget,
    Comparison,
    Diagnosis,
    EvidenceItem,
    Finding,
    InputRecord,
    Misuse,
    NotRemedy,
    Remedy,
    ToConfirm,
    Verdict,
)
from ..model.units import format_bytes
from .bars import BudgetView, view_budget
from .failed_request import FailedRequestView, view_failed_request
from .owners import HoldingView, view_holdings
from .palette import FREE, category_of
from .text import format_value, one_line, plain, shorten
from .timeline import Chart, view_charts
from .window import WindowView, view_window

TAGS = {
    Verdict.OUT_OF_MEMORY: "Out of memory",
    Verdict.DEGRADED: "Degraded, not dead",
    Verdict.NOT_OUT_OF_MEMORY: "Not out of memory",
    Verdict.NO_FAILURE: "No failure",
    Verdict.UNDETERMINED: "Cause not determined",
}

NO_CAUSE = {
    Verdict.NO_FAILURE: "None: the input shows no failure for want of memory.",
    Verdict.UNDETERMINED: "Not determined: no known cause matches this evidence.",
}

MISUSED = "What here does not do what it says"
"""The heading over the misuses."""

RECKONED = "What the engine reckoned with, and what was seen"
"""The heading over the comparisons."""

OUTCOMES = {
    "refused": "the program ends with it",
    "ignored": "nothing reads it",
    "unsafe": "it does something else",
}

_HEADLINE, _LINE, _SOURCE, _HOLDER, _PROSE = 320, 400, 240, 46, 4000
"""The most characters shown of a kind of text: generous for what the tool writes, a bound on what an input can do."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9'\"(«“])|(?<=[。！？])\s*")


@dataclass(frozen=True)
class Figure:
    """A number of the verdict with its name."""

    label: str
    value: str


@dataclass(frozen=True)
class RemedyView:
    """A change to make."""

    do: str
    check_first: str
    """What it depends on and the input does not show, in a sentence; empty otherwise."""
    lines: tuple[str, ...]
    """Alternatives to copy; empty where the change is not a setting."""
    note: str
    effect: str
    """What it frees and whether that is enough, in one sentence."""
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
    condition: str


@dataclass(frozen=True)
class FindingView:
    """A diagnosis."""

    anchor: str
    rule: str
    cause: str
    family: str
    title: str
    confidence: str
    scope: str
    explain: tuple[str, ...]
    """Paragraphs."""
    owner: str | None
    explains: str | None
    speaks_for: tuple[EvidenceView, ...]
    speaks_against: tuple[EvidenceView, ...]
    remedies: tuple[RemedyView, ...]
    not_remedies: tuple[NotRemedy, ...]
    to_confirm: tuple[ToConfirm, ...]


@dataclass(frozen=True)
class MissingView:
    """What was not seen."""

    what: str
    why: str
    how_to_get_it: str


@dataclass(frozen=True)
class IncidentView:
    """One failure of the input."""

    when: str
    where: str
    cause: str
    requested: str
    source: str


@dataclass(frozen=True)
class FactView:
    """A fact with its source."""

    key: str
    value: str
    meaning: str
    source: str


@dataclass(frozen=True)
class ExcerptLine:
    """A line of an excerpt."""

    number: int
    text: str
    marked: bool


@dataclass(frozen=True)
class ExcerptView:
    """Lines of an input."""

    path: str
    lines: tuple[ExcerptLine, ...]


@dataclass(frozen=True)
class ComparisonView:
    """What an engine reckoned with, what was seen, and how far apart they are."""

    what: str
    reckoned: str
    seen: str
    apart: str
    how_reckoned: str
    how_seen: str


@dataclass(frozen=True)
class ReportView:
    """The whole report. The first screen is `tag` to `missing`; the rest follows in the order of the fields."""

    version: str
    made: str
    fingerprint: str
    verdict: str
    tag: str
    headline: str
    lead: str
    figures: tuple[Figure, ...]
    budget: BudgetView | None
    """Of the place the report is about."""
    other_budgets: tuple[BudgetView, ...]
    cause: FindingView | None
    no_cause: str
    """What is said instead of a cause."""
    holders: tuple[Figure, ...]
    """The largest of who held it, for the first screen."""
    change: RemedyView | None
    comparisons: tuple[ComparisonView, ...]
    misuses: tuple[Misuse, ...]
    """What in the command, the environment or the code does not do what it says."""
    missing: tuple[MissingView, ...]
    findings: tuple[FindingView, ...]
    charts: tuple[Chart, ...]
    windows: tuple[WindowView, ...]
    failed_requests: tuple[FailedRequestView, ...]
    holdings: tuple[HoldingView, ...]
    incidents: tuple[IncidentView, ...]
    environment: tuple[Figure, ...]
    versions: tuple[Figure, ...]
    host: tuple[Figure, ...]
    variables: tuple[Figure, ...]
    excerpts: tuple[ExcerptView, ...]
    facts: tuple[FactView, ...]
    inputs: tuple[InputRecord, ...]
    notes: tuple[str, ...]


def view_report(diagnosis: Diagnosis) -> ReportView:
    """All that a report shows of a diagnosis."""
    budgets = _primary_first(diagnosis)
    bars = [view_budget(budget) for budget in budgets]
    findings = tuple(_findings(diagnosis.findings, short=diagnosis.verdict is not Verdict.NOT_OUT_OF_MEMORY))
    headline, lead = split_summary(diagnosis.summary, TAGS[diagnosis.verdict])
    holdings = view_holdings(diagnosis.holdings, diagnosis.budgets)
    environment = diagnosis.environment
    return ReportView(
        version=__version__,
        made=format_time(diagnosis.made_seconds) if diagnosis.made_seconds else "",
        fingerprint=one_line(diagnosis.fingerprint, 120),
        verdict=diagnosis.verdict.value,
        tag=_tag(diagnosis),
        headline=headline,
        lead=lead,
        figures=_figures(budgets[0] if budgets else None, bars[0] if bars else None),
        budget=bars[0] if bars else None,
        other_budgets=tuple(bars[1:]),
        cause=findings[0] if findings else None,
        no_cause="" if findings else NO_CAUSE.get(diagnosis.verdict, NO_CAUSE[Verdict.UNDETERMINED]),
        holders=_holders(holdings, bars[0] if bars else None),
        change=_change(findings),
        comparisons=tuple(_comparison(each) for each in diagnosis.comparisons),
        misuses=tuple(_misuse(each) for each in diagnosis.misuses),
        missing=(*_not_read(diagnosis), *_missing(diagnosis)),
        findings=findings,
        charts=view_charts(diagnosis.series),
        windows=tuple(map(view_window, diagnosis.windows)),
        failed_requests=tuple(map(view_failed_request, diagnosis.failed_requests)),
        holdings=holdings,
        incidents=tuple(
            IncidentView(
                when="time not known" if each.when_seconds is None else format_time(each.when_seconds),
                where=one_line(each.where, 80),
                cause=one_line(each.cause, _LINE),
                requested="" if each.requested_bytes is None else format_bytes(each.requested_bytes),
                source=one_line(each.source, _SOURCE),
            )
            for each in diagnosis.incidents
        ),
        environment=tuple(_environment(diagnosis)),
        versions=_pairs(environment.versions),
        host=_pairs(environment.host),
        variables=_pairs(environment.variables),
        excerpts=tuple(_excerpts(diagnosis)),
        facts=tuple(_facts(diagnosis)),
        inputs=tuple(
            InputRecord(one_line(each.path, _SOURCE), one_line(each.kind, 40), each.status, one_line(each.why, _LINE))
            for each in diagnosis.inputs
        ),
        notes=tuple(one_line(note, _LINE) for note in diagnosis.notes),
    )


def split_summary(summary: str, otherwise: str) -> tuple[str, str]:
    """The summary's first sentence, and the rest. A full stop inside a number or a name ends no sentence."""
    text = one_line(summary)
    if not text:
        return otherwise + ".", ""
    first, *rest = _SENTENCE_END.split(text, maxsplit=1)
    if re.match(r"[a-z]+[ ,]", first):  # an ordinary word: neither `cuda:0` nor `vLLM`
        first = first[0].upper() + first[1:]
    return shorten(first, _HEADLINE), shorten(" ".join(rest), 2 * _HEADLINE)


def format_time(seconds: float) -> str:
    """A moment in UTC: reports travel between time zones."""
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return f"{seconds!r} s"


def _comparison(comparison: Comparison) -> ComparisonView:
    apart = comparison.seen_bytes - comparison.reckoned_bytes
    return ComparisonView(
        what=one_line(comparison.what, _LINE),
        reckoned=format_bytes(comparison.reckoned_bytes),
        seen=format_bytes(comparison.seen_bytes),
        apart=f"{'+' if apart > 0 else '-' if apart < 0 else ''}{format_bytes(abs(apart))}",
        how_reckoned=one_line(comparison.how_reckoned, _SOURCE),
        how_seen=one_line(comparison.how_seen, _SOURCE),
    )


def _misuse(misuse: Misuse) -> Misuse:
    colon = ":" if misuse.lines and misuse.instead and misuse.instead[-1:] != "?" else ""
    return Misuse(
        what=one_line(misuse.what, _LINE),
        outcome=OUTCOMES.get(misuse.outcome, misuse.outcome),
        why=one_line(misuse.why, _LINE),
        instead=one_line(misuse.instead + colon, _LINE),
        lines=tuple(one_line(line) for line in misuse.lines),
        where=one_line(misuse.where, _SOURCE),
    )


def _not_read(diagnosis: Diagnosis) -> Iterator[MissingView]:
    for each in diagnosis.inputs:
        if each.status != "read":
            read = "read in part" if each.status == "partly" else "not read"
            yield MissingView(one_line(f"{each.path} ({read})", _LINE), one_line(each.why, _LINE), "")


def _missing(diagnosis: Diagnosis) -> Iterator[MissingView]:
    for each in diagnosis.missing:
        yield MissingView(one_line(each.what, _LINE), one_line(each.why, _LINE), one_line(each.how_to_get_it, 1000))


def _tag(diagnosis: Diagnosis) -> str:
    """The verdict in a word or two, with how many failures the input holds where that is more than one."""
    verdict, several = TAGS[diagnosis.verdict], len(diagnosis.incidents)
    if diagnosis.verdict is Verdict.UNDETERMINED and diagnosis.findings:
        verdict = "No failed allocation seen"
    return verdict if several < 2 else f"{verdict} · the latest of {several} failures in the input"


def _primary_first(diagnosis: Diagnosis) -> list[Budget]:
    """The budgets, that of the place the report is about first."""
    budgets = list(diagnosis.budgets)
    if not budgets:
        return []
    device = next((finding.scope.get("device") for finding in diagnosis.findings[:1]), None)
    asked = [budget for budget in budgets if budget.request_bytes is not None] or budgets
    where = diagnosis.incidents[0].where if diagnosis.incidents else ""
    named = [budget for budget in budgets if budget.where == device]
    if where != "host":
        named += [budget for budget in asked if budget.where == where]
    # On the host one bound stands inside another (process, cgroup, machine): the fullest is the one that was hit.
    primary = named[0] if named else min(asked, key=_free_ratio)
    return [primary, *(budget for budget in budgets if budget is not primary)]


def _free_ratio(budget: Budget) -> float:
    free = [part.bytes for part in budget.parts if category_of(part.name) is FREE]
    return sum(free) / budget.total_bytes if free and budget.total_bytes > 0 else 1.0


def _figures(budget: Budget | None, bar: BudgetView | None) -> tuple[Figure, ...]:
    if budget is None or bar is None:
        return ()
    figures = []
    if budget.request_bytes is not None:
        figures.append(Figure("asked for", format_bytes(budget.request_bytes)))
    if bar.free_bytes is not None:
        free = "free" if ":" in budget.where or budget.where == "host" else "left below the limit"
        figures.append(Figure(free, format_bytes(bar.free_bytes)))
        if budget.request_bytes is not None and budget.request_bytes > bar.free_bytes:
            figures.append(Figure("short by", format_bytes(budget.request_bytes - bar.free_bytes)))
    return tuple(figures)


def _holders(holdings: tuple[HoldingView, ...], bar: BudgetView | None) -> tuple[Figure, ...]:
    """The three largest of the place; where nothing is known of owners, the largest parts of the bar."""
    here = sorted(
        (each for each in holdings if each.is_owner and (bar is None or each.where == bar.where)),
        key=lambda each: -each.bytes,
    )
    if here:
        return tuple(Figure(one_line(each.owner, _HOLDER), each.size) for each in here[:3])
    if bar is None:
        return ()
    parts = [each for each in bar.segments if each.category.key not in ("free", "unattributed")]
    return tuple(Figure(each.name, each.size) for each in sorted(parts, key=lambda each: -each.bytes)[:3])


def _change(findings: tuple[FindingView, ...]) -> RemedyView | None:
    """The first remedy of the best diagnosis that is enough by itself; else its first. The order is the playbook's."""
    remedies = findings[0].remedies if findings else ()
    return next((each for each in remedies if each.enough), remedies[0] if remedies else None)


def _findings(findings: tuple[Finding, ...], *, short: bool) -> Iterator[FindingView]:
    """`short`: memory was short, so that a remedy is measured by what it frees."""
    taken: set[str] = set()
    for finding in findings:
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
            scope=one_line(", ".join(finding.scope.values()), 80),
            explain=tuple(one_line(each, _PROSE) for each in re.split(r"\n\s*\n", finding.explain) if each.strip()),
            owner=None if finding.owner is None else one_line(finding.owner, _LINE),
            explains=None if finding.explains_bytes is None else format_bytes(finding.explains_bytes),
            speaks_for=tuple(_evidence(each) for each in finding.evidence if each.speaks == "for"),
            speaks_against=tuple(_evidence(each) for each in finding.evidence if each.speaks == "against"),
            remedies=tuple(_remedy(each, short=short) for each in finding.remedies),
            not_remedies=tuple(
                NotRemedy(one_line(each.what, _LINE), one_line(each.why, _PROSE)) for each in finding.not_remedies
            ),
            to_confirm=tuple(
                ToConfirm(one_line(each.what, _LINE), one_line(each.command)) for each in finding.to_confirm
            ),
        )


def _evidence(item: EvidenceItem) -> EvidenceView:
    return EvidenceView(
        fact=one_line(item.fact, 120),
        meaning=one_line(item.meaning, _LINE),
        value=format_value(item.value, item.unit),
        source=one_line(item.source, _SOURCE),
        condition=one_line(item.condition, _LINE),
    )


def _remedy(remedy: Remedy, *, short: bool) -> RemedyView:
    unknown = ", ".join(remedy.check_first)
    return RemedyView(
        do=one_line(remedy.do, _LINE),
        check_first=one_line(f"Check first, the input does not show it: {unknown}.", _LINE) if unknown else "",
        # A line to copy is never shortened, and never more than one line: what is pasted is what is seen.
        lines=() if remedy.set is None else tuple(one_line(line) for line in remedy.set.lines),
        note="" if remedy.set is None else one_line(remedy.set.note, _LINE),
        effect=_effect(remedy) if short or remedy.frees_bytes is not None else "",
        enough=remedy.enough,
        cost=one_line(remedy.cost, _PROSE),
        source=one_line(remedy.source, _SOURCE),
    )


def _effect(remedy: Remedy) -> str:
    """What it frees and whether that is enough; empty where neither can be computed from the evidence."""
    if remedy.frees_bytes is None:
        return {True: "Enough by itself.", False: "Not enough by itself.", None: ""}[remedy.enough]
    frees = f"Frees {format_bytes(remedy.frees_bytes)}"
    return {
        True: f"{frees}, which is enough.",
        False: f"{frees}, which is not enough by itself.",
        None: f"{frees}; whether that is enough is not known.",
    }[remedy.enough]


def _environment(diagnosis: Diagnosis) -> Iterator[Figure]:
    environment = diagnosis.environment
    if environment.command:
        yield Figure("command", one_line(environment.command, 4000))
    if environment.working_directory:
        yield Figure("directory", one_line(environment.working_directory, _LINE))
    if environment.started_seconds is not None:
        yield Figure("started", format_time(environment.started_seconds))
    if environment.ended_seconds is not None:
        yield Figure("ended", format_time(environment.ended_seconds))
    if environment.ended_how:
        yield Figure("how it ended", one_line(environment.ended_how, _LINE))


def _pairs(mapping: Mapping[str, str]) -> tuple[Figure, ...]:
    return tuple(Figure(one_line(name, 80), one_line(value, 1000)) for name, value in mapping.items())


def _excerpts(diagnosis: Diagnosis) -> Iterator[ExcerptView]:
    for excerpt in diagnosis.excerpts:
        marked = set(excerpt.marked)
        yield ExcerptView(
            one_line(excerpt.path, _SOURCE),
            tuple(
                # Indentation carries meaning in a traceback, so the line keeps its blanks.
                ExcerptLine(number, plain(line.expandtabs(8)).rstrip("\n")[:2000], number in marked)
                for number, line in enumerate(excerpt.lines, excerpt.first_line)
            ),
        )


def _facts(diagnosis: Diagnosis) -> Iterator[FactView]:
    for key, fact in diagnosis.facts.items():
        spec = diagnosis.facts.specs[fact.name]
        value = format_value(fact.value, spec.type.value)
        yield FactView(one_line(key, 160), value, one_line(spec.meaning, _LINE), one_line(str(fact.source), _SOURCE))
