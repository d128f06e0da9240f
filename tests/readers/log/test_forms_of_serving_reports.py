# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN words of engines and libraries at serving that no reader knew WHEN read THEN each is the statement that it makes."""

from __future__ import annotations

from io import BytesIO

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.model.events import LogEvent
from oomdoctor.readers.log.engine import read_log

MIB, GIB = 1 << 20, 1 << 30


def events(text: str, *kinds: K) -> list[LogEvent]:
    return [event for event in read_log(BytesIO(text.encode()), "serve.log").events if event.kind in kinds]


def only(text: str, kind: K) -> LogEvent:
    (found,) = events(text, kind)
    return found


def test_a_tactic_that_tensorrt_passes_over():
    text = "[TRT] [W] Skipping tactic 3 due to insufficient memory on requested size of 8589934592 detected for tactic 0x7a."
    found = only(text, K.ACCELERATOR_ERROR)
    assert (found.fields["code"], found.fields["requested_bytes"]) == ("memory for a tactic", 8 * GIB)


@pytest.mark.parametrize(
    ("before", "read"),
    [
        ("[W] [TRT] GPU memory allocation error during getBestTactic: dec_conv", True),
        (
            "[E] 2: [virtualMemoryBuffer.cpp::resizePhysical::120] Error Code 2: OutOfMemory (no further information)",
            True,
        ),
        ("[E] [TRT] net.1: kernel weights has count 9 but 12 was expected", False),
    ],
)
def test_a_layer_is_given_up_for_memory_only_where_memory_was_short(before, read):
    text = f"{before}\n[E] Internal error: could not find any implementation for node dec_conv, try increasing the workspace size"
    codes = [event.fields["code"] for event in events(text, K.ACCELERATOR_ERROR)]
    assert ("memory for any tactic" in codes) is read


@pytest.mark.parametrize(
    "line",
    [
        "[E] [TRT] ../rtSafe/safeRuntime.cpp (25) - Cuda Error in allocate: 2 (out of memory)",
        "[E] [TRT] a.cpp (9) - OutOfMemory Error in nvinfer1::builder::`anonymous-namespace'::Node::computeCosts: 0",
    ],
)
def test_older_words_of_tensorrt(line):
    assert "memory" in only(line, K.ACCELERATOR_ERROR).fields["code"]


def test_nccls_last_error_behind_an_engines_header():
    text = "(VllmWorker rank=1 pid=9) ERROR 06-19 07:00:00 [multiproc_executor.py:500] Cuda failure 2 'out of memory'"
    assert only(text, K.ACCELERATOR_ERROR).fields["library"] == "nccl"


def test_a_region_that_was_planned_at_compile_time():
    text = "InternalError: Check failed: (offset + needed_size <= this->buffer.size) is false: storage allocation failure, attempted to allocate 20971520 at offset 0 in region that is 16777216bytes"
    found = only(text, K.WORKSPACE_TOO_SMALL)
    assert (found.fields["requested_bytes"], found.fields["available_bytes"]) == (20971520, 16777216)


def test_the_guard_of_a_loader_and_its_estimate():
    said = "Model loading was stopped due to insufficient system resources. Under the current settings, this model requires approximately"
    found = only(f"{said} 48.50 GB of memory, and continuing", K.ENGINE_HOST_SHORT)
    assert found.fields["needed_bytes"] == round(48.5 * GIB)
    assert only(f"{said} NaN undefined of memory, and", K.ENGINE_FIT).fields["reason"] == "no estimate"
    bare = only("Error: Model loading aborted due to insufficient system resources. Overloading", K.ENGINE_HOST_SHORT)
    assert "needed_bytes" not in bare.fields


def test_a_pool_that_triton_set_aside():
    text = "W0410 13:51:44 1 memory.cc:212] Failed to allocate CUDA memory with byte size 67108865 on GPU 0: CNMEM_STATUS_OUT_OF_MEMORY, falling back to pinned system memory"
    found = only(text, K.SERVER_POOL_FULL)
    assert (found.fields["pool"], found.fields["requested_bytes"], found.device) == ("device", 67108865, 0)
    assert found.fields["recovered"] is True
    assert events(text, K.WORKSPACE_TOO_SMALL) == []


def test_the_pools_that_triton_made_at_its_start():
    text = (
        "I1029 09:18:18.5 22 pinned_memory_manager.cc:240] Pinned memory pool is created at '0x7f8112000000' with size 268435456\n"
        "I1029 09:18:18.6 22 cuda_memory_manager.cc:105] CUDA memory pool is created on device 1 with size 67108864\n"
    )
    pinned, device = events(text, K.SERVER_POOL)
    assert (pinned.fields["pool"], pinned.fields["pool_bytes"], pinned.device) == ("pinned", 256 * MIB, None)
    assert (device.fields["pool"], device.fields["pool_bytes"], device.device) == ("device", 64 * MIB, 1)
    refused = only(
        "failed to allocate pinned system memory, falling back to non-pinned system memory", K.SERVER_POOL_FULL
    )
    assert (refused.fields["pool"], refused.fields["recovered"]) == ("pinned", True)


def test_cells_that_a_batch_did_not_find():
    text = "decode: failed to find KV cache slot for ubatch of size 300\nllama_decode: failed to decode, ret = 1\n"
    assert only(text, K.ENGINE_LOAD).fields["kv_usage"] == 1.0
    assert only(text, K.ENGINE_TOKEN_POOL_EXHAUSTED)
    assert events("llama_decode: failed to decode, ret = -1\n", K.ENGINE_TOKEN_POOL_EXHAUSTED) == []


def test_tokens_that_a_prompt_did_not_find():
    text = "Stream generation failed: Remaining 2048 kvcache tokens, but your prompt requires 9000 new tokens, please request later!"
    found = only(text, K.ENGINE_TOKEN_POOL_EXHAUSTED)
    assert (found.fields["available_tokens"], found.fields["needed_tokens"]) == (2048, 9000)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (
            "Device was lost during reload. This can happen due to insufficient memory or other GPU constraints.",
            "device lost",
        ),
        ("7vkAllocateMemory failed with VK_ERROR_OUT_OF_DEVICE_MEMORY", "out of memory"),
    ],
)
def test_a_browser_without_memory(line, code):
    found = only(line, K.ACCELERATOR_ERROR)
    assert (found.fields["library"], found.fields["code"]) == ("webgpu", code)


VULKAN = "ggml_vulkan: Device memory allocation of size 1073741824 failed.\nggml_vulkan: Requested buffer size exceeds device memory allocation limit: ErrorOutOfDeviceMemory\n"


@pytest.mark.parametrize(
    ("made", "purpose"),
    [
        ("load_tensors: offloaded 10/33 layers to GPU", "kv"),
        (
            "llama_new_context_with_model: KV self size  = 1024.00 MiB, K (f16): 512.00 MiB, V (f16): 512.00 MiB",
            "compute",
        ),
        ("llama_context: Vulkan_Host  output buffer size =     0.49 MiB", "compute"),
        ("nothing known", "unknown"),
    ],
)
def test_a_refusal_that_does_not_say_what_for_is_of_what_comes_next(made, purpose):
    assert only(f"{made}\n{VULKAN}", K.ENGINE_BUFFER_FAILED).fields["purpose"] == purpose


def test_page_locked_memory_is_no_buffer_of_the_device():
    text = "ggml_vulkan: Failed to allocate pinned memory.\nggml_vulkan: Requested buffer size exceeds device memory allocation limit: ErrorOutOfDeviceMemory\n"
    assert events(text, K.ENGINE_BUFFER_FAILED) == []
    assert only(text, K.PINNED_ALLOCATION_FAILED)


def test_metals_words_in_the_systems_log():
    text = "Execution of the command buffer was aborted due to an error during execution. Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"
    assert only(text, K.DEVICE_OOM).fields["backend"] == "metal"


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA failed with error out of memory",
        'Error: DriverError(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")',
    ],
)
def test_libraries_whose_message_has_no_figure(line):
    assert only(line, K.DEVICE_OOM)


@pytest.mark.parametrize(
    ("line", "purpose"),
    [
        ("Error: llama runner process has terminated: cudaMalloc failed: out of memory", "unknown"),
        ("Error: llama runner process has terminated: exit status 2 error:unable to allocate ROCm1 buffer", "weights"),
        ("RuntimeError: Insufficient VRAM for model and cache", "weights"),
        ("[ERROR] ggml_extend.hpp:99 - clip alloc params backend buffer failed, num_tensors = 12", "weights"),
        ("[ERROR] ggml_extend.hpp:77 - flux: failed to allocate the compute buffer", "compute"),
    ],
)
def test_buffers_that_are_refused_in_a_front_ends_words(line, purpose):
    assert only(line, K.ENGINE_BUFFER_FAILED).fields["purpose"] == purpose


def test_what_a_front_end_only_guesses_is_a_guess():
    text = "model runner has unexpectedly stopped, this may be due to resource limitations or an internal error"
    assert only(text, K.PROCESS_KILLED).fields["guess_only"] is True


def test_a_decoder_of_images_without_scratch():
    text = "[ERROR] ggml_backend_cuda_buffer_type_alloc_buffer: allocating 5000.00 MiB on device 0: cudaMalloc failed: out of memory\n[ERROR] vae: failed to allocate the compute buffer\n"
    assert only(text, K.ENGINE_BUFFER_FAILED).fields["purpose"] == "compute"
    assert only(text, K.ENGINE_STEP_FAILED).fields["step"] == "vae_decode"


def test_nothing_left_to_run_with():
    assert only("RuntimeError: No enough gpu memory for runtime.", K.ENGINE_KV_NONE).fields["engine"] == "lmdeploy"
