"""GIVEN a census of device memory WHEN facts are derived THEN holders are named and the parts add up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from given import HERE, gib, mib, oom, run

from oomdoctor.facts import census, derive_facts, request
from oomdoctor.facts.budget import budgets
from oomdoctor.facts.holdings import holdings
from oomdoctor.facts.incidents import find_incidents
from oomdoctor.facts.registry import REGISTRY
from oomdoctor.model.devices import DeviceProcess, DeviceReading
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.facts import FactSet
from oomdoctor.model.run import AllocatorState, Census, CensusDevice, CensusGroup, DeviceOomRecord, StackFrame

LOSSES = CensusGroup(0, "saved-for-backward", "list 'losses' local to train()", gib(15), 300, "/srv/train.py", 15,
                     "train", 41, True, saved_bytes=gib(15))  # fmt: skip
GROUPS = (
    LOSSES,
    replace(LOSSES, category="other", bytes=512 * 41, count=41, saved_bytes=0),
    CensusGroup(0, "parameters", "Net 'net' local to train()", gib(2), 80, parts=(("layers[*]", gib(2)),)),
    CensusGroup(0, "buffers", "Net 'net' local to train()", mib(100), 4),
    CensusGroup(0, "gradients", "gradients of Net 'net' local to train()", gib(2), 80),
    CensusGroup(0, "optimizer", "AdamW 'opt' local to train(): exp_avg", gib(2), 80),
    CensusGroup(0, "activations", "'x' local to forward()", gib(1), 1, "/srv/net.py", 7, "forward"),
)
HELD = sum(group.bytes for group in GROUPS)
DEVICE = CensusDevice(0, HELD + mib(8), HELD, mib(8), 1)


def evidence(census: Census | None) -> Evidence:
    state = AllocatorState(1050.0, 0, allocated_bytes=HELD + mib(8), reserved_bytes=HELD + mib(20))
    record = DeviceOomRecord(HERE, 1050.0, 7, 0, gib(1), gib(24), mib(300), state, census=census)
    return Evidence(runs=(run(device_ooms=(record,)),))


WHOLE = Census(HERE, (DEVICE,), GROUPS)


def test_categories_are_measured_and_the_holder_is_named() -> None:
    facts = derive_facts(evidence(WHOLE))

    def value(name: str) -> object:
        return facts.value(name, "cuda:0")

    assert value("owner.weights_bytes") == gib(2) + mib(100)
    assert value("owner.gradients_bytes") == gib(2)
    assert value("owner.optimizer_bytes") == gib(2)
    assert value("owner.kv_bytes") == 0
    assert value("owner.activations_bytes") == gib(16)
    assert value("owner.saved_for_backward_bytes") == gib(15)
    assert value("owner.unheld_bytes") == mib(8)
    assert value("owner.holder") == "list 'losses' local to train() (41 elements), grown at train.py:15"
    assert value("owner.holder_bytes") == gib(15) + 512 * 41
    assert (value("owner.holder_length"), value("owner.holder_is_container")) == (41, True)
    assert value("growth.holder") == (
        "list 'losses' local to train() (41 elements), grown at train.py:15, keeps the graphs of its elements: "
        "15.00 GiB saved for backward"
    )


def beside_a_library(*devices: CensusDevice, groups: tuple[CensusGroup, ...] = GROUPS) -> Evidence:
    record = DeviceOomRecord(HERE, 1050.0, 7, None, None, None, None, None, census=Census(HERE, devices, groups))
    process = DeviceProcess(7, HELD + mib(448), "python", own=True)
    reading = DeviceReading(0, HERE, time_seconds=1050.1, total_bytes=gib(24), free_bytes=gib(24) - HELD - mib(448),
                            processes=(process,), at_failure=True)  # fmt: skip
    state = AllocatorState(1050.05, 0, allocated_bytes=HELD + mib(8), reserved_bytes=HELD + mib(28), pid=7)
    return Evidence(runs=(run(library_ooms=(record,), device_readings=(reading,), allocator_states=(state,)),))


def test_beside_a_library_that_failed_the_holders_are_named_and_no_allocator_has_failed() -> None:
    given = beside_a_library(DEVICE)
    facts = derive_facts(given)
    assert facts.value("oom.failed", "cuda:0") is None
    assert facts.value("owner.weights_bytes", "cuda:0") == gib(2) + mib(100)
    assert str(facts.value("oom.library_beside")).startswith("activations saved for backward by list 'losses' local")
    assert facts.value("oom.library_beside_bytes") == gib(15) + 512 * 41
    (budget,) = [one for one in budgets(given, facts) if one.where == "cuda:0"]
    parts = {part.name: part.bytes for part in budget.parts}
    assert (parts["activations saved for backward"], parts["context and libraries"]) == (gib(15), mib(420))
    assert budget.unattributed_bytes == 0
    rows = [row for row in holdings(given, facts) if row.where == "cuda:0"]
    assert sum(row.bytes for row in rows) == DEVICE.allocated_bytes
    (incident,) = find_incidents(given)
    assert (incident.where, incident.is_memory) == ("the program", False)


def test_of_several_devices_the_largest_holder_counts_beside_a_library() -> None:
    small = replace(LOSSES, device=1, owner="'seen' global in train.py", bytes=gib(1), saved_bytes=0, category="other")
    facts = derive_facts(beside_a_library(CensusDevice(1, gib(1), gib(1), 0, 0), DEVICE, groups=(small, *GROUPS)))
    assert facts.value("oom.library_beside_bytes") == gib(15) + 512 * 41


def test_holdings_and_budget_add_up() -> None:
    given = evidence(WHOLE)
    facts = derive_facts(given)
    rows = [row for row in holdings(given, facts) if row.where == "cuda:0"]
    assert sum(row.bytes for row in rows) == DEVICE.allocated_bytes
    assert rows[0].owner == (
        "activations saved for backward by list 'losses' local to train() (41 elements), grown at train.py:15"
    )
    assert rows[-1].owner == "list 'losses' local to train() (41 elements), grown at train.py:15"
    (budget,) = [one for one in budgets(given, facts) if one.where == "cuda:0"]
    assert sum(part.bytes for part in budget.parts) + budget.unattributed_bytes == budget.total_bytes
    parts = {part.name: part.bytes for part in budget.parts}
    assert parts["activations saved for backward"] == gib(15)
    assert parts["activations of running forward passes"] == gib(1)
    assert parts["held by variables and containers"] == 512 * 41
    assert parts["no Python object leads to them"] == mib(8)


def test_a_census_cut_short_does_not_call_a_category_empty() -> None:
    facts = derive_facts(evidence(replace(WHOLE, complete=False, stopped="the walk")))
    assert facts.value("owner.kv_bytes", "cuda:0") is None
    assert facts.value("owner.weights_bytes", "cuda:0") == gib(2) + mib(100)


def test_without_a_census_nothing_is_said() -> None:
    facts = derive_facts(evidence(None))
    assert facts.value("owner.holder", "cuda:0") is None
    assert facts.value("growth.holder", "cuda:0") is None


def test_model_and_optimizer_are_named_without_slots() -> None:
    facts = derive_facts(evidence(WHOLE))
    assert facts.value("owner.model", "cuda:0") == "Net 'net' local to train()"
    assert facts.value("owner.optimizer", "cuda:0") == "AdamW 'opt' local to train()"


@pytest.mark.parametrize(
    ("slots", "needed"),
    [
        ((), gib(4)),
        (((gib(2), 80), (gib(2), 80)), gib(4)),
        (((gib(1.5), 60), (gib(1), 40)), gib(4)),
        (((gib(1), 20), (gib(1), 20), (gib(1), 20)), gib(12)),
    ],
    ids=["none yet", "all", "half way", "a master copy as well"],
)
def test_each_slot_of_the_state_is_carried_on_to_all_parameters(
    slots: tuple[tuple[int, int], ...], needed: int
) -> None:
    others = tuple(group for group in GROUPS if group.category != "optimizer")
    made = tuple(CensusGroup(0, "optimizer", f"AdamW 'opt': {n}", size, count) for n, (size, count) in enumerate(slots))
    facts = derive_facts(evidence(replace(WHOLE, groups=others + made)))
    assert facts.value("owner.optimizer_needed_bytes", "cuda:0") == needed


def test_without_gradients_nobody_knows_how_much_state_there_will_be() -> None:
    others = tuple(group for group in GROUPS if group.category != "gradients")
    facts = derive_facts(evidence(replace(WHOLE, groups=others)))
    assert facts.value("owner.optimizer_needed_bytes", "cuda:0") is None


def test_copies_of_a_model_in_a_list_keep_what_grew() -> None:
    copies = CensusGroup(0, "parameters", "modules in list 'snapshots' local to train()", gib(10), 800)
    facts = FactSet(REGISTRY)
    census.derive(evidence(replace(WHOLE, groups=(copies, *GROUPS[2:]))), facts)
    facts.put("growth.steady", True, HERE, "cuda:0")
    facts.put("growth.bytes", gib(9), HERE, "cuda:0")
    census.derive_holder(Evidence(), facts)
    assert facts.value("growth.holder", "cuda:0") == ("modules in list 'snapshots' local to train(), holds 12.10 GiB")
    assert facts.value("growth.kept_bytes", "cuda:0") == facts.value("owner.weights_bytes", "cuda:0")


def test_what_is_kept_is_all_that_the_holder_holds() -> None:
    facts = derive_facts(evidence(WHOLE))
    assert facts.value("growth.kept_bytes", "cuda:0") == gib(15) + 512 * 41


@pytest.mark.parametrize(
    ("code", "size"),
    [("return self.up(x)", gib(1)), ("optimizer.step()", 0), ("loss.backward()", 0)],
)
def test_the_request_grows_with_the_batch_unless_it_is_for_parameters(code: str, size: int) -> None:
    given = evidence(WHOLE)
    (record,) = given.runs[0].device_ooms
    frames = (StackFrame("net.py", 7, "forward", code),)
    told = replace(given, runs=(replace(given.runs[0], device_ooms=(replace(record, frames=frames),)),))
    facts = derive_facts(told)
    assert facts.value("owner.step_bytes", "cuda:0") == gib(16)
    assert facts.value("oom.of_step_bytes", "cuda:0") == size


def test_what_the_process_says_of_itself_is_believed_before_its_frames() -> None:
    given = evidence(replace(WHOLE, training=False))
    (record,) = given.runs[0].device_ooms
    frames = (StackFrame("eval.py", 9, "no_grad_wrapper", "with torch.no_grad():"),)
    told = replace(record, frames=frames, autograd_on=True)
    facts = derive_facts(replace(given, runs=(replace(given.runs[0], device_ooms=(told,)),)))
    assert facts.value("activity.autograd_on") is True
    assert facts.value("activity.models_training") is False


def test_an_error_without_a_request_gets_its_device_from_the_message_and_closes_the_budget() -> None:
    census = replace(WHOLE, joined=False, devices=(CensusDevice(0, None, HELD),))
    state = AllocatorState(1050.0, 0, allocated_bytes=HELD + mib(8), reserved_bytes=HELD + mib(8))
    record = DeviceOomRecord(HERE, 1050.0, 7, None, None, None, None, state, census=census)
    message = oom(requested_bytes=gib(1), total_bytes=gib(24), free_bytes=mib(300))
    given = Evidence(runs=(run(device_ooms=(record,)),), events=(message,))
    facts = derive_facts(given)
    assert facts.value("oom.requested_bytes", "cuda:0") == gib(1)
    assert facts.value("oom.allocated_bytes", "cuda:0") == HELD + mib(8)
    assert facts.value("owner.unheld_bytes", "cuda:0") is None
    assert facts.value("owner.holder_bytes", "cuda:0") == gib(15) + 512 * 41
    (budget,) = [one for one in budgets(given, facts) if one.where == "cuda:0"]
    assert sum(part.bytes for part in budget.parts) + budget.unattributed_bytes == budget.total_bytes
    assert len(find_incidents(given)) == 1


def test_an_error_without_a_request_and_without_a_message_still_names_holders() -> None:
    census = replace(WHOLE, joined=False, devices=(CensusDevice(0, None, HELD),))
    record = DeviceOomRecord(HERE, 1050.0, 7, None, None, None, None, None, census=census)
    given = Evidence(runs=(run(device_ooms=(record,)),))
    facts = derive_facts(given)
    assert facts.value("owner.holder_bytes", "cuda:0") == gib(15) + 512 * 41
    assert facts.value("oom.requested_bytes", "cuda:0") is None
    assert [incident.requested_bytes for incident in find_incidents(given)] == [None]


def test_a_collection_that_an_earlier_failure_saw_says_how_it_grew() -> None:
    grown = replace(LOSSES, earlier_length=12, earlier_seconds=30.2)
    still = replace(LOSSES, owner="list 'same' global in train.py", earlier_length=41, earlier_seconds=30.2)
    given = evidence(replace(WHOLE, groups=(grown, still, *GROUPS[2:])))
    owners = {row.owner for row in holdings(given, derive_facts(given))}
    assert (
        "activations saved for backward by list 'losses' local to train() (grew from 12 to 41 elements in 30 s), "
        "grown at train.py:15"
    ) in owners
    assert any("list 'same' global in train.py (41 elements)" in owner for owner in owners)


@pytest.mark.parametrize(("alike", "size"), [(gib(17), gib(1)), (gib(3), 0)])
def test_a_gradient_grows_with_the_batch_where_activations_are_as_large(alike: int, size: int) -> None:
    facts = FactSet(REGISTRY)
    for name, value in (
        ("oom.failed", True),
        ("oom.requested_bytes", gib(1)),
        ("oom.allocated_bytes", gib(20)),
        ("oom.alike_bytes", alike),
        ("owner.activations_bytes", gib(14)),
        ("owner.weights_bytes", gib(2)),
    ):
        facts.put(name, value, HERE, "cuda:0")
    facts.put("activity.operation", "gradient", HERE)
    request.derive_wanted(Evidence(), facts)
    assert facts.value("oom.of_step_bytes", "cuda:0") == size


def test_a_process_is_no_row_beside_what_the_census_divides_it_into() -> None:
    given = evidence(WHOLE)
    (record,) = given.runs[0].device_ooms
    processes = (
        DeviceProcess(record.pid, gib(22), "python", own=True),
        DeviceProcess(99, gib(1), "other", own=False),
    )
    reading = DeviceReading(0, HERE, time_seconds=1050.0, total_bytes=gib(24), used_bytes=gib(23), processes=processes)
    told = replace(given, runs=(replace(given.runs[0], device_readings=(reading,)),))
    names = [row.owner for row in holdings(told, derive_facts(told)) if row.where == "cuda:0"]
    assert "process 99 (other)" in names
    assert f"process {record.pid} (python)" not in names


def test_a_census_that_was_cut_short_before_the_graphs_does_not_say_that_nothing_is_saved() -> None:
    others = tuple(group for group in GROUPS if not group.saved_bytes)
    for complete, saved in ((True, 0), (False, None)):
        facts = derive_facts(evidence(replace(WHOLE, groups=others, complete=complete, stopped="the graphs")))
        assert facts.value("owner.saved_for_backward_bytes", "cuda:0") == saved


def test_what_errors_left_behind_is_counted_together() -> None:
    left = CensusGroup(0, "other", "'hidden' local to forward(), kept by the traceback of 'last_error'", gib(3), 1,
                       by_error=True)  # fmt: skip
    model = CensusGroup(0, "parameters", "modules in 'self' local to call(), kept by it", gib(2), 9, by_error=True)
    groups = (*GROUPS, left, replace(left, owner="'x' local to forward(), kept by it", bytes=gib(1)), model)
    facts = derive_facts(evidence(replace(WHOLE, groups=groups)))
    assert facts.value("owner.by_errors_bytes", "cuda:0") == gib(4)
    assert facts.value("owner.by_errors", "cuda:0") == left.owner
    assert derive_facts(evidence(WHOLE)).value("owner.by_errors_bytes", "cuda:0") == 0
    cut_short = replace(WHOLE, complete=False, stopped="for want of time")
    assert derive_facts(evidence(cut_short)).value("owner.by_errors_bytes", "cuda:0") is None


@pytest.mark.parametrize("by_name", [True, False])
def test_a_dictionary_of_names_is_known_as_such(by_name: bool) -> None:
    params = CensusGroup(0, "other", "dict 'params' local to init_params()", gib(20), 139, length=139, by_name=by_name)
    facts = derive_facts(evidence(replace(WHOLE, groups=(*GROUPS, params))))
    assert facts.value("owner.holder_is_by_name", "cuda:0") is by_name


def test_how_much_of_the_device_the_weights_take_is_a_ratio() -> None:
    facts = derive_facts(evidence(WHOLE))
    assert facts.value("owner.weights_wanted_ratio") == pytest.approx((gib(2) + mib(100)) / gib(24))
    assert derive_facts(evidence(None)).value("owner.weights_wanted_ratio") is None


def test_a_model_that_is_another_to_the_last_byte_is_a_copy() -> None:
    copy = replace(GROUPS[2], owner="Net 'target' local to train()")
    other = replace(copy, owner="Net 'critic' local to train()", count=81)
    given = replace(WHOLE, groups=(*GROUPS, copy, other))
    facts = derive_facts(evidence(given))
    assert facts.value("owner.copies_bytes", "cuda:0") == gib(2)
    assert facts.value("owner.copies", "cuda:0") == "Net 'target' local to train()"
    assert derive_facts(evidence(WHOLE)).value("owner.copies_bytes", "cuda:0") == 0
