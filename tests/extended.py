"""Which cases of a test run each time, where each of them starts processes: the others are marked `extended`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def extended_but(cases: Iterable[Any], *kept: Any) -> list[Any]:
    """Parameters of all `cases`, in their order; those that are not `kept` (or equal to one that is) are extended.

    A case that is a tuple is one value for each of several names, as in `pytest.mark.parametrize`.
    """
    cases = list(cases)
    if missing := [case for case in kept if case not in cases]:
        raise ValueError(f"kept, but not among the cases: {missing}")
    return [case if case in kept else _extended(case) for case in cases]


def _extended(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.extended)
