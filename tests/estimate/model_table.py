"""Models whose bytes per token are known, with the fields of their configurations that matter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MIB = 1 << 20


def config(family: str, layers: int, heads: int, kv: int | None = None, width: int | None = None, **more: Any) -> dict:
    """A configuration with the usual names."""
    fields: dict[str, Any] = {"model_type": family, "num_hidden_layers": layers, "num_attention_heads": heads}
    fields |= {"hidden_size": more.pop("hidden_size", heads * (width or 128)), "torch_dtype": "bfloat16"}
    if kv is not None:
        fields["num_key_value_heads"] = kv
    if width is not None:
        fields["head_dim"] = width
    return fields | more


@dataclass(frozen=True)
class Known:
    """A model and what one sequence of it keeps."""

    name: str
    config: dict[str, Any]
    per_token: int
    """Bytes that a further token adds once every window is full, in bfloat16."""
    fixed: int = 0
    """Bytes beside it, with `context` tokens."""
    context: int = 8192
    engine: str = "vllm"
    settings: dict[str, Any] = field(default_factory=dict)


_MLA = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
_DEEPSEEK_V3 = config("deepseek_v3", 61, 128, 128, hidden_size=7168, **_MLA)
_QWEN3_NEXT = config(
    "qwen3_next", 48, 16, 2, 256, hidden_size=2048, full_attention_interval=4, linear_num_key_heads=16,
    linear_num_value_heads=32, linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4,
)  # fmt: skip
_JAMBA = config(
    "jamba", 32, 32, 8, hidden_size=4096, attn_layer_period=8, attn_layer_offset=4, mamba_d_state=16, mamba_d_conv=4,
    mamba_expand=2,
)  # fmt: skip
_GEMMA3 = config("gemma3_text", 62, 32, 16, 128, hidden_size=5376, sliding_window=1024)
_GPT_OSS = config("gpt_oss", 36, 64, 8, 64, hidden_size=2880, sliding_window=128)
_FALCON = {"model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71, "num_hidden_layers": 32}
_FALCON_40B = {
    "model_type": "falcon", "hidden_size": 8192, "num_attention_heads": 128, "num_hidden_layers": 60,
    "num_kv_heads": 8, "new_decoder_architecture": True, "multi_query": True,
}  # fmt: skip
_WHISPER = {
    "model_type": "whisper", "d_model": 1280, "decoder_layers": 32, "decoder_attention_heads": 20, "encoder_layers": 32,
    "encoder_attention_heads": 20, "max_source_positions": 1500, "max_target_positions": 448,
}  # fmt: skip
# A window of W tokens keeps W - 1 in transformers.
_WINDOW = {"engine": "transformers"}
_GEMMA2_ROW = 4 * 2 * 256 * 2

MODELS = (
    Known("Llama-3.1-8B", config("llama", 32, 32, 8), 131_072),
    Known("Llama-2-7B: no field, every head", config("llama", 32, 32), 524_288),
    Known("Qwen2.5-7B: a window that nobody asked for", config(
        "qwen2", 28, 28, 4, hidden_size=3584, sliding_window=131_072, use_sliding_window=False, max_window_layers=28),
        57_344),
    Known("Qwen3-8B", config("qwen3", 36, 32, 8, 128, hidden_size=4096), 147_456),
    Known("Qwen3-4B: 2560 / 32 is not 128", config("qwen3", 36, 32, 8, 128, hidden_size=2560), 147_456),
    Known("Mistral-7B-v0.1: a window everywhere", config("mistral", 32, 32, 8, sliding_window=4096),
          0, 4095 * 131_072, **_WINDOW),
    Known("Mistral-7B-v0.2: null is no window", config("mistral", 32, 32, 8, sliding_window=None), 131_072),
    Known("gemma-2-2b", config("gemma2", 26, 8, 4, 256, hidden_size=2304, sliding_window=4096),
          53_248, 13 * 4095 * _GEMMA2_ROW, **_WINDOW),
    Known("gemma-2-9b", config("gemma2", 42, 16, 8, 256, hidden_size=3584, sliding_window=4096),
          172_032, 21 * 4095 * 2 * _GEMMA2_ROW, **_WINDOW),
    Known("gemma-3-27b", _GEMMA3, 81_920, 52 * 1023 * 8192, **_WINDOW),
    Known("gemma-3-27b without the hybrid manager", _GEMMA3, 507_904, settings={"hybrid": False}),
    Known("gemma-3, both ways: its class halves the window", {**_GEMMA3, "use_bidirectional_attention": True},
          81_920, 52 * 512 * 8192, **_WINDOW),
    Known("gpt-oss-120b", _GPT_OSS, 36_864, 18 * 127 * 2048, **_WINDOW),
    Known("gpt-oss-20b", config("gpt_oss", 24, 64, 8, 64, hidden_size=2880, sliding_window=128),
          24_576, 12 * 127 * 2048, **_WINDOW),
    Known("DeepSeek-V3", _DEEPSEEK_V3, 70_272),
    Known("DeepSeek-V3, expanded", _DEEPSEEK_V3, 4_997_120, settings={"expanded": True}),
    Known("DeepSeek-V3, fp8_ds_mla", _DEEPSEEK_V3, 40_016, settings={"packed_latent": True}),
    Known("DeepSeek-V2", config("deepseek_v2", 60, 128, 128, hidden_size=5120, **_MLA), 69_120),
    Known("DeepSeek-V2-Lite", config("deepseek_v2", 27, 16, 16, hidden_size=2048, **_MLA), 31_104),
    Known("DeepSeek-V3.2: an indexer's key beside the latent", {**_DEEPSEEK_V3, "index_head_dim": 128},
          61 * (576 + 128) * 2),
    Known("Qwen3-Next-80B-A3B", _QWEN3_NEXT, 24_576, 36 * (32 * 128 * 128 * 4 + 8192 * 3 * 2), engine="sglang"),
    Known("Qwen3-Next-80B-A3B, bf16 states", _QWEN3_NEXT, 24_576, 36 * (32 * 128 * 128 + 8192 * 3) * 2,
          engine="sglang", settings={"state_dtype": "bfloat16"}),
    Known("Qwen3-Next-80B-A3B, states in vLLM's pages of 1056 tokens", _QWEN3_NEXT, 24_576, 36 * 1056 * 2048),
    Known("Qwen3-Next-80B-A3B, bf16 states in vLLM's pages of 544 tokens", _QWEN3_NEXT, 24_576, 36 * 544 * 2048,
          settings={"state_dtype": "bfloat16"}),
    Known("Jamba-v0.1", _JAMBA, 16_384, 28 * (8192 * 16 * 4 + 8192 * 3 * 2), engine="sglang"),
    Known("Jamba-v0.1, bf16 states", _JAMBA, 16_384, 28 * (8192 * 16 + 8192 * 3) * 2, engine="sglang",
          settings={"state_dtype": "bfloat16"}),
    Known("Jamba-v0.1, states in vLLM's pages of 144 tokens", _JAMBA, 16_384, 28 * 144 * 4096),
    Known("Jamba-v0.1, bf16 states in vLLM's pages of 80 tokens", _JAMBA, 16_384, 28 * 80 * 4096,
          settings={"state_dtype": "bfloat16"}),
    Known("mamba-2.8b", {"model_type": "mamba", "num_hidden_layers": 64, "hidden_size": 2560, "intermediate_size": 5120,
                         "state_size": 16, "conv_kernel": 4, "expand": 2},
          0, round(12.5 * MIB), engine="transformers", settings={"state_dtype": "bfloat16"}),
    Known("Phi-3-mini-4k", config("phi3", 32, 32, 32, hidden_size=3072, sliding_window=None), 393_216),
    Known("falcon-7b: one head, whatever num_kv_heads says",
          {**_FALCON, "multi_query": True, "num_kv_heads": 71}, 8_192),
    Known("falcon-40b", _FALCON_40B, 122_880),
    Known("falcon-40b in transformers", _FALCON_40B, 16 * 122_880, engine="transformers"),
    Known("bloom-7b1", {"model_type": "bloom", "n_layer": 30, "n_head": 32, "hidden_size": 4096}, 491_520),
    Known("opt-6.7b", config("opt", 32, 32), 524_288),
    Known("gpt2", {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768}, 36_864),
    Known("mixtral-8x7b", config("mixtral", 32, 32, 8, sliding_window=None), 131_072),
    Known("command-r-v01: every head", config("cohere", 40, 64, 64), 1_310_720),
    Known("command-r-08-2024", config("cohere", 40, 64, 8), 163_840),
    Known("chatglm3-6b", {"model_type": "chatglm", "num_layers": 28, "num_attention_heads": 32, "hidden_size": 4096,
                          "multi_query_attention": True, "multi_query_group_num": 2, "kv_channels": 128}, 28_672),
    Known("glm-4-9b", config("glm", 40, 32, 2, 128), 40_960),
    Known("whisper-large-v3", _WHISPER, 163_840, 32 * 1500 * 20 * 64 * 2 * 2, context=448, engine="transformers"),
    Known("whisper-large-v3 in vLLM's pages", _WHISPER, 163_840, 32 * 94 * 16 * 20 * 64 * 2 * 2, context=448),
    Known("llava-1.5-7b: the text model's defaults", {
        "model_type": "llava", "text_config": {"model_type": "llama", "torch_dtype": "float16"}}, 524_288),
    Known("qwen2-vl-72b, nested", {"model_type": "qwen2_vl", "text_config": config(
        "qwen2_vl_text", 80, 64, 8, hidden_size=8192)}, 327_680),
    Known("qwen2-vl-7b, flat", config("qwen2_vl", 28, 28, 4, hidden_size=3584, use_sliding_window=False), 57_344),
    Known("gemma-3n-E4B: 15 of 35 layers share", config(
        "gemma3n_text", 35, 8, 2, 256, hidden_size=2048, num_kv_shared_layers=15, sliding_window=512,
        layer_types=[*["sliding_attention"] * 4, "full_attention"] * 7), 4 * 2048, 16 * 511 * 2048, **_WINDOW),
    Known("Llama-4-Scout: chunks", config(
        "llama4_text", 48, 40, 8, 128, hidden_size=5120, attention_chunk_size=8192, no_rope_layer_interval=4),
        12 * 4096, 36 * 8191 * 4096, context=65_536, **_WINDOW),
)  # fmt: skip
