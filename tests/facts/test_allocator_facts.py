"""A snapshot's facts tell the cause that was planted; what it does not show stays unknown."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snapshots import programs
from snapshots.make import ADAM, MIB, Device, frame, snapshot, without_addresses, write

from oomdoctor.errors import InputRefused
from oomdoctor.facts import derive_facts
from oomdoctor.facts.allocator import derive
from oomdoctor.facts.budget import budgets
from oomdoctor.facts.focus import focus
from oomdoctor.facts.holdings import holdings
from oomdoctor.facts.incidents import find_incidents
from oomdoctor.facts.registry import REGISTRY
from oomdoctor.facts.series import all_series
from oomdoctor.facts.snapshot_views import snapshot_series
from oomdoctor.model.diagnosis import Holding
from oomdoctor.model.events import EventKind, LogEvent
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.facts import FactSet, FactValue
from oomdoctor.model.snapshot import Snapshot
from oomdoctor.model.source import Source
from oomdoctor.readers.snapshot import read_snapshot

GENUINE = Path(__file__).parents[3] / "shared" / "device" / "scenarios"


def _read(device: Device, folder: Path, name: str = "s.pickle", ring: int | None = None) -> Snapshot:
    return read_snapshot(write(folder / name, snapshot(device, ring=ring)), name)


def _facts(*snapshots: Snapshot, events: tuple[LogEvent, ...] = ()) -> FactSet:
    facts = FactSet(REGISTRY)
    derive(Evidence(snapshots=snapshots, events=events), facts)
    return facts


def _holdings(snapshot: Snapshot) -> tuple[Holding, ...]:
    return holdings(Evidence(snapshots=(snapshot,)), _facts(snapshot))


def _of(facts: FactSet, *names: str, member: str = "cuda:0") -> tuple[FactValue | None, ...]:
    return tuple(facts.value(name, member) for name in names)


def test_the_failed_request_is_exact_and_says_where_it_is_from(tmp_path: Path) -> None:
    device = programs.cut_to_pieces()
    facts = _facts(_read(device, tmp_path))
    assert _of(
        facts, "oom.failed", "oom.requested_bytes", "oom.requested_exact", "oom.free_bytes", "oom.allocated_bytes",
        "oom.reserved_bytes",
    ) == (True, 80 * MIB, True, programs.FREE, 400 * MIB, 800 * MIB)  # fmt: skip
    source = facts["oom.requested_bytes@cuda:0"].source
    assert str(source) == f"s.pickle (oom event {len(device.events) - 1})"


def test_fragmentation_shows_as_enough_idle_memory_in_no_one_piece(tmp_path: Path) -> None:
    facts = _facts(_read(programs.cut_to_pieces(), tmp_path))
    assert _of(facts, "allocator.usable_idle_bytes", "allocator.largest_free_block_bytes") == (400 * MIB, 40 * MIB)
    assert _of(facts, "allocator.releasable_bytes", "allocator.pinned_idle_bytes") == (0, 400 * MIB)
    assert _of(facts, "growth.steady", "allocator.history_complete") == (False, True)


def test_growth_has_a_time_where_one_event_has_no_time(tmp_path: Path) -> None:
    content = snapshot(programs.kept_outputs())
    del content["device_traces"][0][3]["time_us"]
    assert _of(_facts(read_snapshot(write(tmp_path / "s.pickle", content))), "growth.seconds") != (None,)


def test_a_store_that_is_filled_is_told_and_no_leak(tmp_path: Path) -> None:
    device = Device()
    for _ in range(20):
        device.malloc(20 * MIB, programs.at(12))
    device.fail(20 * MIB, 16 * MIB, programs.at(12))
    facts = _facts(_read(device, tmp_path))
    assert _of(facts, "growth.fills", "growth.steady", "spike.sudden") == (True, None, False)
    assert _of(facts, "growth.filled_bytes", "growth.filled_at") == (18 * 20 * MIB, f"{programs.FILE}:12 in <module>")
    leaks = _facts(_read(programs.kept_outputs(), tmp_path))
    assert _of(leaks, "growth.fills", "growth.steady", "growth.filled_at") == (False, True, None)


def test_kept_graphs(tmp_path: Path) -> None:
    facts = _facts(_read(programs.leak_of_graphs(), tmp_path))
    assert _of(facts, "growth.steady", "growth.top_retains_graph", "growth.top_is_kv") == (True, True, False)
    assert _of(facts, "growth.top_stack", "growth.bytes") == (f"{programs.FILE}:21 in forward", 11 * 76 * MIB)
    assert _of(facts, "spike.sudden") == (False,)
    assert _of(facts, "owner.weights_bytes", "owner.optimizer_bytes") == (80 * MIB, 48 * MIB)


def test_a_concatenated_cache_is_counted_as_keys_and_values(tmp_path: Path) -> None:
    facts = _facts(_read(programs.cache_by_concatenation(), tmp_path))
    assert _of(facts, "growth.steady", "growth.top_is_kv", "growth.top_retains_graph") == (True, True, False)
    assert _of(facts, "owner.kv_bytes") == (5 * 60 * MIB + 11 * 58 * MIB,)
    assert _of(facts, "owner.activations_bytes") == (MIB,), "what each token's pass has given back until now"


def test_one_long_request_is_a_spike(tmp_path: Path) -> None:
    facts = _facts(_read(programs.requests((64, 90, 70, 128, 80, 100, 2000)), tmp_path))
    assert _of(facts, "spike.sudden", "growth.steady", "spike.largest_request_bytes") == (
        True,
        False,
        2000 * 2000 * 1024,
    )
    assert _of(facts, "spike.bytes")[0] > 3 * 1024 * MIB  # type: ignore[operator]


@pytest.mark.parametrize(("scale", "sudden"), [(1, False), (3, True)])
def test_a_larger_last_batch_is_a_spike_and_an_equal_one_is_not(tmp_path: Path, scale: int, sudden: bool) -> None:
    facts = _facts(_read(programs.level_training(last_scale=scale), tmp_path))
    assert _of(facts, "spike.sudden", "growth.steady") == (sudden, False)


def test_work_of_another_kind_is_no_larger_input(tmp_path: Path) -> None:
    """The steps reach 100 MiB above what stays; joining takes 600 and wanted 500 more."""
    facts = _facts(_read(programs.joined_once(), tmp_path))
    assert _of(facts, "spike.sudden", "spike.bytes", "spike.new_work_bytes") == (True, 1000 * MIB, 1000 * MIB)
    facts = _facts(_read(programs.level_training(last_scale=3), tmp_path, "larger.pickle"))
    assert _of(facts, "spike.sudden", "spike.new_work_bytes") == (True, None)


def test_of_a_recording_that_begins_late_what_was_gained_and_what_is_live_are_two_figures(tmp_path: Path) -> None:
    whole = _facts(_read(programs.leak_of_graphs(), tmp_path))
    late = _facts(_read(programs.leak_of_graphs(), tmp_path, "late.pickle", ring=400))
    names = ("growth.top_stack_live_bytes", "growth.top_stack_count")
    assert _of(late, *names) == _of(whole, *names)
    assert _of(late, "growth.top_stack_bytes")[0] < _of(whole, "growth.top_stack_bytes")[0]  # type: ignore[operator]


def test_a_request_that_is_all_the_history_is_a_failing_request(tmp_path: Path) -> None:
    device = Device()
    device.fail(5000 * MIB, 2000 * MIB, [])
    facts = _facts(_read(device, tmp_path))
    assert _of(facts, "allocator.failing_request_in_snapshot") == (True,)


@pytest.mark.parametrize(
    ("pool", "stack", "of_program"),
    [
        ((1, 0), programs.at(20), 0),
        ((0, 1), programs.at(20), 700 * MIB),
        ((0, 1), programs.at(20, "capture_model"), 0),
    ],
    ids=["capture", "MemPool", "graph_pool_handle"],
)
def test_who_made_a_private_pool(tmp_path: Path, pool: tuple[int, int], stack: list, of_program: int) -> None:
    device = Device()
    made = [device.malloc(100 * MIB, stack, pool=pool) for _ in range(8)]
    for address in made[1:]:
        device.free(address)
    device.fail(5000 * MIB, programs.FREE, programs.at(30))
    facts = _facts(_read(device, tmp_path))
    assert _of(facts, "allocator.private_idle_bytes", "allocator.program_pool_idle_bytes") == (700 * MIB, of_program)


def test_a_request_in_the_making_of_the_optimizers_state_says_so_itself(tmp_path: Path) -> None:
    """Adam makes two tensors for each parameter: the gradients tell how much that will be."""
    device = Device()
    programs.load(device, 4, 20 * MIB)
    for _ in range(4):
        device.malloc(20 * MIB, [])
    device.malloc(20 * MIB, [ADAM, *programs.at(73)])
    device.fail(20 * MIB, MIB, [ADAM, *programs.at(73)])
    snapshot = _read(device, tmp_path)
    facts = derive_facts(Evidence(snapshots=(snapshot,)))
    assert facts.value("activity.operation") == "optimizer-state"
    assert _of(facts, "owner.optimizer_bytes", "owner.optimizer_needed_bytes") == (20 * MIB, 160 * MIB)


def test_a_rising_load_is_no_spike(tmp_path: Path) -> None:
    facts = _facts(_read(programs.requests((100, 200, 400, 700)), tmp_path))
    assert _of(facts, "spike.sudden") == (False,), "each was larger than the one before, and by more than the last is"
    facts = _facts(_read(programs.requests((100, 200, 400, 2000)), tmp_path))
    assert _of(facts, "spike.sudden") == (True,), "the fourth is 25 times the third"
    facts = _facts(_read(programs.requests((100, 141, 200, 220)), tmp_path))
    assert _of(facts, "spike.sudden") == (False,)


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    facts = _facts(_read(programs.weights_too_large(), tmp_path))
    assert _of(facts, "growth.steady", "owner.weights_bytes", "spike.sudden") == (False, 2000 * MIB, None)
    assert _of(facts, "owner.top", "owner.top_bytes") == (f"{programs.FILE}:5 in __init__", 2000 * MIB)


def test_one_pass_that_does_not_fit_has_large_activations_and_no_growth(tmp_path: Path) -> None:
    facts = _facts(_read(programs.one_pass(), tmp_path))
    assert _of(facts, "growth.steady", "owner.activations_bytes") == (False, (30 + 120 * 40) * MIB)
    facts = _facts(_read(programs.one_pass(), tmp_path, ring=50))
    assert _of(facts, "growth.steady", "allocator.history_complete") == (None, False), "the ring may hide earlier steps"


def test_a_history_whose_stacks_were_switched_on_late_is_not_called_level(tmp_path: Path) -> None:
    device = Device()
    device.malloc(30 * MIB, [])
    device.malloc(3 * MIB, programs.at(1))
    facts = _facts(_read(device, tmp_path))
    assert _of(facts, "growth.steady", "allocator.history_complete") == (None, True)


@pytest.mark.parametrize(("freed", "nothing"), [(0, True), (1, True), (40, False)])
def test_where_nothing_was_given_back_no_step_has_ended(tmp_path: Path, freed: int, nothing: bool) -> None:
    device = Device()
    for _ in range(20):
        device.malloc(30 * MIB, [])
        if freed:
            device.free(device.malloc(freed * MIB // 4, []))
    device.fail(30 * MIB, 0, [])
    assert _of(_facts(_read(device, tmp_path)), "allocator.nothing_given_back") == (nothing,)
    cut = _facts(_read(device, tmp_path, ring=5))
    assert _of(cut, "allocator.nothing_given_back") == (None,), "the ring may hide what was freed before"


def test_a_state_taken_after_the_failure_is_rebuilt(tmp_path: Path) -> None:
    device = programs.cut_to_pieces()
    live, reserved = device.live[-1], device.reserved[-1]
    for segment in device.segments:
        for address in [block.address for block in segment.blocks if block.state != "inactive"]:
            device.free(address)
    device.release_idle()
    facts = _facts(_read(device, tmp_path))
    assert _of(facts, "oom.allocated_bytes", "oom.active_bytes", "oom.reserved_bytes") == (live, live, reserved)
    assert _of(facts, "allocator.largest_free_block_bytes", "allocator.releasable_bytes") == (40 * MIB, 0)


def test_growth_is_seen_in_a_snapshot_written_after_the_program_unwound(tmp_path: Path) -> None:
    device = programs.leak_of_graphs()
    device.events.pop(), device.live.pop(), device.reserved.pop()  # the oom event: this history has none
    for segment in device.segments:
        for address in [block.address for block in segment.blocks if block.state != "inactive"]:
            device.free(address)
    facts = _facts(_read(device, tmp_path))
    assert _of(facts, "growth.steady", "growth.top_retains_graph", "spike.sudden") == (True, True, None)
    assert _of(facts, "allocator.failing_request_in_snapshot", "oom.failed") == (False, None)


def test_a_snapshot_speaks_before_a_log(tmp_path: Path) -> None:
    fields = {"requested_bytes": 82 * MIB, "allocated_bytes": 401 * MIB, "total_bytes": 1 << 30}
    event = LogEvent(EventKind.DEVICE_OOM, Source(path="log", line=1), fields=fields, device=0)
    found = _read(programs.cut_to_pieces(), tmp_path)
    facts = derive_facts(Evidence(snapshots=(found,), events=(event,)))
    assert _of(facts, "oom.requested_bytes", "oom.allocated_bytes") == (80 * MIB, 400 * MIB)
    assert _of(facts, "oom.total_bytes", "oom.requested_exact") == (1 << 30, True), "the log adds what is not known"
    assert _of(facts, "oom.reserved_unallocated_bytes") == (400 * MIB,)


def test_pending_blocks_are_active_and_not_allocated(tmp_path: Path) -> None:
    device = Device()
    device.free(device.malloc(30 * MIB, programs.at(1)), waits=True)
    device.malloc(40 * MIB, programs.at(2))
    device.fail(1 << 30, 0, programs.at(3))
    facts = _facts(_read(device, tmp_path))
    assert _of(facts, "oom.active_bytes", "oom.allocated_bytes", "allocator.pending_free_bytes") == (
        70 * MIB, 40 * MIB, 30 * MIB,
    )  # fmt: skip


def test_without_history_only_the_state_is_known(tmp_path: Path) -> None:
    content = without_addresses(snapshot(programs.cut_to_pieces()))
    content["device_traces"] = [[]]
    facts = _facts(read_snapshot(write(tmp_path / "s.pickle", content)))
    assert _of(facts, "allocator.pinned_idle_bytes", "allocator.segments") == (400 * MIB, 1)
    assert not [key for key in facts if key.startswith(("oom.", "growth.", "spike.", "allocator.peak"))]
    assert _of(facts, "allocator.history_complete", "allocator.largest_free_block_bytes") == (None, None)


@pytest.mark.parametrize(("allocated", "largest"), [(400 * MIB, 40 * MIB), (700 * MIB, None)])
def test_a_message_of_the_same_moment_lends_its_request(tmp_path: Path, allocated: int, largest: int | None) -> None:
    content = snapshot(programs.cut_to_pieces()) | {"device_traces": [[]]}
    fields = {"requested_bytes": 80 * MIB, "allocated_bytes": allocated}
    event = LogEvent(EventKind.DEVICE_OOM, Source(path="log", line=1), fields=fields, device=0)
    facts = _facts(read_snapshot(write(tmp_path / "s.pickle", content)), events=(event,))
    assert _of(facts, "allocator.largest_free_block_bytes", "oom.requested_bytes") == (largest, None)


def test_devices_are_kept_apart_and_a_silent_one_has_no_facts(tmp_path: Path) -> None:
    second = Device(1, base=1 << 50)
    second.malloc(64 * MIB, programs.at(9))
    second.fail(1 << 30, 7, programs.at(9))
    content = snapshot(programs.cut_to_pieces(), second, Device(2))
    facts = _facts(read_snapshot(write(tmp_path / "s.pickle", content)))
    assert _of(facts, "oom.requested_bytes", "oom.free_bytes", member="cuda:1") == (1 << 30, 7)
    assert _of(facts, "oom.requested_bytes") == (80 * MIB,)
    assert not [key for key in facts if key.endswith("cuda:2")]


def test_of_two_snapshots_the_one_with_the_latest_failure_speaks(tmp_path: Path) -> None:
    early, late, quiet = programs.cut_to_pieces(), programs.weights_too_large(), Device()
    for event in late.events:
        event["time_us"] += 10_000_000
    quiet.malloc(5 * MIB, programs.at(1))
    quiet.events[-1]["time_us"] += 99_000_000
    read = [_read(d, tmp_path, f"{n}.pickle") for n, d in (("late", late), ("early", early), ("quiet", quiet))]
    facts = _facts(*read)
    assert {fact.source.path for fact in facts.values()} == {"late.pickle"}
    assert _of(facts, "oom.requested_bytes") == (50 * MIB,)


@given(flips=st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=100)
def test_a_damaged_file_is_refused_or_gives_facts(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]
) -> None:
    path = write(tmp_path_factory.getbasetemp() / "damaged.pickle", snapshot(programs.cut_to_pieces()))
    data = bytearray(path.read_bytes())
    for place, value in flips:
        data[place % len(data)] = value
    path.write_bytes(data)
    # Any exception but a refusal fails the test.
    with suppress(InputRefused):
        found = read_snapshot(path)
        _facts(found)
        snapshot_series(found)
        _holdings(found)


def test_the_curve_keeps_its_extremes(tmp_path: Path) -> None:
    device = programs.kept_outputs(steps=900)
    (curve,) = snapshot_series(_read(device, tmp_path))
    assert len(device.events) > 4000 > 2000 >= len(curve.times_seconds) > 1000
    assert (max(curve.values_bytes), min(curve.values_bytes)) == (max(device.live), min(device.live))
    assert list(curve.times_seconds) == sorted(curve.times_seconds)
    assert (curve.where, curve.relative) == ("cuda:0", False)
    known = {event["time_us"]: live for event, live in zip(device.events, device.live, strict=True)}
    assert all(known[round(t * 1e6)] == v for t, v in zip(curve.times_seconds, curve.values_bytes, strict=True))


def test_a_history_without_times_gives_no_curve(tmp_path: Path) -> None:
    content = snapshot(programs.cut_to_pieces())
    for event in content["device_traces"][0]:
        del event["time_us"]
    assert snapshot_series(read_snapshot(write(tmp_path / "s.pickle", content))) == ()


def test_the_rows_of_the_table_add_up_to_what_was_allocated(tmp_path: Path) -> None:
    device = Device()
    for line in range(50):
        device.malloc(2 * (line + 1) * MIB, programs.at(line))
    found = _read(device, tmp_path)
    rows = _holdings(found)
    assert (len(rows), rows[0].owner) == (21, "30 smaller owners")
    assert sum(row.bytes for row in rows) == found.allocated_bytes
    assert sum(row.count for row in rows) == 50
    assert rows[1].owner == f"{programs.FILE}:49 in <module>"


@pytest.mark.skipif(not GENUINE.exists(), reason="the recorded scenarios are not beside this checkout")
@pytest.mark.parametrize(
    ("scenario", "told"),
    [
        ("a_startup_weights", {"growth.steady": False, "owner.kv_bytes": None}),
        ("b_kv_growth", {"growth.steady": True, "growth.top_is_kv": True, "spike.sudden": False}),
        ("c_leak_losses", {"growth.steady": True, "growth.top_retains_graph": True, "growth.top_is_kv": False}),
        ("d_long_prompt", {"spike.sudden": True, "growth.steady": False, "oom.requested_bytes": 25_088_000_000}),
        ("e_fragmentation", {"growth.steady": False, "oom.requested_bytes": 3 << 30}),
        ("g_other_process", {"growth.steady": False, "spike.sudden": False}),
        ("h_expandable", {"growth.steady": True, "growth.top_is_kv": True, "allocator.expandable_segments": True}),
        ("i_batch_too_large", {"growth.steady": False, "spike.sudden": None}),
    ],
)
def test_recorded_runs_tell_their_planted_cause(scenario: str, told: dict[str, FactValue | None]) -> None:
    found = read_snapshot(GENUINE / scenario / "snapshot.pickle")
    facts = _facts(found)
    assert {name: facts.value(name, "cuda:0") for name in told} == told
    assert sum(row.bytes for row in _holdings(found)) == found.allocated_bytes
    values = dict(zip(names := ("oom.reserved_bytes", "oom.allocated_bytes"), _of(facts, *names), strict=True))
    if scenario == "e_fragmentation":
        requested, largest = _of(facts, "oom.requested_bytes", "allocator.largest_free_block_bytes")
        assert values["oom.reserved_bytes"] - values["oom.allocated_bytes"] > requested > largest  # type: ignore[operator]
    if scenario == "i_batch_too_large":
        assert _of(facts, "owner.activations_bytes")[0] > 0.9 * values["oom.allocated_bytes"]  # type: ignore[operator]


def test_a_snapshot_without_a_failure_still_says_what_torch_had_reserved(tmp_path: Path) -> None:
    device = programs.cut_to_pieces()
    whole = snapshot(device)
    for trace in whole["device_traces"]:
        trace[:] = [entry for entry in trace if entry["action"] != "oom"]
    read = read_snapshot(write(tmp_path / "s.pickle", whole), "s.pickle")
    evidence = Evidence(snapshots=(read,))
    facts = derive_facts(evidence)
    assert _of(facts, "oom.failed", "allocator.allocated_bytes", "allocator.reserved_bytes") == (
        None, 400 * MIB, 800 * MIB,
    )  # fmt: skip
    (budget,) = budgets(evidence, facts)
    assert (budget.where, budget.total_bytes, budget.unattributed_bytes) == ("cuda:0 reserved by torch", 800 * MIB, 0)
    assert sum(part.bytes for part in budget.parts if part.name != "idle in blocks of the allocator") == 400 * MIB
    assert find_incidents(evidence) == ()


def test_a_snapshot_s_failure_is_an_incident_once(tmp_path: Path) -> None:
    read = _read(programs.cut_to_pieces(), tmp_path)
    (incident,) = find_incidents(Evidence(snapshots=(read,)))
    assert (incident.where, incident.requested_bytes) == ("cuda:0", 80 * MIB)
    printed = LogEvent(EventKind.DEVICE_OOM, Source("crash.log", 1), {"requested_bytes": 80 * MIB}, "", 0, None)
    assert [i.source for i in find_incidents(Evidence(snapshots=(read,), events=(printed,)))] == ["crash.log:1"]


def test_of_two_processes_snapshots_only_the_one_that_failed_last_is_drawn(tmp_path: Path) -> None:
    failed = _read(programs.cut_to_pieces(), tmp_path, "failed.pickle")
    whole = snapshot(programs.cut_to_pieces())
    for trace in whole["device_traces"]:
        trace[:] = [entry for entry in trace if entry["action"] != "oom"]
    other = read_snapshot(write(tmp_path / "other.pickle", whole), "other.pickle")
    for both in ((failed, other), (other, failed)):
        assert focus(Evidence(snapshots=both)).snapshots == (failed,)
        assert len(all_series(Evidence(snapshots=both))) == len(all_series(Evidence(snapshots=(failed,))))


def test_what_constructors_of_the_program_made_is_told_apart_from_layers(tmp_path: Path) -> None:
    """A cache that is made ahead has a constructor as well as a model has; a layer's own frames tell parameters."""
    device = Device()
    layer = frame("__init__", "/lib/site-packages/torch/nn/modules/linear.py", 105)
    for size, inner in ((40 * MIB, [layer]), (60 * MIB, [])):
        for _ in range(4):
            device.malloc(size, [*inner, frame("__init__", "cache.py", 4), frame("main", "cache.py", 9)])
    device.fail(64 * MIB, MIB, [])
    facts = _facts(_read(device, tmp_path))
    assert _of(facts, "owner.weights_bytes", "owner.constructed_bytes") == (400 * MIB, 240 * MIB)
