# ruff: noqa: E501  (log lines are as long as they are)
from __future__ import annotations

import io

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.model.events import LogEvent
from oomdoctor.readers.log.engine import read_log
from oomdoctor.readers.log.sglang import FAMILY

GIB = 1 << 30


def said(text: str) -> tuple[LogEvent, ...]:
    return read_log(io.BytesIO(text.encode()), "serve.log", (FAMILY,)).events


def gib(size: float) -> int:
    return round(size * GIB)


EACH = [
    (
        "Load weight begin. avail mem=39.25 GB",
        K.ENGINE_PHASE,
        {"phase": "load", "edge": "begin", "free_bytes": gib(39.25)},
    ),
    (
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 65536, K size: 4.00 GB, V size: 4.50 GB",
        K.ENGINE_KV_POOL,
        {"pool_tokens": 65536, "pool_bytes": gib(8.5)},
    ),
    (
        "KV Cache is allocated. #tokens: 65536, KV size: 2.25 GB",
        K.ENGINE_KV_POOL,
        {"pool_tokens": 65536, "pool_bytes": gib(2.25)},
    ),
    ("KV Cache is allocated. K size: 4.00 GB, V size: 4.00 GB.", K.ENGINE_KV_POOL, {"pool_bytes": 8 * GIB}),
    (
        "KV Cache VA upper bound. dtype: torch.float8, #tokens: 1024, K size: 0.50 GB, V size: 0.50 GB",
        K.ENGINE_KV_POOL,
        {"pool_tokens": 1024, "pool_bytes": GIB},
    ),
    (
        "Mamba Cache is allocated. max_mamba_cache_size: 64, conv_state size: 0.25GB, ssm_state size: 3.75GB ",
        K.ENGINE_KV_POOL,
        {"sub_pool": "mamba", "sequences": 64, "pool_bytes": 4 * GIB},
    ),
    (
        "SWA ring: swa_max_total_num_tokens 40960 -> 8192 (fixed per-request SWA ring capacity).",
        K.ENGINE_KV_POOL,
        {"sub_pool": "swa", "from_tokens": 40960, "pool_tokens": 8192},
    ),
    (
        "Memory pool end. avail mem=6.50 GB",
        K.ENGINE_PHASE,
        {"phase": "kv-allocation", "edge": "end", "free_bytes": gib(6.5)},
    ),
    (
        "Capture cuda graph begin. This can take up to several minutes. avail mem=6.25 GB",
        K.ENGINE_PHASE,
        {"phase": "graph-capture", "edge": "begin", "free_bytes": gib(6.25)},
    ),
    (
        "Capture target prefill CUDA graph begin. backend=full, num_tokens=[4, 8], avail mem=6.25 GB",
        K.ENGINE_PHASE,
        {"phase": "graph-capture", "edge": "begin", "free_bytes": gib(6.25)},
    ),
    (
        "Capture cuda graph end. Time elapsed: 12.5 s. mem usage=0.75 GB. avail mem=5.50 GB.",
        K.ENGINE_PHASE,
        {
            "phase": "graph-capture",
            "edge": "end",
            "seconds": 12.5,
            "took_bytes": gib(0.75),
            "free_bytes": gib(5.5),
        },
    ),
    (
        "Capture target decode CUDA graph end. elapsed=4.25 s, mem usage=0.75 GB, avail mem=5.50 GB.",
        K.ENGINE_PHASE,
        {
            "phase": "graph-capture",
            "edge": "end",
            "seconds": 4.25,
            "took_bytes": gib(0.75),
            "free_bytes": gib(5.5),
        },
    ),
    (
        "The server is fired up and ready to roll!",
        K.ENGINE_PHASE,
        {"phase": "serving", "edge": "begin"},
    ),
    ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", K.ENGINE_KV_NONE, {}),
    (
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.75",
        K.ENGINE_KV_NONE,
        {"utilization": 0.75},
    ),
    (
        "Exception: Capture cuda graph failed: unsupported head size 80",
        K.ENGINE_WARMUP_FAILED,
        {"what": "graph", "inner": "unsupported head size 80"},
    ),
    ("Exception: Capture cuda graph failed:", K.ENGINE_WARMUP_FAILED, {"what": "graph"}),
    (
        "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`. "
        "req_to_token_pool.available_size()=3, num_reqs=9, ",
        K.SLOT_TABLE_FULL,
        {"available": 3, "needed": 9},
    ),
    (
        "RuntimeError: Not enough space for mamba cache, try to increase --mamba-full-memory-ratio or --max-mamba-cache-size.",
        K.ENGINE_STATE_POOL_SHORT,
        {"sub_pool": "mamba"},
    ),
    (
        "RuntimeError: Not enough GPU memory for hybrid state cache (total_rest_memory=-1.50 GB)",
        K.ENGINE_STATE_POOL_SHORT,
        {"sub_pool": "state", "rest_bytes": gib(-1.5)},
    ),
    (
        "ValueError: Not enough host memory available. Requesting 48.00 GB but only have 20.50 GB free. Please reduce the size",
        K.ENGINE_HOST_SHORT,
        {
            "what": "host cache",
            "fatal": True,
            "needed_bytes": 48_000_000_000,
            "available_bytes": 20_500_000_000,
        },
    ),
    (
        "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.",
        K.ENGINE_RANKS_UNEVEN,
        {},
    ),
    (
        "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
        "pre_model_load_memory=12.5, local_gpu_memory=39.25, local_gpu_memory * 0.9=35.325",
        K.ENGINE_RANKS_UNEVEN,
        {"lowest_free_bytes": gib(12.5), "free_bytes": gib(39.25)},
    ),
    (
        "Prefill batch, #new-seq: 2, #new-token: 4096, #cached-token: 0, token usage: 0.75, #running-req: 6, #queue-req: 40, "
        "#pending-token: 0, cuda graph: True, input throughput (token/s): 1000.5",
        K.ENGINE_LOAD,
        {"stage": "prefill", "new_tokens": 4096, "kv_usage": 0.75, "running": 6, "waiting": 40},
    ),
    (
        "Prefill batch. #new-seq: 2, #new-token: 4096, token usage: 0.75, #queue-req: 40, #transferring-req: 12, x",
        K.ENGINE_LOAD,
        {"stage": "prefill", "new_tokens": 4096, "kv_usage": 0.75, "waiting": 40, "transferring": 12},
    ),
    (
        "Decode batch [41], #running-req: 8, #full token: 900, full token usage: 0.50, #swa token: 80, swa token usage: 0.25, "
        "mamba num: 3, mamba usage: 0.95, cuda graph: True, #queue-req: 0",
        K.ENGINE_LOAD,
        {
            "stage": "decode",
            "running": 8,
            "kv_usage": 0.5,
            "swa_usage": 0.25,
            "mamba_usage": 0.95,
            "waiting": 0,
        },
    ),
    (
        "KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_tokens_gained: 512, #new_token_ratio: 0.1 -> 0.2",
        K.ENGINE_PREEMPTED,
        {"mode": "retract", "retracted": 3},
    ),
    (
        "Decode out of memory happened. #retracted_reqs: 2, #new_token_ratio: 0.1 -> 0.2",
        K.ENGINE_PREEMPTED,
        {"mode": "retract", "retracted": 2},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), EACH, ids=[text[:40] for text, _, _ in EACH])
def test_each_form_gives_its_fields_and_no_more(text: str, kind: K, fields: dict[str, object]) -> None:
    (event,) = said(f"[2025-05-05 05:05:05 TP3] {text}\n")
    assert (event.kind, dict(event.fields)) == (kind, {"engine": "sglang", **fields})
    assert event.rank == 3


@pytest.mark.parametrize(
    "text",
    [
        "Testing retraction. #retracted_reqs: 1, #new_token_ratio: 0.5 -> 0.6",
        "Not enough memory to handle 4096 prefill tokens.",
        "Prefill batches are scheduled first.",
        "Decode batch",
        "KV Cache dtype is torch.bfloat16",
        "The graph failed: to render",
    ],
)
def test_lines_that_only_look_alike_say_nothing(text: str) -> None:
    assert said(text) == ()


def test_inner_error_of_a_failed_capture_may_begin_on_the_next_line() -> None:
    (event,) = said("Exception: Capture cuda graph failed:\n  kernel is not built for this card\nPossible solutions:\n")
    assert event.word("inner") == "kernel is not built for this card"
    (event,) = said("Exception: Capture cuda graph failed: \nPossible solutions:\n")
    assert event.word("inner") is None


def test_end_of_loading_gives_the_weights_and_the_phase() -> None:
    events = said(
        "Load weight end. elapsed=8.50 s, type=SomeForCausalLM, quant=fp8, avail mem=24.00 GB, mem usage=15.25 GB."
    )
    assert {event.kind: dict(event.fields) for event in events} == {
        K.ENGINE_WEIGHTS: {"engine": "sglang", "seconds": 8.5, "weights_bytes": gib(15.25)},
        K.ENGINE_PHASE: {
            "engine": "sglang",
            "phase": "load",
            "edge": "end",
            "seconds": 8.5,
            "free_bytes": 24 * GIB,
        },
    }
    (old,) = said("Load weight end. type=SomeForCausalLM, dtype=torch.float16, avail mem=24.00 GB")
    assert old.kind is K.ENGINE_PHASE
    assert "seconds" not in old.fields


def test_summary_line_gives_the_pool_and_the_limits() -> None:
    pool, start = said(
        "max_total_num_tokens=98304, chunked_prefill_size=4096, max_prefill_tokens=16384, max_running_requests=512, "
        "context_len=32768, available_gpu_mem=5.25 GB"
    )
    assert dict(pool.fields) == {
        "engine": "sglang",
        "pool_tokens": 98304,
        "max_length_tokens": 32768,
        "free_bytes": gib(5.25),
    }
    assert start.fields["options"] == (
        ("chunked_prefill_size", "4096"),
        ("max_prefill_tokens", "16384"),
        ("max_running_requests", "512"),
        ("context_len", "32768"),
    )


def test_server_arguments_are_options() -> None:
    (event,) = said(
        "server_args=ServerArgs(model_path='org/m', mem_fraction_static=0.8, cuda_graph_bs=[1, 2], tp_size=2)"
    )
    assert event.kind is K.ENGINE_START
    assert event.fields["options"] == (
        ("model_path", "org/m"),
        ("mem_fraction_static", "0.8"),
        ("cuda_graph_bs", "[1, 2]"),
        ("tp_size", "2"),
    )


def test_token_pool_message_is_read_over_its_lines() -> None:
    (event,) = said(
        "RuntimeError: Prefill out of memory. Try to lower your batch size.\n"
        "Try to allocate 8192 tokens.\n"
        "Available tokens: 5000 (available_size=1000 + evictable_size=4000)\n"
    )
    assert event.kind is K.ENGINE_TOKEN_POOL_EXHAUSTED
    assert dict(event.fields) == {
        "engine": "sglang",
        "stage": "prefill",
        "needed_tokens": 8192,
        "available_tokens": 5000,
        "free_tokens": 1000,
        "evictable_tokens": 4000,
    }


def test_old_spelling_and_separate_lines() -> None:
    (event,) = said(
        "RuntimeError: Decode out of memory. Try to lower your batch size.\n"
        "Try to allocate 16 tokens.\n"
        "Avaliable tokens: 3\n"
        "self.token_to_kv_pool_allocator.available_size()=1\n"
        "self.tree_cache.evictable_size()=2\n"
    )
    assert event.word("stage") == "decode"
    assert event.size("available_tokens") == 3
    assert (event.size("free_tokens"), event.size("evictable_tokens")) == (1, 2)


def test_hybrid_pools_name_the_one_that_is_short() -> None:
    (event,) = said(
        "RuntimeError: Prefill out of memory. Try to lower your batch size.\n"
        "Try to allocate 2048 tokens.\n"
        "Available full tokens: 90000 (full_available_size=80000 + full_evictable_size_=10000)\n"
        "SWA available tokens: 512 (swa_available_size=512 + swa_evictable_size_=0)\n"
    )
    assert event.word("sub_pool") == "swa"
    assert event.size("available_tokens") == 512
    assert event.size("full_available_tokens") == 90000


def test_a_message_that_names_no_stage_takes_it_from_the_frames() -> None:
    frames = '  File "a.py", line 5, in prepare_for_verify\n    batch.out_cache_loc = alloc_token_slots(\n'
    message = "RuntimeError: Out of memory. Try to lower your batch size.\n"
    assert said(frames + message)[-1].word("stage") == "verify"
    assert said(message)[-1].word("stage") is None


def test_a_profile_that_leaves_less_than_nothing() -> None:
    line = "max_total_tokens=4096 is larger than the profiled value {}. Use the profiled value instead."
    assert [e.kind for e in said(line.format(-2048) + "\n")] == [K.ENGINE_KV_NONE]
    assert said(line.format(2048) + "\n") == ()
