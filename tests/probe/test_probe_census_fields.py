"""GIVEN what holds memory WHEN the census is taken THEN it says which blocks, of what shape, and which are logits."""

from __future__ import annotations

import importlib.util
from itertools import pairwise

import pytest
from counted import MIB, groups, taken, told
from watched import Harness

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed here")


def test_blocks_are_sampled_in_the_order_of_the_collection_first_and_last_included(harness: Harness) -> None:
    text = """
class Batch:
    def __init__(self): self.inputs = torch.empty(64, 1024)
def address(tensor): return tensor.untyped_storage().data_ptr()
def main():
    order = list(range(300))
    made = [Batch() for _ in order]
    seen = [made[299 - number] for number in order]
    of = [address(batch.inputs) for batch in seen]
    del made
    large = torch.empty(3, 256, 1024, dtype=torch.bfloat16)
    blocks = {0: {**{one: 1 << 18 for one in of}, address(large): 3 << 19}}
    taken = census.take(torch, blocks, 20.0, 'cpu')
    rows = {row['owner']: row for row in taken['groups']}
    row = rows["list 'seen' local to main()"]
    alone = rows["'large' local to main()"]
    print(json.dumps([of, row['sample_addresses'], row['length'], row['largest_shape'], row['largest_dtype'],
                      alone['sample_addresses'] == [address(large)], alone['largest_shape'], alone['largest_dtype']]))
main()
"""
    of, sampled, length, shape, dtype, *alone = taken(harness, text)  # type: ignore[misc]
    assert (length, shape, dtype) == (300, [64, 1024], "float32")
    assert (len(sampled), sampled[0], sampled[-1]) == (256, of[0], of[-1])
    positions = [of.index(one) for one in sampled]
    assert positions == sorted(set(positions))
    assert max(after - before for before, after in pairwise(positions)) == 2
    assert alone == [True, [3, 256, 1024], "bfloat16"]


def test_what_autograd_saved_is_sampled_in_the_order_of_the_list_that_keeps_it(harness: Harness) -> None:
    text = """
def main():
    leaf = torch.ones(512, 512, requires_grad=True)
    losses = []
    saved = []
    for step in range(10):
        middle = (leaf * 2).exp()
        saved.append(middle.untyped_storage().data_ptr())
        losses.append(middle.sum())
    del middle
    taken = census.take(torch, {0: dict.fromkeys(saved, MIB)}, 20.0, 'cpu')
    row = max(taken['groups'], key=lambda row: row['bytes'])
    print(json.dumps([saved, row['sample_addresses'], row['category'], row['saved_bytes']]))
main()
"""
    saved, sampled, category, size = taken(harness, text)  # type: ignore[misc]
    assert (category, size) == ("saved-for-backward", 10 * MIB)
    assert sampled == saved


def test_without_blocks_there_are_no_addresses(harness: Harness) -> None:
    (row,) = groups(harness, "alone = mib()\ntake()\n")
    assert row["sample_addresses"] == []


LANGUAGE_MODEL = """
class Model(nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, 16)
        self.positions = nn.Embedding(LONGEST, 16)
        self.head = None if tied else nn.Linear(16, VOCABULARY, bias=False)
    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight[:ids.shape[1]]
        return nn.functional.linear(x, self.tokens.weight if self.head is None else self.head.weight)

def step(model, keep=None):
    ids = torch.zeros(2, 64, dtype=torch.long)
    logits = model(ids)
    scores = torch.empty(4, 16, LONGEST)
    loss = nn.functional.cross_entropy(logits.view(-1, VOCABULARY), ids.view(-1))
    if keep is not None:
        keep.append(loss)
    else:
        take()
"""


def test_logits_are_a_category_of_their_own_with_their_owner(harness: Harness) -> None:
    text = "VOCABULARY, LONGEST = 32000, 8192\n" + LANGUAGE_MODEL + "step(Model(tied=False))\n"
    census = taken(harness, text)
    assert census["devices"][0]["vocabulary"] == [32000]
    logits = 2 * 64 * 32000 * 4
    rows = [row for row in census["groups"] if row["bytes"] > MIB]
    found = {(row["category"], row["owner"]): (row["bytes"], row["saved_bytes"]) for row in rows}
    assert found["logits", "'logits' local to step()"] == (logits, 0)
    # the softmax of them, which the loss keeps
    assert found["logits", "'loss' local to step()"] == (logits, logits)
    assert found["other", "'scores' local to step()"] == (4 * 16 * 8192 * 4, 0)
    (row,) = [row for row in rows if row["owner"] == "'logits' local to step()"]
    assert row["largest_shape"] in ([2, 64, 32000], [128, 32000])


def test_losses_that_are_kept_keep_logits_and_autograd_saved_them(harness: Harness) -> None:
    text = "VOCABULARY, LONGEST = 32000, 8192\n" + LANGUAGE_MODEL
    text += "losses = []\nmodel = Model(tied=True)\nfor _ in range(5): step(model, losses)\ntake()\n"
    rows = [row for row in groups(harness, text) if row["category"] == "logits"]
    assert [(row["owner"], row["length"]) for row in rows] == [("list 'losses' global in script.py", 5)]
    assert rows[0]["bytes"] == rows[0]["saved_bytes"] == 5 * 2 * 64 * 32000 * 4


def test_a_small_vocabulary_says_nothing(harness: Harness) -> None:
    text = "VOCABULARY, LONGEST = 4096, 64\n" + LANGUAGE_MODEL + "step(Model(tied=False))\n"
    assert "logits" not in {category for category, _ in told(groups(harness, text))}


def test_a_later_census_says_how_a_collection_has_grown_since_the_first(harness: Harness) -> None:
    text = """
from _oomdoctor_probe.census_growth import Lengths
lengths = Lengths()
gc.disable()
def take():
    found = census.take(torch, None, 20.0, 'cpu', lengths=lengths)
    return {row['owner']: (row['earlier_length'], row['length'], row['earlier_seconds']) for row in found['groups']}
kept, emptied, still = [mib() for _ in range(3)], [mib() for _ in range(9)], [mib() for _ in range(2)]
def step():
    anew = [mib() for _ in range(5)]
    return take()
first = step()
kept += [mib() for _ in range(4)]
del emptied[2:]
second = step()
kept.append(mib())
emptied += [mib() for _ in range(8)]
dead = weakref.ref(kept[0])
third = step()
kept.clear()
print(json.dumps([first, second, third, dead() is None]))
"""
    first, second, third, gone = taken(harness, text)  # type: ignore[misc]
    name = "list '{}' global in script.py".format
    assert [census[name("kept")][:2] for census in (first, second, third)] == [[None, 3], [3, 7], [3, 8]]
    assert [census[name("emptied")][:2] for census in (first, second, third)] == [[None, 9], [None, 2], [2, 10]]
    assert third[name("still")][:2] == [2, 2]
    assert third[name("kept")][2] > second[name("kept")][2] > 0
    assert gone
