"""GIVEN transformers' own classes WHEN a tiny model of them runs THEN its cache has the bytes that were computed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from estimate.test_kv_cache import settings_of

from oomdoctor.errors import InputRefused
from oomdoctor.estimate.architecture import Architecture
from oomdoctor.estimate.families import HEAD_WIDTH_IS_OWN, ORDINARY
from oomdoctor.estimate.hf_config import architecture_of
from oomdoctor.estimate.kv_cache import sequence_bytes
from oomdoctor.estimate.parameters import count_parameters

transformers = pytest.importorskip(
    "transformers", minversion="5.16", reason="transformers 5.16 or newer is not installed"
)
torch = pytest.importorskip("torch")

TOKENS = 40
_TINY = {
    "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 4, "pad_token_id": None, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_NULL = ("pad_token_id", "num_hidden_layers")
_MLA = {"kv_lora_rank": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "qk_nope_head_dim": 16, "num_key_value_heads": 4}
_DELTA = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "head_dim": 32,
}  # fmt: skip
_MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}
_SSM = {"mamba_n_heads": 16, "mamba_d_head": 8, "mamba_d_state": 8}
_EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"head_dim": 16, "sliding_window": 16},
    "mixtral": {**_EXPERTS},
    "qwen2": {},
    "qwen2_windowed": {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 2},
    "qwen3": {"head_dim": 32},
    "qwen3_moe": {"head_dim": 32, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "gemma": {"head_dim": 32},
    "gemma2": {"head_dim": 32, "sliding_window": 16},
    "gemma3_text": {"head_dim": 32, "sliding_window": 16, "num_hidden_layers": 7},
    "gemma3n_text": {"head_dim": 32, "sliding_window": 16, "num_hidden_layers": 10, "num_kv_shared_layers": 5,
                     "vocab_size_per_layer_input": 64, "hidden_size_per_layer_input": 8,
                     "activation_sparsity_pattern": [0.0] * 10},
    "gemma4_text": {"head_dim": 32, "sliding_window": 16, "num_hidden_layers": 6, "vocab_size_per_layer_input": 64,
                    "hidden_size_per_layer_input": 8},
    "gpt_oss": {"head_dim": 32, "sliding_window": 16, **_EXPERTS},
    "phi3": {},
    "phi": {},
    "cohere": {},
    "cohere2": {"sliding_window": 16, "head_dim": 16},
    "glm4": {"head_dim": 32},
    "olmo3": {"sliding_window": 16},
    "granite": {},
    "starcoder2": {},
    "smollm3": {},
    "stablelm": {},
    "gpt_neox": {},
    "opt": {"ffn_dim": 96, "word_embed_proj_dim": 64},
    "gpt2": {"n_embd": 64, "n_layer": 3, "n_head": 4},
    "bloom": {"n_layer": 3, "n_head": 4},
    "falcon": {"multi_query": True},
    "falcon_new": {"new_decoder_architecture": True, "num_kv_heads": 2},
    "gpt_bigcode": {"n_embd": 64, "n_layer": 3, "n_head": 4, "multi_query": True},
    "deepseek_v3": {**_MLA, "q_lora_rank": 16, "n_routed_experts": 8, "n_group": 2, "topk_group": 1,
                    "num_experts_per_tok": 2, "moe_intermediate_size": 16, "first_k_dense_replace": 1},
    "hy_v4": {**_MLA, "q_lora_rank": 16, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
              "index_n_heads": 2, "index_head_dim": 16, "index_topk": 8},
    "mimo_v2_flash": {"head_dim": 16, "v_head_dim": 8, "sliding_window": 16, "n_routed_experts": 4,
                      "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "minicpm3": {**_MLA, "q_lora_rank": 16},
    "llama4_text": {"head_dim": 16, "attention_chunk_size": 16, "num_local_experts": 2, "intermediate_size_mlp": 64},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2, "mamba_d_state": 8},
    "mamba": {"state_size": 8, "intermediate_size": 128},
    "mamba2": {"state_size": 8, "num_heads": 16, "head_dim": 8, "n_groups": 2},
    "qwen3_next": {**_DELTA, **_MOE},
    "qwen3_5_text": {**_DELTA},
    "olmo_hybrid": {**{name: value for name, value in _DELTA.items() if name != "head_dim"}, "num_key_value_heads": 4,
                    "linear_num_key_heads": 4},
    "bamba": {**_SSM, "attn_layer_indices": [1, 3]},
    "granitemoehybrid": {**_SSM, **_EXPERTS, "shared_intermediate_size": 32,
                         "layer_types": ["mamba", "attention", "mamba", "mamba"]},
    "falcon_h1": {**_SSM, "mamba_d_ssm": 128},
    "nemotron_h": {"num_hidden_layers": None, "layers_block_type": ["linear_attention", "mlp", "full_attention", "moe"],
                   "head_dim": 16, "ssm_state_size": 8, "mamba_num_heads": 16, "mamba_head_dim": 8, "n_groups": 2},
    "zamba2": {"num_hidden_layers": 3, "layers_block_type": ["linear_attention", "hybrid", "linear_attention"],
               "mamba_d_state": 8, "n_mamba_heads": 4, "num_key_value_heads": 4, "attention_head_dim": 32,
               "mamba_ngroups": 2, "num_mem_blocks": 1, "kv_channels": 16},
    "minimax": {"layer_types": ["linear_attention", "full_attention"] * 2, **_EXPERTS},
    "lfm2": {"layer_types": ["conv", "full_attention", "conv", "conv"]},
}  # fmt: skip
"""A family's `model_type`, what follows an underscore that is no part of it left out, and what differs from _TINY."""

_DEEPSEEK = {
    **_MLA, "q_lora_rank": 16, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 1,
    "topk_group": 1, "first_k_dense_replace": 1, "moe_intermediate_size": 16,
}  # fmt: skip
_INDEXED = {**_DEEPSEEK, "index_n_heads": 2, "index_head_dim": 16, "index_topk": 8}
_GPTJ = {"hidden_size": None, "num_hidden_layers": 3, "num_attention_heads": None, "num_key_value_heads": None,
         "intermediate_size": None, "n_embd": 64, "n_layer": 3, "n_head": 4, "rotary_dim": 8}  # fmt: skip
CACHES: dict[str, dict[str, Any]] = {
    **FAMILIES,
    "axk1": _DEEPSEEK,
    "youtu": _DEEPSEEK,
    "sarvam_mla": _DEEPSEEK,
    "deepseek_v2": {**_DEEPSEEK, "topk_method": "greedy"},
    "deepseek_v32": _INDEXED,
    "glm_moe_dsa": _INDEXED,
    "dots1": {key: value for key, value in _DEEPSEEK.items() if key not in {*_MLA, "q_lora_rank"}},
    "hunyuan_v1_dense": {"head_dim": 16},
    "ministral": {"head_dim": 16, "sliding_window": 16},
    "gptj": _GPTJ,
    "codegen": _GPTJ,
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv", "conv"], "num_experts": 4, "num_experts_per_tok": 2,
                 "moe_intermediate_size": 16, "num_dense_layers": 1},
}  # fmt: skip
"""Families whose caches alone are compared besides."""

_REFUSED = ("hy_v4", "gemma3n_text", "gemma4_text", "nemotron_h", "zamba2", "minimax", "lfm2")
"""Families whose weights are not counted from a configuration."""


def made(name: str) -> Any:
    family = name.removesuffix("_windowed").removesuffix("_new")
    fields = {key: value for key, value in {**_TINY, **CACHES[name]}.items() if value is not None or key in _NULL}
    return transformers.CONFIG_MAPPING[family](**fields)


def cache_bytes(cache: Any) -> int:
    """Bytes of the elements that each layer can reach; a view keeps more alive, which is told elsewhere."""
    lightning = [each for each in getattr(cache, "linear_cache", ()) if isinstance(each, torch.Tensor)]
    total = sum(each.numel() * each.element_size() for each in lightning)
    for layer in cache.layers:
        found = [getattr(layer, part, None) for part in ("keys", "values", "indexer_keys")]
        for states in (getattr(layer, "conv_states", ()), getattr(layer, "recurrent_states", ())):
            found.extend(states.values() if isinstance(states, dict) else states)
        total += sum(each.numel() * each.element_size() for each in found if isinstance(each, torch.Tensor))
    return total


@pytest.mark.parametrize("name", CACHES)
def test_the_cache_of_a_tiny_model(name: str) -> None:
    config = made(name)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        given = model(torch.ones(1, TOKENS, dtype=torch.long), use_cache=True)
    cache = getattr(given, "past_key_values", None) or given.cache_params
    architecture = architecture_of(config.to_dict(), name)
    settings = settings_of("transformers", "float32", conv=settings_of(dtype="float32").keys)
    assert sequence_bytes(architecture, settings, TOKENS) == cache_bytes(cache)


_LARGEST_TINY = {
    "head_dim": 16, "sliding_window": 16, "intermediate_size": 96, "max_position_embeddings": 128, "num_experts": 4,
    "n_routed_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(ORDINARY))
def test_the_cache_of_an_ordinary_family(name: str) -> None:
    """Its class's own defaults, only smaller: whatever a family has of its own is in them."""
    if name not in transformers.CONFIG_MAPPING:
        pytest.skip(f"transformers {transformers.__version__} has no {name}")
    config_class = transformers.CONFIG_MAPPING[name]
    usual = config_class().to_dict()
    always = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "pad_token_id", "bos_token_id")
    changed = {key: value for key, value in _TINY.items() if key in usual or key in always}
    changed |= {
        key: value for key, value in _LARGEST_TINY.items() if isinstance(usual.get(key), int) and usual[key] > value
    }
    if name in HEAD_WIDTH_IS_OWN:
        changed["head_dim"] = 16
    config = config_class(**changed)
    model = transformers.AutoModelForCausalLM.from_config(config).eval().float()
    with torch.no_grad():
        given = model(torch.ones(1, TOKENS, dtype=torch.long), use_cache=True)
    architecture = architecture_of(config.to_dict(), name)
    assert not architecture.unknown
    settings = settings_of("transformers", "float32", conv=settings_of(dtype="float32").keys)
    cache = getattr(given, "past_key_values", None) or given.cache_params
    assert sequence_bytes(architecture, settings, TOKENS) == cache_bytes(cache)


def test_a_sliding_layer_s_view_keeps_the_whole_prompt() -> None:
    model = transformers.AutoModelForCausalLM.from_config(made("mistral")).eval()
    with torch.no_grad():
        cache = model(torch.ones(1, TOKENS, dtype=torch.long), use_cache=True).past_key_values
    layer = cache.layers[0]
    assert layer.keys.shape[-2] == 15
    assert layer.keys.untyped_storage().nbytes() == TOKENS * 2 * 16 * 4


@pytest.mark.parametrize("name", FAMILIES)
def test_parameters_counted_are_those_of_the_class(name: str) -> None:
    wider = {"hidden_size": 512, "vocab_size": 2000, "intermediate_size": 1024, "ffn_dim": 1024, "n_embd": 512}
    changed = {
        "word_embed_proj_dim": 512,
        "mamba_d_head": 64,
        "mamba_d_ssm": 1024,
        "moe_intermediate_size": 256,
        "intermediate_size_mlp": 1536,
    }
    config_class = transformers.CONFIG_MAPPING[name.removesuffix("_windowed").removesuffix("_new")]
    own = {key: changed.get(key, value) for key, value in FAMILIES[name].items()}
    if name in ("mamba", "mamba2"):
        own |= {"intermediate_size": 1024, "head_dim": 64}
        wider.pop("intermediate_size")
    config = config_class(**{**_TINY, **own, **wider})
    architecture = architecture_of(config.to_dict(), name)
    if name in _REFUSED:
        with pytest.raises(InputRefused, match="--weights"):
            count_parameters(architecture, name)
        return
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    assert_counted(architecture, count_parameters(architecture, name), model)


def assert_counted(architecture: Architecture, counted: int, model: Any) -> None:
    """To the parameter; within 0.5 % where it says that something is left out or assumed."""
    expected = sum(each.numel() for each in model.parameters())
    if architecture.assumed or architecture.uncounted:
        assert math.isclose(counted, expected, rel_tol=0.005)
    else:
        assert counted == expected


@pytest.mark.parametrize("name", sorted(ORDINARY))
def test_the_parameters_of_an_ordinary_family(name: str) -> None:
    """Of its class's default configuration: counted right, or refused."""
    if name not in transformers.CONFIG_MAPPING:
        pytest.skip(f"transformers {transformers.__version__} has no {name}")
    # A default that its own model does not take.
    config = transformers.CONFIG_MAPPING[name](**({"num_key_value_heads": 8} if name == "nemotron" else {}))
    try:
        architecture = architecture_of(config.to_dict(), name)
        counted = count_parameters(architecture, name)
    except InputRefused:
        return
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    assert_counted(architecture, counted, model)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("llama", {"attention_bias": True}), ("llama", {"mlp_bias": True}), ("qwen2_moe", {"qkv_bias": False}),
        ("glm", {"attention_bias": False}), ("seed_oss", {"attention_out_bias": True}),
        ("cohere", {"use_qk_norm": True}),
        ("stablelm", {"use_qkv_bias": True}), ("stablelm", {"use_parallel_residual": True}),
        ("phimoe", {"attention_bias": True}), ("phimoe", {"lm_head_bias": True}), ("granite", {"mlp_bias": True}),
        ("qwen3", {"attention_bias": True}), ("gemma2", {"attention_bias": True}), ("mamba", {"use_bias": True}),
        ("mamba2", {"use_bias": True}), ("mamba", {"use_conv_bias": False}), ("falcon_mamba", {"use_bias": True}),
        ("internlm3", {"qkv_bias": True, "bias": True}), ("ernie4_5", {"use_bias": True}),
        ("olmoe", {"attention_bias": True}), ("smollm3", {"attention_bias": True}),
        ("helium", {"attention_bias": True}),
        ("minicpm3", {"attention_bias": True}), ("deepseek_v3", {"attention_bias": True}),
        ("lfm2", {"conv_bias": True}),
        ("lfm2", {"block_auto_adjust_ff_dim": False}), ("granitemoehybrid", {"mamba_proj_bias": True}),
        ("granitemoehybrid", {"mamba_conv_bias": False}), ("solar_open", {"use_qk_norm": True}),
    ],
    ids=str,
)  # fmt: skip
def test_a_field_that_adds_or_takes_biases_is_counted_or_said(name: str, changed: dict[str, Any]) -> None:
    config = transformers.CONFIG_MAPPING[name](**changed)
    architecture = architecture_of(config.to_dict(), name)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    assert_counted(architecture, count_parameters(architecture, name), model)


_PAIRS = {
    "whisper": {
        "d_model": 512, "encoder_layers": 4, "decoder_layers": 3, "encoder_attention_heads": 8,
        "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "vocab_size": 20_000,
        "max_source_positions": 100, "max_target_positions": 50, "pad_token_id": 0,
    },
    "bart": {
        "d_model": 512, "encoder_layers": 4, "decoder_layers": 3, "encoder_attention_heads": 8,
        "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "vocab_size": 20_000,
    },
    "t5": {
        "d_model": 512, "d_kv": 32, "d_ff": 1024, "num_layers": 3, "num_decoder_layers": 4, "num_heads": 8,
        "vocab_size": 20_000,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", _PAIRS)
def test_an_encoder_decoder_s_weights_and_caches(name: str) -> None:
    config = transformers.CONFIG_MAPPING[name](**_PAIRS[name])
    auto = transformers.AutoModelForSpeechSeq2Seq if name == "whisper" else transformers.AutoModelForSeq2SeqLM
    model = auto.from_config(config).eval()
    architecture = architecture_of(config.to_dict(), name)
    expected = sum(each.numel() for each in model.parameters())
    assert math.isclose(count_parameters(architecture, name), expected, rel_tol=0.03)
    tokens = torch.ones(1, 7, dtype=torch.long)
    heard = {"input_features": torch.zeros(1, config.num_mel_bins, 200)} if name == "whisper" else {"input_ids": tokens}
    with torch.no_grad():
        cache = model(**heard, decoder_input_ids=tokens, use_cache=True).past_key_values
    settings = settings_of("transformers", "float32")
    kept = cache_bytes(cache.self_attention_cache) + cache_bytes(cache.cross_attention_cache)
    assert sequence_bytes(architecture, settings, 7) == kept
