"""A model's dimensions as its configuration and its loaders print them: heads, layers, widths, the vocabulary.

`"num_attention_heads": 32,` of a config.json or of the line that prints one; `n_head = 32` of llama.cpp's loader.
"""

from __future__ import annotations

import re

from ...model.events import EventKind, LogEvent
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
}
"""Names of transformers and of GGUF loaders; GPT-2's configuration has the latter as well."""


def _pattern(name: str, field: str) -> Pattern:
    regex = rf"(?<![\w.]){name}['\"]?\s{{0,20}}[:=]\s{{0,3}}([1-9][0-9]{{0,8}})(?![\w.\[])"

    def build(match: re.Match[str], line: Line) -> LogEvent:
        return event_of(EventKind.MODEL_DIMENSION, line, {field: int(match[1])})

    return Pattern(name, regex, build)


FAMILY = Family("model-dimensions", tuple(_pattern(name, field) for name, field in _NAMES.items()))
