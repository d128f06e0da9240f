"""What a model's name tells of its weights: `Qwen2-7B-Instruct` has seven billion parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..model.evidence import Evidence
from ..model.facts import FactSet
from .asked_settings import capacity_of, number, options_of
from .deriver import computed

_PATHS = ("model", "model-path", "model-name-or-path", "model-id", "model-tag")
_SERVED = re.compile(r"\b(?:vllm serve|lmdeploy serve api_server|trtllm-serve(?: serve)?)\s{1,4}([^\s-]\S{0,300})")
_COUNT = re.compile(r"(?<![\d.x])([0-9]{1,4}(?:\.[0-9]{1,2})?)[Bb](?![A-Za-z0-9])")
_FEWER_BITS = re.compile(
    r"awq|gptq|gguf|ggml|exl[23]|bnb|[qw]\d|fp[48]|nf4|int[48]|[48][-_ ]?bits?|mxfp|nvfp|marlin"
    r"|gpt-oss|deepseek-(?:v3|r1(?!-distill))|kimi",
    re.IGNORECASE,
)
"""Names of models whose weights have fewer than 16 bits, or that are published so."""
_QUANTISED = ("quantization", "quantize", "load-in-4bit", "load-in-8bit", "load-format")
_BYTES_OF_DTYPE = {"float": 4, "float32": 4, "fp32": 4, "half": 2, "float16": 2, "fp16": 2, "bfloat16": 2, "bf16": 2}
_SEES = re.compile(
    r"(?<![a-z])(?:vlm?\d?|vision|llava\w{0,8}|\w{0,8}vl\d?|pixtral|omni|minicpm-?(?:v|o)|paligemma\d?|idefics\d?|cogvlm\d?)"
    r"(?![a-z])",
    re.IGNORECASE,
)
"""Names of models that take images beside text."""
_NEARLY_ALL = 0.97
_GGUF_PATHS = ("model", "hf-repo", "hf-file")
_GGUF_TYPE = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:I?Q|TQ|MXFP)(?P<bits>[1-8])(?:_\w{1,6})?|(?P<whole>BF16|F16|F32))(?![A-Za-z0-9])", re.I
)
_MORE_BITS, _MORE_PARAMETERS = 2, 1.35
"""Some tensors of a quantised file have more bits than its name says, and a model more parameters than its name's round
number; `3B` may be 3.6."""


def derive(evidence: Evidence, facts: FactSet) -> None:
    """Bytes of the weights on one card by the name of the model and the type of its numbers, where both are told."""
    options = options_of(evidence)
    _put_file(options, facts)
    name = _name(options, evidence.command)
    if _SEES.search(name):
        facts.put("model.sees_images", True, computed("command.line"))
    counts = {float(text) for text in _COUNT.findall(name)}
    if len(counts) != 1 or _FEWER_BITS.search(name) or any(options.get(key) for key in _QUANTISED):
        return
    size = _BYTES_OF_DTYPE.get((options.get("dtype") or "").lower())
    cards = (number(options, "tensor-parallel-size", "tp", "tp-size", "num-shard") or 1) * (
        number(options, "pipeline-parallel-size", "pp-size") or 1
    )
    named = round(counts.pop() * 1e9 * (size or 2)) // cards
    source = computed("command.line")
    facts.put("model.named_weights_bytes", named, source)
    facts.put("model.named_bits_told", size is not None, source)
    total = capacity_of(facts)
    if total is not None:
        facts.put("model.named_exceeds", named > _NEARLY_ALL * total, source)


def _put_file(options: Mapping[str, str | None], facts: FactSet) -> None:
    """A bound above, from names like `Llama-3.2-1B-Instruct-Q4_K_M.gguf`."""
    name = " ".join((options.get(key) or "").rstrip("/").rsplit("/", 1)[-1] for key in _GGUF_PATHS)
    found, counts = _GGUF_TYPE.search(name), {float(text) for text in _COUNT.findall(name)}
    if found is None or len(counts) != 1:
        return
    whole = {"F32": 32, "F16": 16, "BF16": 16}.get((found["whole"] or "").upper())
    bits = whole or int(found["bits"]) + _MORE_BITS
    size = round(counts.pop() * 1e9 * _MORE_PARAMETERS * bits / 8)
    facts.put("model.named_file_bytes", size, computed("command.line"))


def _name(options: Mapping[str, str | None], command: str | None) -> str:
    """The last part of the model's path."""
    path = next((value for key in _PATHS if (value := options.get(key))), None)
    if path is None and command is not None and (found := _SERVED.search(command)):
        path = found[1]
    return (path or "").strip("'\"").rstrip("/").rsplit("/", 1)[-1]
