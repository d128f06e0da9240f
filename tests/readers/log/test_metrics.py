"""The Prometheus text of serving engines."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st

from oomdoctor.diagnose.pipeline import diagnose
from oomdoctor.facts import derive_facts
from oomdoctor.model.diagnosis import Verdict
from oomdoctor.model.events import EventKind, FieldValue, LogEvent
from oomdoctor.model.evidence import Evidence
from oomdoctor.readers.log.engine import read_log

VLLM = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3-0.6B"} 42.0
vllm:num_requests_running{engine="1",model_name="Qwen/Qwen3-0.6B"} 40.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="Qwen/Qwen3-0.6B"} 7.0
vllm:num_requests_waiting{engine="1",model_name="Qwen/Qwen3-0.6B"} 5.0
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="Qwen/Qwen3-0.6B"} 0.9987
vllm:kv_cache_usage_perc{engine="1",model_name="Qwen/Qwen3-0.6B"} 0.91
# HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="Qwen/Qwen3-0.6B"} 17.0
vllm:num_preemptions_total{engine="1",model_name="Qwen/Qwen3-0.6B"} 3.0
# TYPE vllm:num_preemptions_created gauge
vllm:num_preemptions_created{engine="0",model_name="Qwen/Qwen3-0.6B"} 1.7598e+09
vllm:cache_config_info{block_size="16",cache_dtype="auto",gpu_memory_utilization="0.82",num_gpu_blocks="573"} 1.0
"""
OLD_VLLM = """vllm:num_requests_running{model_name="llama-2-7b"} 0.0
vllm:num_requests_swapped{model_name="llama-2-7b"} 2.0
vllm:gpu_cache_usage_perc{model_name="llama-2-7b"} 0.4217
vllm:num_preemptions_total{model_name="llama-2-7b"} 0.0
"""
SGLANG = """# HELP sglang:token_usage The token usage
# TYPE sglang:token_usage gauge
sglang:token_usage{model_name="meta-llama/Llama-3.1-8B-Instruct",tp_rank="0"} 0.28
sglang:num_running_reqs{model_name="meta-llama/Llama-3.1-8B-Instruct",tp_rank="0"} 162.0
sglang:num_running_reqs{model_name="meta-llama/Llama-3.1-8B-Instruct",tp_rank="1"} 162.0
sglang:num_used_tokens{model_name="meta-llama/Llama-3.1-8B-Instruct"} 123859.0
sglang:num_queue_reqs{model_name="meta-llama/Llama-3.1-8B-Instruct"} 2826.0
sglang:max_total_num_tokens{model_name="meta-llama/Llama-3.1-8B-Instruct"} 8.128902e+05
sglang:num_retracted_reqs{model_name="meta-llama/Llama-3.1-8B-Instruct"} 0.0
sglang:num_retracted_requests_total{model_name="meta-llama/Llama-3.1-8B-Instruct"} 48.0
"""
TGI = """# TYPE tgi_queue_size gauge
tgi_queue_size 3
tgi_batch_current_size 8
"""
LLAMA_CPP = """# HELP llamacpp:kv_cache_usage_ratio KV-cache usage. 1 means 100 percent usage.
llamacpp:kv_cache_usage_ratio 0.63
llamacpp:kv_cache_tokens 1234
llamacpp:requests_processing 2
llamacpp:requests_deferred 1
"""


def events(text: str) -> tuple[LogEvent, ...]:
    return read_log(io.BytesIO(text.encode()), "metrics.txt").events


def together(text: str) -> dict[str, FieldValue]:
    """All fields of all events."""
    fields: dict[str, FieldValue] = {}
    for event in events(text):
        fields.update(event.fields)
    return fields


def test_vllm_of_two_replicas():
    assert together(VLLM) == {
        "engine": "vllm",
        "running": 82,
        "waiting": 12,
        "kv_usage": 0.9987,
        "preempted": 20,
        "gpu_blocks": 573,
        "block_tokens": 16,
        "pool_tokens": 9168,
        "utilization": 0.82,
    }
    assert [event.source.line for event in events(VLLM)] == [3, 7, 11, 15, 19, 19]


def test_old_vllm_and_a_counter_at_zero():
    assert together(OLD_VLLM) == {"engine": "vllm", "running": 0, "swapped": 2, "kv_usage": 0.4217, "preempted": 0}
    facts = derive_facts(Evidence(events=events(OLD_VLLM)))
    assert facts.value("engine.preemptions") == 0


def test_sglang_counts_ranks_of_one_pool_once():
    assert together(SGLANG) == {
        "engine": "sglang",
        "kv_usage": 0.28,
        "running": 162,
        "used_tokens": 123859,
        "waiting": 2826,
        "pool_tokens": 812890,
        "preempted": 48,
    }


def test_the_gauge_of_the_latest_step_says_nothing_at_zero():
    assert events("sglang:num_retracted_reqs 0.0\n") == ()
    (retracted,) = events("sglang:num_retracted_reqs 2.0\n")
    assert (retracted.kind, retracted.fields["retracted"]) == (EventKind.ENGINE_PREEMPTED, 2)


def test_tgi_and_llama_cpp():
    assert together(TGI) == {"engine": "tgi", "waiting": 3, "running": 8}
    assert together(LLAMA_CPP) == {
        "engine": "llama.cpp",
        "kv_usage": 0.63,
        "used_tokens": 1234,
        "running": 2,
        "waiting": 1,
    }


def test_quoted_indented_and_without_colons():
    for pasted in (
        VLLM.replace("vllm:", "vllm_"),
        "".join(f"> {line}" for line in VLLM.splitlines(keepends=True)),
        "".join(f"    {line}" for line in VLLM.splitlines(keepends=True)),
    ):
        assert together(pasted) == together(VLLM)


def test_what_is_no_number_and_prose_say_nothing():
    assert events('vllm:kv_cache_usage_perc{engine="0"} NaN\nvllm:num_requests_waiting{engine="0"} +Inf\n') == ()
    assert events("the gauge vllm:kv_cache_usage_perc 0.9 is what to watch\n") == ()
    assert events('vllm:kv_cache_usage_perc{engine="0"} 93.0\n') == ()
    assert events('vllm:cache_config_info{num_gpu_blocks="None",block_size="16"} 1.0\n') == ()


def test_later_scrapes_count_and_the_highest_use_is_kept(tmp_path):
    later = VLLM.replace("17.0", "19.0").replace("0.9987", "0.5")
    facts = derive_facts(Evidence(events=events(VLLM + later)))
    assert (facts.value("engine.preemptions"), facts.value("engine.kv_usage")) == (22, 0.9987)
    assert facts.value("engine.kv_pool_tokens") == 9168


def test_a_full_pool_is_slower_and_no_lack_of_memory(tmp_path):
    path = tmp_path / "metrics.txt"
    path.write_text(VLLM)
    diagnosis = diagnose([path])
    assert (diagnosis.verdict, diagnosis.findings[0].rule) == (Verdict.DEGRADED, "KV005")
    path.write_text(LLAMA_CPP.replace("0.63", "0.99"))
    diagnosis = diagnose([path])
    assert (diagnosis.verdict, diagnosis.findings[0].rule) == (Verdict.DEGRADED, "KV005")
    path.write_text(LLAMA_CPP)
    assert diagnose([path]).verdict is Verdict.NO_FAILURE


_LINES = sorted({line for text in (VLLM, OLD_VLLM, SGLANG, TGI, LLAMA_CPP) for line in text.splitlines()})


@given(st.lists(st.one_of(st.sampled_from(_LINES), st.text(max_size=80)), max_size=30))
@settings(max_examples=100)
def test_no_text_raises(lines):
    events("\n".join(lines))
