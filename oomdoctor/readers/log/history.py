"""Lines that tell of a program's history, not of a run: a commit's message, a list of commits, a change of a file.

Continuous integration prints them before and between what it runs, and people who mend a failure quote it there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

_MOST_LINES = 80
_MESSAGE = re.compile(r" {4}|\s*$")
_HEADER = re.compile(r"(?:Author|AuthorDate|Commit|CommitDate|Date|Merge): {1,8}\S|commit [0-9a-f]{7,64}\b")
_COMMIT = re.compile(r"commit [0-9a-f]{7,64}\b")
_ONE_LINE = re.compile(
    r"[*|\\/ ]{0,12}(?=[0-9]{0,11}[a-f])(?=[a-f]{0,11}[0-9])[0-9a-f]{7,12} (?:\([^()]{1,120}\) )?[A-Za-z\[\"'`]"
)
_OF_DIFF = re.compile(r"[ +\-\\]|$")
_HUNK = re.compile(r"@@ -\d{1,7}(?:,\d{1,7})? \+\d{1,7}(?:,\d{1,7})? @@")


def is_history(text: str, before: Iterator[str], after: Iterator[str]) -> bool:
    """Whether a line is of a commit or of a difference; `before` gives the lines above it, the nearest first."""
    if text.startswith("    "):
        return _of_message(before)
    if _ONE_LINE.match(text):
        return any(_ONE_LINE.match(near) for near in (*islice(before, 1), *islice(after, 1)))
    return text[:1] in ("+", "-") and _of_diff(before)


def _of_message(before: Iterator[str]) -> bool:
    """Whether the indented lines above begin below the head of a commit."""
    in_head = False
    for text in islice(before, _MOST_LINES):
        if _COMMIT.match(text):
            return in_head
        if _HEADER.match(text):
            in_head = True
        elif in_head or not _MESSAGE.match(text):
            return False
    return False


def _of_diff(before: Iterator[str]) -> bool:
    for text in islice(before, _MOST_LINES):
        if _HUNK.match(text):
            return True
        if not _OF_DIFF.match(text):
            return False
    return False
