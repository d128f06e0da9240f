"""GIVEN a training run WHEN its memory is asked THEN each part is that of the published formula."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from estimate.files import write_config, write_gguf

from oomdoctor.errors import InputRefused, UsageError
from oomdoctor.estimate.model_input import Model, read_model
from oomdoctor.estimate.training import (
    ACTIVATIONS,
    GRADIENTS,
    LAYER,
    LOGITS,
    OPTIMIZERS,
    PARAMETERS,
    STATES,
    TEMPORARY,
    Training,
    state_bytes,
    training_budget,
)

GIB = 1 << 30
COUNT = 8_030_261_248


@pytest.fixture
def llama(tmp_path: Path) -> Model:
    return read_model(write_config(tmp_path))


def sizes(model: Model, settings: Training) -> dict[str, int]:
    return {part.name: part.bytes for part in training_budget(model, settings).parts}


RUN = Training(80 * GIB)


@pytest.mark.parametrize(("precision", "each", "states"), [("bf16-mixed", 4, 8), ("fp32", 4, 8), ("bf16-pure", 2, 4)])
def test_sixteen_bytes_a_parameter_or_eight(llama: Model, precision: str, each: int, states: int) -> None:
    found = sizes(llama, replace(RUN, precision=precision))
    assert (found[PARAMETERS], found[GRADIENTS], found[STATES]) == (each * COUNT, each * COUNT, states * COUNT)


@pytest.mark.parametrize(
    ("stage", "parameters", "gradients", "states"),
    [(0, 4, 4, 8), (1, 2, 2, 12 / 8), (2, 2, 2 / 8, 12 / 8), (3, 2 / 8, 2 / 8, 12 / 8)],
)
def test_zero_divides_as_published(
    llama: Model, stage: int, parameters: float, gradients: float, states: float
) -> None:
    found = sizes(llama, replace(RUN, zero=stage, ranks=8))
    assert found[PARAMETERS] == pytest.approx(parameters * COUNT, abs=8)
    assert found[GRADIENTS] == pytest.approx(gradients * COUNT, abs=8)
    assert found[STATES] == pytest.approx(states * COUNT, abs=8)


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        ("adamw", 8_000_000), ("sgd", 0), ("sgd-momentum", 4_000_000), ("lion", 4_000_000), ("rmsprop", 4_000_000),
        ("adamw8bit", 2 * (1_000_000 + 4 * 3907)), ("lion8bit", 1_000_000 + 4 * 3907), ("adafactor", 8_000),
    ],
)  # fmt: skip
def test_states_by_optimizer(optimizer: str, expected: int) -> None:
    assert state_bytes(optimizer, 1_000_000, 1000, 4) == expected
    assert optimizer in OPTIMIZERS


def test_checkpointing_keeps_a_layer_s_input(llama: Model) -> None:
    whole, less = sizes(llama, RUN), sizes(llama, replace(RUN, checkpointing=True))
    cast = 2 * COUNT
    assert less[ACTIVATIONS] == 32 * 2048 * 4096 * 4 + cast
    assert whole[ACTIVATIONS] > 4 * less[ACTIVATIONS] - 4 * cast
    assert whole[LOGITS] == 2048 * 128_256 * 14


def test_the_peak_is_a_moment_and_the_largest_batch_the_last_that_fits(llama: Model) -> None:
    settings = replace(RUN, capacity_bytes=400 * GIB, batch=8)
    found = training_budget(llama, settings)
    assert found.total_bytes == max(moment.bytes for moment in found.moments) == found.peak.bytes
    assert found.verdict == "fits"
    assert training_budget(llama, replace(settings, batch=found.max_batch)).verdict == "fits"
    assert training_budget(llama, replace(settings, batch=found.max_batch + 1)).verdict != "fits"
    assert training_budget(llama, RUN).max_batch == 0
    assert training_budget(llama, RUN).verdict == "no"


def test_a_foreach_optimizer_needs_a_copy_for_a_moment(llama: Model) -> None:
    assert sizes(llama, RUN)[TEMPORARY] == 4 * COUNT
    assert sizes(llama, replace(RUN, foreach=False))[TEMPORARY] == 0


@pytest.mark.parametrize(
    ("optimizer", "copies"),
    [("adamw", 1), ("rmsprop", 1), ("adagrad", 2), ("sgd", 0), ("sgd-momentum", 0), ("lion", 0), ("adamw8bit", 0)],
)
def test_only_some_optimizers_make_copies_in_a_step(llama: Model, optimizer: str, copies: int) -> None:
    assert sizes(llama, replace(RUN, optimizer=optimizer))[TEMPORARY] == copies * 4 * COUNT


def test_what_cannot_be_trained_is_refused(llama: Model, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="muon"):
        training_budget(llama, replace(RUN, optimizer="muon"))
    with pytest.raises(UsageError, match="int1"):
        training_budget(llama, replace(RUN, precision="int1"))
    with pytest.raises(InputRefused, match="how many parameters"):
        training_budget(replace(llama, parameters=None), RUN)
    path = tmp_path / "m.gguf"
    pairs: dict[str, object] = {"general.architecture": "llama", "llama.block_count": 1, "llama.embedding_length": 8}
    write_gguf(path, {**pairs, "llama.attention.head_count": 1}, {})
    with pytest.raises(InputRefused, match="a GGUF file is not trained"):
        training_budget(read_model(path), RUN)


def test_sharded_mixed_precision_computes_in_bfloat16(llama: Model) -> None:
    whole, divided = sizes(llama, RUN), sizes(llama, replace(RUN, zero=1, ranks=8))
    pure = sizes(llama, replace(RUN, precision="bf16-pure"))
    assert divided[ACTIVATIONS] == pure[ACTIVATIONS] < whole[ACTIVATIONS] - 2 * COUNT


def test_what_follows_from_assumed_parameters_is_assumed(tmp_path: Path) -> None:
    model = read_model(write_config(tmp_path, model_type="seen-by-nobody", head_dim=128))
    known = {part.name: part.known for part in training_budget(model, RUN).parts}
    assert {known[name] for name in (PARAMETERS, GRADIENTS, STATES, ACTIVATIONS)} == {"assumed"}
    assert known[LOGITS] == "computed"


def test_every_figure_of_the_activations_is_among_their_inputs(tmp_path: Path) -> None:
    """Autocast's copy of each weight is more than half of what autograd keeps here: formula and inputs tell it."""
    model = read_model(write_config(tmp_path))
    part = next(each for each in training_budget(model, Training(80 * GIB)).parts if each.name == ACTIVATIONS)
    inputs = dict(part.inputs)
    assert inputs["bytes of copies"] == 2 * 8_030_261_248
    assert part.bytes == inputs["layers"] * inputs["bytes of one layer"] + inputs["bytes of copies"]
    assert "copies of weights" in part.formula
    assert part.known == "computed"


@pytest.mark.parametrize(
    "fields",
    [
        {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2},
        {"model_type": "deepseek_v2", "kv_lora_rank": 512, "q_lora_rank": None, "qk_rope_head_dim": 64,
         "qk_nope_head_dim": 128, "v_head_dim": 128, "n_routed_experts": None},
        {"model_type": "jamba", "attn_layer_period": 8, "attn_layer_offset": 4, "mamba_d_state": 16, "mamba_d_conv": 4,
         "mamba_expand": 2, "mamba_dt_rank": 256},
    ],
    ids=lambda fields: fields["model_type"],
)  # fmt: skip
def test_what_backward_keeps_of_layers_of_another_kind_is_assumed(tmp_path: Path, fields: dict[str, object]) -> None:
    """The formula is that of ordinary attention and a dense MLP."""
    model = read_model(write_config(tmp_path, **fields))
    known = {part.name: part.known for part in training_budget(model, Training(80 * GIB)).parts}
    assert (known[ACTIVATIONS], known[LAYER]) == ("assumed", "assumed")
