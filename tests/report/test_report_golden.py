"""GIVEN the ordinary diagnoses WHEN they are rendered THEN the reports are those kept under tests/golden/report.

`OOMDOCTOR_UPDATE_GOLDEN=1 pytest tests/report` writes the files anew; read the diff before you commit it.
"""

from __future__ import annotations

import pytest
from diagnoses import ORDINARY
from golden import same_as_golden
from pages import Page

from oomdoctor.report import render

EXTENSIONS = {"json": "json", "markdown": "md", "terminal": "txt"}


@pytest.mark.parametrize("format", EXTENSIONS)
@pytest.mark.parametrize("name", ORDINARY)
def test_reports_are_as_kept(name: str, format: str) -> None:
    same_as_golden(f"{name}.{EXTENSIONS[format]}", render(ORDINARY[name](), format))


@pytest.mark.parametrize("name", ORDINARY)
def test_first_screens_are_as_kept(name: str) -> None:
    page = Page(render(ORDINARY[name](), "html"))
    same_as_golden(f"{name}.first-screen.txt", "\n".join(page.first_screen) + "\n")


@pytest.mark.parametrize("format", ["html", *EXTENSIONS])
def test_a_diagnosis_gives_the_same_report_each_time(format: str) -> None:
    assert render(ORDINARY["fragmentation"](), format) == render(ORDINARY["fragmentation"](), format)


def test_an_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'pdf' \(one of html, json, markdown, slack, jira, terminal\)"):
        render(ORDINARY["undetermined"](), "pdf")
