"""Whether the model fits, by the formulas of `oomdoctor estimate`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from shlex import quote

from ..errors import OomdoctorError
from ..estimate.answer import UNTOLD_CONTEXT, default_context, pool_tokens
from ..estimate.budget import CACHE, FITS, NO, TIGHT, budget_of, largest_context
from ..estimate.dtypes import element_type
from ..estimate.engine_versions import of_version
from ..estimate.engines import ENGINES, SGLANG, TRANSFORMERS, VLLM, Engine, goes_by_name, ranks_refused
from ..estimate.kv_cache import has_raised_pages
from ..estimate.model_input import Model, read_model
from ..estimate.serving import not_served
from ..estimate.settings import Settings
from ..facts.asked_settings import (
    as_loaded,
    concurrency_of,
    context_asked,
    length_of,
    refuse_elsewhere,
    with_options,
)
from ..language import _, begun
from ..model.devices import DeviceReading
from ..model.units import exact_size, format_bytes
from .cards import name_of
from .finding import Finding, Level
from .measured import measured_overhead
from .setup import Asked, Setup
from .shares import cap_bytes, share_of
from .training import LAUNCHERS, Card, is_training, training_finding
from .visible import visible_cards

_AS_LONG_AS_FITS = ("auto", "-1")
"""By which vLLM takes the longest request that its pool holds."""
_LEVELS = {FITS: Level.FINE, TIGHT: Level.WARN, NO: Level.FAIL}


def check_fit(setup: Setup) -> Iterable[Finding]:
    """The budget on the smallest visible card, and against what is free of it now."""
    path = setup.asked.model
    if path is None:
        return
    try:
        model = stored = read_model(path, setup.asked.dtype)
        settings, name, free = _settings(setup, model)
        if setup.asked.dtype is None:
            model = as_loaded(model, _told(setup), settings.engine)
        judged = _judged(setup, model, settings, name, free)
    except _NoCard:
        yield Finding(
            "fit",
            Level.UNSEEN,
            _("Whether the model fits"),
            _("No card is seen"),
            _("Name its memory"),
            ("--gpu 80GiB",),
        )
        return
    except OomdoctorError as error:
        yield Finding("fit", Level.UNSEEN, _("Whether the model fits"), str(error))
        return
    refused = ranks_refused(settings.engine, model.architecture, settings.tensor_parallel)
    if refused is not None:
        what = _("{name} does not start with {ranks} tensor-parallel ranks").format(
            name=settings.engine.name, ranks=settings.tensor_parallel
        )
        yield Finding("fit.ranks", Level.FAIL, what, begun(refused))
        return
    trains = is_training(setup)
    if not trains:
        yield judged
        yield from _unserved(setup, model, settings)
        yield from _too_long(model, settings)
    if trains or setup.command.program in LAUNCHERS:
        yield training_finding(setup, stored, Card(name, settings.limit_bytes, free), trains=trains)


def _unserved(setup: Setup, model: Model, settings: Settings) -> Iterable[Finding]:
    """An engine that is not known to serve the family: what fits may still not start."""
    named = setup.asked.engine or setup.command.engine
    why = not_served(settings.engine, model.architecture, gguf=model.gguf)
    if named is not None and why is not None:
        seen = _("{engine} is not known to serve {family}").format(
            engine=settings.engine.name, family=model.architecture.family
        )
        yield Finding("fit.engine", Level.WARN, seen, begun(why))


def _too_long(model: Model, settings: Settings) -> Iterable[Finding]:
    """A context beyond the length that the model names for itself: it may fit the card and still not be served."""
    longest = model.architecture.longest
    if longest is None or settings.context <= longest:
        return
    why = _("The model was made for {longest} tokens, less than the context asked for").format(longest=f"{longest:,}")
    if settings.engine.name == "vllm":
        why = _(
            "{why}; vLLM does not start then, unless VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 or scaled positions allow it"
        ).format(why=why)
    yield Finding(
        "fit.length",
        Level.WARN,
        _("A context of {context} tokens is longer than the model's own").format(context=f"{settings.context:,}"),
        why,
        _("Ask for {longest} tokens at most").format(longest=f"{longest:,}"),
        figures={"context": settings.context, "longest_context": longest},
    )


class _NoCard(Exception):
    """There is no card to fit on."""


def _settings(setup: Setup, model: Model) -> tuple[Settings, str, int | None]:
    """The settings, what the card is called, and what is free of it (None: not seen)."""
    asked, command = setup.asked, setup.command
    engine, told = _engine(setup, model), _told(setup)
    refuse_elsewhere(told)
    cards = [_with_instances(setup, card) for card in visible_cards(setup).cards if card.total_bytes]
    smallest = min(cards, key=lambda card: card.total_bytes or 0, default=None)
    if asked.gpu_bytes is not None:
        capacity, name, free = asked.gpu_bytes, _("a card of {gpu}").format(gpu=format_bytes(asked.gpu_bytes)), None
    elif smallest is not None:
        capacity = (smallest.total_bytes or 0) - (smallest.reserved_by_driver_bytes or 0)
        name, free = name_of(smallest), smallest.free_bytes
    else:
        raise _NoCard
    kinds = [element_type(each.strip()) for each in asked.kv_dtype.split(",")] if asked.kv_dtype else []
    share = share_of(setup)[0]
    overhead = measured_overhead(capacity, engine)
    ranks = command.cards if command.engine is not None else None
    concurrency = asked.concurrency or concurrency_of(told)
    settings = Settings(
        engine=engine,
        capacity_bytes=capacity,
        context=asked.context
        or length_of(context_asked(told), engine, concurrency)
        or (default_context(model) if command.engine else 1),
        concurrency=concurrency,
        headroom=asked.headroom,
        tensor_parallel=asked.tensor_parallel or ranks or 1,
        fraction=asked.fraction if asked.fraction is not None else share,
        overhead_bytes=overhead.bytes if overhead is not None else None,
        overhead_source=overhead.words if overhead is not None else "",
        card=smallest.name if smallest is not None and asked.gpu_bytes is None else None,
    )
    settings = with_options(of_version(settings, setup.interpreter.versions.get(engine.name)), told)
    if asked.context is None and told.get("max-model-len") in _AS_LONG_AS_FITS:
        fitting = largest_context(model, replace(settings, headroom=0.0), 1)
        settings = replace(settings, context=min(settings.context, fitting or settings.context))
    if kinds:
        settings = replace(settings, keys=kinds[0], values=kinds[-1], packed_latent=False)
    cap = cap_bytes(setup, smallest) if smallest is not None and asked.gpu_bytes is None else None
    if cap is not None and cap < settings.limit_bytes:
        settings = replace(settings, fraction=cap / capacity)
    return settings, name, free


def _with_instances(setup: Setup, card: DeviceReading) -> DeviceReading:
    """The card as a program sees it: divided by MIG, it is as large as the smallest instance."""
    found = [each for traits in setup.cards.traits if traits.index == card.index for each in traits.instances or ()]
    smallest = min((each for each in found if each.total_bytes), key=lambda each: each.total_bytes or 0, default=None)
    if not card.mig_mode or smallest is None:
        return card
    return replace(
        card, total_bytes=smallest.total_bytes, free_bytes=smallest.free_bytes, reserved_by_driver_bytes=None
    )


def _told(setup: Setup) -> Mapping[str, str | None]:
    """The options of an engine's server; those of another program may mean something else."""
    return setup.command.options if setup.command.engine is not None else {}


def _parts_command(setup: Setup, model: Model, settings: Settings) -> str:
    """The same estimate with all its parts."""
    words = [f"oomdoctor estimate {quote(str(setup.asked.model))} --gpu {exact_size(settings.capacity_bytes)}"]
    words.append(f"--engine {settings.engine.name} --context {settings.context}")
    version = setup.interpreter.versions.get(settings.engine.name)
    if version is not None and of_version(replace(settings, steps_at_once=2), version).steps_at_once == 1:
        words.append(f"--engine-version {quote(version)}")
    if setup.asked.dtype is not None:
        words.append(f"--dtype {setup.asked.dtype}")
    elif _told(setup).get("quantization") is not None or _told(setup).get("dtype") is not None:
        words.append(f"--weights {exact_size(model.weights_bytes)}")
    if settings.concurrency > 1:
        words.append(f"--concurrency {settings.concurrency}")
    if settings.tensor_parallel > 1:
        words.append(f"--tp {settings.tensor_parallel}")
    if settings.fraction is not None:
        words.append(f"--fraction {settings.fraction:.4g}")
    if settings.packed_latent:
        words.append("--kv-dtype fp8_ds_mla")
    elif settings.keys is not None and settings.values is not None:
        names = dict.fromkeys((settings.keys.name, settings.values.name))
        words.append(f"--kv-dtype {','.join(names)}")
    by_name = settings.engine is VLLM and settings.step_tokens is None and goes_by_name(settings.capacity_bytes)
    if settings.card is not None and by_name:
        words.append(f"--card {quote(settings.card)}")
    if settings.step_tokens is not None:
        words.append(f"--step-tokens {settings.step_tokens}")
    if settings.gpu_layers is not None:
        words.append(f"--gpu-layers {settings.gpu_layers}")
    if settings.graph_bytes is not None:
        words.append(f"--graphs {exact_size(settings.graph_bytes)}")
    if not settings.hybrid and model.architecture.windowed:
        words.append("--no-hybrid")
    if settings.states is not None and model.architecture.stateful:
        words.append(f"--state-dtype {settings.states.name}")
    if settings.prefix_states is False and has_raised_pages(model.architecture, settings.engine):
        words.append("--no-prefix-cache")
    if settings.headroom != Asked.headroom:
        words.append(f"--headroom {settings.headroom:.4g}")
    return " ".join(words)


def _engine(setup: Setup, model: Model) -> Engine:
    named = setup.asked.engine or setup.command.engine
    if named in ENGINES:
        return ENGINES[named]
    return ENGINES["llama.cpp"] if model.gguf else TRANSFORMERS


def _judged(setup: Setup, model: Model, settings: Settings, name: str, free: int | None) -> Finding:
    budget = budget_of(model, settings)
    level, total = _LEVELS[budget.verdict], budget.total_bytes
    # An engine's most requests at once are a bound, not a demand: those that its pool does not hold wait.
    waits = setup.asked.concurrency is None and budget.verdict == TIGHT and total > settings.limit_bytes
    level = Level.FINE if waits else level
    # SGLang starts with what its pool holds, and only refuses a longer request (`TpModelWorker.alloc_memory_pool`).
    pool = pool_tokens(model, settings, budget.pool_bytes) if settings.engine is SGLANG else None
    refuses = budget.verdict == NO and bool(pool) and setup.asked.context is None
    level = Level.WARN if refuses else level
    taken = min(total, settings.limit_bytes) if settings.engine.queues else total
    asked_context = settings.context > 1
    what = (
        _("{concurrency} x {context} tokens").format(concurrency=settings.concurrency, context=f"{settings.context:,}")
        if asked_context
        else _("its weights and one step of a token")
    )
    if settings.context == UNTOLD_CONTEXT and setup.asked.context is None and model.architecture.longest is None:
        what = _("{what} (assumed: neither the model nor the command tells a length)").format(what=what)
    figures: dict[str, int | float | str | None] = {
        "total_bytes": total,
        "capacity_bytes": settings.capacity_bytes,
        "limit_bytes": settings.limit_bytes,
        "free_bytes": free,
        "fits": budget.verdict,
        "weights_bytes": model.weights_bytes,
        "kv_bytes": budget.part(CACHE).bytes,
        "context": settings.context,
        "concurrency": settings.concurrency,
        "engine": settings.engine.name,
        "tensor_parallel": settings.tensor_parallel,
    }
    longest = largest_context(model, settings, settings.concurrency)
    figures["max_context"] = longest
    need = _("The model needs {total} of {name} with {engine} for {what}").format(
        total=format_bytes(total), name=name, engine=settings.engine.name, what=what
    )
    if waits:
        need = _("The model starts on {name} with {engine}; {binds}").format(
            name=name, engine=settings.engine.name, binds=budget.binds
        )
    seen, why = need, begun(budget.binds)
    if refuses:
        why = _("{engine} starts, with a pool of {tokens} tokens, and refuses requests that are longer").format(
            engine=settings.engine.name, tokens=f"{pool:,}"
        )
    do = (
        _("A context of {longest} fits").format(longest=f"{longest:,}")
        if longest and level is not Level.FINE and asked_context
        else ""
    )
    if level is Level.FINE and not asked_context:
        seen += _("; {longest} tokens fit").format(longest=f"{longest:,}") if longest > 1 else ""
    if free is not None and level is not Level.FAIL and taken > free:
        why = _("The card would hold it, but only {free} of it are free").format(free=format_bytes(free))
        return Finding("fit", Level.FAIL, need, why, _("Free the card, or take another one"), figures=figures)
    lines = () if level is Level.FINE else (_parts_command(setup, model, settings),)
    return Finding(
        "fit",
        level,
        seen,
        "" if level is Level.FINE else why,
        do or (_("See the parts") if lines else ""),
        lines,
        figures,
    )
