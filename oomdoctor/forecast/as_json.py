"""An estimate for programs: the contract `oomdoctor.estimate/1` (estimate.schema.json). Sizes are in bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from ..estimate.answer import Answer
from ..estimate.budget import (
    ACTIVATIONS,
    ASSUMED,
    CACHE,
    GRAPHS,
    OVERHEAD,
    WORKSPACE,
    Part,
    assumed_bytes,
    weakest,
)
from ..estimate.model_input import Model
from ..estimate.training import Training, TrainingBudget
from ..report.json_text import json_text

SCHEMA = "oomdoctor.estimate/1"
_RESERVE = {"known": ASSUMED, "formula": "allocated bytes x share, beside total_bytes"}


def answer_as_json(answer: Answer) -> str:
    """Inference."""
    budget, settings, model = answer.budget, answer.settings, answer.model
    sizes = {part.name: part.bytes for part in budget.parts}
    parts = {part.name: _part(part) for part in budget.parts}
    of_cache = {"known": parts[CACHE]["known"]}
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
                "fraction": settings.engine.fraction if settings.fraction is None else settings.fraction,
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
            "binds": budget.binds,
            "max_context": answer.max_context,
            "max_concurrency": answer.max_concurrency,
            "known": {
                "weights_bytes": {
                    "known": model.weights_known,
                    "source": model.weights_source,
                },
                "kv_bytes_per_token": of_cache,
                "kv_fixed_bytes_per_sequence": of_cache,
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
                     "fits": cell.verdict}
                    for row in answer.grid.rows for cell in row
                ],
                "max_contexts": list(answer.grid.max_contexts),
                "max_concurrencies": list(answer.grid.max_concurrencies),
            },
            "lengths": None
            if answer.lengths is None
            else {**asdict(answer.lengths), "by_length": [asdict(each) for each in answer.by_length]},
            "notes": list(answer.notes),
        }
    )  # fmt: skip


def _known_of_answer(answer: Answer) -> dict[str, Any]:
    """How the figures are known that follow from the parts: no better than the worst known of what they rest on."""
    budget, settings = answer.budget, answer.settings
    total = _sum(budget.parts)
    limit = {"known": settings.limit_known, "formula": "capacity_bytes x fraction"}
    within = {**total, "known": ASSUMED if ASSUMED in (limit["known"], total["known"]) else total["known"]}
    beside_cache = _sum([part for part in budget.parts if part.name != CACHE])
    pool = {**beside_cache, "known": ASSUMED if limit["known"] == ASSUMED else beside_cache["known"]}
    return {
        "total_bytes": {**total, "formula": "sum of parts"},
        "limit_bytes": limit,
        "headroom_bytes": {**total, "formula": "capacity_bytes - total_bytes"},
        "reserve_bytes": _RESERVE,
        "pool_bytes": {**pool, "formula": "limit_bytes - parts but the cache"},
        "pool_tokens": {**pool, "formula": "whole pages of pool_bytes"},
        "fits": {**within, "formula": "total_bytes against headroom and limit_bytes"},
        "binds": within,
        "max_context": {**within, "formula": "the largest that fits"},
        "max_concurrency": {**within, "formula": "the largest that fits"},
        "table": within,
        "lengths": within,
        "settings": {"known": "given"},
        "model": {"known": "given", "source": "the files"},
    }


def _sum(parts: Iterable[Part]) -> dict[str, Any]:
    known = tuple(parts)
    return {"known": weakest(known), "assumed_bytes": assumed_bytes(known)}


def training_as_json(model: Model, settings: Training, budget: TrainingBudget) -> str:
    """Training."""
    asked = asdict(settings)
    total = _sum(part for part in budget.parts if part.name in budget.peak.parts)
    return json_text(
        SCHEMA,
        {
            "kind": "training",
            "model": _model(model),
            "settings": asked,
            "total_bytes": budget.total_bytes,
            "headroom_bytes": budget.headroom_bytes,
            "reserve_bytes": budget.reserve_bytes,
            "fits": budget.verdict,
            "binds": budget.binds,
            "max_batch": budget.max_batch,
            "known": {
                "total_bytes": {**total, "formula": "sum of the parts of the moment that needs most"},
                "headroom_bytes": {**total, "formula": "capacity_bytes - total_bytes"},
                "reserve_bytes": _RESERVE,
                "fits": total,
                "binds": total,
                "max_batch": {**total, "formula": "the largest that leaves the headroom"},
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
