"""A diagnosis as what the report says, in the order it says it. Pure: every choice of a report is made here.

All strings of a view are free of control characters; a renderer still escapes them for its own format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from .. import __version__
from ..language import N_, _, tidy, told
from ..model.diagnosis import (
    Budget,
    Comparison,
    Diagnosis,
    Incident,
    InputRecord,
    Misuse,
    Verdict,
)
from ..model.estimated import Estimated
from ..model.printable import one_line, plain, shorten
from ..model.units import format_bytes
from .anchors import Anchors, make_anchors
from .bars import BudgetView, view_budget
from .failed_request import FailedRequestView, view_failed_request
from .findings import FindingView, RemedyView, view_findings
from .owners import HoldingView, view_holdings
from .palette import FREE, category_of
from .text import format_value, source_of
from .timeline import Chart, view_charts
from .window import WindowView, view_window

TAGS = {
    Verdict.OUT_OF_MEMORY: N_("Out of memory"),
    Verdict.DEGRADED: N_("Degraded, not dead"),
    Verdict.NOT_OUT_OF_MEMORY: N_("Not out of memory"),
    Verdict.NO_FAILURE: N_("No failure"),
    Verdict.UNDETERMINED: N_("Cause not determined"),
}

NO_CAUSE = {
    Verdict.NO_FAILURE: N_("None: the input shows no failure for want of memory."),
    Verdict.UNDETERMINED: N_("Not determined: no known cause matches this evidence."),
}

MISUSED = N_("What here does not do what it says")
"""The heading over the misuses."""

ESTIMATED = N_("Estimated for these settings, and observed")
"""The heading over the estimate."""
RECKONED = N_("What the engine reckoned with, and what was seen")
"""The heading over the comparisons."""

OUTCOMES = {
    "refused": N_("the program ends with it"),
    "ignored": N_("nothing reads it"),
    "unsafe": N_("it does something else"),
}

STATUS = {"read": N_("read"), "partly": N_("partly"), "refused": N_("refused")}

_HEADLINE, _LINE, _SOURCE, _HOLDER, _PROSE = 320, 400, 240, 46, 4000
"""The most characters shown of a kind of text: generous for what the tool writes, a bound on what an input can do."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9'\"(«“])|(?<=[。！？])\s*")


@dataclass(frozen=True)
class Figure:
    """A number of the verdict with its name."""

    label: str
    value: str


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
    anchor: str
    leads_to: str
    """The anchor of the line that it was read from; empty where none is shown."""


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
class EstimatedRow:
    """A part: what was estimated, what was observed, and how far apart they are."""

    what: str
    estimated: str
    observed: str
    apart: str
    how_estimated: str
    how_observed: str


@dataclass(frozen=True)
class EstimatedView:
    """The estimate of the settings."""

    settings: str
    sentences: tuple[str, ...]
    rows: tuple[EstimatedRow, ...]


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
    estimated: EstimatedView | None
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
    anchors = make_anchors(tuple(diagnosis.facts), diagnosis.excerpts)
    bars = [view_budget(budget) for budget in budgets]
    findings = view_findings(diagnosis, anchors)
    headline, lead = split_summary(diagnosis.summary, _(TAGS[diagnosis.verdict]))
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
        no_cause="" if findings else _(NO_CAUSE.get(diagnosis.verdict, NO_CAUSE[Verdict.UNDETERMINED])),
        holders=_holders(holdings, bars[0] if bars else None),
        change=_change(findings),
        comparisons=tuple(_comparison(each) for each in diagnosis.comparisons),
        estimated=None if diagnosis.estimated is None else _estimated(diagnosis.estimated),
        misuses=tuple(_misuse(each) for each in diagnosis.misuses),
        missing=(*_not_read(diagnosis), *_missing(diagnosis)),
        findings=findings,
        charts=view_charts(diagnosis.series, diagnosis.incidents),
        windows=tuple(map(view_window, diagnosis.windows)),
        failed_requests=tuple(view_failed_request(each, diagnosis.findings) for each in diagnosis.failed_requests),
        holdings=holdings,
        incidents=tuple(
            IncidentView(
                when=_("time not known") if each.when_seconds is None else format_time(each.when_seconds),
                where=one_line(told(each.where), 80),
                cause=one_line(_cause_of(each), _LINE),
                requested="" if each.requested_bytes is None else format_bytes(each.requested_bytes),
                source=one_line(source_of(each.source), _SOURCE),
            )
            for each in diagnosis.incidents
        ),
        environment=tuple(_environment(diagnosis)),
        versions=_pairs(environment.versions),
        host=_pairs(environment.host),
        variables=_pairs(environment.variables),
        excerpts=tuple(_excerpts(diagnosis)),
        facts=tuple(_facts(diagnosis, anchors)),
        inputs=tuple(
            InputRecord(
                one_line(each.path, _SOURCE),
                one_line(_(each.kind), 40),
                _(STATUS.get(each.status, each.status)),
                one_line(told(each.why), _LINE),
            )
            for each in diagnosis.inputs
        ),
        notes=tuple(one_line(told(note), _LINE) for note in diagnosis.notes),
    )


def split_summary(summary: str, otherwise: str) -> tuple[str, str]:
    """The summary's first sentence, and the rest. A full stop inside a number or a name ends no sentence."""
    text = tidy(one_line(summary))
    if not text:
        return otherwise + _("."), ""
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


def _cause_of(incident: Incident) -> str:
    if not incident.then:
        return told(incident.cause)
    return _("{cause}; {then}").format(cause=told(incident.cause), then=told(incident.then))


def _estimated(estimated: Estimated) -> EstimatedView:
    return EstimatedView(
        settings=one_line(told(estimated.settings), _LINE),
        sentences=tuple(one_line(told(each), _LINE) for each in estimated.sentences),
        rows=tuple(
            EstimatedRow(
                what=one_line(_(each.what), _LINE),
                estimated=format_bytes(each.estimated_bytes),
                observed="" if each.observed_bytes is None else format_bytes(each.observed_bytes),
                apart="" if each.observed_bytes is None else _apart(each.observed_bytes - each.estimated_bytes),
                how_estimated=one_line(each.how_estimated, _SOURCE),
                how_observed=one_line(
                    told(each.how_observed) if each.how_observed else _("not told by the input"), _SOURCE
                ),
            )
            for each in estimated.parts
        ),
    )


def _apart(size: int) -> str:
    return f"{'+' if size > 0 else '-' if size < 0 else ''}{format_bytes(abs(size))}"


def _comparison(comparison: Comparison) -> ComparisonView:
    return ComparisonView(
        what=one_line(told(comparison.what), _LINE),
        reckoned=format_bytes(comparison.reckoned_bytes),
        seen=format_bytes(comparison.seen_bytes),
        apart=_apart(comparison.seen_bytes - comparison.reckoned_bytes),
        how_reckoned=one_line(source_of(comparison.how_reckoned), _SOURCE),
        how_seen=one_line(source_of(comparison.how_seen), _SOURCE),
    )


def _misuse(misuse: Misuse) -> Misuse:
    colon = _(":") if misuse.lines and misuse.instead and misuse.instead[-1:] != "?" else ""
    return Misuse(
        what=one_line(misuse.what, _LINE),
        outcome=_(OUTCOMES.get(misuse.outcome, misuse.outcome)),
        why=one_line(told(misuse.why), _LINE),
        instead=one_line(told(misuse.instead) + colon, _LINE),
        lines=tuple(one_line(line) for line in misuse.lines),
        where=one_line(told(misuse.where), _SOURCE),
    )


def _not_read(diagnosis: Diagnosis) -> Iterator[MissingView]:
    for each in diagnosis.inputs:
        if each.status != "read":
            read = _("{path} (read in part)") if each.status == "partly" else _("{path} (not read)")
            yield MissingView(one_line(read.format(path=each.path), _LINE), one_line(told(each.why), _LINE), "")


def _missing(diagnosis: Diagnosis) -> Iterator[MissingView]:
    for each in diagnosis.missing:
        yield MissingView(
            one_line(told(each.what), _LINE), one_line(told(each.why), _LINE), one_line(told(each.how_to_get_it), 1000)
        )


def _tag(diagnosis: Diagnosis) -> str:
    """The verdict in a word or two, with how many failures the input holds where that is more than one."""
    verdict, several = _(TAGS[diagnosis.verdict]), len(diagnosis.incidents)
    counted = diagnosis.facts.value("oom.count")
    if several > 1 and isinstance(counted, int):
        several = max(several, counted)  # of very many not each has a record
    if diagnosis.verdict is Verdict.UNDETERMINED and diagnosis.findings:
        verdict = _("No failed allocation seen")
    if several < 2:
        return verdict
    return _("{verdict} · the latest of {number} failures in the input").format(verdict=verdict, number=several)


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
        figures.append(Figure(_("asked for"), format_bytes(budget.request_bytes)))
    if bar.free_bytes is not None:
        free = _("free") if ":" in budget.where or budget.where == "host" else _("left below the limit")
        figures.append(Figure(free, format_bytes(bar.free_bytes)))
        if budget.request_bytes is not None and budget.request_bytes > bar.free_bytes:
            figures.append(Figure(_("short by"), format_bytes(budget.request_bytes - bar.free_bytes)))
    return tuple(figures)


def _holders(holdings: tuple[HoldingView, ...], bar: BudgetView | None) -> tuple[Figure, ...]:
    """The three largest of the place; where nothing is known of owners, the largest parts of the bar."""
    here = sorted(
        (each for each in holdings if each.is_owner and (bar is None or each.where == bar.place)),
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


def _environment(diagnosis: Diagnosis) -> Iterator[Figure]:
    environment = diagnosis.environment
    if environment.command:
        yield Figure(_("command"), one_line(environment.command, 4000))
    if environment.working_directory:
        yield Figure(_("directory"), one_line(environment.working_directory, _LINE))
    if environment.started_seconds is not None:
        yield Figure(_("started"), format_time(environment.started_seconds))
    if environment.ended_seconds is not None:
        yield Figure(_("ended"), format_time(environment.ended_seconds))
    if environment.ended_how:
        yield Figure(_("how it ended"), one_line(told(environment.ended_how), _LINE))


def _pairs(mapping: Mapping[str, str]) -> tuple[Figure, ...]:
    return tuple(Figure(one_line(name, 80), one_line(value, 1000)) for name, value in mapping.items())


def _excerpts(diagnosis: Diagnosis) -> Iterator[ExcerptView]:
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


def _facts(diagnosis: Diagnosis, anchors: Anchors) -> Iterator[FactView]:
    for key, fact in diagnosis.facts.items():
        spec = diagnosis.facts.specs[fact.name]
        source = str(fact.source)
        yield FactView(
            key=one_line(key, 160),
            value=format_value(fact.value, spec.type.value),
            meaning=one_line(_(spec.meaning), _LINE),
            source=one_line(source_of(source), _SOURCE),
            anchor=anchors.facts[key],
            leads_to=anchors.of_source(source),
        )
