"""Budgets add up exactly, whatever the figures; incidents and curves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from given import event, facts_of, gib, mib, oom, rising, run
from hypothesis import given
from hypothesis import strategies as st

from oomdoctor.facts import derive_facts
from oomdoctor.facts.budget import ENGINE_SHARE_AT_LEAST, budgets
from oomdoctor.facts.closing import close
from oomdoctor.facts.holdings import holdings
from oomdoctor.facts.incidents import find_incidents
from oomdoctor.facts.series import all_series
from oomdoctor.model.diagnosis import Budget
from oomdoctor.model.events import EventKind
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.host import HostLimits
from oomdoctor.model.run import DeviceOomRecord, ExceptionRecord, LargeObject
from oomdoctor.model.source import Source

size = st.none() | st.integers(-(1 << 40), 1 << 42)


def closes(budget: Budget) -> bool:
    parts = sum(part.bytes for part in budget.parts)
    return parts + budget.unattributed_bytes == budget.total_bytes and budget.unattributed_bytes >= 0


@given(total=st.integers(0, 1 << 42), sizes=st.lists(size, max_size=8))
def test_any_parts_close(total: int, sizes: list[int | None]):
    budget = close("cuda:0", total, [(f"part {i}", value, "assumed") for i, value in enumerate(sizes)])
    assert closes(budget)
    assert all(part.bytes > 0 for part in budget.parts)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            f"{name}_bytes": st.integers(0, 1 << 42)
            for name in (
                "requested",
                "total",
                "free",
                "allocated",
                "reserved",
                "active",
                "reserved_unallocated",
                "private_pool",
                "process_used",
            )
        },
    )
)
def test_any_message_closes(fields: dict[str, int]):
    events = (oom(**fields),)
    for budget in budgets(Evidence(events=events), facts_of(*events)):
        assert closes(budget)


def test_a_device_s_parts():
    facts = facts_of(
        oom(
            requested_bytes=gib(1),
            total_bytes=gib(24),
            free_bytes=mib(500),
            process_used_bytes=gib(4),
            other_processes=((9, gib(19)),),
            allocated_bytes=gib(2.5),
            reserved_unallocated_bytes=gib(1),
        )
    )
    (budget,) = budgets(Evidence(), facts)
    assert {part.name: part.bytes for part in budget.parts} == {
        "free": mib(500),
        "live tensors of this process": gib(2.5),
        "idle in blocks of the allocator": gib(1),
        "context and libraries": gib(0.5),
        "other processes": gib(19),
    }
    assert budget.unattributed_bytes == gib(24) - mib(500) - gib(23)
    assert budget.request_bytes == gib(1)


def test_the_process_limit_names_the_largest_holder():
    held = LargeObject("list", "local 'kept' in main()", "leak.py", 9, "main", 1, mib(1300), 150)
    error = ExceptionRecord(Source(path="incident"), 1010.0, 7, "MemoryError", "", (), True, large_objects=(held,))
    error = replace(error, vm_size_bytes=mib(1470), address_space_limit_bytes=mib(1500))
    samples = rising(mib(20), mib(75), 20, available_bytes=gib(20), total_bytes=gib(32))
    record = run(samples, exceptions=(error,), limits=HostLimits(address_space_limit_bytes=mib(1500)))
    evidence = Evidence(runs=(record,))
    facts = derive_facts(evidence)
    by_place = {budget.where: budget for budget in budgets(evidence, facts)}
    limit = by_place["process limit"]
    assert [(part.name, part.bytes) for part in limit.parts] == [
        ("list local 'kept' in main(), in leak.py", mib(1300)),
        ("the rest of the process", mib(170)),
        ("below the limit", mib(30)),
    ]
    assert all(closes(budget) for budget in by_place.values())
    assert holdings(evidence, facts)[0].bytes == mib(1300)
    curve = next(series for series in all_series(evidence) if series.where == "largest process")
    assert curve.limit_bytes == mib(1500)
    assert curve.how_sampled == "every 0.50 s by the sampler"


def test_a_plan_shows_its_real_figures_and_by_how_much_they_overdraw_it():
    weights, buffers, share = 4958 * 10**6, 609 * 10**6, 4762 * 10**6
    failed = event(
        EventKind.ENGINE_MEMORY_TABLE, engine="mlc", model_bytes=weights, temporary_bytes=buffers, available_bytes=share
    )
    (budget,) = budgets(Evidence(events=(failed,)), facts_of(failed))
    assert [(part.name, part.bytes) for part in budget.parts] == [("weights", weights), ("working buffers", buffers)]
    assert budget.unattributed_bytes == share - weights - buffers < 0


def test_what_subtraction_leaves_is_no_other_process():
    figures = {"total_bytes": gib(24), "free_bytes": mib(500), "allocated_bytes": gib(10), "reserved_bytes": gib(11)}
    (listed,) = budgets(Evidence(), facts_of(oom(**figures, other_processes=((9, gib(5)),))))
    (own_told,) = budgets(Evidence(), facts_of(oom(**figures, process_used_bytes=gib(12))))
    (nothing_told,) = budgets(Evidence(), facts_of(oom(**figures)))
    assert {part.name: part.how_known for part in listed.parts}["other processes"] == "measured"
    in_use = gib(24) - mib(500)
    for budget, unattributed in ((own_told, in_use - gib(12)), (nothing_told, in_use - gib(11))):
        assert "other processes" not in {part.name for part in budget.parts}
        assert budget.unattributed_bytes == unattributed


def test_what_a_context_may_take_is_the_processs_own_unless_told_otherwise():
    figures = {"total_bytes": gib(24), "free_bytes": gib(12), "allocated_bytes": gib(10), "reserved_bytes": gib(11)}
    (budget,) = budgets(Evidence(), facts_of(oom(**figures)))
    parts = {part.name: (part.bytes, part.how_known) for part in budget.parts}
    how = "computed: in use - reserved; other processes may be in it"
    assert parts["context and libraries"] == (gib(1), how)
    assert budget.unattributed_bytes == 0


def test_a_sampled_size_is_not_set_beside_what_was_held_later():
    held = LargeObject("list", "local 'kept' in main()", "leak.py", 9, "main", 1, mib(1300), 150)
    error = ExceptionRecord(Source(path="incident"), 1010.0, 7, "MemoryError", "", (), True, large_objects=(held,))
    record = run(rising(mib(20), mib(75), 14), exceptions=(error,), limits=HostLimits(data_limit_bytes=mib(1500)))
    evidence = Evidence(runs=(record,))
    (limit,) = budgets(evidence, derive_facts(evidence))
    assert [(part.name, part.bytes) for part in limit.parts] == [
        ("the largest process at the last sample", mib(995)),
        ("below the limit at the last sample", mib(505)),
    ]


def test_the_part_that_does_not_fit_is_left_out_not_cut():
    budget = close("cuda:0", gib(10), [("live", gib(8), "printed"), ("other", gib(3), "computed")])
    assert [part.name for part in budget.parts] == ["live"]
    assert budget.unattributed_bytes == gib(2)


def test_what_is_unknown_makes_no_budget():
    evidence = Evidence(events=(event(EventKind.DEVICE_OOM, generation="bare"),), runs=(run(),))
    assert budgets(evidence, derive_facts(evidence)) == ()
    assert all_series(evidence) == ()


def test_incidents_are_latest_first_and_told_once():
    record = DeviceOomRecord(
        Source(path="incident", record="device-oom"), 1090.0, 7, 0, gib(2) + 4096, gib(24), 0, None
    )
    evidence = Evidence(
        events=(oom(requested_bytes=gib(2)), event(EventKind.SHM_EXHAUSTED)),
        runs=(run(device_ooms=(record,), exit_status=None, signal=9),),
    )
    found = find_incidents(evidence)
    assert [incident.cause for incident in found] == [
        "ended by signal 9",
        "CUDA out of memory in process 7",
        "shared memory ran out",
    ]
    assert found[1].requested_bytes == gib(2) + 4096


def test_an_input_without_a_failure_has_no_incident():
    assert find_incidents(Evidence(events=(event(EventKind.ENGINE_LOAD, kv_usage=0.5),))) == ()


def test_an_engine_whose_share_is_not_printed_has_the_least_that_it_can_be() -> None:
    """What is left is the share less all else: so 64 GiB are the least, and weights alone take 2 GiB more."""
    told = (
        event(EventKind.ENGINE_WEIGHTS, engine="vllm", weights_bytes=gib(66)),
        event(EventKind.ENGINE_KV_AVAILABLE, engine="vllm", kv_bytes=-gib(2)),
    )
    (budget,) = budgets(Evidence(events=told), facts_of(*told))
    assert (budget.where, budget.total_bytes, budget.unattributed_bytes) == (ENGINE_SHARE_AT_LEAST, gib(64), -gib(2))
    assert [(part.name, part.bytes) for part in budget.parts] == [("weights", gib(66))]
    assert budgets(Evidence(events=told[1:]), facts_of(*told[1:])) == ()


@pytest.mark.parametrize("limit", [None, mib(1500)])
def test_the_course_of_a_process_is_not_named_after_a_limit_that_may_not_be_there(limit):
    record = run(rising(mib(20), mib(75), 20), limits=HostLimits(address_space_limit_bytes=limit))
    courses = {series.where: series.limit_bytes for series in all_series(Evidence(runs=(record,)))}
    assert courses["largest process"] == limit
    assert "process limit" not in courses
