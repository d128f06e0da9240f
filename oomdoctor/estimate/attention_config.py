"""The attention layers of a configuration: heads, widths, windows, latent vectors, shared and cross layers.

Field names and their traps were read in the configuration classes of transformers 5.24.0 and checked against the caches
that its models allocate (tests/estimate/test_transformers.py).
"""

from __future__ import annotations

from ..errors import InputRefused
from ..language import _
from .architecture import Attention, Cache, CrossAttention, Latent
from .families import (
    BY_CLASS,
    EVERY_HEAD_IS_KEPT,
    HEAD_WIDTH_IS_A_SHARE,
    HEAD_WIDTH_IS_OWN,
    INDEXERS_ARE_LISTED,
    KNOWN,
    LATENT,
    NO_GROUPS,
    WINDOW_IF_ASKED,
    WINDOW_IN_EVERY_LAYER,
    WINDOW_PATTERN,
)
from .fields import Fields
from .tensors import head_width_of

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
ENCODER_DECODERS = frozenset(
    ("whisper", "bart", "mbart", "pegasus", "marian", "m2m_100", "t5", "mt5", "umt5", "longt5", "blenderbot", "plbart")
)
_WORDS = {
    "attention": FULL, "global": FULL, "indexed_attention": FULL, "sliding": SLIDING, "local": SLIDING,
    "local_attention": SLIDING, "chunked": CHUNKED,
}  # fmt: skip


_QUERY_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")


def layer_count(fields: Fields) -> int:
    """Decoder layers, under the names of the families."""
    return fields.layers("num_hidden_layers", "n_layer", "n_layers", "num_layers")


def query_heads(fields: Fields) -> int:
    """Query heads."""
    return fields.number(*_QUERY_HEADS)


def hidden_size(fields: Fields) -> int:
    """The width of the residual stream."""
    return fields.number("hidden_size", "n_embd", "d_model", "n_embed")


def kv_heads(family: str, fields: Fields) -> int:
    """Heads that keys and values are kept for: one, a group's or all."""
    heads = query_heads(fields)
    nested = fields.part("attn_config")
    if family == "falcon":
        if fields.flag("new_decoder_architecture", False):
            return _groups(fields, fields.number("num_kv_heads"), "num_kv_heads")
        return 1 if fields.flag("multi_query", True) else heads
    if family in NO_GROUPS:
        return heads
    if family == "gpt_bigcode":
        return 1 if fields.flag("multi_query", True) else heads
    if family == "chatglm":
        if not fields.flag("multi_query_attention", False):
            return heads
        return _groups(fields, fields.number("multi_query_group_num"), "multi_query_group_num")
    if family in ("mpt", "dbrx"):
        found = nested.maybe("kv_n_heads") if nested is not None else None
        if found is None and family == "dbrx":
            raise InputRefused(
                _("{where}: the field attn_config.kv_n_heads is missing; it is not guessed").format(where=fields.where)
            )
        return heads if found is None else _groups(fields, found, "attn_config.kv_n_heads")
    names = ("num_key_value_heads", "num_kv_heads", "n_head_kv")
    found = fields.maybe(*names)
    if found is None and family not in EVERY_HEAD_IS_KEPT:
        raise InputRefused(
            _(
                "{where}: the field num_key_value_heads is missing, and it is not known for {family} that "
                "every head keeps its own; it is not guessed"
            ).format(where=fields.where, family=repr(family))
        )
    return heads if found is None else _groups(fields, found, fields.name_of(*names))


def _groups(fields: Fields, found: int, name: str) -> int:
    """KV heads that the attention heads share evenly. Raises InputRefused for another number."""
    heads = query_heads(fields)
    if found > heads:
        raise InputRefused(
            _("{where}: {found} KV heads of {heads} attention heads are not those of a model ({name})").format(
                where=fields.where, found=found, heads=heads, name=name
            )
        )
    return fields.dividing(found, name, heads, fields.name_of(*_QUERY_HEADS))


def head_width(family: str, fields: Fields) -> int:
    """The width of a head: its own field where there is one, a share of the hidden size elsewhere."""
    names = ("attention_head_dim",) if family == "zamba2" else ("head_dim", "d_kv", "attention_head_dim", "kv_channels")
    explicit = fields.maybe(*names)
    if explicit is not None:
        return explicit
    hidden, heads = hidden_size(fields), query_heads(fields)
    width = head_width_of(hidden, heads)
    if family not in KNOWN | HEAD_WIDTH_IS_A_SHARE:
        raise InputRefused(
            _(
                "{where}: the field head_dim is missing, and the family {family} is not known here: whether it is "
                "{hidden} / {heads} is not guessed"
            ).format(where=fields.where, family=repr(family), hidden=hidden, heads=heads)
        )
    if family in HEAD_WIDTH_IS_OWN or "head_dim" in BY_CLASS.get(family, {}) or width is None:
        raise InputRefused(
            _(
                "{where}: the field head_dim is missing, and for {family} it is not {hidden} / {heads}; it "
                "is not guessed"
            ).format(where=fields.where, family=repr(family), hidden=hidden, heads=heads)
        )
    return width


def layer_kinds(family: str, fields: Fields, layers: int) -> list[str]:
    """For each layer: everything, a window, or what its own field calls it."""
    listed = fields.items("layer_types", layers)
    if listed is not None:
        return [_WORDS.get(str(each), str(each)) for each in listed]
    if family in ("llama4_text", "llama4"):
        return _llama4_kinds(fields, layers)
    if family in WINDOW_IF_ASKED and not fields.flag("use_sliding_window", False):
        return [FULL] * layers
    if not fields.has("sliding_window"):
        return [FULL] * layers
    if family in WINDOW_IN_EVERY_LAYER:
        return [SLIDING] * layers
    if family in WINDOW_IF_ASKED:
        if not fields.has("max_window_layers"):
            raise InputRefused(
                _("{where}: the field max_window_layers is missing; it is not guessed").format(where=fields.where)
            )
        first = fields.count("max_window_layers")
        return [SLIDING if layer >= first else FULL for layer in range(layers)]
    named = ("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers")
    pattern = fields.maybe(*named) or WINDOW_PATTERN.get(family)
    if pattern is None:
        raise InputRefused(
            _(
                "{where}: sliding_window is set, but the field layer_types is missing: which layers have the "
                "window is not guessed"
            ).format(where=fields.where)
        )
    return [SLIDING if (layer + 1) % pattern else FULL for layer in range(layers)]


def attention_layer(family: str, fields: Fields, kind: str, layer: int) -> Cache:
    """What one attention layer of that kind keeps."""
    # DeepSeek-VL2's smallest says use_mla: false, and has ordinary heads.
    latent = family in LATENT or "kv_lora_rank" in BY_CLASS.get(family, {})
    if fields.has("kv_lora_rank") or (latent and fields.flag("use_mla", True)):
        return _latent(family, fields, layer)
    heads, width = kv_heads(family, fields), head_width(family, fields)
    if kind == FULL:
        if not fields.has("per_layer_config"):
            width = fields.maybe("global_head_dim") or width
        if fields.has("num_global_key_value_heads") and fields.flag("attention_k_eq_v", True):
            heads = _groups(fields, fields.number("num_global_key_value_heads"), "num_global_key_value_heads")
    elif family == "mimo_v2_flash":
        # Its class doubles the KV heads of windowed layers; the published file names them.
        heads = fields.count("swa_num_key_value_heads") or 2 * heads
    width, heads = _own(fields, layer, "head_dim") or width, _own(fields, layer, "num_key_value_heads") or heads
    kept = None
    if family == "falcon" and fields.flag("new_decoder_architecture", False):
        kept = query_heads(fields)
    values = fields.maybe("v_head_dim") or width
    return Attention(heads, width, values, _window(family, fields, kind), kept, chunked=kind == CHUNKED)


def decoder_of_pair(family: str, fields: Fields) -> tuple[int, tuple[Cache, ...]]:
    """An encoder-decoder's decoder: its layers, and what they keep of their own tokens and of the encoder's output."""
    model = fields.number("d_model", "hidden_size")
    layers = fields.layers("decoder_layers", "num_decoder_layers", "num_layers")
    heads = fields.number("decoder_attention_heads", "num_heads")
    width = fields.maybe("d_kv") or head_width_of(model, heads)
    if width is None:
        raise InputRefused(
            _("{where}: {hidden} is not a multiple of {heads} heads, and no field names their width").format(
                where=fields.where, hidden=model, heads=heads
            )
        )
    positions = fields.number("max_source_positions") if family == "whisper" else None
    one: tuple[Cache, ...] = (Attention(heads, width, width), CrossAttention(heads, width, width, positions))
    return layers, one * layers


def _latent(family: str, fields: Fields, layer: int) -> Latent:
    indexers = fields.items("indexer_types", layer_count(fields))
    if indexers is None and family in INDEXERS_ARE_LISTED:
        raise InputRefused(
            _("{where}: the field indexer_types is missing; it is not guessed").format(where=fields.where)
        )
    # A layer whose indexer is shared uses the keys of an earlier one.
    shared = indexers is not None and indexers[layer] == "shared"
    return Latent(
        rank=fields.number("kv_lora_rank"),
        query_rank=fields.maybe("q_lora_rank"),
        rope_width=fields.number("qk_rope_head_dim"),
        heads=query_heads(fields),
        nope_width=fields.number("qk_nope_head_dim"),
        value_width=fields.number("v_head_dim"),
        indexer_width=0 if shared else fields.maybe("index_head_dim") or 0,
    )


def _window(family: str, fields: Fields, kind: str) -> int | None:
    if kind == SLIDING:
        window = fields.number("sliding_window", "attention_window_size")
        # The classes of these halve it where a token sees those behind it too.
        both_ways = fields.values.get("use_bidirectional_attention") in (True, "all")
        return window // 2 + 1 if both_ways and family.startswith(("gemma3_text", "gemma4")) else window
    return fields.number("attention_chunk_size") if kind == CHUNKED else None


def _llama4_kinds(fields: Fields, layers: int) -> list[str]:
    listed = fields.items("no_rope_layers")
    if listed:
        if len(listed) != layers:
            raise InputRefused(
                _("{where}: no_rope_layers names {listed} layers, the model has {layers}").format(
                    where=fields.where, listed=len(listed), layers=layers
                )
            )
        return [CHUNKED if each else FULL for each in listed]
    interval = fields.number("no_rope_layer_interval")
    return [CHUNKED if (layer + 1) % interval else FULL for layer in range(layers)]


def _own(fields: Fields, layer: int, name: str) -> int | None:
    """A layer's own value (Gemma 4 names the layers that differ)."""
    listed = fields.values.get("per_layer_config")
    if not isinstance(listed, dict):
        return None
    own = listed.get(f"{layer:02d}") or listed.get(str(layer))
    return Fields(own, f"{fields.where}, per_layer_config").maybe(name) if isinstance(own, dict) else None
