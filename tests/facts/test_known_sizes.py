"""GIVEN what an input tells of model, launch and image WHEN a request fails THEN its size is told by them, or not."""

from __future__ import annotations

import io

import pytest

from oomdoctor.facts import derive_facts
from oomdoctor.facts.known_sizes import Known, known_sizes, of_shape
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.facts import FactSet
from oomdoctor.readers.log.engine import read_log

MIB, GIB = 1 << 20, 1 << 30
KINDS = ("parameters", "projections", "activations", "latents")


def one(size: int, known: Known, kinds: tuple[str, ...] = KINDS) -> str | None:
    found = list(known_sizes(size, size, known, kinds))
    assert len(found) <= 1
    return found[0].product if found else None


@pytest.mark.parametrize(
    ("known", "size", "product"),
    [
        (Known(parameters=1_543_714_304), 1_543_714_304 * 4, "1543714304 parameters × 4 bytes"),
        (Known(trainable=1_543_714_304, ranks=3), 514_571_435 * 2, "1543714304 parameters ÷ 3 × 2 bytes"),
        (Known(trainable=1_543_714_304), 1_543_714_304 * 2 + 4096, "1543714304 parameters × 2 bytes"),  # padded
        (Known(trainable=1_543_714_304), 1_543_714_304 * 3, None),
        (Known(reduce_bucket=300_000_000), 600_000_000, "300000000 elements × 2 bytes"),
        (Known(hidden=2560, experts=48, expert_width=1152), 48 * 2304 * 2560 * 2, "48 experts × 2304 × 2560 × 2 bytes"),
        (
            Known(hidden=2560, experts=48, expert_width=1152, ranks=2),
            48 * 1152 * 2560 * 2,
            None,
        ),  # one, or both of half: two
        (Known(hidden=5120, intermediate=13824), 13824 * 5120 * 2, "13824 × 5120 × 2 bytes"),
        (Known(intermediate=13824, lengths=(9000, 77)), 9000 * 13824 * 2, "9000 positions × 13824 × 2 bytes"),
        (Known(image=(1152, 896)), (144 * 112) ** 2 * 32, "16128 × 16128 × 32 bytes"),
        (Known(image=(1152, 896)), (144 * 112) ** 2 * 33, None),
        (Known(), 9 * GIB, None),
    ],
)
def test_products(known, size, product):
    if product is None:
        assert len(list(known_sizes(size, size, known, KINDS))) != 1
    else:
        assert one(size, known) == product


def test_shapes():
    assert of_shape((9, 5, 7), 4, "float").product == "9 × 5 × 7 × 4 bytes"
    assert "batch of 24" in of_shape((24, 96, 56, 56), 4, "float").meaning
    assert "each pair of 9000 items" in of_shape((9000, 9000), 8, "float64").meaning


def facts_of_log(text: str) -> FactSet:
    return derive_facts(Evidence(events=read_log(io.BytesIO(text.encode()), "a.log").events))


def refused(size: int, code: str = "x = f(x)") -> str:
    amount = f"{size / GIB:.2f} GiB" if size >= GIB else f"{size / MIB:.2f} MiB"
    return (
        f'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    {code}\n'
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {amount}. GPU 0 has a total capacity of 79.15 "
        "GiB of which 1.25 GiB is free.\n"
    )


TRAINER = "  Number of trainable parameters = 1,543,714,304\n"
STEP = "optimizer.step()"


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        (TRAINER + refused(1_543_714_304 * 4, STEP), "parameters"),
        (TRAINER + refused(1_543_714_304 * 4 + 200 * MIB, STEP), None),
        ("trainable params: 83,886,080 || all params: 8,114,147,328 || trainable%: 1.03\n" + refused(8_114_147_328 * 2),
         "parameters"),
        ("[INFO] Reduce bucket size 300000000\n" + refused(600_000_000), "parameters"),
        (TRAINER + "[INFO] Reduce bucket size 300000000\n" + refused(100 * MIB), None),
        ('"num_experts": 48,\n"moe_intermediate_size": 1152,\n"hidden_size": 2560,\n'
         + refused(48 * 2304 * 2560 * 2, "model = AutoModelForCausalLM.from_pretrained(path)"), "projections"),
    ],
)  # fmt: skip
def test_rounded_figures_that_agree_with_what_is_known(log, kind):
    facts = facts_of_log(log)
    assert facts.value("request.kind") == kind
    assert facts.value("request.factors_exact") is (False if kind else None)


def test_the_latents_of_an_image_whose_sides_the_call_tells():
    frames = (
        '  File "gen.py", line 9, in <module>\n    pipe(prompt, height=1152, width=896)\n'
        '  File "/x/diffusers/models/attention_processor.py", line 310, in get_attention_scores\n'
        "    attention_scores = torch.baddbmm(baddbmm_input, query, key.transpose(-1, -2), beta=0, alpha=self.scale)\n"
    )
    log = refused((144 * 112) ** 2 * 20).replace('  File "train.py", line 3, in <module>\n    x = f(x)\n', frames)
    facts = facts_of_log(log)
    assert facts.value("request.factors") == "16128 × 16128 × 20 bytes"
    assert (facts.value("activity.image_width"), facts.value("activity.image_height")) == (896, 1152)


def test_a_shape_that_the_message_tells_is_the_explanation():
    failed = "OOM when allocating tensor with shape[24,96,56,56] and type float on /job:localhost/device:GPU:0 by x_bfc"
    facts = facts_of_log(f"ResourceExhaustedError: {failed}\n")
    assert facts.value("request.factors") == "24 × 96 × 56 × 56 × 4 bytes"
    assert facts.value("request.factors_exact") is True
    array = "MemoryError: Unable to allocate {} GiB for an array with shape (67000, 67000) and data type float64\n"
    assert facts_of_log(array.format("33.4")).value("request.factors") == "67000 × 67000 × 8 bytes"
    assert facts_of_log(array.format("12.4")).value("request.factors") is None
