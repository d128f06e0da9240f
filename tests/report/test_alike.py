"""GIVEN several budgets beside that of the failure WHEN they hardly differ THEN they are told once, and say so."""

from __future__ import annotations

from diagnoses import close, fragmentation

from oomdoctor.language import speaking
from oomdoctor.model.diagnosis import Budget
from oomdoctor.model.units import GIB, MIB
from oomdoctor.report.alike import AlikeView, group_alike
from oomdoctor.report.bars import view_budget


def card(index: int, weights: int = 40 * GIB, free: int = 10 * GIB, place: str = "cuda") -> Budget:
    return close(f"{place}:{index}", 80 * GIB, [("weights", weights, "measured"), ("free", free, "measured")])


def told(*budgets: Budget) -> tuple[AlikeView, ...]:
    return group_alike(map(view_budget, budgets))


def test_equal_cards_are_one_line_with_their_numbers() -> None:
    (one,) = told(*(card(index) for index in (0, 1, 2, 3, 5, 7)))
    assert (one.where, one.number, one.room) == ("cuda:0–3, 5, 7", 6, "10.00 GiB free of 80.00 GiB each")
    assert one.in_short == ("cuda:0–3, 5, 7, each 80.00 GiB: weights 40.00 GiB, unattributed 30.00 GiB, free 10.00 GiB")


def test_a_little_apart_they_are_said_to_be_nearly_alike_and_the_range_is_told() -> None:
    (one,) = told(card(0), card(1, 40 * GIB + 20 * MIB, 10 * GIB - 20 * MIB))
    assert (one.where, one.room) == ("cuda:0, 1", "9.98 GiB to 10.00 GiB free of 80.00 GiB each")
    assert "nearly alike" in one.in_short


def test_what_differs_stands_alone() -> None:
    groups = told(card(0), card(1, 20 * GIB), card(2), Budget("host", 80 * GIB, (), 80 * GIB))
    assert [each.where for each in groups] == ["cuda:0, 2", "cuda:1", "host"]


def test_bounds_of_the_host_are_never_one_line_though_they_hold_the_same() -> None:
    same = [close(where, 8 * GIB, [("this command", 7 * GIB, "measured")]) for where in ("cgroup", "process limit")]
    assert [each.number for each in told(*same)] == [1, 1]


def test_a_request_that_did_not_fit_is_not_hidden_among_others() -> None:
    failed = fragmentation().budgets[0]
    assert failed.request_bytes is not None
    assert len(told(failed, failed)) == 2


def test_in_chinese() -> None:
    with speaking("zh"):
        (one,) = told(card(0), card(1))
    assert "每" in one.room
