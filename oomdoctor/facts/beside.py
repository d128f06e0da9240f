"""A part of an estimate beside what was observed of it."""

from __future__ import annotations

from collections.abc import Sequence

from ..estimate.parts import ASSUMED
from ..language import _
from ..model.estimated import COMPUTED, MEASURED, REPORTED, EstimatedPart
from ..model.facts import Fact, FactSet, Scope
from ..model.units import MIB, format_bytes
from .deriver import failed_devices

_TOLERANCE, _TOLERANCE_OF_ASSUMED, _LEAST_BYTES = 0.05, 0.5, 64 * MIB
"""A difference is real beyond such a share of what was estimated, and beyond so many bytes."""


def beside(what: str, size: int, how: str, observed: Sequence[str], facts: FactSet) -> EstimatedPart:
    """The part with the first of these facts that is known, of the device that failed where they are a device's."""
    failed = next(iter(failed_devices(facts)), None)
    for name in observed:
        member = failed if facts.specs[name].scope is Scope.DEVICE else None
        if facts.specs[name].scope is Scope.DEVICE and failed is None:
            continue
        fact = facts.find(name, member)
        if fact is not None and isinstance(fact.value, int):
            return EstimatedPart(what, size, fact.value, how, str(fact.source), _kind_of(fact))
    return EstimatedPart(what, size, None, how, "")


def _kind_of(fact: Fact) -> str:
    if fact.name.startswith("engine."):
        return REPORTED
    return COMPUTED if fact.source.derived_from else MEASURED


def differs(part: EstimatedPart, least_bytes: int = _LEAST_BYTES) -> bool:
    """Whether both figures are apart by more than such estimates are."""
    if part.observed_bytes is None:
        return False
    apart = abs(part.observed_bytes - part.estimated_bytes)
    share = _TOLERANCE_OF_ASSUMED if part.how_estimated.startswith(ASSUMED) else _TOLERANCE
    return apart > max(least_bytes, share * part.estimated_bytes)


def what_differs_most(parts: Sequence[EstimatedPart]) -> str:
    """In a sentence, of parts that differ."""
    most = max(parts, key=lambda part: abs((part.observed_bytes or 0) - part.estimated_bytes))
    return _("What differs most is {part}: {estimated} estimated, {observed} {how}.").format(
        part=_(most.what),
        estimated=format_bytes(most.estimated_bytes),
        observed=format_bytes(most.observed_bytes or 0),
        how=_(most.observed_by),
    )
