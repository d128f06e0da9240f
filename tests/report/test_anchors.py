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
