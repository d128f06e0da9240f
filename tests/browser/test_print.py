"""GIVEN a report WHEN it is printed THEN the PDF holds all of it, opened, in pieces that a page holds."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from report.diagnoses import fragmentation

from oomdoctor.diagnose import diagnose
from oomdoctor.report import render

ROOT = Path(__file__).parents[2]
PAPER = {"width": 695, "height": 1020}
"""Of A4 less the margins, in the pixels of a style sheet."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("print") / "report.html"
    path.write_text(render(diagnose([ROOT / "sample_logs" / "run-kept-losses"]), "html"), encoding="utf-8")
    return path


def test_the_first_page_is_the_answer_and_folded_lines_are_open(opened: Any, report: Path, tmp_path: Path) -> None:
    paper = opened(report, color_scheme="dark").printed("print-run-kept-losses")
    assert paper.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) > 5
    if shutil.which("pdftotext") is None:
        pytest.skip("the texts of the pages: no pdftotext on PATH (apt-get install poppler-utils)")
    (tmp_path / "report.pdf").write_bytes(paper)
    told = subprocess.run(["pdftotext", "-layout", tmp_path / "report.pdf", "-"], capture_output=True, check=True)
    first, *others = told.stdout.decode().split("\f")
    for words in ("ran out of memory", "activations saved for backward", "confirmed", "loss.item()", "Not seen"):
        assert words in first
    assert "Speaks for it" not in first
    rest = "\n".join(others)
    assert "growth.steady" in rest, "the rule's own lines are folded on the screen"
    assert "How to collect what is missing" in rest


def test_nothing_is_wider_than_the_paper_and_no_picture_higher(opened: Any, report: Path) -> None:
    page = opened(report, viewport=PAPER).page
    page.emulate_media(media="print")
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.scrollWidth") <= PAPER["width"]
    heights = page.evaluate("[...document.querySelectorAll('svg')].map(each => each.getBoundingClientRect().height)")
    assert max(heights) < PAPER["height"]


def test_without_colours_each_category_has_its_pattern(opened: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(render(fragmentation(), "html"), encoding="utf-8")
    page = opened(path, viewport=PAPER).page
    fills = "[...document.querySelectorAll('.budget .chip rect:first-child')].map(each => getComputedStyle(each).fill)"
    assert not any("pattern" in each for each in page.evaluate(fills))
    page.emulate_media(media="print")
    printed = [each for each in page.evaluate(fills) if each != "rgb(255, 255, 255)"]  # what is free is an outline
    assert len(printed) > 10
    assert {each for each in printed if "#pattern-print-" not in each} == set()
    assert len(set(printed)) == 8
