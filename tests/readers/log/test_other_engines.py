# ruff: noqa: E501  (log lines are as long as they are)
from __future__ import annotations

import io
import time

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.model.events import LogEvent
from oomdoctor.readers.log import llamacpp, ollama, other_engines, sglang, tgi, vllm
from oomdoctor.readers.log.engine import read_log

FAMILIES = (ollama.FAMILY, tgi.FAMILY, *other_engines.FAMILIES)
ALL = (vllm.FAMILY, sglang.FAMILY, llamacpp.FAMILY, *FAMILIES)
MIB, GIB = 1 << 20, 1 << 30


def said(text: str) -> tuple[LogEvent, ...]:
    return read_log(io.BytesIO(text.encode()), "serve.log", FAMILIES).events


def gib(size: float) -> int:
    return round(size * GIB)


GO = "time=2025-05-05T05:05:05.000Z level=INFO source=x.go:1 "

EACH: list[tuple[str, str, K, dict[str, object]]] = [
    # Ollama
    (
        "ollama",
        'Error: model requires more system memory (48.5 GiB) than is available (12.25 GiB)"',
        K.ENGINE_HOST_SHORT,
        {"what": "system memory", "fatal": True, "needed_bytes": gib(48.5), "available_bytes": gib(12.25)},
    ),
    (
        "ollama",
        GO + 'msg="model weights" device=CUDA1 size="6.5 GiB"',
        K.ENGINE_WEIGHTS,
        {"weights_bytes": gib(6.5), "buffer": "CUDA1"},
    ),
    (
        "ollama",
        GO + 'msg="model weights" device=CPU size="512.0 MiB"',
        K.ENGINE_WEIGHTS,
        {"host_weights_bytes": 512 * MIB, "buffer": "CPU"},
    ),
    (
        "ollama",
        GO + 'msg="kv cache" device=CUDA0 size="1.5 GiB"',
        K.ENGINE_KV_POOL,
        {"pool_bytes": gib(1.5), "buffer": "CUDA0"},
    ),
    (
        "ollama",
        GO + 'msg="compute graph" device=CUDA0 size="256.0 MiB"',
        K.ENGINE_MEMORY_TABLE,
        {"compute_bytes": 256 * MIB, "buffer": "CUDA0"},
    ),
    ("ollama", GO + 'msg="total memory" size="9.0 GiB"', K.ENGINE_MEMORY_TABLE, {"used_bytes": 9 * GIB}),
    (
        "ollama",
        GO + 'msg="system memory" total="62.5 GiB" free="40.0 GiB" free_swap="0 B"',
        K.HOST_STATE,
        {"total_bytes": gib(62.5), "available_bytes": 40 * GIB, "swap_free_bytes": 0},
    ),
    (
        "ollama",
        GO
        + 'msg="gpu memory" id=GPU-1 library=CUDA available="22.0 GiB" free="22.5 GiB" minimum="512.0 MiB" overhead="0 B"',
        K.ENGINE_MEMORY_TABLE,
        {
            "available_bytes": 22 * GIB,
            "free_bytes": gib(22.5),
            "minimum_bytes": 512 * MIB,
            "overhead_bytes": 0,
        },
    ),
    (
        "ollama",
        GO
        + 'msg="gpu VRAM usage didn\'t recover within timeout" seconds=5.25 runner.size="20.0 GiB" runner.vram="18.5 GiB"',
        K.ENGINE_NOT_RELEASED,
        {"runner_bytes": 20 * GIB, "device_bytes": gib(18.5), "seconds": 5.25},
    ),
    (
        "ollama",
        GO + 'msg="vram-based default context" total_vram="23.5 GiB" default_num_ctx=4096',
        K.ENGINE_START,
        {"total_bytes": gib(23.5), "options": (("default_num_ctx", "4096"),)},
    ),
    (
        "ollama",
        GO
        + 'msg="server config" env="map[CUDA_VISIBLE_DEVICES:0 HTTPS_PROXY: OLLAMA_NUM_PARALLEL:4 OLLAMA_KEEP_ALIVE:5m0s]"',
        K.ENGINE_START,
        {
            "options": (
                ("CUDA_VISIBLE_DEVICES", "0"),
                ("OLLAMA_NUM_PARALLEL", "4"),
                ("OLLAMA_KEEP_ALIVE", "5m0s"),
            )
        },
    ),
    (
        "ollama",
        GO
        + 'msg="starting llama server" cmd="/usr/bin/ollama runner --model /m/blob --ctx-size 8192 --n-gpu-layers 20 --no-mmap"',
        K.ENGINE_START,
        {"options": (("model", "/m/blob"), ("ctx-size", "8192"), ("n-gpu-layers", "20"), ("no-mmap", None))},
    ),
    ("ollama", GO + 'msg="Listening on 127.0.0.1:11434 (version 0.5.1)"', K.ENGINE_START, {"version": "0.5.1"}),
    ("ollama", "insufficient memory - required allocations: {}", K.ENGINE_FIT, {"outcome": "failed"}),
    (
        "ollama",
        GO + 'msg="gpu has too little memory to allocate any layers" id=0',
        K.ENGINE_FIT,
        {"outcome": "host-only"},
    ),
    (
        "ollama",
        GO + 'msg="evicting all other loaded models for OOM retry"',
        K.RECOVERED,
        {"how": "retry"},
    ),
    # TGI
    (
        "tgi",
        "Server error: Not enough memory to handle 8000 total tokens with 2048 prefill tokens. You need to decrease",
        K.ENGINE_WARMUP_FAILED,
        {"what": "prefill", "total_tokens": 8000, "tokens": 2048},
    ),
    (
        "tgi",
        'Error: Warmup(Generation("Not enough memory to handle 4096 prefill tokens. You need to decrease"))',
        K.ENGINE_WARMUP_FAILED,
        {"what": "prefill", "tokens": 4096},
    ),
    ("tgi", "Setting max batch total tokens to 20480", K.ENGINE_KV_POOL, {"pool_tokens": 20480}),
    ("tgi", "KV-cache blocks: 900, size: 16", K.ENGINE_KV_POOL, {"gpu_blocks": 900, "block_tokens": 16}),
    (
        "tgi",
        "Default `max_batch_prefill_tokens` to 4145",
        K.ENGINE_START,
        {"options": (("max_batch_prefill_tokens", "4145"),)},
    ),
    (
        "tgi",
        "ERROR warmup{max_input_length=512 max_prefill_tokens=2048 max_total_tokens=Some(1024)}:warmup: x",
        K.ENGINE_START,
        {
            "options": (
                ("max_input_length", "512"),
                ("max_prefill_tokens", "2048"),
                ("max_total_tokens", "1024"),
            )
        },
    ),
    ("tgi", "Warming up model", K.ENGINE_PHASE, {"phase": "warm-up", "edge": "begin"}),
    # TensorRT-LLM
    ("tensorrt-llm", "[TensorRT-LLM] TensorRT-LLM version: 0.11.0", K.ENGINE_START, {"version": "0.11.0"}),
    ("tensorrt-llm", "[TRT] Loaded engine size: 700 MiB", K.ENGINE_WEIGHTS, {"weights_bytes": 700 * MIB}),
    (
        "tensorrt-llm",
        "[MemUsageChange] TensorRT-managed allocation in IExecutionContext creation: CPU +0, GPU +12, now: CPU 0, GPU 900 (MiB)",
        K.ENGINE_MEMORY_TABLE,
        {"what": "IExecutionContext", "grown_bytes": 12 * MIB, "used_bytes": 900 * MIB},
    ),
    (
        "tensorrt-llm",
        "[MemUsageChange] Allocated 512.50 MiB for execution context memory.",
        K.ENGINE_MEMORY_TABLE,
        {"compute_bytes": 512 * MIB + MIB // 2},
    ),
    (
        "tensorrt-llm",
        "[MemUsageChange] Allocated 1.50 GB GPU memory for runtime buffers.",
        K.ENGINE_MEMORY_TABLE,
        {"runtime_bytes": gib(1.5)},
    ),
    (
        "tensorrt-llm",
        "[MemUsageChange] Allocated 750.00 KB GPU memory for decoder.",
        K.ENGINE_MEMORY_TABLE,
        {"decoder_bytes": 768000},
    ),
    (
        "tensorrt-llm",
        "Memory usage when calculating max tokens in paged kv cache: total: 40.00 GiB, available: 10.50 GiB",
        K.ENGINE_PROFILE,
        {"total_bytes": 40 * GIB, "free_after_bytes": gib(10.5)},
    ),
    ("tensorrt-llm", "Allocate 1073741824 bytes for k/v cache. ", K.ENGINE_KV_POOL, {"pool_bytes": GIB}),
    ("tensorrt-llm", "Using 8192 tokens in paged KV cache.", K.ENGINE_KV_POOL, {"pool_tokens": 8192}),
    (
        "tensorrt-llm",
        "[MemUsageChange] Allocated 9.00 GiB for max tokens in paged KV cache (73728).",
        K.ENGINE_KV_POOL,
        {"pool_bytes": 9 * GIB, "pool_tokens": 73728},
    ),
    ("tensorrt-llm", "Number of blocks in KV cache primary pool: 1152", K.ENGINE_KV_POOL, {"gpu_blocks": 1152}),
    ("tensorrt-llm", "Number of tokens per block: 64.", K.ENGINE_KV_POOL, {"block_tokens": 64}),
    (
        "tensorrt-llm",
        "[ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory (/src/buffers.h:99)",
        K.ENGINE_BUFFER_FAILED,
        {"purpose": "unknown", "fatal": True, "call": "cudaMallocAsync", "site": "/src/buffers.h"},
    ),
    # LMDeploy, MLC, MLX, DeepSpeed
    (
        "lmdeploy",
        "  what():  [TM][ERROR] CUDA runtime error: out of memory /src/utils/allocator.h:200 ",
        K.ENGINE_BUFFER_FAILED,
        {"purpose": "unknown", "fatal": True, "site": "/src/utils/allocator.h"},
    ),
    (
        "lmdeploy",
        "[TM][ERROR] No enough cache entries. Assertion fail: /src/Manager.cc:60",
        K.SLOT_TABLE_FULL,
        {},
    ),
    (
        "lmdeploy",
        "loading from workspace, ignore args ['cache_max_entry_count', 'tp'] please use TurbomindEngineConfig",
        K.ENGINE_START,
        {"ignored_options": ("cache_max_entry_count", "tp")},
    ),
    (
        "mlc",
        "Estimated total single GPU memory usage: 5000.000 MB (Parameters: 4000.000 MB. KVCache: 900.000 MB. Temporary buffer: 100.000 MB). The",
        K.ENGINE_MEMORY_TABLE,
        {
            "used_bytes": 5000 * MIB,
            "model_bytes": 4000 * MIB,
            "context_bytes": 900 * MIB,
            "temporary_bytes": 100 * MIB,
        },
    ),
    (
        "mlx",
        "[metal::malloc] Attempting to allocate 9000000000 bytes which is greater than the maximum allowed buffer size of 8000000000 bytes.",
        K.DEVICE_OOM,
        {"backend": "metal", "requested_bytes": 9000000000, "buffer_limit_bytes": 8000000000},
    ),
    ("mlx", "[metal::malloc] Resource limit (499000) exceeded.", K.SLOT_TABLE_FULL, {"limit": 499000}),
    (
        "mlx",
        "libc++abi: [METAL] Command buffer execution failed: Insufficient Memory (00000008:kIOGPU)",
        K.DEVICE_OOM,
        {"backend": "metal"},
    ),
    ("deepspeed", "RuntimeError: Workspace is null.", K.ENGINE_BUFFER_FAILED, {"purpose": "workspace", "fatal": True}),
    # transformers, ComfyUI
    (
        "transformers",
        "Some parameters are on the meta device because they were offloaded to the cpu and disk.",
        K.ENGINE_WEIGHTS,
        {"offloaded_to": ("cpu", "disk")},
    ),
    (
        "transformers",
        "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM",
        K.ENGINE_FIT,
        {"outcome": "failed"},
    ),
    (
        "transformers",
        "Token indices sequence length is longer than the specified maximum sequence length for this model (9000 > 1024).",
        K.INPUT_LENGTH,
        {"tokens": 9000, "limit_tokens": 1024},
    ),
    (
        "comfyui",
        "loaded partially; 6000.00 MB usable, 5000.50 MB loaded, 9000.00 MB offloaded, lowvram patches: 0",
        K.ENGINE_WEIGHTS,
        {"weights_bytes": 5000 * MIB + MIB // 2, "host_weights_bytes": 9000 * MIB},
    ),
    ("comfyui", "Got an OOM, unloading all loaded models.", K.ENGINE_BUFFER_FAILED, {"purpose": "unknown"}),
    (
        "comfyui",
        "Warning: Ran out of memory when regular VAE decoding, retrying with tiled VAE decoding.",
        K.RECOVERED,
        {"how": "fallback", "step": "decoding"},
    ),
    (
        "comfyui",
        "Total VRAM 12000 MB, total RAM 32000 MB",
        K.HOST_STATE,
        {"device_total_bytes": 12000 * MIB, "total_bytes": 32000 * MIB},
    ),
]


@pytest.mark.parametrize(("engine", "text", "kind", "fields"), EACH, ids=[f"{row[0]} {row[1][:40]}" for row in EACH])
def test_each_form_gives_its_fields_and_no_more(engine: str, text: str, kind: K, fields: dict[str, object]) -> None:
    (event,) = said(text + "\n")
    assert (event.kind, dict(event.fields)) == (kind, {"engine": engine, **fields})


@pytest.mark.parametrize(
    "text",
    [
        "Not enough memory. Please try to increase --mem-fraction-static.",
        "Args {",
        'msg="kv cache" device=CUDA0',
        "Workspace is ready",
        "CUDA runtime error in cuLaunch: invalid argument",
        "[TM][ERROR] CUDA runtime error: invalid argument /src/a.h:1",
        "Default `truncate` to false",
        "ollama: Listening on a port",
    ],
)
def test_lines_that_only_look_alike_say_nothing(text: str) -> None:
    assert said(text) == ()


def test_ollama_plan_gives_the_fit_and_the_layers() -> None:
    fit, weights = said(
        GO + 'msg="offload to cuda" layers.requested=-1 layers.model=49 layers.offload=30 layers.split=15,15 '
        'memory.available="[11.0 GiB 10.5 GiB]" memory.gpu_overhead="0 B" memory.required.full="30.0 GiB" '
        'memory.required.partial="20.5 GiB" memory.required.kv="1.5 GiB" memory.weights.total="24.0 GiB" '
        'memory.graph.full="512.0 MiB"'
    )
    assert (fit.kind, weights.kind) == (K.ENGINE_FIT, K.ENGINE_WEIGHTS)
    assert dict(fit.fields) == {
        "engine": "ollama",
        "projected_bytes": 30 * GIB,
        "placed_bytes": gib(20.5),
        "free_bytes": gib(21.5),
        "kv_bytes": gib(1.5),
        "weights_bytes": 24 * GIB,
        "compute_bytes": 512 * MIB,
    }
    assert dict(weights.fields) == {"engine": "ollama", "layers_offloaded": 30, "layers_total": 49}


def test_a_runners_last_words_are_a_refusal_where_it_says_no_more() -> None:
    ended = 'Error: llama runner process has terminated: cudaMalloc failed: out of memory"\n'
    told = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 700.00 MiB on device 0: cudaMalloc failed: out of memory\n"
    step, refused = said(ended)
    assert (step.word("step"), step.word("inner")) == ("runner", "cudaMalloc failed: out of memory")
    assert (refused.kind, refused.word("purpose")) == (K.ENGINE_BUFFER_FAILED, "unknown")
    assert [event.kind for event in said(told + ended)] == [K.ENGINE_STEP_FAILED]


def test_a_killed_runner_is_a_killed_process_without_a_stated_reason() -> None:
    ended, killed = said('Error: llama runner process has terminated: signal: killed"\n')
    assert ended.word("inner") == "signal: killed"
    assert killed.kind is K.PROCESS_KILLED
    assert (killed.size("signal"), killed.fields["oom_stated"], killed.word("reported_by")) == (9, False, "ollama")


@pytest.mark.parametrize(
    "inner",
    ["torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "ImportError: no flash attention"],
)
def test_tgi_sentence_carries_the_exception_it_was_raised_from(inner: str) -> None:
    events = said(
        f'Traceback (most recent call last):\n  File "a.py", line 1, in warmup\n    x()\n{inner}\n\n'
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 2, in serve\n    y()\n'
        "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`\n"
    )
    assert [event.word("inner") for event in events] == [inner]


def test_tgi_launcher_arguments_over_several_lines() -> None:
    (event,) = said(
        'INFO text_generation_launcher: Args {\n    model_id: "org/m",\n    revision: None,\n    num_shard: Some(\n'
        "        2,\n    ),\n    max_batch_total_tokens: Some(\n        16000,\n    ),\n}\n"
    )
    assert event.fields["options"] == (("model_id", "org/m"), ("num_shard", "2"), ("max_batch_total_tokens", "16000"))
    (old,) = said('Args { model_id: "org/m", quantize: Some(Gptq), sharded: None }\n')
    assert old.fields["options"] == (("model_id", "org/m"), ("quantize", "Gptq"))


def test_mlc_gives_its_three_terms() -> None:
    short, table = said(
        "Insufficient GPU memory error: The available single GPU memory is 6000.500 MB, which is less than the sum of "
        "model weight size (5000.000 MB) and temporary buffer size (1500.250 MB).\n"
    )
    assert (short.kind, table.kind) == (K.ENGINE_STARTUP_SHORT, K.ENGINE_MEMORY_TABLE)
    assert short.size("budget_bytes") == table.size("available_bytes") == 6000 * MIB + MIB // 2
    assert (table.size("model_bytes"), table.size("temporary_bytes")) == (5000 * MIB, 1500 * MIB + MIB // 4)


def test_deepspeed_workspace_block_and_its_failure() -> None:
    table, failed = said(
        "Free memory : 30.500000 (GigaBytes)  \nTotal memory: 40.000000 (GigaBytes)  \n"
        "Requested memory: 35.250000 (GigaBytes) \nSetting maximum total tokens (input + output) to 2048 \n"
        "WorkSpace: (nil) \nRequested:\t37849399296\nFree:\t32749125632\nTotal:\t42949672960\n"
        "RuntimeError: Workspace is null.\n"
    )
    assert dict(table.fields) == {
        "engine": "deepspeed",
        "free_bytes": gib(30.5),
        "total_bytes": 40 * GIB,
        "requested_bytes": gib(35.25),
        "max_length_tokens": 2048,
    }
    assert failed.size("requested_bytes") == 37849399296
    assert failed.size("free_bytes") == 32749125632


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            "RuntimeError: Failed to allocate memory for batch_prefill_tmp_v with size 300000000 and alignment 16 in AlignedAllocator",
            {"buffer": "batch_prefill_tmp_v", "requested_bytes": 300000000},
        ),
        (
            "Buffer overflow when allocating memory for batch_prefill_tmp_s with size 3000 and alignment 16, but only 2000 bytes available in AlignedAllocator. Increase the workspace buffer size.",
            {"buffer": "batch_prefill_tmp_s", "requested_bytes": 3000, "available_bytes": 2000},
        ),
    ],
)
def test_flashinfer_workspace(text: str, fields: dict[str, object]) -> None:
    (event,) = said(text)
    assert event.kind is K.WORKSPACE_TOO_SMALL
    assert dict(event.fields) == {"library": "flashinfer", **fields}


def test_comfyui_report_names_the_node() -> None:
    (event,) = said(
        "## Error Details\n- **Node ID:** 9\n- **Node Type:** VAEDecode\n- **Exception Type:** torch.OutOfMemoryError\n"
        "- **Exception Message:** Allocation on device \n"
    )
    assert dict(event.fields) == {
        "engine": "comfyui",
        "step": "VAEDecode",
        "exception_type": "torch.OutOfMemoryError",
        "inner": "Allocation on device",
    }


def test_every_anchor_is_long_enough_to_be_rare() -> None:
    short = [pattern.anchor for family in ALL for pattern in family.patterns if len(pattern.anchor) < 5]
    assert short == []


@pytest.mark.parametrize("filler", ["1", "a", " ", "(", "0,000", "'", "= ", '="', "reqs, ", "x.y::", ""])
def test_no_form_takes_long_over_a_long_line(filler: str) -> None:
    for family in ALL:
        for pattern in family.patterns:
            line = pattern.anchor + filler * 4000 if filler else pattern.anchor * 1000
            began = time.process_time()
            pattern.compiled.search(line[:16000])
            assert time.process_time() - began < 0.5, (pattern.anchor, filler)


def test_tensorrt_llm_names_the_component_that_it_could_not_make() -> None:
    (event,) = said(
        "[TRT-LLM] [E] Executor creation failed due to insufficient GPU memory.\n\n"
        "The following component could not be created: KV cache\nTotal GPU memory (GiB): 80.00\n"
        "Free GPU memory before component creation attempt (GiB): 60.50\n"
    )
    assert (event.kind, event.word("purpose")) == (K.ENGINE_BUFFER_FAILED, "kv")
    assert (event.size("total_bytes"), event.size("free_bytes")) == (80 * GIB, gib(60.5))


def test_tensorrt_llm_s_blocks_run_out() -> None:
    (event,) = said("[ERROR] Assertion failed: Can't allocate new blocks. No free blocks left. (/a/kv.cpp:1)\n")
    assert event.kind is K.ENGINE_TOKEN_POOL_EXHAUSTED


def test_a_runner_that_was_killed() -> None:
    events = said(GO + 'msg="llama runner terminated" error="signal: killed"\n')
    assert [(e.kind, e.fields["signal"]) for e in events if e.kind is K.PROCESS_KILLED] == [(K.PROCESS_KILLED, 9)]
    assert said(GO + 'msg="llama runner terminated" error="exit status 2"\n') == ()


def test_metal_says_that_memory_is_short_and_a_model_that_did_not_load() -> None:
    (event,) = said("error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)\n")
    assert (event.kind, event.word("backend")) == (K.DEVICE_OOM, "metal")
    (event,) = said("Base diffusion model failed to load\n")
    assert (event.kind, event.word("step")) == (K.ENGINE_STEP_FAILED, "load_model")
