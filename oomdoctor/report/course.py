"""The memory of a place over the run as areas that lie on each other, a category each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..language import _, told
from ..model.diagnosis import Course
from ..model.printable import one_line
from ..model.thinning import thinned
from ..model.units import format_bytes
from .palette import FREE, Category, category_of, draw_order

_MOST_NAMES = 3
"""Of a category with more parts its own name is enough."""


@dataclass(frozen=True)
class CourseArea:
    """A category over the run."""

    category: Category
    name: str
    how_known: str
    peak: str
    last: str
    times_seconds: tuple[float, ...]
    """Unix time; the same of all areas of a course."""
    values_bytes: tuple[int, ...]
    upper_bytes: tuple[int, ...]
    """With all that lies below it."""
    upper: tuple[tuple[float, float], ...] = ()
    """The same, as fractions of the time and of the height; points between two of the same height are left out."""

    def placed(self, begin_seconds: float, span_seconds: float, ceiling_bytes: float) -> CourseArea:
        """The area in a picture."""
        points = [
            ((time - begin_seconds) / span_seconds, size / ceiling_bytes)
            for time, size in zip(self.times_seconds, self.upper_bytes, strict=True)
        ]
        return replace(self, upper=tuple(_bends(points)))


@dataclass(frozen=True)
class CourseView:
    """The areas of one place from the axis up; what is left to the total is free, or was not seen."""

    total_bytes: int
    times_seconds: tuple[float, ...]
    areas: tuple[CourseArea, ...]
    how_sampled: str
    unseen: str = ""
    """What is left to the total where it was not seen; empty: it is free."""
    total_known: bool = True


def view_course(course: Course, most: int) -> CourseView:
    """A course with at most about so many times."""
    grouped: dict[str, list[int]] = {}
    for place, part in enumerate(course.parts):
        grouped.setdefault(category_of(part.name).key, []).append(place)
    sizes = np.asarray([part.values_bytes for part in course.parts], dtype=np.int64)
    ordered = sorted(grouped.values(), key=lambda places: draw_order(category_of(course.parts[places[0]].name)))
    in_use = [places for places in ordered if category_of(course.parts[places[0]].name) is not FREE]
    summed = [sizes[places].sum(axis=0) for places in in_use]
    chosen = _chosen(summed, len(course.times_seconds), most)
    times = tuple(course.times_seconds[place] for place in chosen)
    below = np.zeros(len(chosen), dtype=np.int64)
    areas = []
    for places, values in zip(in_use, summed, strict=True):
        below = below + values[chosen]
        parts = [course.parts[place] for place in places]
        category = category_of(parts[0].name)
        names = [one_line(told(part.name), 60) for part in parts]
        areas.append(
            CourseArea(
                category=category,
                name=" · ".join(names) if len(names) <= _MOST_NAMES else _(category.label),
                how_known=one_line("; ".join(dict.fromkeys(told(part.how_known) for part in parts)), 200),
                peak=format_bytes(int(values.max())),
                last=format_bytes(int(values[-1])),
                times_seconds=times,
                values_bytes=tuple(values[chosen].tolist()),
                upper_bytes=tuple(below.tolist()),
            )
        )
    return CourseView(
        course.total_bytes,
        times,
        tuple(areas),
        one_line(told(course.how_sampled), 80),
        one_line(told(course.unseen), 120),
        course.total_known,
    )


def _chosen(areas: Sequence[NDArray[np.int64]], count: int, most: int) -> list[int]:
    """Places of the times that are drawn: the extremes of all together and of the area that moves most."""
    if count <= most or not areas:
        return list(range(count))
    liveliest = max(areas, key=lambda values: int(np.abs(np.diff(values)).sum()))
    whole = np.sum(areas, axis=0)
    picked = [thinned(values, most // 2) for values in (whole, liveliest)]
    return sorted({0, count - 1, *np.concatenate(picked).tolist()})


def _bends(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without those between two neighbours of the same height, a thousandth of the picture apart at most."""
    kept = list(points[:1])
    for place in range(1, len(points) - 1):
        if any(abs(points[place][1] - other[1]) >= 0.001 for other in (kept[-1], points[place + 1])):
            kept.append(points[place])
    return [*kept, *points[-1:]] if len(points) > 1 else kept
