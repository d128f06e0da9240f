"""What a family of log messages (one file each) gives to the log engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Pattern:
    """One message form.

    `anchor` is a literal that every line of this form contains: the engine looks for anchors first and tries
    `regex` (searched in the cleaned line) only where one was found. `build` makes the events; None drops the match.
    No regex may backtrack without bound: no nested quantifiers, no `.*` followed by another open-ended group.
    """

    anchor: str
    regex: "re.Pattern[str]"
    build: Build


@dataclass(frozen=True)
class Family:
    """A framework's messages."""

    name: str
    patterns: tuple[Pattern, ...]
