"""Budgets that are the same but for a little, told once: eight ranks of one run mostly hold the same. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..language import _, told
from ..model.printable import one_line
from ..model.units import format_bytes
from .bars import BudgetView
from .text import listed

_SLACK = 0.01
"""Of the total: parts of two budgets that differ by less look the same in a bar."""
_DEVICE = re.compile(r"([A-Za-z]+[: ])([0-9]{1,6})")


@dataclass(frozen=True)
class AlikeView:
    """One bar for all of them: that of the first."""

    where: str
    bar: BudgetView
    number: int
    room: str
    """What is free, or the total where that is not known."""
    in_short: str
    """All of it in one line: the total and the three largest parts."""


def group_alike(bars: Iterable[BudgetView]) -> tuple[AlikeView, ...]:
    """The budgets in their order, each with those that are like it."""
    groups: list[list[BudgetView]] = []
    for bar in bars:
        same = next((group for group in groups if _alike(group[0], bar)), None)
        if same is None:
            groups.append([bar])
        else:
            same.append(bar)
    return tuple(map(_view, groups))


def _alike(one: BudgetView, other: BudgetView) -> bool:
    slack = _SLACK * one.total_bytes
    return (
        _DEVICE.fullmatch(one.place) is not None
        and _DEVICE.fullmatch(other.place) is not None
        and one.moment == other.moment
        and one.request is None
        and other.request is None
        and abs(one.total_bytes - other.total_bytes) <= slack
        and [each.name for each in one.segments] == [each.name for each in other.segments]
        and all(abs(a.bytes - b.bytes) <= slack for a, b in zip(one.segments, other.segments, strict=True))
    )


def _view(group: Sequence[BudgetView]) -> AlikeView:
    bar = group[0]
    if len(group) == 1:
        room = _("{free} free of {total}").format(free=bar.free, total=bar.total) if bar.free_bytes is not None else ""
        return AlikeView(bar.where, bar, 1, room or bar.total, _in_short(bar.where, bar))
    where = _places([each.place for each in group])
    if bar.moment:
        where = _("{place}, {moment}").format(place=where, moment=bar.moment)
    where = one_line(where, 140)
    free = [each.free_bytes for each in group if each.free_bytes is not None]
    if not free:
        room = _("{total} each").format(total=bar.total)
    elif format_bytes(min(free)) == format_bytes(max(free)):
        room = _("{free} free of {total} each").format(free=bar.free, total=bar.total)
    else:
        room = _("{least} to {most} free of {total} each").format(
            least=format_bytes(min(free)), most=format_bytes(max(free)), total=bar.total
        )
    exact = all(each.segments == bar.segments for each in group)
    words = _("{places}, each {total}: {parts}") if exact else _("{places}, each {total}, nearly alike: {parts}")
    return AlikeView(
        where, bar, len(group), room, words.format(places=where, total=bar.total, parts=_largest_parts(bar))
    )


def _in_short(where: str, bar: BudgetView) -> str:
    return _("{place}, {total}: {parts}").format(place=where, total=bar.total, parts=_largest_parts(bar))


def _largest_parts(bar: BudgetView) -> str:
    largest = sorted((each for each in bar.segments if each.bytes > 0), key=lambda each: -each.bytes)[:3]
    return listed(f"{each.name} {each.size}" for each in largest) or _("parts not measured")


def _places(places: Sequence[str]) -> str:
    """`cuda:0–4, 6, 7` for devices of one kind; the names one after the other for others."""
    found = [_DEVICE.fullmatch(place) for place in places]
    kinds = {match[1] for match in found if match is not None}
    if None in found or len(kinds) != 1:
        return listed(map(told, places))
    runs: list[list[int]] = []
    for number in sorted(int(match[2]) for match in found if match is not None):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    ranges = [f"{run[0]}–{run[-1]}" if len(run) > 2 else listed(map(str, run)) for run in runs]
    return kinds.pop() + listed(ranges)
