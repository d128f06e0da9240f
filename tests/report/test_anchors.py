"""GIVEN a source of evidence WHEN the page is made THEN it leads to the line, chart, map or table that shows it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from diagnoses import fragmentation
from pages import Page

from oomdoctor.diagnose import diagnose
from oomdoctor.report import render
from oomdoctor.report.anchors import Anchors, make_anchors
from oomdoctor.report.view import view_report

SAMPLES = Path(__file__).parents[2] / "sample_logs"
NAMES = sorted(path.name for path in SAMPLES.iterdir() if path.name != "README.md")
EVERYWHERE = Anchors(
    {}, {("a.log", 7): "line-1-7"}, frozenset({"holdings", "window", "request", "timeline", "incidents", "host"}),
    frozenset({"smi.txt:3"}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("source", "anchor"),
    [
        ("a.log:7", "line-1-7"),
        ("a.log:7 (device-oom)", "line-1-7"),
        ("a.log:8", ""),
        ("smi.txt:3", "processes"),
        ("probe/1.records:5 (census)", "holdings"),
        ("s.pickle (4133 events of device 0)", "window"),
        ("s.pickle (oom event 4132)", "request"),
        ("s.pickle (final state of device 0)", "request"),
        ("my-run (13 samples until the failure)", "timeline"),
        ("my-run (counters)", "host"),
        ("my-run (exit)", "incidents"),
        ("a (census).log", ""),
        ("from oom.requested_bytes", ""),
    ],
)
def test_a_source_leads_to_what_shows_it(source: str, anchor: str) -> None:
    assert EVERYWHERE.of_source(source) == anchor


def test_no_section_is_named_that_is_not_there() -> None:
    bare = replace(fragmentation(), holdings=(), windows=(), failed_requests=(), series=(), incidents=())
    assert make_anchors(bare).of_source("probe/1.records:5 (census)") == ""


@pytest.mark.parametrize("name", NAMES)
def test_in_every_sample_each_item_of_evidence_leads_somewhere(name: str) -> None:
    diagnosis = diagnose([SAMPLES / name])
    source = render(diagnosis, "html")
    page = Page(source)
    assert {href[1:] for href in page.values("href")} <= set(page.values("id"))
    rows = re.findall(r'<td data-label="Source" class="source">(.*?)</td>', source.partition('id="timeline"')[0])
    assert len(rows) == sum(len(finding.evidence) for finding in diagnosis.findings)
    assert [row for row in rows if not row.startswith("<a href=")] == []
    assert {f"rule-{finding.rule}" for finding in diagnosis.findings} <= set(page.values("id"))


@pytest.mark.parametrize(
    ("sample", "fact", "anchor"),
    [
        ("fragmentation", "allocator.largest_free_block_bytes", r"blocks-1"),
        ("fragmentation", "oom.requested_bytes", r"request-1"),
        ("run-kept-losses", "owner.holder_bytes", r"holding-\d+"),
        ("run-kept-losses", "growth.bytes", r"window-of-1"),
        ("run-kept-losses", "growth.top_stack_bytes", r"stacks-of-1"),
        ("run-list-own-limit", "host.growth_steady", r"point-1-rise"),
        ("run-list-own-limit", "host.memory_error", r"incident-1"),
        ("run-list-own-limit", "host.total_bytes", r"measure-host-total-bytes"),
        ("nvidia-smi-ranks-on-card-0.txt", "devices.processes_on_several", r"processes-1"),
    ],
)
def test_evidence_leads_to_the_block_stack_chart_or_row_itself(sample: str, fact: str, anchor: str) -> None:
    view = view_report(diagnose([SAMPLES / sample]))
    found = [item for finding in view.findings for item in (*finding.speaks_for, *finding.speaks_against)]
    assert {bool(re.fullmatch(anchor, item.leads_to)) for item in found if item.fact == fact} == {True}


def test_the_row_of_an_owner_is_the_one_that_names_it() -> None:
    diagnosis = diagnose([SAMPLES / "run-kept-losses"])
    view = view_report(diagnosis)
    holder = next(item for item in view.findings[0].speaks_for if item.fact == "owner.holder_bytes")
    row = next(each for each in view.holdings if each.anchor == holder.leads_to)
    assert "list 'losses'" in row.owner


def test_what_names_the_holder_comes_before_what_is_said_of_it() -> None:
    first = view_report(diagnose([SAMPLES / "run-kept-losses"])).findings[0].speaks_for[0]
    assert first.fact == "owner.holder"


def test_what_happened_leads_to_its_incident_and_an_incident_to_its_record() -> None:
    """GIVEN a run, whose records no excerpt shows THEN no event and no incident is without a link."""
    source = render(diagnose([SAMPLES / "run-kept-losses"]), "html")
    page = Page(source)
    events = source.partition('class="rows moments"')[2].partition("</table>")[0]
    leads = re.findall(r'class="source">(?:<a href="#([^"]+)">)?', events)
    assert len(leads) == 3
    assert all(leads)
    assert "incident-1" in leads
    assert re.findall(r'id="incident-1".*?class="source"><a href="#([^"]+)"', source) == ["request-1"]
    assert {*leads, "request-1"} <= set(page.values("id"))
