"""GIVEN a launcher's own file WHEN training is estimated THEN its sharding, ranks and precision count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oomdoctor.errors import InputRefused
from oomdoctor.estimate.launch_config import LaunchConfig, read_launch_config

ZERO_2 = {
    "bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": "auto",
    "zero_optimization": {"stage": 2, "overlap_comm": True, "reduce_bucket_size": 2e8, "allgather_bucket_size": 2e8},
}  # fmt: skip
FSDP = """compute_environment: LOCAL_MACHINE
distributed_type: FSDP
downcast_bf16: 'no'
mixed_precision: bf16
num_machines: 2
num_processes: 16
tpu_env: []
fsdp_config:
  fsdp_sharding_strategy: {strategy}
  fsdp_offload_params: false
  fsdp_activation_checkpointing: true
"""


def of_json(folder: Path, config: dict[str, Any]) -> LaunchConfig:
    path = folder / "ds.json"
    path.write_text(json.dumps(config))
    return read_launch_config(path)


def of_yaml(folder: Path, text: str) -> LaunchConfig:
    path = folder / "accelerate.yaml"
    path.write_text(text)
    return read_launch_config(path)


def test_deepspeed_with_its_buffers(tmp_path: Path) -> None:
    found = of_json(tmp_path, ZERO_2)
    assert (found.zero, found.precision, found.batch, found.replicates) == (2, "bf16-mixed", None, False)
    assert found.buffer_bytes == 3_600_000_000
    quiet = of_json(tmp_path, {**ZERO_2, "zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 4})
    assert (quiet.buffer_bytes, quiet.batch) == (2 * 500_000_000, 4)
    third = of_json(tmp_path, {"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"},
                                                     "offload_optimizer": {"device": "nvme"}}})  # fmt: skip
    assert (third.offload_states, third.offload_parameters, third.live_parameters) == (True, True, 1_000_000_000)
    assert of_json(tmp_path, {"fp16": {"enabled": "auto"}}).precision is None


@pytest.mark.parametrize(
    ("strategy", "zero", "ranks"),
    [("FULL_SHARD", 3, 16), ("SHARD_GRAD_OP", 2, 16), ("1", 3, 16), ("HYBRID_SHARD", 3, 8), ("NO_SHARD", 0, 16)],
)
def test_accelerate_with_fsdp(tmp_path: Path, strategy: str, zero: int, ranks: int) -> None:
    found = of_yaml(tmp_path, FSDP.format(strategy=strategy))
    assert (found.zero, found.ranks, found.precision, found.checkpointing) == (zero, ranks, "bf16-mixed", True)
    assert found.replicates == (zero == 0)


def test_accelerate_with_deepspeed_with_a_file_of_its_own_and_without_either(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(ZERO_2))
    head = "distributed_type: DEEPSPEED\nnum_processes: 8\nmixed_precision: bf16\ndeepspeed_config:\n"
    assert of_yaml(tmp_path, f"{head}  deepspeed_config_file: ds.json\n") == LaunchConfig(
        zero=2, ranks=8, precision="bf16-mixed", buffer_bytes=3_600_000_000
    )
    own = of_yaml(tmp_path, f"{head}  zero_stage: 3\n  offload_optimizer_device: cpu\n  offload_param_device: none\n")
    assert (own.zero, own.offload_states, own.offload_parameters) == (3, True, False)
    many = of_yaml(tmp_path, "distributed_type: MULTI_GPU\nnum_processes: 4\nmixed_precision: 'no'\n")
    assert many == LaunchConfig(zero=0, ranks=4, precision="fp32", replicates=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n", "fsdp_sharding_strategy .* missing"),
        ("distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero3_init_flag: true\n", "zero_stage is missing"),
        ("distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: gone.json\n", "gone.json is not"),
        ("distributed_type: MEGATRON_LM\n", "megatron_lm"),
        ("distributed_type: NO\nmixed_precision: fp8\n", "mixed_precision is 'fp8'"),
        ("distributed_type: NO\nnum_processes: many\n", "num_processes is 'many'"),
        ("a: [1,\n", "accelerate.yaml"),
        ("a: &x [1]\nb: *x\n", "accelerate.yaml"),
    ],
)
def test_what_is_missing_or_not_known_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        of_yaml(tmp_path, text)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"zero_optimization": {"stage": "three"}}, "zero_optimization.stage"),
        ({"optimizer": {"type": "Lamb"}}, "'Lamb'"),
        ({"train_micro_batch_size_per_gpu": 0}, "train_micro_batch_size_per_gpu"),
    ],
)
def test_a_wrong_field_of_deepspeed_is_named(tmp_path: Path, config: dict[str, Any], words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        of_json(tmp_path, config)
