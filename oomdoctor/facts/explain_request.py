"""request.*: the failing request's size taken apart, where it is exact or a length is known that it agrees with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

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
_OF_OPERATION = {
    "attention-scores": ("scores",), "logits": ("logits",), "weights": ("embedding",),
    "optimizer-state": ("embedding",),
    "copy-to-device": ("embedding",), "checkpoint": ("embedding",), "kv-append": ("keys",),
    "kv-pool": (), "communication": (),
}  # fmt: skip
"""The tensors that these operations make; any other may make scores, logits or a matrix of the vocabulary."""
_LENGTHS = ("activity.input_tokens", "engine.max_length_tokens", "engine.warmup_tokens")
_REFUSED = {
    EventKind.DEVICE_OOM: "oom.requested_bytes",
    EventKind.HOST_ALLOCATION_FAILED: "host.failed_request_bytes",
}


def derive(evidence: Evidence, facts: FactSet) -> None:
    """Once the operation, the model's dimensions and the engine's lengths are known."""
    operation = facts.value("activity.operation")
    kinds = _OF_OPERATION.get(str(operation), ("scores", "logits", "embedding"))
    heads, vocabulary, hidden = (facts.size(f"model.{name}") or None for name in ("heads", "vocabulary", "hidden"))
    lengths = [length for name in _LENGTHS if (length := facts.size(name))]
    for request in _requests(evidence, facts):
        if request.most < _WORTHWHILE_BYTES:
            continue
        found = factor(
            request.least, request.most, heads=heads, vocabulary=vocabulary, hidden=hidden, kv_row=_kv_row(facts),
            lengths=lengths, kinds=kinds,
        )  # fmt: skip
        # A rounded figure leaves room for many products: only a length that is known tells the right one.
        if found is None or not (request.exact or found.tokens in lengths):
            continue
        source = computed(request.fact, "model.heads", "model.vocabulary", *_LENGTHS)
        facts.put("request.factors", found.product, source)
        facts.put("request.meaning", found.meaning, source)
        facts.put("request.kind", found.kind, source)
        facts.put("request.tokens", found.tokens, source)
        facts.put("request.factors_exact", request.exact, source)
        return


def _kv_row(facts: FactSet) -> int | None:
    """Elements of a token's keys in one layer."""
    kept, width = facts.size("model.kv_heads"), facts.size("model.head_dimension")
    if width is None:
        hidden, heads = facts.size("model.hidden"), facts.size("model.heads")
        width = hidden // heads if hidden and heads and hidden % heads == 0 else None
    return kept * width if kept and width else None


class _Request(NamedTuple):
    """The least and the most bytes that a failing request may have had; the same where it is printed in full."""

    least: int
    most: int
    exact: bool
    fact: str
    """The fact that tells its size."""


def _requests(evidence: Evidence, facts: FactSet) -> Iterator[_Request]:
    """Each failing request, those known to the byte first."""
    rounded: list[_Request] = []
    for member in facts.members(Scope.DEVICE):
        size = facts.size("oom.requested_bytes", member)
        if size is not None and facts.value("oom.requested_exact", member):
            yield _Request(size - _ROUNDED_TO_BYTES + 1, size, True, "oom.requested_bytes")
    for event in evidence.of_kind(*_REFUSED):
        size, fact = event.size("requested_bytes"), _REFUSED[event.kind]
        if size is None or size < _WORTHWHILE_BYTES:
            continue
        if re.search(rf"(?<![\d.,]){size}(?![\d.,]\d)", event.text):
            yield _Request(size, size, True, fact)
        else:
            half = _last_digit_bytes(size) // 2
            rounded.append(_Request(size - half - _SEGMENT_ROUNDED_TO_BYTES, size + half, False, fact))
    yield from rounded


def _last_digit_bytes(size: int) -> int:
    """What the last of two decimals stands for, in the unit that a message prints such a size in."""
    return (GIB if size >= GIB else MIB) // 100
