"""Which curves stand in which chart of the timeline."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.diagnosis import Series


def by_chart(series: Sequence[Series]) -> dict[tuple[str, bool], list[Series]]:
    """The curves of each chart, by place and by whether their times are dates, in the order of the charts.

    Curves without two points are left out: they show no course.
    """
    found: dict[tuple[str, bool], list[Series]] = {}
    for each in series:
        if min(len(each.times_seconds), len(each.values_bytes)) >= 2:
            found.setdefault((each.where, each.relative), []).append(each)
    return found
