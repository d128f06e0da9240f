"""Curves over the run, grouped into one chart per place and thinned to what a picture can show. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..model.diagnosis import Series
from ..model.units import format_bytes, format_seconds
from .text import one_line

POINTS = 600
"""Most points of a curve: more cannot be told apart in the picture."""


@dataclass(frozen=True)
class Curve:
    """A line of a chart. Points are (fraction of the time, fraction of the height)."""

    name: str
    points: tuple[tuple[float, float], ...]
    peak: str
    last: str
    how_sampled: str
    place: int
    """Which of the chart's line styles it has: 0 for the first."""


@dataclass(frozen=True)
class Mark:
    """A horizontal line: a grid line, or a limit."""

    height: float
    label: str


@dataclass(frozen=True)
class Chart:
    """All curves of one place over one time axis."""

    where: str
    curves: tuple[Curve, ...]
    limits: tuple[Mark, ...]
    grid: tuple[Mark, ...]
    duration: str
    relative: bool
    in_words: str


def view_charts(series: tuple[Series, ...]) -> tuple[Chart, ...]:
    """A chart per place, in the order of the input. Curves without two points are left out: they show no course."""
    by_place: dict[tuple[str, bool], list[Series]] = {}
    for each in series:
        if min(len(each.times_seconds), len(each.values_bytes)) >= 2:
            by_place.setdefault((each.where, each.relative), []).append(each)
    return tuple(_chart(where, relative, group) for (where, relative), group in by_place.items())


def thin(points: list[tuple[float, int]], most: int = POINTS) -> list[tuple[float, int]]:
    """At most `most` points that keep every bucket's lowest and highest value, and the first and last point.

    A curve thinned by taking each n-th point would lose the spike that ended the run.
    """
    if len(points) <= most or most < 4:
        return points
    inner = points[1:-1]
    buckets = (most - 2) // 2
    kept = [points[0]]
    for bucket in range(buckets):
        chunk = inner[bucket * len(inner) // buckets : (bucket + 1) * len(inner) // buckets]
        low, high = min(chunk, key=lambda point: point[1]), max(chunk, key=lambda point: point[1])
        kept.extend([low] if low == high else sorted((low, high)))
    kept.append(points[-1])
    return kept


def _chart(where: str, relative: bool, group: list[Series]) -> Chart:
    courses = [_course(each) for each in group]
    begin = min(course[0][0] for course in courses)
    span = max(course[-1][0] for course in courses) - begin or 1.0
    limits = {each.limit_bytes: each for each in group if each.limit_bytes is not None and each.limit_bytes > 0}
    top = max([1, *(value for course in courses for _, value in course)])
    # A limit far above the curve would press it flat against the axis; it is named in the legend instead.
    drawn_limits = sorted(limit for limit in limits if limit <= 3 * top)
    ceiling = 1.06 * max([top, *drawn_limits])
    curves = tuple(
        Curve(
            name=one_line(each.name, 60),
            points=tuple(((time - begin) / span, value / ceiling) for time, value in thin(course)),
            peak=format_bytes(max(value for _, value in course)),
            last=format_bytes(course[-1][1]),
            how_sampled=one_line(each.how_sampled, 80),
            place=place,
        )
        for place, (each, course) in enumerate(zip(group, courses, strict=True))
    )
    place = one_line(where, 60)
    told = "; ".join(f"{curve.name} peaked at {curve.peak} and ended at {curve.last}" for curve in curves)
    bounds = "".join(f"; limit {format_bytes(limit)}" for limit in sorted(limits))
    return Chart(
        where=place,
        curves=curves,
        limits=tuple(Mark(limit / ceiling, f"limit {format_bytes(limit)}") for limit in drawn_limits),
        grid=_grid(ceiling, max([top, *drawn_limits])),
        duration=format_seconds(span),
        relative=relative,
        in_words=f"{place} over {format_seconds(span)}: {told}{bounds}.",
    )


def _course(series: Series) -> list[tuple[float, int]]:
    pairs = zip(series.times_seconds, series.values_bytes, strict=False)
    return sorted((time, value) for time, value in pairs if math.isfinite(time)) or [(0.0, 0)]


def _grid(ceiling: float, highest: float) -> tuple[Mark, ...]:
    """Two to five round lines above zero, in powers of two and multiples of them."""
    step = 2.0 ** math.floor(math.log2(max(highest, 4) / 2.5))
    return tuple(
        Mark(count * step / ceiling, format_bytes(count * step)) for count in range(1, int(highest / step) + 1)
    )
