# ruff: noqa: E501  (log lines are as long as they are)
from __future__ import annotations

import io

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.model.events import LogEvent
from oomdoctor.readers.log.engine import read_log
from oomdoctor.readers.log.llamacpp import FAMILY

MIB = 1 << 20
REFUSED = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 2048.00 MiB on device 1: cudaMalloc failed: out of memory\n"
)


def said(text: str) -> tuple[LogEvent, ...]:
    return read_log(io.BytesIO(text.encode()), "llama.log", (FAMILY,)).events


EACH: list[tuple[str, K, int | None, dict[str, object]]] = [
    ("llama_context: n_ctx         = 16384", K.ENGINE_START, None, {"options": (("n_ctx", "16384"),)}),
    ("llama_context: n_ctx_per_seq = 4096", K.ENGINE_START, None, {"options": (("n_ctx_per_seq", "4096"),)}),
    (
        "llama_new_context_with_model: n_ubatch   = 512",
        K.ENGINE_START,
        None,
        {"options": (("n_ubatch", "512"),)},
    ),
    ("print_info: n_ctx_train      = 131072", K.ENGINE_START, None, {"options": (("n_ctx_train", "131072"),)}),
    (
        "llama_context: n_ctx_per_seq (4096) < n_ctx_train (32768) -- the full capacity of the model will not be utilized",
        K.ENGINE_START,
        None,
        {"options": (("n_ctx_per_seq", "4096"), ("n_ctx_train", "32768"))},
    ),
    ("build: 6543 (abcdef12) with cc for x86_64", K.ENGINE_START, None, {"version": "6543"}),
    (
        "llama_context: pipeline parallelism enabled (n_copies=4)",
        K.PARALLELISM,
        None,
        {"pipeline_copies": 4},
    ),
    (
        "load_tensors: offloaded 20/33 layers to GPU",
        K.ENGINE_WEIGHTS,
        None,
        {"layers_offloaded": 20, "layers_total": 33},
    ),
    (
        "load_tensors:        CUDA1 model buffer size =  4096.50 MiB",
        K.ENGINE_WEIGHTS,
        1,
        {"weights_bytes": 4096 * MIB + MIB // 2, "buffer": "CUDA1"},
    ),
    (
        "llm_load_tensors:   CPU_Mapped model buffer size =   512.00 MiB",
        K.ENGINE_WEIGHTS,
        None,
        {"host_weights_bytes": 512 * MIB, "buffer": "CPU_Mapped"},
    ),
    (
        "llama_kv_cache_init:      ROCm0 KV buffer size =   768.00 MiB",
        K.ENGINE_KV_POOL,
        0,
        {"pool_bytes": 768 * MIB, "buffer": "ROCm0"},
    ),
    (
        "llama_memory_recurrent:      Vulkan0 RS buffer size =    64.00 MiB",
        K.ENGINE_KV_POOL,
        0,
        {"pool_bytes": 64 * MIB, "buffer": "Vulkan0", "sub_pool": "recurrent"},
    ),
    (
        "sched_reserve:      CUDA0 compute buffer size =   304.00 MiB",
        K.ENGINE_MEMORY_TABLE,
        0,
        {"compute_bytes": 304 * MIB, "buffer": "CUDA0"},
    ),
    (
        "llama_context:  CUDA_Host compute buffer size =    16.00 MiB",
        K.ENGINE_MEMORY_TABLE,
        None,
        {"host_compute_bytes": 16 * MIB, "buffer": "CUDA_Host"},
    ),
    (
        "llama_new_context_with_model: KV self size  = 1024.00 MiB, K (f16):  512.00 MiB, V (q8_0):  512.00 MiB",
        K.ENGINE_KV_POOL,
        None,
        {"pool_bytes": 1024 * MIB, "k_type": "f16", "k_bytes": 512 * MIB, "v_type": "q8_0", "v_bytes": 512 * MIB},
    ),
    (
        "llama_new_context_with_model: KV self size  =  900.00 MiB, c^KV (q8_0):  900.00 MiB, kv^T: not used",
        K.ENGINE_KV_POOL,
        None,
        {"pool_bytes": 900 * MIB, "k_type": "q8_0", "k_bytes": 900 * MIB},
    ),
    (
        "llama_kv_cache: size =  512.00 MiB (  4096 cells,  32 layers,  2/1 seqs), K (f16):  256.00 MiB, V (f16):  256.00 MiB",
        K.ENGINE_KV_POOL,
        None,
        {
            "pool_bytes": 512 * MIB,
            "cells": 4096,
            "layers": 32,
            "sequences": 2,
            "k_type": "f16",
            "k_bytes": 256 * MIB,
            "v_type": "f16",
            "v_bytes": 256 * MIB,
        },
    ),
    (
        "llama_kv_cache_unified: size =  512.00 MiB (  4096 cells,  32 layers,  1 seqs), K (f16):  512.00 MiB, V (f16):    0.00 MiB",
        K.ENGINE_KV_POOL,
        None,
        {
            "pool_bytes": 512 * MIB,
            "cells": 4096,
            "layers": 32,
            "sequences": 1,
            "k_type": "f16",
            "k_bytes": 512 * MIB,
            "v_type": "f16",
            "v_bytes": 0,
        },
    ),
    (
        "llama_memory_recurrent: size =   48.00 MiB (     4 cells,  32 layers,  4 seqs 1 rs_seq), R (f32):   16.00 MiB, S (f32):   32.00 MiB",
        K.ENGINE_KV_POOL,
        None,
        {
            "sub_pool": "recurrent",
            "pool_bytes": 48 * MIB,
            "cells": 4,
            "layers": 32,
            "sequences": 4,
            "k_type": "f32",
            "k_bytes": 16 * MIB,
            "v_type": "f32",
            "v_bytes": 32 * MIB,
        },
    ),
    (
        "common_memory_breakdown_print: |   - CUDA1 (Some Card)      | 24000 = 9000 + (14000 = 12000 +    1500 +     500) +        1000 |",
        K.ENGINE_MEMORY_TABLE,
        1,
        {
            "buffer": "CUDA1",
            "total_bytes": 24000 * MIB,
            "free_bytes": 9000 * MIB,
            "used_bytes": 14000 * MIB,
            "model_bytes": 12000 * MIB,
            "context_bytes": 1500 * MIB,
            "compute_bytes": 500 * MIB,
            "unaccounted_bytes": 1000 * MIB,
        },
    ),
    (
        "llama_memory_breakdown_print: |   - Host                   |                  1300 =  1000 +     200 +     100                |",
        K.ENGINE_MEMORY_TABLE,
        None,
        {
            "buffer": "Host",
            "host_used_bytes": 1300 * MIB,
            "host_model_bytes": 1000 * MIB,
            "host_context_bytes": 200 * MIB,
            "host_compute_bytes": 100 * MIB,
        },
    ),
    # fitting
    (
        "common_params_fit_impl: projected to use 9000 MiB of device memory vs. 8000 MiB of free device memory",
        K.ENGINE_FIT,
        None,
        {"projected_bytes": 9000 * MIB, "free_bytes": 8000 * MIB},
    ),
    (
        "llama_params_fit_impl: cannot meet free memory target of 512 MiB, need to reduce device memory by 1512 MiB",
        K.ENGINE_FIT,
        None,
        {"target_bytes": 512 * MIB, "deficit_bytes": 1512 * MIB},
    ),
    (
        "common_params_fit_impl:   - CUDA0 (Some Card):  24000 total,  25000 used,  -2000 free vs. target of   1024",
        K.ENGINE_FIT,
        0,
        {
            "buffer": "CUDA0",
            "total_bytes": 24000 * MIB,
            "projected_bytes": 25000 * MIB,
            "left_bytes": -2000 * MIB,
            "target_bytes": 1024 * MIB,
        },
    ),
    (
        "common_params_fit_impl: will leave 2048 >= 1024 MiB of free device memory, no changes needed",
        K.ENGINE_FIT,
        None,
        {"outcome": "fits", "left_bytes": 2048 * MIB, "target_bytes": 1024 * MIB},
    ),
    (
        "common_params_fit_impl: context size set by user to 65536 -> no change",
        K.ENGINE_FIT,
        None,
        {"blocked_by": "n_ctx", "to_tokens": 65536},
    ),
    (
        "common_params_fit_impl: context size reduced from 65536 to 20480 -> need 900 MiB less memory in total",
        K.ENGINE_FIT,
        None,
        {"outcome": "reduced", "from_tokens": 65536, "to_tokens": 20480},
    ),
    (
        "common_fit_params: failed to fit params to free device memory: n_gpu_layers already set by user to 40, abort",
        K.ENGINE_FIT,
        None,
        {"outcome": "blocked", "blocked_by": "n_gpu_layers"},
    ),
    (
        "common_fit_params: failed to fit params to free device memory: model_params::tensor_split already set by user, abort",
        K.ENGINE_FIT,
        None,
        {"outcome": "blocked", "blocked_by": "tensor_split"},
    ),
    (
        "common_fit_params: failed to fit params to free device memory: was unable to fit model into system memory",
        K.ENGINE_FIT,
        None,
        {"outcome": "failed", "reason": "was unable to fit model into system memory"},
    ),
    ("common_fit_params: successfully fit params to free device memory", K.ENGINE_FIT, None, {"outcome": "fits"}),
    # failures on one line
    (
        "ggml_cuda_host_malloc: failed to allocate 8192.00 MiB of pinned memory: out of memory",
        K.PINNED_ALLOCATION_FAILED,
        None,
        {"recovered": True, "requested_bytes": 8192 * MIB},
    ),
    (
        "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 68719476736",
        K.HOST_ALLOCATION_FAILED,
        None,
        {"allocator": "llama.cpp", "requested_bytes": 68719476736},
    ),
    (
        "CUDA error 2 at /src/ggml-cuda.cu:321: out of memory",
        K.ENGINE_BUFFER_FAILED,
        None,
        {"purpose": "unknown", "fatal": True},
    ),
    (
        "ggml_allocr_alloc: not enough space in the buffer (needed 1000000, largest block available 250000)",
        K.WORKSPACE_TOO_SMALL,
        None,
        {"library": "ggml", "requested_bytes": 1000000, "available_bytes": 250000},
    ),
    (
        "ggml_new_object: not enough space in the context's memory pool (needed 1000000, available 250000)",
        K.WORKSPACE_TOO_SMALL,
        None,
        {"library": "ggml", "requested_bytes": 1000000, "available_bytes": 250000},
    ),
    ("ValueError: Failed to create llama_context", K.ENGINE_STEP_FAILED, None, {"step": "context"}),
]


@pytest.mark.parametrize(("text", "kind", "device", "fields"), EACH, ids=[row[0][:50] for row in EACH])
def test_each_form_gives_its_fields_and_no_more(
    text: str, kind: K, device: int | None, fields: dict[str, object]
) -> None:
    (event,) = said(text + "\n")
    assert (event.kind, event.device) == (kind, device)
    assert dict(event.fields) == {"engine": "llama.cpp", **fields}


@pytest.mark.parametrize(
    "text",
    [
        "llama_context: constructing llama_context",
        "load_tensors: offloading 20 repeating layers to GPU",
        "llama_model_loader: - kv  11:  llama.context_length u32 = 8192",
        "allocating 2048.00 MiB on device 1",
        "llama_memory_breakdown_print: | memory breakdown [MiB] | total    free     self   model   context   compute    unaccounted |",
        "current device: 0, in function ggml_cuda_op_mul_mat at /src/ggml-cuda/ggml-cuda.cu:1500",
        "clip_model_loader: tensor layers, 3 of them",
    ],
)
def test_lines_that_only_look_alike_say_nothing(text: str) -> None:
    assert said(text) == ()


@pytest.mark.parametrize(
    ("after", "purpose", "fatal"),
    [
        (
            "alloc_tensor_range: failed to allocate CUDA1 buffer of size 2147483000\n"
            "llama_model_load: error loading model: unable to allocate CUDA1 buffer\n",
            "weights",
            True,
        ),
        (
            "llama_kv_cache_init: failed to allocate buffer for kv cache\n"
            "llama_init_from_model: llama_kv_cache_init() failed for self-attention cache\n",
            "kv",
            None,
        ),
        (
            "ggml_gallocr_reserve_n_impl: failed to allocate CUDA1 buffer of size 2147483000\n"
            "graph_reserve: failed to allocate compute buffers\n"
            "llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers\n",
            "compute",
            True,
        ),
        (
            "ggml_gallocr_reserve_n: failed to allocate CUDA1 buffer of size 2147483000\n"
            "llama_kv_cache_update_impl: failed to allocate compute buffers\n",
            "runtime",
            None,
        ),
        ("something else\n", "unknown", None),
    ],
)
def test_the_next_lines_say_what_the_refused_buffer_was_for(after: str, purpose: str, fatal: bool | None) -> None:
    (event,) = said(REFUSED + after)
    assert event.kind is K.ENGINE_BUFFER_FAILED
    assert event.device == 1
    assert event.word("purpose") == purpose
    assert event.fields.get("fatal") == fatal
    exact = "of size 2147483000" in after
    assert event.size("requested_bytes") == (2147483000 if exact else 2048 * MIB)


def test_each_of_two_refusals_keeps_its_own_purpose() -> None:
    first, second = said(
        REFUSED
        + "llama_kv_cache_init: failed to allocate buffer for kv cache\n"
        + REFUSED.replace("2048.00", "100.00")
        + "graph_reserve: failed to allocate compute buffers\n"
    )
    assert (first.word("purpose"), second.word("purpose")) == ("kv", "compute")


def test_a_retried_reservation_is_not_fatal() -> None:
    refused, recovered = said(
        REFUSED
        + "ggml_gallocr_reserve_n_impl: failed to allocate CUDA1 buffer of size 2147483648\n"
        + "sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism\n"
    )
    assert (refused.word("purpose"), refused.fields["fatal"]) == ("compute", False)
    assert (recovered.kind, recovered.word("how")) == (K.RECOVERED, "retry")


def test_a_consequence_alone_still_tells_of_the_failure() -> None:
    (event,) = said("alloc_tensor_range: failed to allocate CUDA2 buffer of size 4294967296\n")
    assert (event.kind, event.device, event.size("requested_bytes")) == (K.ENGINE_BUFFER_FAILED, 2, 4294967296)
    assert event.word("purpose") == "weights"
    (event,) = said("llama_kv_cache_init: failed to allocate buffer for kv cache\n")
    assert event.word("purpose") == "kv"
    assert event.size("requested_bytes") is None


def test_growth_of_the_run_time_pool_needs_the_error_above_it() -> None:
    (event,) = said(
        "CUDA error: out of memory\n  current device: 1, in function alloc at /src/ggml-cuda/ggml-cuda.cu:450\n"
        "  cuMemCreate(&handle, reserve_size, &prop, 0)\n"
    )
    assert event.kind is K.ENGINE_BUFFER_FAILED
    assert event.device == 1
    assert (event.word("purpose"), event.word("function")) == ("runtime", "alloc")


def test_other_backends_refuse_in_their_own_words() -> None:
    (vulkan,) = said(
        "ggml_vulkan: Device memory allocation of size 1073741824 failed.\n"
        "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory\n"
        "alloc_tensor_range: failed to allocate Vulkan0 buffer of size 1073741824\n"
    )
    assert (vulkan.size("requested_bytes"), vulkan.word("purpose")) == (1073741824, "weights")
    (metal,) = said(
        "ggml_backend_metal_buffer_type_alloc_buffer: error: failed to allocate buffer, size =  2048.00 MiB\n"
    )
    assert metal.size("requested_bytes") == 2048 * MIB


def test_unaccounted_memory_below_zero_is_printed_as_unsigned() -> None:
    wrapped = (1 << 44) - 150
    (event,) = said(
        f"common_memory_breakdown_print: |   - CUDA0 (Card) | 16000 = 15000 + (1150 = 1000 +      50 +     100) + {wrapped} |"
    )
    assert event.size("unaccounted_bytes") == -150 * MIB


def test_a_decimal_comma_of_the_locale() -> None:
    (event,) = said("ggml_cuda_host_malloc: failed to allocate 2048,50 MiB of pinned memory: invalid argument\n")
    assert (event.kind, event.fields["requested_bytes"]) == (K.PINNED_ALLOCATION_FAILED, round(2048.5 * MIB))


def test_a_buffer_larger_than_a_single_one_may_be() -> None:
    (event,) = said(
        "ggml_vulkan: Requested buffer size exceeds device memory allocation limit: ErrorOutOfDeviceMemory\n"
        "ggml_gallocr_reserve_n: failed to allocate Vulkan1 buffer of size 6442450944\n"
        "graph_reserve: failed to allocate compute buffers\n"
    )
    assert event.fields["over_buffer_limit"] is True
    assert (event.device, event.fields["requested_bytes"], event.fields["purpose"]) == (1, 6144 * MIB, "compute")


def test_metadata_that_are_no_numbers_are_left_out() -> None:
    """`"²".isdigit()` is true, and so is `"--5".lstrip("-").isdigit()`."""
    for value in ("²", "--5", "-", "٣", "9" * 5000):
        lines = f"llama_model_loader: - kv   0:  llama.context_length u32 = {value}\n"
        lines += f"llama_model_loader: - kv   1:  llama.attention.head_count_kv arr[i32,1] = [{value}]\n"
        for event in said(lines):
            assert not isinstance(event.fields.get("value"), (int, tuple)), value
