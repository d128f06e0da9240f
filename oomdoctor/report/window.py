"""The recorded window of a device: who was live when, the peak, who allocated how often. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..language import _, ngettext, tidy, told
from ..model.named_values import name_in_words
from ..model.printable import one_line
from ..model.units import format_bytes, format_seconds
from ..model.window import OwnerCourse, PeakHolding, PhaseSpan, Window
from .palette import UNATTRIBUTED, Category, category_of, draw_order
from .text import format_share, listed

_LINE = 200


@dataclass(frozen=True)
class Area:
    """A category's share of the picture, between two courses: (fraction of the width, of the height) each."""

    category: Category
    names: str
    below: tuple[tuple[float, float], ...]
    above: tuple[tuple[float, float], ...]
    values_bytes: tuple[int, ...]
    most: str
    number: str = ""
    """What stands in it where there is room."""


@dataclass(frozen=True)
class Band:
    """A stretch below the picture."""

    name: str
    start: float
    width: float
    how_known: str = ""


@dataclass(frozen=True)
class HeldView:
    """A row of what was live at the peak."""

    owner: str
    category: Category
    size: str
    share: str
    fraction: float
    count: str


@dataclass(frozen=True)
class TurnoverView:
    """A row of who allocated how much, and how long it lived."""

    owner: str
    allocations: str
    sizes: str
    allocated: str
    most_live: str
    at_end: str
    lives: str


@dataclass(frozen=True)
class WindowView:
    """The window of one device."""

    where: str
    sentences: tuple[str, ...]
    areas: tuple[Area, ...]
    lines: tuple[Area, ...]
    """The same memory by owner."""
    peak: tuple[float, float]
    peak_label: str
    failure: float | None
    ceiling: str
    duration: str
    phases: tuple[Band, ...]
    marks: tuple[Band, ...]
    how_phases: tuple[str, ...]
    """How what the program did is known."""
    at_peak: tuple[HeldView, ...]
    rise: str
    """What is said over the owners of the rise; empty where there was none."""
    risen: tuple[str, ...]
    turnover: tuple[TurnoverView, ...]
    is_timed: bool
    times_seconds: tuple[float, ...]
    """Of the points of the areas: from the failure (or the end) on; numbers of events where there are no times."""
    title: str
    in_words: str
    lines_title: str
    lines_in_words: str


def view_window(window: Window) -> WindowView:
    """What the report shows of it."""
    begin, end = window.times_seconds[0], window.times_seconds[-1]
    span = max(end - begin, 1e-9)
    ceiling = max(1.0, 1.04 * window.peak_bytes)
    largest = max((each.bytes for each in window.at_peak), default=0)
    areas = tuple(_areas(window, begin, span, ceiling))
    lines = tuple(_lines(window, begin, span, ceiling))
    duration = format_seconds(span) if window.has_times else _("{number} events").format(number=f"{window.events:,}")
    peak_label = _("most: {size}").format(size=format_bytes(window.peak_bytes))
    where = one_line(told(window.where), 60)
    return WindowView(
        where=where,
        sentences=tuple(_sentences(window, duration)),
        areas=areas,
        lines=lines,
        peak=((window.peak_seconds - begin) / span, window.peak_bytes / ceiling),
        peak_label=peak_label,
        failure=None if window.failure_seconds is None else (window.failure_seconds - begin) / span,
        ceiling=format_bytes(window.peak_bytes),
        duration=duration,
        phases=tuple(_bands(window.phases, begin, span, name_in_words)),
        marks=tuple(_bands(window.marks, begin, span, str)),
        how_phases=tuple(_how_phases(window.phases)),
        at_peak=tuple(
            HeldView(
                owner=one_line(told(each.owner), _LINE),
                category=category_of(each.category),
                size=format_bytes(each.bytes),
                share=format_share(each.bytes, window.peak_bytes),
                fraction=each.bytes / largest if largest else 0.0,
                count=f"{each.count:,}",
            )
            for each in window.at_peak
        ),
        rise=_rise(window),
        risen=tuple(map(_risen, window.rise.owners)) if window.rise is not None else (),
        turnover=tuple(map(_turnover, window.owners)),
        is_timed=window.has_times,
        times_seconds=tuple(round(time - _zero(window), 6) for time in window.times_seconds),
        title=_("{place}: live memory by category").format(place=where),
        in_words=_in_words(where, duration, peak_label, areas),
        lines_title=_("{place}: live memory by owner").format(place=where),
        lines_in_words=_in_words(where, duration, peak_label, lines),
    )


def _in_words(where: str, duration: str, peak_label: str, areas: tuple[Area, ...]) -> str:
    most = _("; ").join(_("{names} at most {size}").format(names=area.names, size=area.most) for area in areas)
    return _("{place} over {time}: {peak}; {areas}.").format(place=where, time=duration, peak=peak_label, areas=most)


def _how_phases(spans: tuple[PhaseSpan, ...]) -> Iterator[str]:
    """Each way in which phases are known, and which ones are."""
    names: dict[str, dict[str, None]] = {}
    for each in spans:
        names.setdefault(each.how_known, {})[name_in_words(each.name)] = None
    for how, known in names.items():
        if how:
            yield _("{phases}: {how}").format(phases=listed(list(known)), how=told(how))


def _zero(window: Window) -> float:
    if not window.has_times:
        return 0.0
    return window.times_seconds[-1] if window.failure_seconds is None else window.failure_seconds


def _sentences(window: Window, duration: str) -> Iterator[str]:
    number = f"{window.events:,}"
    if window.failure_seconds == window.times_seconds[-1]:
        recorded = _("{number} events over {time}, up to the failure.")
        untimed = _("{number} events, up to the failure.")
    else:
        recorded = _("{number} events over {time}, in all.")
        untimed = _("{number} events, in all.")
    said = (recorded if window.has_times else untimed).format(number=number, time=duration)
    if window.before_bytes:
        said += " " + _(
            "{size} was live before the first of them: what stood there is rebuilt backwards from the final state."
        ).format(size=format_bytes(window.before_bytes))
    yield tidy(said)
    size = format_bytes(window.peak_bytes)
    if window.peak_is_before:
        yield _("Most was live before the window began: {size}.").format(size=size)
    else:
        yield _at_most(window).format(size=size, time=_from_failure(window))
    if window.peak_may_be_more_bytes:
        yield _(
            "That is at least so much, and at most {size} more: how far blocks were rounded that stood before the"
            " window began and went within it is not recorded."
        ).format(size=format_bytes(window.peak_may_be_more_bytes))
    if window.disagreements:
        yield ngettext(
            "The events and the final state contradict each other in {number} place: figures of this section may be"
            " off.",
            "The events and the final state contradict each other in {number} places: figures of this section may be"
            " off.",
            window.disagreements,
        ).format(number=f"{window.disagreements:,}")
    if not window.has_times:
        yield _("The snapshot has no times: the picture runs from event to event.")


def _rise(window: Window) -> str:
    rise = window.rise
    if rise is None or not rise.owners:
        return ""
    took = window.peak_seconds - rise.foot_seconds
    if window.has_times and took > 0:
        said = _("The rise to it took {size} within {time}, from {foot} on. The largest parts of it:")
    else:
        said = _("The rise to it took {size}, from {foot} on. The largest parts of it:")
    return said.format(
        size=format_bytes(window.peak_bytes - rise.foot_bytes),
        time=_lifetime(took),
        foot=format_bytes(rise.foot_bytes),
    )


def _risen(each: PeakHolding) -> str:
    if each.count == 0:
        said = _("+{size}: {owner} ({category})")
    else:
        said = ngettext(
            "+{size} in {number} more block: {owner} ({category})",
            "+{size} in {number} more blocks: {owner} ({category})",
            abs(each.count),
        )
    return said.format(
        size=format_bytes(each.bytes),
        number=f"{each.count:,}",
        owner=one_line(told(each.owner), _LINE),
        category=told(each.category),
    )


_AT_ONCE = 0.005
"""The time between a peak so close to the failure and the failure would read as nothing."""


def _at_most(window: Window) -> str:
    if window.failure_seconds is None or not window.has_times:
        return _("At most {size} was live.")
    before = window.failure_seconds - window.peak_seconds
    at_failure = sum(each.values_bytes[-1] for each in window.categories if each.values_bytes)
    if 0 <= before < _AT_ONCE and at_failure < window.peak_bytes:
        return _("At most {size} was live, just before the request failed.")
    if abs(before) < _AT_ONCE:
        stood = _live_by(window, window.failure_seconds) == window.peak_bytes
        return _("At most {size} was live, when the request failed.") if stood else _("At most {size} was live.")
    if before > 0:
        return _("At most {size} was live, {time} before the failure.")
    return _("At most {size} was live, {time} after the failure.")


def _live_by(window: Window, seconds: float) -> int:
    """Bytes live at the last of the window's times that is no later than `seconds`."""
    at = bisect_right(window.times_seconds, seconds) - 1
    return sum(each.values_bytes[at] for each in window.categories) if at >= 0 else window.before_bytes


def _from_failure(window: Window) -> str:
    return "" if window.failure_seconds is None else format_seconds(abs(window.failure_seconds - window.peak_seconds))


def _areas(window: Window, begin: float, span: float, ceiling: float) -> Iterator[Area]:
    """Categories of one colour are one area; what a bar draws first lies lowest."""
    groups: dict[str, tuple[Category, list[str], list[int]]] = {}
    for course in window.categories:
        category = category_of(course.name)
        _, names, values = groups.setdefault(category.key, (category, [], [0] * len(window.times_seconds)))
        names.append(told(course.name))
        values[:] = [old + new for old, new in zip(values, course.values_bytes, strict=True)]
    rows = [
        (category, one_line(listed(names), _LINE), values, "")
        for category, names, values in sorted(groups.values(), key=lambda group: draw_order(group[0]))
    ]
    yield from _piled(rows, [(time - begin) / span for time in window.times_seconds], ceiling)


def _lines(window: Window, begin: float, span: float, ceiling: float) -> Iterator[Area]:
    """Each owner is an area of its category's colour; a number tells those of one colour apart."""
    rows = [
        (
            category_of(line.category) if line.owner else UNATTRIBUTED,
            one_line(told(line.owner), _LINE) if line.owner else _("all others"),
            list(line.values_bytes),
            str(number) if line.owner else "",
        )
        for number, line in enumerate(window.lines, 1)
    ]
    yield from _piled(rows, [(time - begin) / span for time in window.times_seconds], ceiling)


def _piled(rows: Sequence[tuple[Category, str, list[int], str]], at: list[float], ceiling: float) -> Iterator[Area]:
    """Areas that lie on each other, the first lowest."""
    below = [0] * len(at)
    for category, names, values, number in rows:
        above = [old + new for old, new in zip(below, values, strict=True)]
        yield Area(
            category=category,
            names=names,
            below=tuple(zip(at, (value / ceiling for value in below), strict=True)),
            above=tuple(zip(at, (value / ceiling for value in above), strict=True)),
            values_bytes=tuple(values),
            most=format_bytes(max(values)),
            number=number,
        )
        below = above


def _bands(spans: tuple[PhaseSpan, ...], begin: float, span: float, called: Callable[[str], str]) -> Iterator[Band]:
    for each in spans:
        start = min(max((each.begin_seconds - begin) / span, 0.0), 1.0)
        stop = min(max((each.end_seconds - begin) / span, start), 1.0)
        yield Band(one_line(called(each.name), 80), start, stop - start, told(each.how_known))


def _turnover(each: OwnerCourse) -> TurnoverView:
    return TurnoverView(
        owner=one_line(told(each.owner), _LINE),
        allocations=f"{each.allocations:,}",
        sizes=f"{each.sizes:,}",
        allocated=format_bytes(each.allocated_bytes),
        most_live=format_bytes(each.most_live_bytes),
        at_end=format_bytes(each.live_at_end_bytes),
        lives="" if each.median_lifetime_seconds is None else _lifetime(each.median_lifetime_seconds),
    )


def _lifetime(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} µs"
    return f"{1e3 * seconds:.1f} ms" if seconds < 1 else format_seconds(seconds)
