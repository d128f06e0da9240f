"""The recorded window as static SVG: live bytes stacked by category, what the program did below them."""

from __future__ import annotations

from markupsafe import Markup

from ..language import _
from ..language.wrapping import cells
from .svg import at, picture
from .window import Area, Band, WindowView

_TOP, _HEIGHT, _BAND = 20, 200, 17


def stacked_areas(view: WindowView, name: str) -> Markup:
    """The picture. `name` makes ids unique in the document."""
    bottom = _TOP + _HEIGHT
    parts = [
        Markup('<svg x="0" y="{}" width="100%" height="{}" viewBox="0 0 1000 1000" preserveAspectRatio="none">').format(
            _TOP, _HEIGHT
        ),
        # Each down to the axis, the highest first: what lies on it covers the rest.
        *(_area(area) for area in reversed(view.areas)),
        Markup("</svg>"),
        Markup('<line class="axis" stroke="currentColor" x1="0" x2="100%" y1="{0}" y2="{0}"/>').format(bottom),
        _peak(view),
    ]
    if view.failure is not None:
        parts.append(
            Markup('<line class="limit" stroke="currentColor" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
                at(view.failure), _TOP, bottom
            )
        )
    top = bottom + 5
    for bands, kind in ((view.phases, "phase"), (view.marks, "mark")):
        if bands:
            parts.append(
                Markup('<svg x="0" y="{}" width="100%" height="{}">{}</svg>').format(
                    top, _BAND, Markup("").join(_band(each, kind) for each in bands)
                )
            )
            top += _BAND + 3
    failed_last = view.failure is not None and view.failure > 0.999
    end = _("the failure") if failed_last else _("{time} later").format(time=view.duration)
    parts.append(
        Markup(
            '<text class="tick" x="0" y="{0}">{2}</text>'
            '<text class="tick" x="100%" y="{0}" text-anchor="end">{1}</text>'
        ).format(top + 12, end, _("start of the recording"))
    )
    return picture(
        "timeline", name, top + 18, _("{place}: live memory by category").format(place=view.where), view.in_words, parts
    )


def _area(area: Area) -> Markup:
    upper = " ".join(f"{1000 * x:.1f} {1000 * (1 - y):.0f}" for x, y in area.above)
    return Markup('<path class="area" fill="{}" d="M0 1000L{}L1000 1000z"><title>{}</title></path>').format(
        area.category.colour, upper, _("{names}: at most {size}").format(names=area.names, size=area.most)
    )


def _peak(view: WindowView) -> Markup:
    x, y = view.peak
    top = _TOP + _HEIGHT * (1 - y)
    anchor = "end" if x > 0.5 else "start"
    return Markup(
        '<circle class="peak" cx="{0}" cy="{1:.1f}" r="3.5"/>'
        '<text class="peak-name" x="{0}" y="{2:.1f}" dx="{3}" text-anchor="{4}">{5}</text>'
    ).format(at(x), top, top - 6, -7 if anchor == "end" else 7, anchor, view.peak_label)


def _band(band: Band, kind: str) -> Markup:
    label = (
        Markup('<text x="5" y="12.5">{}</text>').format(band.name)
        if band.width * 1080 > 7 * cells(band.name) + 12
        else Markup("")
    )
    # A picture inside the picture clips a label that a narrow window leaves no room for.
    return Markup(
        '<svg class="{}" x="{}" width="{}" height="{}"><title>{}</title>'
        '<rect fill="none" stroke="currentColor" width="100%" height="100%"/>{}</svg>'
    ).format(kind, at(band.start), at(max(band.width, 0.001)), _BAND, band.name, label)
