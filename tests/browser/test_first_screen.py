"""GIVEN any report WHEN it opens without scripts THEN the answer is on the first screen, also on a telephone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report.diagnoses import ORDINARY, close, fragmentation

from oomdoctor.diagnose import diagnose
from oomdoctor.language import speaking
from oomdoctor.model.diagnosis import Budget, BudgetPart, Diagnosis
from oomdoctor.model.units import GIB, MIB
from oomdoctor.report import render
from oomdoctor.report.view import ReportView, view_report

ROOT = Path(__file__).parents[2]
SAMPLES = sorted(path for path in (ROOT / "sample_logs").iterdir() if path.name != "README.md")
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
BELOW = """needs => needs.filter(each => {
  const found = document.querySelector('.answer ' + each);
  return !found || !found.getClientRects().length || found.getBoundingClientRect().bottom > innerHeight;
})"""


def needs(view: ReportView, *, wide: bool) -> list[str]:
    """What the first screen must show of the report: every part of the answer that there is."""
    wanted = {
        "h1": True,
        ".budget .bar": view.budget,
        ".cause": view.cause,
        ".confidence": view.cause,
        ".change .do": view.change or view.missing,
        ".change .copy": view.change and view.change.lines,
        ".change .effect": view.change and view.change.effect,
        ".unseen": view.missing or view.cause,
        ".budget .legend": wide and view.budget and view.budget.segments,
        ".others": wide and view.others_alike,
    }
    return [selector for selector, there in wanted.items() if there]


def eight_cards(*, alike: bool) -> Diagnosis:
    """The failing one and seven more: ranks that hold the same but for a little, or each something else."""
    first = fragmentation().budgets[0]
    others = tuple(
        close(
            f"cuda:{index}",
            first.total_bytes,
            [("weights", (3 if alike else index) * GIB + index * MIB, "measured"), ("free", GIB, "measured")],
        )
        for index in range(1, 8)
    )
    return replace(fragmentation(), budgets=(first, *others))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, ReportView]:
    folder = tmp_path_factory.mktemp("first")
    made = {name: ("en", make()) for name, make in ORDINARY.items()}
    made |= {f"eight-{alike}": ("en", eight_cards(alike=alike)) for alike in (True, False)}
    for language in ("en", "zh"):
        with speaking(language):
            made |= {f"{path.name}.{language}": (language, diagnose([path])) for path in SAMPLES}
    found = {}
    for name, (language, diagnosis) in made.items():
        with speaking(language):
            path = folder / f"{name}.html"
            path.write_text(render(diagnosis, "html"), encoding="utf-8")
            found[path] = view_report(diagnosis)
    return found


@pytest.mark.parametrize("window", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_answer_needs_no_scrolling(opened: Any, written: dict[Path, ReportView], window: dict[str, int]) -> None:
    page = opened(next(iter(written)), viewport=window, java_script_enabled=False).page
    below = {}
    for path, view in written.items():
        page.goto(path.as_uri())
        below[path.stem] = page.evaluate(BELOW, needs(view, wide=window is WIDE))
    assert {name: missing for name, missing in below.items() if missing} == {}


def test_a_part_that_is_not_there_is_found_missing(opened: Any, written: dict[Path, ReportView]) -> None:
    """Else the test above would pass whatever a template leaves out."""
    page = opened(next(iter(written)), viewport=WIDE).page
    for selector in needs(next(iter(written.values())), wide=True):
        page.reload()
        page.evaluate("each => document.querySelectorAll('.answer ' + each).forEach(one => one.remove())", selector)
        assert page.evaluate(BELOW, [selector]) == [selector]


def test_of_eight_cards_the_failing_one_comes_first_and_the_equal_ones_are_one_line(
    opened: Any, tmp_path: Path
) -> None:
    path = tmp_path / "eight.html"
    path.write_text(render(eight_cards(alike=True), "html"), encoding="utf-8")
    page = opened(path, viewport=WIDE)
    assert page.page.locator(".answer .budget figcaption strong").inner_text() == "cuda:0"
    assert page.page.locator(".others .name").all_inner_texts() == ["cuda:1–7"]
    page.picture("eight-alike", whole=False)
    path.write_text(render(eight_cards(alike=False), "html"), encoding="utf-8")
    page = opened(path, viewport=WIDE)
    assert page.page.locator(".others .name").count() == 7
    page.picture("eight-different", whole=False)


def test_a_telephone_names_the_largest_parts_and_links_to_the_rest(opened: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(render(fragmentation(), "html"), encoding="utf-8")
    page = opened(path, viewport=NARROW).page
    shown = page.locator(".answer .legend li:visible .name").all_inner_texts()
    assert shown == [
        "weights",
        "optimizer state",
        "activations",
        "idle in the allocator",
        "free",
        "5 smaller parts",
        "asked for",
    ]
    page.set_viewport_size(WIDE)
    assert page.locator(".answer .legend li.rest").is_hidden()
    assert page.locator(".answer .legend li.minor:visible").count() == 5


@pytest.mark.parametrize("viewport", [WIDE, NARROW])
def test_small_bars_have_whole_names_and_one_scale(opened: Any, tmp_path: Path, viewport: dict[str, int]) -> None:
    """GIVEN groups of ranks and a host WHEN drawn small THEN no name is cut, and as many pixels are as much of each."""
    known = fragmentation()
    rest = tuple(
        Budget(f"cuda:{index}", 24 * GIB, (BudgetPart("weights", held * GIB, "m"), BudgetPart("free", free, "m")), 0)
        for index, held in enumerate((9, 4, 9, 4, 14), 1)
        for free in (24 * GIB - held * GIB,)
    )
    path = tmp_path / "report.html"
    path.write_text(render(replace(known, budgets=(*known.budgets[:1], *rest)), "html"), "utf-8")
    page = opened(path, viewport=viewport, java_script_enabled=True).page
    names = page.locator(".others:not(.loose) .name").evaluate_all("all => all.map(e => e.scrollWidth - e.clientWidth)")
    widths = page.locator(".others:not(.loose) svg.bar").evaluate_all(
        "all => all.map(e => Math.round(e.getBoundingClientRect().width))"
    )
    assert len(names) >= 3
    assert set(names) == {0}
    assert len(set(widths)) == 1
