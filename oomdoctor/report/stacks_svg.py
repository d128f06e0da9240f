"""Stacks as static SVG: the outermost frames on top, what they called below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from ..language import _
from ..language.wrapping import cells
from .stacks import FrameBox, StackView
from .svg import at, picture

ROW = 26
_COLUMN, _CHARACTER = 1080.0, 7.0
"""The width of the picture where it is widest, and about that of a character."""


def stack_picture(view: StackView, name: str) -> Markup:
    """The picture. `name` makes ids unique in the document."""
    title = _("{place}: live memory by the stacks that allocated it").format(place=view.where)
    return picture("stacks", name, ROW * view.depth, title, view.in_words, list(_rows(view.boxes)))


def _rows(boxes: Sequence[FrameBox]) -> Iterator[Markup]:
    for box in boxes:
        # A picture inside the picture clips a label that a narrow window leaves no room for.
        yield Markup('<svg x="{}" y="{}" width="{}" height="{}"{}><title>{}</title>{}{}</svg>').format(
            at(box.start), ROW * box.depth, at(box.width), ROW - 1, _name(box), box.in_full, _box(box), _label(box)
        )
        yield from _rows(box.children)


def _box(box: FrameBox) -> Markup:
    return Markup('<rect class="edge" width="100%" height="100%" fill="{}"/>').format(box.category.colour)


def _label(box: FrameBox) -> Markup:
    return Markup('<text x="6" y="17">{} {}</text>').format(box.label, box.size) if _fits(box) else Markup("")


def _name(box: FrameBox) -> Markup:
    """What a box without a label would be labelled with, where it is opened."""
    return Markup("") if _fits(box) else Markup(' data-name="{} {}"').format(box.label, box.size)


def _fits(box: FrameBox) -> bool:
    return box.width * _COLUMN >= _CHARACTER * cells(f"{box.label} {box.size}") + 12
