"""GIVEN what programs print where a fused attention is not there WHEN read THEN that is told; nothing else is."""

from __future__ import annotations

from io import BytesIO

import pytest

from oomdoctor.model.events import EventKind
from oomdoctor.readers.log.engine import read_log


def missing(text: str) -> list[object]:
    events = read_log(BytesIO(text.encode()), "run.log").events
    return [event.fields["missing"] for event in events if event.kind is EventKind.UNFUSED_ATTENTION]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Flash Attn is not installed!", "Flash Attn"),
        ("Xformers is not installed!", "Xformers"),
        (
            "`flash-attention` package not found, consider installing it",
            "flash-attention",
        ),
        ("You are not running the flash-attention implementation, expect numerical differences.", "flash-attention"),
        ("Warning: import flash_attn rotary fail, please install FlashAttention rotary", "flash_attn"),
        ("FlashAttention2 is not installed.", "FlashAttention2"),
        ("xFormers not available", "xFormers"),
        ("No module 'xformers'. Proceeding without it.", "xformers"),
        ("UserWarning: 1Torch was not compiled with flash attention. (Triggered internally)", "flash attention"),
        ("RuntimeError: FlashAttention only supports Ampere GPUs or newer.", "FlashAttention"),
    ],
)
def test_it_is_not_there(text, name):
    assert missing(text) == [name]


@pytest.mark.parametrize(
    "text",
    [
        "Using Flash Attention backend.",
        "flash_attn is installed",
        "triton is not installed",
        "flashinfer is not installed",
        "Xformers is installed!",
    ],
)
def test_other_words(text):
    assert missing(text) == []
