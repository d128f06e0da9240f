"""GIVEN peaks of some settings WHEN they are fitted THEN others are predicted within the stated error or not at all."""

from __future__ import annotations

import random

import pytest

from oomdoctor.sweep.fit import Point, fit

GIB, MIB = 1 << 30, 1 << 20
WALK: list[Point] = [(1, 512), (2, 512), (4, 512), (1, 1024), (1, 2048), (2, 1024)]
"""Concurrency and context as a sweep of three values each walks them."""


def decoder(point: Point) -> int:
    count, context = point
    return int(2 * GIB + 0.1 * GIB * count + 0.4 * GIB * count * context / 1024)


def eager_attention(point: Point) -> int:
    count, context = point
    return int(2 * GIB + 0.3 * GIB * count * (context / 1024) ** 2)


def test_what_grows_with_the_product_is_told_apart_from_what_grows_alone() -> None:
    found = fit(WALK, [decoder(point) for point in WALK])
    assert found is not None
    assert found.terms == ((0, 0), (1, 0), (1, 1))
    assert found.coefficients == pytest.approx((2 * GIB, 0.1 * GIB, 0.4 * GIB / 1024), rel=1e-6)
    assert found.largest_residual_bytes < 10
    prediction = found.predict((4, 2048))
    assert prediction is not None
    assert prediction.bytes == pytest.approx(decoder((4, 2048)), rel=1e-6)
    assert prediction.error_bytes == pytest.approx(0.01 * prediction.bytes, rel=0.01)


def test_a_square_is_called_for_by_the_data_only() -> None:
    found = fit(WALK, [eager_attention(point) for point in WALK])
    assert found is not None
    assert found.terms == ((0, 0), (1, 2))
    prediction = found.predict((4, 2048))
    assert prediction is not None
    assert prediction.bytes == pytest.approx(eager_attention((4, 2048)), rel=1e-6)


def test_a_pool_that_takes_the_same_for_all_settings_grows_with_nothing() -> None:
    found = fit(WALK, [20 * GIB + place % 2 * MIB for place in range(len(WALK))])
    assert found is not None
    assert found.terms == ((0, 0),)


@pytest.mark.parametrize(
    "point", [(8, 512), (0.5, 512), (1, 4096), (1, 256)], ids=["more", "fewer", "longer", "shorter"]
)
def test_nothing_is_said_beyond_what_ran(point: Point) -> None:
    found = fit(WALK, [decoder(point) for point in WALK])
    assert found is not None
    assert found.predict(point) is None


def test_two_variables_that_never_grew_together_are_not_predicted_together() -> None:
    axes = WALK[:5]
    found = fit(axes, [decoder(point) for point in axes])
    assert found is not None
    assert found.predict((2, 1024)) is None


def test_two_points_are_no_fit() -> None:
    assert fit([(1,), (2,)], [GIB, 2 * GIB]) is None
    assert fit([(), (), ()], [GIB, GIB, GIB]) is None


def test_too_few_points_for_a_growth_are_not_called_constant() -> None:
    """Of three settings no sum of two terms can be judged, and a constant would miss the first by a third."""
    points: list[Point] = [(1, 512), (2, 512), (1, 1024)]
    assert fit(points, [27 * MIB, 42 * MIB, 42 * MIB]) is None
    assert fit(points, [41 * MIB, 42 * MIB, 42 * MIB]) is not None


def test_what_jumps_about_is_not_predicted() -> None:
    sizes = [2 * GIB, 9 * GIB, 3 * GIB, 8 * GIB, 1 * GIB, 7 * GIB]
    found = fit(WALK, sizes)
    assert found is None or found.predict((4, 2048)) is None


def test_runs_of_one_setting_that_differ_make_the_error_larger() -> None:
    sizes = [decoder(point) for point in WALK]
    quiet, noisy = fit(WALK, sizes), fit(WALK, sizes, noise_bytes=100 * MIB)
    assert quiet is not None
    assert noisy is not None
    first, second = quiet.predict((2, 2048)), noisy.predict((2, 2048))
    assert first is not None
    assert second is not None
    assert second.error_bytes > first.error_bytes


def test_the_error_covers_what_an_allocator_rounds() -> None:
    """Sums of these terms, handed out in segments of 2 MiB and up to 20 MiB more: 95 of 100 must be within."""
    dice = random.Random(1)
    told = covered = 0
    for _ in range(40):
        fixed, each, length, both = (dice.uniform(*range_) for range_ in ((0.5, 20), (0, 2), (0, 0.3), (0.05, 2)))

        def size(point: Point, terms: tuple[float, ...] = (fixed, each, length, both)) -> int:
            count, context = point[0], point[1] / 1024
            factors = (1, count, context, count * context)
            return int(sum(a * b for a, b in zip(terms, factors, strict=True)) * GIB) // (2 * MIB) * (2 * MIB)

        found = fit(WALK, [size(point) + dice.choice((0, 20 * MIB)) for point in WALK])
        assert found is not None
        for point in ((4, 2048), (2, 2048), (4, 1024)):
            prediction = found.predict(point)
            if prediction is not None:
                told += 1
                covered += abs(prediction.bytes - size(point)) <= prediction.error_bytes + 20 * MIB
    assert told >= 100
    assert covered >= 0.95 * told
