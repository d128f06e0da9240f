"""The markup of the places where people paste: Markdown (GitHub, GitLab), Slack's mrkdwn, Jira's wiki notation.

Slack takes `**` for two characters, shows a backslash as it is, and wants `&`, `<` and `>` as entities; Jira's text
mode knows neither backticks nor fences. All three have bold words, code in a line, lines of one width and `- ` before
an item.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import markup

_JOINER = "\u2060"
"""A word joiner: what stands before it begins no markup, and it cannot be seen."""
_SLACK = re.compile(r"[*~`]|(?<!\w)_|_(?!\w)|(?<!\w)@(?=\w)|:(?=\w+:)|^>")
_JIRA = re.compile(
    r"[\\{}\[\]*|^~!]|(?<!\w)[-+_]|[-+_](?!\w)|\?(?=\?)"
    r"|\((?=(?:[xyin!?/+\-]|\*[rgby]?|on|off|flag|flagoff)\))|[:;](?=[()DP](?!\w))"
    r"|^(?=(?:h[1-6]|bq)\.\s)|^#"
)
_JIRA_FENCE = re.compile(r"(?<=\{)(?=noformat)")
_BACKTICKS = re.compile("`")
_CALL = re.compile(r"(?<!\w)@(?=\w)|<(?=[!@#])")
"""What calls people, in some place also within code."""


@dataclass(frozen=True)
class Dialect:
    """How one place writes what a ticket needs. Text from the input stays text in each."""

    bold: str
    """Stands before and behind bold words."""
    text: Callable[[str], str]
    code: Callable[[str], str]
    fence: Callable[[str], str]

    def strong(self, text: str) -> str:
        """Bold words of ours: nothing in them is escaped."""
        return f"{self.bold}{text}{self.bold}"

    def sentence(self, template: str) -> str:
        """A sentence of ours with `**bold**` words, before its placeholders are filled."""
        return type(template)(template.replace("**", self.bold))

    def prose(self, text: str) -> str:
        """A sentence whose `names in backticks` are code, and all else text."""
        pieces = text.split("`")
        if len(pieces) % 2 == 0 or "" in pieces[1::2]:
            return self.text(text)  # an odd backtick is only a character
        return "".join(
            self.code(_CALL.sub(r"\g<0>" + _JOINER, each))
            if at % 2
            else self.text(each)
            if at == 0
            else self._inner(each)
            for at, each in enumerate(pieces)
        )

    def figures(self, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
        """Aligned lines of one width, for places without tables."""
        return self.fence(markup.aligned(head, rows))

    def _inner(self, text: str) -> str:
        # What begins a block at the beginning of a line begins nothing behind other words.
        return self.text(f"x{text}")[1:] if text[:1] and not text[0].isalnum() else self.text(text)


def _slack_text(text: str) -> str:
    return _slack_entities(_SLACK.sub(lambda found: found[0] + _JOINER, text))


def _slack_code(text: str) -> str:
    return "`" + _slack_entities(_BACKTICKS.sub("'", text)) + "`"


def _slack_fenced(text: str) -> str:
    return _slack_entities(text.replace("```", f"``{_JOINER}`"))


def _slack_entities(text: str) -> str:
    """Slack reads `<…>` as a link, a channel or a call to people, in code too: these three it wants as entities."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _jira_text(text: str) -> str:
    return _JIRA.sub(lambda found: "\\" + found[0], text)


MARKDOWN = Dialect("**", markup.text_of, markup.code, markup.fence)
SLACK = Dialect("*", _slack_text, _slack_code, lambda text: f"```\n{_slack_fenced(text)}\n```")
JIRA = Dialect(
    "*",
    _jira_text,
    lambda text: "{{" + _jira_text(text) + "}}",
    lambda text: "{noformat}\n" + _JIRA_FENCE.sub(_JOINER, text) + "\n{noformat}",
)
