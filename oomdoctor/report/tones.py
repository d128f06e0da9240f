"""Patterns that tell categories apart without colour: two on the screen too, for all of them where it is printed."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from .palette import CATEGORIES, FREE, INK

_LINE = f'stroke="{INK}" stroke-width="1" fill="none"'
_DOTS = f'fill="{INK}"'

_MARKS = {
    "others": (8, f'<path d="M0 0L8 8M8 0L0 8" {_LINE} stroke-opacity=".55"/>'),
    "context": (6, f'<path d="M0 3H6" {_LINE} stroke-opacity=".5" stroke-dasharray="3 3"/>'),
    "weights": (6, ""),
    "gradients": (6, f'<path d="M0 3H6" {_LINE} stroke-opacity=".5"/>'),
    "optimizer": (6, f'<path d="M3 0V6" {_LINE} stroke-opacity=".5"/>'),
    "kv": (6, f'<circle cx="3" cy="3" r="1.2" {_DOTS} fill-opacity=".6"/>'),
    "activations": (7, f'<path d="M-1 -1L8 8M-1 6L1 8M6 -1L8 1" {_LINE} stroke-opacity=".5"/>'),
    "held": (9, f'<circle cx="4.5" cy="4.5" r="2.4" {_LINE} stroke-opacity=".6"/>'),
    "idle": (7, f'<path d="M-1 8L8 -1M-1 1L1 -1M6 8L8 6" {_LINE} stroke-opacity=".6"/>'),
    "unattributed": (6, f'<circle cx="2" cy="2" r=".8" {_DOTS} fill-opacity=".5"/>'),
}
"""By category: the size of the tile, and what stands on it. What is free has an outline instead."""
_VARIANT_MARKS = (
    'd="M2.5 0V5"',
    'd="M0 2.5H5"',
    'd="M0 2.5H5M2.5 0V5"',
    'd="M-1 6L6 -1"',
    'd="M-1 -1L6 6"',
    'd="M0 0L5 5M5 0L0 5"',
    'd="M1 1H2M3.5 3.5H4.5" stroke-dasharray="1.2 5"',
    'd="M1 0V5M3.5 0V5"',
    'd="M0 1H5M0 3.5H5"',
)
"""On the colour of a category: what tells the second to the tenth part of it in a bar from the first."""
VARIANTS = len(_VARIANT_MARKS)
_STRETCHED = "scale(1.45 5.4)"
"""Of pictures whose drawing is stretched to the plot: the patterns keep about their shape."""
_WIDE = "scale(.95 5.5)"
"""The same on a screen."""
ON_SCREEN = ("idle", "unattributed")
"""Those that have their pattern on the screen too: their colours are near to those of others."""


def _patterns() -> Iterator[str]:
    yield (
        '<pattern id="pattern-idle" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<path d="M0 0V7" stroke="{INK}" stroke-opacity=".4" stroke-width="1.6"/></pattern>'
        '<pattern id="pattern-idle-map" href="#pattern-idle" patternTransform="scale(3.7 .077) rotate(45)"/>'
        '<pattern id="pattern-unseen" width="9" height="9" patternUnits="userSpaceOnUse">'
        '<path d="M0 9L9 0" stroke="#808890" stroke-opacity=".45" stroke-width="1"/></pattern>'
        f'<pattern id="pattern-unseen-area" href="#pattern-unseen" patternTransform="{_WIDE}"/>'
        '<pattern id="pattern-unattributed" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<circle cx="2" cy="2" r="1" fill="{INK}" fill-opacity=".5"/></pattern>'
    )
    for number, marks in enumerate(_VARIANT_MARKS, 1):
        yield (
            f'<pattern id="pattern-variant-{number}" width="5" height="5" patternUnits="userSpaceOnUse">'
            f'<path {marks} stroke="{INK}" stroke-opacity=".28" stroke-width="1" fill="none"/></pattern>'
        )
    for category in CATEGORIES:
        if category is not FREE:
            size, marks = _MARKS[category.key]
            yield (
                f'<pattern id="pattern-print-{category.key}" width="{size}" height="{size}"'
                f' patternUnits="userSpaceOnUse"><rect width="{size}" height="{size}" fill="{category.colour}"/>'
                f"{marks}</pattern>"
                f'<pattern id="pattern-area-{category.key}" href="#pattern-print-{category.key}"'
                f' patternTransform="{_STRETCHED}"/>'
            )
            if category.key in ON_SCREEN:
                yield (
                    f'<pattern id="pattern-wide-{category.key}" href="#pattern-print-{category.key}"'
                    f' patternTransform="{_WIDE}"/>'
                )


PATTERNS = Markup(
    '<svg class="patterns" width="0" height="0" aria-hidden="true" focusable="false"><defs>'
    + "".join(_patterns())
    + "</defs></svg>"
)
"""Fills that pictures of one document share; they stand in it once."""


def pattern_style() -> str:
    """The patterns of areas on the screen; in print each category has its own: a printer may know no colours."""
    screen = [
        f'.timeline .area[fill="{each.colour}"] {{ fill: url(#pattern-wide-{each.key}); }}'
        for each in CATEGORIES
        if each.key in ON_SCREEN
    ]
    rules = [
        f'svg:not(.patterns) [fill="{each.colour}"] {{ fill: url(#pattern-print-{each.key}); }}\n'
        f'.timeline .area[fill="{each.colour}"] {{ fill: url(#pattern-area-{each.key}); }}'
        for each in CATEGORIES
        if each is not FREE
    ]
    return "\n".join(screen) + "\n@media print {\n" + "\n".join(rules) + "\n}"
