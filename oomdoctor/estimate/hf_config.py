"""A Hugging Face configuration as an architecture."""

from __future__ import annotations

from typing import Any

from ..errors import InputRefused
from ..language import N_, _
from .architecture import Architecture, Cache, CrossAttention, Experts, Latent
from .attention_config import (
    ENCODER_DECODERS,
    FULL,
    SLIDING,
    attention_layer,
    decoder_of_pair,
    head_width,
    hidden_size,
    kv_heads,
    layer_count,
    layer_kinds,
    query_heads,
)
from .families import BY_CLASS, DENSE_FIRST, FOUR_TIMES, LEARNT_POSITIONS, LONGEST_OF_CLASS, UNGATED, flat_defaults
from .fields import Fields
from .small_weights import left_out
from .state_config import GATED_DELTA, MAMBA_1, MAMBA_2, STATE_KINDS, state_layer
from .strange import refuse_strange_fields

_NESTED = ("text_config", "llm_config", "language_config", "decoder", "thinker_config", "talker_config")
_ATTENTION = frozenset((FULL, SLIDING, "chunked_attention"))
_NOTHING = frozenset(("mlp", "moe", "-", "E"))
_BOTH = frozenset(("hybrid",))
_LAYER_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_LONGEST = ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "max_target_positions")
_MOST_NESTING = 4
_FOREIGN = (
    "ssm", "mamba", "linear_attn", "rwkv", "recurrent", "lru_width", "state_size", "block_types", "layers_block",
    "xlstm", "retnet", "hyena",
)  # fmt: skip
"""Parts of names that tell of layers which are not attention."""


def architecture_of(config: object, where: str) -> Architecture:
    """What the configuration says of what is kept for each sequence.

    Raises InputRefused with the field that is missing, or that says something unknown.
    """
    if not isinstance(config, dict):
        raise InputRefused(_("{where}: not a model's configuration (a JSON object)").format(where=where))
    values, inner = _language_part(config)
    family = values.get("model_type", config.get("model_type"))
    if not isinstance(family, str):
        raise InputRefused(_("{where}: the field model_type is missing; it is not guessed").format(where=where))
    defaults = BY_CLASS.get(family, {}) if inner else flat_defaults(family)
    fields = Fields(values, where, defaults)
    outer = Fields(config, where)
    unknown = refuse_strange_fields(family, fields)
    crossing = any(
        part.get(name) for part in (values, config) for name in ("is_encoder_decoder", "add_cross_attention")
    )
    if crossing and family not in ENCODER_DECODERS:
        raise InputRefused(
            _("{where}: what {family} keeps of its encoder's output is not known; it is not guessed").format(
                where=where, family=repr(family)
            )
        )
    sharing: tuple[Cache, ...] = ()
    if family in ENCODER_DECODERS:
        layers, caches = decoder_of_pair(family, fields)
    elif family == "mllama_text_model":
        layers, caches = _with_images(family, fields, outer)
    else:
        layers, (caches, sharing) = layer_count_of(family, fields), _caches(family, fields)
    kept_assumed = bool(fields.assumed)
    states = fields.element("mamba_ssm_cache_dtype", "mamba_ssm_dtype")
    return Architecture(
        family=family,
        layers=layers,
        caches=caches,
        hidden=hidden_size(fields),
        heads=fields.maybe("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads"),
        head_width=_optional_head_width(family, fields, caches),
        intermediate=_intermediate(family, fields),
        vocabulary=fields.maybe("vocab_size", "padded_vocab_size") or outer.maybe("vocab_size"),
        longest=fields.maybe(*_LONGEST) or outer.maybe(*_LONGEST) or LONGEST_OF_CLASS.get(family),
        gated=_gated(family, fields),
        tied=_tied(family, fields, outer),
        experts=_experts(family, fields, layers),
        uncounted=_uncounted(family, fields, config, inner),
        gated_queries=family in GATED_DELTA and family != "olmo_hybrid",
        encoder_layers=fields.layers("encoder_layers", "num_layers") if family in ENCODER_DECODERS else 0,
        positions=(fields.maybe(*_LONGEST) or 0) if family in LEARNT_POSITIONS else 0,
        state_dtype=None if states is None else states.name,
        unknown=unknown,
        kept_assumed=kept_assumed,
        sharing=sharing,
        assumptions=tuple(dict.fromkeys(fields.assumed)),
    )


def layer_count_of(family: str, fields: Fields) -> int:
    """Layers; Nemotron-H only lists them."""
    blocks = fields.items("layers_block_type")
    if blocks and not fields.has("num_hidden_layers"):
        return len(blocks)
    return layer_count(fields)


def _language_part(config: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The decoder's own fields, which multimodal models nest, and whether they were nested."""
    inner, nested = config, False
    for _depth in range(_MOST_NESTING):
        name = next((name for name in _NESTED if isinstance(inner.get(name), dict)), None)
        if name is None:
            break
        # A nested object in older files may only repeat a few words: dimensions beside it count.
        found = inner[name]
        if "model_type" not in found and not any(each in found for each in _LAYER_COUNTS):
            break
        inner, nested = {**_shared(inner), **found}, True
    return inner, nested


def _shared(outer: dict[str, Any]) -> dict[str, Any]:
    """What an outer object says for its parts too."""
    return {name: outer[name] for name in ("torch_dtype", "dtype", "tie_word_embeddings") if name in outer}


def _caches(family: str, fields: Fields) -> tuple[tuple[Cache, ...], tuple[Cache, ...]]:
    """What the layers keep, and what those would keep that read an earlier layer's keys and values."""
    layers = layer_count_of(family, fields)
    kinds = _kinds(family, fields, layers)
    shared = fields.at_most("num_kv_shared_layers", layers, "num_hidden_layers")
    own: list[Cache] = []
    sharing: list[Cache] = []
    for layer, kind in enumerate(kinds):
        caches = own if layer < layers - shared else sharing
        known = kind in _ATTENTION or kind in STATE_KINDS or kind in _NOTHING or kind in _BOTH
        if not known:
            raise InputRefused(
                _("{where}: layer {layer} is of a kind that is not known here: {kind}").format(
                    where=fields.where, layer=layer, kind=repr(kind[:40])
                )
            )
        if kind in STATE_KINDS or kind in _BOTH:
            caches.append(state_layer(family, fields))
        if kind in _ATTENTION or kind in _BOTH:
            caches.append(attention_layer(family, fields, FULL if kind in _BOTH else kind, layer))
    return tuple(own), tuple(sharing)


def _kinds(family: str, fields: Fields, layers: int) -> list[str]:
    """The kind of every layer, from the list in the file or from the family's rule."""
    if family in ("mamba", "mamba2", "falcon_mamba"):
        return ["mamba"] * layers
    if family == "falcon_h1":
        return ["hybrid"] * layers
    if fields.has("layer_types"):
        kinds = layer_kinds(family, fields, layers)
        # Their classes make the last layer one that sees everything, whatever the list says.
        return [*kinds[:-1], FULL] if family in ("gemma4_text", "gemma4_unified_text") else kinds
    blocks = fields.items("layers_block_type", layers) or fields.items("block_types")
    if blocks:
        names = [str(blocks[layer % len(blocks)]) for layer in range(layers)]
        window = fields.has("attention_window_size")
        return [{"attention": SLIDING if window else FULL}.get(name, name) for name in names]
    if fields.has("hybrid_override_pattern"):
        letters = str(fields.values["hybrid_override_pattern"])
        if len(letters) != layers:
            raise fields.refusal(
                "hybrid_override_pattern", _("not a letter for each of {layers} layers").format(layers=layers)
            )
        return [{"M": "mamba", "*": FULL}.get(letter, letter) for letter in letters]
    if family == "jamba":
        period, offset = fields.number("attn_layer_period"), _offset(fields)
        return [FULL if layer % period == offset else "mamba" for layer in range(layers)]
    if family == "bamba":
        chosen = fields.layer_numbers("attn_layer_indices", layers)
        if chosen is None:
            raise InputRefused(
                _("{where}: the field attn_layer_indices is missing; it is not guessed").format(where=fields.where)
            )
        return [FULL if layer in chosen else "mamba" for layer in range(layers)]
    if family in GATED_DELTA:
        every = fields.number("full_attention_interval")
        return ["linear_attention" if (layer + 1) % every else FULL for layer in range(layers)]
    if family.startswith("lfm2"):
        chosen = fields.layer_numbers("full_attn_idxs", layers)
        if chosen is None:
            raise InputRefused(
                _("{where}: the field layer_types is missing; it is not guessed").format(where=fields.where)
            )
        return [FULL if layer in chosen else "conv" for layer in range(layers)]
    told = [name for name, value in fields.values.items() if value]
    strange = next((name for name in (*told, family) if any(part in name for part in _FOREIGN)), None)
    if strange is not None or family in MAMBA_1 | MAMBA_2:
        raise InputRefused(
            _(
                "{where}: {family} has layers that are not attention ({strange}), and the field layer_types "
                "that tells which is missing; it is not guessed"
            ).format(where=fields.where, family=repr(family), strange=strange)
        )
    return layer_kinds(family, fields, layers)


def _offset(fields: Fields) -> int:
    """Jamba's first layer of attention: 0 is one."""
    if fields.get("attn_layer_offset") is None:
        raise InputRefused(
            _("{where}: the field attn_layer_offset is missing; it is not guessed").format(where=fields.where)
        )
    period = fields.number("attn_layer_period")
    return fields.at_most("attn_layer_offset", period - 1, "attn_layer_period - 1")


def _with_images(family: str, fields: Fields, outer: Fields) -> tuple[int, tuple[Cache, ...]]:
    """Llama 3.2 Vision: its cross-attention layers keep the image's keys and values, not the text's."""
    layers = layer_count(fields)
    crossing = fields.layer_numbers("cross_attention_layers", layers)
    vision = outer.part("vision_config")
    if crossing is None or vision is None:
        missing = "cross_attention_layers" if crossing is None else "vision_config"
        raise InputRefused(
            _("{where}: the field {missing} is missing; it is not guessed").format(where=fields.where, missing=missing)
        )
    patches = (vision.number("image_size") // vision.number("patch_size")) ** 2 + 1
    heads, width = kv_heads(family, fields), head_width(family, fields)
    image = CrossAttention(heads, width, width, patches * vision.number("max_num_tiles"))
    return layers, tuple(
        image if layer in crossing else attention_layer(family, fields, FULL, layer) for layer in range(layers)
    )


def _optional_head_width(family: str, fields: Fields, caches: tuple[Cache, ...]) -> int | None:
    """Of a query; with a latent vector its own two parts, whatever head_dim says (there it is the rotary part)."""
    latent = next((each for each in caches if isinstance(each, Latent)), None)
    if latent is not None:
        return latent.nope_width + latent.rope_width
    try:
        query_heads(fields)
        return head_width(family, fields)
    except InputRefused:
        # The cache was read already: this width only refines activations.
        return None


def _intermediate(family: str, fields: Fields) -> int | None:
    if family in ("mamba", "mamba2", "falcon_mamba"):
        return 0
    if family in FOUR_TIMES:
        return fields.maybe("n_inner", "ffn_hidden_size") or 4 * hidden_size(fields)
    if family == "llama4_text":
        return fields.maybe("intermediate_size_mlp") or fields.maybe("intermediate_size")
    names = ("intermediate_size", "n_inner", "ffn_dim", "decoder_ffn_dim", "d_ff", "ffn_hidden_size")
    if family == "lfm2":
        return _adjusted(fields)
    listed = fields.values.get(fields.name_of(*names))
    if isinstance(listed, list) and listed:
        name = fields.name_of(*names)
        return max(Fields({name: each}, fields.where).number(name) for each in listed)
    return fields.count(*names) or None


def _adjusted(fields: Fields) -> int | None:
    """LFM2's class takes two thirds of the width, times a factor, in whole multiples (`Lfm2MLP`)."""
    width = fields.maybe("block_ff_dim", "intermediate_size")
    if width is None or not fields.flag("block_auto_adjust_ff_dim", True):
        return width
    factor, multiple = fields.values.get("block_ffn_dim_multiplier", 1.0), fields.maybe("block_multiple_of") or 256
    width = 2 * width // 3
    if factor is None:
        return width
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1000:
        raise fields.refusal("block_ffn_dim_multiplier", _("not a factor"))
    return multiple * -(-int(factor * width) // multiple)


def _gated(family: str, fields: Fields) -> bool:
    """Whether the MLP has three matrices. T5's classes derive it from `feed_forward_proj`, as in `gated-gelu`."""
    if family in ("t5", "mt5", "umt5", "longt5"):
        said = fields.text("feed_forward_proj")
        return said.startswith("gated") if said is not None else fields.flag("is_gated_act", family == "umt5")
    return family not in UNGATED


def _tied(family: str, fields: Fields, outer: Fields) -> bool | None:
    for each in (fields, outer):
        if each.values.get("tie_word_embeddings") is not None:
            return each.flag("tie_word_embeddings", False)
    said = BY_CLASS.get(family, {}).get("tie_word_embeddings")
    return None if said is None else bool(said)


def _uncounted(family: str, fields: Fields, config: dict[str, Any], inner: bool) -> str | None:
    """What a model has besides the layers that are described."""
    if fields.count("hidden_size_per_layer_input"):
        return N_("embeddings of each layer")
    if family in ENCODER_DECODERS:
        return N_("biases, positions and convolutions of encoder and decoder")
    parts = [name.partition("_")[0] for name in ("vision_config", "audio_config") if isinstance(config.get(name), dict)]
    if inner and not parts:
        # What is nested has something beside it, which a file leaves out where it is its class's default.
        return N_("the encoders beside its language model")
    return f"the {' and '.join(parts)} encoder" if parts else left_out(family, fields)


_CHOSEN = (
    "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k", "moe_k",
    "experts_per_token",
)  # fmt: skip
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")


def _experts(family: str, fields: Fields, layers: int) -> Experts | None:
    blocks = fields.values.get("hybrid_override_pattern") or fields.values.get("layers_block_type")
    if family == "nemotron_h" and blocks and not {"E", "moe"} & {str(each) for each in blocks}:
        # Its class has experts by default, and the list of layers none that would have them.
        return None
    count = fields.count(*_EXPERTS)
    dense = ("intermediate_size", "moe_intermediate_size", "expert_intermediate_size", *_EXPERTS)
    # A file that tells nothing of any MLP tells no more of a mixture's than of another's.
    if count < 2 or all(fields.values.get(name) is None for name in dense):
        return None
    # The class's own width of an expert comes before that of a dense layer.
    width = fields.maybe("moe_intermediate_size", "expert_intermediate_size") or fields.number("intermediate_size")
    active = fields.number(*_CHOSEN)
    if active > count:
        raise fields.refusal(
            fields.name_of(*_CHOSEN), _("more than {of} ({most})").format(of=fields.name_of(*_EXPERTS), most=count)
        )
    sparse = _sparse_layers(family, fields, layers)
    if family == "llama4_text":
        return Experts(count, active, width, sparse, width)
    # Granite says 0 where there is none.
    shared = fields.count("shared_expert_intermediate_size", "shared_intermediate_size")
    return Experts(count, active, width, sparse, shared or fields.count("n_shared_experts") * width)


def _sparse_layers(family: str, fields: Fields, layers: int) -> int:
    """How many layers have experts: as listed, or those behind the dense ones, each so-manieth of them."""
    listed = fields.items("mlp_layer_types", layers)
    if listed is not None:
        return sum(each != "dense" for each in listed)
    chosen = fields.layer_numbers("moe_layers", layers)
    if chosen:
        return len(chosen)
    name = "num_dense_layers" if fields.has("num_dense_layers") else "first_k_dense_replace"
    dense = fields.at_most(name, layers, "num_hidden_layers")
    if family in DENSE_FIRST and "first_k_dense_replace" not in fields.values:
        dense = 1
        fields.assumed.append(_("mlp_layer_types: not in the file; by its class the first layer is dense"))
    period = fields.maybe("expert_layer_period", "decoder_sparse_step", "interleave_moe_layer_step") or 1
    # Jamba's class tells which one of a period; elsewhere it is the last.
    offset = fields.count("expert_layer_offset") if fields.has("expert_layer_period") else period - 1
    without = fields.layer_numbers("mlp_only_layers", layers) or frozenset()
    return sum(layer % period == offset and layer not in without for layer in range(dense, layers))
