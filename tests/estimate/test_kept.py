"""GIVEN a model that a run named WHEN its bundle is read later THEN the figures are those of the model's own files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from estimate.files import write_config, write_gguf, write_llama_8b_gguf, write_safetensors

from oomdoctor.errors import InputRefused
from oomdoctor.estimate.kept import kept_launch_config, kept_model, launch_config_to_keep, model_to_keep
from oomdoctor.estimate.launch_config import read_launch_config
from oomdoctor.estimate.model_input import Model, read_model


def again(path: Path) -> Model:
    """As it comes back from a record."""
    return kept_model(json.loads(json.dumps(model_to_keep(path))))


def test_a_model_is_the_same_again(tmp_path: Path) -> None:
    write_config(tmp_path)
    assert again(tmp_path) == read_model(tmp_path)
    write_safetensors(tmp_path / "model.safetensors", a=("BF16", [1000]), b=("U8", [7]))
    for path in (tmp_path, tmp_path / "model.safetensors"):
        assert again(path) == read_model(path)


def test_names_and_addresses_are_not_kept(tmp_path: Path) -> None:
    kept = model_to_keep(write_config(tmp_path, _name_or_path="https://bob:hunter2@host/x"))
    assert "hunter2" not in json.dumps(kept)


def test_a_gguf_file_is_kept_by_its_dimensions(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    metadata: dict[str, object] = {
        "general.architecture": "llama", "llama.block_count": 2, "llama.attention.head_count": 8,
        "llama.attention.head_count_kv": 2, "llama.embedding_length": 64, "llama.feed_forward_length": 128,
        "tokenizer.ggml.tokens": ["a", "b", "c"], "tokenizer.chat_template": "x" * 9000,
    }  # fmt: skip
    write_gguf(path, metadata, {"a": (0, [32, 4], 512)})
    kept = model_to_keep(path)
    assert "tokenizer.chat_template" not in json.dumps(kept)
    found, model = again(path), read_model(path)
    assert found == replace(model, path=found.path)
    assert found.architecture.vocabulary == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"config": None}, {"config": [1]}, {"weights_bytes": "many"}, {"weights_bytes": -1}, {"parameters": True},
        {"gguf": 3}, {"gguf": {"metadata": 1, "lengths": 2}}, {"gguf": {"metadata": {}, "lengths": {}}},
    ],
)  # fmt: skip
def test_what_was_damaged_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    kept = model_to_keep(write_config(tmp_path))
    with pytest.raises(InputRefused):
        kept_model({**kept, **changes})


def test_damage_that_leaves_a_model_is_read_without_it(tmp_path: Path) -> None:
    kept = model_to_keep(write_config(tmp_path))
    for changes in ({"floats": "x"}, {"floats": [1]}, {"floats": [1, "y"]}, {"quantization": 3}):
        assert kept_model({**kept, **changes}).weights_bytes == 2 * 8_030_261_248


def test_what_is_not_understood_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="no config"):
        model_to_keep(tmp_path)
    with pytest.raises(InputRefused, match="too large to keep"):
        model_to_keep(write_config(tmp_path, notes="x" * 3_000_000))


def test_where_the_tensors_of_a_gguf_file_lie_is_kept(tmp_path: Path) -> None:
    write_llama_8b_gguf(tmp_path / "m.gguf")
    kept = json.loads(json.dumps(model_to_keep(tmp_path / "m.gguf")))
    assert kept_model(kept).places == read_model(tmp_path / "m.gguf").places
    for damaged in (None, {}, {**kept["places"], "blocks": [1]}, {**kept["places"], "input_bytes": -1}):
        assert kept_model({**kept, "places": damaged}).places is None


DEEPSPEED = """{"bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}},
"wandb": {"api_key": "hunter2"}}"""
ACCELERATE = """distributed_type: FSDP
num_processes: 8
fsdp_config:
  fsdp_sharding_strategy: FULL_SHARD
  fsdp_activation_checkpointing: true
"""


@pytest.mark.parametrize(("name", "text"), [("ds.json", DEEPSPEED), ("acc.yaml", ACCELERATE)])
def test_a_launchers_file_is_the_same_again_and_only_its_settings_are_kept(
    tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    stored = json.dumps(launch_config_to_keep(path))
    assert kept_launch_config(json.loads(stored)) == read_launch_config(path)
    assert "hunter2" not in stored


@pytest.mark.parametrize(
    "changes",
    [{"zero": "2"}, {"zero": -1}, {"zero": True}, {"offload_states": 1}, {"offload_states": None}, {"precision": 3},
     {"checkpointing": 1}, {"buffer_bytes": None}, {"nothing": None}],
)  # fmt: skip
def test_a_launchers_file_that_was_damaged_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "ds.json"
    path.write_text(DEEPSPEED)
    kept: Any = launch_config_to_keep(path)
    with pytest.raises(InputRefused, match="damaged"):
        kept_launch_config({**kept, "settings": {**kept["settings"], **changes}})
    path.write_text("[")
    with pytest.raises(InputRefused, match="ds"):
        kept_launch_config(launch_config_to_keep(path))
