# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN forms of engines that no reader knew, or that a terminal broke into lines WHEN read THEN each is what it says."""

from __future__ import annotations

from io import BytesIO

import pytest

from oomdoctor.diagnose.pipeline import diagnose
from oomdoctor.model.events import EventKind as K
from oomdoctor.model.events import LogEvent
from oomdoctor.readers.log.engine import read_log

GIB = 1 << 30


def only(text: str, kind: K) -> LogEvent:
    (found,) = (event for event in read_log(BytesIO(text.encode()), "serve.log").events if event.kind is kind)
    return found


def first(tmp_path, text):
    log = tmp_path / "serve.log"
    log.write_text(f"{text}\n", encoding="utf-8")
    found = diagnose([log]).findings
    return (found[0].cause, found[0].confidence.value)


@pytest.mark.parametrize("gap", [" ", "\n", "\n  "])
def test_vllms_sentence_on_a_neighbour_over_lines(gap):
    text = (
        f"AssertionError: Error in memory profiling. Initial free memory 10.00 GiB,{gap}current free memory 12.50 GiB."
    )
    found = only(text, K.ENGINE_NEIGHBOUR_CHANGED)
    assert (found.fields["initial_free_bytes"], found.fields["current_free_bytes"]) == (10 * GIB, round(12.5 * GIB))


@pytest.mark.parametrize("gap", [" ", "\n"])
def test_banks_over_lines(gap):
    text = f"TT_FATAL: Not enough space to allocate 4096 B DRAM buffer{gap}across 4 banks, where each bank needs to store 1024 B, but bank size is{gap}8192 B (allocated: 8000 B, free: 192 B)"
    assert only(text, K.DEVICE_OOM).fields["total_bytes"] == 4 * 8192


@pytest.mark.parametrize(
    ("name", "purpose"), [("data", "weights"), ("kv", "kv"), ("alloc", "compute"), ("backend", "unknown")]
)
def test_buffers_of_the_first_metal_backend(name, purpose):
    text = f"ggml_metal_add_buffer: error: failed to allocate '{name:16}' buffer, size = 2048.00 MiB"
    found = only(text, K.ENGINE_BUFFER_FAILED)
    assert (found.fields["purpose"], found.fields["requested_bytes"]) == (purpose, 2 * GIB)


def test_pinned_memory_in_megabytes():
    text = "WARNING: failed to allocate 512.00 MB of pinned memory: out of memory"
    assert only(text, K.PINNED_ALLOCATION_FAILED).fields["requested_bytes"] == 512 << 20


def test_blocks_of_ggmls_allocator_are_a_table():
    text = 'GGML_ASSERT: ggml-alloc.c:230: alloc->n_free_blocks < MAX_FREE_BLOCKS && "out of free blocks"'
    assert only(text, K.SLOT_TABLE_FULL).word("engine") == "llama.cpp"


@pytest.mark.parametrize(("number", "kind"), [(7, K.SHM_EXHAUSTED), (9, K.PROCESS_KILLED)])
def test_a_process_of_tgi_that_a_signal_ended(number, kind):
    assert only(f"Error: Shard process was signaled to shutdown with signal {number}", kind).size("signal") == number


@pytest.mark.parametrize(
    "before",
    ["warmup: warmup with image size = 1472 x 1472", "encoding image slice...", "main: encoding image or slice..."],
)
def test_the_buffer_of_llamacpps_vision_encoder(tmp_path, before):
    refused = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 372.08 MiB on device 0: cudaMalloc failed: out of memory\nggml_gallocr_reserve_n_impl: failed to allocate CUDA0 buffer of size 390156544"
    assert first(tmp_path, f"{before}\n{refused}") == ("encoder-peak", "likely")


@pytest.mark.parametrize("total", ["256.00 MiB", "512.00 MiB", "1.00 GiB"])
def test_a_carve_out_is_a_small_device(tmp_path, total):
    text = f"HIP out of memory. Tried to allocate 72.00 MiB. GPU 0 has a total capacity of {total} of which 10.00 MiB is free. Of the allocated memory 150.00 MiB is allocated by PyTorch, and 80.00 MiB is reserved by PyTorch but unallocated."
    assert first(tmp_path, text) == ("device-smaller", "likely")


STATEMENT = "CUDA out of memory. Tried to allocate 768.00 MiB (GPU 0; 11.00 GiB total capacity; 6.00 GiB already allocated; 500.00 MiB free; 6.25 GiB reserved in total by PyTorch)"


@pytest.mark.parametrize(
    "record",
    [
        '{"error": "inference failed", "warnings": ["%s"]}',
        '{"message": "request 7", "level": "error", "detail": "%s"}',
        '{"error": "%s", "message": "x"}',
    ],
)
def test_the_statement_stands_under_any_key_of_a_record(record):
    assert only(record % STATEMENT, K.DEVICE_OOM).fields["requested_bytes"] == 768 << 20


def test_a_plugin_of_tensorrt_needs_scratch_space(tmp_path):
    text = "[TRT] [E] Error Code 4: Internal Error (plugin node Model/layers/3/attention requires 90000000000 bytes of scratch space, but only 25000000000 is available. Try increasing the workspace size)"
    assert first(tmp_path, text) == ("build-limits", "likely")


def test_no_slot_for_a_batch_in_the_words_of_a_binding(tmp_path):
    text = "Error: could not find a KV slot for the batch (try reducing the size of the batch or increase the context)"
    assert first(tmp_path, text)[0] == "kv-pressure"


@pytest.mark.parametrize(("half", "cause"), [("Decoder", "decoder-peak"), ("Encoder", "encoder-peak")])
def test_the_bar_of_a_tiled_vae_is_the_last(tmp_path, half, cause):
    text = f"[Tiled VAE]: Executing {half} Task Queue:  31%|###  | 100/320 [00:02<00:04]\n\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 15.00 GiB of which 2.00 GiB is free."
    assert first(tmp_path, text) == (cause, "likely")


def test_a_backtrace_of_candle_that_reads_weights(tmp_path):
    text = 'Error: DriverError(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")\n   0: candle_core::error::Error::bt\n   1: <candle_nn::var_builder::SimpleBackend as candle_nn::var_builder::Backend>::get\n   2: server::models::llama::Mlp::new'
    assert first(tmp_path, text) == ("weights-exceed-device", "likely")


@pytest.mark.parametrize("function", ["create_shared_weights", "_create_weight_func", "_create_weight"])
def test_turbomind_makes_its_weights(tmp_path, function):
    text = f'Traceback (most recent call last):\n  File "/venv/lmdeploy/turbomind/turbomind.py", line 150, in {function}\n    model_comm.create_shared_weights(device_id, rank)\nRuntimeError: [TM][ERROR] CUDA runtime error: out of memory /src/turbomind/utils/memory_utils.cu:32'
    assert first(tmp_path, text)[0] == "weights-exceed-device"


def test_a_vision_transformer_in_remote_code(tmp_path):
    text = 'Traceback (most recent call last):\n  File "/root/.cache/huggingface/modules/transformers_modules/modeling_some_vit.py", line 90, in forward\n    qkv = torch.stack([q, k, v], dim=2)\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 200.00 MiB. GPU 0 has a total capacity of 22.00 GiB of which 100.00 MiB is free.'
    assert first(tmp_path, text)[0] == "encoder-peak"


@pytest.mark.parametrize(
    "after",
    [
        "(APIServer pid=4) ERROR 02-03 10:00:01 [async_llm.py:640] AsyncLLM output_handler failed.",
        "ERROR 02-03 10:00:01 async_llm_engine.py:60] Engine background task failed",
    ],
)
def test_the_front_ends_loop_ends_only_where_it_served(tmp_path, after):
    before = "ERROR 02-03 10:00:00 [core.py:900] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 40.00 MiB. GPU 0 has a total capacity of 39.50 GiB of which 20.00 MiB is free. Including non-PyTorch memory, this process has 39.40 GiB memory in use. Of the allocated memory 38.60 GiB is allocated by PyTorch, and 210.00 MiB is reserved by PyTorch but unallocated."
    assert first(tmp_path, f"{before}\n{after}")[0] == "runtime-unprofiled"
