"""Where in the page a fact, a line of an input or a record of it stands, so that evidence can be linked to it. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ..model.diagnosis import Diagnosis
from ..model.facts import FactSet
from .chart_places import by_chart
from .host_groups import GROUPS, measure_anchor
from .palette import category_of
from .points import kind_of, marked_points, place_of

_SHOWN_BY = (
    (re.compile(r"census"), "holdings"),
    (re.compile(r"stacks of|ages of blocks"), "stacks"),
    (re.compile(r"[\d,]+ events of device|live bytes of device"), "window"),
    (re.compile(r"oom event|final state|blocks?\b"), "request"),
    (re.compile(r"[\d,]+ samples until|sample\b|readings of the device"), "timeline"),
    (re.compile(r"exit|exception|device-oom|library-oom"), "incidents"),
    (re.compile(r"counters|limits"), "host"),
)
"""By what a record is called: the section that shows what is in it."""
_NARROWER = (
    (re.compile(r"allocator\.(?:largest|usable|pinned|private|releasable)_"), "request", "blocks"),
    (re.compile(r"oom\.(?:reserved_unallocated|private_pool)_"), "request", "blocks"),
    (re.compile(r"growth\.top_"), "window", "stacks"),
)
"""By the fact: what of a section shows it."""
_OWNERS = ("owner.holder", "owner.top", "owner.model", "owner.optimizer")
"""Facts that name who held the memory, as the table of owners does."""
_KINDS = {"weights", "gradients", "optimizer", "kv", "activations"}
_Key = TypeVar("_Key")
_OF_DEVICE = re.compile(r"of device (\d+)")
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
    parts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Charts, maps, tables and rows, by section and place (or source, or fact); samples by their kind and chart."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Rows of facts by where they come from, the first of each; of a whole run by its path."""
    owners: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Rows of who held what, by place and owner, the largest first."""

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

    def of_happening(self, source: str, where: str) -> str:
        """What shows the source of an event: the line, the incident, the section of its records, else its record."""
        incident = self.parts.get(("incidents", source), "")
        return self.of_line(source) or incident or self.of_source(source) or self.of_record(source, where)

    def of_record(self, source: str, where: str) -> str:
        """What shows the record of something that happened: the line, the request that failed there, else what is known
        from the same record, else the input that it is in.
        """
        line = self.of_line(source)
        if line:
            return line
        request = self.parts.get(("request", where), "") if "oom" in source else ""
        path = source.partition(" (")[0]
        inputs = (anchor for (kind, name), anchor in self.parts.items() if kind == "inputs" and name == path)
        return request or self.sources.get(source, "") or next(inputs, "") or self.parts.get(("inputs", ""), "")

    def of_evidence(self, fact: str, source: str, facts: FactSet, member: str | None = None) -> str:
        """The line, chart, table or row that shows a fact of this source; empty where nothing does."""
        section = self.of_source(source)
        if section not in self.sections and section != "processes":
            return section
        if section == "holdings":
            return self._of_owner(fact, facts, member) or section
        narrower = next((part for words, of, part in _NARROWER if of == section and words.match(fact)), section)
        device = _OF_DEVICE.search(source)
        suffix = None if device is None else f":{device[1]}"
        numbered = [place for kind, place in self.parts if kind == section and suffix and place.endswith(suffix)]
        chart = place_of(fact, member)
        point = self.parts.get((kind_of(fact), chart)) if section == "timeline" else None
        if point is not None:
            return point
        for place in (source, fact, *([member] if member else []), *numbered, *([chart] if chart else [])):
            for part in (narrower, section):
                if (part, place) in self.parts:
                    return self.parts[part, place]
        return section

    def _of_owner(self, fact: str, facts: FactSet, member: str | None) -> str:
        named = next((name for name in _OWNERS if fact.startswith(name)), None)
        owner = None if named is None else facts.value(named, member)
        rows = [(held, anchor) for (where, held), anchor in self.owners.items() if where == member]
        for held, anchor in rows:
            if isinstance(owner, str) and owner in held:
                return anchor
        kind = fact.removeprefix("owner.").partition("_")[0]
        return next((anchor for held, anchor in rows if kind in _KINDS and category_of(held).key == kind), "")

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
        "stacks": any(tree.live_bytes > 0 for tree in diagnosis.stack_trees),
        "timeline": diagnosis.series,
        "incidents": diagnosis.incidents,
        "host": True,
    }
    return Anchors(
        {key: f"fact-{number}" for number, key in enumerate(diagnosis.facts, 1)},
        lines,
        frozenset(name for name, there in shown.items() if there),
        frozenset(str(look.reading.source) for look in diagnosis.devices),
        _first_of_each(_parts(diagnosis)),
        _first_of_each((str(fact.source), f"fact-{number}") for number, fact in enumerate(diagnosis.facts.values(), 1)),
        _first_of_each(_owners(diagnosis)),
    )


def _first_of_each(pairs: Iterator[tuple[_Key, str]]) -> dict[_Key, str]:
    found: dict[_Key, str] = {}
    for key, anchor in pairs:
        found.setdefault(key, anchor)
    return found


def _parts(diagnosis: Diagnosis) -> Iterator[tuple[tuple[str, str], str]]:
    """What the templates number, in their order."""
    for number, failed in enumerate(diagnosis.failed_requests, 1):
        yield ("request", failed.where), f"request-{number}"
        if failed.unused:
            yield ("blocks", failed.where), f"blocks-{number}"
    for number, window in enumerate(diagnosis.windows, 1):
        yield ("window", window.where), f"window-of-{number}"
    for number, tree in enumerate((tree for tree in diagnosis.stack_trees if tree.live_bytes > 0), 1):
        yield ("stacks", tree.where), f"stacks-of-{number}"
    for number, (where, _relative) in enumerate(by_chart(diagnosis.series), 1):
        yield ("timeline", where), f"timeline-of-{number}"
    for (where, _relative), points in marked_points(diagnosis.series, diagnosis.facts).items():
        for point in points:
            yield (point.kind, where), point.anchor
    for number, look in enumerate(diagnosis.devices, 1):
        yield ("processes", str(look.reading.source)), f"processes-{number}"
    for number, incident in enumerate(diagnosis.incidents, 1):
        yield ("incidents", incident.source), f"incident-{number}"
    for number, given in enumerate(diagnosis.inputs, 1):
        yield ("inputs", given.path), f"input-{number}"
    if len(diagnosis.inputs) == 1:
        yield ("inputs", ""), "input-1"
    for _title, names in GROUPS:
        for name in names:
            if name in diagnosis.facts:
                yield ("host", name), measure_anchor(name)


def _owners(diagnosis: Diagnosis) -> Iterator[tuple[tuple[str, str], str]]:
    numbered = sorted(enumerate(diagnosis.holdings, 1), key=lambda each: -each[1].bytes)
    for number, holding in numbered:
        yield (holding.where, holding.owner), f"holding-{number}"
