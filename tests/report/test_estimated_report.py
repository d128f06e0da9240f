"""GIVEN an estimate beside what was observed WHEN a report is made THEN every form shows the parts and what fits."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from estimate.files import write_config

from oomdoctor.cli.main import oomdoctor

LOG = """\
INFO 05-01 10:00:00 [api_server.py:1043] vLLM API server version 0.8.5
INFO 05-01 10:00:40 [gpu_model_runner.py:1347] Model loading took 14.9888 GiB and 9.1 seconds
INFO 05-01 10:01:00 [gpu_worker.py:297] Available KV cache memory: 2.89 GiB
INFO 05-01 10:01:00 [kv_cache_utils.py:634] GPU KV cache size: 23,648 tokens
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.58 GiB of \
which 0.50 GiB is free. Including non-PyTorch memory, this process has 23.00 GiB memory in use. Of the allocated \
memory 22.20 GiB is allocated by PyTorch, and 0.20 GiB is reserved by PyTorch but unallocated.
"""
SERVE = "vllm serve llama --max-model-len 29000 --max-num-seqs 8 --max-num-batched-tokens 29000"


def report(folder: Path, form: str) -> str:
    (folder / "a.log").write_text(LOG)
    write_config(folder / "model")
    words = ["analyze", str(folder / "a.log"), "--model", str(folder / "model"), "--command", SERVE, "--format", form]
    return CliRunner().invoke(oomdoctor, words).stdout


@pytest.mark.parametrize("form", ["html", "markdown", "terminal"])
def test_every_form_has_it(tmp_path: Path, form: str) -> None:
    text = " ".join(report(tmp_path, form).split())
    assert "Estimated for these settings, and what was found" in text
    assert "These settings ask for 28.33 GiB of KV cache (8 x 29,000 tokens)" in text
    assert "at concurrency 8 fits." in text
    assert "What differs most is context and libraries: 358.00 MiB estimated, 614.40 MiB computed." in text
    assert "14.96 GiB" in text
    assert "14.99 GiB" in text


def test_the_contract_has_it(tmp_path: Path) -> None:
    found = json.loads(report(tmp_path, "json"))
    jsonschema.validate(found, json.loads((files("oomdoctor.report") / "report.schema.json").read_text()))
    parts = {part["what"]: part for part in found["estimate"]["parts"]}
    room = parts["room for the KV cache"]
    assert abs(room["estimated_bytes"] - room["observed_bytes"]) < 0.03 * room["observed_bytes"]
    assert found["facts"]["estimate.kv_bytes"]["value"] == 8 * 29_008 * 131_072
