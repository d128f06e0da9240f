"""What was estimated for the settings of an incident, beside what was observed."""

from __future__ import annotations

from dataclasses import dataclass

from ..language import N_

REPORTED, COMPUTED, MEASURED = N_("by the engine"), N_("computed"), N_("measured")
"""Said by an engine, which may have reckoned it; computed from the input's figures; read from device or snapshot."""


@dataclass(frozen=True)
class EstimatedPart:
    """One part of the budget: both figures, and how each is known."""

    what: str
    estimated_bytes: int
    observed_bytes: int | None
    """None where the input does not tell it."""
    how_estimated: str
    how_observed: str
    """Where it stands."""
    observed_by: str = ""
    """What kind of figure it is: one of REPORTED, COMPUTED, MEASURED; empty where there is none."""


@dataclass(frozen=True)
class Estimated:
    """The estimate of these settings, part by part."""

    settings: str
    """What it is for, in words."""
    parts: tuple[EstimatedPart, ...]
    sentences: tuple[str, ...]
    """What the settings ask for, what is there for it, what would fit, and which part differs."""
    fitting_context: int | None = None
    """The longest context with the concurrency of the settings."""
    fitting_concurrency: int | None = None
    """The most requests with the context of the settings; 0 where not one fits."""
