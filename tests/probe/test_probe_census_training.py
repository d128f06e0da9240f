"""GIVEN models in training or in evaluation mode WHEN the census is taken THEN it says whether any of them trains."""

from __future__ import annotations

import importlib.util

import pytest
from test_probe_census import taken
from watched import Harness

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed here")


@pytest.mark.parametrize(
    ("program", "training"),
    [
        ("net = nn.Linear(8, 8)", True),
        ("net = nn.Sequential(nn.Linear(8, 8), nn.Dropout()).eval()", False),
        ("net, teacher = nn.Linear(8, 8), nn.Linear(8, 8).eval()", True),
        ("net, loss = nn.Linear(8, 8).eval(), nn.CrossEntropyLoss()", False),
        ("net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).train(); net[1].eval()", True),
        ("loss = nn.CrossEntropyLoss()", None),
    ],
    ids=["as it is made", "evaluation", "a frozen teacher", "a loss has no mode", "a frozen layer", "no model"],
)
def test_whether_a_model_is_in_training_mode(harness: Harness, program: str, training: bool | None) -> None:
    assert taken(harness, f"{program}\ntake()")["training"] is training
