"""GIVEN hostile strings WHEN they are put on a terminal or into Markdown THEN nothing in them acts."""

from __future__ import annotations

import io
import re

import pytest
from diagnoses import ALL, ATTACK, ORDINARY, fragmentation, hostile
from markdown_it import MarkdownIt
from rich.cells import cell_len
from rich.console import Console

from oomdoctor.language import speaking
from oomdoctor.model.printable import one_line, plain, shorten
from oomdoctor.report import render
from oomdoctor.report.terminal import render_terminal
from oomdoctor.report.text import format_share, format_value

ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("format", ["terminal", "markdown"])
@pytest.mark.parametrize("name", ALL)
def test_nothing_acts_on_a_terminal(name: str, format: str) -> None:
    assert not ACTS.search(render(ALL[name](), format))


@pytest.mark.parametrize("name", ALL)
def test_the_terminal_report_fits_80_columns(name: str) -> None:
    copied = [
        one_line(line)
        for finding in ALL[name]().findings
        for each in finding.remedies
        if each.set
        for line in each.set.lines
    ]
    collected = [one_line(each.how_to_get_it) for each in ALL[name]().missing]
    for line in render(ALL[name](), "terminal").splitlines():
        whole = line.strip() in copied or any(line.strip() in each for each in collected)
        assert cell_len(line) <= 80 or whole


def test_a_command_to_collect_something_can_be_copied_in_one_piece() -> None:
    commands = re.findall("`([^`]+)`", " ".join(each.how_to_get_it for each in ALL["undetermined"]().missing[:4]))
    lines = render(ALL["undetermined"](), "terminal").splitlines()
    assert max(map(len, commands)) > 80 - 4
    assert [command for command in commands if not any(f"`{command}`" in line for line in lines)] == []


def colours(diagnosis_name: str, environ: dict[str, str]) -> str:
    out = io.StringIO()
    render_terminal(
        ALL[diagnosis_name](),
        Console(file=out, width=80, force_terminal=True, color_system="truecolor", _environ=environ),
    )
    return out.getvalue()


def test_on_a_terminal_only_our_own_colours_are_sent() -> None:
    out = colours("hostile", {})
    assert "\x1b[" in out
    assert not ACTS.search(SGR.sub("", out))


def test_no_color_is_heeded() -> None:
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", colours("fragmentation", {"NO_COLOR": "1"}))


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_any_width_will_do(width: int, language: str) -> None:
    out = io.StringIO()
    with speaking(language):
        render_terminal(fragmentation(), Console(file=out, width=width))
    lines = out.getvalue().splitlines()
    assert any("expandable_segments:True" in line for line in lines)
    if width >= 40:
        assert [line for line in lines if cell_len(line) > width and not line.startswith("    ")] == []  # lines to copy
        assert [line for line in lines if re.match(r"\s*(?:[KMGT]iB|%)(?!\w)", line)] == [], "a unit without its number"


def test_sizes_stand_below_each_other_in_any_language() -> None:
    for language in ("en", "zh"):
        with speaking(language):
            told = render(fragmentation(), "terminal").splitlines()
        table = [line for line in told if re.search(r"[\d.]+ [MG]iB +[\d.]+ %", line)]
        assert len(table) == 10
        ends = {cell_len(line[: match.end()]) for line in table if (match := re.search(r"[MG]iB", line))}
        assert len(ends) == 1


@pytest.mark.parametrize("name", ALL)
def test_markdown_from_the_input_stays_text(name: str) -> None:
    parser = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
    tokens = parser.parse(render(ALL[name](), "markdown"))
    kinds = {each.type for token in tokens for each in (token, *(token.children or ()))}
    assert not kinds & {
        "html_block", "html_inline", "image", "link_open", "em_open", "s_open", "blockquote_open", "hr",
        "ordered_list_open", "code_block",
    }  # fmt: skip
    assert {"fence"} <= kinds or not ALL[name]().budgets


@pytest.mark.parametrize("name", ALL)
def test_markdown_needs_nothing_that_slack_or_jira_lack(name: str) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(render(ALL[name](), "markdown"))
    kinds = {each.type for token in tokens for each in (token, *(token.children or ()))}
    assert not kinds & {"heading_open", "table_open", "hr", "html_block", "image"}
    for token in tokens:
        if token.type == "fence":
            copied = len(token.content.splitlines()) == 1
            assert copied or all(cell_len(line) <= 80 for line in token.content.splitlines())


def test_the_figures_of_a_budget_line_up() -> None:
    for language in ("en", "zh"):
        with speaking(language):
            told = render(fragmentation(), "markdown")
        table = told.split("```")[1].strip("\n").splitlines()
        sizes = [line for line in table if " GiB" in line or " MiB" in line]
        assert len(sizes) == 13
        assert len({cell_len(line[: line.rindex("iB")]) for line in sizes}) <= 2  # with a share, and without


def test_markdown_shows_the_very_text() -> None:
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = parser.parse(render(hostile(), "markdown"))
    text = "".join(each.content for token in tokens for each in token.children or () if each.type.startswith("text"))
    assert one_line(ATTACK)[:200] in text.replace("\u2060", "")


def test_a_mention_calls_nobody() -> None:
    told = render(hostile(), "markdown").replace(one_line(ATTACK), "")  # the line to copy stays as it is
    assert not re.search(r"(?<!\w)@\w|<!", told)


def test_fenced_lines_cannot_break_out() -> None:
    parser = MarkdownIt("commonmark")
    fences = [token.content for token in parser.parse(render(hostile(), "markdown")) if token.type == "fence"]
    assert [each for each in fences if len(each.splitlines()) == 1] == [one_line(ATTACK) + "\n"]
    assert len(fences) == 2


@pytest.mark.parametrize("name", ORDINARY)
def test_markdown_is_short(name: str) -> None:
    assert len(render(ORDINARY[name](), "markdown")) < 3000


def test_controls_become_visible() -> None:
    assert plain("a\x1b[31m\x7f\x9b\u202e\ud800\r\nb\tc\r") == "a␛[31m␡�⟨U+202E⟩�\nb\tc␍"
    assert one_line("  a\n\n b ") == "a b"


def test_shorten_keeps_both_ends() -> None:
    assert shorten("x" * 10, 10) == "x" * 10
    assert shorten("/a/long/path/to/train.py:31", 16) == "/a/long/pa…py:31"


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1_610_612_736, "bytes", "1.50 GiB"),
        (True, "flag", "yes"),
        (False, "flag", "no"),
        (0.98368, "ratio", "98.4 %"),
        (99.5, "seconds", "100 s"),
        (131072, "tokens", "131,072 tokens"),
        (137, "count", "137"),
        (2.5, "count", "2.5"),
        (float("nan"), "ratio", "not measured"),
        ("2.9.1", "version", "2.9.1"),
    ],
)
def test_values_as_people_read_them(value: object, unit: str, shown: str) -> None:
    assert format_value(value, unit) == shown  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "shown"), [(0, "0.0 %"), (1, "< 0.1 %"), (500_000, "50.0 %"), (999_999, "99.9 %"), (1_000_000, "100.0 %")]
)
def test_shares_never_round_to_nothing_or_all(part: int, shown: str) -> None:
    assert format_share(part, 1_000_000) == shown
