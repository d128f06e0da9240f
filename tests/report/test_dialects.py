"""GIVEN a diagnosis WHEN it is written for Slack or Jira THEN it says the same in their markup, and text stays text."""

from __future__ import annotations

import html
import random
import re

import pytest
from diagnoses import ALL, ATTACK, ORDINARY, fragmentation, hostile
from markdown_it import MarkdownIt

from oomdoctor.model.printable import one_line
from oomdoctor.report import render
from oomdoctor.report.dialects import JIRA, MARKDOWN, SLACK, Dialect

FENCE = {"markdown": "```", "slack": "```", "jira": "{noformat}"}


def pieces(told: str, form: str) -> tuple[list[str], list[str]]:
    """What stands outside fences, and what in them."""
    found = re.split(rf"^{re.escape(FENCE[form])}$", told, flags=re.MULTILINE)
    assert len(found) % 2 == 1, "each fence is closed"
    return found[::2], found[1::2]


def plain(text: str) -> str:
    return re.sub(r"[*`\\\u2060]|\{\{|\}\}", "", text).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


@pytest.mark.parametrize("form", ["slack", "jira"])
@pytest.mark.parametrize("name", ORDINARY)
def test_they_say_what_markdown_says(name: str, form: str) -> None:
    told, markdown = render(ORDINARY[name](), form), render(ORDINARY[name](), "markdown")
    outside, inside = pieces(told, form)
    outside_there, inside_there = pieces(markdown, "markdown")
    assert list(map(plain, inside)) == list(map(plain, inside_there))
    assert plain("".join(outside)) == plain("".join(outside_there))


@pytest.mark.parametrize("name", ALL)
def test_slack_has_single_asterisks_and_no_backslash_and_nobody_is_called(name: str) -> None:
    outside, inside = pieces(render(ALL[name](), "slack"), "slack")
    words = re.sub(r"`[^`]*`", "", "".join(outside))
    assert not re.search(r"\*\*|^#|^\|", words, re.MULTILINE)
    assert "\\" not in words or name == "hostile"
    assert not re.search(r"(?<!\w)@\w", words)
    assert not re.search(r"[<>]|&(?!amp;|lt;|gt;)", "".join([*outside, *inside]))
    assert re.search(r"^\*[^*\n]+\*$", words, re.MULTILINE)


@pytest.mark.parametrize("name", ALL)
def test_jira_has_its_own_code_and_fences(name: str) -> None:
    outside, _ = pieces(render(ALL[name](), "jira"), "jira")
    words = "".join(outside)
    assert "**" not in words.replace("\\*", "")
    assert "```" not in words or name == "hostile"
    opened = re.sub(r"\\.", "", words)
    assert opened.count("{{") == opened.count("}}")
    assert not re.search(r"[\[\]|~]", opened)


@pytest.mark.parametrize(
    ("dialect", "text", "shown"),
    [
        (SLACK, "*a* _b_ PYTORCH_ALLOC_CONF", "*\u2060a*\u2060 _\u2060b_\u2060 PYTORCH_ALLOC_CONF"),
        (SLACK, "<!channel> @here", "&lt;!channel&gt; @\u2060here"),
        (JIRA, "*a* -b- {code} [~x] PYTORCH_ALLOC_CONF", "\\*a\\* \\-b\\- \\{code\\} \\[\\~x\\] PYTORCH_ALLOC_CONF"),
        (JIRA, "expandable_segments:True, 1-2", "expandable_segments:True, 1-2"),
        (JIRA, "h1. Title", "\\h1. Title"),
        (MARKDOWN, "*a* <b>", "\\*a\\* &lt;b>"),
    ],
)
def test_marks_of_the_place_are_only_characters(dialect: Dialect, text: str, shown: str) -> None:
    assert dialect.text(text) == shown


@pytest.mark.parametrize("dialect", [MARKDOWN, SLACK, JIRA])
def test_a_fence_cannot_be_closed_from_inside(dialect: Dialect) -> None:
    for inside in ("```", "{noformat}", "a\n```\nb", "a\n{noformat}\nb"):
        lines = dialect.fence(inside).split("\n")
        assert lines[0].startswith(lines[-1])
        assert lines[-1] not in lines[1:-1]


@pytest.mark.parametrize(
    ("dialect", "shown"),
    [
        (MARKDOWN, "run `a -b > c` first"),
        (SLACK, "run `a -b &gt; c` first"),
        (JIRA, "run {{a \\-b > c}} first"),
    ],
)
def test_only_what_stands_in_backticks_is_code(dialect: Dialect, shown: str) -> None:
    assert dialect.prose("run `a -b > c` first") == shown
    assert "`" not in dialect.prose("an odd ` only").replace("\\`", "").replace("`\u2060", "") or dialect is JIRA


def test_the_answer_is_in_all_of_them() -> None:
    for form in FENCE:
        told = render(fragmentation(), form)
        for words in ("1.50 GiB", "FRG001", "expandable_segments:True", "Frees 5.31 GiB, which is enough."):
            assert words in told
        assert len(told) < 3500
        assert one_line(ATTACK)[:20] not in told or form == "hostile"
        assert render(hostile(), form)


@pytest.mark.parametrize(
    "text", ["1. b", "12)", "#1 of !2 in $3 by @bob", "- a", "+1", ":smile: a::b", "82 % of 4 GiB"]
)
def test_what_begins_a_block_or_names_an_issue_stays_text(text: str) -> None:
    assert _as_read(MARKDOWN.text(text)) == (text, set())


@pytest.mark.parametrize(("text", "kept"), [("#1", "#\u2060"), ("!2", "!\u2060"), ("$3", "$\u2060"), ("%4", "%\u2060")])
def test_nothing_in_a_log_links_to_an_issue(text: str, kept: str) -> None:
    """GitHub and GitLab look for these after the backslashes are gone, so only what stands between keeps them apart."""
    assert kept in MARKDOWN.text(f"rank {text} ended")


@pytest.mark.parametrize(
    ("text", "shown"), [("(on)", "\\(on)"), ("a :D", "a \\:D"), ("cuda:0", "cuda:0"), ("(*)", "\\(\\*)")]
)
def test_jira_draws_no_faces(text: str, shown: str) -> None:
    assert JIRA.text(text) == shown


def test_whatever_stands_in_a_log_is_read_as_it_is() -> None:
    chosen = random.Random(6)
    for _ in range(3000):
        text = "".join(chosen.choice(MARKS) for _ in range(chosen.randint(1, 9))).strip()
        assert _as_read(MARKDOWN.text(text)) == (text, set()), text


MARKS = [
    *("*", "_", "`", "[", "](x)", "|", "~", "{", "}", "$", "#1", "!2", "$3", "%4", "&5", "@bob", "<b>", "</script>"),
    *("&amp;", "&lt;", "\\", "+", "=", "a", "é", "中", ":smile:", "::", "GH-1", "{code}", "---", "![i](j)", "~~", "**"),
    *("__", "h1.", "(on)", "\u202e", "\u200b", "- ", "1. ", "> ", "b ", "12) "),
]


def _as_read(markdown: str) -> tuple[str, set[str]]:
    """The text that a reader sees, and the elements it came to beside paragraphs."""
    page = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown)
    elements = set(re.findall(r"<(/?[a-z0-9]+)", page)) - {"p", "/p"}
    return html.unescape(re.sub(r"<[^>]*>", "", page)).strip().replace("\u2060", ""), elements
