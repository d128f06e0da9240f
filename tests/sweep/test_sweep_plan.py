"""GIVEN what was run so far WHEN the next setting is asked for THEN it is a small step, and never a hopeless one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomdoctor.sweep.outcomes import Attempt, Kind, Outcome
from oomdoctor.sweep.plan import Knowledge, by_size, next_cell, plane_of, step_from
from oomdoctor.sweep.variables import Cell, Variable, all_cells, parse_variables


def outcome(kind: Kind) -> Outcome:
    return Outcome((Attempt(kind),))


def walked(variables: tuple[Variable, ...], kind_of: Callable[[Cell], Kind]) -> list[Cell]:
    """The settings in the order they are run, with nothing predicted."""
    outcomes: dict[Cell, Outcome] = {}
    while (cell := next_cell(Knowledge(variables, outcomes, {}), (), (), ())) is not None:
        assert cell not in outcomes
        outcomes[cell] = outcome(kind_of(cell))
    return list(outcomes)


def over(*written: str, categories: tuple[str, ...] = ()) -> tuple[Variable, ...]:
    return parse_variables(written, categories)[0]


def test_it_begins_with_the_smallest_and_changes_one_variable_at_a_time() -> None:
    order = walked(over("context=512,1024,2048", "concurrency=1,2,4"), lambda _: Kind.RAN)
    assert order[:6] == [(0, 0), (1, 0), (2, 0), (0, 1), (0, 2), (1, 1)]
    assert len(order) == 9


def test_a_direction_stops_at_its_first_failure() -> None:
    order = walked(
        over("context=512,1024,2048", "concurrency=1,2,4"),
        lambda cell: Kind.OUT_OF_MEMORY if cell[0] * 2 + cell[1] > 2 else Kind.RAN,
    )
    assert order == [(0, 0), (1, 0), (2, 0), (0, 1), (0, 2), (1, 1)]


def test_another_failure_stops_no_direction() -> None:
    order = walked(over("n=1,2,3,4"), lambda cell: Kind.FAILED if cell == (2,) else Kind.RAN)
    assert order == [(0,), (1,), (2,), (3,)]


def test_where_the_smallest_fails_otherwise_nothing_larger_is_run_and_other_categories_are() -> None:
    order = walked(over("n=1,2", "dtype=fp4,fp8"), lambda cell: Kind.FAILED if cell[1] == 0 else Kind.RAN)
    assert order == [(0, 0), (0, 1), (1, 1)]


def test_categories_rule_each_other_out_in_no_way() -> None:
    order = walked(
        over("tp=1,2", "n=1,2", categories=("tp",)), lambda cell: Kind.OUT_OF_MEMORY if cell[0] == 0 else Kind.RAN
    )
    assert order == [(0, 0), (1, 0), (1, 1)]


def test_the_largest_that_is_predicted_to_fit_is_tried_and_no_smaller_one() -> None:
    variables = over("a=1,2,4,8", "b=1,2,4,8")
    done = {cell: outcome(Kind.RAN) for cell in all_cells(variables) if 0 in cell or cell == (1, 1)}
    known = Knowledge(variables, done, {})
    predicted = [cell for cell in all_cells(variables) if cell not in done]
    fitting = [(1, 2), (2, 1), (2, 2)]
    assert next_cell(known, [(1, 1)], fitting, predicted) == (2, 2)
    tried = Knowledge(variables, {**done, (2, 2): outcome(Kind.RAN)}, {})
    assert next_cell(tried, [(1, 1), (2, 2)], fitting, predicted) is None


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(0, 1),
    st.integers(0, 1 << 16),
    st.integers(0, 1 << 16),
    st.floats(1, 30),
)
@settings(max_examples=60, deadline=None)
def test_each_run_is_one_variable_away_from_one_before(
    sizes: list[int], categories: int, fits: int, predicts: int, limit: float
) -> None:
    """GIVEN any predictions WHEN settings are chosen THEN each but the first of its categories is one step from an
    earlier one."""
    numbers = [f"v{place}={','.join(str(value) for value in range(1, size + 1))}" for place, size in enumerate(sizes)]
    variables = over(*numbers, *(["kind=a,b"] if categories else []))
    cells = list(all_cells(variables))
    fitting = [cell for place, cell in enumerate(cells) if fits >> place % 16 & 1]
    predicted = {*fitting, *(cell for place, cell in enumerate(cells) if predicts >> place % 16 & 1)}
    outcomes: dict[Cell, Outcome] = {}
    while True:
        left = [cell for cell in fitting if cell not in outcomes]
        asked = [cell for cell in predicted if cell not in outcomes]
        safe = [cell for cell, found in outcomes.items() if found.kind is Kind.RAN]
        cell = next_cell(Knowledge(variables, outcomes, {}), safe, left, asked)
        if cell is None:
            break
        assert cell not in outcomes
        first = plane_of(variables, cell) not in {plane_of(variables, other) for other in outcomes}
        assert first or step_from(outcomes, cell) is not None
        outcomes[cell] = outcome(Kind.RAN if by_size(variables, cell)[0] <= limit else Kind.OUT_OF_MEMORY)


def test_on_the_way_to_a_setting_of_three_variables_the_one_between_is_run() -> None:
    variables = over("a=1,2,3", "b=1,2,3", "c=1,2,3")
    walk = walked(variables, lambda _: Kind.RAN)[:10]
    outcomes = {cell: outcome(Kind.RAN) for cell in walk}
    everything = [cell for cell in all_cells(variables) if cell not in outcomes]
    chosen = []
    while (cell := next_cell(Knowledge(variables, outcomes, {}), list(outcomes), everything, everything)) is not None:
        chosen.append(cell)
        outcomes[cell] = outcome(Kind.RAN)
    assert chosen == [(2, 2, 0), (2, 2, 2)]


def test_what_cannot_be_predicted_is_run_the_smaller_first() -> None:
    variables = over("a=1,2,4", "b=1,2,4")
    done = {cell: outcome(Kind.RAN) for cell in all_cells(variables) if 0 in cell or cell == (1, 1)}
    assert next_cell(Knowledge(variables, done, {}), (), (), [(1, 2)]) == (2, 1)


def test_a_variable_of_which_more_needs_less_rules_nothing_out() -> None:
    variables = over("ranks=1,2,4", "n=1,2")
    done = {
        (0, 0): outcome(Kind.RAN),
        (1, 0): outcome(Kind.RAN),
        (0, 1): outcome(Kind.OUT_OF_MEMORY),
    }
    falls = Knowledge(variables, done, {(0, 0): 1000, (1, 0): 600})
    assert falls.falling == ("ranks",)
    assert falls.ruled_out_by((1, 1)) is None
    rises = Knowledge(variables, done, {(0, 0): 1000, (1, 0): 995})
    assert rises.falling == ()
    assert rises.ruled_out_by((1, 1)) == (0, 1)


def test_size_is_the_product_where_that_has_a_meaning() -> None:
    variables = over("a=1,2,4", "b=0,1,2")
    assert by_size(variables, (2, 0)) < by_size(variables, (1, 1)) < by_size(variables, (2, 2))


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.integers(0, 5), min_size=3, max_size=3),
    st.integers(0, 20),
    st.booleans(),
)
def test_every_setting_is_run_or_larger_than_one_that_failed(
    lengths: list[int], weights: list[int], limit: int, category: bool
) -> None:
    written = [f"v{place}={','.join(str(n + 1) for n in range(length))}" for place, length in enumerate(lengths)]
    variables = over(*written, categories=("v0",) if category else ())

    def fails(cell: Cell) -> bool:
        return sum(weight * place for weight, place in zip(weights, cell, strict=False)) > limit

    order = walked(variables, lambda cell: Kind.OUT_OF_MEMORY if fails(cell) else Kind.RAN)
    assert order[0] == (0,) * len(lengths)
    for cell in all_cells(variables):
        if cell not in order:
            assert fails(cell)
    for number, cell in enumerate(order):
        if category and cell[0] != order[number - 1][0]:
            continue
        # each is one step in one variable, or larger than what ran already in all of them
        smaller = [done for done in order[:number] if all(a <= b for a, b in zip(done, cell, strict=True))]
        assert number == 0 or smaller
        assert not any(fails(done) for done in smaller if done[0] == cell[0] or not category)


@pytest.mark.parametrize("kinds", [(Kind.RAN, Kind.OUT_OF_MEMORY), (Kind.FAILED, Kind.OUT_OF_MEMORY, Kind.RAN)])
def test_of_several_runs_the_worst_counts(kinds: tuple[Kind, ...]) -> None:
    assert Outcome(tuple(Attempt(kind) for kind in kinds)).kind is Kind.OUT_OF_MEMORY
