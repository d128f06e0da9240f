"""GIVEN any diagnosis WHEN it is written as HTML THEN the page stands alone, runs nothing and says the answer first."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace

import pytest
from diagnoses import ALL, ATTACK, ORDINARY, fragmentation, hostile, kv_too_small, undetermined
from pages import Page

from oomdoctor.model.printable import one_line
from oomdoctor.report import render


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    return {name: Page(render(make(), "html")) for name, make in ALL.items()}


@pytest.mark.parametrize("name", ALL)
def test_the_page_loads_nothing_and_runs_only_what_is_in_it(pages: dict[str, Page], name: str) -> None:
    page = pages[name]
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"link", "img", "iframe", "object", "embed", "base", "form", "audio", "video", "image"}
    assert not [
        value
        for attribute in ("src", "srcset", "data", "action", "xlink:href", "style")
        for value in page.values(attribute)
    ]
    assert not [key for _, attributes in page.elements for key in attributes if key.startswith("on")]
    assert all(href.startswith("#") for href in page.values("href"))
    assert set(re.findall(r"url\(([^)]*)\)", page.style)) <= {f"#{each}" for each in page.values("id")}
    assert "@import" not in page.style
    assert [fill for fill in page.values("fill") if "url" in fill and not fill.startswith("url(#pattern-")] == []


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.parametrize("name", ALL)
def test_the_policy_allows_exactly_the_style_sheet_and_the_scripts(pages: dict[str, Page], name: str) -> None:
    page = pages[name]
    directives = [each.strip() for each in page.policy().split(";")]
    assert directives[:2] == ["default-src 'none'", f"style-src {_digest(page.style)}"]
    allowed = [each for each in directives if each.startswith("script-src")]
    assert allowed == ([f"script-src {' '.join(map(_digest, page.scripts))}"] if page.scripts else [])
    assert bool(page.scripts) == bool(page.data)
    assert [tag for tag, _ in page.elements].count("style") == 1


def test_the_policy_stands_before_what_it_governs(pages: dict[str, Page]) -> None:
    tags = [tag for tag, _ in pages["fragmentation"].elements]
    assert tags[:4] == ["html", "head", "meta", "meta"]
    assert pages["fragmentation"].elements[3][1]["http-equiv"] == "Content-Security-Policy"


def test_text_from_the_input_stays_text(pages: dict[str, Page]) -> None:
    page = pages["hostile"]
    ordinary = {tag for name in ORDINARY for tag, _ in pages[name].elements}
    assert {tag for tag, _ in page.elements} <= ordinary
    assert one_line(ATTACK) in page.text
    assert "{{ 7 * 7 }} {% raw %}" in page.text
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page.source
    )


def test_a_hostile_input_cannot_make_the_page_large(pages: dict[str, Page]) -> None:
    page = pages["hostile"]
    assert len(page.source) - sum(map(len, page.scripts)) < 200_000


@pytest.mark.parametrize("name", ALL)
def test_links_lead_somewhere_and_names_are_unique(pages: dict[str, Page], name: str) -> None:
    ids = pages[name].values("id")
    assert len(ids) == len(set(ids))
    assert {href[1:] for href in pages[name].values("href")} <= set(ids)
    assert {label for value in pages[name].values("aria-labelledby") for label in value.split()} <= set(ids)


@pytest.mark.parametrize("name", ALL)
def test_every_picture_says_what_it_shows(pages: dict[str, Page], name: str) -> None:
    for tag, attributes in pages[name].elements:
        if tag == "svg" and "class" in attributes:
            assert attributes.get("aria-hidden") == "true" or attributes["role"] == "img"


def test_a_rule_has_an_anchor_that_stays(pages: dict[str, Page]) -> None:
    ids = pages["fragmentation"].values("id")
    assert "rule-FRG001" in ids
    assert "rule-ACT001" in ids
    first, second = fragmentation().findings
    again = replace(second, rule="FRG001", scope={"device": "cuda:1"})
    page = Page(render(replace(fragmentation(), findings=(first, again)), "html"))
    assert [each for each in page.values("id") if each.startswith("rule-")] == ["rule-FRG001", "rule-FRG001-cuda-1"]


def test_the_first_screen_answers() -> None:
    words = "\n".join(Page(render(fragmentation(), "html")).first_screen).replace("\N{NO-BREAK SPACE}", " ")
    for answer in (
        "could not serve a request of 1.50 GiB with 396.00 MiB free of 23.69 GiB",
        "asked for 1.50 GiB",
        "idle in the allocator",
        "likely",
        "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "Frees 5.31 GiB, which is enough.",
        "Not seen:",
        "processes on cuda:1",
    ):
        assert answer in words


def test_what_was_not_measured_is_said_and_not_drawn_as_zero() -> None:
    page = Page(render(undetermined(), "html"))
    assert "not measured" in page.first_screen
    assert "0 bytes" not in page.text
    assert "Collect this next" in page.first_screen


def test_each_part_of_each_budget_is_listed_with_how_it_is_known(pages: dict[str, Page]) -> None:
    text = pages["fragmentation"].text
    for budget in fragmentation().budgets:
        for part in budget.parts:
            assert re.search(rf"{re.escape(budget.where)}\s*{re.escape(part.name)}[^<]*{part.how_known}", text), part


def test_the_order_of_the_sections() -> None:
    headings = [
        value
        for value in Page(render(fragmentation(), "html")).values("id")
        if not value.startswith(("rule-", "budget-", "small-", "chart-", "pattern-", "fact-", "line-", "report-data"))
        and not re.fullmatch(r"(?:timeline-of|incident|holding|processes|measure|input)-.+", value)
    ]
    assert headings == [
        "cause", "who", "change", "misuses", "evidence", "timeline", "incidents", "failure", "budgets", "parts",
        "holdings", "processes", "host", "environment", "excerpts", "facts", "collect", "inputs",
    ]  # fmt: skip


def test_sizes_are_binary_only(pages: dict[str, Page]) -> None:
    for name in ORDINARY:
        assert not re.search(r"\d\s*[KMGT]B\b", pages[name].text)


def test_without_evidence_there_are_no_empty_sections() -> None:
    bare = replace(kv_too_small(), findings=(), budgets=(), incidents=(), missing=(), inputs=(), excerpts=())
    page = Page(render(replace(bare, facts=type(bare.facts)(bare.facts.specs)), "html"))
    assert "No change is known to help." in page.first_screen
    assert not {"failure", "holdings", "incidents", "excerpts", "facts", "collect"} & set(page.values("id"))


def test_what_was_not_seen_has_its_section_and_says_so() -> None:
    page = Page(render(undetermined(), "html"))
    for section, said in (
        ("timeline", "Not seen: the input holds no figures of memory over time."),
        ("processes", "Not seen: no look at the devices is in the input."),
        ("host", "Not seen: the input holds no figure of the host, of a cgroup or of memory pressure."),
    ):
        assert section in page.values("id")
        assert said in page.text


def test_the_data_block_cannot_be_ended_by_what_is_in_it(pages: dict[str, Page]) -> None:
    data = pages["hostile"].data
    assert data
    assert not {"<", ">", "&"} & set(data)
    assert json.loads(data)["charts"]


def test_evidence_leads_to_the_line_it_was_read_from() -> None:
    diagnosis = fragmentation()
    excerpt = diagnosis.excerpts[0]
    item = replace(diagnosis.findings[0].evidence[0], source=f"{excerpt.path}:{excerpt.first_line}")
    finding = replace(diagnosis.findings[0], evidence=(item,))
    page = Page(render(replace(diagnosis, findings=(finding,)), "html"))
    (line,) = [each for each in page.values("id") if each == f"line-1-{excerpt.first_line}"]
    assert f"#{line}" in page.values("href")


def test_hostile_fixture_is_hostile() -> None:
    assert hostile().findings[0].title != fragmentation().findings[0].title
