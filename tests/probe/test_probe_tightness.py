"""GIVEN what a device had reserved over time WHEN the probe looks THEN it knows whether memory is tight."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "oomdoctor" / "probe" / "site"))

from _oomdoctor_probe.tightness import Tightness

GIB = 1 << 30


def judged(sizes: list[float], seconds: float = 0.1, limit: int = 10 * GIB) -> list[bool]:
    """What is said of one device at each look."""
    tightness = Tightness()
    return [tightness.look(n * seconds, {0: int(size * GIB)}, {0: limit}) for n, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "seconds", "expected"),
    [
        ([2, 2, 2], 0.1, [False, False, False]),
        ([6.9, 6.9, 7, 6.9, 6.1, 5.9, 6.9], 10, [False, False, True, True, True, False, False]),
        # a GiB a second, with five left: full in five seconds; then level
        ([3, 4, 5, 5, 5], 1, [False, False, True, False, False]),
        # a leak of 0.01 GiB a second would take minutes
        ([5, 5.01, 5.02, 5.03], 1, [False] * 4),
        # the weights of a small model, at once
        ([0, 2, 2, 2], 0.1, [False] * 4),
    ],
)
def test_full_or_soon_full(sizes: list[float], seconds: float, expected: list[bool]) -> None:
    assert judged(sizes, seconds) == expected


def test_one_device_of_several_is_enough_and_each_has_its_own_limit() -> None:
    tightness = Tightness()
    limits = {0: 10 * GIB, 1: 2 * GIB}
    assert [tightness.look(now, {0: GIB, 1: int(size * GIB)}, limits) for now, size in ((0, 1), (9, 1.5), (18, 1))] == [
        False,
        True,
        False,
    ]


def test_a_program_that_began_long_ago_is_judged_by_its_last_seconds() -> None:
    assert judged([3.0] * 100 + [4.0, 5.0, 6.0], seconds=0.5)[-1]
