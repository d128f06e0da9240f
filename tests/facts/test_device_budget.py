"""The budget of a device: every kind of part, from figures that are known to the byte, and from those that are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from given import HERE, event, facts_of, gib, mib, oom, run

from oomdoctor.facts import derive_facts
from oomdoctor.facts.budget import budgets
from oomdoctor.model.devices import DeviceProcess, DeviceReading
from oomdoctor.model.diagnosis import Budget
from oomdoctor.model.events import EventKind
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.run import (
    AllocatorState,
    Census,
    CensusDevice,
    CensusGroup,
    DeviceOomRecord,
    ExceptionRecord,
    ProcessRecord,
    RunRecord,
    VisibleDevice,
)
from oomdoctor.model.snapshot import Blocks, Frame, Segments, Snapshot

PID, CONTEXT, LIVE, RESERVED = 7, mib(420), gib(20), gib(21)
TOTAL = gib(24)
FREE = TOTAL - RESERVED - CONTEXT
STATE = AllocatorState(1050.0, 0, allocated_bytes=LIVE, reserved_bytes=RESERVED, active_bytes=LIVE, pid=PID)
RECORD = DeviceOomRecord(HERE, 1050.0, PID, 0, gib(4), TOTAL, FREE, STATE)
OWN = DeviceProcess(PID, RESERVED + CONTEXT, "python", "C", True)


def look(*processes: DeviceProcess, free: int = FREE, total: int = TOTAL, **fields: object) -> DeviceReading:
    known: dict[str, object] = {"time_seconds": 1050.01, "at_failure": True}
    return DeviceReading(
        0, HERE, total_bytes=total, used_bytes=total - free, free_bytes=free, processes=processes, **{**known, **fields}
    )  # type: ignore[arg-type]


def told(*readings: DeviceReading, record: DeviceOomRecord = RECORD, **fields: object) -> Evidence:
    return Evidence(runs=(run(**{"device_readings": readings, "device_ooms": (record,), **fields}),))


def budget_of(evidence: Evidence, where: str = "cuda:0") -> Budget:
    (budget,) = [one for one in budgets(evidence, derive_facts(evidence)) if one.where == where]
    assert sum(part.bytes for part in budget.parts) + budget.unattributed_bytes == budget.total_bytes
    return budget


UNCOUNTED = {
    "free": FREE,
    "live tensors of this process": LIVE,
    "idle in blocks of the allocator": RESERVED - LIVE,
    "context and libraries": CONTEXT,
}
"""The failed process alone on its card, without a census."""


def parts_of(budget: Budget) -> dict[str, int]:
    return {part.name: part.bytes for part in budget.parts}


def how(budget: Budget, name: str) -> str:
    return next(part.how_known for part in budget.parts if part.name == name)


def test_a_failure_without_a_census_says_so_and_closes() -> None:
    budget = budget_of(told(look(OWN)))
    assert parts_of(budget) == UNCOUNTED
    assert budget.unattributed_bytes == 0
    assert how(budget, "live tensors of this process") == "counted by the allocator; no census or snapshot says whose"


def test_what_the_driver_keeps_is_what_its_total_has_more() -> None:
    budget = budget_of(told(look(OWN, total=TOTAL + mib(300))))
    assert (budget.total_bytes, budget.unattributed_bytes) == (TOTAL + mib(300), 0)
    assert parts_of(budget)["the driver's reserve"] == mib(300)


@pytest.mark.parametrize("mig", [True, None])
def test_the_total_of_a_whole_card_is_not_that_of_its_slice(mig: bool | None) -> None:
    whole = look(total=gib(80), free=gib(50), mig_mode=mig)
    budget = budget_of(told(replace(whole, processes=None)))
    assert budget.total_bytes == TOTAL
    assert "the driver's reserve" not in parts_of(budget)
    assert budget.unattributed_bytes == 0
    assert how(budget, "context and libraries") == "computed: in use - reserved; other processes may be in it"


def test_where_processes_cannot_be_told_apart_nobody_is_told_to_hold_the_rest() -> None:
    state = replace(STATE, allocated_bytes=gib(9), active_bytes=gib(9), reserved_bytes=gib(10))
    budget = budget_of(told(look(DeviceProcess(4711, None, None, "C")), record=replace(RECORD, state=state)))
    left = TOTAL - FREE - gib(10)
    assert not {"context and libraries", "other processes"} & set(parts_of(budget))
    assert budget.unattributed_bytes == left


RANKS = tuple(ProcessRecord(pid, 1, (), 0.0, rank=pid - PID) for pid in range(PID, PID + 12))


def test_other_ranks_are_named_and_strangers_are_not_taken_for_them() -> None:
    state = replace(STATE, allocated_bytes=gib(1), active_bytes=gib(1), reserved_bytes=gib(1))
    ranks = [DeviceProcess(PID + n, gib(1) + n, "python", "C", True) for n in range(1, 11)]
    stranger = DeviceProcess(99, gib(3), "/usr/bin/Xorg", "C", False)
    own = replace(OWN, used_bytes=gib(1) + CONTEXT)
    free = TOTAL - sum(p.used_bytes or 0 for p in (own, stranger, *ranks))
    record = replace(RECORD, state=state, device_free_bytes=free, rank=0)
    budget = budget_of(told(look(own, stranger, *ranks, free=free), record=record, processes=RANKS))
    parts = parts_of(budget)
    assert budget.unattributed_bytes == 0
    assert parts["other process of this command: rank 10 (pid 17)"] == gib(1) + 10
    assert parts["other processes of this command: 2 smaller ones"] == 2 * gib(1) + 3
    assert parts["other processes"] == gib(3)
    assert how(budget, "other processes") == "measured by NVML; Xorg (pid 99)"


def test_who_gave_memory_back_before_the_look_is_shown_as_it_was_at_the_failure() -> None:
    state = replace(STATE, allocated_bytes=gib(4), active_bytes=gib(4), reserved_bytes=gib(4))
    own, stranger = replace(OWN, used_bytes=gib(4) + CONTEXT), DeviceProcess(9, mib(420), "python", "C", False)
    later = look(own, stranger, free=TOTAL - gib(4) - 2 * CONTEXT)
    budget = budget_of(told(later, record=replace(RECORD, state=state)))
    assert parts_of(budget)["free"] == FREE
    assert parts_of(budget)["other processes"] == TOTAL - FREE - gib(4) - CONTEXT
    assert "a moment later NVML read 420" in how(budget, "other processes")
    assert budget.unattributed_bytes == 0


def test_a_cap_divides_what_is_free() -> None:
    cap = gib(21) + mib(40)
    size = (ProcessRecord(PID, 1, (), 0.0, devices=(VisibleDevice(0, None, TOTAL),)),)
    budget = budget_of(told(look(OWN), record=replace(RECORD, device_total_bytes=cap), processes=size))
    assert budget.total_bytes == TOTAL
    assert parts_of(budget)["free"] == mib(40)
    assert parts_of(budget)["free beyond the cap of the process"] == FREE - mib(40)
    assert budget.unattributed_bytes == 0


def test_a_message_counts_what_is_free_in_the_pools_of_graphs_as_allocated() -> None:
    message = oom(
        requested_bytes=mib(156), total_bytes=TOTAL, free_bytes=mib(34), process_used_bytes=TOTAL - mib(34),
        allocated_bytes=gib(23.5), private_pool_bytes=gib(12.5), reserved_unallocated_bytes=mib(28),
    )  # fmt: skip
    facts = facts_of(message)
    assert facts.value("oom.allocated_bytes", "cuda:0") == gib(11)
    assert facts.value("oom.reserved_bytes", "cuda:0") == gib(23.5) + mib(28)
    budget = budget_of(Evidence(events=(message,)))
    assert parts_of(budget)["live tensors of this process"] == gib(11)
    assert parts_of(budget)["idle in graph pools"] == gib(12.5)
    assert parts_of(budget)["idle in blocks of the allocator"] == mib(28)
    assert budget.unattributed_bytes == 0


GROUPS = (
    CensusGroup(0, "parameters", "Net 'net' local to train()", gib(6), 80),
    CensusGroup(0, "other", "list 'kept' local to train()", gib(4), 80),
    CensusGroup(0, "other", "tensors that no variable leads to", gib(2), 4),
)


def test_without_a_snapshot_tensors_are_counted_by_their_sizes() -> None:
    census = Census(HERE, (CensusDevice(0, None, gib(12)),), GROUPS)
    budget = budget_of(told(look(OWN), record=replace(RECORD, census=census)))
    assert parts_of(budget)["held by variables and containers"] == gib(4)
    assert parts_of(budget)["tensors that no variable leads to"] == gib(2)
    assert parts_of(budget)["no Python object leads to them"] == LIVE - gib(12)
    assert how(budget, "weights and buffers") == "counted by the probe, by the sizes of tensors"
    assert budget.unattributed_bytes == 0


def blocks_in_use(*rows: tuple[int, int, bool]) -> Snapshot:
    """A snapshot of blocks in use: requested bytes, stack (-1: none), in a private pool. One segment each."""
    count = len(rows)
    size = np.array([row[0] for row in rows])
    address = np.arange(1, count + 1, dtype=np.uint64) << np.uint64(32)
    zeros, none = np.zeros(count, dtype=np.int64), np.full(count, -1)
    segments = Segments(
        zeros, address, size, zeros.astype(np.uint64), zeros.astype(bool), zeros.astype(bool),
        np.array([row[2] for row in rows]), none, zeros,
    )  # fmt: skip
    blocks = Blocks(np.arange(count), address, size, size, zeros + 1, np.array([row[1] for row in rows]))
    backward = (Frame("backward", "/lib/torch/autograd/graph.py", 1), Frame("main", "train.py", 9))
    return Snapshot("snapshots/7-1.pickle", "native", "cuda", segments, blocks, (), (backward,), (), {})


def test_what_no_python_object_leads_to_is_named_by_size_pool_and_stack_apart_from_what_was_counted() -> None:
    rows = ((8519680, 0, True), (gib(3), 0, False), (gib(1), 0, True), (gib(4) - 8519680, -1, False))
    snapshot = blocks_in_use(*rows)
    unheld = CensusDevice(0, LIVE, gib(12), gib(8), 4, tuple(snapshot.blocks.address.tolist()))
    groups = (*GROUPS, CensusGroup(0, "gradients", "gradients of Net 'net'", mib(1), 1))
    census = Census(HERE, (unheld,), groups)
    given = told(look(OWN), record=replace(RECORD, census=census, snapshot_path="snapshots/7-1.pickle"))
    budget = budget_of(replace(given, snapshots=(snapshot,)))
    parts = parts_of(budget)
    assert parts["gradients"] == mib(1)
    assert how(budget, "gradients") == "counted by the probe"
    assert parts["gradients in flight"] == gib(3)
    assert how(budget, "gradients in flight") == "stack of the allocation; no Python object leads to it"
    assert parts["workspaces of cuBLAS"] == 8519680
    assert parts["in graph pools, no Python object leads to them"] == gib(1)
    assert parts["no Python object leads to them"] == gib(4) - 8519680


def test_without_a_census_the_stacks_share_it_out_and_say_what_they_do_not_tell() -> None:
    snapshot = blocks_in_use((gib(3), 0, False), (gib(3), -1, False))
    record = replace(RECORD, snapshot_path="snapshots/7-1.pickle")
    budget = budget_of(replace(told(look(OWN), record=record), snapshots=(snapshot,)))
    parts = parts_of(budget)
    assert (parts["gradients"], how(budget, "gradients")) == (gib(3), "by the stacks of the snapshot")
    assert parts["live tensors whose stack was not recorded"] == gib(3)
    assert parts["live tensors of no known kind"] == LIVE - gib(6)


def test_of_two_processes_that_fail_together_the_figures_are_one_s() -> None:
    other = replace(
        RECORD, pid=8, time_seconds=1050.2, requested_bytes=gib(3), device_free_bytes=mib(7),
        state=replace(STATE, allocated_bytes=gib(2), reserved_bytes=gib(2), active_bytes=gib(2), pid=8),
    )  # fmt: skip
    census = Census(HERE, (CensusDevice(0, LIVE, LIVE, 0, 0),), (replace(GROUPS[0], bytes=LIVE),))
    evidence = told(look(OWN), device_ooms=(replace(RECORD, census=census), other))
    facts = derive_facts(evidence)
    assert facts.value("oom.requested_bytes", "cuda:0") == gib(4)
    assert facts.value("oom.reserved_bytes", "cuda:0") == RESERVED
    assert budget_of(evidence).unattributed_bytes == 0


def test_a_later_failure_without_a_look_takes_the_context_from_an_earlier_one() -> None:
    later = replace(
        RECORD, time_seconds=1053.0, count=2, device_free_bytes=FREE - gib(1),
        state=replace(STATE, reserved_bytes=RESERVED + gib(1)),
    )  # fmt: skip
    budget = budget_of(told(look(OWN), device_ooms=(RECORD, later)))
    assert parts_of(budget)["context and libraries"] == CONTEXT
    assert budget.unattributed_bytes == 0


def test_a_message_of_another_failure_lends_nothing_to_a_recorded_one() -> None:
    message = oom(requested_bytes=gib(9), allocated_bytes=gib(3), private_pool_bytes=gib(1))
    facts = derive_facts(replace(told(look(OWN)), events=(message,)))
    assert facts.value("oom.private_pool_bytes", "cuda:0") is None
    assert facts.value("oom.requested_bytes", "cuda:0") == gib(4)


ERROR = ExceptionRecord(HERE, 1050.0, PID, "RuntimeError", "CUBLAS_STATUS_ALLOC_FAILED", (), is_library_oom=True)


def failed_in_a_library(*readings: DeviceReading, **fields: object) -> RunRecord:
    return run(device_readings=readings, exceptions=(ERROR,), ended_seconds=1051.0, **fields)


def test_a_card_on_which_a_library_failed_is_shown_as_it_was_then() -> None:
    state = replace(STATE, time_seconds=1050.02)
    after = look(free=TOTAL, time_seconds=1051.1, at_failure=False)
    record = failed_in_a_library(look(OWN, time_seconds=1050.01), after, allocator_states=(state,))
    evidence = Evidence(runs=(record,), events=(event(EventKind.ACCELERATOR_ERROR, library="cublas", masks_oom=True),))
    budget = budget_of(evidence)
    assert parts_of(budget) == UNCOUNTED
    assert budget.unattributed_bytes == 0


def test_what_a_card_held_after_the_end_is_not_shown_as_what_it_held() -> None:
    after = look(free=TOTAL, time_seconds=1051.1, at_failure=False)
    budget = budget_of(Evidence(runs=(failed_in_a_library(after),)))
    assert budget.parts == ()
    assert budget.unattributed_bytes == TOTAL
