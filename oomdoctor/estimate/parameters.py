"""How many parameters a configuration means, where no file with the weights is at hand.

    embedding      vocabulary x hidden, twice if input and output have their own
    attention      hidden x (query heads + 2 KV heads) x width + query heads x width x hidden
    latent         the compressed projections of DeepSeek-V2 (arXiv 2405.04434): down to rank + rope, up from rank
    MLP            3 x hidden x intermediate if gated, else 2; a mixture has this for each expert, and a router
    norms          2 x hidden a layer (1 where it has no MLP), and the last one

    states         the projections, convolution and decay of Mamba, Mamba-2 and the gated delta rule

Biases are left out: less than 0.5 % of a model of a billion parameters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..errors import InputRefused
from ..language import _
from .architecture import Architecture, Attention, Cache, CrossAttention, Latent, State
from .families import UNCOUNTED
from .ranks import EVENLY, WHOLE, unused_rows
from .small_weights import small_parameters
from .tensors import embedding_elements, projection_elements

_BLOCK, _BLOCK_OF_SCALES = 64, 256
"""Values, and scales, that share one scale in bitsandbytes."""


def count_parameters(architecture: Architecture, where: str) -> int:
    """Parameters of the model. Raises InputRefused where the configuration does not tell them."""
    missing = _missing(architecture)
    if missing is not None:
        raise InputRefused(
            _(
                "{where}: {missing}, so its weights cannot be counted from the configuration; give the "
                "directory with the safetensors files, or their size with --weights"
            ).format(where=where, missing=missing)
        )
    return sum(_divided(architecture).values())


def divided_parameters(architecture: Architecture, where: str) -> Mapping[int, int]:
    """How many are divided between tensor-parallel ranks by no more than a limit (ranks.py has the limits).

    Rows of the vocabulary that only fill it up are among them. Raises InputRefused as `count_parameters` does.
    """
    count_parameters(architecture, where)
    found = _divided(architecture)
    assert architecture.vocabulary is not None
    found[EVENLY] += embedding_elements(unused_rows(architecture.vocabulary), architecture.hidden) * (
        1 if architecture.tied else 2
    )
    return found


def _divided(architecture: Architecture) -> Counter[int]:
    assert architecture.vocabulary is not None
    hidden = architecture.hidden
    found = Counter[int]()
    found[EVENLY] += embedding_elements(architecture.vocabulary, hidden) * (1 if architecture.tied else 2)
    found[WHOLE] += architecture.positions * hidden
    found.update(small_parameters(architecture))
    for cache, layers in architecture.alike:
        for limit, count in _mixer(architecture, cache).items():
            found[limit] += layers * count
    if architecture.encoder_layers:
        own = next(cache for cache in architecture.caches if isinstance(cache, Attention))
        for limit, count in _mixer(architecture, own).items():
            found[limit] += architecture.encoder_layers * count
        found[EVENLY] += architecture.encoder_layers * _dense_mlp(architecture)
        found[WHOLE] += architecture.encoder_layers * 2 * hidden
    routers, mlps = _mlps(architecture)
    found[WHOLE] += routers
    found[EVENLY] += mlps
    return found


def _missing(architecture: Architecture) -> str | None:
    if architecture.vocabulary is None:
        return _("the field vocab_size is missing")
    if architecture.tied is None:
        return _("the field tie_word_embeddings is missing")
    attends = any(isinstance(each, Attention | Latent) for each, _count in architecture.alike)
    if attends and architecture.heads is None:
        return _("the heads of {family} are not told").format(family=repr(architecture.family))
    if architecture.intermediate is None and architecture.experts is None:
        return _("the field intermediate_size is missing")
    if architecture.family in UNCOUNTED:
        return _("{family} has weights that its fields do not tell").format(family=repr(architecture.family))
    if architecture.uncounted == "embeddings of each layer":
        return _("{family} has embeddings of each layer").format(family=repr(architecture.family))
    if len(architecture.caches) < architecture.layers or not all(
        _is_counted(each) for each, _count in architecture.alike
    ):
        return _("{family} has layers whose parameters are not known here").format(family=repr(architecture.family))
    return None


def _is_counted(cache: Cache) -> bool:
    return isinstance(cache, Attention | Latent | CrossAttention) or (
        isinstance(cache, State) and cache.parameters is not None
    )


def _mixer(architecture: Architecture, cache: Cache) -> Mapping[int, int]:
    """What stands before a layer's MLP, attention or what keeps a state, by how many ranks may share it."""
    hidden, heads = architecture.hidden, architecture.heads or 0
    if isinstance(cache, Latent):
        query = heads * (cache.nope_width + cache.rope_width)
        rank = cache.query_rank
        down = hidden * (cache.rank + cache.rope_width) + cache.rank
        up = cache.rank * heads * (cache.nope_width + cache.value_width)
        output = heads * cache.value_width * hidden
        if rank is None:
            return {EVENLY: hidden * query + up + output, WHOLE: down}
        return {EVENLY: rank * query + up + output, WHOLE: rank * (hidden + 1) + down}
    if not isinstance(cache, Attention | CrossAttention):
        return {EVENLY: (cache.parameters or 0) if isinstance(cache, State) else 0}
    queries = (2 if architecture.gated_queries else 1) * heads
    kept = hidden * cache.kv_heads * (cache.key_width + cache.value_width)
    own = hidden * queries * cache.key_width + heads * cache.value_width * hidden
    # One head and no limit are not the same: a single KV head is whole on every rank.
    return {EVENLY: own, cache.kv_heads: kept}


def _dense_mlp(architecture: Architecture) -> int:
    return projection_elements(architecture.hidden, architecture.intermediate or 0, 3 if architecture.gated else 2)


def _mlps(architecture: Architecture) -> tuple[int, int]:
    """Of routers, and of everything else."""
    matrices = 3 if architecture.gated else 2
    hidden, experts = architecture.hidden, architecture.experts
    if experts is None:
        return 0, architecture.layers * _dense_mlp(architecture)
    each = experts.count * projection_elements(hidden, experts.width, matrices)
    shared = projection_elements(hidden, experts.shared_width, matrices)
    dense = (architecture.layers - experts.layers) * _dense_mlp(architecture)
    return experts.layers * hidden * experts.count, experts.layers * (each + shared) + dense


def packed_bytes(values: int, double: bool) -> int:
    """So many values of four bits with their scales, as bitsandbytes keeps them (four_bit.py has the source)."""
    blocks = -(-values // _BLOCK)
    scales = blocks + 4 * -(-blocks // _BLOCK_OF_SCALES) if double else 4 * blocks
    return -(-values // 2) + scales


def quantised_parts(
    architecture: Architecture, parameters: int, quantization: Mapping[str, object]
) -> tuple[int, int] | None:
    """Bytes of the weights quantised as `quantization_config` says, and how many stay floats; None: an unknown method.

    fp8 has one byte; mxfp4 is for experts only, 17 bytes for 32 values; AWQ and GPTQ have `bits` and, for each group, a
    half-precision scale and a zero point; bitsandbytes has four bits and a scale for 64 of a layer's matrices.
    """
    method = quantization.get("quant_method")
    plain = embedding_elements(architecture.vocabulary or 0, architecture.hidden) * (1 if architecture.tied else 2)
    experts = architecture.experts
    if method == "mxfp4" and experts is not None:
        matrices = 3 if architecture.gated else 2
        inside = experts.layers * experts.count * projection_elements(architecture.hidden, experts.width, matrices)
        return inside * 17 // 32, parameters - inside
    if method == "fp8":
        return parameters - plain, plain
    if method == "bitsandbytes" and quantization.get("load_in_4bit") is True and experts is None:
        plain += (2 * architecture.layers + 1) * architecture.hidden
        return packed_bytes(parameters - plain, quantization.get("bnb_4bit_use_double_quant") is True), plain
    bits, group = quantization.get("bits"), quantization.get("group_size")
    if method in ("awq", "gptq") and isinstance(bits, int) and isinstance(group, int) and 0 < bits <= 8 and group > 0:
        inside = parameters - plain
        return inside * bits // 8 + -(-inside // group) * (16 + bits) // 8, plain
    return None
