"""A family that is not known here: its ordinary fields are counted, a field that may change what is kept is refused."""

from __future__ import annotations

from ..errors import InputRefused
from ..language import _
from .families import KNOWN
from .fields import Fields

_TELLING = (
    "window", "swa", "latent", "lora", "rank", "state", "share", "cross", "layer_type", "layers_type", "local",
    "global", "sparse", "chunk", "compress", "recur", "conv", "memory", "ssm", "mamba", "rwkv", "linear_", "_linear",
    "block", "pattern", "attn_type", "attention_type", "attn_layer", "attention_layer", "per_layer", "loop", "cache",
    "kv_", "_kv", "key_value", "v_head", "value_dim", "hash", "ngram", "pool", "hybrid", "indexer", "index_",
    "retention",
)  # fmt: skip
"""Parts of names by which fields speak of caches that are not a row a token, head and layer."""
_ORDINARY = frozenset(
    ("use_cache", "num_key_value_heads", "num_kv_heads", "output_hidden_states", "mlp_layer_types",
     "decoder_sparse_step", "chunk_size_feed_forward", "cache_implementation")
)  # fmt: skip
_OF_WINDOW = frozenset(("sliding_window", "max_window_layers"))
_FULL = frozenset(("full_attention", "attention", "global", "full"))


def refuse_strange_fields(family: str, fields: Fields) -> bool:
    """Whether the family is not known here, so that what is counted is assumed.

    Raises InputRefused with the field of an unknown family that may change what is kept.
    """
    if family in KNOWN:
        return False
    strange = next((name for name in fields.values if _is_strange(name, fields)), None)
    if strange is not None:
        raise InputRefused(
            _(
                "{where}: the family {family!r} is not known here, and its field {name} may change what is kept; it is"
                " not guessed"
            ).format(where=fields.where, family=family, name=strange)
        )
    fields.assumed.append(taken_to_be_ordinary(family))
    return True


def taken_to_be_ordinary(family: str) -> str:
    """The assumption, in words."""
    return _(
        "the family {family!r} is not known here: each layer is taken to be ordinary attention with a gated MLP"
    ).format(family=family)


def _is_strange(name: str, fields: Fields) -> bool:
    value = fields.values[name]
    if not value or name in _ORDINARY or "expert" in name or "rope" in name or name.startswith(("moe_", "_")):
        return False
    if name in _OF_WINDOW and (fields.values.get("use_sliding_window") is False or not fields.has("sliding_window")):
        return False
    if name == "layer_types" and isinstance(value, list):
        return not all(each in _FULL for each in value)
    # A bias of the matrix that makes queries, keys and values is none of a cache.
    return any(part in name.lower().replace("qkv", "") for part in _TELLING)
