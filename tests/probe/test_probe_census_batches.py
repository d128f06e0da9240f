"""GIVEN a data loader WHEN the census is taken in a loop over it THEN its batch is told from what else is live."""

from __future__ import annotations

import importlib.util

import pytest
from counted import groups, told
from watched import Harness

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed here")

LOADER = """
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.zeros(32, MIB // 16), torch.zeros(32, MIB // 32)), batch_size=8)
"""


def test_what_a_loop_over_the_loader_sets_is_the_batch(harness: Harness) -> None:
    text = """
def train(model):
    kept = []
    table = mib(3)
    for step, (inputs, targets) in enumerate(loader):
        inputs, targets = inputs + 1, targets + 1
        with torch.no_grad():
            outputs = model(inputs)
        kept.append(inputs + 1)
        if step == 1:
            take()
            return
train(lambda inputs: inputs.repeat(2, 2))
"""
    found = told(groups(harness, LOADER + text))
    assert found[("batch", "'inputs' local to train()")] == 2
    assert found[("batch", "'targets' local to train()")] == 1
    assert found[("other", "'outputs' local to train()")] == 8
    assert found[("other", "'table' local to train()")] == 3
    assert found[("other", "list 'kept' local to train()")] == 4


def test_a_batch_may_be_a_dictionary_and_the_loop_stand_in_the_script(harness: Harness) -> None:
    text = """
for batch in loader:
    batch = {'inputs': batch[0] + 1, 'targets': batch[1] + 1}
    take()
    break
"""
    assert told(groups(harness, LOADER + text))[("batch", "dict 'batch' global in script.py")] == 3


def test_a_loop_without_a_loader_and_a_loop_of_larger_things_make_no_batch(harness: Harness) -> None:
    text = "for table in (mib(2), mib(3)):\n    pass\ntake()\n"
    assert {category for category, _ in told(groups(harness, text))} == {"other"}
    text = LOADER + "for table in (torch.zeros(9, MIB // 8),):\n    pass\ntake()\n"
    assert ("other", "'table' global in script.py") in told(groups(harness, text))
