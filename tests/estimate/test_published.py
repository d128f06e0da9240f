"""GIVEN what servers printed as they started WHEN the same is estimated THEN weights, pool, tokens and requests agree.

Figures of public issues. Within 3 %; what a line gives to the byte must agree to the byte.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from estimate.files import LLAMA_8B, write_config, write_llama_8b_gguf
from estimate.model_table import config
from estimate.test_kv_cache import settings_of

from oomdoctor.estimate.activations import StepSize, inference_activations
from oomdoctor.estimate.answer import answer_of, pool_tokens
from oomdoctor.estimate.budget import ACTIVATIONS, WEIGHTS, budget_of
from oomdoctor.estimate.dtypes import element_type
from oomdoctor.estimate.engines import LLAMA_CPP, VLLM
from oomdoctor.estimate.hf_config import architecture_of
from oomdoctor.estimate.kv_cache import bytes_per_token, row_bytes
from oomdoctor.estimate.model_input import Model, read_model
from oomdoctor.estimate.settings import Settings

GIB, MIB = 1 << 30, 1 << 20


def close(estimated: float, printed: float, share: float = 0.03) -> bool:
    return abs(estimated - printed) <= share * printed


def llama_8b(folder: Path) -> Model:
    return read_model(write_config(folder))


def test_vllm_of_llama_8b_on_a_3090(tmp_path: Path) -> None:
    """vllm-project/vllm#10517: one prompt of 29000 tokens at once, 0.90 of 23.58 GiB, 0.35 GiB outside torch."""
    model = llama_8b(tmp_path)
    settings = Settings(
        VLLM,
        int(23.58 * GIB),
        29_000,
        1,
        fraction=0.90,
        step_tokens=29_000,
        overhead_bytes=int(0.35 * GIB),
        graph_bytes=0,
    )
    answer = answer_of(model, settings)
    assert close(model.weights_bytes, 14.9888 * GIB)
    assert close(answer.budget.part(ACTIVATIONS).bytes, (17.98 - 14.99) * GIB)
    assert close(answer.budget.pool_bytes, 2.89 * GIB)
    assert answer.pool_tokens is not None
    assert close(answer.pool_tokens, 23_648)
    assert close(answer.pool_tokens / 29_000, 0.82)
    assert answer.budget.verdict == "no"
    assert answer.max_context < 29_000


@pytest.mark.parametrize(("tokens", "peak_gib"), [(29_000, 17.98), (20_000, 17.06)])
def test_the_profile_run_grows_with_its_tokens(tmp_path: Path, tokens: int, peak_gib: float) -> None:
    """The same issue: the peak of torch's memory with prompts of two lengths."""
    model = llama_8b(tmp_path)
    found = inference_activations(model.architecture, VLLM, model.dtype, StepSize(tokens, 1), 1)
    assert close(model.weights_bytes + found.bytes, peak_gib * GIB)
    assert close(found.bytes, (peak_gib - 14.9888) * GIB)


@pytest.mark.parametrize(
    ("gib", "per_token", "tokens", "of", "times"),
    [
        # vllm-project/vllm#10517, its own pool.
        (2.89, 131_072, 23_648, 29_000, 0.82),
        # QwenLM/Qwen3#295: every head kept, 0.5 MiB a token; the reader works out 3.6 GiB.
        (3.6, 524_288, 7_344, 32_768, 0.22),
    ],
)
def test_a_pool_is_so_many_tokens(
    tmp_path: Path, gib: float, per_token: int, tokens: int, of: int, times: float
) -> None:
    heads = per_token // (32 * 2 * 128 * 2)
    model = read_model(write_config(tmp_path, num_key_value_heads=heads))
    found = pool_tokens(model, Settings(VLLM, 24 * GIB, of, 1), int(gib * GIB))
    assert found is not None
    assert found % 16 == 0
    assert close(found, tokens)
    assert abs(found / of - times) <= 0.01


def test_vllm_of_qwen3_32b_on_two_h100(tmp_path: Path) -> None:
    """llm-d/llm-d#787: 41.87 GiB of cache a worker, tensor parallel 2, 0.95 of 79.19 GiB, 1024 requests at once."""
    path = write_config(
        tmp_path, model_type="qwen3", num_hidden_layers=64, num_attention_heads=64, num_key_value_heads=8, head_dim=128,
        hidden_size=5120, intermediate_size=25_600, vocab_size=151_936,
    )  # fmt: skip
    settings = Settings(
        VLLM, int(79.19 * GIB), 40_960, 1024, fraction=0.95, tensor_parallel=2, step_tokens=8192, graph_bytes=0
    )
    assert close(budget_of(read_model(path), settings).pool_bytes, 41.87 * GIB)


QWEN3_235B = config("qwen3_moe", 94, 64, 4, 128, hidden_size=4096)


def test_sglang_of_qwen3_235b_on_four_h100() -> None:
    """vllm-project/vllm#21348: SGLang, tensor parallel 4: 367404 tokens, 8.23 GB of keys and as much of values."""
    architecture = architecture_of(QWEN3_235B, "config.json")
    settings = replace(settings_of("sglang"), tensor_parallel=4)
    assert close(bytes_per_token(architecture, settings) * 367_404, 2 * 8.23 * GIB, 0.001)


def test_vllm_of_qwen3_235b_on_four_h100() -> None:
    """The same issue: vLLM with 8.11 GiB for the cache of each card has 178880 tokens."""
    architecture = architecture_of(QWEN3_235B, "config.json")
    settings = replace(settings_of("vllm"), tensor_parallel=4)
    assert close(8.11 * GIB / bytes_per_token(architecture, settings), 178_880)


@pytest.mark.parametrize(
    ("layers", "tokens", "printed_mib"),
    [
        # abetlen/llama-cpp-python#1944: 16 layers on one card, the whole training context.
        (16, 163_840, 204_800),
        # An Ollama log of DeepSeek-R1: 61 layers, 8192 tokens; 23424 MiB of keys and 15616 of values.
        (61, 8_192, 39_040),
    ],
)
def test_llama_cpp_of_deepseek_before_it_kept_latent_vectors(layers: int, tokens: int, printed_mib: int) -> None:
    latent = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
    architecture = architecture_of(config("deepseek_v3", layers, 128, 128, hidden_size=7168, **latent), "config.json")
    settings = replace(settings_of("llama.cpp", "float16"), expanded=True)
    assert sum(row_bytes(cache, settings) for cache in architecture.caches) * tokens == printed_mib * MIB


def test_llama_cpp_of_apertus_70b_on_two_cards() -> None:
    """llama.cpp b6816: 41 of 80 layers on the first card, 20480 tokens: a KV buffer of 3280.00 MiB."""
    architecture = architecture_of(config("apertus", 80, 64, 8, hidden_size=8192), "config.json")
    rows = [row_bytes(cache, settings_of("llama.cpp", "float16")) for cache in architecture.caches]
    assert sum(rows[:41]) * 20_480 == 3280 * MIB


def test_llama_cpp_s_compute_buffer() -> None:
    """An output row for each token of a step, and the residual stream."""
    architecture = architecture_of(LLAMA_8B, "config.json")
    found = inference_activations(architecture, LLAMA_CPP, element_type("float16"), StepSize(512, 1), 1)
    assert found.bytes == 512 * (128_256 + 4096) * 4


def test_llama_cpp_of_llama_8b_keeps_the_input_embedding_on_the_host(tmp_path: Path) -> None:
    """Start-up lines of Ollama's issues: CUDA0 4403.49 MiB and CPU_Mapped 281.81 MiB, 33 of 33 layers on the card."""
    write_llama_8b_gguf(tmp_path / "m.gguf")
    model = read_model(tmp_path / "m.gguf")
    assert round(model.weights_bytes / MIB, 2) == round(4403.49 + 281.81, 2)
    assert round(budget_of(model, Settings(LLAMA_CPP, 24 * GIB, 8192, 1)).part(WEIGHTS).bytes / MIB, 2) == 4403.49
    assert budget_of(model, Settings(VLLM, 24 * GIB, 8192, 1)).part(WEIGHTS).bytes == model.weights_bytes
