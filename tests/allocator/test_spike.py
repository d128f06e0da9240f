"""GIVEN how live memory went WHEN the last rise is held against those before it THEN only an exception stands out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomdoctor.allocator.spike import Spike, find_spike, stands_out

FLOOR = 1000


def curve(*heights: int, failing: int) -> np.ndarray:
    """A model is built, then memory rises and falls once for each height, at last half way up the failing rise."""
    built = np.linspace(0, FLOOR, 11)[1:]
    steps = [np.concatenate([np.linspace(0, h, 6), np.linspace(h, 0, 6)]) + FLOOR for h in heights]
    return np.concatenate([built, *steps, np.linspace(0, failing, 6) + FLOOR]).astype(np.int64)


def test_one_rise_far_above_level_ones() -> None:
    live = curve(*[100] * 12, failing=250)
    assert find_spike(live, 50) == Spike(200, sudden=True, begin=len(live) - 6)


def test_the_next_rise_of_the_same_height_is_no_exception() -> None:
    live = curve(*[100] * 12, failing=80)
    assert find_spike(live, 20) == Spike(0, sudden=False, begin=len(live) - 6)


def test_heights_that_vary_need_twice_the_highest() -> None:
    varied = (40, 100, 60, 20, 80, 30, 90, 50, 70, 100, 20, 60)
    assert find_spike(curve(*varied, failing=150), 20) is not None
    assert not stands_out(170, np.asarray(varied))
    assert stands_out(200, np.asarray(varied))


def test_steps_that_were_doubled_on_the_way_are_no_level() -> None:
    assert not stands_out(320, np.asarray([20, 20, 20, 40, 40, 40, 80, 80, 80]))


def test_a_search_for_the_batch_size_is_no_level_run() -> None:
    assert not stands_out(1600, np.asarray([100, 200, 400, 800]))
    assert stands_out(16000, np.asarray([100, 200, 400, 800]))


def test_the_largest_of_inputs_that_differ_is_no_exception() -> None:
    """Heights are fairly level at their upper end, and the last is 1.3 times the highest: less than they are apart."""
    varied = [2160, 1030, 1890, 1730, 1810, 1480, 870, 1870, 1510, 1670, 1710, 1070, 2240, 1260, 140]
    assert not stands_out(2900, np.asarray(varied))
    assert stands_out(4500, np.asarray(varied))


@pytest.mark.parametrize("small", [[], [10], [10, 10]])
def test_a_few_small_batches_do_not_hide_a_large_one(small: list[int]) -> None:
    assert stands_out(130, np.asarray([100] * 10 + small))


@pytest.mark.parametrize(
    "live",
    [curve(100, 100, failing=250), np.arange(1000), np.zeros(4, dtype=np.int64), curve(*[100] * 6, failing=0)[:40]],
    ids=["two steps", "memory only rises", "too short", "no event of the failing step"],
)
def test_without_steps_that_repeat_nobody_knows(live: np.ndarray) -> None:
    found = find_spike(live.astype(np.int64), 50)
    assert found is None or not found.sudden


def test_what_goes_up_and_down_within_a_step_is_not_many_steps() -> None:
    within = np.concatenate([np.linspace(0, FLOOR, 200), *[np.asarray([1300, 1900, 1400, 1800])] * 20, [FLOOR] * 100])
    assert find_spike(np.concatenate([within, [4000]]).astype(np.int64), 5000) is None


def test_more_tensors_of_the_same_size_are_not_a_larger_input() -> None:
    """A backward pass that makes again what a forward pass without gradients had made one by one."""
    base = curve(*[100] * 12, failing=0)
    again = np.arange(0, 400, 20) + FLOOR
    found = find_spike(np.concatenate([base, again]).astype(np.int64), 20)
    assert found is not None
    assert (found.bytes, found.sudden) == (300, False)


@settings(max_examples=60)
@given(
    heights=st.lists(st.integers(50, 400), min_size=6, max_size=20),
    failing=st.integers(50, 2000),
    below=st.integers(0, 1000),
    scale=st.integers(1, 1000),
)
def test_a_spike_is_the_same_on_any_level_and_in_any_unit(
    heights: list[int], failing: int, below: int, scale: int
) -> None:
    """Neither what stands below all rises (weights) nor how large a unit is changes a judgement."""
    live = curve(*heights, failing=failing)
    plain, moved = find_spike(live, 10), find_spike((live + below) * scale, 10 * scale)
    assert (plain is None) == (moved is None)
    if plain is not None and moved is not None:
        assert plain.sudden == moved.sudden
        assert moved.bytes == pytest.approx(scale * plain.bytes, abs=scale)
        assert not plain.sudden or failing + 10 > max(heights)
