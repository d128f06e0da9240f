"""One part of a budget, and how it is known: computed, measured or assumed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..language import N_, _

COMPUTED, MEASURED, ASSUMED = N_("computed"), N_("measured"), N_("assumed")
_FROM_WEAKEST = (ASSUMED, COMPUTED, MEASURED)


@dataclass(frozen=True)
class Part:
    """One part of the budget."""

    name: str
    bytes: int
    formula: str
    inputs: tuple[tuple[str, int | str], ...]
    known: str
    source: str = ""


def weakest(parts: Iterable[Part]) -> str:
    """How a sum is known: no better than the part of it that is known worst. What is nothing adds no doubt."""
    known = {part.known for part in parts if part.bytes}
    return next((each for each in _FROM_WEAKEST if each in known), COMPUTED)


def assumed_bytes(parts: Iterable[Part]) -> int:
    """How much of a sum is assumed."""
    return sum(part.bytes for part in parts if part.known == ASSUMED)


def measured_part(name: str, size: int, source: str) -> Part:
    """A part whose size somebody measured."""
    return Part(name, size, _("as measured"), ((N_("measured bytes"), size),), MEASURED, source)
