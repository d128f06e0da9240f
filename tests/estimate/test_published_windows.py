"""GIVEN what servers of models with windows or states printed WHEN the same is estimated THEN it agrees within 3 %.

vLLM prints how many requests of the longest length its pool holds, and, since 0.21, tokens that are the same times that
length (before, blocks of one of its groups). What is printed is rounded: the bytes of the pool to 0.01 GiB.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from estimate.model_table import config
from estimate.test_kv_cache import settings_of

from oomdoctor.estimate.answer import pool_tokens
from oomdoctor.estimate.dtypes import element_type
from oomdoctor.estimate.engines import VLLM
from oomdoctor.estimate.hf_config import architecture_of
from oomdoctor.estimate.kv_cache import bytes_per_token, row_bytes, sequence_bytes
from oomdoctor.estimate.model_input import Model
from oomdoctor.estimate.settings import Settings

GIB, MIB = 1 << 30, 1 << 20
CLOSE = 0.001
"""Closer than the 3 % that are asked for: a rule that is wrong by one page in a hundred shows."""


def five_to_one(layers: int) -> list[str]:
    return (["sliding_attention"] * 5 + ["full_attention"]) * (layers // 6)


GEMMA_3_1B = config("gemma3_text", 26, 4, 1, 256, hidden_size=1152, sliding_window=512, sliding_window_pattern=6)
GEMMA_3_270M = config("gemma3_text", 18, 4, 1, 256, hidden_size=640, sliding_window=512, layer_types=five_to_one(18))
GEMMA_4_26B = {
    "model_type": "gemma4",
    "text_config": {
        **config("gemma4_text", 30, 16, 8, 256, hidden_size=2816, sliding_window=1024, layer_types=five_to_one(30)),
        "global_head_dim": 512, "num_global_key_value_heads": 2, "attention_k_eq_v": True, "num_kv_shared_layers": 0,
        "hidden_size_per_layer_input": 0,
    },
}  # fmt: skip
GEMMA_4_E4B = {
    "model_type": "gemma4",
    "text_config": {
        **config("gemma4_text", 42, 8, 2, 256, hidden_size=2560, sliding_window=512, layer_types=five_to_one(42)),
        "global_head_dim": 512, "num_kv_shared_layers": 18, "hidden_size_per_layer_input": 256,
    },
}  # fmt: skip
GPT_OSS_120B = config("gpt_oss", 36, 64, 8, 64, hidden_size=2880, sliding_window=128)
MIMO_V2_FLASH = config(
    "mimo_v2_flash", 48, 64, 4, 192, hidden_size=4096, v_head_dim=128, swa_num_key_value_heads=8, sliding_window=128,
    layer_types=["full_attention" if layer % 6 == 5 or layer == 0 else "sliding_attention" for layer in range(48)],
)  # fmt: skip


def lfm2(convolutions: int, attention: int) -> dict[str, Any]:
    kinds = ["conv"] * convolutions + ["full_attention"] * attention
    return config("lfm2", len(kinds), 32, 8, 64, hidden_size=2048, conv_L_cache=3, layer_types=kinds)


@pytest.mark.parametrize(
    ("known", "gib", "length", "step", "dtype", "requests"),
    [
        # Log of 0.13.0 with google/gemma-3-1b-it, 16 January 2026, 14:20:25, an `LLM`: 26 layers take pages of 28.
        pytest.param(GEMMA_3_1B, 25.39, 2048, 8192, "bfloat16", 461.21, id="gemma-3-1b"),
        # Logs of 0.19.2rc1 with RedHatAI/gemma-4-26B-A4B-it-NVFP4 on one card, 19 April 2026, 11:07:19 and 11:25:25.
        pytest.param(GEMMA_4_26B, 8.29, 98_304, 2048, "fp8", 6.73, id="gemma-4-26b, small steps"),
        pytest.param(GEMMA_4_26B, 9.08, 98_304, 8192, "fp8", 5.00, id="gemma-4-26b, large steps"),
        # Notes on LFM2-1.2B beside Qwen3-0.6B, six starts with one state a request.
        pytest.param(lfm2(10, 6), 4.42, 1024, 2048, "bfloat16", 365.38, id="lfm2-1.2b, 1024"),
        pytest.param(lfm2(10, 6), 7.46, 1024, 2048, "bfloat16", 617.24, id="lfm2-1.2b, 1024, more"),
        pytest.param(lfm2(10, 6), 4.42, 2048, 2048, "bfloat16", 185.50, id="lfm2-1.2b, 2048"),
        pytest.param(lfm2(10, 6), 7.46, 2048, 2048, "bfloat16", 313.37, id="lfm2-1.2b, 2048, more"),
        pytest.param(lfm2(10, 6), 4.42, 4096, 2048, "bfloat16", 93.47, id="lfm2-1.2b, 4096"),
        pytest.param(lfm2(10, 6), 7.46, 4096, 2048, "bfloat16", 157.90, id="lfm2-1.2b, 4096, more"),
        # Notes on LFM2.5-2.6B, "Add 2 padding layers, may waste at most 9.09% KV cache memory".
        pytest.param(lfm2(22, 8), 7.46, 32_768, 2048, "bfloat16", 14.90, id="lfm2.5-2.6b"),
    ],
)
def test_vllm_s_pool_holds_so_many_requests(
    known: dict[str, Any], gib: float, length: int, step: int, dtype: str, requests: float
) -> None:
    each = sequence_bytes(architecture_of(known, "config.json"), settings_of("vllm", dtype, step_tokens=step), length)
    assert gib * GIB / each == pytest.approx(requests, rel=2 * CLOSE)


def test_a_shorter_length_of_the_same_server() -> None:
    """Changes of one Kaggle notebook, gpt-oss-120b on 0.11.2: 7.77 requests of 81920 tokens, 6.51 of 98304."""
    settings = settings_of("vllm", "fp8", step_tokens=2048)
    known = architecture_of(GPT_OSS_120B, "config.json")
    found = sequence_bytes(known, settings, 98_304) / sequence_bytes(known, settings, 81_920)
    assert found == pytest.approx(7.77 / 6.51, rel=0.0015)


def test_vllm_s_tokens_are_requests_times_the_length() -> None:
    """The notes on LFM2.5-2.6B once more: 488,404 tokens."""
    kind = element_type("bfloat16")
    model = Model(Path("config.json"), architecture_of(lfm2(22, 8), "config.json"), kind, 5 * GIB, "given", None)
    settings = Settings(VLLM, 24 * GIB, 32_768, 1, step_tokens=2048, prefix_states=False)
    assert pool_tokens(model, settings, int(7.46 * GIB)) == pytest.approx(488_404, rel=CLOSE)


@pytest.mark.parametrize(
    ("known", "dtype", "ranks", "share", "tokens", "gib"),
    [
        # sgl-project/sglang#15464: tensor parallel 4, windows and the rest of 1,496,958 tokens each.
        pytest.param(MIMO_V2_FLASH, "bfloat16", 4, Fraction(1), 1_496_958, 77.63, id="mimo-v2-flash"),
        # Journal of a DGX Spark, 5 September 2026: google/gemma-4-26B-A4B-it, windows of 171,008 tokens.
        pytest.param(GEMMA_4_26B, "bfloat16", 1, Fraction(8, 10), 213_761, 36.69, id="gemma-4-26b"),
        # The same: google/gemma-4-E4B-it, windows of 798,276. Its 18 layers that read others' keys have rows as well.
        pytest.param(GEMMA_4_E4B, "bfloat16", 1, Fraction(8, 10), 997_846, 79.94, id="gemma-4-e4b"),
        # A benchmark of Gemma 4 26B with FP8 keys and values: windows of 29,664.
        pytest.param(GEMMA_4_26B, "fp8", 1, Fraction(8, 10), 37_081, 3.18, id="gemma-4-26b, fp8"),
    ],
)
def test_sglang_s_two_pools(
    known: dict[str, Any], dtype: str, ranks: int, share: Fraction, tokens: int, gib: float
) -> None:
    settings = settings_of("sglang", dtype, tensor_parallel=ranks, window_share=share)
    found = bytes_per_token(architecture_of(known, "config.json"), settings) * tokens
    assert found / GIB == pytest.approx(gib, abs=0.006)


def test_sglang_s_keys_and_values_of_windows() -> None:
    """sgl-project/sglang#18039: tensor parallel 4, 300,288 tokens in windows: 8.38 GiB of keys, 5.59 of values."""
    known, settings = architecture_of(MIMO_V2_FLASH, "config.json"), settings_of("sglang", tensor_parallel=4)
    found = sum(row_bytes(each, settings) for each in known.caches if getattr(each, "window", None)) * 300_288
    assert found / GIB == pytest.approx(8.38 + 5.59, abs=0.011)


@pytest.mark.parametrize(
    ("sequences", "context", "mib"), [(1, 4096, 27), (2, 4096, 42), (4, 4096, 72), (1, 8192, 39), (2, 8192, 54)]
)
def test_llama_cpp_s_windows(sequences: int, context: int, mib: int) -> None:
    """unslothai/unsloth#5225, what llama-server had of Gemma 3 270M: a window and a step of 512 for each sequence."""
    settings = settings_of("llama.cpp", "float16", step_tokens=512)
    each = sequence_bytes(architecture_of(GEMMA_3_270M, "config.json"), settings, context // sequences)
    assert sequences * each == mib * MIB
