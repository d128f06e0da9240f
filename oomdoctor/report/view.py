"""A diagnosis as what the report says, in the order it says it. Pure: every choice of a report is made here.

All strings of a view are free of control characters; a renderer still escapes them for its own format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .. import __version__
from ..facts.budget import PLANS
from ..facts.deriver import failed_devices
from ..language import N_, _, tidy, told
from ..model.diagnosis import Budget, Diagnosis, InputRecord, Misuse, Verdict
from ..model.printable import one_line, shorten
from .alike import AlikeView, group_alike
from .anchors import make_anchors
from .bars import BudgetView, view_budget
from .failed_request import FailedRequestView, view_failed_request
from .findings import FindingView, RemedyView, view_findings
from .loose import LooseView, view_loose
from .moments import MomentView, failure_seconds, format_moment, view_moments
from .owners import HoldingView, view_holdings
from .palette import FREE, category_of
from .points import marked_points
from .reckoning import ComparisonView, EstimatedView, view_comparison, view_estimated, view_misuse
from .records import (
    DEVICE_OUT_OF_MEMORY,
    TAGS,
    ExcerptView,
    FactView,
    Figure,
    IncidentView,
    is_device,
    verdict_in_words,
    view_environment,
    view_excerpts,
    view_facts,
    view_incident,
    view_machine,
    view_pairs,
)
from .stacks import StackView, view_stacks
from .surroundings import DeviceView, MeasureGroup, view_devices, view_host
from .timeline import Chart, view_charts
from .window import WindowView, view_window

STATUS = {"read": N_("read"), "partly": N_("partly"), "refused": N_("refused")}

_WORTH_A_LOOK = 0.05
"""Of the place's total: a smaller holder is not named on the first screen, unless it is the largest."""
_FULL = 0.05
"""A place of which less is unattributed, and nothing is free, is full."""
_PREFIX = re.compile(r"^(?:[a-z ]+ (?:by|in|of) (?=\S+ '|')|[^（]*（(?=.*）$))")
"""What a holder's name says of the memory before it names the variable."""
_PROCESS = re.compile(r"^(?:process|进程) (\d+)")
_HEADLINE, _LINE, _SOURCE, _HOLDER = 320, 400, 240, 90
"""The most characters shown of a kind of text: generous for what the tool writes, a bound on what an input can do."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9'\"(«“])|(?<=[。！？])\s*")


@dataclass(frozen=True)
class MissingView:
    """What was not seen."""

    what: str
    why: str
    how_to_get_it: str


@dataclass(frozen=True)
class ReportView:
    """The whole report. The first screen is `tag` to `missing`; the rest follows in the order of the fields."""

    version: str
    made: str
    fingerprint: str
    verdict: str
    nothing_read: bool
    tag: str
    headline: str
    lead: str
    budget: BudgetView | None
    """Of the place the report is about."""
    loose: LooseView | None
    """In place of a budget, where the input tells no whole."""
    other_budgets: tuple[BudgetView, ...]
    others_alike: tuple[AlikeView, ...]
    """The same, those that hardly differ told once."""
    cause: FindingView | None
    """None where none is known, which the lead says, or nothing failed."""
    holders: tuple[Figure, ...]
    """The largest of who held it, for the first screen."""
    change: RemedyView | None
    comparisons: tuple[ComparisonView, ...]
    estimated: EstimatedView | None
    misuses: tuple[Misuse, ...]
    """What in the command, the environment or the code does not do what it says."""
    missing: tuple[MissingView, ...]
    findings: tuple[FindingView, ...]
    moments: tuple[MomentView, ...]
    charts: tuple[Chart, ...]
    windows: tuple[WindowView, ...]
    failed_requests: tuple[FailedRequestView, ...]
    holdings: tuple[HoldingView, ...]
    stacks: tuple[StackView, ...]
    devices: tuple[DeviceView, ...]
    measures: tuple[MeasureGroup, ...]
    """The host's figures, those that were not seen among them."""
    incidents: tuple[IncidentView, ...]
    environment: tuple[Figure, ...]
    versions: tuple[Figure, ...]
    host: tuple[Figure, ...]
    variables: tuple[Figure, ...]
    excerpts: tuple[ExcerptView, ...]
    facts: tuple[FactView, ...]
    inputs: tuple[InputRecord, ...]
    notes: tuple[str, ...]

    @property
    def subject(self) -> str:
        """The place that the report is about, beside the verdict; an engine's plan is none."""
        return self.budget.where if self.budget is not None and self.budget.place not in PLANS else ""

    @property
    def host_seen(self) -> bool:
        """Whether anything of the host was."""
        return any(each.seen for group in self.measures for each in group.measures)

    @property
    def moment_of_failure_seen(self) -> bool:
        """Whether there is anything to show of it: a budget, who held it, the request."""
        return bool(self.budget or self.holdings or self.stacks or self.failed_requests)

    @property
    def budgets(self) -> tuple[BudgetView, ...]:
        """All of them, that of the place the report is about first."""
        return (*(() if self.budget is None else (self.budget,)), *self.other_budgets)

    @property
    def sections(self) -> tuple[tuple[str, str], ...]:
        """What stands below the first screen: anchor and title, in order."""
        there = (
            ("evidence", _("Evidence"), True),
            ("timeline", _("Timeline"), True),
            ("window", _("Live memory over time"), self.windows),
            ("failure", _("The moment of failure"), self.moment_of_failure_seen),
            ("processes", _("Processes"), True),
            ("host", _("Host"), True),
            ("environment", _("Environment"), self.environment or self.versions or self.host or self.variables),
            ("excerpts", _("Log excerpts"), self.excerpts),
            ("facts", _("Every fact"), self.facts),
            ("collect", _("What is missing"), self.missing),
        )
        return tuple((anchor, title) for anchor, title, shown in there if shown)


def view_report(diagnosis: Diagnosis) -> ReportView:
    """All that a report shows of a diagnosis."""
    budgets = _primary_first(diagnosis)
    anchors = make_anchors(diagnosis)
    bars = [view_budget(budget) for budget in budgets]
    findings = view_findings(diagnosis, anchors)
    # The cause has its own place, a few lines below.
    summary = diagnosis.summary.replace(diagnosis.why, "", 1) if findings else diagnosis.summary
    headline, lead = split_summary(summary, _(TAGS[diagnosis.verdict]))
    holdings = view_holdings(diagnosis.holdings, diagnosis.budgets)
    environment = diagnosis.environment
    moments = view_moments(diagnosis.moments, diagnosis.incidents, anchors)
    return ReportView(
        version=__version__,
        made=format_moment(diagnosis.made_seconds) if diagnosis.made_seconds else "",
        fingerprint=one_line(diagnosis.fingerprint, 120),
        verdict=diagnosis.verdict.value,
        nothing_read=diagnosis.nothing_read,
        tag=_tag(diagnosis),
        headline=headline,
        lead=lead,
        budget=bars[0] if bars else None,
        loose=view_loose(diagnosis),
        other_budgets=tuple(bars[1:]),
        others_alike=group_alike(bars[1:]),
        cause=findings[0] if findings else None,
        holders=_holders(holdings, bars[0] if bars else None, findings),
        change=_change(findings),
        comparisons=tuple(map(view_comparison, diagnosis.comparisons)),
        estimated=None if diagnosis.estimated is None else view_estimated(diagnosis.estimated),
        misuses=tuple(map(view_misuse, diagnosis.misuses)),
        missing=() if diagnosis.nothing_read else (*_not_read(diagnosis), *_missing(diagnosis)),
        findings=findings,
        moments=moments,
        charts=view_charts(
            diagnosis.series,
            diagnosis.incidents,
            moments,
            failure_seconds(diagnosis.incidents, diagnosis.moments),
            diagnosis.courses,
            marked_points(diagnosis.series, diagnosis.facts),
        ),
        windows=tuple(map(view_window, diagnosis.windows)),
        failed_requests=tuple(view_failed_request(each, diagnosis.findings) for each in diagnosis.failed_requests),
        holdings=holdings,
        stacks=view_stacks(diagnosis.stack_trees),
        devices=view_devices(diagnosis.devices),
        measures=view_host(diagnosis.facts, anchors),
        incidents=tuple(view_incident(each, anchors) for each in diagnosis.incidents),
        environment=tuple(view_environment(diagnosis)),
        versions=view_pairs(environment.versions),
        host=view_machine(environment.host),
        variables=view_pairs(environment.variables),
        excerpts=tuple(view_excerpts(diagnosis)),
        facts=tuple(view_facts(diagnosis, anchors)),
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
    if diagnosis.nothing_read:
        return _("Nothing was read")
    first = diagnosis.incidents[0] if diagnosis.incidents else None
    # An error's own words may not tell which device it was.
    told = first is not None and (is_device(first.where) or first.cause == DEVICE_OUT_OF_MEMORY)
    on_device = told or any("device" in finding.scope for finding in diagnosis.findings[:1])
    verdict, several = verdict_in_words(diagnosis.verdict, on_device), len(diagnosis.incidents)
    counted = diagnosis.facts.value("oom.count")
    if several > 1 and isinstance(counted, int):
        several = max(several, counted)  # of very many not each has a record
    if diagnosis.verdict is Verdict.UNDETERMINED and diagnosis.findings:
        verdict = _("No failed allocation seen")
    if several < 2:
        return verdict
    places = {incident.where for incident in diagnosis.incidents}
    if places <= set(failed_devices(diagnosis.facts)) and len(places) == several:
        return _("{verdict} · {number} devices failed").format(verdict=verdict, number=several)
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
    free = sum(part.bytes for part in budget.parts if category_of(part.name) is FREE)
    # Nothing is free where the parts fill the place; where they do not, it is not known.
    known = free > 0 or budget.unattributed_bytes <= _FULL * budget.total_bytes
    return free / budget.total_bytes if known and budget.total_bytes > 0 else 1.0


def _holders(
    holdings: tuple[HoldingView, ...], bar: BudgetView | None, findings: tuple[FindingView, ...]
) -> tuple[Figure, ...]:
    """The three largest owners of the place that are worth a look, less whom the first diagnosis names as the owner."""
    here = sorted(
        (each for each in holdings if each.is_owner and (bar is None or each.where == bar.place)),
        key=lambda each: -each.bytes,
    )
    least = 0 if bar is None else _WORTH_A_LOOK * bar.total_bytes
    owner = (findings[0].owner if findings else None) or ""
    worth = [each for place, each in enumerate(here[:3]) if place == 0 or each.bytes >= least]
    return tuple(Figure(one_line(each.owner, _HOLDER), each.size) for each in worth if not _is_named(each.owner, owner))


def _is_named(holder: str, owner: str) -> bool:
    """Whether a holder is the owner, or what it holds the memory for (`keys and values in list …` of `list …`)."""
    process = _PROCESS.search(holder)
    core = _PREFIX.sub("", holder).removesuffix("）")
    return core in owner or (process is not None and re.search(rf"\bpid {process[1]}\b", owner) is not None)


def _change(findings: tuple[FindingView, ...]) -> RemedyView | None:
    """The first remedy of the best diagnosis that is enough by itself; else its first. The order is the playbook's."""
    remedies = findings[0].remedies if findings else ()
    return next((each for each in remedies if each.enough), remedies[0] if remedies else None)
