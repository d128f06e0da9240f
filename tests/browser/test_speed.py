"""GIVEN eight devices, a day of samples, 100,000 events WHEN the report opens THEN it is there and answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser.speed import first_paint_ms, hover_ms
from report.large import large

from oomdoctor.report import render

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def largest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "report.html"
    path.write_text(render(large(), "html"), encoding="utf-8")
    return path


def test_it_is_painted_within_a_second(browser: Any, largest: Path) -> None:
    assert first_paint_ms(browser, largest) < 1000


@pytest.mark.parametrize("selector", [".live .u-over", ".window .u-over"])
def test_a_move_of_the_pointer_is_answered_within_a_frame(browser: Any, largest: Path, selector: str) -> None:
    assert hover_ms(browser, largest, selector) < 16
