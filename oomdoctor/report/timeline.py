"""Curves over the run, grouped into one chart per place and thinned to what a picture can show. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..language import _, told
from ..model.diagnosis import Course, Incident, Series
from ..model.printable import one_line
from ..model.thinning import thinned
from ..model.units import format_bytes, format_seconds
from .chart_places import by_chart
from .course import CourseArea, CourseView, view_course
from .moments import MomentView
from .palette import FREE, category_of
from .points import Point

POINTS = 500
"""Most points of a curve: more cannot be told apart in the picture."""
_ALL_POINTS = 16_000
"""Of all curves together: the file stays small enough to be attached to a mail."""

_LIMIT_SHOWN = 3
"""Times what is in use: a limit above that would press it flat against the axis."""
_SOON_SECONDS = 5.0
_SOON_SHARE = 0.05
"""Of the course: what is printed every half a minute has its last line so long before the failure."""
_MOST_OPEN = 8
"""Devices whose charts stand below each other: of more, only those where something happened."""
_LEAST_GAP = 0.02
"""Of the axis: a shorter time without a look is that between two of them."""
_WORD_ROOM = 0.12
"""Of the picture's height: what a word needs."""
_NUMBER_WIDTH = 0.05
"""Of the picture's width: numbers of strokes closer than this would cover each other."""


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
class Stroke:
    """Something that happened: a vertical line with the number of its event."""

    at: float
    """Fraction of the time."""
    seconds: float
    """From the chart's zero on."""
    number: int
    kind: str
    label: str


@dataclass(frozen=True)
class Mark:
    """A horizontal line: a grid line, or a limit."""

    height: float
    label: str


@dataclass(frozen=True)
class Sample:
    """A sample that evidence names: a letter in the picture, and a row under it."""

    anchor: str
    letter: str
    at: float
    """Fraction of the time."""
    height: float
    """Fraction of the height."""
    seconds: float
    """From the chart's zero on."""
    bytes: float
    """Where it stands over the axis."""
    beside: int
    """How many letters before it stand at about the same place."""
    said: str


@dataclass(frozen=True)
class Unseen:
    """The space over the areas where nobody looked what is in it: from the axis up, and they lie over it."""

    said: str
    height: float
    """Of the place, as a fraction of the picture's; 0 where its size is not known."""
    total_bytes: int
    """The same in bytes."""
    word_height: float | None
    """Where, in the middle of the time, there is room for a word; None: nowhere."""


@dataclass(frozen=True)
class Gap:
    """A time in which nobody looked at a place, as tall as the place."""

    begin: float
    end: float
    """Fractions of the axis."""
    begin_seconds: float
    end_seconds: float
    """From the chart's zero on."""
    height: float
    """Fraction of the picture's."""
    total_bytes: int


@dataclass(frozen=True)
class Chart:
    """All curves of one place over one time axis, or what its memory was divided into."""

    number: int
    """From 1 on, in the order of the input: what the page's names are made of."""
    folded: bool
    """One of very many, of a place that nothing happened at."""
    where: str
    curves: tuple[Curve, ...]
    """None where there are areas."""
    areas: tuple[CourseArea, ...]
    """From the axis up; with what is free they add up to the place at each time."""
    area_times_seconds: tuple[float, ...]
    """Of the points of all areas, from the chart's zero on."""
    how_sampled: str
    """Of the areas."""
    unseen: Unseen | None
    gaps: tuple[Gap, ...]
    """Of areas that are a whole: the time before the first look and after the last, which is neither free nor held."""
    limits: tuple[Mark, ...]
    grid: tuple[Mark, ...]
    samples: tuple[Sample, ...]
    strokes: tuple[Stroke, ...]
    numbers: tuple[tuple[float, str], ...]
    """What stands over the strokes, at fractions of the time: those that lie close together share a place."""
    duration: str
    relative: bool
    begin: str
    end: str
    """What stands at the two ends of the time axis."""
    begin_seconds: float
    end_seconds: float
    """These ends, from the chart's zero on."""
    ceiling_bytes: float
    limits_bytes: tuple[int, ...]
    in_words: str


@dataclass(frozen=True)
class _Axis:
    """A time axis: its ends, and the moment that it counts from."""

    begin: float
    end: float
    failure: float | None

    @property
    def span(self) -> float:
        return self.end - self.begin or 1.0

    @property
    def zero(self) -> float:
        return self.end if self.failure is None else self.failure

    def holds(self, when: float) -> bool:
        """Within it, or so soon after it that the last sample was before."""
        return self.begin <= when <= self.end + max(_SOON_SECONDS, _SOON_SHARE * (self.end - self.begin))

    def at(self, when: float) -> float:
        return min(max((when - self.begin) / self.span, 0.0), 1.0)


def view_charts(
    series: tuple[Series, ...],
    incidents: tuple[Incident, ...] = (),
    moments: tuple[MomentView, ...] = (),
    failure: float | None = None,
    courses: tuple[Course, ...] = (),
    points: Mapping[tuple[str, bool], tuple[Point, ...]] | None = None,
) -> tuple[Chart, ...]:
    """A chart per place, in the order of the input. Curves without two points are left out: they show no course.

    Where a place's memory is known by category, its areas stand in place of curves.

    All that is dated has one time axis, which counts from the failure where it holds it, and devices have one scale of
    bytes: what stands below each other can be compared. `failure` (Unix time) is that which the report is about, as
    some witness dates it; else it is the first of the incidents that the axis holds.
    """
    by_place = by_chart(series)
    divided = {(each.where, False): each for each in courses if _is_device(each.where) or _is_seen(each)}
    drawn = sum(len(divided[key].parts) if key in divided else len(group) for key, group in by_place.items())
    most = max(8, min(POINTS, _ALL_POINTS // max(drawn, 1)))
    areas = {key: view_course(divided[key], most) for key in by_place if key in divided}
    lines = {key: [] if key in areas else [_course(each, most) for each in group] for key, group in by_place.items()}
    ends = {
        key: [(found.times_seconds[0], found.times_seconds[-1])] if (found := areas.get(key)) else _ends(lines[key])
        for key in by_place
    }
    dated = [end for (_, relative), group in ends.items() if not relative for end in group]
    shared = _axis(dated, [failure, *(each.when_seconds for each in incidents)]) if dated else None
    tops = {key: divided[key].total_bytes if key in areas else _top(group) for key, group in by_place.items()}
    common = max((top for (where, _), top in tops.items() if _is_device(where)), default=0)
    folded = _folded(list(by_place), {each.where for each in incidents} | {each.where for each in moments})
    return tuple(
        _chart(
            number,
            number in folded,
            key,
            list(zip(group, lines[key], strict=True)) if key not in areas else [],
            areas.get(key),
            _axis(ends[key], ()) if key[1] or shared is None else shared,
            [] if key[1] else [m for m in moments if _concerns(m, key[0])],
            common if _is_device(key[0]) else tops[key],
            (points or {}).get(key, ()),
        )
        for number, (key, group) in enumerate(by_place.items(), 1)
    )


def _folded(keys: Sequence[tuple[str, bool]], named: set[str]) -> set[int]:
    """Of very many charts, by number: devices after the first at which nothing happened."""
    devices = [number for number, (where, _) in enumerate(keys, 1) if _is_device(where)]
    if len(devices) <= _MOST_OPEN:
        return set()
    return {number for number in devices[_MOST_OPEN:] if keys[number - 1][0] not in named}


def _concerns(moment: MomentView, where: str) -> bool:
    """The failure that times count from is marked on every device: what the others did then is read there."""
    return moment.where in ("", where) or moment.kind == "failure" or not _is_device(where)


def _is_seen(course: Course) -> bool:
    """Whether what is in use is more than a strip at the foot of the place."""
    free = next((part.values_bytes for part in course.parts if category_of(part.name) is FREE), (0,))
    return course.total_bytes - min(free) >= course.total_bytes / _LIMIT_SHOWN


def _ends(courses: list[list[tuple[float, int]]]) -> list[tuple[float, float]]:
    return [(course[0][0], course[-1][0]) for course in courses]


def _axis(ends: Sequence[tuple[float, float]], failures: Sequence[float | None]) -> _Axis:
    begin, end = min(first for first, _ in ends), max(last for _, last in ends)
    whole = _Axis(begin, end, None)
    failure = next((when for when in failures if when is not None and whole.holds(when)), None)
    return _Axis(begin, end if failure is None else max(end, failure), failure)


def _is_device(where: str) -> bool:
    return re.fullmatch(r"[a-z]+:[0-9]+", where) is not None


def _top(group: list[Series]) -> int:
    """The highest that is drawn: of the curves, and of limits that are not far above them."""
    top = max(1, *(max(each.values_bytes, default=1) for each in group))
    # A limit far above the curve would press it flat against the axis; it is named in words instead.
    return max([top, *(each.limit_bytes for each in group if each.limit_bytes and 0 < each.limit_bytes <= 3 * top)])


def thin(values: Sequence[int], most: int = POINTS) -> list[int]:
    """Positions of the values that are drawn."""
    positions: list[int] = thinned(np.asarray(values, dtype=np.float64), most).tolist()
    return positions


def _chart(
    number: int,
    folded: bool,
    key: tuple[str, bool],
    drawn: list[tuple[Series, list[tuple[float, int]]]],
    course: CourseView | None,
    axis: _Axis,
    moments: list[MomentView],
    top: int,
    points: tuple[Point, ...],
) -> Chart:
    where, relative = key
    limits = sorted({each.limit_bytes for each, _ in drawn if each.limit_bytes is not None and each.limit_bytes > 0})
    if course is not None:
        limits = [course.total_bytes] if course.total_known else []
    ceiling = 1.06 * top
    curves = tuple(_curve(each, course, axis, ceiling, place) for place, (each, course) in enumerate(drawn))
    place = one_line(told(where), 60)
    courses_told = [
        _("{curve} peaked at {peak} and ended at {last}").format(curve=curve.name, peak=curve.peak, last=curve.last)
        for curve in curves
    ]
    areas = () if course is None else course.areas
    courses_told += [
        _("{curve} peaked at {peak} and ended at {last}").format(curve=area.name, peak=area.peak, last=area.last)
        for area in areas
    ]
    duration = format_seconds(axis.span)
    placed = tuple(area.placed(axis.begin, axis.span, ceiling) for area in areas)
    unseen = None if course is None else _unseen(course, placed, ceiling)
    in_words = _("{place} over {time}: {curves}.").format(
        place=place,
        time=duration,
        curves=_("; ").join([*courses_told, *([] if unseen is None else [unseen.said]), *map(_limit, limits)]),
    )
    gaps = () if course is None or unseen is not None else tuple(_gaps(course, axis, ceiling))
    strokes = tuple(_strokes(moments, axis))
    return Chart(
        number=number,
        folded=folded,
        where=place,
        curves=curves,
        areas=placed,
        area_times_seconds=() if course is None else tuple(round(time - axis.zero, 4) for time in course.times_seconds),
        how_sampled="" if course is None else course.how_sampled,
        unseen=unseen,
        gaps=gaps,
        limits=tuple(Mark(limit / ceiling, _limit(limit)) for limit in limits if limit <= top),
        grid=_grid(ceiling, top),
        samples=tuple(_samples(points, axis, ceiling, areas)),
        strokes=strokes,
        numbers=tuple(_numbers(strokes)),
        duration=duration,
        relative=relative,
        begin=_("start")
        if axis.failure is None
        else _("{time} before the failure").format(time=format_seconds(axis.failure - axis.begin)),
        end=_end(axis),
        begin_seconds=round(axis.begin - axis.zero, 4),
        end_seconds=round(max(axis.end, axis.zero) - axis.zero, 4),
        ceiling_bytes=ceiling,
        limits_bytes=tuple(limit for limit in limits if limit <= top),
        in_words=in_words,
    )


def _gaps(course: CourseView, axis: _Axis, ceiling: float) -> Iterator[Gap]:
    if not course.areas or not course.total_known:
        return
    looks, end = course.times_seconds, max(axis.end, axis.zero)
    for begin_seconds, end_seconds in ((axis.begin, looks[0]), (looks[-1], end)):
        begin, until = ((each - axis.begin) / axis.span for each in (begin_seconds, end_seconds))
        if until - begin > _LEAST_GAP:
            since, to = round(begin_seconds - axis.zero, 4), round(end_seconds - axis.zero, 4)
            yield Gap(begin, min(until, 1.0), since, to, course.total_bytes / ceiling, course.total_bytes)


def _unseen(course: CourseView, areas: tuple[CourseArea, ...], ceiling: float) -> Unseen | None:
    if not course.unseen:
        return None
    height = course.total_bytes / ceiling if course.total_known else 0.0
    points = areas[-1].upper if areas else ((0.0, 0.0),)
    # Before the first figure and after the last nothing was seen either.
    middle = float(np.interp(0.5, [at for at, _ in points], [upper for _, upper in points], left=0, right=0))
    word = (height + middle) / 2 if height - middle >= _WORD_ROOM else None
    return Unseen(course.unseen, height, course.total_bytes if course.total_known else 0, word)


def _curve(series: Series, points: list[tuple[float, int]], axis: _Axis, ceiling: float, place: int) -> Curve:
    return Curve(
        name=one_line(told(series.name), 60),
        points=tuple(((time - axis.begin) / axis.span, value / ceiling) for time, value in points),
        peak=format_bytes(max(value for _, value in points)),
        last=format_bytes(points[-1][1]),
        how_sampled=one_line(told(series.how_sampled), 80),
        place=place,
        times_seconds=tuple(round(time - axis.zero, 4) for time, _ in points),
        values_bytes=tuple(value for _, value in points),
    )


def _samples(points: tuple[Point, ...], axis: _Axis, ceiling: float, areas: tuple[CourseArea, ...]) -> Iterator[Sample]:
    found: list[Sample] = []
    for point in points:
        sample = _sample(point, axis, ceiling, areas)
        beside = sum(abs(each.at - sample.at) < _NUMBER_WIDTH for each in found)
        found.append(sample)
        yield replace(sample, beside=beside)


def _sample(point: Point, axis: _Axis, ceiling: float, areas: tuple[CourseArea, ...]) -> Sample:
    """On the curve; where areas lie on each other, on the uppermost."""
    size: float = point.bytes
    if areas:
        size = float(np.interp(point.seconds, areas[-1].times_seconds, areas[-1].upper_bytes))
    seconds = point.seconds - axis.zero
    when = _("{time} before the failure") if seconds < 0 else _("{time} after the failure")
    if axis.failure is None:
        when, seconds = _("{time} after the start"), point.seconds - axis.begin
    said = _("{what}, {when}").format(what=point.said, when=when.format(time=format_seconds(abs(seconds))))
    if axis.failure is not None and abs(seconds) < 0.005:
        said = _("{what}, {when}").format(what=point.said, when=_("at the failure"))
    height, at = min(size / ceiling, 1.0), axis.at(point.seconds)
    return Sample(point.anchor, point.letter, at, height, round(point.seconds - axis.zero, 4), size, 0, said)


def _strokes(moments: list[MomentView], axis: _Axis) -> Iterator[Stroke]:
    for each in moments:
        if axis.begin <= each.seconds <= axis.end:
            yield Stroke(axis.at(each.seconds), round(each.seconds - axis.zero, 4), each.number, each.kind, each.what)


def _numbers(strokes: tuple[Stroke, ...]) -> Iterator[tuple[float, str]]:
    """`3`, or `3–5` over strokes whose numbers would cover each other."""
    ordered = sorted(strokes, key=lambda stroke: stroke.at)
    while ordered:
        first = ordered[0]
        group = [each for each in ordered if each.at - first.at < _NUMBER_WIDTH]
        ordered = ordered[len(group) :]
        numbers = [each.number for each in group]
        yield first.at, str(numbers[0]) if len(group) == 1 else f"{min(numbers)}–{max(numbers)}"


def _end(axis: _Axis) -> str:
    if axis.failure is None:
        return _("{time} later").format(time=format_seconds(axis.span))
    if abs(axis.end - axis.failure) <= 0.01 * axis.span:
        return _("the failure")
    return _("{time} after it").format(time=format_seconds(abs(axis.end - axis.failure)))


def _limit(size: int) -> str:
    return _("limit {size}").format(size=format_bytes(size))


def _course(series: Series, most: int) -> list[tuple[float, int]]:
    """The points that are drawn, by time; a point without a time is none."""
    count = min(len(series.times_seconds), len(series.values_bytes))
    times = np.asarray(series.times_seconds[:count], dtype=np.float64)
    known = np.flatnonzero(np.isfinite(times))
    order = known[np.argsort(times[known], kind="stable")].tolist()
    values = [series.values_bytes[place] for place in order]
    return [(series.times_seconds[order[place]], values[place]) for place in thin(values, most)] or [(0.0, 0)]


def _grid(ceiling: float, highest: float) -> tuple[Mark, ...]:
    """Two to five round lines above zero, in powers of two and multiples of them."""
    step = 2.0 ** math.floor(math.log2(max(highest, 4) / 2.5))
    return tuple(
        Mark(count * step / ceiling, format_bytes(count * step)) for count in range(1, int(highest / step) + 1)
    )
