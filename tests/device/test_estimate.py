"""GIVEN a decoder's loop on the emulated device WHEN its peak is estimated THEN it is the measured one within 5 %."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from extended import extended_but
from on_device import Device

from oomdoctor.estimate.adapters import Lora
from oomdoctor.estimate.budget import budget_of
from oomdoctor.estimate.dtypes import element_type
from oomdoctor.estimate.engines import TRANSFORMERS
from oomdoctor.estimate.hf_config import architecture_of
from oomdoctor.estimate.model_input import Model
from oomdoctor.estimate.parameters import count_parameters
from oomdoctor.estimate.settings import Settings
from oomdoctor.estimate.training import Training, training_budget

pytestmark = [pytest.mark.device, pytest.mark.slow]

LOOP = (Path(__file__).parent / "llama_loop.py").read_text()
GIB = 1 << 30
CONFIG = {
    "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16,
    "num_key_value_heads": 4, "intermediate_size": 5632, "vocab_size": 32000, "tie_word_embeddings": False,
}  # fmt: skip
CLOSE = 0.05


def model(config: dict[str, Any], element: str) -> Model:
    architecture = architecture_of(config, "config.json")
    count = count_parameters(architecture, "config.json")
    kind = element_type(element)
    return Model(Path("config.json"), architecture, kind, kind.bytes_of(count), "counted", count)


def measured(device: Device, config: dict[str, Any], **settings: object) -> tuple[int, int]:
    """Peak of what was allocated and of what was reserved, with the process's context."""
    given = {**config, "train": 0, "checkpointing": False, "precision": "", "tokens": 4, **settings}
    allocated, reserved = map(int, device.printed(f"settings = {given!r}\n{LOOP}").split())
    context = device.machine.cards.context_bytes
    return allocated + context, reserved + context


@pytest.mark.parametrize(
    ("batch", "length"),
    extended_but([(1, 512), (16, 2048), (4, 8192), (64, 1024)], (16, 2048)),
    ids=lambda value: str(value),
)
def test_the_peak_of_decoding_with_a_cache(device_with: Callable[..., Device], batch: int, length: int) -> None:
    device = device_with(memory_bytes=(80 * GIB,))
    allocated, reserved = measured(device, CONFIG, batch=batch, length=length)
    settings = Settings(TRANSFORMERS, 80 * GIB, length + 4, batch, overhead_bytes=device.machine.cards.context_bytes)
    estimated = budget_of(model(CONFIG, "bfloat16"), settings).total_bytes
    print(f"{estimated / GIB:.2f} estimated, {allocated / GIB:.2f} allocated, {reserved / GIB:.2f} reserved")
    assert abs(estimated - allocated) <= CLOSE * allocated


@pytest.mark.extended
@pytest.mark.parametrize("checkpointing", [False, True], ids=["whole", "checkpointed"])
@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-pure", "fp32"])
@pytest.mark.parametrize(("batch", "length"), [(1, 512), (4, 2048)], ids=lambda value: str(value))
def test_the_peak_of_training(
    device_with: Callable[..., Device], batch: int, length: int, precision: str, checkpointing: bool
) -> None:
    device = device_with(memory_bytes=(140 * GIB,))
    how = {"batch": batch, "length": length, "precision": precision, "checkpointing": checkpointing}
    allocated, reserved = measured(device, CONFIG, train=1, **how)
    settings = Training(
        140 * GIB, precision=precision, batch=batch, sequence=length, checkpointing=checkpointing,
        overhead_bytes=device.machine.cards.context_bytes,
    )  # fmt: skip
    estimated = training_budget(model(CONFIG, "float32"), settings)
    total = estimated.total_bytes
    print(f"{total / GIB:.2f} estimated ({estimated.peak.name}), {allocated / GIB:.2f} allocated, {reserved / GIB:.2f}")
    assert abs(total - allocated) <= CLOSE * allocated


@pytest.mark.extended
@pytest.mark.parametrize("optimizer", ["SGD", "RMSprop", "Adagrad"])
def test_the_peak_of_a_step_by_optimizer(device_with: Callable[..., Device], optimizer: str) -> None:
    device = device_with(memory_bytes=(140 * GIB,))
    how = {"batch": 1, "length": 128, "precision": "fp32", "checkpointing": False}
    allocated, _reserved = measured(device, CONFIG, train=1, optimizer=optimizer, **how)
    settings = Training(
        140 * GIB, optimizer=optimizer.lower(), precision="fp32", batch=1, sequence=128,
        overhead_bytes=device.machine.cards.context_bytes,
    )  # fmt: skip
    total = training_budget(model(CONFIG, "float32"), settings).total_bytes
    print(f"{optimizer}: {total / GIB:.2f} estimated, {allocated / GIB:.2f} allocated")
    assert abs(total - allocated) <= CLOSE * allocated


@pytest.mark.extended
@pytest.mark.parametrize("view", [False, True], ids=["copies", "views"])
@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-pure"])
def test_the_peak_of_ranks_that_shard_nothing(device_with: Callable[..., Device], precision: str, view: bool) -> None:
    device = device_with(memory_bytes=(140 * GIB,))
    how = {"batch": 1, "length": 512, "precision": precision, "ranks": 2, "bucket_view": view}
    allocated, _reserved = measured(device, CONFIG, train=1, **how)
    settings = Training(
        140 * GIB, precision=precision, batch=1, sequence=512, ranks=2, bucket_view=view,
        overhead_bytes=device.machine.cards.context_bytes,
    )  # fmt: skip
    total = training_budget(model(CONFIG, "float32"), settings).total_bytes
    print(f"{total / GIB:.2f} estimated, {allocated / GIB:.2f} allocated")
    assert abs(total - allocated) <= CLOSE * allocated


@pytest.mark.extended
@pytest.mark.parametrize(
    ("names", "targets"), [("q,v", ("q_proj", "v_proj")), ("q,k,v,o,gate,up,down", ("all-linear",))]
)
@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-pure", "fp32"])
def test_the_peak_of_training_adapters(
    device_with: Callable[..., Device], precision: str, names: str, targets: tuple[str, ...]
) -> None:
    device = device_with(memory_bytes=(140 * GIB,))
    how = {"batch": 4, "length": 1024, "precision": precision, "rank": 16, "targets": names}
    allocated, _reserved = measured(device, CONFIG, train=1, **how)
    settings = Training(
        140 * GIB, precision=precision, batch=4, sequence=1024, lora=Lora(16, targets),
        overhead_bytes=device.machine.cards.context_bytes,
    )  # fmt: skip
    total = training_budget(model(CONFIG, "bfloat16" if precision == "bf16-pure" else "float32"), settings).total_bytes
    print(f"{total / GIB:.2f} estimated, {allocated / GIB:.2f} allocated")
    assert abs(total - allocated) <= CLOSE * allocated


@pytest.mark.extended
@pytest.mark.parametrize("checkpointing", [False, True], ids=["whole", "checkpointed"])
@pytest.mark.parametrize("dora", [False, True], ids=["lora", "dora"])
@pytest.mark.parametrize(
    ("precision", "base"), [("bf16-mixed", "nf4"), ("bf16-pure", "nf4"), ("bf16-mixed", ""), ("bf16-pure", "")]
)
def test_the_peak_of_four_bits_and_dora(
    device_with: Callable[..., Device], precision: str, base: str, dora: bool, checkpointing: bool
) -> None:
    device = device_with(memory_bytes=(140 * GIB,))
    how = {"batch": 4, "length": 1024, "precision": precision, "rank": 16, "targets": "q,k,v,o,gate,up,down",
           "packed": int(bool(base)), "dora": int(dora), "checkpointing": checkpointing}  # fmt: skip
    allocated, _reserved = measured(device, CONFIG, train=1, **how)
    settings = Training(
        140 * GIB, precision=precision, batch=4, sequence=1024, lora=Lora(16, ("all-linear",), dora=dora, base=base),
        checkpointing=checkpointing, overhead_bytes=device.machine.cards.context_bytes,
    )  # fmt: skip
    total = training_budget(model(CONFIG, "bfloat16" if precision == "bf16-pure" else "float32"), settings).total_bytes
    print(f"{total / GIB:.2f} estimated, {allocated / GIB:.2f} allocated")
    assert abs(total - allocated) <= CLOSE * allocated
