"""Live bytes over the window against the model that wrote it; turnover against counting by hand."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snapshots import programs
from snapshots.make import ADAM, LINEAR, LINEAR_INIT, MIB, MODULE_CALL, Device, frame, snapshot, write

from oomdoctor.allocator.course import categories_at, last_rise, live_by_category, live_by_owner, turnover
from oomdoctor.allocator.owners import Ownership
from oomdoctor.allocator.phases import phases
from oomdoctor.allocator.replay import replay
from oomdoctor.allocator.stacks import Category
from oomdoctor.model.thinning import extremes
from oomdoctor.readers.snapshot import read_snapshot

MAIN = frame("<module>", "/home/me/main.py", 7)
FORWARD = [LINEAR, *MODULE_CALL, MAIN]
STEP = [
    ADAM,
    frame("step", "/env/lib/python3.11/site-packages/torch/optim/adam.py", 238),
    frame("<module>", "/home/me/main.py", 9),
]


def _ownership(device: Device, folder: Path, ring: int | None = None) -> Ownership:
    found = read_snapshot(write(folder / "s.pickle", snapshot(device, ring=ring)))
    return Ownership(found, replay(found, 0))


@pytest.mark.parametrize("ring", [None, 40])
@pytest.mark.parametrize("program", [programs.kept_outputs, programs.level_training, programs.cache_by_concatenation])
def test_categories_add_up_to_what_is_live_after_every_event(tmp_path: Path, program, ring: int | None) -> None:
    device = program()
    ownership = _ownership(device, tmp_path, ring)
    events = np.arange(len(ownership.replay.events))
    together = sum(live_by_category(ownership, events).values())
    assert np.asarray(together).tolist() == device.live[-len(events) :]


def test_turnover_counts_what_was_allocated_within_the_window(tmp_path: Path) -> None:
    device = Device()
    kept = [device.malloc(size * MIB, FORWARD) for size in (2, 3)]
    for _ in range(4):
        device.free(device.malloc(5 * MIB, STEP))
    device.free(kept[0])
    by_category = {each.category: each for each in turnover(_ownership(device, tmp_path), 10)}
    state, activations = by_category[Category.OF_OPTIMIZER], by_category[Category.ACTIVATION]
    assert (state.allocations, state.sizes, state.allocated_bytes) == (4, 1, 20 * MIB)
    assert (state.most_live_bytes, state.live_at_end_bytes) == (5 * MIB, 0)
    assert (activations.allocations, activations.sizes, activations.allocated_bytes) == (2, 2, 5 * MIB)
    assert (activations.most_live_bytes, activations.live_at_end_bytes) == (5 * MIB, 3 * MIB)
    assert state.median_lifetime_us is not None


def test_an_owner_is_of_the_category_that_most_of_it_has_at_that_moment(tmp_path: Path) -> None:
    device = Device()
    device.malloc(MIB, STEP)
    for _ in range(4):
        device.free(device.malloc(5 * MIB, STEP))
    device.malloc(MIB, FORWARD)
    ownership = _ownership(device, tmp_path)
    peak, end = ownership.replay.peak_event, len(ownership.replay.events) - 1
    (owner,) = {each.owner for each in turnover(ownership, 10) if each.category is Category.OF_OPTIMIZER}
    assert categories_at(ownership, peak)[owner] is Category.OF_OPTIMIZER
    assert categories_at(ownership, end)[owner] is Category.OPTIMIZER_STATE


def test_what_stood_before_the_window_is_not_allocated_in_it(tmp_path: Path) -> None:
    device = Device()
    device.malloc(7 * MIB, FORWARD)
    for _ in range(6):
        device.free(device.malloc(5 * MIB, FORWARD))
    (each,) = turnover(_ownership(device, tmp_path, ring=9), 10)
    assert (each.allocations, each.live_at_end_bytes, each.most_live_bytes) == (3, 7 * MIB, 12 * MIB)


def test_a_lifetime_without_times_is_not_known(tmp_path: Path) -> None:
    device = Device()
    device.free(device.malloc(5 * MIB, FORWARD))
    content = snapshot(device)
    for event in content["device_traces"][0]:
        event.pop("time_us", None)
    found = read_snapshot(write(tmp_path / "s.pickle", content))
    (each,) = turnover(Ownership(found, replay(found, 0)), 10)
    assert each.median_lifetime_us is None


def test_the_last_rise_is_told_from_those_before_it(tmp_path: Path) -> None:
    device = Device()
    device.malloc(10 * MIB, STEP)
    for layers in (4, 4, 5):
        held = [device.malloc(20 * MIB, FORWARD) for _ in range(layers)]
        if layers == 5:
            device.malloc(MIB, STEP)
        for address in held:
            device.free(address)
    found = last_rise(_ownership(device, tmp_path))
    assert found is not None
    assert (found.foot_bytes, found.peak_bytes) == (10 * MIB, 111 * MIB)
    assert [(size, count) for _, size, count in found.owners] == [(100 * MIB, 5), (MIB, 1)]


def test_a_rise_from_the_first_event_on_starts_with_what_stood_before(tmp_path: Path) -> None:
    device = Device()
    device.malloc(10 * MIB, STEP)
    for _ in range(6):
        device.malloc(20 * MIB, FORWARD)
    found = last_rise(_ownership(device, tmp_path, ring=6))
    assert found is not None
    assert found.peak_bytes - found.foot_bytes == sum(size for _, size, _ in found.owners)


def test_a_fall_right_after_the_peak_is_no_foot_of_it(tmp_path: Path) -> None:
    """What waited for another stream is done with at the very event after the peak."""
    device = Device()
    for _ in range(6):
        device.free(device.malloc(MIB, STEP))
    waits = device.malloc(40 * MIB, FORWARD)
    device.free(waits, waits=True)
    device.malloc(4 * MIB, FORWARD)
    device.complete(waits)
    found = last_rise(_ownership(device, tmp_path))
    assert found is not None
    assert (found.foot < found.peak, found.foot_bytes, found.peak_bytes) == (True, 0, 44 * MIB)


def test_nothing_rose_where_memory_only_fell(tmp_path: Path) -> None:
    device = Device()
    held = [device.malloc(20 * MIB, FORWARD) for _ in range(6)]
    for address in held:
        device.free(address)
    assert last_rise(_ownership(device, tmp_path, ring=10)) is None


def test_phases_follow_what_allocates(tmp_path: Path) -> None:
    device = Device()
    for _ in range(20):
        device.malloc(MIB, [LINEAR_INIT, MAIN])
    for _ in range(20):
        device.malloc(MIB, FORWARD)
    for _ in range(20):
        device.malloc(MIB, STEP)
    found = phases(_ownership(device, tmp_path))
    assert [each.name for each in found] == ["load", "forward", "optimizer"]
    assert all(before.end <= after.begin for before, after in itertools.pairwise(found))


def test_without_stacks_there_is_no_phase(tmp_path: Path) -> None:
    device = Device()
    device.malloc(MIB, [])
    assert phases(_ownership(device, tmp_path)) == ()


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=300), st.integers(2, 40))
def test_thinned_values_keep_the_highest_and_the_lowest(values: list[int], most: int) -> None:
    column = np.asarray(values, dtype=np.int64)
    kept = column[extremes(column, most)]
    assert (kept.max(), kept.min()) == (column.max(), column.min())
    assert len(kept) <= max(most, 2)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40), st.booleans()), min_size=9, max_size=60))
def test_owners_add_up_after_every_event_and_none_that_held_more_is_left_out(
    tmp_path_factory: pytest.TempPathFactory, program: list[tuple[int, int, bool]]
) -> None:
    device, live = Device(), []
    for line, size, frees in program:
        live.append((device.malloc((2 + 2 * size) * MIB, [frame("f", "/home/me/main.py", line)]), line, size))
        if frees:
            device.free(live.pop(size % len(live))[0])
    ownership = _ownership(device, tmp_path_factory.getbasetemp())
    events = np.arange(len(device.events))
    found = live_by_owner(ownership, events, 4)
    assert sum(values for _, _, values in found).tolist() == device.live
    slow: dict[str, list[int]] = {}
    held: dict[int, tuple[str, int]] = {}
    for number, event in enumerate(device.events):
        if event["action"] == "alloc":
            held[event["addr"]] = f"/home/me/main.py:{event['frames'][0]['line']} in f", event["size"]
        elif event["action"] == "free_completed":
            del held[event["addr"]]
        for owner, size in held.values():
            slow.setdefault(owner, [0] * len(device.events))[number] += size
    named = {owner: values.tolist() for owner, _, values in found if owner}
    assert all(values == slow[owner] for owner, values in named.items())
    assert len(named) == min(4, len(slow))
    assert min(map(max, named.values())) >= max((max(slow[o]) for o in slow.keys() - named.keys()), default=0)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.booleans()), min_size=9, max_size=60),
    st.integers(6, 200),
)
def test_turnover_is_that_of_a_slow_replay(
    tmp_path_factory: pytest.TempPathFactory, program: list[tuple[int, int, bool]], ring: int
) -> None:
    device, live = Device(), []
    for line, size, frees in program:
        live.append(device.malloc((2 + 2 * size) * MIB, [frame("f", "/home/me/main.py", line)]))
        if frees:
            device.free(live.pop(size % len(live)))
    ownership = _ownership(device, tmp_path_factory.getbasetemp(), ring)
    trace = device.events[-ring:]
    found = {each.owner: each for each in turnover(ownership, 10)}
    for line in range(4):
        mine = [n for n, e in enumerate(trace) if e["action"] == "alloc" and e["frames"][0]["line"] == line]
        if not mine:
            continue
        each = found[f"/home/me/main.py:{line} in f"]
        assert each.allocations == len(mine)
        assert each.sizes == len({trace[n]["size"] for n in mine})
        assert each.allocated_bytes == sum(trace[n]["size"] for n in mine)
        lives = []
        for n in mine:
            ends = [
                e["time_us"] for e in trace[n:] if e["action"] == "free_completed" and e["addr"] == trace[n]["addr"]
            ]
            lives += [ends[0] - trace[n]["time_us"]] if ends else []
        assert each.median_lifetime_us == (int(np.median(lives)) if lives else None)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20), st.booleans()), min_size=12, max_size=70))
def test_the_rise_to_the_peak_is_the_difference_of_two_states(
    tmp_path_factory: pytest.TempPathFactory, program: list[tuple[int, int, bool]]
) -> None:
    device, live = Device(), []
    for line, size, frees in program:
        live.append(device.malloc((2 + 2 * size) * MIB, [frame("f", "/home/me/main.py", line)]))
        if frees:
            device.free(live.pop(size % len(live)))
    found = last_rise(_ownership(device, tmp_path_factory.getbasetemp()))
    if found is None:
        assert device.live.index(max(device.live)) == 0
        return
    assert found.peak_bytes == max(device.live)
    assert found.foot < found.peak == device.live.index(max(device.live))

    def held(event: int) -> dict[str, int]:
        blocks: dict[int, tuple[str, int]] = {}
        for each in device.events[: event + 1]:
            if each["action"] == "alloc":
                blocks[each["addr"]] = f"/home/me/main.py:{each['frames'][0]['line']} in f", each["size"]
            elif each["action"] == "free_completed":
                del blocks[each["addr"]]
        owners: dict[str, int] = {}
        for owner, size in blocks.values():
            owners[owner] = owners.get(owner, 0) + size
        return owners

    foot, peak = held(found.foot), held(found.peak)
    gains = {owner: peak.get(owner, 0) - foot.get(owner, 0) for owner in peak.keys() | foot.keys()}
    assert {owner: size for owner, size, _ in found.owners} == {o: size for o, size in gains.items() if size > 0}
    assert found.foot_bytes == sum(foot.values())
