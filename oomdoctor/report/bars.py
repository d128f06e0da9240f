"""A budget as one horizontal bar: which segments, in which order, how wide. Pure; drawing is svg.py's."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..facts.budget import PLANS
from ..facts.device_budget import RESERVE
from ..language import _, told
from ..model.diagnosis import Budget
from ..model.places import place_in_words
from ..model.printable import one_line
from ..model.units import format_bytes
from .palette import FREE, POOL, UNATTRIBUTED, Category, category_of, draw_order
from .text import NOT_MEASURED, format_share

_WIDEST = 1.6
"""The axis ends at this many times the total: a larger request is drawn cut, and said to be."""
_NAMED = 4
"""Parts that a narrow legend names, besides what is free."""


@dataclass(frozen=True)
class Segment:
    """A part of the bar. `start` and `width` are fractions of the axis."""

    name: str
    category: Category
    bytes: int
    size: str
    share: str
    how_known: str
    start: float
    width: float
    minor: bool = False
    """Among the smaller ones, which a narrow legend sums up in a line."""
    variant: int = 0
    """How many parts of its category stand before it in the bar: each has marks of its own on the common colour."""


@dataclass(frozen=True)
class RequestBar:
    """The request that did not fit, to the bar's scale, from where free memory or the pool for it begins."""

    bytes: int
    size: str
    start: float
    width: float
    short: str
    """By how much it did not fit; empty where what was free is not known, or would have sufficed."""
    cut: bool
    """It is larger than the axis: the picture shows only its beginning."""


@dataclass(frozen=True)
class BudgetView:
    """A bar. The segments' bytes add up to the total exactly; those of no bytes are not drawn."""

    where: str
    """With what is said of its moment."""
    place: str
    moment: str
    total_bytes: int
    total: str
    usable: str
    """What of the total is there for programs, where the driver keeps some of it: what they call the card's size."""
    capacity: float
    """Where the total ends on the axis, as a fraction."""
    segments: tuple[Segment, ...]
    free_bytes: int | None
    free: str
    unattributed_bytes: int
    request: RequestBar | None
    in_words: str
    """The bar for those who do not see it."""
    over: str
    """A warning where the parts claim more than the total; empty otherwise."""

    @property
    def minor(self) -> tuple[Segment, ...]:
        """The smaller parts, in their order."""
        return tuple(each for each in self.segments if each.minor)

    @property
    def minor_size(self) -> str:
        """What the smaller parts come to together."""
        return format_bytes(sum(each.bytes for each in self.minor))


def view_budget(budget: Budget) -> BudgetView:
    """The bar of one device, or of the host."""
    rows = [(_name(part.name), category_of(part.name), part.bytes, part.how_known) for part in budget.parts]
    if budget.unattributed_bytes:
        name = _(UNATTRIBUTED.label) if rows else _(NOT_MEASURED)
        if budget.unattributed_bytes < 0:
            name = _("more than the share") if budget.where in PLANS else _("more than the total")
        rows.append((name, UNATTRIBUTED, budget.unattributed_bytes, _("what is left of the total")))
    request = budget.request_bytes
    # What an engine lacks for a request's keys and values was to lie in the pool for them, not beside it.
    room_for = POOL if budget.where in PLANS and request is not None else FREE
    rows.sort(key=lambda row: (room_for is POOL and row[1] is POOL, draw_order(row[1])))
    free = [size for _, category, size, _ in rows if category is room_for]
    free_start = (
        sum(size for _, category, size, _ in rows if category is not room_for and size > 0)
        if free
        else budget.total_bytes
    )
    drawn = sum(size for _, _, size, _ in rows if size > 0)
    base = max(budget.total_bytes, drawn, 1)
    axis = max(base, min(free_start + (request or 0), base * _WIDEST))
    segments: list[Segment] = []
    position = 0
    for name, category, size, how_known in rows:
        width = max(size, 0) / axis
        # The name says which way it goes.
        share = format_share(abs(size), budget.total_bytes)
        known = one_line(told(how_known), 80)
        variant = sum(each.category is category for each in segments)
        segments.append(
            Segment(
                name, category, size, format_bytes(abs(size)), share, known, position / axis, width, variant=variant
            )
        )
        position += max(size, 0)
    where, moment = place_in_words(budget.where), told(budget.moment) if budget.moment else ""
    if moment:
        where = _("{place}, {moment}").format(place=where, moment=moment)
    where = one_line(where, 140)
    total = format_bytes(budget.total_bytes)
    unused = sum(free) if free and room_for is FREE else None
    asked = None
    if request is not None:
        end = min(free_start + request, axis)
        cut = free_start + request > axis
        room = sum(free) if free else None
        short = format_bytes(request - room) if room is not None and room < request else ""
        asked = RequestBar(request, format_bytes(request), free_start / axis, (end - free_start) / axis, short, cut)
    return BudgetView(
        where=where,
        place=budget.where,
        moment=moment,
        total_bytes=budget.total_bytes,
        total=total,
        usable=_usable(budget),
        capacity=budget.total_bytes / axis,
        segments=tuple(_minor_marked(segments)),
        free_bytes=unused,
        free=_(NOT_MEASURED) if unused is None else format_bytes(unused),
        unattributed_bytes=budget.unattributed_bytes,
        request=asked,
        in_words=_in_words(where, total, segments, asked),
        over=_over(budget),
    )


def _usable(budget: Budget) -> str:
    kept = sum(part.bytes for part in budget.parts if part.name == RESERVE)
    if not kept:
        return ""
    return _("{size} of it for programs, the rest is the driver's").format(size=format_bytes(budget.total_bytes - kept))


def _minor_marked(segments: list[Segment]) -> list[Segment]:
    """All but the largest and what is free: on a telephone the rest would push the cause off the screen."""
    others = sorted((each for each in segments if each.category is not FREE), key=lambda each: -each.bytes)
    small = {id(each) for each in others[_NAMED:]}
    if len(small) < 2:
        return segments
    return [replace(each, minor=id(each) in small) for each in segments]


def _in_words(where: str, total: str, segments: list[Segment], request: RequestBar | None) -> str:
    parts = _("; ").join(f"{each.name} {each.size}" for each in segments) or _("nothing is known of its parts")
    if request is None:
        return _("{place}, {total} in all: {parts}.").format(place=where, total=total, parts=parts)
    return _("{place}, {total} in all: {parts}. The request of {request} did not fit.").format(
        place=where, total=total, parts=parts, request=request.size
    )


def _name(name: str) -> str:
    """A part's name without the backticks of prose: a picture has no code font."""
    return one_line(told(name).replace("`", ""), 80)


def _over(budget: Budget) -> str:
    if budget.unattributed_bytes >= 0:
        return ""
    excess = format_bytes(-budget.unattributed_bytes)
    if budget.where in PLANS:
        return _("The engine's plan comes to {excess} more than its share of the device.").format(excess=excess)
    return _(
        "The parts come to {excess} more than the total: the sources were read at different moments, or overlap."
    ).format(excess=excess)
