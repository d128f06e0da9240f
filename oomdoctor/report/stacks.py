"""Live memory by stack as a picture of boxes: under each frame what it called, as wide as what was allocated. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..language import _, told
from ..model.printable import one_line
from ..model.stack_tree import StackNode, StackTree
from ..model.units import format_bytes
from .palette import Category, category_of
from .text import format_share

_FRAME = re.compile(r"(?:.*/)?(?P<file>[^/]+:\d+) in (?P<function>.+)", re.DOTALL)
_LINE = 300


@dataclass(frozen=True)
class FrameBox:
    """One box. `start` and `width` are fractions of all live memory; `depth` counts from the outermost frames."""

    label: str
    category: Category
    bytes: int
    size: str
    share: str
    in_full: str
    start: float
    width: float
    depth: int
    children: tuple[FrameBox, ...] = ()


@dataclass(frozen=True)
class StackView:
    """The stacks of one device."""

    where: str
    live: str
    sentence: str
    boxes: tuple[FrameBox, ...]
    depth: int
    """Rows of the picture."""
    legend: tuple[tuple[Category, str], ...]
    in_words: str


def view_stacks(trees: Sequence[StackTree]) -> tuple[StackView, ...]:
    """A picture for each device whose stacks are known."""
    return tuple(_view(tree) for tree in trees if tree.live_bytes > 0)


def _view(tree: StackTree) -> StackView:
    boxes = tuple(_boxes(tree.roots, 0.0, 0, tree.live_bytes))
    every = tuple(_all(boxes))
    live, where = format_bytes(tree.live_bytes), one_line(told(tree.where), 60)
    sentence = _("{size} was live.").format(size=live)
    if tree.without_stack_bytes:
        said = _("{size} was live; for {without} of it no stack was recorded.")
        sentence = said.format(size=live, without=format_bytes(tree.without_stack_bytes))
    largest = _("; ").join(
        _("{owner} {size}").format(owner=box.label, size=box.size) for box in every if not box.children
    )
    categories = {box.category.key: box.category for box in every}
    return StackView(
        where=where,
        live=live,
        sentence=sentence,
        boxes=boxes,
        depth=max((box.depth for box in every), default=0) + 1,
        legend=tuple((category, _(category.label)) for category in categories.values()),
        in_words=_("{place}, {total} in all: {parts}.").format(place=where, total=live, parts=largest),
    )


def _all(boxes: Sequence[FrameBox]) -> Iterator[FrameBox]:
    for box in boxes:
        yield box
        yield from _all(box.children)


def _boxes(nodes: Sequence[StackNode], start: float, depth: int, live_bytes: int) -> Iterator[FrameBox]:
    for node in nodes:
        width = node.bytes / live_bytes
        frames = [one_line(told(frame), _LINE) for frame in node.frames]
        size, share = format_bytes(node.bytes), format_share(node.bytes, live_bytes)
        yield FrameBox(
            label=_short(frames[-1]),
            category=category_of(node.category),
            bytes=node.bytes,
            size=size,
            share=share,
            in_full=_("{stack}: {size}, {share}").format(stack=" → ".join(frames), size=size, share=share),
            start=start,
            width=width,
            depth=depth,
            children=tuple(_boxes(node.children, start, depth + 1, live_bytes)),
        )
        start += width


def _short(frame: str) -> str:
    """`forward (model.py:29)` of `/srv/train/model.py:29 in forward`."""
    found = _FRAME.fullmatch(frame)
    return frame if found is None else f"{found['function']} ({found['file']})"
