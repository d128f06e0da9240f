"""Who held what, as a tree: place, category, owner, the parts of an owner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..language import _, told
from ..model.diagnosis import Budget, Holding
from ..model.places import place_in_words
from ..model.printable import one_line
from ..model.units import format_bytes
from .palette import Category, category_of
from .text import format_share, source_of

_LINE = 500


@dataclass(frozen=True)
class HoldingView:
    """A row of the tree, depth first. `fraction` is of the largest row, for its bar."""

    where: str
    owner: str
    category: Category
    bytes: int
    size: str
    share: str
    count: str
    how_known: str
    fraction: float
    depth: int = 0
    is_owner: bool = True
    """Neither a category's sum nor a part: these rows add up."""
    anchor: str = ""
    """Of an owner's row: by its number in the diagnosis."""


def view_holdings(holdings: tuple[Holding, ...], budgets: tuple[Budget, ...]) -> tuple[HoldingView, ...]:
    """The tree's rows, at each level largest first; the share is of the place's total, where that is known."""
    totals = {budget.where: budget.total_bytes for budget in budgets}
    places: dict[str, dict[str, list[tuple[int, Holding]]]] = {}
    for number, holding in enumerate(holdings, 1):
        # What has no category stands beside the categories, each for itself.
        category = holding.category or f"\0{number}"
        places.setdefault(holding.where, {}).setdefault(category, []).append((number, holding))
    rows = [
        row
        for where, categories in places.items()
        for owners in sorted(categories.values(), key=lambda each: -sum(one.bytes for _, one in each))
        for row in _category(where, sorted(owners, key=lambda each: -each[1].bytes), totals.get(where, 0))
    ]
    largest = max((row.bytes for row in rows), default=0)
    return tuple(replace(row, fraction=max(row.bytes, 0) / largest if largest > 0 else 0.0) for row in rows)


def _category(where: str, owners: Sequence[tuple[int, Holding]], total: int) -> Iterator[HoldingView]:
    """Its sum, where that joins several owners; then each owner, followed by its parts."""
    name = owners[0][1].category
    depth = 0
    if len(owners) > 1:
        size, count = sum(each.bytes for _, each in owners), sum(each.count for _, each in owners)
        yield _row(where, name, name, size, f"{count:,}", _("sum"), total, is_owner=False)
        depth = 1
    for number, each in owners:
        kind = name or each.owner
        row = _row(where, each.owner, kind, each.bytes, f"{each.count:,}", each.how_known, total, depth=depth)
        yield replace(row, anchor=f"holding-{number}")
        for part in each.parts:
            yield _row(where, part.name, kind, part.bytes, "", _("part of it"), total, depth=depth + 1, is_owner=False)


def _row(
    where: str,
    owner: str,
    kind: str,
    size: int,
    count: str,
    how_known: str,
    total: int,
    *,
    depth: int = 0,
    is_owner: bool = True,
) -> HoldingView:
    return HoldingView(
        where=one_line(place_in_words(where), 60),
        owner=one_line(told(owner), _LINE),
        category=category_of(kind),
        bytes=size,
        size=format_bytes(size),
        share=format_share(size, total),
        count=count,
        how_known=one_line(source_of(how_known), 80),
        fraction=0.0,
        depth=depth,
        is_owner=is_owner,
    )
