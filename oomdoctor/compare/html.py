"""A comparison as one HTML file: the answer, the places as bars on one scale, the tables. No network, no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..language import N_, _
from ..model.diagnosis import Budget, BudgetPart
from ..model.printable import one_line
from ..report.bars import BudgetView, view_budget
from ..report.html import style_sheet
from ..report.pages import asset, render_page
from .change import BY_CENSUS, BY_STACKS, Change
from .outline import Section, outline_change, outline_spread, place_name, place_names
from .places import Held, Place
from .spread import Spread

_IN_ALL, _NOT_ATTRIBUTED = "in all", "not attributed"
_IDLE = N_("idle in the allocator")
_OF_NO_KNOWN_KIND = N_("live tensors of no known kind")


def change_as_html(change: Change) -> str:
    """Two sides: each place twice, before and after."""
    answer, *sections = outline_change(change)
    bars = []
    for pair in change.places:
        how = pair.how_known
        sides = ((_("{place}, before"), pair.before), (_("{place}, after"), pair.after))
        with_budget = all(place.budget for _name, place in sides)
        parts = [(name.format(place=place_name(place)), _parts(place, how, with_budget)) for name, place in sides]
        bars.append({"title": place_name(pair.after), "bars": _bars(parts)})
    subject = f"{change.before.path} → {change.after.path}"
    return _page(answer, subject, [each for each in bars if each["bars"]], sections)


def spread_as_html(found: Spread) -> str:
    """Several places, all on one scale."""
    answer, *sections = outline_spread(found)
    names = place_names(found)
    parts = [
        (name, _parts(place, found.how_known, with_budget=False))
        for name, (_side, place) in zip(names, found.places, strict=True)
    ]
    # The picture of the table is drawn.
    table = replace(answer, lines=(), title=_("Sizes"), head=answer.head[:-1], rows=tuple(r[:-1] for r in answer.rows))
    subject = ", ".join(dict.fromkeys(side.path for side, _place in found.places))
    return _page(answer, subject, [{"title": _("All on one scale"), "bars": _bars(parts)}], [table, *sections])


def _parts(place: Place, how_known: str, with_budget: bool) -> Mapping[str, int]:
    """What a bar is made of: the whole place where its budget is known, else what its allocator holds."""
    if with_budget:
        return {name: size for name, size in place.budget.items() if name != _IN_ALL and size > 0}
    allocated, reserved = place.sizes.get("allocated"), place.sizes.get("reserved")
    if allocated is None:
        return {}
    told = {BY_CENSUS: place.census, BY_STACKS: place.stacks}.get(how_known)
    held: Mapping[str, Held] = told.by_category if told is not None else {}
    parts = {name: each.bytes for name, each in held.items() if each.bytes}
    rest = allocated - sum(parts.values())
    if rest > 0:
        parts[_OF_NO_KNOWN_KIND if parts else N_("live tensors")] = parts.get(_OF_NO_KNOWN_KIND, 0) + rest
    if reserved is not None and reserved > allocated:
        parts[_IDLE] = reserved - allocated
    return parts


def _bars(rows: Sequence[tuple[str, Mapping[str, int]]]) -> list[BudgetView]:
    """The longest is as wide as the page."""
    largest = max((sum(parts.values()) for _name, parts in rows), default=0)
    return [view_budget(Budget(name, largest, tuple(_budget_parts(parts)), 0)) for name, parts in rows if parts]


def _budget_parts(parts: Mapping[str, int]) -> Iterator[BudgetPart]:
    for name, size in parts.items():
        yield BudgetPart("unattributed" if name == _NOT_ATTRIBUTED else name, size, "")


def _page(answer: Section, subject: str, groups: Sequence[Mapping[str, object]], sections: Sequence[Section]) -> str:
    first, *others = answer.lines or (_("Nothing to compare."),)
    return render_page(
        __package__,
        "diff.html.j2",
        f"{style_sheet()}\n{asset(__package__, 'diff.css')}",
        title=one_line(first),
        subject=one_line(subject, 200),
        lines=others,
        groups=groups,
        sections=sections,
    )
