"""Where in the page a fact, a line of an input or a record of it stands, so that evidence can be linked to it. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..model.diagnosis import Diagnosis

_SHOWN_BY = (
    (re.compile(r"census"), "holdings"),
    (re.compile(r"[\d,]+ events of device"), "window"),
    (re.compile(r"oom event|final state|blocks?\b"), "request"),
    (re.compile(r"[\d,]+ samples until|sample\b"), "timeline"),
    (re.compile(r"exit|exception|device-oom|library-oom"), "incidents"),
    (re.compile(r"counters|limits"), "host"),
)
"""By what a record is called: the section that shows what is in it."""
_RECORD = re.compile(r".*?\((.+)\)", re.DOTALL)


@dataclass(frozen=True)
class Anchors:
    """The names of elements of one page."""

    facts: Mapping[str, str]
    """By the fact's key."""
    lines: Mapping[tuple[str, int], str]
    """By input and line; only of lines that an excerpt shows."""
    sections: frozenset[str] = frozenset()
    """Those with something to see in them."""
    tables: frozenset[str] = frozenset()
    """Sources of what devices held, as a table of an input tells it."""

    def of_line(self, source: str) -> str:
        """The line that a source names (`crash.log:12`); empty where it names none that is shown."""
        place = source.partition(" (")[0]
        path, _, line = place.rpartition(":")
        return self.lines.get((path, int(line)), "") if line.isascii() and line.isdigit() and len(line) < 12 else ""

    def of_source(self, source: str) -> str:
        """The line that a source names, else the section that shows its samples, blocks or stacks; else empty."""
        line = self.of_line(source)
        if line:
            return line
        if source in self.tables:
            return "processes"
        record = _RECORD.fullmatch(source)
        found = (section for words, section in _SHOWN_BY if record is not None and words.match(record[1]))
        return next((section for section in found if section in self.sections), "")

    def of_fact(self, name: str, members: Collection[str]) -> str:
        """The fact of one of these members, else of the whole incident; empty where it is not known."""
        keys = [*(f"{name}@{member}" for member in members), name]
        return next((self.facts[key] for key in keys if key in self.facts), "")


def make_anchors(diagnosis: Diagnosis) -> Anchors:
    """Numbered names: what an input says never becomes a part of one."""
    lines: dict[tuple[str, int], str] = {}
    for number, excerpt in enumerate(diagnosis.excerpts, 1):
        for line in range(excerpt.first_line, excerpt.first_line + len(excerpt.lines)):
            lines.setdefault((excerpt.path, line), f"line-{number}-{line}")
    shown = {
        "holdings": diagnosis.holdings,
        "window": diagnosis.windows,
        "request": diagnosis.failed_requests,
        "timeline": diagnosis.series,
        "incidents": diagnosis.incidents,
        "host": True,
    }
    return Anchors(
        {key: f"fact-{number}" for number, key in enumerate(diagnosis.facts, 1)},
        lines,
        frozenset(name for name, there in shown.items() if there),
        frozenset(str(look.reading.source) for look in diagnosis.devices),
    )
