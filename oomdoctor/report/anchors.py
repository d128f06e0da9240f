"""Where in the page a fact or a line of an input stands, so that evidence can be linked to it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ..model.diagnosis import Excerpt


@dataclass(frozen=True)
class Anchors:
    """The names of elements of one page."""

    facts: Mapping[str, str]
    """By the fact's key."""
    lines: Mapping[tuple[str, int], str]
    """By input and line; only of lines that an excerpt shows."""

    def of_source(self, source: str) -> str:
        """The line that a source names (`crash.log:12`); empty where it names none that is shown."""
        place = source.partition(" (")[0]
        path, _, line = place.rpartition(":")
        return self.lines.get((path, int(line)), "") if line.isascii() and line.isdigit() and len(line) < 12 else ""

    def of_fact(self, name: str, members: Collection[str]) -> str:
        """The fact of one of these members, else of the whole incident; empty where it is not known."""
        keys = [*(f"{name}@{member}" for member in members), name]
        return next((self.facts[key] for key in keys if key in self.facts), "")


def make_anchors(fact_keys: Sequence[str], excerpts: Sequence[Excerpt]) -> Anchors:
    """Numbered names: what an input says never becomes a part of one."""
    lines: dict[tuple[str, int], str] = {}
    for number, excerpt in enumerate(excerpts, 1):
        for line in range(excerpt.first_line, excerpt.first_line + len(excerpt.lines)):
            lines.setdefault((excerpt.path, line), f"line-{number}-{line}")
    return Anchors({key: f"fact-{number}" for number, key in enumerate(fact_keys, 1)}, lines)
