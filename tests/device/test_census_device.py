"""GIVEN the emulated device WHEN it runs out under `oomdoctor run` THEN the report says who held the memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Device

pytestmark = [pytest.mark.device, pytest.mark.slow]

GIB = 1 << 30
WRAPPER = (sys.executable, "-c", "from oomdoctor.cli.main import main; main()", "run", "--report", "always")


@pytest.fixture
def report_of(device_with: Callable[..., Device], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Runs a script on a card of 8 GiB and reads the report on it."""

    def run(text: str, **variables: str) -> dict[str, Any]:
        script = tmp_path / "script.py"
        script.write_text("import torch\n" + text)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("OOMDOCTOR_", "PYTORCH_"))}
        device = device_with(memory_bytes=(8 * GIB,))
        folder = tmp_path / "incident"
        command = [*WRAPPER, "--output", str(folder), "--", "python", str(script)]
        subprocess.run(command, env=device.machine.variables({**clean, **variables}), timeout=120, capture_output=True)
        found: dict[str, Any] = json.loads((folder / "report.json").read_text())
        return found

    return run


def held(report: dict[str, Any]) -> dict[str, int]:
    """Owners by the census, in GiB."""
    return {
        name.removesuffix("@cuda:0"): fact["value"]
        for name, fact in report["facts"].items()
        if name in ("owner.holder@cuda:0", "owner.holder_bytes@cuda:0")
    }


ASYNCHRONOUS = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
FILL = """
import multiprocessing, sys, threading
def fill():
    cache = []
    while True:
        cache.append(torch.empty(256 << 20, dtype=torch.uint8, device="cuda"))
"""


@pytest.mark.parametrize(
    "run",
    [
        "fill()",
        "filler = threading.Thread(target=fill); filler.start(); filler.join()",
        "if __name__ == '__main__':\n"
        "    worker = multiprocessing.get_context('spawn').Process(target=fill); worker.start(); worker.join()",
    ],
)
def test_without_observer_and_snapshot_the_holders_are_named_and_the_budget_closes(
    report_of: Callable[..., dict[str, Any]], run: str
) -> None:
    report = report_of(FILL + run, **ASYNCHRONOUS)
    assert report["verdict"] == "out-of-memory"
    assert held(report) == {
        "owner.holder": "list 'cache' local to fill() (30 elements), grown at script.py:7",
        "owner.holder_bytes": 30 * GIB // 4,
    }
    (budget,) = [budget for budget in report["budget"] if budget["where"] == "cuda:0"]
    assert sum(part["bytes"] for part in budget["parts"]) + budget["unattributed_bytes"] == budget["total_bytes"]
    assert budget["unattributed_bytes"] < 0.01 * budget["total_bytes"]
    assert report["facts"]["oom.requested_bytes@cuda:0"]["value"] == 256 << 20
