"""Masking coloured text takes time in proportion, however many secrets and colours one line holds."""

from __future__ import annotations

import time

from oomdoctor.bundle.redact import MASK, mask_text


def test_a_line_of_many_colours_and_secrets_takes_time_in_proportion() -> None:
    def seconds(count: int) -> float:
        text = "\x1b[32mpassword\x1b[0m=\x1b[1mhunter22\x1b[0m, " * count
        begun = time.process_time()
        assert mask_text(text).count(MASK) == count
        return time.process_time() - begun

    assert seconds(12_000) < max(20 * seconds(2_000), 0.5)


def test_only_the_lines_with_a_title_are_searched_as_they_are_written() -> None:
    """What a line is masked to does not depend on the lines beside it, which may come in another piece."""
    coloured = '"password":\x1b[2J"hunter22"\n'
    titled = "\x1b]0;train --password hunter22\x07\n"
    assert mask_text(coloured + titled) == mask_text(coloured) + mask_text(titled)
    assert "hunter22" not in mask_text(coloured + titled)
