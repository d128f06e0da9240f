"""GIVEN a training that ran out of memory WHEN its census or model is known THEN needs and holdings are compared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from estimate.files import LLAMA_8B, write_config
from given import HERE, gib, mib, run

from oomdoctor.estimate.adapters import Lora
from oomdoctor.estimate.kept import launch_config_to_keep
from oomdoctor.estimate.model_input import Model, read_model
from oomdoctor.estimate.training import (
    ACTIVATIONS,
    GRADIENTS,
    LOGITS,
    PARAMETERS,
    STATES,
    Training,
    state_parts,
    training_budget,
)
from oomdoctor.facts import derive_all
from oomdoctor.facts.estimated import Reckoned
from oomdoctor.facts.trainer_file import trainer_file_options
from oomdoctor.model.estimated import EstimatedPart
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.run import AllocatorState, Census, CensusDevice, CensusGroup, DeviceOomRecord, StackFrame
from oomdoctor.readers.inputs import read_inputs

COUNT = 1_000_000_000
NET = "Net 'net' local to train()"
PARAMETER = CensusGroup(0, "parameters", NET, 4 * COUNT, 100, largest_shape=(1000, 1000), largest_dtype="float32")
GRADIENT = replace(PARAMETER, category="gradients", owner=f"gradients of {NET}")
SLOT = replace(PARAMETER, category="optimizer", owner="AdamW 'opt' local to train(): exp_avg", bytes=COUNT)
IDS = CensusGroup(0, "batch", "'ids' local to train()", 65536, 1, largest_shape=(4, 2048), largest_dtype="int64")
STEP = (StackFrame("/srv/train.py", 9, "train", "opt.step()"),
        StackFrame("/site-packages/torch/optim/adamw.py", 200, "step", "torch.zeros_like(p)"))  # fmt: skip
BACKWARD = (StackFrame("/srv/train.py", 8, "train", "loss.backward()"),)


def reckoned(
    *groups: CensusGroup,
    model: Model | None = None,
    command: str = "python train.py",
    frames: tuple[StackFrame, ...] = STEP,
    total: int = gib(80),
    launch_config: dict[str, object] | None = None,
    settings: dict[str, str | None] | None = None,
) -> Reckoned:
    held = sum(group.bytes for group in groups)
    state = AllocatorState(1050.0, 0, allocated_bytes=held, reserved_bytes=held)
    census = Census(HERE, (CensusDevice(0, held, held, 0, 0),), groups)
    record = DeviceOomRecord(HERE, 1050.0, 7, 0, gib(1), total, mib(300), state, frames=frames, census=census)
    told = None if settings is None else {"paths": ["sft.yaml"], "options": settings}
    ran = run(device_ooms=(record,), launch_config=launch_config, trainer_settings=told)
    evidence = Evidence(runs=(ran,), command=command)
    return derive_all(evidence, model)[1]


def parts_of(found: Reckoned) -> dict[str, EstimatedPart]:
    assert found.estimated is not None, found.why_not
    return {part.what: part for part in found.estimated.parts}


@pytest.fixture
def llama(tmp_path: Path) -> Model:
    return read_model(write_config(tmp_path))


def test_without_a_model_the_gradients_tell_what_the_optimizer_will_keep() -> None:
    found = reckoned(PARAMETER, GRADIENT, SLOT, total=gib(14))
    parts = parts_of(found)
    assert (parts[PARAMETERS].estimated_bytes, parts[PARAMETERS].observed_bytes) == (4 * COUNT, 4 * COUNT)
    assert (parts[STATES].estimated_bytes, parts[STATES].observed_bytes) == (8 * COUNT, COUNT)
    assert found.estimated is not None
    assert found.estimated.sentences == (
        "Parameters, gradients and optimizer states alone are 14.90 GiB, more than the card has (14.00 GiB): no batch"
        " is small enough.",
        "Of the optimizer's states 953.67 MiB were made when it failed; 6.52 GiB were still to come.",
        "Nothing that was observed is more than was estimated.",
    )
    # In the backward pass not all gradients are made: they tell nothing yet.
    assert reckoned(PARAMETER, GRADIENT, frames=BACKWARD) == (None, None)


def test_with_a_model_a_whole_step_is_estimated(llama: Model) -> None:
    ids = replace(IDS, largest_shape=(1, 512))
    found = reckoned(PARAMETER, ids, model=llama, frames=BACKWARD)
    settings = Training(gib(80), precision="fp32", batch=1, sequence=512)
    budget = training_budget(llama, settings)
    parts = parts_of(found)
    for name in (PARAMETERS, GRADIENTS, STATES, ACTIVATIONS, LOGITS):
        assert parts[name].estimated_bytes == next(part.bytes for part in budget.parts if part.name == name)
    assert found.estimated is not None
    assert found.estimated.sentences[0].endswith("no batch is small enough.")
    assert found.estimated.sentences[-1] == "What differs most is parameters: 29.92 GiB estimated, 3.73 GiB measured."
    assert found.estimated.settings.startswith("training of 8,030,261,248 parameters, adamw, fp32, on a card of 80.00")


def test_the_buckets_of_ranks_that_shard_nothing_are_in_a_step(llama: Model) -> None:
    ids = replace(IDS, largest_shape=(1, 512))
    command = "torchrun --nproc_per_node=8 train.py --ddp-timeout 60"
    alone = Training(gib(200), precision="fp32", batch=1, sequence=512)
    many = training_budget(llama, replace(alone, ranks=8)).total_bytes
    for line, expected in (("python train.py", training_budget(llama, alone).total_bytes), (command, many)):
        found = reckoned(PARAMETER, ids, model=llama, command=line, frames=BACKWARD, total=gib(200))
        assert found.estimated is not None
        assert f"needs {expected / gib(1):.2f} GiB" in found.estimated.sentences[0]


def test_a_graph_that_was_kept_is_what_differs(tmp_path: Path) -> None:
    small = read_model(write_config(tmp_path, num_hidden_layers=2, vocab_size=1000))
    count = small.parameters
    assert count is not None
    kept = replace(PARAMETER, category="saved-for-backward", owner="list 'losses' local to train()", bytes=gib(9))
    own = [replace(each, bytes=4 * count) for each in (PARAMETER, GRADIENT)]
    found = reckoned(*own, kept, replace(IDS, largest_shape=(1, 128)), model=small, frames=BACKWARD)
    assert found.estimated is not None
    assert any("A batch of" in each and "fits by the estimate" in each for each in found.estimated.sentences)
    assert found.estimated.sentences[-1].startswith("What differs most is activations kept for backward:")


@pytest.mark.parametrize(
    ("groups", "command", "expected"),
    [
        ((PARAMETER,), "python train.py --bf16 --optim adamw_bnb_8bit", ("bf16-mixed", "adamw8bit", 0)),
        ((replace(PARAMETER, largest_dtype="bfloat16"),), "python train.py --optim adafactor",
         ("bf16-pure", "adafactor", 0)),
        ((PARAMETER, replace(SLOT, owner="SGD 'opt' local to train(): momentum_buffer")), "python train.py",
         ("fp32", "sgd-momentum", 0)),
        ((replace(PARAMETER, largest_dtype="bfloat16"),), "torchrun --nproc-per-node 8 train.py --zero-stage 2",
         ("bf16-mixed", "adamw", 2)),
        ((PARAMETER,), "torchrun --nproc-per-node 8 train.py --bf16 True --fsdp full_shard",
         ("bf16-mixed", "adamw", 3)),
        ((PARAMETER,), "torchrun --nproc-per-node 8 train.py --fsdp shard_grad_op", ("fp32", "adamw", 2)),
    ],
)  # fmt: skip
def test_precision_optimizer_and_sharding(
    llama: Model, groups: tuple[CensusGroup, ...], command: str, expected: tuple[str, str, int]
) -> None:
    found = reckoned(*groups, model=llama, command=command)
    precision, optimizer, zero = expected
    ranks = 8 if zero else 1
    assert found.estimated is not None, found.why_not
    wanted = Training(gib(80), optimizer, precision, zero=zero, ranks=ranks)
    assert llama.parameters is not None
    states = {part.name: part.bytes for part in state_parts(llama.parameters, 4096, wanted)}
    assert {name: parts_of(found)[name].estimated_bytes for name in (PARAMETERS, GRADIENTS, STATES)} == {
        name: states[name] for name in (PARAMETERS, GRADIENTS, STATES)
    }


@pytest.mark.parametrize(
    ("groups", "command", "why"),
    [
        ((PARAMETER,), "python train.py --lora-alpha 8", "the rank of its adapters (LoRA)"),
        ((PARAMETER,), "python train.py --lora-r 8 --load-in-8bit", "--load-in-8bit"),
        ((replace(PARAMETER, owner="PeftModel 'm' local to f()"),), "python train.py", "LoRA"),
        ((replace(PARAMETER, largest_dtype="uint8"),), "python train.py", "parameters of type uint8"),
        ((replace(PARAMETER, largest_dtype=None),), "python train.py", "does not tell the type"),
        ((PARAMETER,), "python train.py --optim paged_adamw_8bit", "host memory"),
        ((PARAMETER,), "python train.py --optim muon", "the optimizer muon"),
        ((PARAMETER,), "deepspeed --num_gpus 8 train.py --deepspeed ds.json", "how its states are sharded"),
        ((GRADIENT,), "python train.py", "the precision"),
    ],
)
def test_what_the_estimate_does_not_know_is_said(
    llama: Model, groups: tuple[CensusGroup, ...], command: str, why: str
) -> None:
    found = reckoned(*groups, model=llama, command=command)
    assert found.estimated is None
    assert why in (found.why_not or "")


def test_the_launchers_file_that_run_kept_tells_the_sharding(llama: Model, tmp_path: Path) -> None:
    narrow, command = replace(PARAMETER, largest_dtype="bfloat16"), "deepspeed --num_gpus 8 t.py --deepspeed ds.json"
    file = tmp_path / "ds.json"
    file.write_text(
        '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}'
    )
    kept = launch_config_to_keep(file)
    found = reckoned(narrow, replace(IDS, largest_shape=(1, 512)), model=llama, command=command, launch_config=kept)
    settings = Training(gib(80), batch=1, sequence=512, zero=2, ranks=8, offload_states=True, buffer_bytes=10**9)
    assert found.estimated is not None, found.why_not
    needed = training_budget(llama, settings)
    assert f"needs {needed.total_bytes / gib(1):.2f} GiB" in found.estimated.sentences[0]
    assert parts_of(found)[STATES].estimated_bytes == 0
    file.write_text('{"zero_optimization": {"stage": 9}}')
    broken = reckoned(narrow, model=llama, command=command, launch_config=launch_config_to_keep(file))
    assert broken.estimated is None
    assert "zero_optimization.stage is 9" in (broken.why_not or "")


def test_adapters_whose_rank_stands_in_a_file_that_run_kept(llama: Model, tmp_path: Path) -> None:
    """GIVEN a trainer's YAML, or PEFT's file WHEN its options were kept THEN the incident is reconciled with them."""
    frozen = replace(PARAMETER, owner="PeftModel 'm' local to f()", bytes=2 * 8_030_261_248, largest_dtype="bfloat16")
    ids = replace(IDS, largest_shape=(1, 512))
    assert reckoned(frozen, ids, model=llama, command="python t.py sft.yaml").estimated is None
    file = tmp_path / "sft.yaml"
    file.write_text("use_peft: true\nlora_r: 16\nlora_target_modules: [q_proj, v_proj]\nhub_token: hf_secret\n")
    options = trainer_file_options([file])
    assert options == {"use-peft": "true", "lora-r": "16", "lora-target-modules": "q_proj,v_proj"}
    found = reckoned(frozen, ids, model=llama, command="python t.py sft.yaml", settings=options)
    expected = Training(gib(80), precision="bf16-pure", batch=1, sequence=512, lora=Lora(16))
    budget = {part.name: part.bytes for part in training_budget(llama, expected).parts}
    for name in (PARAMETERS, GRADIENTS, STATES, ACTIVATIONS):
        assert parts_of(found)[name].estimated_bytes == budget[name]
    # The launch line overrules the file.
    other = reckoned(frozen, ids, model=llama, command="python t.py sft.yaml --lora_r 8", settings=options)
    assert other.estimated is not None
    assert other.estimated.settings.startswith("training of 3,407,872 parameters")


def test_a_base_of_four_bits_is_seen_in_the_census(llama: Model) -> None:
    """GIVEN packed parameters beside float ones WHEN the rank is told THEN the base counts as four bits."""
    owner = "PeftModel 'm' local to f()"
    packed = replace(PARAMETER, owner=owner, bytes=3_925_868_544, largest_dtype="uint8")
    rest = replace(PARAMETER, owner=owner, bytes=4 * 1_050_939_392, largest_dtype="float32")
    ids, command = replace(IDS, largest_shape=(1, 512)), "python t.py --lora_r 16 --bf16"
    found = reckoned(packed, rest, ids, model=llama, command=command)
    expected = Training(gib(80), batch=1, sequence=512, lora=Lora(16, base="nf4"))
    budget = {part.name: part.bytes for part in training_budget(llama, expected).parts}
    parts = parts_of(found)
    for name in (PARAMETERS, GRADIENTS, STATES, ACTIVATIONS):
        assert parts[name].estimated_bytes == budget[name]
    assert parts[PARAMETERS].observed_bytes == packed.bytes + rest.bytes
    double = reckoned(
        packed, rest, ids, model=llama, command=f"{command} --load_in_4bit --bnb_4bit_use_double_quant true --use_dora"
    )
    lora = Lora(16, base="nf4-double", dora=True)
    assert parts_of(double)[PARAMETERS].estimated_bytes == next(
        part.bytes for part in training_budget(llama, replace(expected, lora=lora)).parts if part.name == PARAMETERS
    )


def test_adapters_whose_rank_the_launch_line_tells(llama: Model) -> None:
    frozen = replace(PARAMETER, owner="PeftModel 'm' local to f()", bytes=2 * 8_030_261_248, largest_dtype="bfloat16")
    ids, command = replace(IDS, largest_shape=(1, 512)), "python t.py --lora_r 16 --lora_target_modules q_proj v_proj"
    found = reckoned(frozen, ids, model=llama, command=command)
    settings = Training(gib(80), precision="bf16-pure", batch=1, sequence=512, lora=Lora(16))
    budget = {part.name: part.bytes for part in training_budget(llama, settings).parts}
    for name in (PARAMETERS, GRADIENTS, STATES, ACTIVATIONS):
        assert parts_of(found)[name].estimated_bytes == budget[name]
    assert found.estimated is not None
    assert found.estimated.settings.startswith("training of 6,815,744 parameters, adamw, bf16-pure")
    # Without a batch too, and loaded in float32.
    wide = parts_of(reckoned(replace(frozen, largest_dtype="float32"), model=llama, command=command))
    assert wide[PARAMETERS].estimated_bytes == 4 * (8_030_261_248 + 6_815_744)
    # The matrices beside them are not known without a model.
    assert reckoned(frozen, GRADIENT, command=command).estimated is None


GENERATE = (StackFrame("/srv/serve.py", 3, "generate", "model(ids)"),)


def test_a_loop_of_one_s_own_is_an_inference_whose_cache_is_so_many_tokens(llama: Model) -> None:
    weights = replace(PARAMETER, bytes=2 * 8_030_261_248, largest_dtype="bfloat16")
    kv = replace(PARAMETER, category="kv", owner="list 'cache' local to generate()", bytes=50_000 * 131_072)
    found = reckoned(weights, kv, model=llama, frames=GENERATE, command="python serve.py", total=gib(24))
    parts = parts_of(found)
    assert parts["weights"].estimated_bytes == parts["weights"].observed_bytes
    assert found.estimated is not None
    assert found.estimated.sentences[0] == "The keys and values that were there are 50,000 tokens of this model."
    assert found.estimated.sentences[-1] == "What was found agrees with the estimate."
    # Loaded in float32 they are twice as large: that is what differs.
    wide = reckoned(replace(weights, bytes=4 * 8_030_261_248), kv, model=llama, frames=GENERATE, command="python s.py")
    assert wide.estimated is not None
    assert wide.estimated.sentences[-1] == "What differs most is weights: 14.96 GiB estimated, 29.92 GiB measured."
    assert reckoned(PARAMETER, kv, frames=GENERATE, command="python serve.py") == (None, None)


def printed(**changes: object) -> str:
    """As transformers prints it, one field a line."""
    return "[INFO|configuration_utils.py:839] 2025-12-31 13:11:37,798 >> Model config LlamaConfig " + json.dumps(
        {**LLAMA_8B, **changes}, indent=2
    )


TRACE = """Traceback (most recent call last):
  File "/srv/train.py", line 8, in train
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of \
which 1.00 GiB is free.
"""


def test_a_configuration_that_is_printed_tells_the_model(tmp_path: Path) -> None:
    log, command = (
        tmp_path / "train.log",
        "python train.py --bf16 --per-device-train-batch-size 4 --max-seq-length 2048",
    )
    log.write_text(f"{printed()}\n{printed(_name_or_path='x')}\n\n{TRACE}")
    found = derive_all(read_inputs([log], command=command))[1].estimated
    assert found is not None
    assert found.settings.startswith("training of 8,030,261,248 parameters, adamw, bf16-mixed")
    assert {part.what for part in found.parts} >= {PARAMETERS, STATES, ACTIVATIONS, LOGITS}
    # Two models, or one that is cut: which of them was trained is not guessed.
    for text in (f"{printed()}\n{printed(num_hidden_layers=2)}", printed()[:300], printed(model_type="x", latent=8)):
        log.write_text(f"{text}\n\n{TRACE}")
        assert derive_all(read_inputs([log], command=command))[1].estimated is None
