"""GIVEN a report WHEN a real browser opens it THEN it asks for nothing, runs only its own scripts, and can be read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from snapshots import programs
from snapshots.make import MIB, Device, frame, snapshot, write

from oomdoctor.diagnose import diagnose
from oomdoctor.report import render

ROOT = Path(__file__).parents[2]
REPORTS = sorted((ROOT / "reports").glob("*.html"))
WIDE = {"width": 1280, "height": 800}
NARROW = {"width": 390, "height": 844}


VIEWS: dict[str, dict[str, Any]] = {
    "wide": {"viewport": WIDE},
    "narrow": {"viewport": NARROW},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "plain": {"viewport": WIDE, "java_script_enabled": False},
}
RICH = ("run-kept-losses", "fragmentation")
"""Reports with every kind of picture: these are looked at in every view each time."""


@pytest.mark.parametrize(
    ("path", "name"),
    [
        pytest.param(
            path,
            name,
            id=f"{path.stem}-{name}",
            marks=() if name == "wide" or path.stem in RICH else pytest.mark.extended,
        )
        for path in REPORTS
        for name in VIEWS
    ],
)
def test_a_sample_opens_without_complaint_or_request(opened: Any, path: Path, name: str) -> None:
    options = VIEWS[name]
    page = opened(path, **options)
    assert page.complaints == []
    assert page.requests == [path.absolute().as_uri()]
    width = page.page.evaluate("document.documentElement.scrollWidth") if name != "plain" else 0
    assert width <= options["viewport"]["width"]
    assert page.page.locator("h1").is_visible()
    page.picture(f"{path.stem}-{name}-first", whole=False)
    page.picture(f"{path.stem}-{name}")


@pytest.fixture
def report(tmp_path: Path) -> Path:
    device = programs.kept_outputs()
    device.fail(1 << 30, 5 << 20, [frame("<module>", "/home/me/main.py", 7)])
    path = tmp_path / "report.html"
    path.write_text(render(diagnose([write(tmp_path / "s.pickle", snapshot(device))]), "html"), encoding="utf-8")
    return path


def test_the_pointer_reads_values(opened: Any, report: Path) -> None:
    page = opened(report, viewport=WIDE).page
    over = page.locator(".window .u-over").first
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert "in all" in page.locator(".window .reading").first.inner_text()


def test_dragging_zooms_and_escape_shows_all_again(opened: Any, report: Path) -> None:
    page = opened(report, viewport=WIDE).page
    over = page.locator(".window .u-over").first
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    before = page.locator(".window canvas").first.screenshot()
    page.mouse.move(box["x"] + 100, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 50)
    page.mouse.up()
    page.mouse.move(5, 5)
    zoomed = page.locator(".window canvas").first.screenshot()
    assert zoomed != before
    page.locator(".window .live").first.focus()
    page.keyboard.press("Escape")
    page.wait_for_timeout(100)
    assert page.locator(".window canvas").first.screenshot() != zoomed


def test_the_keyboard_reads_values(opened: Any, report: Path) -> None:
    page = opened(report, viewport=WIDE).page
    page.locator(".window .live").first.focus()
    page.keyboard.press("ArrowLeft")
    first = page.locator(".window .reading").first.inner_text()
    page.keyboard.press("ArrowLeft")
    assert first
    assert page.locator(".window .reading").first.inner_text() != first


def test_print_shows_the_static_pictures(opened: Any, report: Path) -> None:
    page = opened(report, viewport=WIDE).page
    assert not page.locator(".window svg.timeline").first.is_visible()
    page.emulate_media(media="print")
    assert page.locator(".window svg.timeline").first.is_visible()
    assert not page.locator(".window .uplot").first.is_visible()


def test_a_category_of_owners_opens_and_closes(opened: Any, tmp_path: Path) -> None:
    path = next(path for path in REPORTS if path.stem == "run-kept-losses")
    page = opened(path, viewport=WIDE).page
    boxes = page.locator(".treemap").first.locator("[tabindex]")
    every = boxes.count()
    assert every > 3
    boxes.first.click()
    inside = boxes.count()
    assert 0 < inside < every
    boxes.first.focus()
    page.keyboard.press("Escape")
    assert boxes.count() == every


@pytest.fixture
def timed() -> Path:
    return next(path for path in REPORTS if path.stem == "run-kept-losses")


def test_a_chart_of_the_run_is_read_by_the_pointer_and_the_others_follow(opened: Any, timed: Path) -> None:
    page = opened(timed, viewport={"width": 1280, "height": 1600}).page
    charts = page.locator("#timeline ~ figure .live")
    assert charts.count() >= 3
    first = charts.first.locator(".u-over")
    first.scroll_into_view_if_needed()
    page.wait_for_timeout(100)
    box = first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 30)
    page.wait_for_timeout(50)
    assert re.search(r"\d [KMG]iB", charts.first.locator(".reading").inner_text())
    assert charts.nth(1).locator(".reading").inner_text() != ""


def test_zooming_one_chart_of_the_run_zooms_all_and_escape_shows_all_again(opened: Any, timed: Path) -> None:
    page = opened(timed, viewport=WIDE).page
    charts = page.locator("#timeline ~ figure .live")
    last = charts.last
    before = last.locator("canvas").screenshot()
    over = charts.first.locator(".u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 50)
    page.mouse.up()
    page.mouse.move(2, 2)
    zoomed = last.locator("canvas").screenshot()
    assert zoomed != before
    charts.first.focus()
    page.keyboard.press("Escape")
    page.wait_for_timeout(100)
    assert last.locator("canvas").screenshot() != zoomed


def test_a_frame_of_the_stacks_opens_and_closes(opened: Any, tmp_path: Path) -> None:
    device = Device()
    for line in range(5, 9):
        device.malloc(line * MIB, [frame("forward", "/x/net.py", line), frame("main", "/x/main.py", line // 7)])
    path = tmp_path / "report.html"
    path.write_text(render(diagnose([write(tmp_path / "s.pickle", snapshot(device))]), "html"), encoding="utf-8")
    page = opened(path, viewport=WIDE).page
    boxes = page.locator(".frames [tabindex]")
    every = boxes.count()
    assert every == 6
    boxes.first.click()
    assert 0 < boxes.count() < every
    assert boxes.first.bounding_box()["width"] == pytest.approx(page.locator(".frames").bounding_box()["width"], abs=2)
    page.keyboard.press("Tab")
    boxes.first.focus()
    assert "main.py" in page.locator(".frames .reading").inner_text()
    page.keyboard.press("Escape")
    assert boxes.count() == every


def test_the_line_of_the_remedy_is_copied_with_a_button(opened: Any, timed: Path) -> None:
    page = opened(timed, viewport=WIDE).page
    page.locator(".change .copy-button").first.click()
    assert page.evaluate("getSelection().toString().trim()") == page.locator(".change .copy code").first.inner_text()
    assert page.locator(".change .copy-button").first.inner_text() in ("Copied", "Selected")


@pytest.mark.parametrize("scripted", [True, False])
def test_the_table_of_facts_is_folded_and_a_link_into_it_opens_it(opened: Any, tmp_path: Path, scripted: bool) -> None:
    path = tmp_path / "report.html"
    path.write_text(render(diagnose([ROOT / "sample_logs" / "run-list-own-limit"]), "html"), "utf-8")
    page = opened(path, java_script_enabled=scripted).page
    link = page.locator("a[href^='#fact-']:visible").first
    row = page.locator(f"[id='{link.get_attribute('href', timeout=10_000)[1:]}']")
    assert not row.is_visible()
    link.click(timeout=10_000)
    row.wait_for(state="visible", timeout=10_000)
    assert page.locator("details.folded").get_attribute("open") is not None


def test_without_scripts_the_stacks_and_the_timeline_are_pictures(opened: Any, timed: Path) -> None:
    page = opened(timed, viewport=WIDE, java_script_enabled=False).page
    assert page.locator("svg.stacks").first.is_visible()
    assert page.locator("#timeline ~ figure svg.timeline").count() >= 3
    assert page.locator(".live").count() == 0


HOSTILE = [
    "<script>document.title='pwned'</script>",
    "</script><script>document.title='pwned'</script>",
    '"><img src=x onerror="document.title=\'pwned\'">',
    "';document.title='pwned';//",
    "<!--<script>document.title='pwned'",
    "\u2028document.title='pwned'",
]


def hostile_rules(folder: Path, words: str) -> Path:
    """A rule of somebody else's, every text of which is the attack."""
    text = words.replace("{", "").replace("}", "")
    rule = {
        "id": "BAD001", "cause": "fragmentation", "title": text, "scope": "incident", "when": ["oom.count > 0"],
        "explain": text, "owner": text,
        "remedies": [{"id": "one", "do": text, "cost": text, "source": text}],
        "not_remedies": [{"what": text, "why": text}], "to_confirm": [{"what": text, "command": text}],
    }  # fmt: skip
    (folder / "bad").mkdir(parents=True)
    (folder / "bad" / "BAD001-attack.yaml").write_text(yaml.safe_dump(rule, allow_unicode=True), encoding="utf-8")
    return folder


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_names_stay_text(opened: Any, tmp_path: Path, words: str) -> None:
    device = Device()
    device.free(device.malloc(200 * MIB, []))
    rows = [device.malloc(20 * MIB, [frame(words, f"/x/{number}{words}.py", number + 1)]) for number in range(9)]
    for row in rows[::2]:
        device.free(row)
    device.fail(90 * MIB, 4 * MIB, [frame(words, f"/x/{words}.py", 1)])
    snapshot_path = write(tmp_path / "s.pickle", snapshot(device))
    log = tmp_path / "a.log"
    log.write_text(
        f"{words}\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 90.00 MiB. {words}\n{words}\n"
    )
    smi = tmp_path / "smi.csv"
    smi.write_text(f"pid, process_name, used_gpu_memory [MiB]\n12, {words.replace(',', ' ')}, 900 MiB\n")
    rules = hostile_rules(tmp_path / "rules", words)
    diagnosis = diagnose([snapshot_path, log, smi], command=f"python {words}", rules=[rules])
    assert any(finding.rule == "BAD001" for finding in diagnosis.findings)
    path = tmp_path / "report.html"
    path.write_text(render(diagnosis, "html"), encoding="utf-8")
    page = opened(path, viewport=WIDE)
    assert page.complaints == []
    assert page.requests == [path.as_uri()]
    assert page.page.locator("#rule-BAD001").count() == 1
    assert "pwned" not in page.page.title() or "<script>" in page.page.title()
    assert page.page.evaluate("document.querySelectorAll('img, iframe, object, embed').length") == 0
