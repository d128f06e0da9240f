"""GIVEN a collection WHEN its source is read THEN what each step makes anew is told from what outlives the steps."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest

import oomdoctor

FILE = Path(oomdoctor.__file__).parent / "probe" / "site" / "_oomdoctor_probe" / "growth_site.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("growth_site", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def is_made_each_step(tmp_path: Path) -> Callable[[str, str], bool]:
    module = load()

    def tell(text: str, name: str) -> bool:
        path = tmp_path / "train.py"
        path.write_text(dedent(text))
        return bool(module.is_made_each_step(str(path), name, 1, 10000))

    return tell


MICRO_BATCHES = """
def step(batches):
    losses = []
    for batch in batches:

        loss = net(batch).mean()
        losses.append(loss)  # they are many
    total = torch.stack(losses).mean()
    total.backward()
"""
IN_A_LOOP = """
for step in range(10):
    losses: list[Tensor] = []
    for batch in loader:
        with autocast():
            losses.append(net(batch).mean())
    accelerator.backward(sum(losses))
"""
COMPREHENDED = """
def step(batches):
    losses = [net(batch).mean() for batch in batches]
    sum(losses).backward()
"""
OF_AN_OBJECT = """
class Trainer:
    def step(self, batches):
        self.losses = []
        for batch in batches:
            self.losses.append(self.net(batch).mean())
        sum(self.losses).backward()
"""
LEAK = """
def train(batches):
    losses = []
    for batch in batches:
        loss = net(batch).mean()
        loss.backward()
        losses.append(loss)
    print(sum(losses))
"""
LEAK_AND_LAST_BACKWARD = """
def train(batches):
    losses = []
    for batch in batches:
        loss = net(batch).mean()
        loss.backward(retain_graph=True)
        losses.append(loss)
    sum(losses).backward()
"""
MADE_OUTSIDE = """
losses = []
for step in range(10):
    for batch in loader:
        losses.append(net(batch).mean())
    sum(losses).backward()
"""
NO_BACKWARD = """
def evaluate(batches):
    outputs = []
    for batch in batches:
        outputs.append(net(batch))
    return torch.cat(outputs)

def train():
    loss.backward()
"""
NO_LOOP = """
def step(batch):
    losses = []
    losses.append(net(batch))
    sum(losses).backward()
"""
OF_A_MODULE = """
history = []
def remember(x):
    for one in x:
        history.append(one)
loss.backward()
"""


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (MICRO_BATCHES, "losses", True),
        (IN_A_LOOP, "losses", True),
        (COMPREHENDED, "losses", True),
        (OF_AN_OBJECT, ".losses", True),
        (LEAK, "losses", False),
        (LEAK_AND_LAST_BACKWARD, "losses", False),
        (MADE_OUTSIDE, "losses", False),
        (NO_BACKWARD, "outputs", False),
        (NO_LOOP, "losses", False),
        (OF_A_MODULE, "history", False),
        ("", "losses", False),
    ],
)
def test_what_goes_backward_once_it_is_full_is_of_a_step(
    is_made_each_step: Callable[[str, str], bool], text: str, name: str, expected: bool
) -> None:
    assert is_made_each_step(text, name) is expected


@pytest.mark.parametrize("later", ["keep[-1] = loss", "keep[ -2 ] += loss"])
def test_a_line_that_replaces_the_last_element_adds_nothing(tmp_path: Path, later: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"keep = []\nfor batch in loader:\n    keep.append(net(batch))\n    {later}\n")
    assert load().line_that_adds(str(path), "keep") == 3
    path.write_text("keep = {}\nfor batch in loader:\n    keep[-batch] = net(batch)\n")
    assert load().line_that_adds(str(path), "keep") == 3
