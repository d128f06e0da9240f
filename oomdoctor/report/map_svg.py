"""The map of segments as static SVG: rows of one scale, the request drawn to the same one above them."""

from __future__ import annotations

from markupsafe import Markup

from ..language import _
from .failed_request import MAP_WIDTH, MapRowView, MapView, PathView
from .svg import at, picture

_ROW, _GAP, _NAME = 13, 4, 19
_REQUEST = 24


def segment_map(view: MapView, name: str, title: str) -> Markup:
    """The map. `name` makes ids unique in the document."""
    parts = [_request(view)]
    top = _REQUEST
    for number, row in enumerate(view.rows):
        if row.pool:
            top += _NAME
            pool = _("{pool} (serves the request)").format(pool=row.pool) if row.serves_request else row.pool
            parts.append(Markup('<text class="tick" x="0" y="{}">{}</text>').format(top - 5, pool))
        parts.append(_row(row, top, f"{name}-{number}"))
        top += _ROW + _GAP
    words = _("; ").join([view.request, *(row.in_words for row in view.rows)])
    return picture("map", name, top, title, words, parts)


def _request(view: MapView) -> Markup:
    room = view.request_width < 0.75
    return Markup(
        '<rect class="request" fill="none" stroke="currentColor" x="0.75" y="2" width="{}" height="16" rx="2"/>'
        '<text class="request-name" x="{}" y="14" dx="8">{}</text>'
    ).format(at(view.request_width), at(view.request_width if room else 0), view.request)


def _row(row: MapRowView, top: int, name: str) -> Markup:
    paths = Markup("").join(_path(each, name) for each in row.paths)
    marks = Markup("").join(
        Markup('<rect class="way" x="{}" y="-1" width="2.5" height="{}"/>').format(at(mark), _ROW + 2)
        for mark in row.marks
    )
    return Markup(
        '<svg x="0" y="{top}" width="100%" height="{height}" overflow="visible"><title>{words}</title>'
        '<svg width="100%" height="{height}" viewBox="0 0 {across} 1" preserveAspectRatio="none">{paths}</svg>'
        '<rect class="outline" fill="none" stroke="currentColor" width="{width}" height="{height}"/>{marks}</svg>'
    ).format(across=MAP_WIDTH, top=top, height=_ROW, words=row.in_words, paths=paths, width=at(row.width), marks=marks)


def _path(path: PathView, name: str) -> Markup:
    if path.category.key != "idle":
        return Markup('<path fill="{}" d="{}"/>').format(path.category.colour, path.path)
    # Once in its colour and once in its pattern, told once.
    return Markup('<g fill="{1}"><path id="{0}" d="{2}"/></g><use href="#{0}" fill="url(#pattern-idle-map)"/>').format(
        name, path.category.colour, path.path
    )
