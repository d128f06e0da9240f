"""GIVEN adapters beside frozen layers WHEN they are estimated THEN parameters and activations are those of PEFT."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from estimate.files import write_config

from oomdoctor.errors import InputRefused
from oomdoctor.estimate.adapters import ALL_LINEAR, Lora, frozen_layer_activations, read_lora, trained_parameters
from oomdoctor.estimate.four_bit import base_bytes
from oomdoctor.estimate.hf_config import architecture_of
from oomdoctor.estimate.model_input import read_model
from oomdoctor.estimate.parameters import packed_bytes
from oomdoctor.estimate.training import (
    BUCKETS,
    GATHERED,
    GRADIENTS,
    NORM,
    PARAMETERS,
    STATES,
    UNPACKED,
    Training,
    training_budget,
)

GIB = 1 << 30
SMALL = {
    "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2, "intermediate_size": 1376, "vocab_size": 1000,
}  # fmt: skip
ALL = (ALL_LINEAR,)
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
_ROOTS = 8
"""Of the two norms, in float32: what is left out of the formula."""
_WEIGHTS = 2 * 2_768_896 / 512
"""Autocast's copies of a layer's matrices, a token; they are counted apart."""


@pytest.mark.parametrize(
    ("precision", "targets", "measured"),
    [
        ("bf16-pure", ("q_proj", "v_proj"), 19_176),
        ("bf16-pure", ATTENTION, 23_400),
        ("bf16-pure", ALL, 33_192),
        ("fp32", ("q_proj", "v_proj"), 27_944),
        ("fp32", ATTENTION, 28_072),
        ("fp32", ALL, 35_816),
        # With the adapters' own copies, 104, 208 and 562 bytes a token here.
        ("bf16-mixed", ("q_proj", "v_proj"), 27_984 - _WEIGHTS - 104),
        ("bf16-mixed", ATTENTION, 30_200 - _WEIGHTS - 208),
        ("bf16-mixed", ALL, 35_450 - _WEIGHTS - 562),
    ],
)
def test_what_a_frozen_layer_keeps_of_a_token(precision: str, targets: tuple[str, ...], measured: float) -> None:
    """Measured: what autograd saved for each further layer; transformers 5.24.0, PEFT 0.21.2, rank 16, 512 tokens."""
    found = frozen_layer_activations(architecture_of(SMALL, "c"), Lora(16, targets), 512, precision, "c") / 512
    assert abs(found + _ROOTS - measured) <= 2


@pytest.mark.parametrize(
    ("precision", "targets", "dora", "base", "measured"),
    [
        # Of four bits; prepare_model_for_kbit_training with bf16-mixed. Adapters' own copies: 208 and 1,124 bytes.
        ("bf16-mixed", ("q_proj", "v_proj"), False, "nf4", 25_528 - 208),
        ("bf16-mixed", ALL, False, "nf4", 33_452 - 1_124),
        ("bf16-pure", ("q_proj", "v_proj"), False, "nf4", 19_176),
        ("bf16-pure", ALL, False, "nf4", 33_192),
        # DoRA, with three rows of magnitudes for each matrix: 30 and 213 bytes a token here.
        ("bf16-pure", ("q_proj", "v_proj"), True, "", 23_046 - 30),
        ("bf16-pure", ALL, True, "", 60_669 - 213),
        ("fp32", ("q_proj", "v_proj"), True, "", 33_094 - 30),
        ("fp32", ALL, True, "", 72_381 - 213),
        ("bf16-mixed", ("q_proj", "v_proj"), True, "", 41_494 - 2 * _WEIGHTS - 208 - 30),
        ("bf16-mixed", ALL, True, "", 65_217 - 2 * _WEIGHTS - 1_124 - 213),
        ("bf16-mixed", ("q_proj", "v_proj"), True, "nf4", 29_398 - 208 - 30),
        ("bf16-pure", ALL, True, "nf4", 60_669 - 213),
    ],
)
def test_what_a_layer_keeps_with_four_bits_or_dora(
    precision: str, targets: tuple[str, ...], dora: bool, base: str, measured: float
) -> None:
    """Measured as above with 256 tokens; bitsandbytes 0.50.2, PEFT 0.21.2, transformers 5.24.0."""
    lora = Lora(16, targets, dora=dora, base=base)
    found = frozen_layer_activations(architecture_of(SMALL, "c"), lora, 256, precision, "c", bool(base)) / 256
    assert abs(found + _ROOTS - measured) <= 3


def test_dora_on_four_bits_in_all_matrices() -> None:
    """Measured 59,905: one copy less than is counted, 1,024 bytes of a token."""
    lora = Lora(16, ALL, dora=True, base="nf4")
    found = frozen_layer_activations(architecture_of(SMALL, "c"), lora, 256, "bf16-mixed", "c", True) / 256
    assert abs(found + _ROOTS - (59_905 - 1_124 - 213)) / 59_905 < 0.02


@pytest.mark.parametrize(
    ("values", "double", "size"),
    [
        # Two values in a byte, a float32 for 64; in double a byte for 64, a float32 for 256 of these.
        (4096 * 4096, False, 8_388_608 + 1_048_576),
        (4096 * 4096, True, 8_388_608 + 262_144 + 4_096),
        (65, False, 33 + 8),
        (65, True, 33 + 2 + 4),
    ],
)
def test_values_of_four_bits(values: int, double: bool, size: int) -> None:
    assert packed_bytes(values, double) == size


def test_the_base_of_llama_8b_in_four_bits(tmp_path: Path) -> None:
    """Embedding, output and norms stay: 1,050,939,392 of 8,030,261,248 parameters."""
    model = read_model(write_config(tmp_path))
    inside = 8_030_261_248 - 1_050_939_392
    assert base_bytes(model, "nf4", "bf16-mixed") == inside // 2 + inside // 16 + 4 * 1_050_939_392
    assert base_bytes(model, "nf4", "bf16-pure") == inside // 2 + inside // 16 + 2 * 1_050_939_392
    scales = inside // 64
    double = inside // 2 + scales + 4 * -(-scales // 256)
    assert base_bytes(model, "nf4-double", "bf16-mixed") == double + 4 * 1_050_939_392
    assert round(double / inside, 4) == 0.5159
    parts = {
        part.name: part.bytes for part in training_budget(model, Training(80 * GIB, lora=Lora(16, base="nf4"))).parts
    }
    assert parts[PARAMETERS] == 4 * 6_815_744 + base_bytes(model, "nf4", "bf16-mixed")
    assert parts[UNPACKED] == 2 * 4096 * 14336


def test_a_base_of_four_bits_is_gathered_as_it_is_kept(tmp_path: Path) -> None:
    model = read_model(write_config(tmp_path))
    settings = Training(80 * GIB, lora=Lora(16, base="nf4"), zero=3, ranks=8)
    sizes = {part.name: part.bytes for part in training_budget(model, settings).parts}
    assert sizes[GATHERED] == 2 * base_bytes(model, "nf4", "bf16-mixed") // 32


def test_dora_has_a_magnitude_for_each_output(tmp_path: Path) -> None:
    model = read_model(write_config(tmp_path))
    outputs = 32 * (4096 + 1024)
    assert trained_parameters(model.architecture, Lora(16, dora=True), "c") == 6_815_744 + outputs
    norm = {p.name: p.bytes for p in training_budget(model, Training(80 * GIB, lora=Lora(16, dora=True))).parts}[NORM]
    assert norm == 6 * 4096 * 4096 + 18 * 4096 * 4096


def test_what_four_bits_are_refused_for(tmp_path: Path) -> None:
    mixture = {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None}
    model = read_model(write_config(tmp_path, **mixture))
    with pytest.raises(InputRefused, match="its experts bitsandbytes quantises"):
        base_bytes(model, "nf4", "bf16-mixed")
    stored = {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}
    model = read_model(write_config(tmp_path, **stored))
    with pytest.raises(InputRefused, match="stored as gptq"):
        base_bytes(model, "nf4", "bf16-mixed")
    with pytest.raises(InputRefused, match="not trained themselves, only adapters"):
        training_budget(model, Training(80 * GIB))


def test_parameters_of_llama_8b(tmp_path: Path) -> None:
    model = read_model(write_config(tmp_path))
    assert trained_parameters(model.architecture, Lora(16), "c") == 6_815_744
    assert trained_parameters(model.architecture, Lora(16, ALL), "c") == 41_943_040
    with_head = trained_parameters(model.architecture, Lora(16, whole=("lm_head",)), "c")
    assert with_head == 6_815_744 + 128_256 * 4096


def test_only_adapters_have_gradients_and_states(tmp_path: Path) -> None:
    model = read_model(write_config(tmp_path))
    sizes = {part.name: part.bytes for part in training_budget(model, Training(80 * GIB, lora=Lora(16))).parts}
    assert sizes[PARAMETERS] == model.weights_bytes + 4 * 6_815_744
    assert sizes[GRADIENTS] == 4 * 6_815_744
    assert sizes[STATES] == 8 * 6_815_744
    sharded = training_budget(model, Training(80 * GIB, lora=Lora(16), zero=3, ranks=8))
    assert next(part.bytes for part in sharded.parts if part.name == PARAMETERS) == -(-sizes[PARAMETERS] // 8)
    many = training_budget(model, Training(80 * GIB, lora=Lora(16), ranks=8))
    assert next(part.bytes for part in many.parts if part.name == BUCKETS) == 4 * 6_815_744


@pytest.mark.parametrize(
    ("config", "targets", "words"),
    [
        ({}, ("qkv_proj",), "a matrix 'qkv_proj'"),
        ({"num_local_experts": 8, "num_experts_per_tok": 2, "model_type": "mixtral"}, ALL, "on its experts"),
        ({"model_type": "deepseek_v3", "kv_lora_rank": 64, "qk_rope_head_dim": 32, "qk_nope_head_dim": 32,
          "v_head_dim": 32, "n_routed_experts": None}, ("q_proj",), "are not known one by one"),
    ],
)  # fmt: skip
def test_a_matrix_that_is_not_known_is_named(config: dict[str, Any], targets: tuple[str, ...], words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        trained_parameters(architecture_of({**SMALL, **config}, "c"), Lora(8, targets), "c")


def test_a_file_of_peft(tmp_path: Path) -> None:
    written = {"peft_type": "LORA", "r": 64, "target_modules": ["v_proj", "q_proj"], "modules_to_save": None}
    file = tmp_path / "adapter_config.json"
    file.write_text(json.dumps(written))
    assert read_lora(tmp_path) == read_lora(file) == Lora(64, ("q_proj", "v_proj"))
    file.write_text(json.dumps({**written, "target_modules": ALL_LINEAR}))
    assert read_lora(file).targets == ALL
    for change, words in (
        ({"r": None}, "the field r"), ({"target_modules": None}, "the field target_modules"),
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"), ({"rank_pattern": {"q_proj": 8}}, "rank_pattern"),
    ):  # fmt: skip
        file.write_text(json.dumps({**written, **change}))
        with pytest.raises(InputRefused, match=words):
            read_lora(file)
