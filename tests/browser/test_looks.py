"""GIVEN a report WHEN somebody reads it THEN they can: contrast, keyboard, colours that mean one thing, Chinese."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from browser.speed import MEASURES
from harness import wait_until
from report.diagnoses import fragmentation, hostile

from oomdoctor.diagnose import diagnose
from oomdoctor.language import speaking
from oomdoctor.report import render
from oomdoctor.report.palette import CATEGORIES, category_of

ROOT = Path(__file__).parents[2]
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
COLOURS = {category.colour: category for category in CATEGORIES}
OUTSIDE = """[...document.querySelectorAll('main *')].filter(each => {
  const box = each.getBoundingClientRect();
  return box.width && (box.right > innerWidth + 1 || box.left < -1) && !each.closest(
    '.hidden, .excerpt, thead, svg svg');
}).map(each => each.tagName + ' ' + each.textContent.slice(0, 40))"""
MORE = (("rich", "dark"), ("made-up", "light"), ("chinese", "dark"))
FOCUSED = """(() => {
  const at = document.activeElement, look = getComputedStyle(at), box = at.querySelector(':scope > rect');
  const ring = look.outlineStyle !== 'none' && parseFloat(look.outlineWidth) > 0;
  return [at.tagName, ring || !!box && parseFloat(getComputedStyle(box).strokeWidth) >= 2];
})()"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run with all kinds of pictures, made up findings, and the first one in Chinese."""
    folder = tmp_path_factory.mktemp("looks")
    sample = ROOT / "sample_logs" / "run-kept-losses"
    texts = {"rich": render(diagnose([sample]), "html"), "made-up": render(fragmentation(), "html")}
    with speaking("zh"):
        texts["chinese"] = render(diagnose([sample]), "html")
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.mark.parametrize(
    ("name", "scheme"),
    [("rich", "light"), ("made-up", "dark"), *(pytest.param(*case, marks=pytest.mark.extended) for case in MORE)],
)
def test_all_text_has_the_contrast_of_wcag_aa(opened: Any, pages: dict[str, Path], name: str, scheme: str) -> None:
    page = opened(pages[name], viewport=WIDE, color_scheme=scheme).page
    page.evaluate(MEASURES)
    told = page.evaluate("measures.contrast()")
    assert told["seen"] > 100
    assert told["failed"] == []


def test_print_has_it_too(opened: Any, pages: dict[str, Path]) -> None:
    page = opened(pages["rich"], viewport=WIDE, color_scheme="dark").page
    page.emulate_media(media="print")
    page.evaluate(MEASURES)
    assert page.evaluate("measures.contrast()")["failed"] == []


def test_the_keyboard_reaches_everything_and_shows_where_it_is(opened: Any, pages: dict[str, Path]) -> None:
    page = opened(pages["made-up"], viewport=WIDE).page
    every = "a[href], button, summary, [tabindex='0']"
    reachable = page.locator(every).filter(visible=True).count()  # a narrow legend has a link of its own
    seen = []
    for _ in range(reachable):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(FOCUSED))
    shown = f"[...document.querySelectorAll({every!r})].filter(each => each.checkVisibility())"  # not what is folded
    assert page.evaluate(f"{shown}.at(-1) === document.activeElement")
    assert [tag for tag, shown in seen if not shown and tag.lower() != "summary"] == []


def test_a_colour_means_one_category_everywhere(opened: Any, pages: dict[str, Path]) -> None:
    page = opened(pages["rich"], viewport=WIDE).page
    every = "[...document.querySelectorAll('svg:not(.patterns) [fill^=\"#\"]')]"
    fills = set(
        page.evaluate(f"{every}.filter(each => !each.closest('pattern')).map(each => each.getAttribute('fill'))")
    )
    assert fills <= set(COLOURS), "a colour that is no category's"
    legends = page.evaluate(
        """[...document.querySelectorAll('.legend:not(.lines) li')].filter(each => each.querySelector('.chip'))
          .map(each => [each.querySelector('.chip rect').getAttribute('fill'),
                        each.querySelector('span').textContent])"""
    )
    assert len(legends) > 8
    for colour, name in legends:
        if colour in COLOURS:
            assert COLOURS[colour].key in _keys(name), f"{name} in the colour of {COLOURS[colour].label}"


def _keys(name: str) -> set[str]:
    return {category_of(part.strip()).key for part in re.split(r", |: at most", name)}


def test_chinese_fits_a_telephone_and_leaves_no_english_on_the_first_screen(
    opened: Any, pages: dict[str, Path]
) -> None:
    page = opened(pages["chinese"], viewport=NARROW).page
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    shown = page.locator("header.answer").inner_text()
    for quoted in page.locator("header.answer code, header.answer pre").all_inner_texts():
        shown = shown.replace(quoted, "")
    quoted = r"'[^']*'|\S+\.py\S*|\S+\(\)|[A-Za-z.]+\d*:\d+|\b(?:[KMGT]iB|CUDA|GPU|NVML|cuBLAS|list|AdamW|exp_avg)\b"
    assert re.findall(r"[A-Za-z]{4,}", re.sub(quoted, "", shown)) == []


@pytest.mark.parametrize("name", ["rich", "made-up", "chinese"])
def test_nothing_sticks_out(opened: Any, pages: dict[str, Path], name: str) -> None:
    page = opened(pages[name], viewport=WIDE).page
    assert page.evaluate(OUTSIDE) == []
    page.set_viewport_size(NARROW)
    with suppress(AssertionError):  # the charts follow the width, on a busy machine later
        wait_until(lambda: page.evaluate(OUTSIDE) == [], 10)
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


@pytest.mark.extended
@pytest.mark.parametrize("name", ["rich", "chinese"])
def test_a_picture_of_each_for_people_to_look_at(opened: Any, pages: dict[str, Path], name: str) -> None:
    page = opened(pages[name], viewport={"width": 800, "height": 1100})
    page.picture(f"looks-{name}-narrow")
    page.page.emulate_media(media="print")
    assert page.page.locator("h1").is_visible()
    page.picture(f"looks-{name}-print")


def test_the_worst_that_texts_can_be_stays_within_the_page(opened: Any, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(render(hostile(), "html"), encoding="utf-8")
    page = opened(path, viewport=NARROW)
    assert page.complaints == []
    assert page.requests == [path.as_uri()]
    assert page.page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
