"""estimate.*: what these settings were to need, by the formulas of `oomdoctor estimate`, beside what was observed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ..errors import InputRefused
from ..estimate.budget import (
    ACTIVATIONS,
    CACHE,
    OVERHEAD,
    WEIGHTS,
    Budget,
    budget_of,
    cache_settings,
    largest_concurrency,
    largest_context,
)
from ..estimate.engines import ENGINES
from ..estimate.kv_cache import bytes_per_token
from ..estimate.model_input import Model
from ..estimate.parts import weakest
from ..estimate.settings import Settings
from ..estimate.tensors import rows_bytes, tokens_within
from ..language import N_, _
from ..model.estimated import REPORTED, Estimated, EstimatedPart
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.source import Source
from ..model.units import format_bytes
from .asked_settings import Asked, asked_of, asked_of_loop, concurrency_of, context_of, options_of
from .asked_training import training_of
from .beside import beside, differs, what_differs_most
from .deriver import computed
from .estimated_training import estimated_training
from .printed_model import LOG, PRINTED, printed_model

_NEEDED = N_("KV cache, and the room for it")
_POOL, _TOKEN = N_("room for the KV cache"), N_("KV cache of one token")
_OBSERVED = {
    WEIGHTS: ("engine.weights_bytes", "owner.weights_bytes"),
    OVERHEAD: ("engine.non_torch_bytes", "oom.outside_allocator_bytes"),
    ACTIVATIONS: ("engine.activation_peak_bytes",),
    CACHE: ("engine.kv_pool_bytes", "owner.kv_bytes", "engine.kv_refused_bytes"),
    _POOL: ("engine.kv_available_bytes", "engine.kv_pool_bytes"),
    _TOKEN: ("engine.kv_bytes_per_token",),
}
"""What was seen of a part, the surest figure first."""


class Reckoned(NamedTuple):
    """An estimate, or why there is none although a model is known."""

    estimated: Estimated | None
    why_not: str | None = None


def estimated(evidence: Evidence, facts: FactSet, model: Model | None) -> Reckoned:
    """The estimate for the settings that the evidence tells; by the engine's own figures where no model is given.

    None where there is not enough for it.
    """
    try:
        served = _of_engine(evidence, facts) if model is None else None
        if served is not None:
            return Reckoned(served)
        model = printed_model(evidence, facts) if model is None else model
        asked = None if model is None else asked_of(evidence, facts, model)
        if asked is not None:
            return Reckoned(_of_model(asked, facts))
        served = _of_engine(evidence, facts)
        if served is not None:
            return Reckoned(served)
        if model is not None and model.path != LOG and _names_engine(facts):
            return Reckoned(None, _("the card's size is not in the input; --gpu tells it"))
        training = training_of(evidence, facts, model)
        if training is not None:
            return Reckoned(estimated_training(training, facts))
        asked = None if model is None or _names_engine(facts) else asked_of_loop(evidence, facts, model)
        return Reckoned(None if asked is None else _of_model(asked, facts))
    except InputRefused as error:
        return Reckoned(None, None if model is None or model.path == LOG else str(error))


def put_facts(found: Estimated, facts: FactSet) -> None:
    """What rules may ask of it."""
    names = {WEIGHTS: "weights", CACHE: "kv", ACTIVATIONS: "activation", OVERHEAD: "overhead", _POOL: "kv_room"}
    source = Source(path="estimate")
    for part in found.parts:
        if part.what in names:
            facts.put(f"estimate.{names[part.what]}_bytes", part.estimated_bytes, source)
    facts.put("estimate.fitting_context_tokens", found.fitting_context, source)
    facts.put("estimate.fitting_concurrency", found.fitting_concurrency, source)


def _names_engine(facts: FactSet) -> bool:
    return facts.value("engine.name") is not None


def _of_model(asked: Asked, facts: FactSet) -> Estimated:
    model, settings = asked.model, asked.settings
    budget = budget_of(model, settings)
    parts = tuple(_parts(model, settings, budget, facts))
    room = next((part.observed_bytes for part in parts if part.what == _POOL and part.observed_bytes is not None), None)
    taken = 0 if room is None else max(0, budget.pool_bytes - room)
    # What the engine found is less than was estimated: what fits is told by what it found.
    real = replace(settings, overhead_bytes=budget.part(OVERHEAD).bytes + taken) if taken else settings
    most = largest_concurrency(model, real, settings.context)
    longest = largest_context(model, real, settings.concurrency)
    cache = budget.part(CACHE).bytes
    sentences = [_demand(cache, budget.pool_bytes - taken, settings.concurrency, settings.context)]
    if asked.seen_tokens is not None:
        sentences = [
            _("The keys and values that were there are {count} tokens of this model.").format(
                count=f"{asked.seen_tokens:,}"
            )
        ]
    sentences.append(_fitting(settings.context, most, settings.concurrency, longest))
    if most < settings.concurrency and (most or longest) and settings.headroom:
        # An engine's own answer takes all of its pool.
        sentences.append(
            _("That leaves {share} % of the card free; the engine itself would go up to its whole share.").format(
                share=f"{100 * settings.headroom:.0f}"
            )
            if settings.engine.queues
            else _("That leaves {share} % of the card free.").format(share=f"{100 * settings.headroom:.0f}")
        )
    sentences.extend(_differing(parts))
    if facts.value("engine.speculative"):
        sentences.append(_("Speculative decoding is not in the estimate."))
    ranks = f" TP {settings.tensor_parallel}" if settings.tensor_parallel > 1 else ""
    words = _("{model} on {engine}: {count} x {context} tokens on a card of {size}").format(
        model=model.architecture.family,
        engine=settings.engine.name + ranks,
        count=settings.concurrency,
        context=f"{settings.context:,}",
        size=format_bytes(settings.capacity_bytes),
    )
    return Estimated(words, parts, tuple(sentences), longest, most)


def _parts(model: Model, settings: Settings, budget: Budget, facts: FactSet) -> Iterator[EstimatedPart]:
    for name in (WEIGHTS, OVERHEAD, ACTIVATIONS):
        part = budget.part(name)
        if name == WEIGHTS and model.weights_source == PRINTED:
            continue  # which is the figure that would stand beside it
        yield beside(name, part.bytes, f"{part.known}: {part.formula}", _OBSERVED[name], facts)
    if settings.engine.queues:
        # What such an engine takes for its pool is what is left, whatever the requests need of it.
        how = f"{weakest(budget.parts)}: what the engine may take, less the other parts"
        yield beside(_POOL, max(0, budget.pool_bytes), how, _OBSERVED[_POOL], facts)
        needed = budget.part(CACHE)
        yield EstimatedPart(CACHE, needed.bytes, None, f"{needed.known}: {needed.formula}", "")
    else:
        part = budget.part(CACHE)
        yield beside(CACHE, part.bytes, f"{part.known}: {part.formula}", _OBSERVED[CACHE], facts)
    per_token = bytes_per_token(model.architecture, cache_settings(model, settings))
    if per_token and not model.architecture.windowed:
        how = f"{budget.part(CACHE).known}: bytes of one token on one rank"
        yield beside(_TOKEN, per_token, how, _OBSERVED[_TOKEN], facts)


def _differing(parts: tuple[EstimatedPart, ...]) -> Iterator[str]:
    """The part that differs most, where one differs by more than such estimates do."""
    real = [part for part in parts if part.what != _TOKEN and _differs(part)]
    of_token = next((part for part in parts if part.what == _TOKEN and _differs(part)), None)
    if of_token is not None and of_token.observed_bytes is not None:
        yield _(
            "A token takes {observed} where {estimated} were estimated: the cache is kept in another way than these"
            " settings say."
        ).format(observed=format_bytes(of_token.observed_bytes), estimated=format_bytes(of_token.estimated_bytes))
    if real:
        yield what_differs_most(real)
    elif of_token is None and any(part.observed_bytes is not None for part in parts):
        yield _("What was found agrees with the estimate.")


def _differs(part: EstimatedPart) -> bool:
    return differs(part, 0) if part.what == _TOKEN else differs(part)


def _of_engine(evidence: Evidence, facts: FactSet) -> Estimated | None:
    """Without a model: the engine's own bytes of a token, for the requests that its settings allow."""
    names = ("engine.kv_bytes_per_token", "engine.kv_available_bytes")
    per_token, room = (facts.size(name) for name in names)
    options = options_of(evidence)
    context, count = context_of(options, facts), concurrency_of(options)
    engine = ENGINES.get(str(facts.value("engine.name")))
    if engine is None or not engine.queues or not per_token or room is None or room <= 0 or not context:
        return None
    one = rows_bytes(context, engine.page_tokens, per_token)
    needed, most, longest = count * one, room // one, tokens_within(room // count, engine.page_tokens, per_token)
    if needed <= room:
        return None
    told = facts.size("engine.kv_fitting_tokens")
    if told is not None and count == 1:  # computed before the sizes were rounded for printing
        longest = min(longest, told // engine.page_tokens * engine.page_tokens)
    how = N_("computed: requests x tokens x the engine's bytes of a token")
    part = EstimatedPart(_NEEDED, needed, room, how, str(computed(*names)), REPORTED)
    words = _("{count} x {context} tokens, by the engine's own figures").format(count=count, context=f"{context:,}")
    sentences = (_demand(needed, room, count, context), _fitting(context, most, count, longest))
    return Estimated(words, (part,), sentences, longest, most)


def _demand(cache: int, room: int, count: int, context: int) -> str:
    sizes = {"size": format_bytes(cache), "count": count, "context": f"{context:,}", "room": format_bytes(abs(room))}
    if room <= 0:
        return _(
            "These settings ask for {size} of KV cache ({count} x {context} tokens); the rest alone is {room} more than"
            " there is."
        ).format(**sizes)
    return _(
        "These settings ask for {size} of KV cache ({count} x {context} tokens); this card has {room} left for it."
    ).format(**sizes)


def _fitting(context: int, most: int, count: int, longest: int) -> str:
    if most >= count:
        return _("Context {context} at concurrency {count} fits by the estimate, headroom included.").format(
            context=f"{context:,}", count=most
        )
    if most and longest:
        return _(
            "Context {context} at concurrency {count} fits, or context {other_context} at concurrency {other_count}."
        ).format(context=f"{context:,}", count=most, other_context=f"{longest:,}", other_count=count)
    if most or longest:
        return _("Context {context} at concurrency {count} fits.").format(
            context=f"{context if most else longest:,}", count=most or count
        )
    return _("No context fits.")
