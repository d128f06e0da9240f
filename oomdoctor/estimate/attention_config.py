"""The attention layers of a configuration: heads, widths, windows, latent vectors, shared and cross layers.

Field names and their traps were read in the configuration classes of transformers 5.24.0 and checked against the caches
that its models allocate (tests/estimate/test_transformers.py).
"""

from __future__ import annotations

from ..errors import InputRefused
from ..language import _
from .architecture import Attention, Cache, CrossAttention, Latent
from .families import (
    EVERY_HEAD_IS_KEPT,
    HEAD_WIDTH_IS_OWN,
    LATENT,
    NO_GROUPS,
    WINDOW_IF_ASKED,
    WINDOW_IN_EVERY_LAYER,
    WINDOW_NOT_KNOWN,
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


def layer_count(fields: Fields) -> int:
    """Decoder layers, under the names of the families."""
    return fields.layers("num_hidden_layers", "n_layer", "n_layers", "num_layers")


def query_heads(fields: Fields) -> int:
    """Query heads."""
    return fields.number("num_attention_heads", "n_head", "n_heads", "num_heads")


def hidden_size(fields: Fields) -> int:
    """The width of the residual stream."""
    return fields.number("hidden_size", "n_embd", "d_model", "n_embed")


def kv_heads(family: str, fields: Fields) -> int:
    """Heads that keys and values are kept for: one, a group's or all."""
    heads = query_heads(fields)
    nested = fields.part("attn_config")
    if family == "falcon":
        if fields.flag("new_decoder_architecture", False):
            return fields.number("num_kv_heads")
        return 1 if fields.flag("multi_query", True) else heads
    if family in NO_GROUPS:
        return heads
    if family == "gpt_bigcode":
        return 1 if fields.flag("multi_query", True) else heads
    if family == "chatglm":
        return fields.number("multi_query_group_num") if fields.flag("multi_query_attention", False) else heads
    if family in ("mpt", "dbrx"):
        found = nested.maybe("kv_n_heads") if nested is not None else None
        if found is None and family == "dbrx":
            raise InputRefused(
                _("{where}: the field attn_config.kv_n_heads is missing; it is not guessed").format(where=fields.where)
            )
        return found or heads
    found = fields.maybe("num_key_value_heads", "num_kv_heads", "n_head_kv")
    if found is None and family not in EVERY_HEAD_IS_KEPT:
        raise InputRefused(
            _(
                "{where}: the field num_key_value_heads is missing, and it is not known for {family} that "
                "every head keeps its own; it is not guessed"
            ).format(where=fields.where, family=repr(family))
        )
    if found is not None and found > heads:
        raise InputRefused(
            _("{where}: {found} KV heads of {heads} attention heads are not those of a model").format(
                where=fields.where, found=found, heads=heads
            )
        )
    return found or heads


def head_width(family: str, fields: Fields) -> int:
    """The width of a head: its own field where there is one, a share of the hidden size elsewhere."""
    explicit = fields.maybe("head_dim", "d_kv", "attention_head_dim", "kv_channels")
    if explicit is not None:
        return explicit
    hidden, heads = hidden_size(fields), query_heads(fields)
    width = head_width_of(hidden, heads)
    if family in HEAD_WIDTH_IS_OWN or width is None:
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
    if not fields.has("sliding_window") and fields.maybe("sliding_window") is None:
        if family in WINDOW_NOT_KNOWN and "sliding_window" not in fields.values:
            fields.assumed.append(_("the field sliding_window is missing: each layer is taken to keep every token"))
        return [FULL] * layers
    if family in WINDOW_IN_EVERY_LAYER:
        return [SLIDING] * layers
    if family in WINDOW_IF_ASKED:
        first = fields.values.get("max_window_layers")
        if not isinstance(first, int):
            raise InputRefused(
                _("{where}: the field max_window_layers is missing; it is not guessed").format(where=fields.where)
            )
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
    if fields.has("kv_lora_rank") or (family in LATENT and fields.flag("use_mla", True)):
        return _latent(fields, layer)
    heads, width = kv_heads(family, fields), head_width(family, fields)
    if kind == FULL:
        width = fields.maybe("global_head_dim") or width
        heads = fields.maybe("num_global_key_value_heads") or heads
    elif family == "mimo_v2_flash":
        # Its class doubles the KV heads of windowed layers; the published file names them.
        heads = fields.maybe("swa_num_key_value_heads") or 2 * heads
    width = _own_width(fields, layer) or width
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


def _latent(fields: Fields, layer: int) -> Latent:
    indexers = fields.items("indexer_types")
    # A layer whose indexer is shared uses the keys of an earlier one.
    shared = indexers is not None and layer < len(indexers) and indexers[layer] == "shared"
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


def _own_width(fields: Fields, layer: int) -> int | None:
    """A layer's own head width (Gemma 4 names the layers that differ)."""
    listed = fields.values.get("per_layer_config")
    if not isinstance(listed, dict):
        return None
    own = listed.get(f"{layer:02d}") or listed.get(str(layer))
    return Fields(own, f"{fields.where}, per_layer_config").maybe("head_dim") if isinstance(own, dict) else None
