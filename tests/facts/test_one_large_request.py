# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN one request as large as the card WHEN diagnosed THEN scores of an attention come first beside a loaded model, and a
shape larger than meant does elsewhere; without the failing line neither is sure."""

from __future__ import annotations

import pytest

from oomdoctor.diagnose.pipeline import diagnose

TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of 31.73 GiB of which"
    " {free} is free. Of the allocated memory {held} is allocated by PyTorch, and 120.00 MiB is reserved by PyTorch but unallocated."
)
NPU = (
    "RuntimeError: NPU out of memory. Tried to allocate {asked} (NPU 0; 31.73 GiB total capacity; {held} already allocated;"
    " {held} current active; {free} free; {held} reserved in total by PyTorch)"
)
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate {asked} (GPU 0; 31.73 GiB total capacity; {held} already allocated;"
    " {free} free; {held} reserved in total by PyTorch)"
)
EPOCH = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    loss.backward()\n'


def first(tmp_path, text):
    log = tmp_path / "serve.log"
    log.write_text(f"{text}\n", encoding="utf-8")
    found = diagnose([log]).findings
    return (found[0].cause, found[0].confidence.value)


@pytest.mark.parametrize("message", [TORCH, NPU, OLD])
def test_beside_a_loaded_model(tmp_path, message):
    text = message.format(asked="48.20 GiB", free="14.02 GiB", held="17.10 GiB")
    assert first(tmp_path, text) == ("attention-quadratic", "possible")


@pytest.mark.parametrize("message", [TORCH, OLD])
def test_beside_next_to_nothing(tmp_path, message):
    text = message.format(asked="48.20 GiB", free="30.02 GiB", held="0.90 GiB")
    assert first(tmp_path, text) == ("activation-peak", "likely")


def test_in_a_training_step(tmp_path):
    text = EPOCH + TORCH.format(asked="48.20 GiB", free="14.02 GiB", held="17.10 GiB")
    assert first(tmp_path, text)[0] == "activation-peak"


def test_the_program_said_that_it_has_no_fused_attention(tmp_path):
    text = "Flash Attn is not installed!\nRuntimeError: CUDA out of memory. Tried to allocate 30.10 GiB. GPU 0 has a total capacity of 12.00 GiB of which 5.00 GiB is free."
    assert first(tmp_path, text) == ("attention-quadratic", "likely")


def test_inside_torchs_attention_and_nothing_but_the_size(tmp_path):
    frame = 'Traceback (most recent call last):\n  File "m.py", line 8, in attend\n    out = F.scaled_dot_product_attention(q, k, v)\n'
    assert first(tmp_path, frame + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 41.00 GiB.") == (
        "attention-quadratic",
        "likely",
    )
