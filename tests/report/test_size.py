"""A run with eight devices, a day of samples and a long history still makes a file that can be attached to a mail."""

from __future__ import annotations

from report.large import large

from oomdoctor.report import render


def test_the_file_is_at_most_a_megabyte() -> None:
    page = render(large(), "html")
    assert page.count('class="timeline"') == 10
    # A megabyte is what was promised; the rest is room for what is added.
    assert len(page.encode()) <= 800_000
