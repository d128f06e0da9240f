"""GIVEN frames, options and an engine's figures WHEN facts are derived THEN they say what was done, and no more."""

from __future__ import annotations

import pytest
from given import event, facts_of, gib, oom, traceback

from oomdoctor.model.events import EventKind


@pytest.mark.parametrize(
    ("frame", "operation"),
    [
        (("lib/te/attention.py", 4841, "forward", "matmul_result = torch.empty("), "attention-scores"),
        (("net/mixer.py", 9, "forward", "attn_scores = q.new_zeros(b, h, n, n)"), "attention-scores"),
        (("fit.py", 7, "start", "session.run(tf.compat.v1.global_variables_initializer())"), "weights"),
        (("vllm/v1/sample/ops/topk_topp_sampler.py", 90, "forward", "logits_sort, i = logits.sort(-1)"), "sampler"),
        (("fit.py", 20, "report", "score(results, all_labels, all_masks)"), "collect"),
        (("fit.py", 20, "sync", "dist.all_gather(results, x)"), "communication"),
        (("comfy/ldm/flux/math.py", 40, "rope", "out = freqs[..., 0] * x[..., 0]"), "activation"),
        (("comfy/model_management.py", 40, "load", "self.model.to(self.device)"), "weights"),
    ],
)
def test_what_asked_for_the_memory(frame, operation):
    assert facts_of(oom(), traceback(frame)).value("activity.operation") == operation


@pytest.mark.parametrize(
    ("frame", "phase"),
    [
        (
            ("vllm/worker/cache_engine.py", 49, "__init__", "self.cache = self._allocate_kv_cache(n)"),
            "kv-allocation",
        ),
        (("fit.py", 7, "start", "session.run(tf.compat.v1.global_variables_initializer())"), "load"),
        (("core.py", 842, "start", "self.model_runner._dummy_sampler_run(hidden_states)"), "warm-up"),
    ],
)
def test_the_phase(frame, phase):
    assert facts_of(oom(), traceback(frame)).value("activity.phase") == phase


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("answer, history = model.chat(tokenizer, text, history=history)", True),
        ("for part in model.stream_chat(tokenizer, query, history=self.history):", True),
        ("answer = client.chat(text)", None),
        ("history = model.fit(x, y)", None),
    ],
)
def test_a_conversation_is_kept(code, kept):
    assert facts_of(oom(), traceback(("a.py", 1, "main", code))).value("activity.conversation") is kept


def test_a_front_end_for_chats_says_whose_error_it_is():
    assert facts_of(oom(wrapped_by="SillyTavern ran out of memory")).value("activity.conversation") is True
    assert facts_of(oom(wrapped_by="The trainer ran out of memory")).value("activity.conversation") is None


@pytest.mark.parametrize(
    ("command", "count"),
    [
        ("python translate.py --num-beams 5", 5),
        ("python translate.py --beam-size=4", 4),
        ("python translate.py --num-beams 1", None),
        ("python train.py -n 8", None),
    ],
)
def test_sequences_that_a_request_keeps(command, count):
    assert facts_of(oom(), command=command).value("activity.sequences_per_request") == count


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("p = SamplingParams(temperature=0.8, n=16, max_tokens=64)", 16),
        ("out = model.generate(x, num_beams=4, num_return_sequences=2)", 4),
        ("data = make(n=16)", None),
    ],
)
def test_sequences_in_code(code, count):
    found = facts_of(oom(), event(EventKind.CODE, code=code))
    assert found.value("activity.sequences_per_request") == count


def test_an_engines_plan_and_a_context_it_could_not_make():
    plan = event(EventKind.ENGINE_FIT, engine="ollama", kv_bytes=gib(31), projected_bytes=gib(35))
    failed = event(EventKind.ENGINE_STEP_FAILED, engine="ollama", step="runner", inner="error:failed to create context")
    found = facts_of(plan, failed)
    assert found.value("engine.kv_planned_bytes") == gib(31)
    assert found.value("engine.all_planned_bytes") == gib(35)
    assert found.value("engine.context_refused") is True
    assert facts_of(plan).value("engine.context_refused") is None


def test_a_cache_in_host_memory_is_a_cache():
    refused = event(EventKind.HOST_ALLOCATION_FAILED, allocator="llama.cpp", requested_bytes=gib(128), purpose="kv")
    found = facts_of(refused)
    assert found.value("engine.buffer_purpose") == "kv"
    assert found.value("engine.kv_refused_bytes") == gib(128)
    assert found.value("host.memory_error") is True


@pytest.mark.parametrize(("version", "share"), [("0.19.1", 0.9), ("0.20.0", 0.92), ("0.1.dev42", None), (None, None)])
def test_vllms_share_where_nothing_else_is_set(version, share):
    start = event(EventKind.ENGINE_START, engine="vllm", version=version)
    assert facts_of(start, command="vllm serve m").value("engine.utilization") == share
    assert facts_of(start).value("engine.utilization") is None  # how it was started is not seen
    assert facts_of(start, command="vllm serve m --gpu-memory-utilization 0.5").value("engine.utilization") == 0.5


def test_graphs_that_the_engine_estimated_are_in_its_budget():
    profile = event(EventKind.ENGINE_PROFILE, engine="vllm", graph_estimate_bytes=gib(1))
    assert facts_of(profile).value("engine.graphs_in_budget") is True


def test_ranks_by_the_launch_line():
    assert facts_of(oom(rank=0), command="torchrun --nproc_per_node=8 train.py").value("ranks.count") == 8
    assert facts_of(oom(rank=0), command="accelerate launch --num_processes 4 t.py").value("ranks.count") == 4
    assert facts_of(oom(rank=0), command="torchrun --nproc-per-node gpu train.py").value("ranks.count") is None


@pytest.mark.parametrize(
    ("frame", "operation"),
    [
        (("engine.py", 8, "_configure_zero_optimizer", "optimizer = make("), "optimizer-state"),
        (("zero.py", 8, "__init__", "self.initialize_optimizer_states()"), "optimizer-state"),
        (("resume.py", 8, "_load_optimizer_and_scheduler", "blob = torch.load(path)"), "checkpoint"),
        (("graph.py", 8, "learn", "attention = torch.matmul(h, h.transpose(0, 1))"), "attention-scores"),
        (("graph.py", 8, "pairs", "both = torch.cat([left, right], dim=-1)"), "activation"),
        (("graph.py", 8, "pairs", "both = list(left)"), None),
        (("fit.py", 8, "collect", "kept = logits if kept is None else torch.cat((kept, logits))"), "collect"),
        (("fit.py", 8, "main", "model = FSDP("), "weights"),
        (("x/fsdp/_init_utils.py", 8, "_init_param_handle_from_module", "_init_param_handle_from_params("), "weights"),
    ],
)
def test_more_of_what_asked_for_the_memory(frame, operation):
    assert facts_of(oom(), traceback(frame)).value("activity.operation") == operation


@pytest.mark.parametrize(
    ("frame", "makes"),
    [
        (("/x/torch/cuda/__init__.py", 302, "_lazy_init", "torch._C._cuda_init()"), True),
        (("/x/torch/cuda/__init__.py", 420, "set_device", "torch._C._cuda_setDevice(device)"), True),
        (("fit.py", 3, "main", "x = x.cuda()"), None),
    ],
)
def test_the_first_touch_of_a_device(frame, makes):
    assert facts_of(oom(), traceback(frame)).value("activity.makes_context") is makes


@pytest.mark.parametrize(
    ("message", "host"),
    [
        ("std::bad_alloc: CUDA error at: rmm/mr/device/cuda_memory_resource.hpp:62: cudaErrorMemoryAllocation", None),
        ("Unable to allocate 9.1 GiB for an array with shape (9, 9)", True),
        (None, True),
    ],
)
def test_a_memory_error_of_a_device_is_not_the_hosts(message, host):
    error = event(EventKind.EXCEPTION, exception_type="MemoryError", message=message, complete=True)
    assert facts_of(error).value("host.memory_error") is host
