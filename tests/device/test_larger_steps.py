"""GIVEN steps that give back what they take WHEN one needs far more THEN it is told from memory that is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from on_device import Device

from oomdoctor.diagnose import diagnose
from oomdoctor.model.diagnosis import Confidence
from oomdoctor.model.units import GIB

pytestmark = [pytest.mark.device, pytest.mark.extended]

PROGRAM = """
import torch.nn as nn
torch.cuda.memory._record_memory_history(max_entries=1_000_000)
def model(width, layers):
    return nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)]).cuda()
def step(m, width, batch, passes=1):
    total = 0
    for _ in range(passes):
        total = total + m(torch.randn(batch, width, device="cuda")).mean()
    total.backward()
    m.zero_grad()
def main():
{main}
try:
    main()
except torch.OutOfMemoryError:
    pass
torch.cuda.memory._dump_snapshot("{path}")
"""

SEARCH = """
    m, batch = model(1024, 6), 4000
    while True:
        x = torch.randn(batch, 1024, device="cuda"); m(x).mean().backward(); m.zero_grad(); batch *= 2
"""
MORE_PASSES = """
    m = model(1024, 6)
    for passes in [2] * 9 + [200]:
        step(m, 1024, 2000, passes)
"""
LARGER_BATCH = """
    m = model(2048, 10)
    for batch in [500] * 8 + [60000]:
        step(m, 2048, batch)
"""
KEPT = """
    m, losses = model(1024, 6), []
    while True:
        loss = m(torch.randn(2000, 1024, device="cuda")).pow(2).mean(); loss.backward(retain_graph=True)
        m.zero_grad(); losses.append(loss)
"""


@pytest.mark.parametrize(
    ("main", "rule", "confidence"),
    [
        (SEARCH, "ACT001", Confidence.POSSIBLE),
        (MORE_PASSES, "ACT010", Confidence.POSSIBLE),
        (LARGER_BATCH, "ACT010", Confidence.CONFIRMED),
        (KEPT, "RET001", Confidence.CONFIRMED),
    ],
    ids=["search for a batch", "more passes", "larger batch", "kept"],
)
def test_what_one_step_needs_is_not_what_is_kept(
    main: str, rule: str, confidence: Confidence, device_with: Callable[..., Device], tmp_path: Path
) -> None:
    path = tmp_path / "larger.pickle"
    device_with(memory_bytes=(3 * GIB,)).run(PROGRAM.format(main=main, path=path))
    first = diagnose([path]).findings[0]
    assert (first.rule, first.confidence) == (rule, confidence)
