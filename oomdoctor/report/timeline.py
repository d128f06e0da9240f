"""Curves over the run, grouped into one chart per place and thinned to what a picture can show. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..language import _, told
from ..model.diagnosis import Incident, Series
from ..model.printable import one_line
from ..model.thinning import extremes
from ..model.units import format_bytes, format_seconds

LAST_WHOLE = 120
"""Of these the last: the moments before the failure are not thinned."""
POINTS = 500
"""Most points of a curve: more cannot be told apart in the picture."""

_MOST_MOMENTS = 6
_SOON_SECONDS = 5.0


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
    times_seconds: tuple[float, ...]
    """Of the same points: from the chart's zero on, so that what came before the failure is negative."""
    values_bytes: tuple[int, ...]


@dataclass(frozen=True)
class Moment:
    """Something that happened: a vertical line."""

    at: float
    """Fraction of the time."""
    seconds: float
    """From the chart's zero on."""
    label: str


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
    moments: tuple[Moment, ...]
    duration: str
    relative: bool
    begin: str
    end: str
    """What stands at the two ends of the time axis."""
    ceiling_bytes: float
    limits_bytes: tuple[int, ...]
    in_words: str


def view_charts(series: tuple[Series, ...], incidents: tuple[Incident, ...] = ()) -> tuple[Chart, ...]:
    """A chart per place, in the order of the input. Curves without two points are left out: they show no course.

    Times count from the first of `incidents` that a chart's time holds: the failure. Devices have one scale.
    """
    by_place: dict[tuple[str, bool], list[Series]] = {}
    for each in series:
        if min(len(each.times_seconds), len(each.values_bytes)) >= 2:
            by_place.setdefault((each.where, each.relative), []).append(each)
    of_devices = [top for (where, _), group in by_place.items() if _is_device(where) for top in (_top(group),)]
    common = max(of_devices, default=0)
    return tuple(
        _chart(where, relative, group, incidents, common if _is_device(where) else _top(group))
        for (where, relative), group in by_place.items()
    )


def _is_device(where: str) -> bool:
    return re.fullmatch(r"[a-z]+:[0-9]+", where) is not None


def _top(group: list[Series]) -> int:
    """The highest that is drawn: of the curves, and of limits that are not far above them."""
    top = max(1, *(max(each.values_bytes, default=1) for each in group))
    # A limit far above the curve would press it flat against the axis; it is named in words instead.
    return max([top, *(each.limit_bytes for each in group if each.limit_bytes and 0 < each.limit_bytes <= 3 * top)])


def thin(values: Sequence[int], most: int = POINTS) -> list[int]:
    """Positions of at most `most` values: each bucket's lowest and highest, the first, and the last ones whole.

    A curve thinned by taking each n-th point would lose the spike that ended the run.
    """
    count = len(values)
    if count <= most or most < 4:
        return list(range(count))
    height = np.asarray(values, dtype=np.float64)
    whole = min(LAST_WHOLE, (most - 4) // 3)
    last = count - 1 - whole
    return [0, *(1 + extremes(height[1:last], most - 2 - whole)).tolist(), *range(last, count)]


def _chart(where: str, relative: bool, group: list[Series], incidents: tuple[Incident, ...], top: int) -> Chart:
    courses = [_course(each) for each in group]
    begin = min(course[0][0] for course in courses)
    end = max(course[-1][0] for course in courses)
    span = end - begin or 1.0
    seen = [] if relative else [each for each in incidents if _falls_into(each, begin, end)]
    failure = seen[0].when_seconds if seen else None
    zero = end if failure is None else failure
    limits = {each.limit_bytes: each for each in group if each.limit_bytes is not None and each.limit_bytes > 0}
    drawn_limits = sorted(limit for limit in limits if limit <= top)
    ceiling = 1.06 * top
    curves = tuple(
        _curve(each, course, begin, span, zero, ceiling, place)
        for place, (each, course) in enumerate(zip(group, courses, strict=True))
    )
    place = one_line(told(where), 60)
    courses_told = [
        _("{curve} peaked at {peak} and ended at {last}").format(curve=curve.name, peak=curve.peak, last=curve.last)
        for curve in curves
    ]
    courses_told += [_limit(limit) for limit in sorted(limits)]
    duration = format_seconds(span)
    in_words = _("{place} over {time}: {curves}.").format(place=place, time=duration, curves=_("; ").join(courses_told))
    return Chart(
        where=place,
        curves=curves,
        limits=tuple(Mark(limit / ceiling, _limit(limit)) for limit in drawn_limits),
        grid=_grid(ceiling, top),
        moments=tuple(_moments(seen, begin, span, zero)),
        duration=duration,
        relative=relative,
        begin=_("start")
        if failure is None
        else _("{time} before the failure").format(time=format_seconds(zero - begin)),
        end=_end(failure, end, span),
        ceiling_bytes=ceiling,
        limits_bytes=tuple(drawn_limits),
        in_words=in_words,
    )


def _curve(
    series: Series,
    points: list[tuple[float, int]],
    begin: float,
    span: float,
    zero: float,
    ceiling: float,
    place: int,
) -> Curve:
    return Curve(
        name=one_line(told(series.name), 60),
        points=tuple(((time - begin) / span, value / ceiling) for time, value in points),
        peak=format_bytes(max(value for _, value in points)),
        last=format_bytes(points[-1][1]),
        how_sampled=one_line(told(series.how_sampled), 80),
        place=place,
        times_seconds=tuple(round(time - zero, 4) for time, _ in points),
        values_bytes=tuple(value for _, value in points),
    )


def _falls_into(incident: Incident, begin: float, end: float) -> bool:
    """Within the chart's time, or so soon after it that the last sample was before it."""
    when = incident.when_seconds
    return when is not None and begin <= when <= end + _SOON_SECONDS


def _moments(seen: list[Incident], begin: float, span: float, zero: float) -> Iterator[Moment]:
    for each in seen[:_MOST_MOMENTS]:
        if each.when_seconds is not None:
            at = min((each.when_seconds - begin) / span, 1.0)
            yield Moment(at, round(each.when_seconds - zero, 4), one_line(told(each.cause), 60))


def _end(failure: float | None, end: float, span: float) -> str:
    if failure is None:
        return _("{time} later").format(time=format_seconds(span))
    if abs(end - failure) <= 0.01 * span:
        return _("the failure")
    return _("{time} after it").format(time=format_seconds(abs(end - failure)))


def _limit(size: int) -> str:
    return _("limit {size}").format(size=format_bytes(size))


def _course(series: Series) -> list[tuple[float, int]]:
    """The points that are drawn, by time; a point without a time is none."""
    count = min(len(series.times_seconds), len(series.values_bytes))
    times = np.asarray(series.times_seconds[:count], dtype=np.float64)
    known = np.flatnonzero(np.isfinite(times))
    order = known[np.argsort(times[known], kind="stable")].tolist()
    values = [series.values_bytes[place] for place in order]
    return [(series.times_seconds[order[place]], values[place]) for place in thin(values)] or [(0.0, 0)]


def _grid(ceiling: float, highest: float) -> tuple[Mark, ...]:
    """Two to five round lines above zero, in powers of two and multiples of them."""
    step = 2.0 ** math.floor(math.log2(max(highest, 4) / 2.5))
    return tuple(
        Mark(count * step / ceiling, format_bytes(count * step)) for count in range(1, int(highest / step) + 1)
    )
