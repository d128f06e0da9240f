"""What is English in a text that should be Chinese."""

from __future__ import annotations

import re
from html.parser import HTMLParser

ENGLISH = re.compile(r"[A-Za-z][A-Za-z'’-]*(?:,? +[A-Za-z][A-Za-z'’-]*){2,}")
QUOTED = {"code", "pre", "script", "style"}
"""Elements that hold commands, identifiers, and lines of the input."""


class Texts(HTMLParser):
    """The text of a page that is not marked as code."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._quoted = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._quoted += tag in QUOTED
        self.texts.extend(value for name, value in attrs if name in ("aria-label", "data-label") and value)

    def handle_endtag(self, tag: str) -> None:
        self._quoted -= tag in QUOTED

    def handle_data(self, data: str) -> None:
        if not self._quoted:
            self.texts.append(data)
