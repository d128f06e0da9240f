"""Where a serving engine's own figures and what was seen part: each pair side by side.

An engine plans with what it measured at its start; what fails later is often the part that it did not see.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..language import N_
from ..model.diagnosis import Comparison
from ..model.events import EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.facts import FactSet
from .deriver import failed_devices

_PAIRS = (
    ("weights", "engine.weights_bytes", "owner.weights_bytes"),
    (N_("outside torch"), "engine.non_torch_bytes", "oom.outside_allocator_bytes"),
    (N_("all of the process"), "engine.budget_bytes", "oom.process_used_bytes"),
    (N_("weights and working buffers"), "engine.sum_needed_bytes", "oom.process_used_bytes"),
)
"""What is compared, the engine's figure, what was seen of it on the device that failed."""
_POOLS = ("engine.kv_pool_bytes", "engine.kv_available_bytes")


def reconcile(evidence: Evidence, facts: FactSet) -> tuple[Comparison, ...]:
    """The pairs that the input holds both sides of, those that part most first."""
    found = [*_of_failing_device(facts), *_graphs(evidence)]
    return tuple(sorted(found, key=lambda one: -abs(one.seen_bytes - one.reckoned_bytes)))


def _of_failing_device(facts: FactSet) -> Iterator[Comparison]:
    failed = failed_devices(facts)
    if not failed:
        return
    member = failed[0]
    for what, reckoned, seen in _PAIRS:
        by_engine, on_device = facts.size(reckoned), facts.size(seen, member)
        if by_engine is not None and on_device is not None:
            yield Comparison(what, by_engine, on_device, _how(reckoned, None, facts), _how(seen, member, facts))
    yield from _step(member, facts)
    yield from _told_at_start(member, facts)


def _told_at_start(member: str, facts: FactSet) -> Iterator[Comparison]:
    """What the engine said that it took at its start, against what its process held as it failed."""
    weights, seen = facts.size("engine.weights_bytes"), facts.size("oom.process_used_bytes", member)
    name = next((name for name in _POOLS if (facts.size(name) or 0) > 0), None)
    if weights is None or seen is None or name is None:
        return
    if any(facts.size(whole) is not None for whole in ("engine.budget_bytes", "engine.sum_needed_bytes")):
        return  # the engine says itself what it reckons with in all
    how = "; ".join(_how(each, None, facts) for each in ("engine.weights_bytes", name))
    seen_how = _how("oom.process_used_bytes", member, facts)
    yield Comparison(
        N_("weights and KV pool, told at the start"), weights + (facts.size(name) or 0), seen, how, seen_how
    )


def _step(member: str, facts: FactSet) -> Iterator[Comparison]:
    """What a step took beside weights and pool, the failing request included, against the profiled peak."""
    peak, weights = facts.size("engine.activation_peak_bytes"), facts.size("engine.weights_bytes")
    pool = next((size for name in _POOLS if (size := facts.size(name)) is not None), None)
    live, asked = facts.size("oom.allocated_bytes", member), facts.size("oom.requested_bytes", member)
    if peak is None or weights is None or pool is None or live is None or asked is None:
        return
    step = live + asked - weights - max(pool, 0)
    if step > 0:
        how = N_("live tensors and the request that failed, less weights and KV pool")
        yield Comparison(N_("one step"), peak, step, _how("engine.activation_peak_bytes", None, facts), how)


def _graphs(evidence: Evidence) -> Iterator[Comparison]:
    profiles = evidence.of_kind(EventKind.ENGINE_PROFILE)
    captures = [event for event in evidence.of_kind(EventKind.ENGINE_PHASE) if event.word("phase") == "graph-capture"]
    estimate = _last_told(profiles, "graph_estimate_bytes")
    taken = _last_told(captures, "took_bytes") or _last_told(profiles, "graph_bytes")
    if estimate is not None and taken is not None:
        yield Comparison(N_("CUDA graphs"), estimate[0], taken[0], estimate[1], taken[1])


def _last_told(events: Sequence[LogEvent], field: str) -> tuple[int, str] | None:
    """The last size that is told, and where."""
    told = [(size, str(event.source)) for event in events if (size := event.size(field)) is not None]
    return told[-1] if told else None


def _how(name: str, member: str | None, facts: FactSet) -> str:
    fact = facts.find(name, member)
    return "" if fact is None else str(fact.source)
