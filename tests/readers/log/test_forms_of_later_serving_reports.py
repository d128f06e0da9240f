# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN forms that engines print at serving and that no reader knew WHEN read THEN each is the statement that it makes."""

from __future__ import annotations

from io import BytesIO

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.model.events import LogEvent
from oomdoctor.readers.log.engine import read_log

GIB = 1 << 30


def events(text: str, *kinds: K) -> list[LogEvent]:
    return [event for event in read_log(BytesIO(text.encode()), "serve.log").events if event.kind in kinds]


def only(text: str, kind: K) -> LogEvent:
    (found,) = events(text, kind)
    return found


def test_lines_that_name_nobody_go_on_with_the_statement_above_them():
    text = (
        "[TP1] Scheduler failed: Traceback (most recent call last):\n"
        '  File "scheduler.py", line 9, in run\n    step()\nRuntimeError: boo'
    )
    found = only(text, K.EXCEPTION)
    assert (found.fields["exception_type"], len(found.fields["frames"])) == ("RuntimeError", 1)


def test_lines_after_another_writers_are_not_taken_for_the_first_ones():
    text = (
        "[TP1] Scheduler failed: Traceback (most recent call last):\n"
        '[TP0] ready\n  File "other.py", line 9, in run\n    step()\nRuntimeError: boo'
    )
    assert all(not event.fields.get("complete") for event in events(text, K.EXCEPTION))


@pytest.mark.parametrize(("left", "none"), [("0", True), ("23106324992", False)])
def test_what_the_plugin_for_ascend_says_is_left(left, none):
    text = f"INFO [worker_v1.py:270] Available memory: {left}, total memory: 65452113920"
    assert only(text, K.ENGINE_KV_AVAILABLE).fields["kv_bytes"] == int(left)
    assert bool(events(text, K.ENGINE_KV_NONE)) is none


def test_a_refusal_inside_the_words_of_ollamas_client():
    text = "Error: llama runner process has terminated: error:failed to allocate buffer, size = 2048.00 MiB\nggml_gallocr_reserve_n: failed to allocate Metal buffer of size 2147483648"
    found = only(text, K.ENGINE_BUFFER_FAILED)
    assert (found.fields["requested_bytes"], found.fields["purpose"]) == (2 * GIB, "compute")


@pytest.mark.parametrize(
    ("inner", "kind"),
    [
        ("ggml_backend_cpu_buffer_type_alloc_buffer: failed to al", K.HOST_ALLOCATION_FAILED),
        ("ggml_backend_cuda_buffer_type_alloc_buffer: alloc", K.ENGINE_BUFFER_FAILED),
    ],
)
def test_ollamas_summary_of_a_start_cut_before_the_size(inner, kind):
    text = f"500 Internal Server Error: llama-server reported out-of-memory during startup: {inner}"
    assert only(text, kind)


def test_a_whole_refusal_in_that_summary_is_read_once():
    text = "llama-server reported out-of-memory during startup: ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 4096\n"
    assert only(text, K.HOST_ALLOCATION_FAILED).fields["requested_bytes"] == 4096


def test_what_was_decoded_as_a_device_refused():
    text = "decoding 1 latents\nggml_vulkan: Device memory allocation of size 4096 failed."
    assert only(text, K.ENGINE_STEP_FAILED).fields["step"] == "vae_decode"
    assert events("decoding 1 latents\nlatent 1 decoded, taking 3.1s\nall well", K.ENGINE_STEP_FAILED) == []


def test_vulkans_own_word_for_it():
    text = "vulkan_buffer.cc:61: InternalError: Check failed: (__e == VK_SUCCESS) is false: Vulkan Error, code=-2: VK_ERROR_OUT_OF_DEVICE_MEMORY"
    assert only(text, K.DEVICE_OOM).fields["backend"] == "vulkan"


@pytest.mark.parametrize(
    ("around", "purpose"),
    [
        ("3  0x7f tensorrt_llm::batch_manager::RuntimeBuffers::reshape(tensorrt_llm::runtime::TllmRuntime const&) + 9", "runtime"),
        ("3  0x7f tensorrt_llm::runtime::TllmRuntime::TllmRuntime(void const*) + 9", "unknown"),
    ],
)  # fmt: skip
def test_whether_a_built_engine_was_in_a_step(around, purpose):
    text = f"[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, s): out of memory (/x/tllmBuffers.h:125)\n1  0x7f check + 1\n{around}"
    assert only(text, K.ENGINE_BUFFER_FAILED).fields["purpose"] == purpose


def test_a_load_that_falls_back_is_not_said_to_have_recovered():
    failed = "torch.OutOfMemoryError: CUDA out of memory."
    assert events(f"{failed}\nError while loading the transformer, falling back to the native one", K.RECOVERED) == []
    assert events(f"{failed}\nfalling back to smaller tiles", K.RECOVERED)


@pytest.mark.parametrize("served", [True, False])
def test_whether_a_server_had_answered_before_metal_ran_out(served):
    before = '127.0.0.1 - - "POST /v1/chat/completions HTTP/1.1" 200 -\n' if served else ""
    text = f"{before}[METAL] Command buffer execution failed: Insufficient Memory (00000008:x)"
    assert bool(only(text, K.DEVICE_OOM).fields.get("served")) is served


def test_what_ray_advises_is_of_the_node():
    text = "(raylet) Refer to the documentation on how to address the out of memory issue: https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html."
    assert only(text, K.MEMORY_LIMIT_HIT).fields["of_node"] is True


def test_a_traceback_that_a_collector_put_on_one_line():
    text = 'ERROR x File "/a/model.py", line 3, in forward return self.head(x) ^^^^^^^^^ File "/a/sampler.py", line 7, in pick return logits.softmax(-1) ^^^^ torch.OutOfMemoryError: CUDA out of memory.'
    found = only(text, K.EXCEPTION)
    assert found.fields["frames"] == (
        ("/a/model.py", 3, "forward", "return self.head(x)"),
        ("/a/sampler.py", 7, "pick", "return logits.softmax(-1)"),
    )
    assert found.fields["exception_type"] == "torch.OutOfMemoryError"


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_what_tgi_was_doing_as_its_span_says(phase):
    text = f"2023-12-18T02:36:47Z ERROR batch{{batch_size=1}}:{phase}:{phase}{{id=7 size=1}}:{phase}{{id=7 size=1}}: text_generation_client: router/client/src/lib.rs:33: Server error: CUDA out of memory. Tried to allocate 18.00 MiB."
    assert only(text, K.ENGINE_PHASE).fields["phase"] == phase


@pytest.mark.parametrize(("more", "flag"), [(" with num_gpu = 26", "num_gpu"), ("", None)])
def test_no_layout_was_found(more, flag):
    assert only(f"Error: memory layout cannot be allocated{more}", K.ENGINE_FIT).fields.get("blocked_by") == flag


@pytest.mark.parametrize(("function", "wakes"), [("resume", True), ("malloc", None)])
def test_memory_that_a_paused_engine_did_not_get_back(function, wakes):
    text = f"[torch_memory_saver.cpp] cudaError error: 2 (out of memory)  file=csrc/core.cpp func={function} line=172"
    assert only(text, K.ENGINE_BUFFER_FAILED).fields.get("wakes") == wakes


def test_turbominds_blocks_ran_out():
    assert only("[TM][ERROR] No enough blocks. Assertion fail: /x/LlamaBatch.cc:358", K.ENGINE_TOKEN_POOL_EXHAUSTED)


def test_an_actor_of_xinference_was_serving_its_model():
    text = "error: [pid=7] Model actor is out of memory, model id: some-vl-7B, error: CUDA out of memory. Tried to allocate 6.91 GiB."
    assert only(text, K.ENGINE_START).fields["options"] == (("model", "some-vl-7B"),)
    assert only(text, K.ENGINE_PHASE).fields["phase"] == "serving"


def test_a_node_of_comfyui_named_in_the_sentence_over_its_failure():
    text = "Error occurred when executing VAEDecode:\n\nAllocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated : 4.58 GiB\n"
    assert only(text, K.DEVICE_OOM).fields["node"] == "VAEDecode"


def test_a_node_of_comfyui_that_failed_without_its_name():
    assert only("!!! Exception during processing !!! Allocation on device", K.DEVICE_OOM).fields["generation"] == "bare"


def test_vllm_kept_the_input_of_the_step_that_failed():
    text = "INFO 12-19 09:33:44 model_runner_base.py:120] Writing input of failed execution to /tmp/input.pkl..."
    assert only(text, K.ENGINE_STEP_FAILED).fields["step"] == "execution"
