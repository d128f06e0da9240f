"""GIVEN a run that nobody saw from outside, or very many devices WHEN opened THEN it is drawn, and folds open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from report.diagnoses import fragmentation

from oomdoctor.diagnose import diagnose
from oomdoctor.model.diagnosis import Series
from oomdoctor.model.units import GIB
from oomdoctor.report import render

ROOT = Path(__file__).parents[2]
WIDE = {"width": 1280, "height": 800}


def test_charts_that_are_folded_are_drawn_when_they_are_opened(opened: Any, tmp_path: Path) -> None:
    times = tuple(float(each) for each in range(20))
    series = tuple(Series(f"cuda:{each}", "used", times, (GIB,) * 20, "by the sampler", 2 * GIB) for each in range(20))
    path = tmp_path / "many.html"
    path.write_text(render(replace(fragmentation(), series=series, courses=()), "html"), encoding="utf-8")
    page = opened(path, viewport=WIDE)
    live = ".course .live"
    assert page.page.locator(live).count() == 8
    page.page.locator("#timeline ~ details.folded > summary").click()
    page.page.wait_for_function(f"document.querySelectorAll({live!r}).length === 20", timeout=10_000)
    assert page.page.locator("#timeline-of-20 .live").bounding_box()["width"] > 1000
    assert page.complaints == []


def test_what_was_not_seen_is_drawn_with_and_without_scripts(opened: Any, tmp_path: Path) -> None:
    path = tmp_path / "kept.html"
    path.write_text(render(diagnose([ROOT / "sample_logs" / "run-kept-losses"]), "html"), encoding="utf-8")
    plain = opened(path, viewport=WIDE, java_script_enabled=False).page
    assert plain.locator("svg.timeline rect.unseen").count() == 1
    assert plain.locator("svg.timeline text", has_text="not seen").is_visible()
    page = opened(path, viewport=WIDE)
    assert page.page.locator("#timeline-of-4 .live canvas").is_visible()
    assert page.complaints == []
