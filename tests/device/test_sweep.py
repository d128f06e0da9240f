"""GIVEN a decoder on the emulated device WHEN it is swept THEN peaks are torch's own, and predictions come true."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from on_device import Device

pytestmark = [pytest.mark.device, pytest.mark.slow, pytest.mark.extended]

ROOT = Path(__file__).parents[2]
GIB, MIB = 1 << 30, 1 << 20
LAYERS, WIDTH = 8, 2048
CONTEXT_BYTES = 420 * MIB
SERVE = f"""
import sys, torch
count, context = int(sys.argv[1]), int(sys.argv[2])
layers = [torch.empty({WIDTH}, {WIDTH} * 12, dtype=torch.bfloat16, device="cuda") for _ in range({LAYERS})]
cache = [torch.empty(2, count, context, {WIDTH}, dtype=torch.bfloat16, device="cuda") for _ in layers]
with torch.no_grad():
    x = torch.empty(count, context, {WIDTH}, dtype=torch.bfloat16, device="cuda")
    for layer in layers:
        x @ layer[:, : 4 * {WIDTH}]
print(torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated())
"""
PER_TOKEN = LAYERS * 2 * WIDTH * 2 + 5 * WIDTH * 2
"""Keys and values of all layers, the input of one, and four times its width."""


def swept(device: Device, folder: Path, *options: str) -> dict:
    (folder / "serve.py").write_text(SERVE)
    words = [sys.executable, "-m", "oomdoctor", "sweep", "--folder", str(folder / "swept"), "--format", "json"]
    command = ["--", device.machine.python, "serve.py", "{count}", "{context}"]
    environment = device.environment(PYTHONPATH=str(ROOT))
    done = subprocess.run(
        [*words, *options, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_decoder_is_measured_predicted_and_stopped_where_the_card_is_full(
    device_with: Callable[..., Device], tmp_path: Path
) -> None:
    device = device_with(memory_bytes=(11 * GIB,))
    content = swept(device, tmp_path, "--vary", "count=1,2,8", "--vary", "context=4096,16384,131072")
    cells = {(cell["values"]["count"], cell["values"]["context"]): cell for cell in content["cells"]}
    assert cells[("1", "131072")]["how"] == "out-of-memory"
    assert {cells[(count, "131072")]["how"] for count in "28"} == {"larger-than-failed"}
    measured = [cell for cell in cells.values() if cell["how"] == "measured"]
    assert len(measured) >= 5
    for cell in measured:
        log = (tmp_path / "swept" / cell["runs"][0]["folder"] / "stdout.log").read_text()
        reserved, allocated = map(int, log.split())
        peak = cell["peak"]
        assert peak["exact"]
        assert peak["allocated_bytes"] == allocated
        # beside torch the context, and the handle of cuBLAS
        assert peak["bytes"] == reserved + CONTEXT_BYTES + 8 * MIB
        assert (peak["total_bytes"], peak["available_bytes"]) == (11 * GIB, 11 * GIB)
    (growth,) = content["growth"]
    both = [term["bytes"] for term in growth["terms"] if term["powers"] == {"count": 1, "context": 1}]
    assert both == [pytest.approx(PER_TOKEN, rel=0.02)]
    # what was predicted comes true
    everything = swept(device, tmp_path, "--vary", "count=1,2,8", "--vary", "context=4096,16384,131072", "--all")
    for cell in everything["cells"]:
        before = cells[(cell["values"]["count"], cell["values"]["context"])]
        if before["how"] == "predicted":
            fits = cell["how"] == "measured"
            assert before["fits"] == "unsure" or (before["fits"] in ("fits", "tight")) == fits
            if fits:
                assert abs(cell["bytes"] - before["bytes"]) <= before["error_bytes"]
