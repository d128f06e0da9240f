"""request.*: the failing request's size taken apart, where it is exact or a length is known that it agrees with."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet, Scope
from ..model.units import GIB, MIB
from .deriver import computed
from .factoring import factor

_ROUNDED_TO_BYTES = 512
"""torch's allocator rounds a request up to a multiple of it before it is recorded."""
_SEGMENT_ROUNDED_TO_BYTES = 2 * MIB
"""And what it asks of the driver, which its message prints, to a multiple of this."""
_WORTHWHILE_BYTES = 64 * MIB
_OF_OPERATION = {"attention-scores": ("scores",), "logits": ("logits",)}
_NEITHER = ("weights", "optimizer-state", "kv-append", "kv-pool", "communication", "copy-to-device", "checkpoint")
"""Operations whose tensors are neither scores nor logits."""
_LENGTHS = ("activity.input_tokens", "engine.max_length_tokens", "engine.warmup_tokens")
_REFUSED = (EventKind.DEVICE_OOM, EventKind.HOST_ALLOCATION_FAILED)


def derive(evidence: Evidence, facts: FactSet) -> None:
    """Once the operation, the model's dimensions and the engine's lengths are known."""
    operation = facts.value("activity.operation")
    if operation in _NEITHER:
        return
    kinds = _OF_OPERATION.get(str(operation), ("scores", "logits"))
    heads, vocabulary = (_whole(f"model.{name}", facts) for name in ("heads", "vocabulary"))
    lengths = [length for name in _LENGTHS if (length := _whole(name, facts)) is not None]
    for least, most, exact in _sizes(evidence, facts):
        if most < _WORTHWHILE_BYTES:
            continue
        found = factor(least, most, heads=heads, vocabulary=vocabulary, lengths=lengths, kinds=kinds)
        # A rounded figure leaves room for many products: only a length that is known tells the right one.
        if found is None or not (exact or found.tokens in lengths):
            continue
        source = computed("oom.requested_bytes", "model.heads", "model.vocabulary", *_LENGTHS)
        facts.put("request.factors", found.product, source)
        facts.put("request.meaning", found.meaning, source)
        facts.put("request.kind", found.kind, source)
        facts.put("request.tokens", found.tokens, source)
        facts.put("request.factors_exact", exact, source)
        return


def _sizes(evidence: Evidence, facts: FactSet) -> Iterator[tuple[int, int, bool]]:
    """The least and the most that each failing request may have had, exact ones first."""
    rounded: list[tuple[int, int, bool]] = []
    for member in facts.members(Scope.DEVICE):
        size = facts.value("oom.requested_bytes", member)
        if isinstance(size, int) and facts.value("oom.requested_exact", member):
            yield size - _ROUNDED_TO_BYTES + 1, size, True
    for event in evidence.of_kind(*_REFUSED):
        size = event.size("requested_bytes")
        if size is None or size < _WORTHWHILE_BYTES:
            continue
        if re.search(rf"(?<![\d.,]){size}(?![\d.,]\d)", event.text):
            yield size, size, True
        else:
            half = _last_digit_bytes(size) // 2
            rounded.append((size - half - _SEGMENT_ROUNDED_TO_BYTES, size + half, False))
    yield from rounded


def _last_digit_bytes(size: int) -> int:
    """What the last of two decimals stands for, in the unit that a message prints such a size in."""
    return (GIB if size >= GIB else MIB) // 100


def _whole(name: str, facts: FactSet) -> int | None:
    value = facts.value(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
