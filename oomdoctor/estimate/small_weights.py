"""Norms, biases and gates beside the matrices of a layer: of which families they are counted exactly, and how many.

Held to the parameters of the classes of transformers 5.24 on the meta device (`tests/estimate/test_transformers.py`).
Of all other families the matrices are counted, and what is beside them is said to be left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ..language import N_
from .architecture import Architecture, Attention
from .fields import Fields
from .ranks import EVENLY, WHOLE


@dataclass(frozen=True)
class _Small:
    """What a family has of them, by its class."""

    norms: int = 2
    """Norms as wide as the model, of each layer."""
    last: int = 1
    """Norms behind all layers."""
    biased: bool = False
    """Whether a norm has a bias too."""
    head_norms: str = ""
    """Norms of queries and keys: of one head's width ("each") or of all heads' ("all")."""
    qkv: bool = False
    """Whether queries, keys and values have biases."""
    gate: bool = False
    """Whether a mixture's shared expert has a gate as wide as the model."""


_PLAIN = _Small()
_SMALL = {
    "gemma2": _Small(norms=4),
    "gemma3_text": _Small(norms=4, head_norms="each"),
    "gemma4_unified_text": _Small(norms=4, head_norms="each"),
    "glm": _Small(qkv=True),
    "glm4": _Small(norms=4, qkv=True),
    "cohere": _Small(norms=1),
    "cohere2": _Small(norms=1),
    "cohere2_moe": _Small(norms=1),
    "olmo": _Small(norms=0, last=0),
    "olmo2": _Small(head_norms="all"),
    "olmo3": _Small(head_norms="all"),
    "olmoe": _Small(head_norms="all"),
    "flex_olmo": _Small(head_norms="all"),
    "minimax_m2": _Small(head_norms="all"),
    "exaone4": _Small(head_norms="each"),
    "qwen3": _Small(head_norms="each"),
    "qwen3_moe": _Small(head_norms="each"),
    "lfm2": _Small(head_norms="each"),
    "qwen2": _Small(qkv=True),
    "qwen2_moe": _Small(qkv=True, gate=True),
    "seed_oss": _Small(qkv=True),
    "phimoe": _Small(biased=True),
    "stablelm": _Small(biased=True),
} | dict.fromkeys(
    ("cwm", "deepseek_v3", "ernie4_5", "exaone", "falcon_mamba", "gemma", "glm4_moe_lite", "granite", "granitemoe",
     "granitemoehybrid", "granitemoeshared", "helium", "internlm3", "iquestcoder", "llama", "llama4_text", "mamba",
     "mamba2", "minicpm3", "ministral3", "mistral", "mixtral", "phi3", "sarvam_mla", "smollm3", "solar_open",
     "vaultgemma", "youtu"),
    _PLAIN,
)  # fmt: skip
_QKV_BY = {"glm": "attention_bias", "glm4": "attention_bias", "seed_oss": "attention_bias", "qwen2_moe": "qkv_bias"}
"""The field without which queries, keys and values have no bias."""
_MORE = (
    "attention_bias", "attention_out_bias", "mlp_bias", "qkv_bias", "use_qkv_bias", "use_bias", "bias", "use_qk_norm",
    "qk_layernorm", "use_post_norm", "use_parallel_residual", "lm_head_bias",
    "mamba_proj_bias", "conv_bias",
)  # fmt: skip
_FEWER = ("use_conv_bias", "mamba_conv_bias")
"""Fields by which a class has more of them than by default, and fewer."""
_WITHOUT_WEIGHTS = {"llama4_text": "use_qk_norm"}
"""A norm that only divides by the length of a vector."""


def left_out(family: str, fields: Fields) -> str | None:
    """What of them is not counted, in words; None: nothing is."""
    if family not in _SMALL:
        return N_("biases and some norms")
    counted = _QKV_BY.get(family)
    if counted is not None and not fields.flag(counted, True):
        return N_("biases and some norms")
    nothing = (counted, _WITHOUT_WEIGHTS.get(family))
    asked = any(fields.values.get(name) for name in _MORE if name not in nothing)
    asked = asked or any(fields.values.get(name) is False for name in _FEWER)
    return N_("biases and some norms") if asked else None


def small_parameters(architecture: Architecture) -> Mapping[int, int]:
    """How many they are, by how many tensor-parallel ranks may share them (ranks.py has the limits)."""
    has, hidden = _SMALL.get(architecture.family, _PLAIN), architecture.hidden
    found = Counter[int]()
    # A layer of a state and no MLP has one norm.
    norms = 1 if architecture.intermediate == 0 and architecture.experts is None else has.norms
    found[WHOLE] += (norms * architecture.layers + has.last) * hidden * (2 if has.biased else 1)
    for cache, layers in architecture.alike:
        if not isinstance(cache, Attention):
            continue
        heads = architecture.heads or 0
        if has.head_norms == "each":
            found[WHOLE] += layers * 2 * cache.key_width
        if has.head_norms == "all" or has.qkv:
            found[EVENLY] += layers * heads * cache.key_width
            found[cache.kv_heads] += layers * cache.kv_heads * (cache.key_width + (cache.value_width if has.qkv else 0))
    if has.gate and architecture.experts is not None:
        found[WHOLE] += architecture.experts.layers * hidden
    return found
