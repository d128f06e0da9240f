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
