"""GIVEN several ranks WHEN weights are divided THEN what every rank holds whole, or twice, is counted so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from estimate.files import LLAMA_8B, write_config, write_llama_8b_gguf, write_safetensors

from oomdoctor.estimate.answer import answer_of
from oomdoctor.estimate.budget import WEIGHTS, budget_of
from oomdoctor.estimate.engines import ENGINES, LLAMA_CPP, SGLANG, TRANSFORMERS, VLLM
from oomdoctor.estimate.model_input import read_model
from oomdoctor.estimate.parameters import count_parameters, divided_parameters
from oomdoctor.estimate.settings import Settings
from oomdoctor.model.units import GIB

H, W, V = 256, 16, 1000
"""Width, of a head, of the vocabulary: 24 rows fill it up to 1,024."""
SMALL = {
    **LLAMA_8B, "num_hidden_layers": 1, "num_attention_heads": 16, "num_key_value_heads": 2, "hidden_size": H,
    "intermediate_size": 512, "vocab_size": V,
}  # fmt: skip
ATTENTION = {
    "self_attn.q_proj.weight": [H, H], "self_attn.k_proj.weight": [2 * W, H], "self_attn.v_proj.weight": [2 * W, H],
    "self_attn.o_proj.weight": [H, H],
}  # fmt: skip
LATENT = {
    "self_attn.q_a_proj.weight": [64, H], "self_attn.q_a_layernorm.weight": [64],
    "self_attn.q_b_proj.weight": [16 * 24, 64], "self_attn.kv_a_proj_with_mqa.weight": [40, H],
    "self_attn.kv_a_layernorm.weight": [32], "self_attn.kv_b_proj.weight": [16 * 32, 32],
    "self_attn.o_proj.weight": [H, 256],
}  # fmt: skip
MLP = {"mlp.gate_proj.weight": [512, H], "mlp.up_proj.weight": [512, H], "mlp.down_proj.weight": [H, 512]}
NORMS = {"input_layernorm.weight": [H], "post_attention_layernorm.weight": [H]}
LATENT_FIELDS = {
    "model_type": "deepseek_v3", "num_key_value_heads": 16, "kv_lora_rank": 32, "q_lora_rank": 64,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, "n_routed_experts": None,
}  # fmt: skip


def written(folder: Path, layer: dict[str, list[int]], dtype: str = "BF16", **changes: Any) -> Path:
    write_config(folder, **{**SMALL, **changes})
    tensors: dict[str, tuple[str, list[int]]] = {
        "model.embed_tokens.weight": ("BF16", [V, H]), "lm_head.weight": ("BF16", [V, H]),
        "model.norm.weight": ("BF16", [H]),
        **{f"model.layers.0.{name}": (dtype, shape) for name, shape in layer.items()},
    }  # fmt: skip
    write_safetensors(folder / "model.safetensors", **tensors)
    return folder


def on_rank(path: Path, ranks: int, engine: str = "vllm") -> tuple[int, str]:
    part = budget_of(read_model(path), Settings(ENGINES[engine], 80 * GIB, 64, 1, tensor_parallel=ranks)).part(WEIGHTS)
    return part.bytes, part.known


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize(("ranks", "of_rows"), [(2, 2), (4, 2), (16, 2)])
def test_a_rank_has_at_least_one_kv_head(tmp_path: Path, ranks: int, of_rows: int, engine: str) -> None:
    path = written(tmp_path / "m", {**ATTENTION, **MLP, **NORMS})
    whole, rows = 3 * H, 2 * 2 * W * H
    divided = 2 * 1024 * H + 2 * H * H + 3 * 512 * H
    assert on_rank(path, ranks, engine) == (2 * (divided // ranks + rows // of_rows + whole), "computed")


def test_the_configuration_alone_says_the_same(tmp_path: Path) -> None:
    path = written(tmp_path / "m", {**ATTENTION, **MLP, **NORMS})
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_text((path / "config.json").read_text())
    for ranks in (2, 4, 16):
        assert on_rank(bare, ranks) == on_rank(path, ranks)


def test_projections_to_a_latent_vector_are_whole_on_each_rank(tmp_path: Path) -> None:
    path = written(tmp_path / "m", {**LATENT, **MLP, **NORMS}, **LATENT_FIELDS)
    whole = 3 * H + 64 * H + 64 + 40 * H + 32
    divided = 2 * 1024 * H + 16 * 24 * 64 + 16 * 32 * 32 + H * 256 + 3 * 512 * H
    for ranks in (2, 8, 16):
        assert on_rank(path, ranks) == (2 * (divided // ranks + whole), "computed")
    model = read_model(path)
    counts = divided_parameters(model.architecture, "c")
    assert (counts[1], counts[0]) == (whole, divided)
    assert sum(counts.values()) == count_parameters(model.architecture, "c") + 2 * 24 * H


def test_what_is_whole_has_the_bytes_that_it_is_stored_in(tmp_path: Path) -> None:
    """FP8: the projections to the latent vector have one byte, as in DeepSeek-V3."""
    path = written(tmp_path / "m", {**LATENT, **MLP}, "F8_E4M3", **LATENT_FIELDS,
                   quantization_config={"quant_method": "fp8"})  # fmt: skip
    whole = 2 * H + 64 * H + 64 + 40 * H + 32
    divided = 2 * 2 * 1024 * H + 16 * 24 * 64 + 16 * 32 * 32 + H * 256 + 3 * 512 * H
    assert on_rank(path, 8) == (divided // 8 + whole, "computed")


def test_a_fused_matrix_is_divided_by_its_parts(tmp_path: Path) -> None:
    """Phi-3: 16 query heads and 2 KV heads in one matrix; of 8 ranks each has two query heads and one of each KV."""
    layer = {"self_attn.qkv_proj.weight": [20 * W, H], "self_attn.o_proj.weight": [H, H], **MLP, **NORMS}
    path = written(tmp_path / "m", layer, model_type="phi3")
    divided = 2 * 1024 * H + 2 * H * H + 3 * 512 * H
    assert on_rank(path, 8)[0] == 2 * (divided // 8 + 2 * W * H + 3 * H)


def test_routers_are_whole_and_experts_divided(tmp_path: Path) -> None:
    experts = {f"mlp.experts.{number}.{name}": [64, H] for number in range(8)
               for name in ("gate_proj.weight", "up_proj.weight", "down_proj.weight")}  # fmt: skip
    layer = {**ATTENTION, **NORMS, **experts, "mlp.gate.weight": [8, H]}
    path = written(tmp_path / "m", layer, model_type="qwen3_moe", head_dim=W, num_experts=8, num_experts_per_tok=2,
                   moe_intermediate_size=64)  # fmt: skip
    divided = 2 * 1024 * H + 2 * H * H + 8 * 3 * 64 * H
    assert on_rank(path, 2) == (2 * (divided // 2 + 2 * 2 * W * H // 2 + 3 * H + 8 * H), "computed")


def test_a_tensor_whose_place_is_not_known_makes_it_an_assumption(tmp_path: Path) -> None:
    path = written(tmp_path / "m", {**ATTENTION, **MLP, **NORMS, "windmill.weight": [H, H]})
    assert on_rank(path, 2)[1] == "assumed"
    settings = Settings(VLLM, 80 * GIB, 64, 1, tensor_parallel=2)
    assert any("not of every tensor" in each for each in answer_of(read_model(path), settings).notes)
    assert on_rank(path, 1)[1] == "computed"


def test_other_ways_of_dividing_are_said(tmp_path: Path) -> None:
    path = written(tmp_path / "m", {**ATTENTION, **MLP, **NORMS})
    size = read_model(path).weights_bytes
    for engine in (TRANSFORMERS, LLAMA_CPP):
        part = budget_of(read_model(path), Settings(engine, 80 * GIB, 64, 1, tensor_parallel=1)).part(WEIGHTS)
        assert (part.bytes, part.known) == (size, "computed")
    part = budget_of(read_model(path), Settings(TRANSFORMERS, 80 * GIB, 64, 1, tensor_parallel=2)).part(WEIGHTS)
    assert (part.bytes, part.known) == (-(-size // 2), "assumed")
    assert "divided evenly" in part.source
    part = budget_of(read_model(path, None, size), Settings(SGLANG, 80 * GIB, 64, 1, tensor_parallel=2)).part(WEIGHTS)
    assert part.known == "assumed"


def test_the_fullest_of_llama_cpps_cards_has_the_output(tmp_path: Path) -> None:
    """33 places of which the last is the output: cards of 17 and 16, the second with the output."""
    write_llama_8b_gguf(tmp_path / "m.gguf")
    model = read_model(tmp_path / "m.gguf")
    assert model.places is not None
    part = budget_of(model, Settings(LLAMA_CPP, 80 * GIB, 64, 1, tensor_parallel=2)).part(WEIGHTS)
    cards = (sum(model.places.blocks[:17]), sum(model.places.blocks[17:]) + model.places.rest_bytes)
    assert (part.bytes, part.known) == (max(cards), "computed")


def test_layers_that_guess_ahead_are_no_part_of_the_weights(tmp_path: Path) -> None:
    path = written(tmp_path / "m", {**ATTENTION, **MLP, **NORMS}, num_nextn_predict_layers=1)
    size = read_model(path).weights_bytes
    header = json.loads((path / "model.safetensors").read_bytes()[8:].split(b"\0", 1)[0])
    ahead = {"model.layers.1.eh_proj.weight": ("BF16", [H, 2 * H]), "mtp.fc.weight": ("BF16", [H, H])}
    write_safetensors(path / "more.safetensors", **ahead)
    assert len(header) > 1
    model = read_model(path)
    assert (model.weights_bytes, model.speculative_bytes) == (size, 2 * 3 * H * H)
    notes = answer_of(model, Settings(VLLM, 80 * GIB, 64, 1)).notes
    assert any("384.00 KiB of layers that guess tokens ahead" in each for each in notes)


def test_how_states_are_divided_is_assumed(tmp_path: Path) -> None:
    changes = {"model_type": "mamba2", "state_size": 8, "num_heads": 16, "head_dim": 8, "n_groups": 2, "expand": 2,
               "conv_kernel": 4, "tie_word_embeddings": False}  # fmt: skip
    assert on_rank(write_config(tmp_path, **changes), 2)[1] == "assumed"
