"""The samples that evidence names: a mark in the chart of their curve, and a row that says what it shows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..language import _
from ..model.diagnosis import Series
from ..model.facts import FactSet
from ..model.units import format_bytes
from .chart_places import by_chart

_CURVES = (
    (re.compile(r"host\.(?:process_|failing_process|peak_virtual)"), "largest process"),
    (re.compile(r"host\.cgroup_"), "cgroup"),
    (re.compile(r"host\."), "host"),
)
"""By the fact: which of the charts has its curve; another is in that of its device."""
_KINDS = (
    (re.compile(r"host\.peak_(?:tree|virtual)_bytes"), "peak"),
    (re.compile(r"host\.(?:available_bytes|total_bytes|pressure_full_ratio)"), "last"),
    (re.compile(r"(?:host\.growth|device\.rise|growth\.outside_torch)_(?:steady|bytes|bytes_per_second)"), "rise"),
)
"""By the fact: which of the curve's samples it is about."""
_GAINS = {"host": "host.growth_bytes"}
LETTERS = {"rise": "a", "peak": "b", "last": "c"}
"""What marks them in the picture."""


@dataclass(frozen=True)
class Point:
    """A sample that evidence names."""

    anchor: str
    kind: str
    letter: str
    seconds: float
    """As the series has it."""
    bytes: int
    said: str
    """What it shows, before its time is added."""


def place_of(fact: str, member: str | None) -> str:
    """The place whose chart has the curve that a fact is about."""
    return next((place for words, place in _CURVES if words.match(fact)), member or "")


def kind_of(fact: str) -> str:
    """Which sample of the curve a fact is about; empty: all of them."""
    return next((kind for words, kind in _KINDS if words.match(fact)), "")


def marked_points(series: Sequence[Series], facts: FactSet) -> dict[tuple[str, bool], tuple[Point, ...]]:
    """By chart, the samples of its first curve that facts name, in the order of their letters."""
    named: dict[str, set[str]] = {}
    for key in facts:
        fact, _at, member = key.partition("@")
        kind = kind_of(fact)
        if kind:
            named.setdefault(place_of(fact, member), set()).add(kind)
    return {
        key: tuple(_points(number, group[0], named.get(key[0], set()), facts))
        for number, (key, group) in enumerate(by_chart(series).items(), 1)
        if not key[1]
    }


def _points(number: int, curve: Series, kinds: set[str], facts: FactSet) -> Iterator[Point]:
    courses = list(zip(curve.times_seconds, curve.values_bytes, strict=False))
    last = courses[-1]
    found = {"peak": max(courses, key=lambda point: point[1]), "last": last}
    gained = facts.size(_GAINS[curve.where]) if curve.where in _GAINS else facts.size("device.rise_bytes", curve.where)
    for kind, letter in LETTERS.items():
        if kind not in kinds:
            continue
        if kind == "rise":
            foot = (
                None if not gained else next((each for each in reversed(courses) if each[1] <= last[1] - gained), None)
            )
            if foot is None:
                continue
            said = _("the rise begins at {begin} and comes to {end}").format(
                begin=format_bytes(foot[1]), end=format_bytes(last[1])
            )
            yield Point(f"point-{number}-{kind}", kind, letter, *foot, said)
            continue
        when, size = found[kind]
        words = _("the most: {size}") if kind == "peak" else _("the last sample: {size}")
        yield Point(f"point-{number}-{kind}", kind, letter, when, size, words.format(size=format_bytes(size)))
