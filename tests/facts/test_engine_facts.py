"""engine.*: figures of serving engines."""

from __future__ import annotations

import pytest
from given import event, facts_of, gib, mib

from oomdoctor.facts import derive_facts
from oomdoctor.model.events import EventKind
from oomdoctor.model.evidence import Evidence


def test_a_profile_gives_the_whole_identity():
    facts = facts_of(
        event(
            EventKind.ENGINE_PROFILE,
            engine="vllm",
            total_bytes=gib(24),
            utilization=0.9,
            weights_bytes=gib(15),
            activation_peak_bytes=gib(3),
            non_torch_bytes=mib(350),
            kv_bytes=gib(2.9),
        )
    )
    assert facts.value("engine.name") == "vllm"
    assert facts.value("engine.budget_bytes") == round(gib(24) * 0.9)
    assert facts.value("engine.kv_available_bytes") == gib(2.9)


def test_the_last_start_counts():
    first = event(EventKind.ENGINE_KV_AVAILABLE, engine="vllm", kv_bytes=gib(4))
    second = event(EventKind.ENGINE_KV_AVAILABLE, engine="vllm", kv_bytes=-gib(2))
    assert facts_of(first, second).value("engine.kv_available_bytes") == -gib(2)


def test_buffers_of_several_devices_are_one_sum():
    parts = [
        event(EventKind.ENGINE_WEIGHTS, engine="llama.cpp", buffer=name, weights_bytes=gib(size))
        for name, size in (("CUDA0", 9), ("CUDA0", 10), ("CUDA1", 8))
    ]
    assert facts_of(*parts).value("engine.weights_bytes") == gib(18)


def test_bytes_a_token_come_from_needed_bytes_and_tokens():
    facts = facts_of(
        event(EventKind.ENGINE_KV_TOO_SMALL, needed_tokens=131072, needed_bytes=gib(16), available_bytes=mib(727))
    )
    assert facts.value("engine.kv_bytes_per_token") == gib(16) // 131072
    assert facts.value("engine.kv_pool_too_small") is True
    assert facts.value("engine.kv_pool_tokens") is None


def test_a_tiny_prefill_that_fails_is_about_the_pool():
    facts = facts_of(event(EventKind.ENGINE_WARMUP_FAILED, engine="tgi", what="prefill", tokens=2, total_tokens=16000))
    assert facts.value("engine.kv_pool_too_small") is True
    assert facts.value("engine.kv_needed_tokens") == 16000
    usual = facts_of(
        event(EventKind.ENGINE_WARMUP_FAILED, engine="tgi", what="prefill", tokens=4096, total_tokens=16000)
    )
    assert usual.value("engine.kv_pool_too_small") is None


def test_a_runner_of_ollama_prints_llama_cpp_s_lines():
    facts = facts_of(
        event(EventKind.ENGINE_WEIGHTS, engine="ollama", layers_offloaded=13),
        event(EventKind.ENGINE_BUFFER_FAILED, 1, engine="llama.cpp", requested_bytes=gib(40), purpose="unknown"),
    )
    assert facts.value("engine.name") == "ollama"
    assert facts.value("engine.layers_planned") == 13
    assert facts.value("oom.requested_bytes", "cuda:1") == gib(40)


def test_a_buffer_that_was_retried_did_not_fail():
    facts = facts_of(event(EventKind.ENGINE_BUFFER_FAILED, 0, requested_bytes=gib(4), purpose="compute", fatal=False))
    assert facts.value("engine.buffer_purpose") is None
    assert facts.value("oom.failed", "cuda:0") is None


def test_the_highest_use_of_the_pool_is_kept():
    loads = [event(EventKind.ENGINE_LOAD, kv_usage=usage) for usage in (0.4, 0.95, 0.2)]
    assert facts_of(*loads).value("engine.kv_usage") == 0.95


def test_the_command_shows_who_chose_the_context():
    assert facts_of(command="llama-server -m x.gguf –c 4096").value("engine.context_set_by_user") is True
    assert facts_of(command="vllm serve MODEL").value("engine.context_set_by_user") is False
    assert facts_of(command="python app.py").value("engine.context_set_by_user") is None


@pytest.mark.parametrize(
    ("events", "command", "tokens"),
    [
        ([{"engine": "vllm", "gpu_blocks": 6100, "cpu_blocks": 2048}], None, 97_600),
        ([{"engine": "vllm", "gpu_blocks": 6100}], "vllm serve m --block-size 32", 195_200),
        ([{"engine": "vllm", "gpu_blocks": 6100}, {"engine": "vllm", "pool_tokens": 90_000}], None, 90_000),
        ([{"engine": "tgi", "gpu_blocks": 12_345, "block_tokens": 1}], None, 12_345),
        ([{"engine": "tensorrt-llm", "gpu_blocks": 18}, {"engine": "tensorrt-llm", "block_tokens": 64}], None, 1152),
        ([{"engine": "tensorrt-llm", "gpu_blocks": 18}], None, None),
        ([{"engine": "sglang", "pool_tokens": 50_000}, {"pool_tokens": 700, "sub_pool": "swa"}], None, 50_000),
    ],
)  # fmt: skip
def test_tokens_of_a_pool_that_is_printed_in_blocks(events, command, tokens):
    printed = tuple(event(EventKind.ENGINE_KV_POOL, **fields) for fields in events)
    assert derive_facts(Evidence(events=printed, command=command)).size("engine.kv_pool_tokens") == tokens


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


@pytest.mark.parametrize(
    ("prefix", "name"),
    [
        ("(VllmWorker rank=1 pid=29) ERROR 03-19 07:27:53 [multiproc_executor.py:375] ", "vllm"),
        ("(EngineCore_DP0 pid=229) ", "vllm"),
        ("(EngineCore pid=229) ERROR 04-19 12:21:04 [core.py:1134] ", "vllm"),
        ("(Worker_TP0_EP0 pid=7) ", "vllm"),
        ("(Worker pid=7) ERROR 04-19 12:21:04 [multiproc_executor.py:8] ", "vllm"),
        ("(RayWorkerWrapper pid=45, ip=10.0.0.2) ERROR 06-09 06:57:48 worker_base.py:581] ", "vllm"),
        ("[2026-03-07 21:49:33 DP0 TP0] ", "sglang"),
        ("[2026-03-07 21:49:33 TP3] ", "sglang"),
        ("(Worker pid=7) ", None),  # an actor of Ray, whoever wrote it
        ("(WorkerDict pid=7) ", None),
        ("[2026-03-07 21:49:33] ", None),
        ("[rank3]: ", None),
    ],
)
def test_the_name_that_an_engine_puts_before_its_lines(prefix, name):
    assert facts_of(event(EventKind.DEVICE_OOM, text=prefix + OOM, backend="cuda")).value("engine.name") == name


def test_what_says_its_engine_itself_comes_before_the_names_of_processes():
    said = event(EventKind.ENGINE_START, engine="lmdeploy")
    assert facts_of(said, event(EventKind.DEVICE_OOM, text="[DP0 TP0] " + OOM)).value("engine.name") == "lmdeploy"
