"""What a deriver is: a function from evidence to facts. One file per subject."""

from __future__ import annotations

from collections.abc import Callable

from ..model.evidence import Evidence
from ..model.facts import FactSet

Deriver = Callable[[Evidence, FactSet], None]
"""Reads the evidence (and facts of derivers before it), puts facts. Never reads a file, never judges a cause."""

UNKNOWN_DEVICE = "cuda:?"
"""Member for a device-scoped fact when the input does not name the device."""


def device_member(device: int | None, backend: str = "cuda") -> str:
    """`cuda:0`, or `cuda:?` where the index is not given."""
    return f"{backend}:{'?' if device is None else device}"
