"""lookalike.*: messages worded like an out-of-memory that are about something else."""

from __future__ import annotations

import math

from ..model.events import EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.units import TIB
from .activity import memory_exceptions

_MEMORY_WORDS = ("memory", "alloc", "oom", "resource_exhausted")
_IMPOSSIBLE_FLAT_BYTES = TIB
"""A flat (one-dimensional) host array beyond this has a length read from garbage; a square one may be meant."""


def derive(evidence: Evidence, facts: FactSet) -> None:
    """Each look-alike says so in its own text."""
    for event in reversed(evidence.of_kind(EventKind.KERNEL_RESOURCE)):
        facts.put("lookalike.kernel_resource", event.word("resource") or "on-chip resource", event.source)
        facts.put("lookalike.kernel_resource_required_bytes", event.size("required_bytes"), event.source)
        facts.put("lookalike.kernel_resource_limit_bytes", event.size("limit_bytes"), event.source)
    for kind, name in (
        (EventKind.DEVICE_ASSERT, "lookalike.device_assert"),
        (EventKind.SLOT_TABLE_FULL, "lookalike.slot_table_full"),
        (EventKind.WORKSPACE_TOO_SMALL, "lookalike.workspace_too_small"),
        (EventKind.IMPOSSIBLE_SIZE, "oom.impossible_size"),
    ):
        for event in evidence.of_kind(kind):
            facts.put(name, True, event.source)
    for event in reversed(evidence.of_kind(EventKind.WORKSPACE_TOO_SMALL)):
        facts.put("lookalike.workspace_library", event.word("library"), event.source)
        facts.put("lookalike.workspace_request_bytes", event.size("requested_bytes"), event.source)
    for event in evidence.events:
        if event.fields.get("request_impossible") is True:
            facts.put("oom.impossible_size", True, event.source)
    for event in evidence.of_kind(EventKind.ACCELERATOR_ERROR):
        if event.word("code") == "busy":
            facts.put("lookalike.device_busy", True, event.source)
    for event in evidence.of_kind(EventKind.HOST_ALLOCATION_FAILED):
        if _is_garbage_length(event):
            facts.put("oom.impossible_size", True, event.source)
    _put_masked(evidence, facts)


def _is_garbage_length(event: LogEvent) -> bool:
    requested, shape = event.size("requested_bytes"), event.fields.get("shape")
    if requested is None or requested < _IMPOSSIBLE_FLAT_BYTES:
        return False
    dimensions = [d for d in shape if isinstance(d, int)] if isinstance(shape, tuple) else []
    return bool(dimensions) and max(dimensions) == math.prod(dimensions) > 0


def _put_masked(evidence: Evidence, facts: FactSet) -> None:
    """A wrapper's memory words around a complete traceback that is about something else."""
    wrappers = evidence.of_kind(EventKind.ENGINE_WARMUP_FAILED)
    for event in wrappers:
        wrapped = event.word("inner")
        if wrapped and not any(word in wrapped.lower() for word in _MEMORY_WORDS):
            facts.put("lookalike.masked_exception", True, event.source)
    if not wrappers or evidence.of_kind(EventKind.DEVICE_OOM, EventKind.ACCELERATOR_ERROR):
        return
    inner = [e for e in memory_exceptions(evidence) if e.fields.get("complete") is not False]
    for event in reversed(inner):
        words = f"{event.word('exception_type') or ''} {event.word('message') or ''}".lower()
        if event.word("exception_type") and not any(word in words for word in _MEMORY_WORDS):
            facts.put("lookalike.masked_exception", True, event.source)
            return
