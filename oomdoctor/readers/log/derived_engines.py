"""What programs built on vLLM and llama.cpp say in words of their own: Ascend, stable diffusion, older ggml."""

from __future__ import annotations

import re

from ...model.events import EventKind, LogEvent
from .family import Family, Line, Pattern
from .forms import Fields, form, read_fields, reading
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


def _seeing(match: re.Match[str], line: Line) -> LogEvent | None:
    """llama.cpp tries its vision encoder with one image, or encodes one, and the buffer for it is refused next."""
    if any(is_refusal(text) for text in line.following(_REACH)):
        return event_of(EventKind.ENGINE_STEP_FAILED, line, {"engine": "llama.cpp", "step": "vision_encoder"})
    return None


def _in_tiles(match: re.Match[str], line: Line) -> LogEvent | None:
    """The bar of a tiled VAE is the last before an error."""
    step = "vae_decode" if match["half"] == "Decoder" else "vae_encode"
    if any("out of memory" in text for text in line.following(_REACH)):
        return event_of(EventKind.ENGINE_STEP_FAILED, line, {"engine": "other", "step": step})
    return None


_DIFFUSION: tuple[Pattern, ...] = (
    Pattern("Tiled VAE]: Executing ", r"\[Tiled VAE\]: Executing (?P<half>Encoder|Decoder) Task Queue", _in_tiles),
    Pattern("warmup with image size", r"\bwarmup with image size = \d", _seeing),
    Pattern("ncoding ", r"^(?:\S{1,40}: )?encoding (?:image|audio|mtmd)\b.{0,40}\.\.\.", _seeing),
    Pattern("decoding ", r"\bdecoding [0-9]{1,4} latents\s*$", _decoding),
)


# --- llama.cpp's first Metal backend and allocator, and a server that runs it -----------------------------------------
_ON_METAL = {"data": "weights", "kv": "kv", "eval": "compute", "alloc": "compute", "scr0": "compute", "scr1": "compute"}


def _metal_refused(match: re.Match[str], line: Line) -> LogEvent:
    """Buffers of the first Metal backend by their names."""
    fields: Fields = {"engine": "llama.cpp", "purpose": _ON_METAL.get(match["what"], "unknown"), "fatal": True}
    return event_of(EventKind.ENGINE_BUFFER_FAILED, line, {**fields, **read_fields(match)})


_GGML: tuple[Pattern, ...] = (
    form(
        "llama.cpp",
        EventKind.ENGINE_BUFFER_FAILED,
        "CUDA memory allocation error detected",
        r"^\s*CUDA memory allocation error detected:",
        purpose="unknown",
        fatal=True,
    ),
    form(
        "llama.cpp",
        EventKind.SLOT_TABLE_FULL,
        '"out of free blocks"',
        r"n_free_blocks < MAX_FREE_BLOCKS && \"out of free blocks\"",
    ),
    reading(
        "ggml_metal_add_buffer: error: failed to allocate",
        r"ggml_metal_add_buffer: error: failed to allocate '(?P<what>\w{1,20})\s{0,20}' buffer,"
        r" size = {requested_bytes:mib} MiB",
        _metal_refused,
    ),
)


# --- engines in Rust on candle, whose backtraces name functions only --------------------------------------------------
_CANDLE: tuple[Pattern, ...] = (
    Pattern(
        "candle_nn::var_builder::",
        r"^\s*(?P<number>\d{1,3}): .{0,80}\bcandle_nn::var_builder::",
        lambda match, line: event_of(EventKind.ENGINE_STEP_FAILED, line, {"engine": "other", "step": "load_weights"}),
    ),
)


# --- torch_memory_saver, by which SGLang pauses -----------------------------------------------------------------------
def _not_resumed(match: re.Match[str], line: Line) -> LogEvent:
    wakes = "func=resume" in match[0]
    fields: Fields = {"engine": "sglang", "purpose": "unknown", "pool": "sleep", "fatal": True}
    return event_of(EventKind.ENGINE_BUFFER_FAILED, line, {**fields, "wakes": True} if wakes else fields)


_SAVER: tuple[Pattern, ...] = (
    Pattern(
        "[torch_memory_saver.cpp]",
        r"\[torch_memory_saver\.cpp\] \w{1,20} error: 2 \(out of memory\).{0,120}",
        _not_resumed,
    ),
)


# --- Xinference -------------------------------------------------------------------------------------------------------
def _actor(match: re.Match[str], line: Line) -> tuple[LogEvent, ...]:
    """An actor is there once its model is: it was asked for something."""
    return (
        event_of(EventKind.ENGINE_START, line, {"options": (("model", match["model"]),)}),
        event_of(EventKind.ENGINE_PHASE, line, {"phase": "serving", "edge": "begin"}),
    )


_XINFERENCE: tuple[Pattern, ...] = (
    Pattern(
        "Model actor is out of memory",
        r"Model actor is out of memory, model id: (?P<model>[^,\s]{1,160}),",
        _actor,
    ),
)

WRAPPER = Family("xinference", _XINFERENCE)
"""Tells what ran on the line of the failure itself, so it is tried before what reads the failure."""
FAMILIES: tuple[Family, ...] = (
    Family("vllm-ascend", _ASCEND),
    Family("stable-diffusion.cpp", _DIFFUSION),
    Family("ggml", _GGML),
    Family("candle", _CANDLE),
    Family("torch-memory-saver", _SAVER),
)
