"""GIVEN a configuration that contradicts itself WHEN it is read THEN it is refused, and the field is named."""

from __future__ import annotations

from typing import Any

import pytest
from estimate.files import LLAMA_8B

from oomdoctor.errors import InputRefused
from oomdoctor.estimate.hf_config import architecture_of

MIXTURE = {
    **LLAMA_8B, "model_type": "qwen2_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 1024,
    "shared_expert_intermediate_size": 2048,
}  # fmt: skip
LATENT = {
    **LLAMA_8B, "model_type": "deepseek_v3", "num_key_value_heads": 32, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128, "v_head_dim": 128, "q_lora_rank": 1536, "n_routed_experts": None,
}  # fmt: skip
WINDOWED = {
    **LLAMA_8B, "model_type": "gpt_oss", "head_dim": 64, "sliding_window": 128, "num_local_experts": 8,
    "num_experts_per_tok": 2, "layer_types": ["sliding_attention", "full_attention"] * 16,
}  # fmt: skip
DELTA = {
    **LLAMA_8B, "model_type": "qwen3_next", "head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
    "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "num_experts": 1,
    "layer_types": ["linear_attention", "full_attention"] * 16,
}  # fmt: skip
JAMBA = {
    **LLAMA_8B, "model_type": "jamba", "attn_layer_period": 8, "attn_layer_offset": 4, "num_experts": 1,
    "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 256,
}  # fmt: skip
NEMOTRON = {
    **LLAMA_8B, "model_type": "nemotron_h", "head_dim": 128, "ssm_state_size": 128, "mamba_num_heads": 128,
    "mamba_head_dim": 64, "n_groups": 8, "conv_kernel": 4, "hybrid_override_pattern": "M-*-" * 8,
    "n_routed_experts": None,
}  # fmt: skip


@pytest.mark.parametrize("whole", [LLAMA_8B, MIXTURE, LATENT, WINDOWED, DELTA, JAMBA, NEMOTRON])
def test_they_are_read_as_they_are(whole: dict[str, Any]) -> None:
    assert architecture_of(whole, "c").layers == 32


@pytest.mark.parametrize(
    ("config", "changes", "words"),
    [
        (LLAMA_8B, {"num_attention_heads": 24, "num_key_value_heads": 7, "head_dim": 128},
         "num_key_value_heads is 7, which does not divide num_attention_heads"),
        (LLAMA_8B, {"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 7, "head_dim": 128},
         "num_kv_heads is 7, which does not divide num_attention_heads"),
        (LLAMA_8B, {"model_type": "chatglm", "multi_query_attention": True, "multi_query_group_num": 5},
         "multi_query_group_num is 5, which does not divide"),
        (LLAMA_8B, {"num_key_value_heads": 64}, "64 KV heads of 32 attention heads"),
        (LLAMA_8B, {"num_attention_heads": 33, "num_key_value_heads": 11}, "head_dim is missing"),
        (LLAMA_8B, {"hidden_size": -4096}, "hidden_size is '-4096', not a size"),
        (LLAMA_8B, {"hidden_size": 0}, "hidden_size is '0', not a size"),
        (LLAMA_8B, {"hidden_size": 4096.5}, "hidden_size is '4096.5', not a size"),
        (LLAMA_8B, {"hidden_size": "4096"}, "hidden_size is '4096', not a size"),
        (LLAMA_8B, {"hidden_size": True}, "hidden_size is 'True', not a size"),
        (LLAMA_8B, {"hidden_size": [4096]}, "hidden_size is"),
        (LLAMA_8B, {"head_dim": 0}, "head_dim is '0', not a size"),
        (LLAMA_8B, {"head_dim": -1}, "head_dim is '-1', not a size"),
        (LLAMA_8B, {"vocab_size": 0}, "vocab_size is '0', not a size"),
        (LLAMA_8B, {"num_hidden_layers": 0}, "num_hidden_layers is '0', not a size"),
        (LLAMA_8B, {"num_hidden_layers": 20_000}, "20000 layers"),
        (LLAMA_8B, {"intermediate_size": -1}, "intermediate_size is '-1', not a size"),
        (LLAMA_8B, {"intermediate_size": "14336"}, "intermediate_size is '14336', not a size"),
        (LLAMA_8B, {"intermediate_size": [14336, -1]}, "intermediate_size is '-1', not a size"),
        (LLAMA_8B, {"max_position_embeddings": -1}, "max_position_embeddings is '-1', not a size"),
        (LLAMA_8B, {"tie_word_embeddings": "false"}, "tie_word_embeddings is 'false', neither true nor false"),
        (LLAMA_8B, {"num_kv_shared_layers": 33}, "num_kv_shared_layers is '33', more than num_hidden_layers"),
        (LLAMA_8B, {"num_kv_shared_layers": -1}, "num_kv_shared_layers is '-1', not a size"),
        (LLAMA_8B, {"model_type": "qwen2", "use_sliding_window": "no", "sliding_window": 8, "max_window_layers": 1},
         "use_sliding_window is 'no', neither"),
        (LLAMA_8B, {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 8, "max_window_layers": -1},
         "max_window_layers is '-1'"),
        (LLAMA_8B, {"model_type": "mistral", "sliding_window": 0}, "sliding_window is '0', not a size"),
        (WINDOWED, {"sliding_window": 0}, "sliding_window is '0', not a size"),
        (WINDOWED, {"layer_types": ["full_attention"] * 31}, "layer_types names 31 layers, the model has 32"),
        (WINDOWED, {"layer_types": "full_attention"}, "layer_types is not a list"),
        (WINDOWED, {"layer_types": ["full_attention"] * 31 + ["windmill"]}, "layer 31 is of a kind"),
        (WINDOWED, {"num_experts_per_tok": 9}, r"num_experts_per_tok is '9', more than num_local_experts \(8\)"),
        (MIXTURE, {"num_experts_per_tok": 0}, "num_experts_per_tok is '0', not a size"),
        (MIXTURE, {"mlp_only_layers": [32]}, "mlp_only_layers names the layer '32', the model has 32"),
        (MIXTURE, {"moe_intermediate_size": 0}, "moe_intermediate_size is '0', not a size"),
        (LATENT, {"kv_lora_rank": 0}, "kv_lora_rank is '0', not a size"),
        (LATENT, {"q_lora_rank": 0}, "q_lora_rank is '0', not a size"),
        (LATENT, {"kv_lora_rank": None}, "kv_lora_rank is missing"),
        (LATENT, {"first_k_dense_replace": 33, "n_routed_experts": 8, "num_experts_per_tok": 2,
                  "moe_intermediate_size": 64}, "first_k_dense_replace is '33', more than num_hidden_layers"),
        (DELTA, {"linear_num_key_heads": 12}, "linear_num_key_heads is 12, which does not divide"),
        (DELTA, {"linear_conv_kernel_dim": 0}, "linear_conv_kernel_dim is '0', not a size"),
        (JAMBA, {"attn_layer_offset": 8}, "attn_layer_offset is '8', more than attn_layer_period - 1"),
        (JAMBA, {"attn_layer_offset": -1}, "attn_layer_offset is '-1'"),
        (JAMBA, {"mamba_dt_rank": "some"}, "mamba_dt_rank is 'some', not a size"),
        (NEMOTRON, {"hybrid_override_pattern": "M-*-" * 7}, "not a letter for each of 32 layers"),
        (NEMOTRON, {"hybrid_override_pattern": "M-*x" * 8}, "layer 3 is of a kind that is not known here: 'x'"),
        (NEMOTRON, {"n_groups": 7}, "n_groups is 7, which does not divide"),
        ({**LLAMA_8B, "model_type": "zamba2"}, {"layers_block_type": ["hybrid"] * 7}, "layers_block_type names 7"),
        ({**LLAMA_8B, "model_type": "bamba"}, {"attn_layer_indices": [40]}, "attn_layer_indices names the layer '40'"),
    ],
)  # fmt: skip
def test_a_field_that_no_model_has_is_named(config: dict[str, Any], changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        architecture_of({**config, **changes}, "c")


def test_a_rank_that_its_class_works_out_is_worked_out() -> None:
    """`auto` is a sixteenth of the width: 4096 / 16."""
    assert architecture_of({**JAMBA, "mamba_dt_rank": "auto"}, "c") == architecture_of(JAMBA, "c")


@pytest.mark.parametrize(
    ("changes", "layers"),
    [
        ({}, 32), ({"decoder_sparse_step": 2}, 16), ({"mlp_only_layers": [0, 1, 31]}, 29),
        ({"decoder_sparse_step": 2, "mlp_only_layers": [0, 1]}, 15), ({"decoder_sparse_step": 5}, 6),
        ({"mlp_layer_types": ["dense"] * 3 + ["sparse"] * 29}, 29),
    ],
)  # fmt: skip
def test_layers_with_experts(changes: dict[str, Any], layers: int) -> None:
    """Qwen2-MoE: each step-th layer, counted from 1, that is not among those with an MLP only."""
    found = architecture_of({**MIXTURE, **changes}, "c").experts
    assert found is not None
    assert found.layers == layers


UNKNOWN = {**LLAMA_8B, "model_type": "seen_by_nobody", "head_dim": 128}


def test_a_family_that_is_not_known_with_all_its_fields_is_assumed() -> None:
    architecture = architecture_of(UNKNOWN, "c")
    assert architecture.unknown
    assert architecture.assumed


@pytest.mark.parametrize(
    "field", ["hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"]
)
def test_no_field_of_a_family_that_is_not_known_is_filled(field: str) -> None:
    """Not even the width of a head from the others: 25 of the families that are known have another one."""
    for value in ({}, {field: None}):
        config = {**{name: each for name, each in UNKNOWN.items() if name != field}, **value}
        with pytest.raises(InputRefused, match=f"the field {field}.* is missing"):
            architecture_of(config, "c")


def test_a_list_of_layers_without_a_mixture_has_no_experts() -> None:
    """Nemotron-H's class has eight by default."""
    silent = {name: each for name, each in NEMOTRON.items() if name != "n_routed_experts"}
    assert architecture_of(silent, "c").experts is None
    mixed = {**silent, "hybrid_override_pattern": "MEM*" * 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
    found = architecture_of(mixed, "c")
    assert found.experts is not None
    assert found.experts.count == 8
    assert any(each.startswith("n_routed_experts = 8: not in the file") for each in found.assumptions)
