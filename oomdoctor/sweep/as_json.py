"""A sweep for programs: the contract `oomdoctor.sweep/1` (sweep.schema.json). Sizes are in bytes, null is not known."""

from __future__ import annotations

from typing import Any

from ..report.json_text import json_text
from .conduct import Swept
from .map import Entry, Growth, Map
from .measure import Recipe
from .outcomes import Attempt, Peak
from .plan import step_from
from .variables import Cell, values_of

SCHEMA = "oomdoctor.sweep/1"


def swept_as_json(swept: Swept, recipe: Recipe, folder: str) -> str:
    """One object."""
    found = swept.map
    command, environment = recipe.shown
    content = {
        "command": list(command),
        "environment": dict(environment),
        "folder": folder,
        "variables": [
            {"name": each.name, "values": list(each.values), "kind": "category" if each.numbers is None else "number"}
            for each in found.variables
        ],
        "headroom": found.headroom,
        "places": list(found.wheres),
        "complete": not swept.stopped,
        "stopped": swept.stopped or None,
        "runs": swept.runs,
        "safe": [_values(found, cell) for cell in found.safe.values()],
        "also_safe": [_values(found, cell) for cell in found.also_safe],
        "predicted_safe": [_values(found, cell) for cell in found.promising],
        "growth": [_growth(found, growth) for growth in found.growths],
        "cells": [_entry(found, entry) for entry in found.entries.values()],
    }
    return json_text(SCHEMA, content)


def _values(found: Map, cell: Cell) -> dict[str, str]:
    return values_of(found.variables, cell)


def _entry(found: Map, entry: Entry) -> dict[str, Any]:
    return {
        "values": _values(found, entry.cell),
        "how": entry.how.value,
        "fits": entry.fits,
        "bytes": entry.bytes,
        "error_bytes": entry.error_bytes,
        "left_bytes": entry.left_bytes,
        "peak": None if entry.peak is None else _peak(entry.peak),
        "step_from": _step_from(found, entry),
        "larger_than": None if entry.smaller is None else _values(found, entry.smaller),
        "runs": [] if entry.outcome is None else [_attempt(attempt) for attempt in entry.outcome.attempts],
    }


def _step_from(found: Map, entry: Entry) -> dict[str, str] | None:
    """Of a setting that was run the one run before that differs in one variable; null for the first."""
    order = list(found.known.outcomes)
    if entry.cell not in order:
        return None
    near = step_from(order[: order.index(entry.cell)], entry.cell)
    return None if near is None else _values(found, near)


def _peak(peak: Peak) -> dict[str, Any]:
    return {
        "where": peak.where,
        "name": peak.name,
        "bytes": peak.bytes,
        "known": peak.known,
        "exact": peak.exact,
        "allocated_bytes": peak.allocated_bytes,
        "total_bytes": peak.total_bytes,
        "available_bytes": peak.available_bytes,
        "squeezed": peak.squeezed,
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "ended": attempt.kind.value,
        "seconds": attempt.seconds,
        "detail": attempt.detail or None,
        "folder": attempt.folder,
        "peaks": [_peak(peak) for peak in attempt.peaks],
    }


def _growth(found: Map, growth: Growth) -> dict[str, Any]:
    categories = [variable for variable in found.variables if variable.numbers is None]
    return {
        "where": growth.where,
        "categories": values_of(categories, growth.plane),
        "terms": [
            {"powers": dict(zip(growth.variables, powers, strict=True)), "bytes": size}
            for size, powers in zip(growth.fit.coefficients, growth.fit.terms, strict=True)
        ],
        "points": len(growth.fit.points),
        "largest_residual_bytes": growth.fit.largest_residual_bytes,
        "limit_bytes": growth.limit_bytes,
    }
