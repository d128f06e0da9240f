"""GIVEN an engine's own figures WHEN its card runs out THEN they stand beside what was seen, the widest gap first."""

from __future__ import annotations

from given import event, facts_of, gib, oom

from oomdoctor.facts.reconciliation import reconcile
from oomdoctor.model.diagnosis import Comparison
from oomdoctor.model.events import EventKind, LogEvent
from oomdoctor.model.evidence import Evidence

PROFILE = event(
    EventKind.ENGINE_PROFILE,
    engine="vllm",
    weights_bytes=gib(14),
    activation_peak_bytes=gib(1),
    non_torch_bytes=gib(0.5),
    budget_bytes=gib(21),
)
POOL = event(EventKind.ENGINE_KV_AVAILABLE, engine="vllm", kv_bytes=gib(5))
FULL = oom(
    requested_bytes=gib(2),
    total_bytes=gib(24),
    free_bytes=gib(1),
    allocated_bytes=gib(21),
    reserved_bytes=gib(22),
    process_used_bytes=gib(23),
)


def pairs(*events: LogEvent) -> list[tuple[str, int, int]]:
    found: tuple[Comparison, ...] = reconcile(Evidence(events=events), facts_of(*events))
    return [(one.what, one.reckoned_bytes, one.seen_bytes) for one in found]


def test_each_part_is_beside_what_was_seen_of_it() -> None:
    assert pairs(PROFILE, POOL, FULL) == [
        ("one step", gib(1), gib(4)),
        ("all of the process", gib(21), gib(23)),
        ("outside torch", gib(0.5), gib(1)),
    ]


def test_one_side_alone_is_no_pair() -> None:
    assert pairs(PROFILE, POOL) == []
    assert pairs(FULL) == []


def test_graphs_by_the_estimate_and_by_what_they_took() -> None:
    estimate = event(EventKind.ENGINE_PROFILE, engine="vllm", graph_estimate_bytes=gib(2))
    taken = event(EventKind.ENGINE_PHASE, engine="vllm", phase="graph-capture", edge="end", took_bytes=gib(3))
    assert pairs(estimate, taken) == [("CUDA graphs", gib(2), gib(3))]
