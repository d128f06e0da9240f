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
from on_device import Device

pytestmark = [pytest.mark.device, pytest.mark.slow, pytest.mark.extended]

GIB = 1 << 30
WRAPPER = (sys.executable, "-c", "from oomdoctor.cli.main import main; main()", "run", "--report", "always")


@pytest.fixture
def report_of(device_with: Callable[..., Device], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Runs a script on a card of its own and reads the report on it."""

    def run(text: str, memory: int = 8 * GIB, **variables: str) -> dict[str, Any]:
        script = tmp_path / "script.py"
        script.write_text("import torch\n" + text)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("OOMDOCTOR_", "PYTORCH_"))}
        device = device_with(memory_bytes=(memory,))
        folder = tmp_path / "incident"
        command = [*WRAPPER, "--output", str(folder), "--", "python", str(script)]
        ended = subprocess.run(
            command, env=device.machine.variables({**clean, **variables}), timeout=120, capture_output=True
        )
        assert ended.returncode in (0, 1), ended.stderr
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


FORKED = """
import multiprocessing
def fill():
    held = []
    while True:
        held.append(torch.empty(512 << 20, dtype=torch.uint8, device="cuda"))
worker = multiprocessing.get_context("fork").Process(target=fill)
worker.start()
worker.join()
"""


def test_what_a_child_forked_just_now_holds_is_no_strangers(report_of: Callable[..., dict[str, Any]]) -> None:
    report = report_of(FORKED)
    causes = [(one["rule"], one["cause"]) for one in report["diagnoses"]]
    assert causes[0] == ("RET001", "retained-tensors")
    assert "NBR001" not in [rule for rule, _ in causes]
    assert report["facts"]["owner.holder@cuda:0"]["value"].startswith("list 'held' local to fill() (15 elements)")


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


STEPS = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4096, 4096, bias=False) for _ in range(16))
    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x
net = Net().cuda()
size = 1 << 15
while True:
    try:
        net(torch.empty(size, 4096, device="cuda")).sum().backward()
        break
    except EXPECTED:
        size //= 2
"""


def test_without_observers_what_the_failed_call_gave_back_leaves_no_gap(
    report_of: Callable[..., dict[str, Any]],
) -> None:
    report = report_of(STEPS.replace("EXPECTED", "ValueError"), **ASYNCHRONOUS)
    (budget,) = [budget for budget in report["budget"] if budget["where"] == "cuda:0"]
    parts = {part["name"]: part["bytes"] for part in budget["parts"]}
    assert sum(parts.values()) + budget["unattributed_bytes"] == budget["total_bytes"]
    assert budget["unattributed_bytes"] < 0.01 * budget["total_bytes"]
    assert parts["weights and buffers"] == GIB
    facts = report["facts"]
    assert facts["oom.requested_bytes@cuda:0"]["value"] == 512 << 20
    assert facts["oom.free_bytes@cuda:0"]["value"] < parts["free"]
    assert "oom.allowed_bytes@cuda:0" not in facts


def test_without_observers_caught_failures_are_counted(report_of: Callable[..., dict[str, Any]]) -> None:
    report = report_of(STEPS.replace("EXPECTED", "torch.OutOfMemoryError"), **ASYNCHRONOUS)
    assert report["verdict"] == "degraded"
    assert report["diagnoses"][0]["rule"] == "NOT005"
    assert report["facts"]["oom.count"]["value"] >= 1
    (budget,) = [budget for budget in report["budget"] if budget["where"] == "cuda:0"]
    assert budget["unattributed_bytes"] < 0.01 * budget["total_bytes"]
    assert "who held the memory at failures that the program caught" in [gap["what"] for gap in report["missing"]]


BACKWARD = """
from torch import nn
WIDTH, BATCH = 4096, 32768
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(12))
        self.head = nn.Linear(WIDTH, 4 * WIDTH)
    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.gelu(layer(x))
        return self.head(x)
with torch.device("cuda"):
    net = Net()
def step():
    outputs = net(torch.empty(BATCH, WIDTH, device="cuda"))
    outputs.sum().backward()
def step_without_names():
    net(torch.empty(BATCH, WIDTH, device="cuda")).sum().backward()
"""


@pytest.mark.parametrize(
    ("run", "holder"),
    [
        ("step()", "'outputs' local to step(), in use at script.py:18"),
        ("step_without_names()", "the graph of the backward pass, in use at script.py:20"),
    ],
)
def test_a_failure_in_autograds_own_thread_names_whose_graph_it_is(
    report_of: Callable[..., dict[str, Any]], run: str, holder: str
) -> None:
    report = report_of(BACKWARD + run, memory=16 * GIB)
    assert report["verdict"] == "out-of-memory"
    assert report["facts"]["owner.holder@cuda:0"]["value"] == holder
    # an input and the outputs of a layer and of its activation, 512 MiB each, for twelve layers
    assert report["facts"]["owner.saved_for_backward_bytes@cuda:0"]["value"] == 25 * GIB // 2
    assert report["facts"]["owner.weights_bytes@cuda:0"]["value"] > GIB


SHARDED = """
import os, tempfile
import torch.distributed
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
torch.distributed.init_process_group("gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
def layers():
    return nn.Sequential(*[nn.Linear(4096, 4096, bias=False) for _ in range(8)]).cuda()
def sharded_by_parameter():
    model = layers()
    for layer in model:
        fully_shard(layer)
    return fully_shard(model)
def sharded_flat():
    return FullyShardedDataParallel(layers(), device_id=0)
def main(*models):
    optimizers = [torch.optim.AdamW(model.parameters()) for model in models]
    for model, optimizer in zip(models, optimizers):
        model(torch.empty(64, 4096, device="cuda")).sum().backward()
        optimizer.step()
    filled = []
    while True:
        filled.append(torch.empty(256 << 20, dtype=torch.uint8, device="cuda"))
main(sharded_by_parameter(), sharded_flat())
"""


def test_parameters_that_a_library_shards_are_parameters(report_of: Callable[..., dict[str, Any]]) -> None:
    """Of two models of half a GiB, sharded in either way: in one process, since what shards takes long to import."""
    facts = report_of(SHARDED)["facts"]
    sizes = [facts[f"owner.{name}_bytes@cuda:0"]["value"] for name in ("weights", "gradients", "optimizer")]
    assert sizes == [GIB, GIB, 2 * GIB]
