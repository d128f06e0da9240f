# ruff: noqa: E501  (log lines are as long as they are)
from __future__ import annotations

import io

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.model.events import LogEvent
from oomdoctor.readers.log.engine import read_log
from oomdoctor.readers.log.vllm import FAMILY

GIB = 1 << 30


def said(text: str) -> tuple[LogEvent, ...]:
    return read_log(io.BytesIO(text.encode()), "serve.log", (FAMILY,)).events


def one(text: str, kind: K) -> LogEvent:
    events = said(text)
    assert [event.kind for event in events] == [kind]
    assert events[0].fields["engine"] == "vllm"
    return events[0]


def gib(size: float) -> int:
    return round(size * GIB)


EACH = [
    # start and weights
    ("vLLM API server version 0.9.2", K.ENGINE_START, {"version": "0.9.2"}),
    (" ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.15.1", K.ENGINE_START, {"version": "0.15.1"}),
    ("rank 3 in world size 8 is assigned as DP rank 0, PP rank 0, TP rank 3", K.PARALLELISM, {"world_size": 8}),
    ("Using 'pin_memory=False' as WSL is detected. This may slow", K.HOST_STATE, {"platform": "wsl"}),
    ("Starting to load model org/name...", K.ENGINE_PHASE, {"phase": "load", "edge": "begin"}),
    ("Loading model weights took 7.2500 GB", K.ENGINE_WEIGHTS, {"weights_bytes": gib(7.25)}),
    (
        "Model loading took 12.5 GiB and 8.25 seconds",
        K.ENGINE_WEIGHTS,
        {"weights_bytes": gib(12.5), "seconds": 8.25},
    ),
    (
        "Model loading took 12.5 GiB memory and 8.25 seconds",
        K.ENGINE_WEIGHTS,
        {"weights_bytes": gib(12.5), "seconds": 8.25},
    ),
    ("Loading weights took 3.50 seconds", K.ENGINE_PHASE, {"phase": "load", "edge": "end", "seconds": 3.5}),
    # the budget
    (
        "Memory profiling results: total_gpu_memory=16.00GiB initial_memory_usage=9.00GiB peak_torch_memory=10.50GiB "
        "memory_usage_post_profile=9.25GiB non_torch_memory=0.25GiB kv_cache_size=3.65GiB gpu_memory_utilization=0.90",
        K.ENGINE_PROFILE,
        {
            "total_bytes": 16 * GIB,
            "initial_used_bytes": 9 * GIB,
            "torch_peak_bytes": gib(10.5),
            "used_after_bytes": gib(9.25),
            "non_torch_bytes": gib(0.25),
            "kv_bytes": gib(3.65),
            "utilization": 0.9,
        },
    ),
    (
        "the current vLLM instance can use total_gpu_memory (24.00GiB) x gpu_memory_utilization (0.50) = 12.00GiB",
        K.ENGINE_PROFILE,
        {"total_bytes": 24 * GIB, "utilization": 0.5, "budget_bytes": 12 * GIB},
    ),
    (
        "model weights take 7.50GiB; non_torch_memory takes 0.50GiB; PyTorch activation peak memory takes 2.00GiB; "
        "the rest of the memory reserved for KV Cache is -1.25GiB.",
        K.ENGINE_PROFILE,
        {
            "weights_bytes": gib(7.5),
            "non_torch_bytes": gib(0.5),
            "activation_peak_bytes": 2 * GIB,
            "kv_bytes": gib(-1.25),
        },
    ),
    (
        "Memory profiling takes 9.75 seconds",
        K.ENGINE_PHASE,
        {"phase": "profile", "edge": "end", "seconds": 9.75},
    ),
    (
        "Initial free memory: 38.50 GiB; Requested memory: 0.750000 (util), 29.75 GiB",
        K.ENGINE_PROFILE,
        {"initial_free_bytes": gib(38.5), "utilization": 0.75, "budget_bytes": gib(29.75)},
    ),
    (
        "Free memory after profiling: 31.25 GiB (total), 22.5 GiB (within requested)",
        K.ENGINE_PROFILE,
        {"free_after_bytes": gib(31.25), "budget_left_bytes": gib(22.5)},
    ),
    (
        "Free memory on device (39.00/39.50 GiB) on startup. Desired GPU memory utilization is (0.9, 35.55 GiB). Actual "
        "usage is 14.25 GiB for weight, 1.5 GiB for peak activation, 0.25 GiB for non-torch memory, and 0.75 GiB for "
        "CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=20000000000` to fit into "
        "requested memory. Current kv cache memory in use is 20937965568 bytes.",
        K.ENGINE_PROFILE,
        {
            "initial_free_bytes": 39 * GIB,
            "total_bytes": gib(39.5),
            "utilization": 0.9,
            "budget_bytes": gib(35.55),
            "weights_bytes": gib(14.25),
            "activation_peak_bytes": gib(1.5),
            "non_torch_bytes": gib(0.25),
            "graph_bytes": gib(0.75),
            "kv_bytes": 20937965568,
        },
    ),
    (
        "Free memory on device cuda:1 (39.00/39.50 GiB) on startup. Desired GPU memory utilization is (0.92, 36.34 GiB). "
        "Actual usage is 15.5 GiB for consumed memory (weights + non-torch), 1.5 GiB for peak activation, and 0.25 GiB "
        "for CUDAGraph memory. Current kv cache memory in use is 19.25 GiB.",
        K.ENGINE_PROFILE,
        {
            "initial_free_bytes": 39 * GIB,
            "total_bytes": gib(39.5),
            "utilization": 0.92,
            "budget_bytes": gib(36.34),
            "consumed_bytes": gib(15.5),
            "activation_peak_bytes": gib(1.5),
            "graph_bytes": gib(0.25),
            "kv_bytes": gib(19.25),
        },
    ),
    (
        "non_torch_allocations=2147483648, non_torch_allocations_before=1073741824",
        K.ENGINE_PROFILE,
        {"non_torch_bytes": 2 * GIB, "non_torch_before_bytes": GIB},
    ),
    ("Estimated CUDA graph memory: 0.50 GiB total", K.ENGINE_PROFILE, {"graph_estimate_bytes": GIB // 2}),
    (
        "CUDA graph pool memory: 2.50 GiB (actual), 3.00 GiB (estimated), difference: 0.50 GiB (20.0%).",
        K.ENGINE_PROFILE,
        {"graph_bytes": gib(2.5), "graph_estimate_bytes": 3 * GIB},
    ),
    (
        "CUDA graph memory profiling is enabled (default since v0.21.0). The current --gpu-memory-utilization=0.8000 is "
        "equivalent to --gpu-memory-utilization=0.7750 without CUDA graph memory profiling. To maintain the same effective "
        "KV cache size as before, increase --gpu-memory-utilization to 0.8250.",
        K.ENGINE_PROFILE,
        {"utilization": 0.8, "equivalent_utilization": 0.775, "same_kv_utilization": 0.825},
    ),
    ("Profiling CUDA graph memory: PIECEWISE=8 (largest=8)", K.ENGINE_PHASE, {"phase": "profile", "edge": "begin"}),
    # the KV pool
    ("Available KV cache memory: 8.50 GiB", K.ENGINE_KV_AVAILABLE, {"kv_bytes": gib(8.5)}),
    ("Available KV cache memory: -0.75 GiB", K.ENGINE_KV_AVAILABLE, {"kv_bytes": gib(-0.75)}),
    ("Available KV cache memory: 2.0 GiB (process-scoped)", K.ENGINE_KV_AVAILABLE, {"kv_bytes": 2 * GIB}),
    ("# GPU blocks: 512, # CPU blocks: 2048", K.ENGINE_KV_POOL, {"gpu_blocks": 512, "cpu_blocks": 2048}),
    ("# cuda blocks: 1024, # CPU blocks: 0", K.ENGINE_KV_POOL, {"gpu_blocks": 1024, "cpu_blocks": 0}),
    ("GPU KV cache size: 1,230,528 tokens", K.ENGINE_KV_POOL, {"pool_tokens": 1230528}),
    (
        "GPU KV cache size: 65,536 tokens, Maximum concurrency for 8,192 tokens per request: 8.00x",
        K.ENGINE_KV_POOL,
        {"pool_tokens": 65536, "max_length_tokens": 8192, "concurrency": 8.0},
    ),
    (
        "GPU KV cache size: 65,536 tokens, Maximum concurrency for 8,192 tokens",
        K.ENGINE_KV_POOL,
        {"pool_tokens": 65536, "max_length_tokens": 8192},
    ),
    (
        "Maximum concurrency for 40000 tokens per request: 0.75x",
        K.ENGINE_KV_POOL,
        {"max_length_tokens": 40000, "concurrency": 0.75},
    ),
    (
        "Multiplying the GPU KV cache size by the cp_world_size 4 (pcp_world_size 2 * dcp_world_size 2).",
        K.ENGINE_KV_POOL,
        {"multiplied_by": 4},
    ),
    (
        "Setting attention block size to 784 tokens to ensure that attention page size is >= mamba page size.",
        K.ENGINE_KV_POOL,
        {"block_tokens": 784},
    ),
    ("ValueError: No available memory for the cache blocks. Try increasing", K.ENGINE_KV_NONE, {}),
    (
        "ValueError: The model's max seq len (4096) is larger than the maximum number of tokens that can be stored in KV "
        "cache (2000). Try increasing gpu_memory_utilization",
        K.ENGINE_KV_TOO_SMALL,
        {"needed_tokens": 4096, "pool_tokens": 2000},
    ),
    (
        "ValueError: To serve at least one request with the models's max seq len (65536), (8.00 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (1.50 GiB). Based on the available memory, the estimated "
        "maximum model length is 12288. Try increasing `gpu_memory_utilization`",
        K.ENGINE_KV_TOO_SMALL,
        {
            "needed_tokens": 65536,
            "needed_bytes": 8 * GIB,
            "available_bytes": gib(1.5),
            "fitting_tokens": 12288,
        },
    ),
    (
        "ValueError: To serve at least one request with the model's max seq len (65536), 8.00 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (1.50 GiB). Try increasing",
        K.ENGINE_KV_TOO_SMALL,
        {"needed_tokens": 65536, "needed_bytes": 8 * GIB, "available_bytes": gib(1.5)},
    ),
    (
        "ValueError: To serve at least one request with the models's max seq len",
        K.ENGINE_KV_TOO_SMALL,
        {},
    ),
    (
        "Auto-fit max_model_len: reduced from 65536 to 32768 to fit in available GPU memory (2.50 GiB available for KV)",
        K.ENGINE_FIT,
        {"outcome": "reduced", "from_tokens": 65536, "to_tokens": 32768, "kv_bytes": gib(2.5)},
    ),
    (
        "Auto-fit max_model_len: full model context length 65536 fits in available GPU memory",
        K.ENGINE_FIT,
        {"outcome": "fits", "to_tokens": 65536},
    ),
    ("ValueError: Cannot auto-fit max_model_len: nothing is left", K.ENGINE_FIT, {"outcome": "failed"}),
    (
        "Hybrid KV cache manager is disabled for this hybrid model, This means",
        K.ENGINE_STATE_POOL_SHORT,
        {"hybrid_manager_disabled": True, "fatal": False},
    ),
    (
        "ValueError: max_num_seqs (512) exceeds available Mamba cache blocks (300). Each decode sequence requires",
        K.ENGINE_STATE_POOL_SHORT,
        {"sub_pool": "mamba", "needed": 512, "available": 300},
    ),
    # multi-modal
    (
        "The sequence length used for profiling (max_num_batched_tokens / max_num_seqs = 2048) is too short to hold the "
        "multi-modal embeddings in the worst case (9000 tokens in total, out of which {'image': 8000, 'audio': 1000} are",
        K.ENGINE_ENCODER_BUDGET,
        {
            "profiled_tokens": 2048,
            "worst_case_tokens": 9000,
            "modalities": (("image", 8000), ("audio", 1000)),
        },
    ),
    (
        "Encoder cache will be initialized with a budget of 4096 tokens, and profiled with 2 video items of the maximum",
        K.ENGINE_ENCODER_BUDGET,
        {"budget_tokens": 4096, "items": 2, "modality": "video"},
    ),
    # graphs and warm-up
    (
        "Capturing the model for CUDA graphs. This may lead to",
        K.ENGINE_PHASE,
        {"phase": "graph-capture", "edge": "begin"},
    ),
    (
        "Capturing cudagraphs for decoding. This may lead to unexpected consequences",
        K.ENGINE_PHASE,
        {"phase": "graph-capture", "edge": "begin"},
    ),
    (
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  50%|#####     | 12/24 [00:03<00:03]",
        K.ENGINE_PHASE,
        {
            "phase": "graph-capture",
            "edge": "progress",
            "mode": "PIECEWISE",
            "done_ratio": 0.5,
            "done": 12,
            "total": 24,
        },
    ),
    (
        "Graph capturing finished in 21 secs, took 0.25 GiB",
        K.ENGINE_PHASE,
        {"phase": "graph-capture", "edge": "end", "seconds": 21.0, "took_bytes": GIB // 4},
    ),
    (
        "Graph capturing finished in 21 secs.",
        K.ENGINE_PHASE,
        {"phase": "graph-capture", "edge": "end", "seconds": 21.0},
    ),
    (
        "init engine (profile, create kv cache, warmup model) took 44.50 seconds",
        K.ENGINE_PHASE,
        {"phase": "warm-up", "edge": "end", "seconds": 44.5},
    ),
    (
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 512 dummy requests. Please try lowering",
        K.ENGINE_WARMUP_FAILED,
        {"what": "sampler", "sequences": 512},
    ),
    (
        "RuntimeError: CUDA out of memory occurred when warming up pooler (task='embed') with 32 dummy requests.",
        K.ENGINE_WARMUP_FAILED,
        {"what": "pooler", "task": "embed", "sequences": 32},
    ),
    # host
    (
        "ValueError: Too large swap space. 16.00 GiB out of the 12.50 GiB total CPU memory is allocated",
        K.ENGINE_HOST_SHORT,
        {"what": "swap space", "fatal": True, "needed_bytes": 16 * GIB, "total_bytes": gib(12.5)},
    ),
    (
        "Possibly too large swap space. 8.00 GiB out of the 12.50 GiB total CPU memory is allocated",
        K.ENGINE_HOST_SHORT,
        {"what": "swap space", "fatal": False, "needed_bytes": 8 * GIB, "total_bytes": gib(12.5)},
    ),
    (
        "RuntimeError: Aborted due to the lack of CPU swap space. Please increase",
        K.ENGINE_TOKEN_POOL_EXHAUSTED,
        {"stage": "swap"},
    ),
    # serving
    (
        "Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 90.5 tokens/s, Running: 3 reqs, Swapped: 1 reqs, "
        "Pending: 7 reqs, GPU KV cache usage: 62.5%, CPU KV cache usage: 0.0%.",
        K.ENGINE_LOAD,
        {"running": 3, "swapped": 1, "waiting": 7, "kv_usage": 0.625},
    ),
    (
        "Engine 002: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 9.5 tokens/s, Running: 5 reqs, "
        "Waiting: 11 reqs, GPU KV cache usage: 25.0%, Prefix cache hit rate: 0.0%",
        K.ENGINE_LOAD,
        {"replica": 2, "running": 5, "waiting": 11, "kv_usage": 0.25},
    ),
    (
        "Sequence group 9 is preempted by PreemptionMode.SWAP mode because there is not enough KV cache space. This can "
        "affect the end-to-end performance. total_num_cumulative_preemption=51",
        K.ENGINE_PREEMPTED,
        {"mode": "SWAP", "cumulative": 51},
    ),
    (
        "Sleep mode freed 30.25 GiB memory, 2.50 GiB memory is still in use.",
        K.ENGINE_SLEEP,
        {"freed_bytes": gib(30.25), "residual_bytes": gib(2.5)},
    ),
    (
        "CuMemAllocator: sleep freed 30.25 GiB memory in total, of which 6.25 GiB is backed up in CPU and the rest 24.00 "
        "GiB is discarded directly.",
        K.ENGINE_SLEEP,
        {"freed_bytes": gib(30.25), "backed_up_bytes": gib(6.25), "discarded_bytes": 24 * GIB},
    ),
    (
        "It took 0.75 seconds to wake up tags {'weights'}.",
        K.ENGINE_PHASE,
        {"phase": "sleep", "edge": "end", "seconds": 0.75},
    ),
    (
        "RuntimeError: CUDA Error: out of memory at /src/csrc/cumem_allocator.cpp:77",
        K.ENGINE_BUFFER_FAILED,
        {"purpose": "unknown", "pool": "sleep", "fatal": True},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), EACH, ids=[text[:40] for text, _, _ in EACH])
def test_each_form_gives_its_fields_and_no_more(text: str, kind: K, fields: dict[str, object]) -> None:
    assert dict(one(text, kind).fields) == {"engine": "vllm", **fields}


@pytest.mark.parametrize(
    "text",
    [
        "GPU KV cache size will be printed later",
        "Maximum concurrency is a setting",
        "Free memory on device is checked on startup",
        "Our guide says: Available KV cache memory depends on the model",
        "Running: 3 reqs, GPU KV cache usage: 25.0%",
        "Graph capturing starts",
        "No available shared memory broadcast block found in 60 seconds.",
        "resource_tracker: There appear to be 5 leaked shared_memory objects to clean up at shutdown",
        "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "args: Namespaces are used",
    ],
)
def test_lines_that_only_look_alike_say_nothing(text: str) -> None:
    assert said(text) == ()


def test_startup_check_names_its_device_where_the_version_prints_it() -> None:
    old = one(
        "ValueError: Free memory on device (20.25/40.00 GiB) on startup is less than desired GPU memory utilization "
        "(0.9, 36.00 GiB). Decrease GPU memory utilization",
        K.ENGINE_STARTUP_SHORT,
    )
    assert dict(old.fields) == {
        "engine": "vllm",
        "free_bytes": gib(20.25),
        "total_bytes": 40 * GIB,
        "utilization": 0.9,
        "wanted_bytes": 36 * GIB,
    }
    assert old.device is None
    new = one(
        "Free memory on device cuda:3 (20.25/40.00 GiB) on startup is less than desired GPU memory utilization",
        K.ENGINE_STARTUP_SHORT,
    )
    assert (new.device, new.size("free_bytes"), new.size("wanted_bytes")) == (3, gib(20.25), None)


def test_a_sentence_pasted_with_line_breaks_keeps_its_figures() -> None:
    event = one(
        "ValueError: To serve at least one request with the models's max seq len (65536),\n"
        "(8.00 GiB KV cache is needed, which is larger than the available KV cache memory\n"
        "(1.50 GiB). Based on the available memory, the estimated maximum model length is 12288.\n",
        K.ENGINE_KV_TOO_SMALL,
    )
    assert event.size("needed_bytes") == 8 * GIB
    assert event.size("available_bytes") == gib(1.5)
    assert event.size("fitting_tokens") == 12288


def test_profiling_error_is_in_bytes_in_old_versions_and_in_gib_in_new_ones() -> None:
    new = one(
        "AssertionError: Error in memory profiling. Initial free memory 10.5 GiB, current free memory 12.25 GiB. This",
        K.ENGINE_NEIGHBOUR_CHANGED,
    )
    assert (new.size("initial_free_bytes"), new.size("current_free_bytes")) == (gib(10.5), gib(12.25))
    old = one(
        "AssertionError: Error in memory profiling. Initial free memory 11274289152, current free memory 13153337344. T",
        K.ENGINE_NEIGHBOUR_CHANGED,
    )
    assert (old.size("initial_free_bytes"), old.size("current_free_bytes")) == (11274289152, 13153337344)


def test_preemptions_of_an_interval_stand_in_the_load_line() -> None:
    events = said(
        "Engine 000: Avg prompt throughput: 0.0 tokens/s, Running: 5 reqs, Waiting: 11 reqs, Preemptions: 4, "
        "GPU KV cache usage: 99.0%, Prefix cache hit rate: 0.0%"
    )
    assert {event.kind: event.size("retracted") for event in events} == {K.ENGINE_PREEMPTED: 4, K.ENGINE_LOAD: None}


def test_wrapped_error_keeps_the_inner_text() -> None:
    event = one(
        "ValueError: Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory for "
        "weights. See https://docs for more tips. (original error: CUDA out of memory. Tried to allocate 96.00 MiB.)",
        K.ENGINE_BUFFER_FAILED,
    )
    assert event.word("purpose") == "weights"
    assert (event.word("inner") or "").startswith("CUDA out of memory. Tried to allocate 96.00 MiB.")


def test_debug_profile_line_gives_the_breakdown_and_the_end_of_the_phase() -> None:
    events = said(
        "Memory profiling takes 4.50 seconds. Total non KV cache memory: 3.25GiB; torch peak memory increase: 1.00GiB; "
        "non-torch forward increase memory: 0.25GiB; weights memory: 2.00GiB."
    )
    profile = next(event for event in events if event.kind is K.ENGINE_PROFILE)
    assert dict(profile.fields) == {
        "engine": "vllm",
        "non_kv_bytes": gib(3.25),
        "activation_peak_bytes": GIB,
        "non_torch_bytes": GIB // 4,
        "weights_bytes": 2 * GIB,
    }
    assert {event.kind for event in events} == {K.ENGINE_PROFILE, K.ENGINE_PHASE}


def test_start_line_gives_version_and_options() -> None:
    event = one(
        "Initializing a V1 LLM engine (v0.10.2) with config: model='org/m', max_seq_len=4096, quantization=None, "
        'compilation_config={"level":3,"sizes":[1, 2]}, served_model_name=[\'a, b\'], seed=0',
        K.ENGINE_START,
    )
    assert event.word("version") == "0.10.2"
    assert event.fields["options"] == (
        ("model", "org/m"),
        ("max_seq_len", "4096"),
        ("quantization", "None"),
        ("compilation_config", '{"level":3,"sizes":[1, 2]}'),
        ("served_model_name", "['a, b']"),
        ("seed", "0"),
    )


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (
            "non-default args: {'model': 'org/m', 'max_model_len': 8192, 'enforce_eager': True}",
            (("model", "org/m"), ("max_model_len", "8192"), ("enforce_eager", "True")),
        ),
        ("non-default args: {'model': 'org/m', 'max_model_len': 81", (("model", "org/m"),)),
        ("args: Namespace(host=None, swap_space=4)", (("host", "None"), ("swap_space", "4"))),
        ("Initializing an LLM engine with config: model='org/m', seed=0", (("model", "org/m"), ("seed", "0"))),
    ],
)
def test_options_of_a_cut_list_leave_out_the_value_that_may_be_cut(text: str, options: object) -> None:
    assert one(text, K.ENGINE_START).fields["options"] == options


def test_rank_and_process_of_the_line_stay_with_the_event() -> None:
    event = one(
        "(Worker_TP2 pid=77) INFO 01-01 00:00:00 [x.py:1] Available KV cache memory: 1.0 GiB", K.ENGINE_KV_AVAILABLE
    )
    assert (event.rank, event.pid, event.source.line) == (2, 77, 1)


def test_a_worker_names_the_method_that_failed() -> None:
    (event,) = said("Exception in worker VllmWorkerProcess while processing method load_model.\n")
    assert (event.kind, event.word("step")) == (K.ENGINE_STEP_FAILED, "load_model")
