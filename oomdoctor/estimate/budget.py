"""The budget of a model on one device: parts with formula, inputs and how each is known; what fits; what binds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors import InputRefused
from ..language import N_, _
from ..model.units import MIB, format_bytes
from .activations import inference_activations, step_size
from .architecture import Attention, CrossAttention, Latent
from .dtypes import element_type
from .engines import (
    LLAMA_CPP,
    RANK_BYTES,
    TRANSFORMERS,
    VLLM,
    drops_what_slid_out,
    goes_by_name,
)
from .kv_cache import (
    CacheSettings,
    bytes_per_token,
    fixed_bytes,
    has_raised_pages,
    has_unpacked_layer,
    layers_in_words,
    page_tokens,
    prompt_bytes,
    sequence_bytes,
)
from .model_input import Model
from .parameters import divided_parameters
from .parts import ASSUMED, COMPUTED, MEASURED, Part, measured_part, weakest
from .placement import card_bytes, fullest_card_bytes, layers_on_card
from .settings import Settings

FITS, TIGHT, NO = "fits", "tight", "no"
WORKSPACE_BYTES = 32 * MIB
"""cuBLAS's workspace as torch sizes it on Hopper; 8 MiB on older cards."""
_MOST_TOKENS = 1 << 34
_SEGMENT_BYTES = 2 * MIB
RESERVE = 0.1
"""Of what is allocated, what torch's allocator held beyond it at most in loops that decode (tests/device)."""


@dataclass(frozen=True)
class Budget:
    """What the settings ask of one device."""

    parts: tuple[Part, ...]
    kv_bytes_per_token: int
    kv_fixed_bytes_per_sequence: int
    total_bytes: int
    headroom_bytes: int
    """What is left of the device; negative where it does not fit."""
    pool_bytes: int
    """What is left for caches of all sequences within what the engine may take."""
    verdict: str
    waiting: int
    """Requests that wait, as the engine's pool has no room for them at once."""
    binds: str
    reserve_bytes: int | None
    """What torch may hold beyond what is allocated, assumed; None: not an engine whose memory grows through torch."""

    @property
    def known(self) -> str:
        """How the sum is known, and with it all that follows from it."""
        return weakest(self.parts)

    def part(self, name: str) -> Part:
        """The part of that name."""
        return next(part for part in self.parts if part.name == name)


def headroom_inputs(capacity_bytes: int, total_bytes: int) -> tuple[tuple[str, int | str], ...]:
    """What is left is the card less the parts."""
    return ((N_("bytes of the card"), capacity_bytes), (N_("bytes of all parts"), total_bytes))


WEIGHTS, OVERHEAD, CACHE, ACTIVATIONS, WORKSPACE, GRAPHS = (
    N_("weights"), N_("context and libraries"), N_("KV cache and states"), N_("activations of one step"),
    N_("workspace"), N_("graphs"),
)  # fmt: skip


def cache_settings(model: Model, settings: Settings) -> CacheSettings:
    """How the engine keeps what sequences of the model need."""
    keys = settings.keys or (element_type("float16") if model.gguf else model.dtype)
    told = model.architecture.state_dtype
    # vLLM's --mamba-ssm-cache-dtype is "auto": the model's type, unless the configuration names one.
    untold = model.dtype if settings.engine is VLLM else element_type("float32")
    states = settings.states or (untold if told is None else element_type(told))
    return CacheSettings(
        engine=settings.engine,
        keys=keys,
        values=settings.values or keys,
        states=states,
        conv=element_type("float32") if model.gguf else model.dtype,
        tensor_parallel=settings.tensor_parallel,
        expanded=settings.expanded,
        hybrid=settings.hybrid and drops_what_slid_out(settings.engine, model.architecture.family),
        step_tokens=(settings.most_step_tokens or settings.context)
        * (settings.steps_at_once if settings.engine is VLLM else 1),
        packed_latent=settings.packed_latent,
        window_share=settings.window_share,
        state_copies=state_copies(model, settings),
    )


def state_copies(model: Model, settings: Settings) -> int:
    """States of a layer that one request keeps.

    vLLM 0.33's prefix cache (`mamba_cache_mode` "align") has room for two: the running one and that of the last whole
    block (`MambaSpec.max_memory_usage_bytes`). It is on by default for hybrids since vllm-project/vllm#50991.
    """
    return 1 if settings.prefix_states is False or not has_raised_pages(model.architecture, settings.engine) else 2


def states_assumed(model: Model, settings: Settings) -> bool:
    """Whether nothing tells the element type of recurrent states."""
    return model.architecture.recurrent and settings.states is None and model.architecture.state_dtype is None


def budget_of(model: Model, settings: Settings) -> Budget:
    """The budget of one rank for `concurrency` sequences of `context` tokens each."""
    kept = cache_settings(model, settings)
    overhead = _overhead(settings)
    parts = (
        _weights(model, settings),
        overhead,
        _cache(_on_card(model, settings), settings, kept),
        _activations(model, settings, kept),
        Part(
            WORKSPACE,
            WORKSPACE_BYTES,
            _("one workspace of cuBLAS"),
            ((N_("bytes of a workspace"), WORKSPACE_BYTES),),
            ASSUMED,
            _("torch's default on Hopper"),
        ),
        _graphs(settings),
    )
    total = sum(part.bytes for part in parts)
    cache = next(part for part in parts if part.name == CACHE)
    architecture = model.architecture
    return Budget(
        parts=parts,
        kv_bytes_per_token=bytes_per_token(architecture, kept.whole),
        kv_fixed_bytes_per_sequence=fixed_bytes(architecture, kept.whole, settings.context),
        total_bytes=total,
        headroom_bytes=settings.capacity_bytes - total,
        pool_bytes=settings.limit_bytes - (total - cache.bytes),
        verdict=verdict_of(total, total - (settings.concurrency - 1) * (cache.bytes // settings.concurrency), settings),
        waiting=_waiting(cache.bytes, total, settings),
        binds=_binds(parts, total, settings, model),
        reserve_bytes=reserve_of(total - overhead.bytes, RESERVE) if settings.engine is TRANSFORMERS else None,
    )


def reserve_of(allocated_bytes: int, share: float) -> int:
    """Segments that the allocator keeps for later, and gaps in them: in steps of 2 MiB.

    Most of it torch gives back before it fails, so it is no part of the total; the headroom is to hold it.
    """
    return int(allocated_bytes * share) // _SEGMENT_BYTES * _SEGMENT_BYTES


def verdict_of(total: int, with_one: int, settings: Settings) -> str:
    """`fits` leaves the headroom, `tight` does not, `no` is more than the engine may take.

    An engine with a pool starts where the pool holds one request (`with_one` bytes in all): the others wait.
    """
    if total <= settings.safe_bytes:
        return FITS
    return TIGHT if (with_one if settings.engine.queues else total) <= settings.limit_bytes else NO


def _waiting(cache_bytes: int, total: int, settings: Settings) -> int:
    """How many of the requests find no room in the pool; 0 also where it does not hold one, as nothing starts then."""
    limit, one = settings.limit_bytes, cache_bytes // settings.concurrency
    if total <= limit or not settings.engine.queues or total - cache_bytes + one > limit:
        return 0
    return settings.concurrency - (limit - total + cache_bytes) // one


def total_at(model: Model, settings: Settings, context: int, concurrency: int) -> int:
    """Bytes on one rank at another length and number of sequences."""
    return budget_of(model, replace(settings, context=context, concurrency=concurrency)).total_bytes


def largest_context(model: Model, settings: Settings, concurrency: int) -> int:
    """The longest context that fits with that many sequences, as far as the model was made for; 0 where none does."""
    most = model.architecture.longest or _MOST_TOKENS
    return _largest(most, lambda length: total_at(model, settings, length, concurrency) <= settings.safe_bytes)


def largest_concurrency(model: Model, settings: Settings, context: int) -> int:
    """The most sequences of that length that fit; 0 where not even one does."""
    return _largest(1 << 20, lambda count: total_at(model, settings, context, count) <= settings.safe_bytes)


def _largest(most: int, fits: object) -> int:
    """The largest number up to `most` that fits; sizes grow with it, so that halving finds it."""
    assert callable(fits)
    if fits(most):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _on_card(model: Model, settings: Settings) -> Model:
    """The model with the layers only that lie on cards."""
    if settings.gpu_layers is None:
        return model
    return replace(model, architecture=layers_on_card(model.architecture, settings.gpu_layers, model.path))


def _weights(model: Model, settings: Settings) -> Part:
    ranks, size = settings.tensor_parallel, model.weights_bytes
    formula = _("bytes of all tensors")
    if settings.engine is LLAMA_CPP and model.places is not None:
        size = card_bytes(model.places, settings.gpu_layers)
        if size < model.weights_bytes:
            formula = _("bytes of the tensors on cards")
    elif settings.gpu_layers is not None and settings.gpu_layers < model.architecture.layers:
        raise InputRefused(_("{where}: what single layers weigh is known of a GGUF file only").format(where=model.path))
    inputs: tuple[tuple[str, int | str], ...] = ((N_("bytes of the model"), model.weights_bytes), ("ranks", ranks))
    if ranks == 1:
        return Part(WEIGHTS, size, formula, inputs, model.weights_known, model.weights_source)
    divided = weights_of_rank(model, settings)
    even = -(-size // ranks)
    # What is given or read as a sum is divided by an assumption, whatever the sum is known by.
    known = model.weights_known if divided.why is None and model.weights_known != MEASURED else ASSUMED
    if divided.bytes != even:
        inputs += ((N_("more than an even share"), divided.bytes - even),)
    formula = _("{formula} / ranks").format(formula=formula) + (
        _(" + what is not divided") if divided.bytes > even else ""
    )
    source = model.weights_source if divided.why is None else f"{model.weights_source}; {divided.why}"
    return Part(WEIGHTS, divided.bytes, formula, inputs, known, source)


@dataclass(frozen=True)
class RankWeights:
    """Of one of several ranks, the fullest, and why that is no more than assumed."""

    bytes: int
    why: str | None


def weights_of_rank(model: Model, settings: Settings) -> RankWeights:
    """What a tensor-parallel rank, or one of llama.cpp's cards, holds of the weights."""
    ranks, even = settings.tensor_parallel, -(-model.weights_bytes // settings.tensor_parallel)
    if settings.engine is LLAMA_CPP:
        if model.places is None:
            return RankWeights(even, _("which layers a card has is known of a GGUF file only: divided evenly"))
        return RankWeights(fullest_card_bytes(model.places, ranks), None)
    if settings.engine is TRANSFORMERS:
        return RankWeights(even, _("which matrices transformers divides is its plan's for the family: divided evenly"))
    if model.shares is not None:
        return RankWeights(
            model.shares.of_rank(ranks),
            None if model.shares.sure else _("not of every tensor it is known how ranks divide it"),
        )
    try:
        counts = divided_parameters(model.architecture, str(model.path))
    except InputRefused:
        return RankWeights(even, _("how ranks divide these weights is not known: divided evenly"))
    # What an even share leaves out, in the elements that the model computes in.
    more = sum(count // min(ranks, limit) - count // ranks for limit, count in counts.items() if limit)
    return RankWeights(
        even + model.dtype.bytes_of(max(0, more)), _("what ranks do not divide is counted from the configuration")
    )


def _overhead(settings: Settings) -> Part:
    if settings.overhead_bytes is not None:
        return measured_part(OVERHEAD, settings.overhead_bytes, settings.overhead_source)
    ranks = RANK_BYTES if settings.tensor_parallel > 1 and not settings.engine.divides_layers else 0
    formula = _("a process of this engine") + (_(" + communication of ranks") if ranks else "")
    return Part(
        OVERHEAD,
        settings.engine.overhead_bytes + ranks,
        formula,
        ((N_("bytes of a process"), settings.engine.overhead_bytes), (N_("bytes of communication"), ranks)),
        ASSUMED,
        _("start-up lines of real servers"),
    )


def _cache(model: Model, settings: Settings, kept: CacheSettings) -> Part:
    each = sequence_bytes(model.architecture, kept, settings.context)
    per_token = bytes_per_token(model.architecture, kept)
    fixed = fixed_bytes(model.architecture, kept, settings.context)
    inputs: list[tuple[str, int | str]] = [
        ("sequences", settings.concurrency), ("tokens", settings.context), (N_("bytes a token"), per_token),
        (N_("fixed bytes a sequence"), fixed), (N_("tokens a page"), page_tokens(model.architecture, kept)),
        (N_("layers that keep something"), "; ".join(layers_in_words(model.architecture, kept))),
    ]  # fmt: skip
    formula = _("sequences x (whole pages of tokens x bytes a token + fixed bytes a sequence)")
    source, assumed = "", states_assumed(model, settings)
    if any(isinstance(cache, CrossAttention) for cache in model.architecture.caches):
        source = _("the encoder's output counts once a sequence")
    elif assumed:
        source = _("states are assumed to be {dtype}").format(dtype=kept.states.name)
    elif has_raised_pages(model.architecture, settings.engine):
        source = _("pages of attention are assumed to be raised to those of states")
    unpacked = has_unpacked_layer(model.architecture, kept)
    if unpacked:
        source = _("one layer is assumed to lie unpacked in eight bits besides, and the scales once")
    in_flight = settings.engine is VLLM and settings.step_assumed and kept.hybrid and model.architecture.windowed
    if in_flight:
        source = _("windows hold {tokens} tokens of steps under way besides, assumed (--step-tokens)").format(
            tokens=f"{kept.step_tokens:,}"
        )
    guessed = (
        assumed
        or in_flight
        or unpacked
        or model.architecture.unknown
        or model.architecture.kept_assumed
        or has_raised_pages(model.architecture, settings.engine)
    )
    known = ASSUMED if guessed else COMPUTED
    return Part(CACHE, settings.concurrency * each, formula, tuple(inputs), known, source)


def _activations(model: Model, settings: Settings, kept: CacheSettings) -> Part:
    step = step_size(settings.concurrency, settings.context, settings.most_step_tokens)
    found = inference_activations(model.architecture, settings.engine, model.dtype, step, settings.tensor_parallel)
    size, formula = found.bytes, found.formula
    inputs: list[tuple[str, int | str]] = [*found.inputs]
    prompt = settings.concurrency * prompt_bytes(model.architecture, kept, settings.context)
    if prompt:
        size, formula = size + prompt, formula + _(" + the prompts' rows in windowed layers")
        inputs.append((N_("bytes of the prompts in windowed layers"), prompt))
    usual = settings.step_assumed and step.tokens == settings.most_step_tokens
    known = ASSUMED if usual or model.architecture.assumed or _lacks_widths(model) else COMPUTED
    source = _usual_step(settings, step.tokens) if usual else _("the engine's largest step")
    return Part(ACTIVATIONS, size, formula, tuple(inputs), known, source)


def _usual_step(settings: Settings, tokens: int) -> str:
    """What the largest step is taken from, in words."""
    said = _("{tokens} tokens are what {engine} puts into a step on a card of this size, assumed (--step-tokens)")
    if settings.engine is VLLM and settings.card is not None and goes_by_name(settings.capacity_bytes):
        said = _("{tokens} tokens are what {engine} puts into a step on {card}, assumed (--step-tokens)")
    return said.format(tokens=f"{tokens:,}", engine=settings.engine.name, card=settings.card)


def _lacks_widths(model: Model) -> bool:
    """Whether a width that activations depend on is taken from another one, or left out."""
    has = model.architecture
    no_mlp = has.intermediate is None and has.experts is None
    attends = any(isinstance(cache, Attention | Latent) for cache, _count in has.alike)
    return no_mlp or has.vocabulary is None or (attends and (has.heads is None or has.head_width is None))


def _graphs(settings: Settings) -> Part:
    if settings.graph_bytes is not None:
        return measured_part(GRAPHS, settings.graph_bytes, "--graphs")
    size = settings.engine.graph_bytes
    if not size:
        return Part(GRAPHS, 0, _("this engine captures none by itself"), (("engine", settings.engine.name),), ASSUMED)
    return Part(
        GRAPHS,
        size,
        _("the engine's default set of batch sizes"),
        (("engine", settings.engine.name), (N_("bytes of the default set"), size)),
        ASSUMED,
    )


def _binds(parts: tuple[Part, ...], total: int, settings: Settings, model: Model) -> str:
    """Which limit the settings meet first, in words."""
    limit = settings.limit_bytes
    named = (
        _("{name} ({share} of the card)").format(
            name=settings.engine.fraction_name, share=f"{limit / settings.capacity_bytes:.2f}"
        )
        if settings.engine.fraction_name and limit < settings.capacity_bytes
        else _("the card's memory")
    )
    sizes = {part.name: part.bytes for part in parts}
    if sizes[WEIGHTS] > limit:
        return _("the weights alone are more than {named} gives").format(named=named)
    if total - sizes[CACHE] > limit:
        return _("weights, overhead and one step leave no room for a cache within {named}").format(named=named)
    waiting = _waiting(sizes[CACHE], total, settings)
    if waiting:
        held = settings.concurrency - waiting
        return _(
            "the pool within {named} holds {held} of {concurrency} requests of {context} tokens at once; "
            "the others wait"
        ).format(named=named, held=held, concurrency=settings.concurrency, context=f"{settings.context:,}")
    if total > limit:
        return _("the cache of {concurrency} x {context} tokens is more than {named} leaves for it").format(
            concurrency=settings.concurrency, context=f"{settings.context:,}", named=named
        )
    longest = model.architecture.longest
    if longest is not None and settings.context > longest:
        return _("the model was made for {longest} tokens, less than the context asked for").format(
            longest=f"{longest:,}"
        )
    if total > settings.safe_bytes:
        return _("the headroom of {share} %: {size} more would have to be free").format(
            share=f"{100 * settings.headroom:.0f}", size=format_bytes(total - settings.safe_bytes)
        )
    largest = max(parts, key=lambda part: part.bytes)
    return _("nothing yet; the largest part is {name}, and {named} is what ends first").format(
        name=_(largest.name), named=named
    )
