"""Where a serving engine's own figures and what was seen part: each pair side by side.

An engine plans with what it measured at its start; what fails later is often the part that it did not see.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..model.diagnosis import Comparison
from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet, Scope

_PAIRS = (
    ("weights", "engine.weights_bytes", "owner.weights_bytes"),
    ("outside torch", "engine.non_torch_bytes", "oom.outside_allocator_bytes"),
    ("all of the process", "engine.budget_bytes", "oom.process_used_bytes"),
    ("weights and working buffers", "engine.sum_needed_bytes", "oom.process_used_bytes"),
)
"""What is compared, the engine's figure, what was seen of it on the device that failed."""
_POOLS = ("engine.kv_pool_bytes", "engine.kv_available_bytes")


def reconcile(evidence: Evidence, facts: FactSet) -> tuple[Comparison, ...]:
    """The pairs that the input holds both sides of, those that part most first."""
    found = [*_of_failing_device(facts), *_graphs(evidence)]
    return tuple(sorted(found, key=lambda one: -abs(one.seen_bytes - one.reckoned_bytes)))


def _of_failing_device(facts: FactSet) -> Iterator[Comparison]:
    failed = [member for member in facts.members(Scope.DEVICE) if facts.value("oom.failed", member)]
    if not failed:
        return
    member = failed[0]
    for what, reckoned, seen in _PAIRS:
        by_engine, on_device = _size(reckoned, None, facts), _size(seen, member, facts)
        if by_engine is not None and on_device is not None:
            yield Comparison(what, by_engine, on_device, _how(reckoned, None, facts), _how(seen, member, facts))
    yield from _step(member, facts)


def _step(member: str, facts: FactSet) -> Iterator[Comparison]:
    """What a step took beside weights and pool, the failing request included, against the profiled peak."""
    peak, weights = _size("engine.activation_peak_bytes", None, facts), _size("engine.weights_bytes", None, facts)
    pool = next((size for name in _POOLS if (size := _size(name, None, facts)) is not None), None)
    live, asked = _size("oom.allocated_bytes", member, facts), _size("oom.requested_bytes", member, facts)
    if peak is None or weights is None or pool is None or live is None or asked is None:
        return
    step = live + asked - weights - max(pool, 0)
    if step > 0:
        how = "live tensors and the request that failed, less weights and KV pool"
        yield Comparison("one step", peak, step, _how("engine.activation_peak_bytes", None, facts), how)


def _graphs(evidence: Evidence) -> Iterator[Comparison]:
    estimates = [e for e in evidence.of_kind(EventKind.ENGINE_PROFILE) if e.size("graph_estimate_bytes") is not None]
    taken = [e for e in evidence.of_kind(EventKind.ENGINE_PROFILE) if e.size("graph_bytes") is not None]
    taken += [
        e
        for e in evidence.of_kind(EventKind.ENGINE_PHASE)
        if e.word("phase") == "graph-capture" and e.size("took_bytes") is not None
    ]
    if estimates and taken:
        estimate, seen = estimates[-1].size("graph_estimate_bytes"), taken[-1]
        size = seen.size("graph_bytes") if seen.size("graph_bytes") is not None else seen.size("took_bytes")
        assert estimate is not None
        assert size is not None
        yield Comparison("CUDA graphs", estimate, size, str(estimates[-1].source), str(seen.source))


def _size(name: str, member: str | None, facts: FactSet) -> int | None:
    value = facts.value(name, member)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _how(name: str, member: str | None, facts: FactSet) -> str:
    fact = facts.find(name, member)
    return "" if fact is None else str(fact.source)
