"""What the classes of known models have that their files do not say: which fields mean what, which values are default.

A file of transformers leaves out of a nested configuration what equals the default of its class, but writes all fields
of an outer one: only there is a missing field a question.
"""

from __future__ import annotations

from collections.abc import Mapping

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

WINDOW_NOT_KNOWN = frozenset(
    ("cohere2_moe", "cwm", "exaone_moe", "gemma4_text", "gemma4_unified_text", "granite_swa", "granitemoe_swa",
     "laguna", "mellum", "mimo_v2_flash", "vaultgemma")
)  # fmt: skip
"""Families with windows whose class's own value is not known here."""

UNTIED = frozenset(
    ("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "phi3", "gpt_oss", "deepseek_v2",
     "deepseek_v3", "glm", "glm4", "gpt_neox", "gptj", "stablelm", "phi", "granite", "olmoe", "qwen3_next", "olmo3",
     "llama4_text", "jamba", "chatglm")
)  # fmt: skip
TIED = frozenset(
    ("gemma", "gemma2", "gemma3_text", "gemma3n_text", "gemma4_text", "gpt2", "gpt_bigcode", "opt", "bloom", "falcon",
     "cohere", "cohere2", "mpt", "smollm3", "starcoder2", "whisper", "t5", "bart", "mbart", "pegasus", "marian",
     "m2m_100", "mamba")
)  # fmt: skip
"""Whether input and output embedding are one matrix where the file does not say."""

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
    EVERY_HEAD_IS_KEPT | HEAD_WIDTH_IS_OWN | WINDOW_IN_EVERY_LAYER | WINDOW_IF_ASKED | set(WINDOW_PATTERN) | UNTIED
    | TIED | UNGATED | ORDINARY
    | {"dbrx", "jetmoe", "minicpm3", "deepseek_v32", "gemma3n_text", "llama4", "mllama_text_model", "mamba", "mamba2",
       "bamba", "granitemoehybrid", "falcon_h1", "zamba2", "minimax", "lfm2", "lfm2_moe", "qwen3_5", "qwen3_5_moe",
       "olmo_hybrid", "kimi_k2", "glm_moe_dsa", "hy_v4", "mimo_v2_flash", "axk1", "youtu", "sarvam_mla", "dots1",
       "hunyuan_v1_dense", "mt5", "umt5", "longt5"}
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

_LLAMA = {
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008,
    "vocab_size": 32000,
}  # fmt: skip
CLASS_DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "llama": _LLAMA,
    "mistral": {**_LLAMA, "intermediate_size": 14336, "num_key_value_heads": 8, "sliding_window": 4096,
                "max_position_embeddings": 131_072},
    "llama4_text": {"no_rope_layer_interval": 4, "attention_chunk_size": 8192},
    "gemma3_text": {
        "hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
        "head_dim": 256, "intermediate_size": 9216, "vocab_size": 262208, "sliding_window": 4096,
        "max_position_embeddings": 131_072,
    },
    "gemma2": {
        "hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
        "head_dim": 256, "intermediate_size": 9216, "vocab_size": 256000, "sliding_window": 4096,
    },
    "qwen2": {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
        "intermediate_size": 22016, "vocab_size": 151936,
    },
    "qwen3": {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
        "head_dim": 128, "intermediate_size": 22016, "vocab_size": 151936,
    },
}  # fmt: skip
"""Read from the configuration classes of transformers 5.24.0."""

DEFAULTS_OF_OUTER: Mapping[str, Mapping[str, int]] = {
    **{family: {"d_kv": 64} for family in ("t5", "mt5", "umt5", "longt5")},
    **{family: {"sliding_window": 4096}
       for family in ("gemma2", "gemma3_text", "cohere2", "mistral", "ministral", "olmo3", "exaone4", "qwen2",
                      "qwen2_moe", "qwen3", "qwen3_moe", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text")},
    "gpt_oss": {"sliding_window": 128}, "gemma3n_text": {"sliding_window": 512}, "afmoe": {"sliding_window": 1024},
}  # fmt: skip
"""The same of fields whose absence would pass for another value: also where the configuration is not nested."""
