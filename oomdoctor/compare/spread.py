"""Several places on one scale: which rank holds how much, and in what they differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .cautions import cautions_of
from .change import BY_CENSUS, BY_STACKS, without_count
from .places import NOTHING, Held, Place, Side


@dataclass(frozen=True)
class SpreadRow:
    """What one owner or category holds in each place, in the order of the places."""

    name: str
    bytes: tuple[int, ...]

    @property
    def spread_bytes(self) -> int:
        """The most less the least."""
        return max(self.bytes) - min(self.bytes)


@dataclass(frozen=True)
class Spread:
    """Several places compared. Rows that are equal everywhere are left out; the widest spread comes first."""

    places: tuple[tuple[Side, Place], ...]
    owners: tuple[SpreadRow, ...]
    categories: tuple[SpreadRow, ...]
    how_known: str
    """How owners and categories are known; empty when the places cannot be compared in one way."""
    cautions: tuple[str, ...] = ()
    """In what the places are so unlike that their figures mean different things, in sentences."""


def spread(sides: tuple[Side, ...]) -> Spread:
    """All places of devices of all sides. (The host is not a rank.)"""
    places = tuple((side, place) for side in sides for place in side.places if "allocated" in place.sizes)
    censuses = [place.census for _, place in places if place.census is not None]
    stacks = [place.stacks for _, place in places if place.stacks is not None]
    counted, how = (censuses, BY_CENSUS) if len(censuses) == len(places) else (stacks, BY_STACKS)
    if len(counted) != len(places) or not places:
        return Spread(places, (), (), "", cautions_of(places))
    return Spread(
        places=places,
        owners=_rows([_joined(one.by_owner) for one in counted]),
        categories=_rows([one.by_category for one in counted]),
        how_known=how,
        cautions=cautions_of(places),
    )


def _joined(owners: Mapping[str, Held]) -> Mapping[str, Held]:
    """By names without the number of elements: a list is the same in each rank, however long it is there."""
    found: dict[str, Held] = {}
    for name, held in owners.items():
        alike = without_count(name)
        found[alike] = found.get(alike, NOTHING) + held
    return found


def _rows(tables: list[Mapping[str, Held]]) -> tuple[SpreadRow, ...]:
    names = dict.fromkeys(name for table in tables for name in table)
    rows = (SpreadRow(name, tuple(table.get(name, NOTHING).bytes for table in tables)) for name in names)
    return tuple(sorted((row for row in rows if row.spread_bytes), key=lambda row: (-row.spread_bytes, row.name)))
