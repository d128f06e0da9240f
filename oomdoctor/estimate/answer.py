"""Everything that is asked of a model before it runs, answered together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..errors import InputRefused
from ..language import N_, _
from ..model.units import format_bytes
from .architecture import Attention
from .budget import (
    Budget,
    budget_of,
    cache_settings,
    largest_concurrency,
    largest_context,
    state_copies,
    states_assumed,
    total_at,
    weights_of_rank,
)
from .engines import LLAMA_CPP, TRANSFORMERS, VLLM, drops_what_slid_out, goes_by_name
from .grid import Grid, grid_of
from .kv_cache import bytes_per_token, has_raised_pages, page_tokens, sequence_bytes
from .lengths import Lengths
from .model_input import Model
from .parameters import count_parameters
from .serving import not_served
from .settings import Settings
from .tensors import tokens_within

UNTOLD_CONTEXT = 4096
"""The length that counts where neither a model nor anybody else names one."""
_LEAST_SHARE = 0.8
"""Of the parameters that a configuration means: files with fewer are not the whole model."""


@dataclass(frozen=True)
class LengthAnswer:
    """What requests of one length of the distribution mean."""

    name: str
    tokens: int
    total_bytes: int
    """With the concurrency asked for, all of this length."""
    max_concurrencies: tuple[int, ...]
    """For each headroom asked for, the least first."""


@dataclass(frozen=True)
class Limits:
    """The largest context and the most sequences, of what was asked for, with this share of the card left."""

    headroom: float
    max_context: int
    """With the concurrency asked for; 0 where none fits."""
    max_concurrency: int
    """With the context asked for; 0 where not even one fits."""


@dataclass(frozen=True)
class Answer:
    """The budget, what fits, and the map around it."""

    model: Model
    settings: Settings
    budget: Budget
    grid: Grid
    limits: tuple[Limits, ...]
    """For each headroom asked for, the least first; then for what the engine may take, where that leaves less."""
    pool_tokens: int | None
    """Tokens that the engine's pool holds; None where tokens take nothing, or there is no pool."""
    lengths: Lengths | None
    by_length: tuple[LengthAnswer, ...]
    notes: tuple[str, ...]
    not_served: str | None = None
    """Why the engine is not known to serve the family; None where it is known to."""

    @property
    def max_context(self) -> int:
        """With the least headroom asked for."""
        return self.limits[0].max_context

    @property
    def max_concurrency(self) -> int:
        """With the least headroom asked for."""
        return self.limits[0].max_concurrency


def default_context(model: Model) -> int:
    """The length that the model was made for, where nobody asks for another."""
    return model.architecture.longest or UNTOLD_CONTEXT


def answer_of(model: Model, settings: Settings, lengths: Lengths | None = None) -> Answer:
    """The whole answer. With a distribution the longest request is the context that counts."""
    if lengths is not None:
        settings = replace(settings, context=lengths.longest)
    budget = budget_of(model, settings)
    return Answer(
        model=model,
        settings=settings,
        budget=budget,
        grid=grid_of(model, settings),
        limits=_limits(model, settings),
        pool_tokens=pool_tokens(model, settings, budget.pool_bytes),
        lengths=lengths,
        by_length=_by_length(model, settings, lengths),
        notes=_notes(model, settings),
        not_served=not_served(settings.engine, model.architecture, gguf=model.gguf),
    )


def _whole_share(settings: Settings) -> tuple[float, ...]:
    """What is left of the card where the engine takes all that it may, if that is less than was asked for."""
    left = 1 - settings.limit_bytes / settings.capacity_bytes
    return (left,) if left < settings.headroom else ()


def _limits(model: Model, settings: Settings) -> tuple[Limits, ...]:
    asked = [(each, each) for each in settings.headrooms]
    # No headroom at all is the engine's whole share.
    wanted = [*asked, *((left, 0.0) for left in _whole_share(settings))]
    return tuple(
        Limits(
            left,
            largest_context(model, replace(settings, headroom=headroom), settings.concurrency),
            largest_concurrency(model, replace(settings, headroom=headroom), settings.context),
        )
        for left, headroom in wanted
    )


def pool_tokens(model: Model, settings: Settings, pool_bytes: int) -> int | None:
    """Tokens of a pool of that size on one rank, in whole pages, as vLLM and SGLang print them as they start.

    With windows or states: as many tokens as sequences of the context asked for would have in it.
    """
    if settings.engine in (TRANSFORMERS, LLAMA_CPP):
        return None
    kept = cache_settings(model, settings)
    per_token = bytes_per_token(model.architecture, kept)
    raised = has_raised_pages(model.architecture, settings.engine)
    if (model.architecture.windowed and settings.engine is VLLM) or raised:
        return max(0, pool_bytes * settings.context // sequence_bytes(model.architecture, kept, settings.context))
    if not per_token:
        return None
    return tokens_within(pool_bytes, page_tokens(model.architecture, kept), per_token)


def _by_length(model: Model, settings: Settings, lengths: Lengths | None) -> tuple[LengthAnswer, ...]:
    if lengths is None:
        return ()
    named = (("P50", lengths.p50), ("P95", lengths.p95), ("P99", lengths.p99), ("longest", lengths.longest))
    return tuple(
        LengthAnswer(
            name, tokens, total_at(model, settings, tokens, settings.concurrency),
            tuple(largest_concurrency(model, replace(settings, headroom=each), tokens) for each in settings.headrooms),
        )
        for name, tokens in named
    )  # fmt: skip


def _notes(model: Model, settings: Settings) -> tuple[str, ...]:
    """What the figures rest on that is not in the files, and what other versions of the engine do."""
    heads = [cache.kv_heads for cache, _count in model.architecture.alike if isinstance(cache, Attention)]
    notes = [_("assumed: {what}").format(what=each) for each in model.architecture.assumptions]
    longest = model.architecture.longest
    if longest is not None and settings.context > longest:
        notes.append(
            _("the model was made for {longest} tokens, less than the context asked for").format(longest=f"{longest:,}")
        )
    if longest is None:
        notes.append(_no_longest(settings))
    notes.extend(_fewer_than_counted(model))
    if model.architecture.vocabulary is None:
        notes.append(_("the vocabulary is not told: the logits of a step are not counted"))
    if model.architecture.intermediate is None and model.architecture.experts is None:
        notes.append(_("the MLP's width is not told: activations assume four times the hidden size"))
    if model.architecture.heads is None or model.architecture.head_width is None:
        notes.append(_("the heads are not told: activations count the MLP only"))
    if settings.tensor_parallel > 1:
        if settings.engine.divides_layers:
            notes.append(
                _("{ranks} cards share the layers (--split-mode layer); the fullest counts").format(
                    ranks=settings.tensor_parallel
                )
            )
        elif heads and min(heads) < settings.tensor_parallel:
            notes.append(
                _("{ranks} ranks share {heads} KV heads: each head is kept more than once").format(
                    ranks=settings.tensor_parallel, heads=min(heads)
                )
            )
        if model.architecture.latent and not settings.engine.divides_layers:
            notes.append(
                _("a latent vector is kept whole on every rank: tensor parallel does not make the cache smaller")
            )
        divided = weights_of_rank(model, settings)
        if divided.why is not None:
            notes.append(_("assumed: {what}").format(what=divided.why))
        more = divided.bytes - model.weights_bytes // settings.tensor_parallel
        if more > 0 and settings.engine.queues:
            notes.append(
                _(
                    "a rank holds {size} more than an even share of the weights: norms, routers, projections to a"
                    " latent vector, and KV heads of which there are fewer than ranks, are whole on each"
                ).format(size=format_bytes(more))
            )
    if model.speculative_bytes:
        notes.append(
            _(
                "{size} of layers that guess tokens ahead are in the files and not counted: engines load them for"
                " speculative decoding alone"
            ).format(size=format_bytes(model.speculative_bytes))
        )
    if states_assumed(model, settings):
        notes.append(
            _("recurrent states are assumed to be {dtype}; name their type with --state-dtype").format(
                dtype=cache_settings(model, settings).states.name
            )
        )
    if has_raised_pages(model.architecture, settings.engine):
        notes.append(
            _(
                "vLLM raises the pages of attention to the size of a state, {tokens} tokens here, and keeps {states} a"
                " layer and request. Counted are the states of requests that run: what the prefix cache keeps of"
                " finished ones lies in what is left of the pool and gives way"
            ).format(
                tokens=f"{page_tokens(model.architecture, cache_settings(model, settings)):,}",
                states=_("two states (prefix cache; one with --no-prefix-cache, and before vLLM 0.27)")
                if state_copies(model, settings) == 2
                else _("one state (without a prefix cache)"),
            )
        )
    if settings.engine is TRANSFORMERS and model.architecture.latent:
        notes.append(
            _(
                "transformers up to 5.12 keeps keys and values of every head, since 5.16 the latent vector "
                "(--mla expanded)"
            )
        )
    if model.architecture.windowed:
        dropped = drops_what_slid_out(settings.engine, model.architecture.family)
        notes.append(_(_WINDOW_NOTES[settings.engine.name]) if dropped else _(
            "SGLang keeps every token in the windowed layers of this family: only some families' have a smaller pool"
        ))  # fmt: skip
    unnamed = settings.card is None and goes_by_name(settings.capacity_bytes)
    if settings.engine is VLLM and settings.step_assumed and unnamed:
        notes.append(
            _("on an A100 or a GB10 vLLM puts {tokens} tokens into a step; name the card (--card A100)").format(
                tokens=f"{settings.engine.step_tokens:,}"
            )
        )
    if settings.engine is VLLM and settings.fraction is None:
        notes.append(_("vLLM takes 0.92 of the card since 0.20, 0.90 before (--fraction, --engine-version)"))
    return tuple(notes)


def _no_longest(settings: Settings) -> str:
    """What the map and the largest contexts are where nothing tells how long a request the model was made for."""
    if settings.context == UNTOLD_CONTEXT:
        return _(
            "assumed: a context of {tokens} tokens, where --context names no other; no field tells the longest that the"
            " model was made for, so the map ends there and the largest contexts are what memory holds"
        ).format(tokens=f"{UNTOLD_CONTEXT:,}")
    return _("no field tells the longest context that the model was made for: the largest ones are what memory holds")


def _fewer_than_counted(model: Model) -> Iterator[str]:
    """Where the files hold much less than the dimensions mean: an adapter, or a part of the model."""
    if model.gguf or model.quantization is not None or not model.parameters:
        return
    try:
        counted = count_parameters(model.architecture, str(model.path))
    except InputRefused:
        return
    if model.parameters < counted * _LEAST_SHARE:
        yield _("the files hold {there} parameters, the configuration means {counted}: they may not be all").format(
            there=f"{model.parameters:,}", counted=f"{counted:,}"
        )


_WINDOW_NOTES = {
    "transformers": N_(
        "transformers drops what slid out of a window since 4.56; before, windowed layers keep every token"
    ),
    "vllm": N_(
        "without its hybrid cache manager vLLM keeps every token in windowed layers too (--no-hybrid); before 0.26 its"
        " windows held one step, not two (--engine-version)"
    ),
    "sglang": N_("SGLang gives windowed layers a pool of 0.8 of the tokens (--swa-full-tokens-ratio)"),
    "llama.cpp": N_("llama.cpp keeps every token in windowed layers with --swa-full (--no-hybrid)"),
}
