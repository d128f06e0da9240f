"""Bars and timelines as static SVG.

Positions are percentages, so a picture is as wide as its column while its text keeps its size. Nothing carries a style
attribute: the report's Content-Security-Policy forbids them. Texts take their colours from classes of report.css, which
knows both colour schemes; the colours of categories are the same in both. Where a mail preview drops the style sheet,
presentation attributes keep outlines hollow.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ..language import _
from ..language.wrapping import cells
from .bars import BudgetView, Segment
from .course import CourseArea
from .loose import LooseFigure
from .palette import Category
from .timeline import Chart
from .tones import VARIANTS

_BAR, _LANE = 46, 68
_CHARACTER, _COLUMN, _PAPER = 7.0, 1080.0, 640.0
"""About the width of a character of a label, of the bar where it is widest, and of one on paper."""
_PLOT_TOP, _PLOT_HEIGHT = 18, 180
_LIMIT_NAME = 0.8
"""Fraction of the width at which the name of a limit begins at the latest."""
_DENSE = 120
"""With more points than this an area is drawn without an edge, which would cover it."""


def budget_bar(bar: BudgetView, name: str) -> Markup:
    """The bar of one budget. `name` makes ids unique in the document."""
    drawn = [each for each in bar.segments if each.width > 0]
    parts = [_segment(each) for each in drawn]
    if not drawn:
        parts.append(
            Markup(
                '<rect class="outline" fill="none" stroke="currentColor" x="0" y="0.5" width="{}" height="{}"/>'
            ).format(at(bar.capacity), _BAR)
        )
    parts.append(
        Markup('<line class="end" stroke="currentColor" x1="{0}" x2="{0}" y1="0" y2="{1}"/>').format(
            at(bar.capacity), _LANE if bar.request else _BAR + 1
        )
    )
    if bar.request is not None:
        parts.append(_request(bar))
    return picture("bar", name, _LANE + 2 if bar.request else _BAR + 2, bar.where, bar.in_words, parts)


def small_bar(bar: BudgetView, name: str) -> Markup:
    """A budget without its labels and its request, for comparison with the bar above it and those beside it."""
    drawn = [each for each in bar.segments if each.width > 0]
    whole = max([bar.capacity, *(each.start + each.width for each in drawn)])
    parts = [
        Markup('<svg x="{}" width="{}" height="14">{}</svg>').format(
            at(each.start / whole), at(each.width / whole), _fill(each.category, each.variant, edge=True)
        )
        for each in drawn
    ]
    return picture("bar", name, 14, bar.where, bar.in_words, parts)


def loose_bar(figure: LooseFigure, name: str) -> Markup:
    """A figure without a whole: how large it is beside the others, and that the rest is not known."""
    known = (
        Markup('<rect class="request" fill="none" stroke="currentColor" x="0.75" y="1" width="{}" height="12" rx="2"/>')
        if figure.asked
        else Markup('<svg y="1" width="{{}}" height="12">{}</svg>').format(_fill(figure.category, edge=True))
    )
    parts = [Markup(known).format(at(figure.width))]
    described = _("{name}: {size}").format(name=figure.name, size=figure.size)
    if figure.open_ended:
        parts.append(
            Markup(
                '<line class="unknown" stroke="currentColor" stroke-dasharray="1 5" x1="{}" x2="100%" y1="7" y2="7"/>'
                '<text class="unknown-name" x="100%" y="11" text-anchor="end">{}</text>'
            ).format(at(figure.width + 0.01), _("rest not known"))
        )
        described = _("{name}: {size}, of a size that is not known").format(name=figure.name, size=figure.size)
    return picture("bar", name, 14, figure.name, described, parts)


def chip(category: Category, variant: int = 0) -> Markup:
    """The category's colour and pattern, beside its name; `variant` as in the bar."""
    return Markup('<svg class="chip" width="13" height="13" aria-hidden="true" focusable="false">{}</svg>').format(
        _fill(category, variant)
    )


def unseen_chip() -> Markup:
    """How what nobody looked at is drawn, beside what it is."""
    return Markup(
        '<svg class="chip" width="13" height="13" aria-hidden="true" focusable="false">'
        '<rect class="empty" fill="none" stroke="currentColor" width="100%" height="100%"/>'
        '<rect width="100%" height="100%" fill="url(#pattern-unseen)"/></svg>'
    )


def share_bar(fraction: float, category: Category) -> Markup:
    """A row's bar in a table."""
    return Markup(
        '<svg class="share" width="100%" height="10" aria-hidden="true" focusable="false">'
        '<svg width="{}" height="10">{}</svg></svg>'
    ).format(at(min(max(fraction, 0.0), 1.0)), _fill(category))


def timeline(chart: Chart, name: str) -> Markup:
    """The curves of one place. `name` makes ids unique in the document."""
    bottom = _PLOT_TOP + _PLOT_HEIGHT
    parts = [Markup('<line class="axis" stroke="currentColor" x1="0" x2="100%" y1="{0}" y2="{0}"/>').format(bottom)]
    for mark in (*chart.grid, *chart.limits):
        kind = "limit" if mark in chart.limits else "grid"
        parts.append(
            Markup('<line class="{1}" stroke="currentColor" x1="0" x2="100%" y1="{0}" y2="{0}"/>').format(
                _y(mark.height), kind
            )
        )
    parts.append(
        Markup('<svg x="0" y="{}" width="100%" height="{}" viewBox="0 0 1000 1000" preserveAspectRatio="none">').format(
            _PLOT_TOP, _PLOT_HEIGHT
        )
    )
    unseen = chart.unseen
    if unseen is not None and unseen.height:
        parts.append(
            Markup('<rect class="unseen" fill="url(#pattern-unseen-area)" y="{}" width="1000" height="{}"/>').format(
                round(1000 * (1 - unseen.height)), round(1000 * unseen.height)
            )
        )
    parts.extend(
        Markup('<rect class="unseen" fill="url(#pattern-unseen-area)" x="{}" y="{}" width="{}" height="{}"/>').format(
            round(1000 * gap.begin),
            round(1000 * (1 - gap.height)),
            round(1000 * (gap.end - gap.begin)),
            round(1000 * gap.height),
        )
        for gap in chart.gaps
    )
    # Each reaches down to the axis: the lower ones lie over it.
    parts.extend(_area(area) for area in reversed(chart.areas))
    for curve in chart.curves:
        parts.append(
            Markup(
                '<path class="curve curve-{}" fill="none" stroke="currentColor"'
                ' vector-effect="non-scaling-stroke" d="{}"/>'
            ).format(curve.place % 4, steps(curve.points))
        )
    parts.append(Markup("</svg>"))
    for stroke in chart.strokes:
        parts.append(
            Markup(
                '<line class="moment moment-{4}" stroke="currentColor" x1="{0}" x2="{0}" y1="{1}" y2="{2}">'
                "<title>{3}</title></line>"
            ).format(at(stroke.at), _PLOT_TOP, bottom, stroke.label, stroke.kind)
        )
    # Texts come last, with a halo in the page's colour: a curve that runs through them does not hide them.
    for mark in chart.grid:
        parts.append(Markup('<text class="tick" x="0" y="{}">{}</text>').format(_y(mark.height, above=4), mark.label))
    # Left of events near the right edge, whose lines and numbers would run through it.
    beside = min((stroke.at for stroke in chart.strokes if stroke.at > _LIMIT_NAME), default=1.0)
    for mark in chart.limits:
        parts.append(
            Markup('<text class="limit-name" x="{}" y="{}" dx="{}" text-anchor="end">{}</text>').format(
                at(beside), _y(mark.height, above=5), 0 if beside == 1 else -8, mark.label
            )
        )
    if unseen is not None and unseen.word_height is not None:
        parts.append(
            Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
                at(0.5), _y(unseen.word_height, above=-4), _("not seen")
            )
        )
    for sample in chart.samples:
        # The figure's rule in the style sheet shows which one a link has led to.
        parts.append(
            Markup(
                '<g class="sample-{0}"><circle class="point" cx="{1}" cy="{2}" r="4"/>'
                '<text class="point-name" x="{1}" y="{2}" dx="{3}" dy="{4}" text-anchor="{5}">{0}</text></g>'
            ).format(
                sample.letter,
                at(sample.at),
                _y(sample.height),
                (8 + 11 * sample.beside) * (-1 if sample.at > 0.5 else 1),
                14 if sample.height > 0.85 else -4,
                "end" if sample.at > 0.5 else "start",
            )
        )
    for place, number in chart.numbers:
        anchor = "start" if place < 0.01 else "end" if place > 0.99 else "middle"
        parts.append(
            Markup('<text class="moment-number" x="{}" y="{}" text-anchor="{}">{}</text>').format(
                at(place), _PLOT_TOP - 5, anchor, number
            )
        )
    parts.append(
        Markup(
            '<text class="tick" x="0" y="{0}">{1}</text>'
            '<text class="tick" x="100%" y="{0}" text-anchor="end">{2}</text>'
        ).format(bottom + 16, chart.begin, chart.end)
    )
    return picture(
        "timeline", name, bottom + 22, _("{place} over time").format(place=chart.where), chart.in_words, parts
    )


def _area(area: CourseArea) -> Markup:
    dense = " dense" if len(area.upper) > _DENSE else ""
    title = _("{names}: at most {size}").format(names=area.name, size=area.peak)
    return Markup('<path class="area{}" fill="{}" d="{}V1000H{}z"><title>{}</title></path>').format(
        dense, area.category.colour, steps(area.upper), round(1000 * area.upper[0][0]), title
    )


def steps(points: Sequence[tuple[float, float]]) -> str:
    """A path through points of (fraction of the width, fraction of the height), in thousandths of a picture."""
    x, y = (round(1000 * points[0][0]), round(1000 * (1 - points[0][1]))) if points else (0, 1000)
    found = [f"M{x} {y}l"]
    for right, height in points[1:]:
        to_x, to_y = round(1000 * right), round(1000 * (1 - height))
        if (to_x, to_y) != (x, y):
            found.append(f"{to_x - x} {to_y - y}")
            x, y = to_x, to_y
    return found[0] + " ".join(found[1:]).replace(" -", "-") if len(found) > 1 else found[0].rstrip("l")


def curve_sample(place: int) -> Markup:
    """The line style of a chart's curve, beside its name."""
    return Markup(
        '<svg class="sample" width="26" height="10" aria-hidden="true" focusable="false">'
        '<line class="curve curve-{}" stroke="currentColor" x1="0" x2="26" y1="5" y2="5"/></svg>'
    ).format(place % 4)


def picture(kind: str, name: str, height: int, title: str, description: str, parts: list[Markup]) -> Markup:
    """An SVG as wide as its column, with a title and a description for those who cannot see it."""
    return Markup(
        '<svg class="{kind}" width="100%" height="{height}" role="img" aria-labelledby="{name}-t {name}-d">'
        '<title id="{name}-t">{title}</title><desc id="{name}-d">{description}</desc>{parts}</svg>'
    ).format(kind=kind, height=height, name=name, title=title, description=description, parts=Markup("").join(parts))


def _segment(segment: Segment) -> Markup:
    wanted = (max(cells(segment.name), len(segment.size)) + 2) * _CHARACTER
    label = Markup("")
    if segment.width * _COLUMN >= wanted:
        kind = "label roomy" if segment.width * _PAPER >= wanted else "label"
        # The halo in the segment's own colour keeps a label readable on a pattern.
        look = (
            Markup('class="{} bare"').format(kind)
            if segment.category.key == "free"
            else Markup('class="{}" stroke="{}"').format(kind, segment.category.colour)
        )
        label = Markup('<text {look} x="8" y="20">{name}</text><text {look} x="8" y="36">{size}</text>').format(
            look=look, name=segment.name, size=segment.size
        )
    title = _("{name}: {size} {share}").format(name=segment.name, size=segment.size, share=segment.share)
    # A picture inside the picture clips a label that a narrow window leaves no room for.
    return Markup('<svg x="{}" y="1" width="{}" height="{}"><title>{}</title>{}{}</svg>').format(
        at(segment.start), at(segment.width), _BAR,
        title, _fill(segment.category, segment.variant, edge=True), label,
    )  # fmt: skip


def _request(bar: BudgetView) -> Markup:
    request = bar.request
    assert request is not None
    box = Markup(
        '<rect class="request" fill="none" stroke="currentColor" x="{}" y="52" width="{}" height="15" rx="2"/>'
    ).format(at(request.start), at(request.width))
    text = _("asked for {size}").format(size=request.size)
    if request.cut:
        text = _("asked for {size} (cut: larger than this picture)").format(size=request.size)
    end, room = request.start + request.width, 0.0105 * cells(text)
    # Before the box, behind it, or in it: wherever the name is not cut off by the picture's edge.
    if request.start > room:
        place, anchor, shift = request.start, "end", -8
    elif end + room < 1:
        place, anchor, shift = end, "start", 8
    else:
        place, anchor, shift = request.start, "start", 8
    return box + Markup('<text class="request-name" x="{}" y="64" dx="{}" text-anchor="{}">{}</text>').format(
        at(place), shift, anchor, text
    )


def _fill(category: Category, variant: int = 0, *, edge: bool = False) -> Markup:
    if category.key == "free":
        return Markup(
            '<rect class="empty" fill="none" stroke="currentColor" stroke-width="2" width="100%" height="100%"/>'
        )
    solid = Markup('<rect width="100%" height="100%" fill="{}"/>').format(category.colour)
    if category.key in ("idle", "unattributed"):
        solid += Markup('<rect width="100%" height="100%" fill="url(#pattern-{})"/>').format(category.key)
    if variant:
        mark = 1 + (variant - 1) % VARIANTS
        solid += Markup('<rect width="100%" height="100%" fill="url(#pattern-variant-{})"/>').format(mark)
    return solid + (Markup('<rect class="edge" fill="none" width="100%" height="100%"/>') if edge else Markup(""))


def at(fraction: float) -> str:
    """A position or width in percent of the picture's."""
    return f"{100 * fraction:.3f}".rstrip("0").rstrip(".") + "%"


def _y(height: float, above: int = 0) -> str:
    return f"{_PLOT_TOP + _PLOT_HEIGHT * (1 - height) - above:.1f}"
