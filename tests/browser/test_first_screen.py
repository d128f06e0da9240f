"""GIVEN any report WHEN it opens without scripts THEN the answer is on the first screen, also on a telephone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report.diagnoses import ORDINARY, close, fragmentation

from oomdoctor.diagnose import diagnose
from oomdoctor.language import speaking
from oomdoctor.model.diagnosis import Diagnosis
from oomdoctor.model.units import GIB, MIB
from oomdoctor.report import render

ROOT = Path(__file__).parents[2]
SAMPLES = sorted(path for path in (ROOT / "sample_logs").iterdir() if path.name != "README.md")
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
NARROW_NEEDS = ("h1", ".budget .bar", ".cause", ".confidence", ".change .do", ".change .copy", ".change .effect")
WIDE_NEEDS = (*NARROW_NEEDS, ".budget .legend", ".others", ".unseen")
BELOW = """needs => needs.filter(each => {
  const found = document.querySelector('.answer ' + each);
  return found && found.getBoundingClientRect().bottom > innerHeight;
})"""


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
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("first")
    texts = {name: render(make(), "html") for name, make in ORDINARY.items()}
    texts |= {f"eight-{alike}": render(eight_cards(alike=alike), "html") for alike in (True, False)}
    for language in ("en", "zh"):
        with speaking(language):
            texts |= {f"{path.name}.{language}": render(diagnose([path]), "html") for path in SAMPLES}
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return [folder / f"{name}.html" for name in texts]


@pytest.mark.parametrize(("window", "needs"), [(WIDE, WIDE_NEEDS), (NARROW, NARROW_NEEDS)], ids=["wide", "narrow"])
def test_the_answer_needs_no_scrolling(
    opened: Any, written: list[Path], window: dict[str, int], needs: tuple[str, ...]
) -> None:
    page = opened(written[0], viewport=window, java_script_enabled=False).page
    below = {}
    for path in written:
        page.goto(path.as_uri())
        below[path.stem] = page.evaluate(BELOW, needs)
    assert {name: missing for name, missing in below.items() if missing} == {}


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
