"""GIVEN findings, incidents and facts WHEN the outcome is put into words THEN it says no more than is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oomdoctor.diagnose.verdict import decide, fingerprint, summarise
from oomdoctor.facts.device_budget import IDLE
from oomdoctor.facts.registry import REGISTRY
from oomdoctor.model.diagnosis import Budget, BudgetPart, Confidence, Finding, Incident, InputRecord, Verdict
from oomdoctor.model.facts import FactSet, Scope
from oomdoctor.model.source import Source

GIB = 1 << 30
READ = (InputRecord("crash.log", "log", "read"),)
REFUSED = (InputRecord("crash.log", "log", "refused", "no such file"),)
DEVICE = Incident(None, "cuda:0", "CUDA out of memory", "crash.log:3", 2 * GIB)
HOST = Incident(None, "host", "MemoryError in process 7", "probe/7.records:3")
SIGNAL = Incident(None, "the command", "ended by signal 11", "exit record", is_memory=False)
FINDING = Finding(
    "FRG001", "fragmentation", "fragmentation", "No block is large enough", Confidence.LIKELY, {"device": "cuda:0"}, "…"
)


def known(**values: Any) -> FactSet:
    facts = FactSet(REGISTRY)
    for name, value in values.items():
        dotted = name.replace("__", ".")
        member = "cuda:0" if REGISTRY[dotted].scope is Scope.DEVICE else None
        facts.put(dotted, value, Source("crash.log"), member)
    return facts


@pytest.mark.parametrize(
    ("findings", "incidents", "facts", "inputs", "expected"),
    [
        ([], [], {}, REFUSED, Verdict.UNDETERMINED),
        ([], [], {}, READ, Verdict.NO_FAILURE),
        ([], [], {"exit__status": 1}, READ, Verdict.UNDETERMINED),
        ([], [], {"exit__status": 0}, READ, Verdict.NO_FAILURE),
        ([], [], {"exit__recorded": False}, READ, Verdict.UNDETERMINED),
        ([], [DEVICE], {}, READ, Verdict.OUT_OF_MEMORY),
        ([FINDING], [DEVICE], {}, READ, Verdict.OUT_OF_MEMORY),
        ([replace(FINDING, family="not-oom")], [DEVICE], {}, READ, Verdict.NOT_OUT_OF_MEMORY),
        ([replace(FINDING, degraded=True)], [], {}, READ, Verdict.DEGRADED),
        (
            [replace(FINDING, family="not-oom", confidence=Confidence.POSSIBLE)],
            [DEVICE],
            {},
            READ,
            Verdict.OUT_OF_MEMORY,
        ),
        ([replace(FINDING, confidence=Confidence.POSSIBLE)], [], {}, READ, Verdict.UNDETERMINED),
        ([FINDING], [], {}, READ, Verdict.UNDETERMINED),
        ([], [SIGNAL], {"exit__signal": 11}, READ, Verdict.UNDETERMINED),
        ([], [SIGNAL, DEVICE], {"exit__signal": 6}, READ, Verdict.OUT_OF_MEMORY),
    ],
)
def test_the_verdict(findings: Any, incidents: Any, facts: Any, inputs: Any, expected: Verdict) -> None:
    assert decide(findings, incidents, known(**facts), inputs) is expected


def test_a_device_in_numbers() -> None:
    budgets = (Budget("cuda:0", 24 * GIB, (), 24 * GIB, 2 * GIB),)
    facts = known(oom__free_bytes=GIB)
    assert summarise(Verdict.OUT_OF_MEMORY, [FINDING], [DEVICE], budgets, facts) == (
        "CUDA out of memory on cuda:0: 2.00 GiB asked for, 1.00 GiB free, 24.00 GiB in all. "
        "The likely cause: no block is large enough (FRG001)."
    )


def test_what_is_not_known_is_not_said() -> None:
    bare = replace(DEVICE, requested_bytes=None)
    assert summarise(Verdict.OUT_OF_MEMORY, [], [bare], (), known()) == (
        "CUDA out of memory on cuda:0. "
        "No rule of the playbook matches, so the cause is unknown; see what evidence is missing."
    )


def test_the_sentence_begins_as_a_sentence_and_names_no_empty_place() -> None:
    step = Incident(None, "the program", "a memory limit was hit", "crash.log:3")
    assert summarise(Verdict.OUT_OF_MEMORY, [], [step], (), known()).startswith("A memory limit was hit. ")


@pytest.mark.parametrize(
    ("where", "cause", "sentence"),
    [
        ("cuda:1", "device out of memory", "Device out of memory on cuda:1. "),
        ("vllm", "nothing left for the KV pool", "Nothing left for the KV pool in vllm. "),
        ("host", "numpy.core.ArrayMemoryError in process 7", "numpy.core.ArrayMemoryError in process 7. "),
    ],
)
def test_places_and_names_stay_what_they_are(where: str, cause: str, sentence: str) -> None:
    incident = Incident(None, where, cause, "crash.log:3")
    assert summarise(Verdict.OUT_OF_MEMORY, [], [incident], (), known()).startswith(sentence)


def test_host_memory_that_grew_until_the_limit_of_the_process() -> None:
    facts = known(
        host__growth_steady=True,
        host__growth_bytes=GIB // 2,
        host__watched_seconds=3.0,
        host__bound_hit="the process's own limit of 1.00 GiB",
    )
    assert summarise(Verdict.OUT_OF_MEMORY, [], [HOST], (), facts).startswith(
        "MemoryError in process 7: host memory grew steadily by 512.00 MiB in 3.00 s "
        "until the process's own limit of 1.00 GiB stopped it."
    )


def test_without_a_limit_that_was_hit_the_machine_is_named() -> None:
    facts = known(host__cgroup_limit_bytes=GIB, host__total_bytes=4 * GIB)
    assert summarise(Verdict.OUT_OF_MEMORY, [], [HOST], (), facts).startswith(
        "MemoryError in process 7; the machine has 4.00 GiB."
    )


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"host__process_limit_bytes": GIB}, "the process has a limit of its own, 1.00 GiB."),
        ({"host__process_limit_bytes": GIB, "host__process_limit_reached": False}, "the machine has 4.00 GiB."),
        ({"host__process_limit_bytes": 8 * GIB}, "the machine has 4.00 GiB."),
    ],
)
def test_a_limit_that_one_large_request_may_have_met_is_named(facts, said):
    found = summarise(Verdict.OUT_OF_MEMORY, [], [HOST], (), known(host__total_bytes=4 * GIB, **facts))
    assert found.startswith(f"MemoryError in process 7; {said}")


def test_the_fingerprint_groups_the_same_failure_across_machines_and_edits() -> None:
    one = fingerprint([FINDING], [DEVICE], known(activity__frame="/home/a/train.py:12 in step"))
    same = fingerprint([FINDING], [], known(activity__frame="/srv/b/train.py:99 in step"))
    other_place = fingerprint([FINDING], [DEVICE], known(activity__frame="/home/a/train.py:12 in evaluate"))
    other_cause = fingerprint([replace(FINDING, cause="logits")], [DEVICE], known(activity__frame="train.py:1 in step"))
    assert one == same
    assert len({one, other_place, other_cause}) == 3
    assert one.startswith("1:")


@pytest.mark.parametrize(
    ("part", "size", "facts", "said"),
    [
        ("keys and values", 20, {}, "83 % of 24.00 GiB was keys and values; 2.00 GiB asked for."),
        (
            "keys and values", 20,
            {"growth__steady": True, "growth__bytes": 18 * GIB, "growth__seconds": 1800.0},
            "83 % of 24.00 GiB was keys and values, and live memory grew by 18.00 GiB in 30 min; 2.00 GiB asked for.",
        ),
        (
            "keys and values", 20, {"growth__steady": True, "growth__bytes": 18 * GIB},
            "83 % of 24.00 GiB was keys and values, and live memory grew by 18.00 GiB; 2.00 GiB asked for.",
        ),
        ("keys and values", 11, {}, "2.00 GiB asked for, 24.00 GiB in all."),
        (
            "held by variables and containers", 20,
            {"growth__steady": True, "growth__bytes": 18 * GIB, "growth__seconds": 1800.0},
            "83 % of 24.00 GiB was held by variables and containers, and live memory grew by 18.00 GiB in 30 min; "
            "2.00 GiB asked for.",
        ),
        ("held by variables and containers", 20, {}, "2.00 GiB asked for, 24.00 GiB in all."),
        ("free", 20, {}, "2.00 GiB asked for, 24.00 GiB in all."),
        ("live tensors of this process", 20, {}, "2.00 GiB asked for, 24.00 GiB in all."),
    ],
)  # fmt: skip
def test_the_first_sentence_says_what_most_of_the_card_was(
    part: str, size: int, facts: dict[str, Any], said: str
) -> None:
    budget = Budget("cuda:0", 24 * GIB, (BudgetPart(part, size * GIB, "measured"),), (24 - size) * GIB)
    told = summarise(Verdict.OUT_OF_MEMORY, [], [DEVICE], [budget], known(**facts))
    assert told.startswith(f"CUDA out of memory on cuda:0: {said} ")


def test_a_device_that_ran_out_is_the_subject() -> None:
    incident = replace(DEVICE, cause="CUDA out of memory in process 7")
    budget = Budget("cuda:0", 24 * GIB, (), 24 * GIB)
    told = summarise(Verdict.OUT_OF_MEMORY, [], [incident], [budget], known(oom__free_bytes=GIB))
    assert told.startswith("cuda:0 ran out of memory: 2.00 GiB asked for, 1.00 GiB free, 24.00 GiB in all. ")


@pytest.mark.parametrize(
    ("incident", "facts", "said"),
    [
        (
            Incident(None, "vllm", "nothing left for the KV pool", "a.log:1"),
            {"engine__name": "vllm", "engine__kv_available_bytes": -GIB},
            "Nothing left for the KV pool in vllm: weights and the rest alone take 1.00 GiB more than the engine may "
            "use.",
        ),
        (
            Incident(None, "the program", "a GPU kernel ran out of on-chip resources", "a.log:1", is_memory=False),
            {"lookalike__kernel_resource_required_bytes": 2048, "lookalike__kernel_resource_limit_bytes": 1024},
            "A GPU kernel ran out of on-chip resources: 2.00 KiB wanted, 1.00 KiB there.",
        ),
        (
            Incident(None, "the program", "a memory limit was hit", "a.log:1"),
            {"host__job_limit_bytes": GIB},
            "A memory limit was hit: the limit was 1.00 GiB.",
        ),
        (Incident(None, "the program", "a memory limit was hit", "a.log:1"), {}, "A memory limit was hit."),
    ],
)
def test_other_failures_say_their_numbers(incident: Incident, facts: dict[str, Any], said: str) -> None:
    assert summarise(Verdict.OUT_OF_MEMORY, [], [incident], [], known(**facts)).startswith(said + " ")


@pytest.mark.parametrize(
    ("facts", "more"), [({}, ""), ({"allocator__largest_free_block_bytes": GIB}, ", the largest of them 1.00 GiB")]
)
def test_where_memory_lay_in_pieces_the_first_sentence_says_how_much(facts: dict[str, Any], more: str) -> None:
    parts = (BudgetPart("live tensors of this process", 14 * GIB, "measured"), BudgetPart(IDLE, 9 * GIB, "computed"))
    budget, given = Budget("cuda:0", 24 * GIB, parts, GIB), known(oom__free_bytes=GIB, **facts)
    in_pieces = replace(FINDING, family="fragmentation")
    told = summarise(Verdict.OUT_OF_MEMORY, [in_pieces], [DEVICE], [budget], given)
    assert told.startswith(
        "CUDA out of memory on cuda:0: 2.00 GiB asked for, 1.00 GiB free, 9.00 GiB idle in blocks of the allocator"
        f" (38 % of 24.00 GiB){more}. "
    )
    other = replace(FINDING, family="capacity")
    assert "idle" not in summarise(Verdict.OUT_OF_MEMORY, [other], [DEVICE], [budget], given)
