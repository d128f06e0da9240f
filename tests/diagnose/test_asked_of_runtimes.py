# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN a failure of a runtime WHEN something is missing THEN it is asked for in that runtime's words, or not at all."""

from __future__ import annotations

import pytest

from .asked import ask, sentences

TORCH = sentences("6.00 GiB", "5.11 GiB", "17.71 GiB", "7.47 MiB") + "\n"
JAX = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 20000000000 bytes.\n"
TENSORFLOW = "ResourceExhaustedError: OOM when allocating tensor with shape[64,64,412,412] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n"
LLAMA = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 8192.00 MiB on device 0: cudaMalloc failed: out of memory\n"
    "llama_model_load: error loading model: unable to allocate CUDA0 buffer\n"
)
MPS = "RuntimeError: MPS backend out of memory (MPS allocated: 1.45 GB, other allocations: 7.42 GB, max allowed: 9.07 GB). Tried to allocate 563.62 MB on private pool.\n"
NODE = "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n"


@pytest.mark.parametrize(
    ("log", "holders", "version", "table"),
    [
        (TORCH, "torch.cuda.memory._dump_snapshot", "import torch;", True),
        (JAX, "jax.profiler.save_device_memory_profile", "jax.print_environment_info()", True),
        (TENSORFLOW, "tf.config.experimental.get_memory_info", "import tensorflow", True),
        (LLAMA, None, "llama-server --version", True),
        (MPS, None, "import torch;", False),
        (NODE, None, None, False),
    ],
    ids=["torch", "jax", "tensorflow", "llama.cpp", "mps", "node"],
)
def test_in_its_own_words(log: str, holders: str | None, version: str | None, table: bool) -> None:
    asked = {gap.what: gap.how_to_get_it for gap in ask(log).missing}
    said = [how for what, how in asked.items() if "snapshot" in what or "what held" in what]
    assert [holders in how for how in said if holders] == ([True] if holders else [])
    assert bool(said) == (holders is not None)
    assert version is None or version in asked["the framework's version"]
    assert (version is None) == ("the framework's version" not in asked)
    assert ("who else was on the device" in asked) == table
