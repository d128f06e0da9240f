"""request.*: the failing request's size taken apart, where it is exact or a length is known that it agrees with."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from ..estimate.tensors import head_width_of, row_elements
from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet, Scope
from ..model.source import Source
from ..model.units import GIB, MIB
from .deriver import computed
from .factoring import Factors, factor
from .known_sizes import Known, known_sizes, of_shape
from .tensor_size import shape_of, size_of

_ROUNDED_TO_BYTES = 512
"""torch's allocator rounds a request up to a multiple of it before it is recorded."""
_SEGMENT_ROUNDED_TO_BYTES = 2 * MIB
"""And what it asks of the driver, which its message prints, to a multiple of this."""
_WORTHWHILE_BYTES = 64 * MIB
_OF_OPERATION = {
    "attention-scores": ("scores", "latents"), "logits": ("logits",), "weights": ("embedding", "projections"),
    "optimizer-state": ("embedding", "parameters"), "gradient": ("scores", "logits", "embedding", "parameters"),
    "copy-to-device": ("embedding", "projections"), "checkpoint": ("embedding", "projections", "parameters"),
    "kv-append": ("keys",), "kv-pool": (), "communication": ("parameters",),
}  # fmt: skip
_OF_ANY = ("scores", "logits", "embedding", "parameters", "activations")
"""The tensors that these operations make, and what any other may make."""
_OF_ATTENTION = ("scores", "latents")
_MAKES_NO_SCORES = re.compile(
    r"/nn/modules/(?:sparse|linear|normalization)\.py\b|\b(?:F|functional)\.(?:embedding|linear|layer_norm|rms_norm)\("
    r"|\b(?:gate|up|down|gate_up)_proj\("
)
"""Calls that look up, project or normalise: no two positions meet in them."""
_WITHOUT_LENGTH = ("parameters", "projections")
_TELLING_BYTES, _NARROW = 256 * MIB, 0.006
"""Of a product without a length to be found: from this size on, and rounded to this share, agreement is no chance."""
_ROUNDED_SHARE = 0.01
"""NumPy prints three figures."""
_SHARE_OF_A_STEP = 0.1
"""Scores of known latents come in steps of two bytes a pair: a figure must be told more closely than that."""
_OF_MODEL = (
    "parameters", "trainable", "reduce_bucket", "gather_bucket", "hidden", "intermediate", "experts", "expert_width",
)  # fmt: skip
_LENGTHS = ("activity.input_tokens", "engine.max_length_tokens", "engine.warmup_tokens")
_REFUSED = {
    EventKind.DEVICE_OOM: "oom.requested_bytes",
    EventKind.HOST_ALLOCATION_FAILED: "host.failed_request_bytes",
}


def derive(evidence: Evidence, facts: FactSet) -> None:
    """Once the operation, the model's dimensions and the engine's lengths are known."""
    operation = facts.value("activity.operation")
    kinds = _kinds(_OF_OPERATION.get(str(operation), _OF_ANY), facts)
    if _put_of_shape(evidence, facts):
        return
    heads, vocabulary, hidden = (facts.size(f"model.{name}") or None for name in ("heads", "vocabulary", "hidden"))
    lengths = [length for name in _LENGTHS if (length := facts.size(name))]
    known = _known(facts, lengths)
    for request in _requests(evidence, facts):
        if request.most < _WORTHWHILE_BYTES:
            continue
        found = factor(
            request.least, request.most, heads=heads, vocabulary=vocabulary, hidden=hidden, kv_row=_kv_row(facts),
            lengths=lengths, kinds=kinds, others=tuple(known_sizes(request.least, request.most, known, kinds)),
        )  # fmt: skip
        if found is not None and (request.exact or _is_settled(found, request, lengths)):
            _put(found, request.exact, computed(request.fact, "model.heads", "model.vocabulary", *_LENGTHS), facts)
            return


def _kinds(kinds: Collection[str], facts: FactSet) -> Collection[str]:
    """Less what the failing call cannot make, whatever a size agrees with."""
    if facts.value("activity.convolution") is True:
        return tuple(kind for kind in kinds if kind not in _OF_ATTENTION and kind not in ("logits", "embedding"))
    frame = facts.value("activity.frame")
    if isinstance(frame, str) and _MAKES_NO_SCORES.search(frame):
        return tuple(kind for kind in kinds if kind not in _OF_ATTENTION)
    return kinds


def _is_settled(found: Factors, request: _Request, lengths: Collection[int]) -> bool:
    """A rounded figure leaves room for many products: a known length tells the right one, or that no length is free."""
    if found.kind in _WITHOUT_LENGTH:
        return request.most >= _TELLING_BYTES and request.most - request.least <= _NARROW * request.most
    if found.kind == "latents" and found.tokens is not None:
        return request.most - request.least <= _SHARE_OF_A_STEP * 2 * found.tokens**2
    return found.tokens in lengths


def _put_of_shape(evidence: Evidence, facts: FactSet) -> bool:
    """Where the last message names shape and type, nothing has to be found; a figure beside them must agree."""
    last = next(iter(reversed(evidence.of_kind(*_REFUSED))), None)
    told = None if last is None else shape_of(last)
    if last is None or told is None:
        return False
    size, printed = size_of(told), last.size("requested_bytes")
    if printed is not None and abs(size - printed) > _ROUNDED_SHARE * size:
        return False
    _put(of_shape(*told), True, last.source, facts)
    return True


def _put(found: Factors, exact: bool, source: Source, facts: FactSet) -> None:
    facts.put("request.factors", found.product, source)
    facts.put("request.meaning", found.meaning, source)
    facts.put("request.kind", found.kind, source)
    facts.put("request.tokens", found.tokens, source)
    facts.put("request.factors_exact", exact, source)


def _known(facts: FactSet, lengths: Collection[int]) -> Known:
    numbers = {name: facts.size(f"model.{name}") or None for name in _OF_MODEL}
    ranks = facts.size("ranks.count") or facts.size("ranks.seen") or None
    width, height = facts.size("activity.image_width"), facts.size("activity.image_height")
    image = (width, height) if width and height else None
    return Known(**numbers, ranks=ranks, image=image, lengths=tuple(lengths))


def _kv_row(facts: FactSet) -> int | None:
    """Elements of a token's keys in one layer."""
    kept, width = facts.size("model.kv_heads"), facts.size("model.head_dimension")
    if width is None:
        hidden, heads = facts.size("model.hidden"), facts.size("model.heads")
        width = head_width_of(hidden, heads) if hidden and heads else None
    return row_elements(kept, width) if kept and width else None


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
