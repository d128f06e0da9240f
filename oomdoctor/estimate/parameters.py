"""How many parameters a configuration means, where no file with the weights is at hand.

    embedding      vocabulary x hidden, twice if input and output have their own
    attention      hidden x (query heads + 2 KV heads) x width + query heads x width x hidden
    latent         the compressed projections of DeepSeek-V2 (arXiv 2405.04434): down to rank + rope, up from rank
    MLP            3 x hidden x intermediate if gated, else 2; a mixture has this for each expert, and a router
    norms          2 x hidden a layer, and the last one

Biases and learnt positions are left out: less than 0.5 % of a model of a billion parameters.
"""

from __future__ import annotations

from ..errors import InputRefused
from .architecture import Architecture, Attention, Latent


def count_parameters(architecture: Architecture, where: str) -> int:
    """Parameters of the model. Raises InputRefused where the configuration does not tell them."""
    hidden = architecture.hidden
    missing = _missing(architecture)
    if missing is not None:
        raise InputRefused(
            f"{where}: {missing}, so its weights cannot be counted from the configuration; give the directory with the"
            " safetensors files, or their size with --weights"
        )
    assert architecture.vocabulary is not None
    embedding = architecture.vocabulary * hidden * (1 if architecture.tied else 2)
    attention = sum(_attention(architecture, cache) for cache in architecture.caches if _holds_rows(cache))
    return embedding + attention + _mlps(architecture) + (2 * architecture.layers + 1) * hidden


def layer_parameters(architecture: Architecture, where: str) -> int:
    """Parameters of the layers alone, without embeddings."""
    total = count_parameters(architecture, where)
    return total - (architecture.vocabulary or 0) * architecture.hidden * (1 if architecture.tied else 2)


def _missing(architecture: Architecture) -> str | None:
    if architecture.vocabulary is None:
        return "the field vocab_size is missing"
    if architecture.tied is None:
        return "the field tie_word_embeddings is missing"
    if architecture.heads is None or architecture.head_width is None:
        return f"the heads of {architecture.family!r} are not told"
    if architecture.intermediate is None and architecture.experts is None:
        return "the field intermediate_size is missing"
    if not all(_holds_rows(cache) for cache in architecture.caches) or len(architecture.caches) != architecture.layers:
        return f"{architecture.family!r} has layers whose parameters are not known here"
    return None


def _holds_rows(cache: object) -> bool:
    return isinstance(cache, Attention | Latent)


def _attention(architecture: Architecture, cache: object) -> int:
    hidden, heads = architecture.hidden, architecture.heads or 0
    if isinstance(cache, Latent):
        query = heads * (cache.nope_width + cache.rope_width)
        rank = cache.query_rank
        queries = hidden * query if rank is None else rank * (hidden + query + 1)
        down = hidden * (cache.rank + cache.rope_width) + cache.rank
        up = cache.rank * heads * (cache.nope_width + cache.value_width)
        return queries + down + up + heads * cache.value_width * hidden
    if not isinstance(cache, Attention):
        return 0
    own = hidden * heads * cache.key_width + hidden * cache.kv_heads * (cache.key_width + cache.value_width)
    return own + heads * cache.value_width * hidden


def _mlps(architecture: Architecture) -> int:
    matrices = 3 if architecture.gated else 2
    hidden, experts = architecture.hidden, architecture.experts
    if experts is None:
        return architecture.layers * matrices * hidden * (architecture.intermediate or 0)
    each = experts.count * matrices * hidden * experts.width + hidden * experts.count
    shared = matrices * hidden * experts.shared_width
    dense = (architecture.layers - experts.layers) * matrices * hidden * (architecture.intermediate or 0)
    return experts.layers * (each + shared) + dense
