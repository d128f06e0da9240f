"""GIVEN torch 2.0, whose observers can hang a program WHEN it runs under `oomdoctor run` THEN it ends as it would."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from emulation.cards import Cards
from emulation.machine import Machine
from emulation.wheel import environment
from test_scenarios import WRAPPER

TORCH = "2.0.1"

pytestmark = [
    pytest.mark.device,
    pytest.mark.slow,
    pytest.mark.extended,
    pytest.mark.skipif(
        not environment(TORCH).is_made, reason=f"made by: python tests/device/emulate.py --torch {TORCH} -- true"
    ),
]

SCRIPT = """
import threading
import torch

torch.cuda.init()

def poll():
    while not caught == 100:
        torch.cuda.memory_stats_as_nested_dict(0)

caught = 0
threading.Thread(target=poll, daemon=True).start()
for _ in range(100):
    try:
        torch.empty(30 << 30, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        caught += 1
print("caught", caught, flush=True)
batches = []
while True:
    batches.append(torch.empty(1 << 28, device="cuda"))
"""


def test_another_thread_may_ask_the_allocator_while_it_fails(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    machine = Machine.ready(Cards(), tmp_path / "card", TORCH)
    incident = tmp_path / "incident"
    ended = subprocess.run(
        [*WRAPPER, "--stacks", "always", "--output", str(incident), "--", "python", str(script)],
        env=machine.variables({name: value for name, value in os.environ.items() if not name.startswith("OOMDOCTOR_")}),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.stdout.startswith("caught 100\n")
    assert ended.returncode == 1
    report = json.loads((incident / "report.json").read_text())
    assert report["diagnoses"][0]["cause"] == "retained-tensors"
    assert "list 'batches' global in script.py" in report["diagnoses"][0]["owner"]
    (told,) = [gap for gap in report["missing"] if "caught" in gap["what"]]
    assert TORCH in told["why"]
    assert b"probe-error" not in b"".join(path.read_bytes() for path in incident.glob("probe/*.records"))
