"""What a family of log messages (one file each) gives to the log engine."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from ...model.events import LogEvent
from ...model.source import Source


@dataclass(slots=True)
class Line:
    """One cleaned line: control sequences gone, prefixes of ranks, Ray, docker, pytest … stripped into fields.

    Not frozen: one is made for every line that may matter, and setting frozen fields costs thrice as much.
    """

    text: str
    source: Source
    rank: int | None = None
    pid: int | None = None
    time_seconds: float | None = None
    following: Callable[[int], list[str]] = lambda count: []
    """The next `count` lines, cleaned the same way (fewer at the end): for statements that span lines."""
    preceding: Callable[[int], list[str]] = lambda count: []
    """The `count` lines before this one, oldest first."""


Build = Callable[["re.Match[str]", Line], "LogEvent | Iterable[LogEvent] | None"]


class Regex:
    """A regular expression that is compiled at its first use: of several hundred, one log needs a few."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The regular expression itself."""
        return re.compile(self.text)

    def search(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        """As `re.Pattern.search`."""
        return self.compiled.search(text, start, end)

    def match(self, text: str) -> re.Match[str] | None:
        """As `re.Pattern.match`."""
        return self.compiled.match(text)


@dataclass(frozen=True)
class Pattern:
    """One message form.

    `anchor` is a literal that every line of this form contains: the engine looks for anchors first and tries
    `regex` (searched in the cleaned line) only where one was found. `build` makes the events; None drops the match.
    No regex may backtrack without bound: no nested quantifiers, no `.*` followed by another open-ended group.
    """

    anchor: str
    regex: str
    build: Build
    led_by: str = ""
    """A regular expression of what stands before an anchor that alone is common in ordinary text."""
    periodic: bool = False
    """Figures that a program in service prints again and again: of many such lines, the first and the last are read."""

    peak: str = ""
    """What stands before a figure in such a line: where lines are passed over for their number, the one with the
    highest figure is read all the same."""

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """`regex`, compiled at its first use: of several hundred, one log needs a few."""
        return re.compile(self.regex)


@dataclass(frozen=True)
class Family:
    """A framework's messages."""

    name: str
    patterns: tuple[Pattern, ...]
