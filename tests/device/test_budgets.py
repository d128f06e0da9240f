"""GIVEN cards that are not all alike to everybody WHEN one runs out THEN its budget is that card's, to the byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from closing import check_closes, check_inside, check_outside
from emulation.cards import MIB
from on_device import Device

pytestmark = [pytest.mark.device, pytest.mark.slow, pytest.mark.extended]

GIB = 1 << 30
WRAPPER = (sys.executable, "-c", "from oomdoctor.cli.main import main; main()", "run", "--report", "always")

FILL = """
kept = []
while True:
    kept.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))
"""


def watched(device: Device, folder: Path, text: str, *options: str, **variables: str) -> dict[str, Any]:
    """The report of a script that ran out of memory under `oomdoctor run`."""
    script = folder.with_suffix(".py")
    script.write_text(text)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OOMDOCTOR_")}
    environment = device.environment(**{**clean, **variables})
    command = [*WRAPPER, *options, "--output", str(folder), "--", "python", str(script)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1, ended.stderr
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


def budget_of(report: dict[str, Any], where: str) -> dict[str, Any]:
    (budget,) = [budget for budget in report["budget"] if budget["where"] == where]
    return dict(budget)


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = [line for file in sorted((folder / "probe").iterdir()) for line in file.read_text().splitlines()]
    found = [json.loads(line.partition(" ")[2]) for line in lines]
    return [record for record in found if record["kind"] == kind]


def test_the_driver_s_reserve_is_a_part_without_stacks_as_well(
    device_with: Callable[..., Device], tmp_path: Path
) -> None:
    device = device_with(memory_bytes=(8 * GIB,), reserve_bytes=300 * MIB)
    report = watched(device, tmp_path / "incident", f"import torch{FILL}", "--stacks", "never")
    budget = budget_of(report, "cuda:0")
    parts = check_closes(budget)
    (failed,) = [record for record in records(tmp_path / "incident", "device-oom") if record["snapshot_path"]]
    assert budget["total_bytes"] == 8 * GIB + 300 * MIB
    check_outside(parts, device.machine.cards, 0, failed["state"]["reserved_bytes"], failed["device_free_bytes"])
    assert parts["held by variables and containers"] == 7 * GIB


@pytest.mark.parametrize("how", ["index", "uuid", "in the script"])
def test_a_process_that_sees_the_second_card_only_has_that_card_s_budget(
    device_with: Callable[..., Device], tmp_path: Path, how: str
) -> None:
    device = device_with(memory_bytes=(8 * GIB, 12 * GIB))
    uuid = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(1)))"
    second = device.printed_without_torch(uuid) if how == "uuid" else "1"
    set_in_script = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n" if how == "in the script" else ""
    variables = {} if set_in_script else {"CUDA_VISIBLE_DEVICES": second}
    with device.start("kept = malloc(5 << 30)") as neighbour:
        report = watched(device, tmp_path / "incident", f"{set_in_script}import torch{FILL}", **variables)
        assert neighbour.stdin is not None
        neighbour.stdin.close()
    budget = budget_of(report, "cuda:0")
    parts = check_closes(budget)
    assert budget["total_bytes"] == 12 * GIB
    assert parts["held by variables and containers"] == 11 * GIB
    assert parts["context and libraries"] == device.machine.cards.context_bytes
    assert not [name for name in parts if name.startswith("other")]
    assert [one["where"] for one in report["budget"] if one["where"].startswith("cuda")] == ["cuda:0"]


TOGETHER = """
import torch, torch.multiprocessing as mp

def work(rank, barrier):
    kept = [torch.empty((2 + rank) << 30, dtype=torch.uint8, device="cuda")]
    barrier.wait()
    kept.append(torch.empty(8 << 30, dtype=torch.uint8, device="cuda"))

if __name__ == "__main__":
    context = mp.get_context("spawn")
    barrier = context.Barrier(2)
    mp.spawn(work, (barrier,), nprocs=2)
"""


def test_of_two_that_fail_together_each_is_told_what_the_other_held(
    device_with: Callable[..., Device], tmp_path: Path
) -> None:
    device = device_with(memory_bytes=(10 * GIB,))
    report = watched(device, tmp_path / "incident", TOGETHER)
    budget = budget_of(report, "cuda:0")
    parts = check_closes(budget)
    failed = {record["pid"]: record for record in records(tmp_path / "incident", "device-oom")}
    context = device.machine.cards.context_bytes
    (other,) = [name for name in parts if name.startswith("other process of this command: pid ")]
    pid = int(other.rpartition(" ")[2].rstrip(")"))
    (mine,) = [record for number, record in failed.items() if number != pid] or failed.values()
    reserved = mine["state"]["reserved_bytes"]
    check_outside(parts, device.machine.cards, 0, reserved, mine["device_free_bytes"])
    assert parts[other] == 10 * GIB - mine["device_free_bytes"] - reserved - context
    how = next(part["how_known"] for part in budget["parts"] if part["name"] == other)
    assert how == "measured by NVML"


NOT_PROBED = """
import subprocess, sys, torch
kept = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda")]
text = "import ctypes, sys; held = ctypes.c_void_p(); cuda = ctypes.CDLL('libcuda.so.1');"
text += "cuda.cudaMalloc(ctypes.byref(held), ctypes.c_size_t(5 << 30)); print('ready', flush=True); sys.stdin.read()"
helper = subprocess.Popen([sys.executable, "-S", "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
helper.stdout.readline()
kept.append(torch.empty(4 << 30, dtype=torch.uint8, device="cuda"))
"""


def test_a_process_of_the_command_s_that_started_a_moment_ago_is_no_stranger(
    device_with: Callable[..., Device], tmp_path: Path
) -> None:
    device = device_with(memory_bytes=(8 * GIB,))
    report = watched(device, tmp_path / "incident", NOT_PROBED)
    parts = check_closes(budget_of(report, "cuda:0"))
    (other,) = [name for name in parts if name.startswith("other")]
    assert other.startswith("other process of this command: pid ")
    assert parts[other] == 5 * GIB + device.machine.cards.context_bytes
    assert "NBR001" not in [one["rule"] for one in report["diagnoses"]]


LIBRARY = """
import sys, threading, torch, torch.multiprocessing as mp
from torch import nn
MIB = 1 << 20

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8192, 8192, bias=False) for _ in range(16))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

def work(rank=0):
    net = Net().cuda()
    x = torch.empty(64, 8192, device="cuda", requires_grad=True)
    scaled = x * 2
    stash = [torch.empty(256 * MIB, dtype=torch.uint8, device="cuda") for _ in range(8)]
    free_bytes, _ = torch.cuda.mem_get_info()
    rest = torch.empty(free_bytes // (2 * MIB) * 2 * MIB - 6 * MIB, dtype=torch.uint8, device="cuda")
    net(scaled)

if __name__ == "__main__":
    HOW
"""
HOWS = {
    "in a thread": "one = threading.Thread(target=work); one.start(); one.join(); sys.exit(1)",
    "in a spawned worker": "mp.spawn(work, nprocs=1)",
}


@pytest.mark.parametrize("how", HOWS)
def test_where_a_library_failed_all_is_named_as_where_the_allocator_did(
    device_with: Callable[..., Device], tmp_path: Path, how: str
) -> None:
    device = device_with(memory_bytes=(8 * GIB,))
    report = watched(device, tmp_path / "incident", LIBRARY.replace("HOW", HOWS[how]))
    assert report["diagnoses"][0]["rule"] == "OVH002"
    assert report["diagnoses"][0]["owner"] == "parameters of Net 'net' local to work()"
    parts = check_closes(budget_of(report, "cuda:0"))
    assert parts["weights and buffers"] == 4 * GIB
    reserved = 8 * GIB - device.machine.cards.context_bytes - parts["free"]
    check_outside(parts, device.machine.cards, 0, reserved, parts["free"])
    (failed,) = [record for record in records(tmp_path / "incident", "library-oom") if record["snapshot_path"]]
    check_inside(parts, tmp_path / "incident" / failed["snapshot_path"], 0)
    assert failed["autograd_on"] is None


def test_without_snapshots_the_holders_beside_a_library_are_named_by_the_sizes_of_their_tensors(
    device_with: Callable[..., Device], tmp_path: Path
) -> None:
    device = device_with(memory_bytes=(8 * GIB,))
    variables = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
    report = watched(device, tmp_path / "incident", LIBRARY.replace("HOW", "work()"), **variables)
    parts = check_closes(budget_of(report, "cuda:0"))
    assert parts["weights and buffers"] == 4 * GIB
    assert [record["what"] for record in records(tmp_path / "incident", "probe-error")] == [
        "turning allocation history on",
        "attaching the out-of-memory observer",
    ]


def test_of_several_cards_the_holder_on_the_fullest_is_named(
    device_with: Callable[..., Device], tmp_path: Path
) -> None:
    device = device_with(memory_bytes=(8 * GIB, 8 * GIB))
    text = "import torch\nother = torch.empty(1 << 30, dtype=torch.uint8, device='cuda:0')\ntorch.cuda.set_device(1)\n"
    report = watched(device, tmp_path / "incident", text + LIBRARY.replace("HOW", "work()"))
    assert report["diagnoses"][0]["owner"] == "parameters of Net 'net' local to work()"
    assert check_closes(budget_of(report, "cuda:0"))["held by variables and containers"] == GIB
    assert check_closes(budget_of(report, "cuda:1"))["weights and buffers"] == 4 * GIB
