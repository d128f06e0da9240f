"""GIVEN who held what WHEN it is shown as a tree THEN each level is largest first and every owner counts once."""

from __future__ import annotations

from oomdoctor.model.diagnosis import Budget, BudgetPart, Holding, HoldingPart
from oomdoctor.report.owners import view_holdings

GIB = 1 << 30
OWNERS = (
    Holding("cuda:0", "list 'kept'", 2 * GIB, 20, "census", "activations"),
    Holding("cuda:0", "process 7", GIB // 2, 1, "NVML"),
    Holding("cuda:0", "parameters of 'model'", 4 * GIB, 99, "census", "weights", (HoldingPart("head", 3 * GIB),)),
    Holding("cuda:0", "'x'", 3 * GIB, 1, "census", "activations"),
    Holding("host", "dict 'd'", 5 * GIB, 1, "probe"),
)


def test_categories_are_summed_owners_follow_and_parts_hang_below() -> None:
    rows = view_holdings(OWNERS, (Budget("cuda:0", 16 * GIB, (BudgetPart("weights", 4 * GIB, "census"),), 12 * GIB),))
    assert [(row.where, row.depth, row.owner, row.bytes / GIB, row.is_owner) for row in rows] == [
        ("cuda:0", 0, "activations", 5, False),
        ("cuda:0", 1, "'x'", 3, True),
        ("cuda:0", 1, "list 'kept'", 2, True),
        ("cuda:0", 0, "parameters of 'model'", 4, True),
        ("cuda:0", 1, "head", 3, False),
        ("cuda:0", 0, "process 7", 0.5, True),
        ("host", 0, "dict 'd'", 5, True),
    ]
    assert [row.share for row in rows][:2] == ["31.2 %", "18.8 %"]
    assert rows[0].count == "21"
    assert (rows[0].fraction, rows[1].fraction) == (1.0, 0.6)
    assert rows[1].category == rows[2].category == rows[0].category != rows[3].category


def test_owners_add_up() -> None:
    rows = view_holdings(OWNERS, ())
    assert sum(row.bytes for row in rows if row.is_owner) == sum(each.bytes for each in OWNERS)


def test_nothing_known() -> None:
    assert view_holdings((), ()) == ()
