"""What programs built on vLLM and llama.cpp say in words of their own: the plugin for Ascend, stable diffusion."""

from __future__ import annotations

import re

from ...model.events import EventKind, LogEvent
from .family import Family, Line, Pattern
from .forms import read_fields, reading
from .llamacpp import is_refusal
from .statement import event_of


# --- vllm-ascend ------------------------------------------------------------------------------------------------------
def _left_of_the_card(match: re.Match[str], line: Line) -> tuple[LogEvent, ...]:
    """In bytes; nothing left is its last word before it gives up."""
    found = event_of(EventKind.ENGINE_KV_AVAILABLE, line, {"engine": "vllm", **read_fields(match)})
    none = event_of(EventKind.ENGINE_KV_NONE, line, {"engine": "vllm"})
    return (found,) if found.size("kv_bytes") else (found, none)


_ASCEND: tuple[Pattern, ...] = (
    reading(
        "Available memory: ", r"Available memory: {kv_bytes:n}, total memory: {total_bytes:n}\b", _left_of_the_card
    ),
)

# --- stable-diffusion.cpp ---------------------------------------------------------------------------------------------
_REACH = 6
"""Lines in which the refusal follows."""


def _decoding(match: re.Match[str], line: Line) -> LogEvent | None:
    """The last that was told before a refusal."""
    for text in line.following(_REACH):
        if _DECODED.search(text):
            return None
        if is_refusal(text):
            return event_of(EventKind.ENGINE_STEP_FAILED, line, {"engine": "llama.cpp", "step": "vae_decode"})
    return None


_DECODED = re.compile(r"\blatents? (?:\d{1,4} )?decoded\b|decode_first_stage completed")
_DIFFUSION: tuple[Pattern, ...] = (Pattern("decoding ", r"\bdecoding [0-9]{1,4} latents\s*$", _decoding),)

FAMILIES: tuple[Family, ...] = (Family("vllm-ascend", _ASCEND), Family("stable-diffusion.cpp", _DIFFUSION))
