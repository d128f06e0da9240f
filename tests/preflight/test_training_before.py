"""GIVEN a command that trains WHEN it is checked with its model THEN the training is judged by what is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from estimate.files import write_config
from preflight.given import GIB, card, only, setup

from oomdoctor.estimate.adapters import Lora
from oomdoctor.estimate.launch_config import default_accelerate_file
from oomdoctor.estimate.model_input import read_model
from oomdoctor.estimate.training import Training, training_budget
from oomdoctor.preflight.finding import Finding, Level
from oomdoctor.preflight.fit import check_fit
from oomdoctor.preflight.setup import Asked

HOUSE = ("--per_device_train_batch_size", "4", "--max_seq_length", "2048")
PLAIN = "from transformers import Trainer\nTrainer(model=AutoModel.from_pretrained('m')).train()\n"


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    return write_config(tmp_path / "model").parent


def trained(
    model: Path, *command: str, script: str | None = PLAIN, gpu: int = 80, cards: int = 1, free: int | None = None
) -> Finding:
    """The judgement of a training; of `train.py` in its place in the command, written beside the model."""
    path = model.parent / "train.py"
    if script is not None:
        path.write_text(script)
    words = tuple(str(path) if word == "train.py" else word for word in command)
    used = 0 if free is None else gpu - free
    seen = tuple(card(each, total=gpu * GIB, used=used * GIB) for each in range(cards))
    return only(check_fit(setup(*words, cards=seen, asked=Asked(model=model))), "fit.training")


def total_of(model: Path, **settings: Any) -> int:
    whole = Training(**{"capacity_bytes": 80 * GIB, "batch": 4, "sequence": 2048, **settings})
    return training_budget(read_model(model), whole).total_bytes


def test_what_is_all_told_is_judged_as_estimate_does(llama: Path) -> None:
    told = ("python", "train.py", *HOUSE, "--torch_dtype", "bfloat16", "--optim", "adamw_torch")
    found = trained(llama, *told)
    expected = total_of(llama, precision="bf16-pure")
    assert (found.level, found.figures["total_bytes"], found.figures["fits"]) == (Level.FAIL, expected, "no")
    assert found.seen.startswith("Training 4 x 2,048 tokens (adamw, bf16-pure) needs 108.12 GiB of card 0 (H100): par")
    assert (found.why, found.do) == ("It does not fit", "See the parts")
    assert found.lines == (
        f"oomdoctor estimate {llama} --train --gpu 80GiB --batch 4 --seq 2048 --precision bf16-pure",
    )
    assert trained(llama, *told, gpu=141).level is Level.FINE
    tight = trained(llama, *told, gpu=115)
    assert (tight.level, tight.figures["fits"]) == (Level.WARN, "tight")
    assert tight.do == "A batch of 3 fits with this length"
    beside = trained(llama, *told, gpu=141, free=90)
    assert (beside.level, beside.why[:40]) == (Level.FAIL, "The card would hold it, but only 90.00 G")


def test_the_inference_figure_is_none_of_a_training(llama: Path) -> None:
    given = setup("python", "t.py", *HOUSE, cards=(card(),), asked=Asked(model=llama))
    assert {each.check for each in check_fit(given)} == {"fit.training"}


@pytest.mark.parametrize(
    ("command", "script", "trains"),
    [
        (("python", "train.py", "--lr", "1e-4"), "x = 1\n", True),
        (("python", "train.py"), "loss.backward()\n", True),
        (("python", "train.py"), "from transformers import Trainer\n", True),
        (("python", "train.py", "--batch", "4", "--max-steps", "9"), "model.generate(ids)\n", False),
        (("vllm", "serve", "m", "--optimizer", "x"), "", False),
    ],
)
def test_what_trains(llama: Path, command: tuple[str, ...], script: str, trains: bool) -> None:
    path = llama.parent / "train.py"
    path.write_text(script)
    words = (str(path) if word == "train.py" else word for word in command)
    checks = {each.check for each in check_fit(setup(*words, cards=(card(),), asked=Asked(model=llama)))}
    assert checks == ({"fit.training"} if trains else {"fit"})


def test_what_is_not_told_is_counted_both_ways_and_said(llama: Path) -> None:
    mixed, pure = total_of(llama), total_of(llama, precision="bf16-pure")
    told = ("python", "train.py", *HOUSE, "--bf16")
    between = trained(llama, *told, gpu=141)
    assert mixed > 141 * GIB > pure
    assert (between.level, between.figures["total_bytes"]) == (Level.WARN, mixed)
    assert "unless it takes less than is assumed: 107.60 GiB at the least" in between.why
    assert "Assumed, as it is not told: parameters in float32" in between.why
    assert trained(llama, *told, gpu=80).level is Level.FAIL
    assert trained(llama, *told, gpu=200).level is Level.FINE
    # SFTTrainer's default, or a call in the script, may checkpoint: it may need far less.
    hidden = trained(llama, *told, script="from trl import SFTTrainer\nSFTTrainer().train()\n", gpu=95)
    assert (hidden.level, "no gradient checkpointing" in hidden.why) == (Level.WARN, True)
    off = trained(llama, *told, "--gradient_checkpointing", "False", script="import trl\n", gpu=95)
    assert (off.level, "no gradient checkpointing" in off.why) == (Level.FAIL, False)


LOOP = "import torch\nopt = torch.optim.{optimizer}(net.parameters())\nloss.backward()\nopt.step()\n"


def test_an_optimizer_that_is_not_told_is_assumed_to_be_adamw(llama: Path) -> None:
    told = ("python", "train.py", "--batch", "1", "--seq", "128", "--dtype", "float32", "--precision", "32")
    named = trained(llama, *told, script=LOOP.format(optimizer="AdamW"))
    assert (named.level, "AdamW" in named.why) == (Level.FAIL, False)
    unknown = trained(llama, *told, script=LOOP.format(optimizer="Frugal"))
    assert (unknown.level, "AdamW as the optimizer" in unknown.why) == (Level.WARN, True)
    assert unknown.figures["total_bytes"] == named.figures["total_bytes"]


def test_without_a_batch_or_a_length_parameters_gradients_and_states_are_judged(llama: Path) -> None:
    wide = ("python", "train.py", "--dtype", "float32", "--precision", "32", "--optim", "adamw_torch")
    for more, missing in (((), "batch of a card, the length"), (("--batch", "4"), "the length of a sequence")):
        found = trained(llama, *wide, *more)
        assert (found.level, found.figures["total_bytes"], found.figures["fits"]) == (Level.FAIL, None, None)
        assert "(adamw, fp32) needs 119.66 GiB of card 0 (H100): parameters 29.92 GiB + gradients" in found.seen
        assert missing in found.why
    room = trained(llama, *wide, gpu=200)
    assert (room.level, room.lines[0].partition(" --gpu ")[2]) == (Level.UNSEEN, "200GiB --precision fp32")


def test_frozen_parameters_and_scripts_that_are_not_all_read_make_no_sure_failure(llama: Path) -> None:
    told = ("python", "train.py", "--dtype", "float32", "--precision", "32", "--optim", "adamw_torch", *HOUSE)
    assert trained(llama, *told).level is Level.FAIL
    for script in (f"from peft import get_peft_model\n{PLAIN}", f"from . import model\n{PLAIN}", None):
        (llama.parent / "train.py").unlink(missing_ok=True)
        found = trained(llama, *told, script=script)
        assert (found.level, "that all parameters are trained" in found.why) == (Level.WARN, True)
    assert trained(llama, *told, "--config", "recipe.yaml").level is Level.WARN


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (("--zero_stage", "3"), {"zero": 3}),
        (("--fsdp", "shard_grad_op,auto_wrap"), {"zero": 2}),
        (("--use_fsdp", "--fsdp_sharding_strategy", "FULL_SHARD"), {"zero": 3}),
        (("--use_fsdp", "--fsdp_sharding_strategy", "2"), {"zero": 2}),
        (("--fsdp", "no_shard"), {}),
        (("--deepspeed", "ds.json"), {"zero": 2, "buffer_bytes": 1_000_000_000}),
        (("--gradient_checkpointing",), {"checkpointing": True}),
    ],
)
def test_sharding_and_checkpointing_of_eight_ranks(
    llama: Path, options: tuple[str, ...], settings: dict[str, Any]
) -> None:
    file = llama.parent / "ds.json"
    file.write_text(json.dumps({"bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}))
    named = tuple(str(file) if word == "ds.json" else word for word in options)
    found = trained(llama, "torchrun", "--nproc-per-node", "8", "train.py", *HOUSE, "--bf16", *named, cards=8)
    live = {"live_parameters": 1_000_000_000, "buffer_bytes": 2 * 550_000_000} if "--zero_stage" in options else {}
    assert found.figures["total_bytes"] == total_of(llama, ranks=8, **settings, **live)


def test_how_many_ranks_there_are(llama: Path) -> None:
    def ranks(*command: str) -> object:
        return trained(llama, *command, "train.py", *HOUSE, "--zero_stage", "2", cards=4).figures["ranks"]

    assert ranks("torchrun", "--nproc-per-node", "8", "--nnodes", "2") == 16
    assert ranks("torchrun", "--nproc-per-node", "gpu") == ranks("deepspeed") == ranks("accelerate", "launch") == 4
    assert ranks("accelerate", "launch", "--num_processes", "2") == 2


def test_the_line_goes_before_a_file_that_leaves_it_open(llama: Path) -> None:
    file = llama.parent / "acc.yaml"
    file.write_text("distributed_type: MULTI_GPU\nnum_processes: 8\nmixed_precision: 'no'\n")
    told = ("accelerate", "launch", "--config_file", str(file), "--num_processes", "4", "train.py", *HOUSE, "--bf16")
    found = trained(llama, *told, "--fsdp", "full_shard")
    assert found.figures["total_bytes"] == total_of(llama, zero=3, ranks=4)
    options = "--ranks 4 --zero 3 --batch 4 --seq 2048"
    assert found.lines in ((), (f"oomdoctor estimate {llama} --train --gpu 80GiB {options}",))
    assert trained(llama, *told, "--fsdp", "full_shard", gpu=20).lines[0].endswith(options)
    plain = trained(llama, *told[:4], *told[6:])
    assert plain.figures["total_bytes"] == total_of(llama, ranks=8)
    assert plain.lines[0].endswith(f"--launch-config {file} --batch 4 --seq 2048")


def test_adapters_are_judged_as_the_command_tells_them(llama: Path) -> None:
    told = ("python", "train.py", *HOUSE, "--lora_r", "16", "--torch_dtype", "bfloat16")
    some = trained(llama, *told, "--lora_target_modules", "q_proj", "v_proj")
    assert (some.level, some.figures["total_bytes"]) == (
        Level.FINE, total_of(llama, precision="bf16-pure", lora=Lora(16)),
    )  # fmt: skip
    every = trained(llama, *told)
    assert every.figures["total_bytes"] == total_of(llama, precision="bf16-pure", lora=Lora(16, ("all-linear",)))
    assert "adapters of all matrices" in trained(llama, *told, gpu=60).why
    for more, why in ((("--load_in_8bit",), "load-in-8bit"), (("--lora_target_modules", "mixer"), "'mixer'")):
        refused = trained(llama, *told, *more)
        assert (refused.level, why in refused.why) == (Level.UNSEEN, True)
    unranked = trained(llama, "python", "train.py", *HOUSE, "--use_peft")
    assert (unranked.level, "rank of its adapters" in unranked.why) == (Level.UNSEEN, True)


@pytest.mark.parametrize(
    ("name", "text", "lora"),
    [
        ("trl.yaml", "use_peft: true\nlora_r: 8\nlora_target_modules:\n- q_proj\n- v_proj\n", Lora(8)),
        ("factory.yaml", "finetuning_type: lora\nlora_rank: 8\nlora_target: all\nquantization_bit: 4\n"
         "double_quantization: true\n", Lora(8, ("all-linear",), base="nf4-double")),
        ("axolotl.yml", "adapter: qlora\nlora_r: 8\nlora_target_linear: true\npeft_use_dora: true\n",
         Lora(8, ("all-linear",), dora=True, base="nf4")),
        ("trl.json", '{"use_peft": true, "lora_r": 8, "lora_target_modules": ["q_proj", "v_proj"]}', Lora(8)),
        ("adapter_config.json", '{"peft_type": "LORA", "r": 8, "target_modules": ["q_proj", "v_proj"],'
         ' "use_dora": true}', Lora(8, dora=True)),
    ],
)  # fmt: skip
def test_a_trainers_own_file_tells_the_adapters(llama: Path, tmp_path: Path, name: str, text: str, lora: Lora) -> None:
    """GIVEN a file of settings that the command names WHEN it is checked THEN the file's options count."""
    folder = tmp_path / "settings"
    folder.mkdir()
    (folder / name).write_text(text)
    given = str(folder if name == "adapter_config.json" else folder / name)
    told = ("python", "train.py", given, *HOUSE, "--bf16", "--torch_dtype", "bfloat16", "--optim", "adamw_torch")
    found = trained(llama, *told, gpu=200)
    whole = {"precision": "bf16-mixed" if lora.base else "bf16-pure", "lora": lora}
    assert found.figures["total_bytes"] == total_of(llama, **whole), found.why
    assert found.level is Level.FINE
    if lora.base:  # without float32 embeddings and norms
        assert 0 < int(found.figures["least_bytes"] or 0) < int(found.figures["total_bytes"] or 0)


def test_accelerates_own_file_counts_where_none_is_named(llama: Path, tmp_path: Path) -> None:
    """GIVEN default_config.yaml in accelerate's folder WHEN accelerate launch names no other THEN it is read."""
    place = tmp_path / "hub" / "accelerate"
    place.mkdir(parents=True)
    file = place / "default_config.yaml"
    file.write_text(
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n"
        "fsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n"
    )
    home = f"HF_HOME={tmp_path / 'hub'}"
    told = ("env", home, "accelerate", "launch", "train.py", *HOUSE, "--optim", "adamw_torch")
    found = trained(llama, *told, cards=8)
    assert found.figures["zero"] == 3
    assert found.figures["total_bytes"] == total_of(llama, zero=3, ranks=8)
    assert default_accelerate_file({"HF_HOME": "/h"}) == Path("/h/accelerate/default_config.yaml")
    assert default_accelerate_file({"XDG_CACHE_HOME": "/c"}) == Path("/c/huggingface/accelerate/default_config.yaml")
    assert default_accelerate_file({"HOME": "/u"}) == Path("/u/.cache/huggingface/accelerate/default_config.yaml")
    other = tmp_path / "other.yaml"
    other.write_text("distributed_type: 'NO'\nmixed_precision: bf16\nnum_processes: 1\n")
    named = (
        "env",
        home,
        "accelerate",
        "launch",
        "--config_file",
        str(other),
        "train.py",
        *HOUSE,
        "--optim",
        "adamw_torch",
    )
    assert trained(llama, *named).figures["zero"] == 0


def test_a_launchers_file_that_is_not_there_leaves_it_open(llama: Path) -> None:
    found = trained(llama, "deepspeed", "train.py", *HOUSE, "--deepspeed", "gone.json")
    assert (found.level, found.why) == (Level.UNSEEN, "The file gone.json, which the command names, is not there")
    # Without one nobody knows what is sharded or kept in host memory.
    bare = trained(llama, "deepspeed", "train.py", *HOUSE, "--bf16")
    assert (bare.level, "that nothing is sharded" in bare.why) == (Level.WARN, True)
