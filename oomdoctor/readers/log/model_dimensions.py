"""A model's dimensions as its configuration and its loaders print them: heads, layers, widths, the vocabulary.

`"num_attention_heads": 32,` of a config.json or of the line that prints one; `n_head = 32` of llama.cpp's loader.
"""

from __future__ import annotations

import json
import re

from ...model.events import EventKind, FieldValue, LogEvent
from .family import Family, Line, Pattern
from .statement import event_of

_NAMES = {
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "num_hidden_layers": "layers",
    "hidden_size": "hidden",
    "head_dim": "head_dimension",
    "vocab_size": "vocabulary",
    "n_head": "heads",
    "n_head_kv": "kv_heads",
    "n_layer": "layers",
    "n_embd": "hidden",
    "n_vocab": "vocabulary",
    "intermediate_size": "intermediate",
    "n_ff": "intermediate",
    "num_experts": "experts",
    "num_local_experts": "experts",
    "n_routed_experts": "experts",
    "n_expert": "experts",
    "moe_intermediate_size": "expert_width",
}
"""Names of transformers and of GGUF loaders; GPT-2's configuration has the latter as well."""


def _pattern(name: str, field: str) -> Pattern:
    regex = rf"(?<![\w.]){name}['\"]?\s{{0,20}}[:=]\s{{0,3}}([1-9][0-9]{{0,8}})(?![\w.\[])"

    def build(match: re.Match[str], line: Line) -> LogEvent:
        return event_of(EventKind.MODEL_DIMENSION, line, {field: int(match[1])})

    return Pattern(name, regex, build)


def _counted(anchor: str, regex: str, field: str) -> Pattern:
    def build(match: re.Match[str], line: Line) -> LogEvent:
        return event_of(EventKind.MODEL_DIMENSION, line, {field: int(match[1].replace(",", ""))})

    return Pattern(anchor, regex, build)


_NUMBER = r"([1-9][0-9,]{0,18})(?![\w.])"
_METADATA = (
    r"llama_model_loader: - kv {1,4}([0-9]{1,4}): {1,80}([A-Za-z0-9][\w.-]{0,80})"
    r" (u8|i8|u16|i16|u32|i32|u64|i64|bool|str|arr\[[a-z0-9]{1,5},[0-9]{1,9}\]) {1,40}= (.{1,400})"
)
"""A pair that llama.cpp and Ollama print of a file: `- kv   4:   llama.block_count u32    = 32`; a long list is cut."""
_LENGTH_COUNTS = "tokenizer.ggml.tokens"


_WHOLE = re.compile("-?[0-9]{1,20}")


def _metadata(match: re.Match[str], line: Line) -> LogEvent | None:
    key, kind, text = match[2], match[3], match[4].strip()
    if key.startswith(("tokenizer.", "general.")) and key not in (_LENGTH_COUNTS, "general.architecture"):
        # The first pair begins a file, whatever it says.
        return event_of(EventKind.MODEL_METADATA, line, {"number": 0}) if int(match[1]) == 0 else None
    fields: dict[str, FieldValue] = {"number": int(match[1]), "key": key}
    if kind.startswith("arr"):
        fields["length"] = int(kind.rpartition(",")[2].rstrip("]"))
        items = text.strip("[]").split(", ")
        whole = len(items) == fields["length"] and all(map(_WHOLE.fullmatch, items))
        fields |= {"value": tuple(int(item) for item in items)} if whole else {"cut": True}
    elif kind == "str":
        fields["value"] = text
    elif kind == "bool":
        fields["value"] = text == "true"
    elif _WHOLE.fullmatch(text):
        fields["value"] = int(text)
    return event_of(EventKind.MODEL_METADATA, line, fields)


_MOST_LINES, _MOST_CHARACTERS = 600, 20_000


def _config(_match: re.Match[str], line: Line) -> LogEvent | None:
    """The lines up to the bracket that closes the first, where they are JSON."""
    text = "{"
    for each in line.following(_MOST_LINES):
        text += each.strip()
        if each.rstrip() == "}" or len(text) > _MOST_CHARACTERS:
            break
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return event_of(EventKind.MODEL_CONFIG, line, {"json": text}) if isinstance(found, dict) else None


FAMILY = Family(
    "model-dimensions",
    (
        *(_pattern(name, field) for name, field in _NAMES.items()),
        _counted("Number of trainable parameters", rf"Number of trainable parameters ?= ?{_NUMBER}", "trainable"),
        _counted("trainable params: ", rf"\btrainable params: {_NUMBER}", "trainable"),
        _counted("|| all params: ", rf"\|\| all params: {_NUMBER}", "parameters"),
        _counted("educe bucket size", rf"\b[Rr]educe bucket size:? {_NUMBER}", "reduce_bucket"),
        _counted("llgather bucket size", rf"\b[Aa]llgather bucket size:? {_NUMBER}", "gather_bucket"),
        Pattern("llama_model_loader: - kv ", _METADATA, _metadata),
        Pattern("Model config ", r"Model config [A-Za-z0-9_]{1,80} \{\s*$", _config),
    ),
)
