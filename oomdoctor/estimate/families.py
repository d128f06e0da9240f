"""What the classes of known models have that their files do not say: which fields mean what, which values are default.

A file of transformers leaves out of a nested configuration what equals the default of its class, but writes all fields
of an outer one: only there is a missing field a question.
"""

from __future__ import annotations

from collections.abc import Mapping

from .class_defaults import CLASS_DEFAULTS
from .fields import ABSENCE_PASSES

EVERY_HEAD_IS_KEPT = frozenset(
    (
        "gpt2", "gpt_neo", "gpt_neox", "gptj", "codegen", "bloom", "opt", "phi", "persimmon", "stablelm", "baichuan",
        "llama", "xglm", "biogpt", "qwen", "openai-gpt", "ctrl", "xlnet", "imagegpt", "cohere", "granite", "nemotron",
    )
)  # fmt: skip
"""Families in which a configuration without a number of KV heads means one for each query head."""

NO_GROUPS = frozenset(
    ("gpt2", "gpt_neo", "gpt_neox", "gptj", "codegen", "bloom", "opt", "xglm", "biogpt", "openai-gpt")
)
"""Families whose classes know no grouped heads: a field num_key_value_heads in their file is not read."""

HEAD_WIDTH_IS_OWN = frozenset(
    ("gemma", "gemma2", "gemma3_text", "gemma3n_text", "gemma4_text", "gpt_oss", "qwen3", "qwen3_moe", "qwen3_next",
     "qwen3_5_text", "qwen3_5_moe_text", "helium", "glm", "glm4", "internlm3", "nemotron_h", "recurrent_gemma",
     "afmoe", "ernie4_5", "glm4_moe", "minimax_m2", "seed_oss", "solar_open", "vaultgemma", "zamba2")
)  # fmt: skip
"""Families whose head_dim is not hidden_size / num_attention_heads: without the field it is not known."""

HEAD_WIDTH_IS_A_SHARE = frozenset(
    ("internlm2", "minicpm", "orion", "telechat", "deepseek", "bailing_moe", "solar", "step1", "mimo")
)
"""Families without a class in transformers whose head width is a share of the hidden size (vLLM's own classes)."""

LATENT = frozenset(("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "minicpm3", "glm_moe_dsa"))
"""Families that keep a latent vector: without `kv_lora_rank` what they keep is not known."""

WINDOW_IN_EVERY_LAYER = frozenset(("mistral", "ministral", "mixtral", "phi3", "phimoe", "starcoder2", "phi3small"))
"""`sliding_window` that is not null counts for all layers."""

WINDOW_IF_ASKED = frozenset(
    (
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
        "qwen2_vl",
        "qwen2_vl_text",
        "qwen2_5_vl",
        "qwen2_5_vl_text",
        "smollm3",
    )
)
"""`sliding_window` counts with `use_sliding_window`, from layer `max_window_layers` on; Qwen2.5 carries it without."""

WINDOW_PATTERN = {
    "gemma2": 2, "gpt_oss": 2, "gemma3_text": 6, "gemma3": 6, "cohere2": 4, "exaone4": 4, "olmo3": 4,
    "gemma3n_text": 5, "afmoe": 4,
}  # fmt: skip
"""Every so-manieth layer sees everything, the others have the window (without `layer_types` in the file)."""

UNGATED = frozenset(
    ("gpt2", "gpt_neo", "gpt_neox", "gptj", "codegen", "bloom", "opt", "falcon", "phi", "gpt_bigcode", "starcoder2",
     "mpt", "whisper", "bart", "mbart", "pegasus", "marian", "m2m_100", "blenderbot", "plbart", "persimmon", "nemotron",
     "apertus", "apertus1p5_text", "arcee", "biogpt", "jais2", "nanochat")
)  # fmt: skip
"""Families whose MLP has two matrices, not three."""

LONGEST_OF_CLASS = {"falcon": 2048}
"""Positions of a class whose files do not tell them."""
FOUR_TIMES = frozenset(("gpt2", "gpt_bigcode", "bloom", "falcon", "gptj", "codegen"))
"""Families whose MLP is four times as wide as the residual stream unless their own field says otherwise."""
LEARNT_POSITIONS = frozenset(("gpt2", "gpt_bigcode", "opt", "bart"))

ORDINARY = frozenset(
    (
        "afmoe", "apertus", "apertus1p5_text", "arcee", "aria_text", "biogpt", "bitnet", "cohere2_moe", "ctrl", "cwm",
        "diffllama", "doge", "ernie4_5", "ernie4_5_moe", "exaone", "exaone4", "exaone_moe", "falcon_mamba", "flex_olmo",
        "flint", "glm", "glm4_moe", "glm4_moe_lite", "gemma4_unified_text", "gpt-sw3",
        "granite_swa", "granitemoe", "granitemoe_swa",
        "granitemoeshared", "helium", "hy_v3", "hyperclovax", "internlm3", "iquestcoder", "jais2", "jetmoe", "kolibri1",
        "laguna", "lara_mini", "lfm3", "mellum", "minimax_m2", "minimax_m3_vl_text", "ministral3", "mpt", "nanochat",
        "nemotron", "olmo", "olmo2", "olmoe", "persimmon", "phimoe", "qwen2_moe", "qwen3_5_moe_text", "sarvam_moe",
        "seed_oss", "solar_open", "vaultgemma",
    )
)  # fmt: skip
"""Families whose tiny models keep what their fields say, to the byte (tests/estimate/test_transformers.py)."""

UNCOUNTED = frozenset(
    ("afmoe", "aria_text", "doge", "dots1", "exaone_moe", "flint", "glm_moe_dsa", "hy_v3", "hy_v4",
     "jetmoe", "lfm2_moe", "mllama_text_model")
)  # fmt: skip
"""Families whose weights are more, or fewer, than their fields tell."""

KNOWN = (
    EVERY_HEAD_IS_KEPT | HEAD_WIDTH_IS_OWN | WINDOW_IN_EVERY_LAYER | WINDOW_IF_ASKED | set(WINDOW_PATTERN) | UNGATED
    | ORDINARY
    | {"dbrx", "jetmoe", "minicpm3", "deepseek_v32", "gemma3n_text", "llama4", "mllama_text_model", "mamba", "mamba2",
       "bamba", "granitemoehybrid", "falcon_h1", "zamba2", "minimax", "lfm2", "lfm2_moe", "qwen3_5", "qwen3_5_moe",
       "olmo_hybrid", "kimi_k2", "glm_moe_dsa", "hy_v4", "mimo_v2_flash", "axk1", "youtu", "sarvam_mla", "dots1",
       "hunyuan_v1_dense", "mt5", "umt5", "longt5", "chatglm", "deepseek_v2", "deepseek_v3", "glm4", "llama4_text",
       "t5", "olmo3", "cohere2", "gemma4_text", "granite", "stablelm", "qwen3_next", "jamba", "gpt_oss"}
)  # fmt: skip
"""Families whose fields were looked at; of another one it is said that this is assumed, or it is refused."""

KNOWN_TO_GGUF = frozenset(
    ("apertus", "arcee", "arctic", "baichuan", "bailingmoe", "bailingmoe2", "bitnet", "bloom", "chatglm", "codeshell",
     "cohere2", "command-r", "dbrx", "deci", "deepseek", "deepseek2", "dots1", "ernie4_5", "ernie4_5-moe", "exaone",
     "exaone4", "falcon", "falcon-h1", "gemma", "gemma2", "gemma3", "gemma3n", "glm4", "glm4moe", "gpt-oss", "gpt2",
     "gptj", "gptneox", "granite", "granitehybrid", "granitemoe", "grok", "hunyuan-dense", "hunyuan-moe", "internlm2",
     "jais", "jamba", "lfm2", "lfm2moe", "llama", "mamba", "mamba2", "minicpm", "minicpm3", "minimax-m2", "mistral3",
     "mpt", "nemotron", "nemotron_h", "olmo", "olmo2", "olmoe", "openelm", "orion", "phi2", "phi3", "phimoe", "plamo",
     "plm", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen35", "qwen35moe", "qwen3moe", "qwen3next", "qwen3vl",
     "qwen3vlmoe", "refact", "seed_oss", "smollm3", "stablelm", "starcoder", "starcoder2", "xverse")
)  # fmt: skip
"""Architectures of llama.cpp whose caches are what the keys of their files say."""

BY_CLASS: Mapping[str, Mapping[str, int]] = {
    **CLASS_DEFAULTS,
    # What these classes put together as they start.
    "gemma4_text": {**CLASS_DEFAULTS["gemma4_text"], "global_head_dim": 512},
    "gemma4_unified_text": {**CLASS_DEFAULTS["gemma4_unified_text"], "global_head_dim": 512},
    "umt5": {**CLASS_DEFAULTS["umt5"], "tie_word_embeddings": True},
    "t5": {**CLASS_DEFAULTS["t5"], "tie_word_embeddings": True},
    "chatglm": {"tie_word_embeddings": False},
}
"""The value of its class for each field that a family's file leaves out."""

DENSE_FIRST = frozenset(("axk1", "glm4_moe_lite", "hy_v3", "hy_v4", "laguna", "mimo_v2_flash"))
"""Families whose class makes the first layer dense and all others mixtures, where `mlp_layer_types` is missing."""
INDEXERS_ARE_LISTED = frozenset(("hy_v4",))
"""Families whose class shares indexers between layers where `indexer_types` is missing: which layers is not told."""


def flat_defaults(family: str) -> dict[str, int]:
    """Of fields whose absence would pass for another value: these count also where the configuration is not nested."""
    return {name: value for name, value in BY_CLASS.get(family, {}).items() if name in ABSENCE_PASSES}
