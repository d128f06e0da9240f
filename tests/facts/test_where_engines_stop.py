# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN what an engine prints as it stops, alone or cut short WHEN it is diagnosed THEN the first cause is what it says."""

from __future__ import annotations

import pytest

from oomdoctor.diagnose.pipeline import diagnose

HEAD = "Traceback (most recent call last):\n"
FULL = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 40.00 MiB. GPU 0 has a total capacity of 31.50 GiB of which 21.00 MiB is free"


def first(tmp_path, text, command=None):
    log = tmp_path / "serve.log"
    log.write_text(f"{text}\n", encoding="utf-8")
    found = diagnose([log]).findings
    return (found[0].cause, found[0].confidence.value) if found else None


def frame(place, function, code=""):
    return f'  File "/v/site-packages/{place}.py", line 9, in {function}\n' + (f"    {code}\n" if code else "")


@pytest.mark.parametrize(
    ("text", "causes"),
    [
        ("llama_model_load: error loading model: unable to allocate backend buffer", {"weights-exceed-device"}),
        ("llama_model_load: error loading model: unable to allocate ROCm1 buffer", {"weights-exceed-device"}),
        (
            "llama_init_from_model: llama_kv_cache_init() failed for self-attention cache",
            {"default-context", "kv-pool-oversized"},
        ),
        (
            "whisper_init_state: whisper_kv_cache_init() failed for self-attention cache",
            {"default-context", "kv-pool-oversized"},
        ),
        ("RuntimeError: No enough gpu memory for kv cache.", {"kv-pool-zero"}),
        ("AssertionError: No enough gpu memory for state cache. Please reduce max_batch_size.", {"kv-pool-zero"}),
        (
            "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the quantized model.",
            {"weights-exceed-device"},
        ),
        (
            "RuntimeError: CUDA out of memory occurred when warming up pooler (task='classify') with 512 dummy requests. Please try lowering `max_num_seqs`",
            {"prefill-activation"},
        ),
        ("graph.rs: cuGraphInstantiate failed: CUDA_ERROR_OUT_OF_MEMORY", {"graph-capture"}),
        (
            'replay failed: Err(cuGraphLaunch failed: DriverError(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"))',
            {"graph-capture"},
        ),
        (
            "RuntimeError: Aborted due to the lack of CPU swap space. Please increase the swap space to avoid this error.",
            {"kv-pressure"},
        ),
        (
            "[TP1] Decode batch. #running-req: 20, #token: 412345, token usage: 0.97",
            {"kv-pressure"},
        ),
        (
            "Error: llama runner process has terminated: signal: aborted (core dumped) error:failed to create context with model '/m/blobs/sha256-1'",
            {"estimator-error"},
        ),
        (
            f"{HEAD}{frame('vllm/engine/async_llm_engine', 'run_engine_loop')}ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
            {"host-ram"},
        ),
        (
            "  5: mlc::llm::serve::ModelImpl::LoadParams()\n        at /src/model.cc:77\nInternalError: Check failed: (__e == VK_SUCCESS) is false: Vulkan Error, code=-2: VK_ERROR_OUT_OF_DEVICE_MEMORY",
            {"weights-exceed-device"},
        ),
        (
            "OutOfMemoryError: CUDA out of memory. Tried to allocate 61.50 GiB. GPU 0 has a total capacty of 23.60 GiB of which 11.25 GiB is free. Process 7 has 12.30 GiB memory in use. Of the all",
            {"attention-quadratic"},
        ),
    ],
)
def test_a_statement_alone(tmp_path, text, causes):
    assert first(tmp_path, text)[0] in causes


@pytest.mark.parametrize(
    ("place", "function", "code"),
    [
        ("vllm/model_executor/models/qwen9_vl", "get_input_embeddings", "x = merge_multimodal_embeddings(ids, e)"),
        ("vllm/model_executor/models/minicpmx", "get_embedding", "v = self.get_vision_hidden_states(images)"),
        ("vllm/model_executor/models/other_vl", "_process_video_input", "return self.tower(video)"),
        ("sglang/srt/models/some_vl", "get_image_feature", "return self.proj(pixels)"),
        ("sglang/srt/managers/mm_utils", "general_mm_embed_routine", "embeds = embed_mm_inputs(inputs)"),
        ("transformers/models/x/modeling_x", "get_audio_features", "out = self.enc(mel)"),
    ],
)
@pytest.mark.parametrize("end", ["", FULL])
def test_calls_that_see_or_hear_are_the_encoders(tmp_path, place, function, code, end):
    assert first(tmp_path, f"{HEAD}{frame(place, function, code)}{end}")[0] == "encoder-peak"


@pytest.mark.parametrize(
    ("before", "cause"),
    [
        ("INFO Loading model weights took 3.2500 GB\n", "prefill-activation"),
        (
            "INFO Loading model weights took 3.2500 GB\nINFO Starting profile run for multi-modal models.\n",
            "encoder-peak",
        ),
    ],
)
@pytest.mark.parametrize("function", ["_init_engine", "_initialize_kv_caches"])
def test_a_cut_stack_of_the_start_goes_on_from_the_last_line(tmp_path, before, cause, function):
    text = f"{before}{HEAD}{frame('vllm/engine/llm_engine', function)}"
    assert first(tmp_path, text) == (cause, "possible")


@pytest.mark.parametrize("function", ["profile_run", "_dummy_run", "determine_available_memory"])
def test_a_log_that_ends_in_the_profile_run(tmp_path, function):
    text = f"{HEAD}{frame('vllm/v1/worker/gpu_worker', function)}"
    assert first(tmp_path, text) == ("prefill-activation", "possible")


@pytest.mark.parametrize(
    ("place", "function"),
    [
        ("vllm/v1/engine/core", "_process_engine_step"),
        ("vllm/engine/multiprocessing/engine", "run_engine_loop"),
        ("sglang/srt/managers/scheduler", "event_loop_overlap"),
    ],
)
def test_in_the_engines_loop_it_had_started(tmp_path, place, function):
    assert first(tmp_path, f"{HEAD}{frame(place, function)}{FULL}")[0] == "runtime-unprofiled"


@pytest.mark.parametrize(("half", "cause"), [("decoding", "decoder-peak"), ("encoding", "encoder-peak")])
def test_a_fallback_to_tiles_that_ran_out_again(tmp_path, half, cause):
    text = (
        f"Warning: Ran out of memory when regular VAE {half}, retrying with tiled VAE {half}.\n"
        "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)"
    )
    assert first(tmp_path, text)[0] == cause


def test_a_sort_of_the_vocabulary_behind_a_clouds_prefix(tmp_path):
    prefix = "ERROR 2025-03-07T21:49:33.000123Z [resource.labels.containerName: llm] (EngineCore pid=4) ERROR 03-07 21:49:33 [core.py:9] "
    lines = ("logits_sort, logits_idx = logits.sort(dim=-1)", f"{FULL}. 28.00 GiB is allocated by PyTorch.")
    assert first(tmp_path, "\n".join(prefix + line for line in lines))[0] == "logits"
