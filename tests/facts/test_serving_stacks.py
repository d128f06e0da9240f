# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN the stack of a serving engine as it loads, sets its pool aside or decodes WHEN it is diagnosed THEN the first
cause is what that place is for."""

from __future__ import annotations

import pytest

from oomdoctor.diagnose.pipeline import diagnose

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 700.00 MiB. GPU 0 has a total capacity of 44.40 GiB"
    " of which 300.00 MiB is free. Including non-PyTorch memory, this process has 44.00 GiB memory in use. Of the"
    " allocated memory 42.90 GiB is allocated by PyTorch, and 400.00 MiB is reserved by PyTorch but unallocated."
)
POOL = '  File "/v/site-packages/vllm/v1/worker/gpu_model_runner.py", line 9, in _allocate_kv_cache_tensors\n    raw = torch.zeros(size, dtype=torch.int8)'
SGLANG = (
    '  File "/v/site-packages/sglang/srt/mem_cache/memory_pool.py", line 9, in _create_buffers\n    torch.zeros(shape)'
)
REPACK = (
    '  File "/v/site-packages/vllm/x/layer.py", line 9, in process_weights_after_loading\n    new = torch.empty_like(w)'
)
DIFFUSERS = '  File "/v/site-packages/diffusers/pipelines/pipeline_utils.py", line 9, in to\n    module.to(device)'
LAYERS = '  File "/v/site-packages/vllm/model_executor/models/qwen9.py", line 9, in __init__\n    self.mlp = Mlp('
CLIP = '  File "/v/site-packages/vllm/model_executor/models/clip.py", line 9, in forward\n    x = self.fc(x)'


@pytest.mark.parametrize(
    ("frame", "cause"),
    [
        (POOL, "kv-pool-oversized"),
        (SGLANG, "kv-pool-oversized"),
        (REPACK, "weights-exceed-device"),
        (DIFFUSERS, "weights-exceed-device"),
        (LAYERS, "weights-exceed-device"),
        (CLIP, "encoder-peak"),
    ],
)
def test_the_place_of_the_failure(tmp_path, frame, cause):
    log = tmp_path / "serve.log"
    log.write_text(f"Traceback (most recent call last):\n{frame}\n{OOM}\n", encoding="utf-8")
    first = diagnose([log]).findings[0]
    assert (first.cause, first.confidence.value) == (cause, "likely")


@pytest.mark.parametrize(("frame", "cause"), [(LAYERS, "weights-exceed-device"), (CLIP, "encoder-peak")])
def test_a_log_that_ends_in_the_traceback_leads_to_no_more_than_possible(tmp_path, frame, cause):
    log = tmp_path / "serve.log"
    log.write_text(f"INFO starting\nTraceback (most recent call last):\n{frame}\n", encoding="utf-8")
    found = diagnose([log])
    assert found.verdict.value == "undetermined"
    assert [(one.cause, one.confidence.value) for one in found.findings[:1]] == [(cause, "possible")]
    assert any("the error itself" in gap.what for gap in found.missing)


def test_one_process_in_a_cut_message_may_be_the_program_itself(tmp_path):
    log = tmp_path / "serve.log"
    cut = OOM.split(" Including")[0] + " Process 88 has 44.00 GiB memory in use. Of the al"
    log.write_text(f"{cut}\n", encoding="utf-8")
    assert all(finding.cause != "other-process" for finding in diagnose([log]).findings)


def test_terabytes_may_be_the_square_of_a_long_sequence(tmp_path):
    log = tmp_path / "serve.log"
    log.write_text(OOM.replace("700.00 MiB", "1700.25 GiB") + "\n", encoding="utf-8")
    findings = diagnose([log]).findings
    assert findings[0].cause == "attention-quadratic"
    assert "impossible-size" in {one.cause for one in findings}
    assert {one.confidence.value for one in findings} == {"possible"}


@pytest.mark.parametrize(("frame", "option"), [(POOL, "--gpu-memory-utilization"), (SGLANG, "--mem-fraction-static")])
def test_the_engine_of_a_stack_decides_the_setting(tmp_path, frame, option):
    log = tmp_path / "serve.log"
    log.write_text(f"Traceback (most recent call last):\n{frame}\n{OOM}\n", encoding="utf-8")
    first = diagnose([log]).findings[0]
    said = " ".join(f"{one.do} {one.set}" for one in first.remedies)
    assert option in said
    assert "vLLM, SGLang, TGI" not in said


def test_the_loop_over_a_workflows_nodes_collects_no_predictions(tmp_path):
    log = tmp_path / "comfy.log"
    log.write_text(
        "Traceback (most recent call last):\n"
        '  File "/opt/ComfyUI/execution.py", line 9, in process_inputs\n'
        "    results.append(getattr(obj, func)(**inputs))\n"
        "torch.OutOfMemoryError: Allocation on device \n\nGot an OOM, unloading all loaded models.\n",
        encoding="utf-8",
    )
    causes = [one.cause for one in diagnose([log]).findings]
    assert causes[0] == "activation-peak"
    assert "eval-accumulation" not in causes


SAMPLING = (
    '  File "/v/site-packages/vllm/v1/sample/sampler.py", line 9, in forward\n    logits = logits.to(torch.float32)'
)
SGLANG_SAMPLING = '  File "/v/site-packages/sglang/srt/layers/sampler.py", line 9, in forward\n    probs = torch.softmax(logits, dim=-1)'


@pytest.mark.parametrize("frame", [SAMPLING, SGLANG_SAMPLING])
def test_the_sampler_works_on_tokens_times_vocabulary(tmp_path, frame):
    log = tmp_path / "serve.log"
    log.write_text(f"Traceback (most recent call last):\n{frame}\n{OOM}\n", encoding="utf-8")
    first = diagnose([log]).findings[0]
    assert (first.cause, first.confidence.value) == ("logits", "likely")


@pytest.mark.parametrize("end", ["CUDA out of", "HIP out", "CUDA", ""])
def test_an_error_cut_in_its_first_words(tmp_path, end):
    log = tmp_path / "serve.log"
    frame = '  File "attn.py", line 4, in unfused_attention\n    scores = torch.matmul(q, k.transpose(-1, -2))'
    text = f"Traceback (most recent call last):\n{frame}\ntorch.cuda.OutOfMemoryError: {end}".rstrip()
    log.write_text(text, encoding="utf-8")
    assert diagnose([log]).findings[0].cause == "attention-quadratic"


@pytest.mark.parametrize(
    ("before", "cause"),
    [
        ("Exception during initialization: ", "weights-exceed-device"),
        ("while running MatMul node. ", "activation-peak"),
    ],
)
def test_what_onnx_runtime_was_doing(tmp_path, before, cause):
    log = tmp_path / "serve.log"
    text = f"onnx runtime error 6: {before}bfc_arena.cc:376 AllocateRawInternal(size_t, bool)\nFailed to allocate memory for requested buffer of size 536870912"
    log.write_text(f"{text}\n", encoding="utf-8")
    assert diagnose([log]).findings[0].cause == cause


@pytest.mark.parametrize("clock", ["02-03 03:43:49", "02-03 03:44:49"])
def test_the_newest_lines_first(tmp_path, clock):
    error = OOM.replace(
        "torch.OutOfMemoryError", "engine.py:190 2024-02-03 03:44:03,976 Error initializing vLLM engine"
    )
    text = f"{error}\nINFO {clock} model_runner.py:625] Capturing the model for CUDA graphs. This may lead to unexpected consequences"
    log = tmp_path / "serve.log"
    log.write_text(f"{text}\n", encoding="utf-8")
    assert (diagnose([log]).findings[0].cause == "graph-capture") is (clock == "02-03 03:43:49")


@pytest.mark.parametrize("split", ["", "in split "])
def test_exllama_found_no_layout(tmp_path, split):
    log = tmp_path / "serve.log"
    log.write_text(f"RuntimeError: Insufficient VRAM {split}for model and cache\n", encoding="utf-8")
    assert diagnose([log]).findings[0].cause == "weights-exceed-device"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("Not enough resources to load the model with the current settings", "weights-exceed-device"),
        ("memory estimate unavailable for this model", "estimator-error"),
    ],
)
def test_the_guard_of_lm_studio(tmp_path, text, cause):
    log = tmp_path / "serve.log"
    log.write_text(f"{text}\n", encoding="utf-8")
    assert diagnose([log]).findings[0].cause == cause


MODULES = '  File "/v/site-packages/exllamav9/mlp.py", line 6, in load\n    self.up[e].load()'
COMPONENTS = '  File "/v/site-packages/server/loader/component.py", line 6, in load\n    part = self.load_customized('
PADDING = '  File "/v/site-packages/flash_attn/bert_padding.py", line 1, in forward\n    return torch.gather('


@pytest.mark.parametrize("frame", [MODULES, COMPONENTS])
def test_a_part_that_loads_its_parts_loads_weights(tmp_path, frame):
    log = tmp_path / "serve.log"
    log.write_text(
        f"Traceback (most recent call last):\n{frame}\ntorch.OutOfMemoryError: CUDA out of memory.\n", encoding="utf-8"
    )
    first = diagnose([log]).findings[0]
    assert (first.cause, first.confidence.value) == ("weights-exceed-device", "likely")


def test_taking_the_padding_out_makes_no_scores(tmp_path):
    log = tmp_path / "serve.log"
    error = OOM.replace("700.00 MiB", "90.00 GiB").replace("42.90 GiB is alloc", "5.00 GiB is alloc")
    log.write_text(f"Traceback (most recent call last):\n{PADDING}\n{error}\n", encoding="utf-8")
    assert diagnose([log]).findings[0].cause == "activation-peak"


PLAN = 'time=2025-01-02T03:04:05Z level=INFO source=memory.go:3 msg="offload to cuda" layers.model=65 layers.offload=20 memory.available="[9.7 GiB]" memory.required.full="40.0 GiB" memory.required.partial="9.5 GiB"'
OLD_PLAN = "2023/10/02 03:30:51 llama.go:252: 5231 MiB VRAM available, loading up to 22 GPU layers"


@pytest.mark.parametrize("plan", [PLAN, OLD_PLAN])
def test_a_plan_that_a_step_went_beyond(tmp_path, plan):
    log = tmp_path / "serve.log"
    log.write_text(f"{plan}\nCUDA error: out of memory\n", encoding="utf-8")
    first = diagnose([log]).findings[0]
    assert (first.cause, first.confidence.value) == ("estimator-error", "likely")


def test_ollamas_first_runner_is_known_by_its_own_words(tmp_path):
    log = tmp_path / "serve.log"
    text = "CUDA error 2 at /go/src/ggml-cuda.cu:5000: out of memory\n2023/10/02 03:30:54 llama.go:320: llama runner exited with error: exit status 1"
    log.write_text(f"{text}\n", encoding="utf-8")
    assert diagnose([log]).findings[0].cause == "estimator-error"


def test_a_profile_run_of_images(tmp_path):
    log = tmp_path / "serve.log"
    text = (
        "INFO 11-22 07:19:26 enc_dec_model_runner.py:301] Starting profile run for multi-modal models.\n"
        'Traceback (most recent call last):\n  File "/v/site-packages/vllm/engine/llm_engine.py", line 4, in init\n'
        "    self.model_executor.determine_num_available_blocks()\ntorch.OutOfMemoryError: CUDA out of memory."
    )
    log.write_text(f"{text}\n", encoding="utf-8")
    first = diagnose([log]).findings[0]
    assert (first.cause, first.confidence.value) == ("encoder-peak", "likely")


def test_a_node_that_ran_out_is_told_before_its_equal_workers(tmp_path):
    log = tmp_path / "serve.log"
    text = (
        "7001   21.05   ray::Rollout\n7002   21.01   ray::Rollout\n7003   20.98   ray::Rollout\n7004   20.97   ray::Rollout\n"
        "Refer to the documentation on how to address the out of memory issue: https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html."
    )
    log.write_text(f"{text}\n", encoding="utf-8")
    first = diagnose([log]).findings[0]
    assert (first.cause, first.confidence.value) == ("host-ram", "likely")
