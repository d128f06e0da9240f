"""GIVEN a run by category WHEN opened THEN the pointer reads each part, and a link to a sample marks it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report.diagnoses import host_list
from report.large import _course

from oomdoctor.diagnose import diagnose
from oomdoctor.model.diagnosis import Series
from oomdoctor.report import render

WIDE = {"width": 1280, "height": 800}
ROOT = Path(__file__).parents[2]


@pytest.fixture
def divided(tmp_path: Path) -> Path:
    course = _course("cuda:0", 1)
    used = Series("cuda:0", "used on the device", course.times_seconds, (1,) * len(course.times_seconds), "s", 80 << 30)
    path = tmp_path / "divided.html"
    path.write_text(render(replace(host_list(), series=(used,), courses=(course,)), "html"), encoding="utf-8")
    return path


def test_the_pointer_reads_every_part_from_the_axis_up(opened: Any, divided: Path) -> None:
    page = opened(divided, viewport=WIDE)
    plot = page.page.locator("#timeline-of-1 .live .u-over")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    told = page.page.locator("#timeline-of-1 .reading").inner_text()
    names = (
        "other processes 2.00 GiB",
        "context and libraries 1.00 GiB",
        "weights 12.00 GiB",
        "activations",
        "idle in",
    )
    places = [told.index(name) for name in names]
    assert places == sorted(places)
    assert page.complaints == []


def test_without_scripts_the_parts_are_a_picture_in_the_colours_of_the_bar(opened: Any, divided: Path) -> None:
    page = opened(divided, viewport=WIDE, java_script_enabled=False)
    drawn = page.page.locator("#timeline-of-1 .area")
    assert drawn.count() == 5
    fills = {drawn.nth(place).get_attribute("fill") for place in range(5)}
    assert len(fills) == 5
    heights = [drawn.nth(place).bounding_box()["height"] for place in range(5)]
    assert heights == sorted(heights, reverse=True), "the lower ones lie over the higher"


@pytest.mark.parametrize("scripts", [True, False])
def test_a_link_to_a_sample_marks_it(opened: Any, tmp_path: Path, scripts: bool) -> None:
    path = tmp_path / "list.html"
    path.write_text(render(diagnose([ROOT / "sample_logs" / "run-list-own-limit"]), "html"), encoding="utf-8")
    page = opened(path, viewport=WIDE, java_script_enabled=scripts).page
    link = page.locator("a[href='#point-1-rise']").first
    link.click()
    row = page.locator("#point-1-rise")
    assert row.is_visible()
    box = row.bounding_box()
    assert 0 <= box["y"] < WIDE["height"]
    if scripts:
        ring = page.evaluate("getComputedStyle(document.getElementById('point-1-rise')).outlineStyle")
        thick = page.evaluate("getComputedStyle(document.querySelector('.sample-a .point')).strokeWidth")
        assert (ring, thick) == ("solid", "5px")


NASTY = (
    "</script><script>document.title='acted'</script><img src=x onerror=document.title='acted'>",
    "{{7*7}} \u202eabc\u2066 a\u200bb\ufeff\u2028 \x1b[31m\x00",
    "A" * 10_000,
    "\N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL}" * 200 + "显存不足" * 400,
    "\" onmouseover='x' line\nbreak\r\n\ttab <!-- ]]>",
)


@pytest.mark.parametrize("text", NASTY, ids=["markup", "marks", "long", "faces", "quotes"])
def test_whatever_a_part_is_called_stays_text_and_within_a_telephone(opened: Any, tmp_path: Path, text: str) -> None:
    course = _course("cuda:0", 1)
    parts = tuple(replace(part, name=f"{text} {place}", how_known=text) for place, part in enumerate(course.parts[:3]))
    left = tuple(map(sum, zip(*(part.values_bytes for part in course.parts[3:]), strict=True)))
    rest = replace(course.parts[-1], values_bytes=left)
    course = replace(course, parts=(*parts, rest), how_sampled=text)
    used = Series("cuda:0", text, course.times_seconds, (1,) * len(course.times_seconds), text, 80 << 30)
    other = replace(used, where=text)
    path = tmp_path / "nasty.html"
    path.write_text(render(replace(host_list(), series=(used, other), courses=(course,)), "html"), encoding="utf-8")
    page = opened(path, viewport={"width": 390, "height": 844})
    assert (page.complaints, page.requests) == ([], [path.as_uri()])
    assert page.page.title() != "acted"
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.page.locator("#timeline-of-1 .area").count() == 1


@pytest.mark.parametrize(
    ("step", "seconds", "told"),
    [
        (60, (-300, -240, -60, 0), ("−5 min", "−4 min", "−60 s", "0")),
        (30, (-150, -120, -90), ("−2 min 30 s", "−2 min", "−90 s")),
        (0.5, (-200.5, -200, -45.5, -2.5), ("−3 min 20.5 s", "−3 min 20.0 s", "−45.5 s", "−2.50 s")),
        (0.001, (-2.001, -2.002, -0.004), ("−2.001 s", "−2.002 s", "−4.00 ms")),
        (3600, (-7200, -10800), ("−2 h 00 min", "−3 h 00 min")),
    ],
)
def test_two_times_of_an_axis_never_read_alike(
    opened: Any, divided: Path, step: float, seconds: tuple[float, ...], told: tuple[str, ...]
) -> None:
    texts = (ROOT / "oomdoctor/report/assets/charts/texts.js").read_text(encoding="utf-8")
    page = opened(divided, viewport=WIDE).page
    found = page.evaluate(
        f"given => {{ {texts}; return given[1].map(each => tick(each, given[0])); }}", [step, seconds]
    )
    assert tuple(found) == told
