"""Lines in cells: a Chinese character takes two."""

import pytest

from oomdoctor.language.wrapping import cells, padded, wrap

TEXT = "请求 3.00 GiB 时显存不足，空闲显存（250.00 MiB）少于请求；已预留但空闲的 9.00 GiB 分散在许多小块中。"


@pytest.mark.parametrize("width", [20, 33, 40, 80])
def test_no_line_is_wider_than_asked_and_nothing_is_lost(width: int) -> None:
    lines = wrap(TEXT, width, "  ", "    ")
    assert max(map(cells, lines)) <= width
    assert "".join("".join(lines).split()) == "".join(TEXT.split())
    assert all(line.startswith("    ") for line in lines[1:])


def test_no_line_begins_with_a_closing_mark_or_ends_with_an_opening_one() -> None:
    for width in range(12, 60):
        lines = wrap(TEXT, width)
        assert not [line for line in lines if line[0] in "，。；）"]
        assert not [line for line in lines if line[-1] in "（"]


def test_text_without_wide_characters_is_wrapped_as_ever() -> None:
    assert wrap("one two three", 9, "- ", "  ") == ["- one two", "  three"]


def test_padding_counts_cells() -> None:
    assert padded("显存", 6) == "显存  "
    assert padded("显存", 6, right=True) == "  显存"
    assert cells(padded("KV 缓存", 10)) == 10
