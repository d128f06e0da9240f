"""GIVEN the model's configuration WHEN a request failed THEN its size is explained by the model's dimensions."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from oomdoctor.cli.main import oomdoctor

LOG = (
    "Token indices sequence length is longer than the specified maximum sequence length for this model (8192 > 4096)."
    " Running this sequence through the model will result in indexing errors\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 79.15 GiB of"
    " which 6.25 GiB is free.\n"
)


def test_the_configuration_of_a_directory_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    (tmp_path / "config.json").write_text(
        json.dumps({"architectures": ["LlamaForCausalLM"], "num_attention_heads": 32})
    )
    words = ["analyze", str(tmp_path / "a.log"), "--model", str(tmp_path), "--format", "json"]
    report = json.loads(CliRunner().invoke(oomdoctor, words).stdout)
    assert "8.00 GiB asked for (agrees with 32 heads × 8192 × 8192 × 4 bytes)" in report["summary"]


def test_a_directory_without_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    ended = CliRunner().invoke(oomdoctor, ["analyze", str(tmp_path / "a.log"), "--model", str(tmp_path)])
    assert "holds no config.json" in str(ended.exception)


def test_a_configuration_that_tells_nothing_is_said_to(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    (tmp_path / "config.json").write_text('{"architectures": ["Llama')
    ended = CliRunner().invoke(oomdoctor, ["analyze", str(tmp_path / "a.log"), "--model", str(tmp_path)])
    assert ended.exit_code == 0
    assert "tells no dimension of a model" in ended.stderr
