"""The settings that an incident ran with, as an estimate takes them: from the launch line and from what was printed."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import UsageError
from ..estimate.answer import default_context
from ..estimate.budget import Settings
from ..estimate.dtypes import ElementType, element_type
from ..estimate.engines import LLAMA_CPP, SGLANG, TRANSFORMERS, VLLM, Engine
from ..estimate.model_input import Model
from ..knobs.versions import version_key
from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet, Scope
from ..readers.log.launch import launch_options, launch_program

_ENGINES = {"vllm": VLLM, "sglang": SGLANG, "llama.cpp": LLAMA_CPP, "ollama": LLAMA_CPP, "transformers": TRANSFORMERS}
_CONTEXT = ("max-model-len", "max-seq-len", "context-length", "ctx-size", "n-ctx")
_CONCURRENCY = ("max-num-seqs", "max-running-requests", "parallel", "n-seq-max")
_RANKS = ("tensor-parallel-size", "tp", "tp-size")
_STEP = ("max-num-batched-tokens", "chunked-prefill-size", "ubatch-size", "n-ubatch")
_FRACTION = ("gpu-memory-utilization", "mem-fraction-static")
_ELSEWHERE = (
    "cpu-offload-gb", "n-cpu-moe", "cpu-moe", "override-tensor", "no-kv-offload", "quantization", "load-format",
)  # fmt: skip
"""Options after which the files no longer tell what lies on the card."""
_PLAIN = (None, "auto", "none", "None", "False", "safetensors")
_SMALLER_BEFORE, _SMALLER_FRACTION = "0.20", 0.90
"""vLLM took 0.90 of the card before this version."""


def settings_of(evidence: Evidence, facts: FactSet, model: Model) -> Settings | None:
    """None where the engine or the card is not known, or something is set that the estimate does not know."""
    options = options_of(evidence)
    engine, capacity = _engine(evidence, facts), capacity_of(facts)
    if engine is None or capacity is None or any(options.get(name) not in _PLAIN for name in _ELSEWHERE):
        return None
    if (_number(options, "pipeline-parallel-size") or 1) > 1 or _some_layers_elsewhere(options, model):
        return None
    concurrency = concurrency_of(options)
    context = context_of(options, facts)
    if engine is LLAMA_CPP and context is not None:
        # Its context is that of all sequences together.
        context = max(1, context // concurrency)
    if context is None and engine is TRANSFORMERS:
        context = facts.size("activity.input_tokens")
        if context is None:
            return None
    try:
        keys, values = _elements(options, engine)
    except UsageError:
        return None
    return Settings(
        engine=engine,
        capacity_bytes=capacity,
        context=context or default_context(model),
        concurrency=concurrency,
        tensor_parallel=_number(options, *_RANKS) or 1,
        fraction=_fraction(options, facts, engine),
        keys=keys,
        values=values,
        step_tokens=_number(options, *_STEP),
        graph_bytes=0 if engine is VLLM and facts.value("engine.graphs_in_budget") is False else None,
    )


def options_of(evidence: Evidence) -> Mapping[str, str | None]:
    """Options by their long name with dashes: what an engine prints that it runs with comes before the launch line."""
    found: dict[str, str | None] = {}
    if evidence.command:
        found.update((name.replace("_", "-"), value) for name, value in launch_options(evidence.command))
    for event in evidence.of_kind(EventKind.ENGINE_START):
        options = event.fields.get("options")
        for option in options if isinstance(options, tuple) else ():
            if isinstance(option, tuple) and len(option) == 2:
                found[str(option[0]).replace("_", "-")] = None if option[1] is None else str(option[1])
    return found


def concurrency_of(options: Mapping[str, str | None]) -> int:
    """The most requests at once that the settings allow; one where they do not say."""
    return _number(options, *_CONCURRENCY) or 1


def context_of(options: Mapping[str, str | None], facts: FactSet) -> int | None:
    """The longest request that the settings allow."""
    return _number(options, *_CONTEXT) or facts.size("engine.max_length_tokens")


def capacity_of(facts: FactSet) -> int | None:
    """Of the card that the report is about."""
    members = facts.members(Scope.DEVICE)
    failed = [member for member in members if facts.value("oom.failed", member)] or list(members)
    for name in ("oom.total_bytes", "device.total_bytes"):
        sizes = {size for member in failed if (size := facts.size(name, member))}
        if len(sizes) == 1:
            return sizes.pop()
    return facts.size("oom.largest_device_bytes")


def _engine(evidence: Evidence, facts: FactSet) -> Engine | None:
    named = facts.value("engine.name")
    if named is None and evidence.command:
        named = launch_program(evidence.command)
    return _ENGINES.get(str(named))


def _number(options: Mapping[str, str | None], *names: str) -> int | None:
    for name in names:
        value = options.get(name)
        if value is not None and value.isdecimal() and 0 < int(value) < 1 << 30:
            return int(value)
    return None


def _some_layers_elsewhere(options: Mapping[str, str | None], model: Model) -> bool:
    value = options.get("n-gpu-layers")
    return value is not None and value.isdecimal() and int(value) < model.architecture.layers


def _elements(options: Mapping[str, str | None], engine: Engine) -> tuple[ElementType | None, ElementType | None]:
    names = ("cache-type-k", "cache-type-v") if engine is LLAMA_CPP else ("kv-cache-dtype", "kv-cache-dtype")
    found = [None if (value := options.get(name)) in _PLAIN else element_type(str(value)) for name in names]
    return found[0], found[1]


def _fraction(options: Mapping[str, str | None], facts: FactSet, engine: Engine) -> float | None:
    known = facts.value("engine.utilization")
    if isinstance(known, float):
        return known
    for name in _FRACTION:
        try:
            share = float(options.get(name) or "")
        except ValueError:
            continue
        if 0 < share <= 1:
            return share
    version, before = version_key(str(facts.value("engine.version"))), version_key(_SMALLER_BEFORE)
    older = version is not None and before is not None and version < before
    return _SMALLER_FRACTION if engine is VLLM and older else None
