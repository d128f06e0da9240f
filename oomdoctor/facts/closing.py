"""Budgets that close: the parts and what is not attributed add up to the total exactly."""

from __future__ import annotations

from collections.abc import Iterable

from ..model.diagnosis import Budget, BudgetPart
from ..model.facts import FactSet

ROUNDING = 0.005
"""Figures printed with two decimals may together pass the total by this share of it; a part is then trimmed by less
than the rounding of its own figure."""

Wanted = tuple[str, int | None, str]
"""Name, bytes (None: unknown, left out), how it is known."""


def close(where: str, total: int, wanted: Iterable[Wanted], request: int | None = None) -> Budget:
    """A budget of what is physically there: parts that fit, surest first; what they leave is unattributed."""
    left, parts, slack = total, [], round(ROUNDING * total)
    for name, size, how in wanted:
        if size is None or size <= 0 or size > left + slack or left == 0:
            continue
        parts.append(BudgetPart(name, min(size, left), how))
        left -= parts[-1].bytes
    return Budget(where, total, tuple(parts), left, request)


def plan(where: str, total: int, wanted: Iterable[Wanted], request: int | None = None) -> Budget:
    """A budget of what is meant to be there: all parts as they are; a negative rest is what they overdraw it by."""
    parts = tuple(BudgetPart(name, size, how) for name, size, how in wanted if size is not None and size > 0)
    return Budget(where, total, parts, total - sum(part.bytes for part in parts), request)


class Values:
    """Integer facts of one member (or of the incident)."""

    def __init__(self, facts: FactSet, member: str | None) -> None:
        self._facts, self._member = facts, member

    def __call__(self, name: str) -> int | None:
        """The value; None where it is unknown or no integer."""
        found = self._facts.value(name, self._member)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def how(self, name: str, otherwise: str = "measured") -> str:
        """`computed` where the fact was derived from others."""
        fact = self._facts.find(name, self._member)
        return "computed" if fact is not None and fact.source.derived_from else otherwise

    def flag(self, name: str) -> bool:
        """True where the flag is known and set."""
        return self._facts.value(name, self._member) is True
