"""An estimate for programs: the contract `oomdoctor.estimate/1` (estimate.schema.json). Sizes are in bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from ..estimate.answer import Answer
from ..estimate.budget import ACTIVATIONS, CACHE, GRAPHS, OVERHEAD, WEIGHTS, WORKSPACE, cache_settings
from ..estimate.kv_cache import layers_in_words
from ..estimate.model_input import Model
from ..estimate.parts import ASSUMED, Part, assumed_bytes, weakest
from ..estimate.settings import Settings
from ..estimate.training import ACTIVATIONS as ACTIVATIONS_KEPT
from ..estimate.training import PARAMETERS, Training, TrainingBudget, training_limits, weights_bytes
from ..report.json_text import json_text

SCHEMA = "oomdoctor.estimate/1"
_OF_WEIGHTS = "bytes of all tensors, whole model"
_OF_PARAMETERS = "all parameters as they are kept, on all cards together"
_NO_CACHE = {"known": "none", "reason": "a training keeps no keys and values from step to step"}
_RESERVE = {"known": ASSUMED, "formula": "allocated bytes x share, beside total_bytes"}


def answer_as_json(answer: Answer) -> str:
    """Inference."""
    budget, settings, model = answer.budget, answer.settings, answer.model
    sizes = {part.name: part.bytes for part in budget.parts}
    parts = {part.name: _part(part) for part in budget.parts}
    return json_text(
        SCHEMA,
        {
            "kind": "inference",
            "model": _model(model),
            "settings": {
                "engine": settings.engine.name,
                "capacity_bytes": settings.capacity_bytes,
                "context": settings.context,
                "concurrency": settings.concurrency,
                "tensor_parallel": settings.tensor_parallel,
                "headroom": settings.headroom,
                "headrooms": list(settings.headrooms),
                "fraction": _fraction(settings),
            },
            "weights_bytes": model.weights_bytes,
            "kv_bytes_per_token": budget.kv_bytes_per_token,
            "kv_fixed_bytes_per_sequence": budget.kv_fixed_bytes_per_sequence,
            "kv_bytes": sizes[CACHE],
            "activation_bytes": sizes[ACTIVATIONS],
            "overhead_bytes": sizes[OVERHEAD],
            "workspace_bytes": sizes[WORKSPACE],
            "graph_bytes": sizes[GRAPHS],
            "total_bytes": budget.total_bytes,
            "limit_bytes": settings.limit_bytes,
            "headroom_bytes": budget.headroom_bytes,
            "reserve_bytes": budget.reserve_bytes,
            "pool_bytes": budget.pool_bytes,
            "pool_tokens": answer.pool_tokens,
            "fits": budget.verdict,
            "waiting_requests": budget.waiting,
            "binds": budget.binds,
            "not_served": answer.not_served,
            "limits": [asdict(each) for each in answer.limits],
            "max_context": answer.max_context,
            "max_concurrency": answer.max_concurrency,
            "known": {
                "weights_bytes": {**parts[WEIGHTS], "formula": _OF_WEIGHTS, "known": model.weights_known},
                "kv_bytes_per_token": _of_layers(answer, "sum over layers of what a token adds to each"),
                "kv_fixed_bytes_per_sequence": _of_layers(
                    answer, "sum over layers of what a sequence keeps besides: windows, states, cross attention"
                ),
                "kv_bytes": parts[CACHE],
                "activation_bytes": parts[ACTIVATIONS],
                "overhead_bytes": parts[OVERHEAD],
                "workspace_bytes": parts[WORKSPACE],
                "graph_bytes": parts[GRAPHS],
                **_known_of_answer(answer),
            },
            "parts": [{"name": name, "bytes": sizes[name], **part} for name, part in parts.items()],
            "table": {
                "contexts": list(answer.grid.contexts),
                "concurrencies": list(answer.grid.concurrencies),
                "cells": [
                    {"concurrency": cell.concurrency, "context": cell.context, "total_bytes": cell.total_bytes,
                     "fits": cell.verdict, "leaves_headroom": cell.leaves, "waiting_requests": cell.waiting}
                    for row in answer.grid.rows for cell in row
                ],
                "max_contexts": list(answer.grid.largest[0].contexts),
                "max_concurrencies": list(answer.grid.largest[0].concurrencies),
                "by_headroom": [
                    {"headroom": each.headroom, "max_contexts": list(each.contexts),
                     "max_concurrencies": list(each.concurrencies)}
                    for each in answer.grid.largest
                ],
            },
            "lengths": None
            if answer.lengths is None
            else {**asdict(answer.lengths), "by_length": [
                {"name": each.name, "tokens": each.tokens, "total_bytes": each.total_bytes,
                 "max_concurrency": each.max_concurrencies[0], "max_concurrencies": list(each.max_concurrencies)}
                for each in answer.by_length
            ]},
            "notes": list(answer.notes),
        }
    )  # fmt: skip


def _known_of_answer(answer: Answer) -> dict[str, Any]:
    """How the figures are known that follow from the parts: no better than the worst known of what they rest on."""
    budget, settings = answer.budget, answer.settings
    total = _sum(budget.parts)
    limit = {
        "known": settings.limit_known,
        "formula": "capacity_bytes x fraction",
        "inputs": {"capacity_bytes": settings.capacity_bytes, "fraction": _fraction(settings)},
    }
    within = {**total, "known": ASSUMED if ASSUMED in (limit["known"], total["known"]) else total["known"]}
    beside_cache = _sum([part for part in budget.parts if part.name != CACHE])
    pool = {**beside_cache, "known": ASSUMED if limit["known"] == ASSUMED else beside_cache["known"]}
    return {
        "total_bytes": {**total, "formula": "sum of parts", "inputs": {part.name: part.bytes for part in budget.parts}},
        "limit_bytes": limit,
        "headroom_bytes": {
            **total,
            "formula": "capacity_bytes - total_bytes",
            "inputs": {"capacity_bytes": settings.capacity_bytes, "total_bytes": budget.total_bytes},
        },
        "reserve_bytes": _RESERVE,
        "pool_bytes": {**pool, "formula": "limit_bytes - parts but the cache"},
        "pool_tokens": {**pool, "formula": "whole pages of pool_bytes"},
        "fits": {**within, "formula": "total_bytes against headroom and limit_bytes"},
        "waiting_requests": {**within, "formula": "concurrency - whole requests that pool_bytes holds"},
        "binds": within,
        "limits": {**within, "formula": "the largest that leaves each headroom"},
        "max_context": {**within, "formula": "the largest that leaves the least headroom asked for"},
        "max_concurrency": {**within, "formula": "the largest that leaves the least headroom asked for"},
        "table": within,
        "lengths": within,
        "settings": {"known": "given"},
        "model": {"known": "given", "source": "the files"},
    }


def _fraction(settings: Settings) -> float:
    return settings.engine.fraction if settings.fraction is None else settings.fraction


def _of_layers(answer: Answer, formula: str) -> dict[str, Any]:
    """How figures of a sequence are known: of the whole model, where the part of the cache is of one card."""
    whole = cache_settings(answer.model, answer.settings).whole
    return {
        "known": answer.budget.part(CACHE).known,
        "formula": formula,
        "inputs": {
            "layers that keep something": "; ".join(layers_in_words(answer.model.architecture, whole)),
            "context": answer.settings.context,
        },
    }


def _sum(parts: Iterable[Part]) -> dict[str, Any]:
    known = tuple(parts)
    return {"known": weakest(known), "assumed_bytes": assumed_bytes(known)}


def training_as_json(model: Model, settings: Training, budget: TrainingBudget) -> str:
    """Training."""
    asked = {**asdict(settings), "headrooms": list(settings.headrooms)}
    total = _sum(part for part in budget.parts if part.name in budget.peak.parts)
    sizes, known = {part.name: part.bytes for part in budget.parts}, {part.name: _part(part) for part in budget.parts}
    limits = training_limits(model, settings)
    in_all = {"known": known[PARAMETERS]["known"], "formula": _OF_PARAMETERS, "inputs": known[PARAMETERS]["inputs"]}
    return json_text(
        SCHEMA,
        {
            "kind": "training",
            "model": _model(model),
            "settings": asked,
            "weights_bytes": weights_bytes(model, settings),
            "kv_bytes_per_token": None,
            "kv_fixed_bytes_per_sequence": None,
            "kv_bytes": None,
            "activation_bytes": sizes[ACTIVATIONS_KEPT],
            "overhead_bytes": sizes[OVERHEAD],
            "workspace_bytes": sizes[WORKSPACE],
            "graph_bytes": None,
            "total_bytes": budget.total_bytes,
            "headroom_bytes": budget.headroom_bytes,
            "reserve_bytes": budget.reserve_bytes,
            "fits": budget.verdict,
            "binds": budget.binds,
            "max_batch": budget.max_batch,
            "max_context": limits[0].max_sequence,
            "max_concurrency": budget.max_batch,
            "limits": [asdict(each) for each in limits],
            "known": {
                "weights_bytes": in_all,
                "kv_bytes_per_token": _NO_CACHE,
                "kv_fixed_bytes_per_sequence": _NO_CACHE,
                "kv_bytes": _NO_CACHE,
                "activation_bytes": known[ACTIVATIONS_KEPT],
                "overhead_bytes": known[OVERHEAD],
                "workspace_bytes": known[WORKSPACE],
                "graph_bytes": {"known": "none", "reason": "graphs are not in the estimate of a training"},
                "total_bytes": {
                    **total,
                    "formula": "sum of the parts of the moment that needs most",
                    "inputs": {name: sizes[name] for name in budget.peak.parts},
                },
                "headroom_bytes": {
                    **total,
                    "formula": "capacity_bytes - total_bytes",
                    "inputs": {"capacity_bytes": settings.capacity_bytes, "total_bytes": budget.total_bytes},
                },
                "reserve_bytes": _RESERVE,
                "fits": total,
                "binds": total,
                "max_batch": {**total, "formula": "the largest that leaves the headroom"},
                "max_context": {**total, "formula": "the longest sequence with this batch that leaves the headroom"},
                "max_concurrency": {**total, "formula": "max_batch: the sequences that are on one card at once"},
                "limits": {**total, "formula": "the largest that leaves each headroom"},
                "moments": {**_sum(budget.parts), "formula": "sum of parts"},
                "settings": {"known": "given"},
                "model": {"known": "given", "source": "the files"},
            },
            "parts": [{"name": part.name, "bytes": part.bytes, **_part(part)} for part in budget.parts],
            "moments": [
                {"name": moment.name, "bytes": moment.bytes, "parts": list(moment.parts)} for moment in budget.moments
            ],
        },
    )


def _part(part: Part) -> dict[str, Any]:
    found: dict[str, Any] = {"known": part.known, "formula": part.formula, "inputs": dict(part.inputs)}
    return {**found, "source": part.source} if part.source else found


def _model(model: Model) -> dict[str, Any]:
    return {
        "path": str(model.path),
        "family": model.architecture.family,
        "layers": model.architecture.layers,
        "dtype": model.dtype.name,
        "parameters": model.parameters,
        "longest_context": model.architecture.longest,
    }
