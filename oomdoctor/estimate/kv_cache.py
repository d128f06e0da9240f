"""Bytes that a sequence keeps on the device: keys and values, latent vectors, states, cross attention.

    full attention      tokens x KV heads x (key width + value width) x bytes of an element
    sliding or chunked  the same of the tokens that are kept
    latent attention    tokens x (kv_lora_rank + qk_rope_head_dim) x bytes: one vector, no factor of two, no heads
    expanded latent     tokens x heads x (nope + rope + value width) x bytes
    state               conv channels x columns + recurrent elements, the same at every length
    unpacked beside     SGLang's nvfp4 has one layer's keys and values in eight bits besides, which all layers share
    state beside pages  vLLM raises the page of attention to at least a state's bytes, in steps of 16 tokens, and
                        pads the state to it; with its prefix cache a request keeps two states a layer
    cross attention     positions of the encoder x KV heads x (key width + value width), once a sequence

Sources: vLLM 0.33 `v1/kv_cache_interface.py` (pages, windows, latent pages without a value half, states), transformers
5.24 `cache_utils.py` (a sliding layer keeps W - 1), vLLM 0.33 `platforms/cuda.py` and the block sizes of its latent
backends, SGLang 0.5.23 `fp4_kv_cache_quant_method.py` (`compute_cell_size`), llama.cpp `llama-kv-cache`
(blocks of quantised rows).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from ..language import _
from .architecture import Architecture, Attention, Cache, CrossAttention, Latent, State
from .dtypes import ElementType
from .engines import LLAMA_CPP, SGLANG, SGLANG_WINDOW_SHARE, TRANSFORMERS, VLLM, Engine
from .tensors import pages_of, rows_bytes

FP8_DS_MLA_BYTES = 656
"""A token and layer of vLLM's `fp8_ds_mla`: 512 bytes of the latent, 16 of scales, 128 of the rotary part."""
LATENT_PAGE_TOKENS = 64
"""A page of vLLM's sparse latent attention (an indexer) on every card of NVIDIA, and of dense with quantised keys on
Hopper (FlashMLA). Dense in 16 bits has 16 (FlashAttention on Hopper, Triton elsewhere), 32 on an SM100."""


@dataclass(frozen=True)
class CacheSettings:
    """How an engine keeps what sequences need."""

    engine: Engine
    keys: ElementType
    values: ElementType
    states: ElementType
    conv: ElementType
    """The element type of the model: a convolution's inputs are kept as they came."""
    tensor_parallel: int = 1
    expanded: bool = False
    """Latent attention with keys and values of every head."""
    hybrid: bool = True
    """Whether windowed layers drop what slid out."""
    step_tokens: int = 2048
    """Tokens of steps under way, which a window holds besides."""
    packed_latent: bool = False
    """vLLM's fp8_ds_mla."""
    window_share: Fraction = SGLANG_WINDOW_SHARE
    """Of all tokens, those that SGLang's pool for windows has."""
    state_copies: int = 1
    """States of a layer that a request keeps: with vLLM's prefix cache two."""

    @property
    def shares(self) -> int:
        """Ranks that share the rows of a layer."""
        return 1 if self.engine.divides_layers else self.tensor_parallel

    @property
    def whole(self) -> CacheSettings:
        """The same with all ranks together, where each row is kept once."""
        return CacheSettings(
            self.engine, self.keys, self.values, self.states, self.conv, 1, self.expanded, self.hybrid,
            self.step_tokens, self.packed_latent, self.window_share, self.state_copies,
        )  # fmt: skip


def row_bytes(cache: Cache, settings: CacheSettings) -> int:
    """Bytes of one token in one layer, on one rank. A KV head is never divided: fewer heads than ranks are repeated."""
    ranks = settings.shares
    if isinstance(cache, Latent):
        return _latent_row(cache, settings)
    if isinstance(cache, State):
        return 0
    heads = cache.kv_heads
    if isinstance(cache, Attention) and cache.expanded_heads is not None and settings.engine is TRANSFORMERS:
        heads = cache.expanded_heads
    heads = max(1, -(-heads // ranks))
    return settings.keys.row_bytes(heads, cache.key_width) + settings.values.row_bytes(heads, cache.value_width)


def bytes_per_token(architecture: Architecture, settings: CacheSettings) -> int:
    """What each further token of one sequence adds once every window is full, on one rank."""
    total = 0
    for cache, layers in _of_one_card(architecture, settings):
        if _is_windowed(cache, settings):
            if settings.engine is SGLANG:
                total += int(layers * row_bytes(cache, settings) * settings.window_share)
        elif isinstance(cache, Attention | Latent):
            total += layers * row_bytes(cache, settings)
    return total + _unpacked_row(architecture, settings)


def has_unpacked_layer(architecture: Architecture, settings: CacheSettings) -> bool:
    """Whether SGLang has a layer unpacked in eight bits beside the pool: for nvfp4, with most prefill backends."""
    heads = any(isinstance(cache, Attention) for cache in architecture.caches)
    return settings.engine is SGLANG and settings.keys.name == "nvfp4" and heads


def _unpacked_row(architecture: Architecture, settings: CacheSettings) -> int:
    """Bytes of a token in that one layer; 0 where there is none."""
    if not has_unpacked_layer(architecture, settings):
        return 0
    return max(
        max(1, -(-cache.kv_heads // settings.shares)) * (cache.key_width + cache.value_width)
        for cache in architecture.caches
        if isinstance(cache, Attention)
    )


def fixed_bytes(architecture: Architecture, settings: CacheSettings, context: int) -> int:
    """What one sequence of `context` tokens keeps besides: windows, states, cross attention, on one rank."""
    total, page = 0, page_tokens(architecture, settings)
    for cache, layers in _of_one_card(architecture, settings):
        if isinstance(cache, State):
            state = _padded_state(architecture, settings) or _state_bytes(cache, settings)
            total += layers * settings.state_copies * state
        elif isinstance(cache, CrossAttention):
            positions = pages_of(
                cache.positions or context, settings.engine.page_tokens if settings.engine is VLLM else 1
            )
            total += layers * positions * row_bytes(cache, settings)
        elif _is_windowed(cache, settings) and settings.engine is not SGLANG:
            total += layers * tokens_kept(cache, settings, context, page) * row_bytes(cache, settings)
    return total


def sequence_bytes(architecture: Architecture, settings: CacheSettings, context: int) -> int:
    """What one sequence of `context` tokens keeps, in whole pages, on one rank."""
    rows = rows_bytes(context, page_tokens(architecture, settings), bytes_per_token(architecture, settings))
    return rows + fixed_bytes(architecture, settings, context)


def page_tokens(architecture: Architecture, settings: CacheSettings) -> int:
    """Tokens that are given to a sequence at once.

    vLLM has pages of one size in bytes for all layers: beside states it raises those of attention, in steps of its own
    page, until one holds the largest state (its start-up line "Setting attention block size to 544 tokens").
    """
    page = _unraised_page(architecture, settings)
    if not has_raised_pages(architecture, settings.engine):
        return page
    row, state = _largest_row(architecture, settings), _largest_state(architecture, settings)
    return max(page, page * -(-state // (page * row)))


def _unraised_page(architecture: Architecture, settings: CacheSettings) -> int:
    """Tokens of a page before a state raises it."""
    latents = [cache for cache in architecture.caches if isinstance(cache, Latent)]
    if settings.engine is not VLLM or settings.expanded or not latents:
        return settings.engine.page_tokens
    sparse = any(cache.indexer_width for cache in latents)
    return LATENT_PAGE_TOKENS if sparse or settings.keys.bits <= 8 else settings.engine.page_tokens


def has_raised_pages(architecture: Architecture, engine: Engine) -> bool:
    """Whether states share their pages with attention."""
    return engine is VLLM and architecture.stateful and any(_has_rows(cache) for cache, _count in architecture.alike)


def _padded_state(architecture: Architecture, settings: CacheSettings) -> int | None:
    """Bytes of a page that a state fills in part; None where it has none."""
    if not has_raised_pages(architecture, settings.engine):
        return None
    return page_tokens(architecture, settings) * _largest_row(architecture, settings)


def _has_rows(cache: Cache) -> bool:
    return isinstance(cache, Attention | Latent)


def _largest_row(architecture: Architecture, settings: CacheSettings) -> int:
    return max(row_bytes(cache, settings) for cache, _count in architecture.alike if _has_rows(cache))


def _largest_state(architecture: Architecture, settings: CacheSettings) -> int:
    return max(_state_bytes(cache, settings) for cache, _count in architecture.alike if isinstance(cache, State))


def tokens_kept(cache: Cache, settings: CacheSettings, context: int, page: int | None = None) -> int:
    """Tokens of a sequence that a layer keeps, in whole pages (of `page` tokens; None: the engine's own)."""
    page = page or settings.engine.page_tokens
    if not isinstance(cache, Attention) or not _is_windowed(cache, settings) or cache.window is None:
        return pages_of(context, page)
    if settings.engine is TRANSFORMERS:
        return min(context, cache.window - 1)
    if settings.engine is VLLM and cache.chunked:
        # A chunk begins with a page, so that none is held in part at both ends.
        return pages_of(min(cache.window + settings.step_tokens, context), page)
    if settings.engine is VLLM:
        return pages_of(min(cache.window - 1 + settings.step_tokens, context), page) + page
    if settings.engine is LLAMA_CPP:
        return min(pages_of(context, page), pages_of(cache.window + settings.step_tokens, page))
    return pages_of(context, page)


def layers_in_words(architecture: Architecture, settings: CacheSettings) -> tuple[str, ...]:
    """What goes into the bytes of a token and of a sequence: a phrase for each kind of layer."""
    return tuple(f"{layers} x {_layer_in_words(cache, settings)}" for cache, layers in _kept(architecture, settings))


def _layer_in_words(cache: Cache, settings: CacheSettings) -> str:
    kinds = " + ".join(dict.fromkeys((settings.keys.name, settings.values.name)))
    if isinstance(cache, State):
        columns = cache.conv_kernel - settings.engine.conv_columns_less
        return _("state: {channels} channels x {columns} columns ({conv}) + {elements} elements ({states})").format(
            channels=cache.conv_channels, columns=columns, conv=settings.conv.name,
            elements=cache.recurrent_elements, states=settings.states.name,
        )  # fmt: skip
    if isinstance(cache, Latent):
        if settings.expanded:
            return _("expanded latent: {heads} heads x ({keys} + {values}), {kinds}").format(
                heads=cache.heads, keys=cache.nope_width + cache.rope_width, values=cache.value_width, kinds=kinds
            )
        width = _("{rank} + {rope}").format(rank=cache.rank, rope=cache.rope_width)
        return _("latent: ({width}), {kinds}").format(
            width=width, kinds="fp8_ds_mla" if settings.packed_latent else settings.keys.name
        )
    heads = cache.kv_heads
    if isinstance(cache, Attention) and cache.expanded_heads is not None and settings.engine is TRANSFORMERS:
        heads = cache.expanded_heads
    row = _("{heads} KV heads x ({keys} + {values}), {kinds}").format(
        heads=heads, keys=cache.key_width, values=cache.value_width, kinds=kinds
    )
    if isinstance(cache, CrossAttention):
        return _("cross attention: {row}").format(row=row)
    if _is_windowed(cache, settings):
        return _("window of {tokens}: {row}").format(tokens=cache.window, row=row)
    return row


def prompt_bytes(architecture: Architecture, settings: CacheSettings, context: int) -> int:
    """What transformers holds of windowed layers beyond the window until the step after a prompt.

    A sliding layer keeps a view of the last tokens, and a view keeps the whole prompt's rows alive
    (transformers 5.24 `DynamicSlidingWindowLayer.update`).
    """
    if settings.engine is not TRANSFORMERS:
        return 0
    return sum(
        layers * (context - tokens_kept(cache, settings, context)) * row_bytes(cache, settings)
        for cache, layers in _of_one_card(architecture, settings)
        if _is_windowed(cache, settings)
    )


def _of_one_card(architecture: Architecture, settings: CacheSettings) -> Iterator[tuple[Cache, int]]:
    """The different caches and how many layers of each a card has: all, or its share of the layers, rounded up."""
    cards = settings.tensor_parallel if settings.engine.divides_layers else 1
    group = layers_of_group(architecture, settings)
    return ((cache, group * -(-layers // (group * cards))) for cache, layers in _kept(architecture, settings))


def _kept(architecture: Architecture, settings: CacheSettings) -> Iterable[tuple[Cache, int]]:
    """The different caches and how many layers have each.

    SGLang's pools have rows for layers that read an earlier one's keys and values too, which nobody writes (0.5.23
    `pool_configurator.py` counts the layers; start-up line of Gemma 4 E4B, tests/estimate/test_published_windows.py).
    """
    if settings.engine is not SGLANG or not architecture.sharing:
        return architecture.alike
    return Counter(architecture.caches + architecture.sharing).items()


def layers_of_group(architecture: Architecture, settings: CacheSettings) -> int:
    """How many layers vLLM gives pages at once; 1 where it fills no group up.

    Layers of one kind (full, a window, states …) are divided into groups of as many layers as the rarest kind has, or
    the commonest where that is less than half as many more, and the last group of a kind is filled up (vLLM 0.33
    `_get_kv_cache_groups_uniform_page_size`). Each group takes a page of all its layers, those that are none too.
    """
    alike = architecture.alike
    kinds = {_kind(cache, settings) for cache, _count in alike}
    if settings.engine is not VLLM or len(kinds) < 2:
        return 1
    counts = [sum(count for cache, count in alike if _kind(cache, settings) == kind) for kind in kinds]
    least, most = min(counts), max(counts)
    return most if 2 * most < 3 * least else least


def _kind(cache: Cache, settings: CacheSettings) -> str | tuple[int | None, bool]:
    if isinstance(cache, Attention) and _is_windowed(cache, settings):
        return cache.window, cache.chunked
    return "full" if isinstance(cache, Attention | Latent) else type(cache).__name__


def _is_windowed(cache: Cache, settings: CacheSettings) -> bool:
    return settings.hybrid and isinstance(cache, Attention) and cache.window is not None


def _latent_row(cache: Latent, settings: CacheSettings) -> int:
    """A latent vector is the same on every rank: tensor parallel does not divide it."""
    indexer = settings.keys.bytes_of(cache.indexer_width) if cache.indexer_width else 0
    if settings.packed_latent:
        return FP8_DS_MLA_BYTES + indexer
    if not settings.expanded:
        return settings.keys.bytes_of(cache.rank + cache.rope_width) + indexer
    heads = max(1, -(-cache.heads // settings.shares))
    keys = settings.keys.row_bytes(heads, cache.nope_width + cache.rope_width)
    return keys + settings.values.row_bytes(heads, cache.value_width) + indexer


def _state_bytes(cache: State, settings: CacheSettings) -> int:
    columns = cache.conv_kernel - settings.engine.conv_columns_less
    whole = settings.conv.bytes_of(cache.conv_channels * columns) + settings.states.bytes_of(cache.recurrent_elements)
    return -(-whole // settings.shares)
