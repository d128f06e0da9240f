# ruff: noqa: E501  (log lines are as long as they are)
"""Accelerator errors, TensorFlow and JAX, other frameworks, look-alikes, statistics."""

from __future__ import annotations

import io
from typing import Any

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.model.events import LogEvent
from oomdoctor.readers.log import (
    accelerator_errors,
    lookalikes,
    other_frameworks,
    tensorflow_jax,
    tensorrt,
    torch_statistics,
)
from oomdoctor.readers.log.engine import read_log

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
FAMILIES = (
    accelerator_errors.FAMILY,
    tensorrt.FAMILY,
    tensorflow_jax.FAMILY,
    other_frameworks.FAMILY,
    lookalikes.FAMILY,
    torch_statistics.FAMILY,
)


def said(text: str) -> tuple[LogEvent, ...]:
    return read_log(io.BytesIO(text.encode()), "a.log", FAMILIES).events


def error(library: str, code: str, masks_oom: bool = True, **more: Any) -> tuple[K, dict[str, Any]]:
    return K.ACCELERATOR_ERROR, {"library": library, "code": code, "masks_oom": masks_oom, **more}


def oom(backend: str, **more: Any) -> tuple[K, dict[str, Any]]:
    return K.DEVICE_OOM, {"backend": backend, **more}


def state(**fields: Any) -> tuple[K, dict[str, Any]]:
    return K.DEVICE_STATE, fields


OUT = "out of memory"
EACH: list[tuple[str, tuple[K, dict[str, Any]]]] = [
    ("RuntimeError: CUDA error: out of memory", error("cuda", OUT)),
    ("RuntimeError: HIP error: out of memory", error("hip", OUT)),
    ("RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", error("cuda", "busy", False)),
    ("RuntimeError: all CUDA-capable devices are busy or unavailable", error("cuda", "busy", False)),
    ("RuntimeError: CUDA driver error: device not ready", error("cuda", "device not ready", False)),
    ("after cudaLaunch in triple_chevron_launcher::launch(): out of memory", error("cuda", OUT, call="cudaLaunch")),
    (
        "[ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, stream): out of memory (x.h:112)",
        error("cuda", OUT, call="::cudaMallocAsync(ptr, n, stream)"),
    ),
    (
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        error("cublas", "CUBLAS_STATUS_ALLOC_FAILED", call="cublasCreate(handle)"),
    ),
    (
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(x)`",
        error("cublas", "CUBLAS_STATUS_EXECUTION_FAILED", False, call="cublasSgemm(x)"),
    ),
    (
        "CUDNN failure 2: CUDNN_STATUS_ALLOC_FAILED ; GPU=0 ; hostname=h ; expr=cudnnCreate(&h);",
        error("cudnn", "CUDNN_STATUS_ALLOC_FAILED", call="cudnnCreate(&h)"),
    ),
    ("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", error("cudnn", "CUDNN_STATUS_NOT_INITIALIZED")),
    (
        'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":1154, please report',
        error("nvml", "NVML_SUCCESS == r", call="../c10/cuda/CUDACachingAllocator.cpp:1154"),
    ),
    ("host:1:2 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'", error("nccl", OUT)),
    ("host:1:2 [3] NCCL WARN Failed to CUDA calloc 6291456 bytes", error("nccl", OUT, requested_bytes=6291456)),
    (
        "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        error("nccl", "unhandled cuda error"),
    ),
    (
        "run_func_( ... ) API call failed at /a/b/model_container_runner.cpp, line 145",
        error("aotinductor", "API call failed", call="/a/b/model_container_runner.cpp, line 145"),
    ),
    ("[defaultAllocator.cpp::allocateAsync::44] Error Code 1: Cuda Runtime (out of memory)", error("tensorrt", OUT)),
    (
        "Requested amount of GPU memory (22649242112 bytes) could not be allocated",
        error("tensorrt", OUT, requested_bytes=22649242112),
    ),
    ("UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY", error("xpu", "UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY")),
    (
        "RuntimeError: NRT allocation failed for size 233658313344 (OOM)",
        oom("neuron", requested_bytes=233658313344, generation="bare"),
    ),
    # TensorFlow and JAX
    (
        "ResourceExhaustedError: OOM when allocating tensor with shape[64,372,32] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
        oom("tensorflow", shape=(64, 372, 32), dtype="float", exception_type="ResourceExhaustedError"),
    ),
    (
        "OOM when allocating tensor with shape[8] and type float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu",
        (K.HOST_ALLOCATION_FAILED, {"allocator": "tensorflow-cpu", "shape": (8,), "dtype": "float"}),
    ),
    (
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.50GiB (rounded to 2684354560)requested by op x",
        oom("tensorflow", requested_bytes=2684354560),
    ),
    (
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.50GiB. The caller indicates that this is not a failure, but",
        (K.RECOVERED, {"how": "fallback", "engine": "tensorflow", "requested_bytes": round(2.5 * GIB)}),
    ),
    (
        "Allocator ran out of memory trying to allocate 1000 Bytes (rounded to 1024 Bytes)",
        oom("tensorflow", requested_bytes=1024),
    ),
    (
        "failed to allocate 17.79G (19104890880 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        (K.DEVICE_OOM_TRY, {"backend": "cuda", "requested_bytes": 19104890880}),
    ),
    ("Sum Total of in-use chunks: 1002.50MiB", state(allocated_bytes=round(1002.5 * MIB))),
    (
        "total_region_allocated_bytes_: 1073741824 memory_limit_: 2147483648 available bytes: 0",
        state(reserved_bytes=GIB, allowed_bytes=2 * GIB),
    ),
    (
        "Limit:     4096\nInUse:     2048\nMaxInUse:  3072\n",
        state(allowed_bytes=4096, allocated_bytes=2048, peak_allocated_bytes=3072),
    ),
    (
        "Failed copying input tensor from A to B. Dst tensor is not initialized.",
        error("tensorflow", "Dst tensor is not initialized"),
    ),
    (
        "failed to create cublas handle: the resource allocation failed",
        error("cublas", "the resource allocation failed"),
    ),
    (
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7406166528 bytes.",
        oom("jax", requested_bytes=7406166528),
    ),
    (
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 4096 bytes.",
        oom("jax", requested_bytes=4096, exception_type="jaxlib.xla_extension.XlaRuntimeError"),
    ),
    (
        "RESOURCE_EXHAUSTED: Failed to allocate request for 176.00MiB (184549376B) on device ordinal 0",
        oom("jax", requested_bytes=184549376),
    ),
    (
        "BufferAssignment OOM Debugging.\nBufferAssignment stats:\n   parameter allocation:  1.50GiB\n  preallocated temp allocation:  2.00GiB\n   total allocation:  3.50GiB\n",
        (
            K.ENGINE_MEMORY_TABLE,
            {
                "engine": "xla",
                "model_bytes": round(1.5 * GIB),
                "temporary_bytes": 2 * GIB,
                "total_bytes": round(3.5 * GIB),
            },
        ),
    ),
    # others
    (
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 4,096 bytes (allocated so far: 8,192 bytes, limit set to: 10,000 bytes).",
        oom("cupy", requested_bytes=4096, allocated_bytes=8192, allowed_bytes=10000),
    ),
    (
        "ResourceExhaustedError: Out of memory error on GPU 1. Cannot allocate 3.5GB memory on GPU 1, 10.5GB memory has been allocated and available memory is only 256MB.",
        oom("paddle", requested_bytes=round(3.5 * GIB), allocated_bytes=round(10.5 * GIB), free_bytes=256 * MIB),
    ),
    ("mxnet.base.MXNetError: src/storage/x.h:143: cudaMalloc retry failed: out of memory", oom("mxnet")),
    (
        "BFCArena::AllocateRawInternal Available memory of 100 is smaller than requested bytes of 200",
        oom("onnxruntime", free_bytes=100, requested_bytes=200),
    ),
    # look-alikes
    (
        "OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes",
        (K.KERNEL_RESOURCE, {"resource": "shared memory", "required_bytes": 131072, "limit_bytes": 101376}),
    ),
    (
        "out of resource: shared memoryRequired: 110592Hardware limit: 101376",
        (K.KERNEL_RESOURCE, {"resource": "shared memory", "required_bytes": 110592, "limit_bytes": 101376}),
    ),
    (
        "ptxas error   : Entry function 'k' uses too much shared data (0x20000 bytes, 0xc000 max)",
        (K.KERNEL_RESOURCE, {"resource": "shared memory", "required_bytes": 0x20000, "limit_bytes": 0xC000}),
    ),
    ("RuntimeError: CUDA error: device-side assert triggered", (K.DEVICE_ASSERT, {"code": "device-side assert"})),
    (
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        (K.DEVICE_ASSERT, {"code": "illegal memory access"}),
    ),
    (
        "Indexing.cu:1292: f: block: [1,0,0], thread: [2,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
        (K.DEVICE_ASSERT, {"assertion": "srcIndex < srcSelectDimSize", "code": "device-side assert"}),
    ),
    ("CUDA OOM while saving (trying to allocate 1EB memory)", (K.IMPOSSIBLE_SIZE, {})),
    ("trying to allocate 16 EiB", (K.IMPOSSIBLE_SIZE, {"request_impossible": True})),
    ("| WARNING: ran out of memory in worker 0, skipping batch", (K.RECOVERED, {"how": "skipped-batch"})),
    (
        "Warning: Ran out of memory when regular VAE decoding, retrying with tiled VAE decoding.",
        (K.RECOVERED, {"how": "retry"}),
    ),
    (
        "attempting to recover from OOM in forward/backward pass",
        (K.RECOVERED, {"how": "skipped-batch", "engine": "fairseq"}),
    ),
    ("Decreasing batch size to: 16.", (K.RECOVERED, {"how": "smaller-batch"})),
    # statistics
    (
        "MA 4.5 GB         Max_MA 5.0 GB         CA 5.5 GB         Max_CA 6 GB ",
        state(
            allocated_bytes=round(4.5 * GIB),
            peak_allocated_bytes=5 * GIB,
            reserved_bytes=round(5.5 * GIB),
            peak_reserved_bytes=6 * GIB,
        ),
    ),
    (
        "CPU Virtual Memory:  used = 23.5 GB, percent = 24.8%",
        (K.HOST_STATE, {"used_bytes": round(23.5 * GIB), "percent": 24.8}),
    ),
    (
        "memory (MB) | allocated: 10.0 | max allocated: 20.0 | reserved: 30.0 | max reserved: 40.0",
        state(
            allocated_bytes=10 * MIB,
            peak_allocated_bytes=20 * MIB,
            reserved_bytes=30 * MIB,
            peak_reserved_bytes=40 * MIB,
        ),
    ),
]


@pytest.mark.parametrize(("text", "expected"), EACH)
def test_each_form(text: str, expected: tuple[K, dict[str, Any]]) -> None:
    (event,) = said(f"{text}\n")
    assert (event.kind, dict(event.fields)) == expected


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("host:1:2 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'", 3),
        ("Failed to allocate request for 176.00MiB (184549376B) on device ordinal 2", 2),
        ("OOM when allocating tensor with shape[4] and type half on /job:a/device:GPU:1 by allocator GPU_1_bfc", 1),
    ],
)
def test_devices(text: str, device: int) -> None:
    assert said(text)[0].device == device


@pytest.mark.parametrize(
    "text",
    [
        "CUDNN_STATUS_SUCCESS",
        "1 EiB is a lot, 900 PiB too"[12:],
        "the process went out of memory lane",
        "Process 7 has 17179869184.00 GiB memory in use",
    ],
)
def test_what_is_none(text: str) -> None:
    assert said(text) == ()


def test_an_error_carried_over_from_the_pin_thread() -> None:
    frames = '  File "x.py", line 1, in f\n    g()\n' * 10
    (event,) = said(
        "RuntimeError: Caught RuntimeError in pin memory thread for device 0.\nOriginal Traceback (most recent call last):\n"
        f"{frames}RuntimeError: CUDA error: out of memory\n"
    )
    assert event.fields["thread"] == "pin_memory"


SUMMARY = """|===========================================================================|
|                  PyTorch CUDA memory summary, device ID 1                 |
|---------------------------------------------------------------------------|
|            CUDA OOMs: 2            |        cudaMalloc retries: 3         |
|===========================================================================|
|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
|---------------------------------------------------------------------------|
| Allocated memory      |   14356 MiB |   23806 MiB |   32225 MiB |   17868 MiB |
|       from large pool |   14000 MiB |   23000 MiB |   32000 MiB |   17000 MiB |
| Active memory         |   14400 MiB |   23900 MiB |   32225 MiB |   17868 MiB |
| GPU reserved memory   |   20000 MiB |   24000 MiB |   32225 MiB |   17868 MiB |
| Non-releasable memory |     100 MiB |     200 MiB |   32225 MiB |   17868 MiB |
|       from large pool |      90 MiB |     190 MiB |   32225 MiB |   17868 MiB |
| GPU reserved segments |      12    |       9    |      18    |      18    |
| Non-releasable allocs |       5    |       8    |      23    |      23    |
|===========================================================================|
"""


def test_memory_summary() -> None:
    event, failure = said(f"before\n{SUMMARY}after\n")
    assert (event.device, failure.device) == (1, 1)
    assert failure.kind is K.DEVICE_OOM
    assert failure.size("requested_bytes") is None
    assert dict(event.fields) == {
        "ooms": 2,
        "retries": 3,
        "allocated_bytes": 14356 * MIB,
        "peak_allocated_bytes": 23806 * MIB,
        "active_bytes": 14400 * MIB,
        "reserved_bytes": 20000 * MIB,
        "peak_reserved_bytes": 24000 * MIB,
        "non_releasable_bytes": 100 * MIB,
        "non_releasable_large_bytes": 90 * MIB,
        "segments": 12,
        "non_releasable_blocks": 5,
        "peak_non_releasable_blocks": 8,
    }


def test_counters_tell_of_a_failure_only_where_nothing_else_does() -> None:
    calm = SUMMARY.replace("CUDA OOMs: 2", "CUDA OOMs: 0")
    assert [event.kind for event in said(calm)] == [K.DEVICE_STATE]
    printed = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 1; 24.00 GiB total capacity)\n"
    assert [event.kind for event in said(f"{SUMMARY}{printed}")] == [K.DEVICE_STATE, K.DEVICE_OOM]


def test_a_piece_of_a_memory_summary() -> None:
    (event,) = said("\n".join(SUMMARY.splitlines()[10:12]))
    assert dict(event.fields) == {
        "reserved_bytes": 20000 * MIB,
        "peak_reserved_bytes": 24000 * MIB,
        "non_releasable_bytes": 100 * MIB,
    }


def test_paddle_s_older_sentence_and_a_wrapped_one() -> None:
    (event,) = said(
        "Out of memory error on GPU 2. Cannot allocate 1.250000GB memory on GPU 2, available memory is only \n"
        "                   12.500000MB.\n"
    )
    assert event.kind is K.DEVICE_OOM
    assert event.device == 2
    assert event.size("requested_bytes") == round(1.25 * GIB)
    assert event.size("free_bytes") == round(12.5 * MIB)
    assert event.size("allocated_bytes") is None


def test_a_compiled_program_larger_than_the_chip() -> None:
    text = """RuntimeError: Ran out of memory in memory space hbm. Used 9.50G of 8.00G hbm. Exceeded hbm capacity by 1.50G.

Total hbm usage >= 10.00G:
    arguments         1.00G
Program hbm requirement 8.50G:
    HLO temp          8.25G (99.0% utilization)
"""
    failure, table = said(text)
    assert (failure.kind, failure.word("backend")) == (K.DEVICE_OOM, "jax")
    assert (failure.size("requested_bytes"), failure.size("total_bytes")) == (round(9.5 * GIB), 8 * GIB)
    assert (table.size("model_bytes"), table.size("temporary_bytes")) == (GIB, round(8.25 * GIB))


def test_a_program_that_finds_no_room_on_the_chip() -> None:
    (event,) = said(
        "Attempting to reserve 2.50G at the bottom of memory. That was not possible. There are 1.25G free, 0B reserved.;\n"
        "HBM capacity 16.00G:\n          Currently allocated:   14.00G (  15,032,385,536 bytes)\n"
    )
    assert (event.size("requested_bytes"), event.size("free_bytes")) == (round(2.5 * GIB), round(1.25 * GIB))
    assert (event.size("total_bytes"), event.size("allocated_bytes")) == (16 * GIB, 14 * GIB)


def test_a_node_of_the_graph_and_amd_s_first_block() -> None:
    (event,) = said(
        "OOM when allocating tensor with shape[5000,300] and type float on /job:a/device:GPU:0 by allocator GPU_0_bfc\n"
        "\t [[Node: training/Adam/mul_7 = Mul[T=DT_FLOAT]]]\n"
    )
    assert event.word("node") == "training/Adam/mul_7"
    (event,) = said("rocm_driver.cc:601] failed to allocate 3.50G (3758096384 bytes) from device: hipError_t(1002)\n")
    assert (event.kind, event.word("backend")) == (K.DEVICE_OOM_TRY, "hip")


def test_a_batch_is_skipped_only_for_want_of_memory() -> None:
    ran_out = "| WARNING: ran out of memory with exception: no room left (out of memory);"
    assert [e.word("how") for e in said(f"{ran_out}\n Skipping batch\nstep 9\n")] == ["skipped-batch"]
    assert said("loss is NaN\n Skipping batch\n") == ()
