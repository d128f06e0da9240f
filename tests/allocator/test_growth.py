"""Steps are found in the stacks; growth is told from a level run, from loading and from one large pass."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snapshots import programs
from snapshots.make import MIB, Device, frame, snapshot, write

from oomdoctor.allocator.growth import Growth, Steps, find_steps, growth
from oomdoctor.allocator.owners import Ownership, ownership_of
from oomdoctor.allocator.replay import replay
from oomdoctor.readers.snapshot import read_snapshot, snapshot_of


def _found(device: Device, folder: Path, ring: int | None = None) -> tuple[Steps | None, Growth | None]:
    content = snapshot(device, ring=ring)
    found = read_snapshot(write(folder / "s.pickle", content))
    ownership = Ownership(found, replay(found, 0))
    steps = find_steps(ownership, len(content["device_traces"][0]) - 1)
    return steps, None if steps is None else growth(ownership, steps)


@pytest.mark.parametrize("ring", [None, 400])
def test_kept_graphs_grow_by_what_a_step_keeps(tmp_path: Path, ring: int | None) -> None:
    steps, found = _found(programs.leak_of_graphs(steps=16), tmp_path, ring)
    assert steps is not None
    assert found is not None
    kept = (4 + 4 * (4 + 6 + 4 + 4)) * MIB
    assert (found.steady, found.retains_graph, found.top_is_kv) == (True, True, False)
    assert found.top_owner == f"{programs.FILE}:21 in forward"
    assert found.gained_bytes % kept == 0
    if ring is None:
        assert len(steps) == 17
        assert found.gained_bytes == 15 * kept
        assert found.top_gained_bytes == 15 * 4 * 6 * MIB
        assert found.top_count == 16 * 4


def test_a_cache_that_is_concatenated_is_known_by_how_it_grows(tmp_path: Path) -> None:
    steps, found = _found(programs.cache_by_concatenation(tokens=30, layers=8), tmp_path)
    assert steps is not None
    assert found is not None
    assert len(steps) == 30
    assert (found.steady, found.top_is_kv, found.retains_graph) == (True, True, False)
    assert found.top_count == 16
    assert found.top_gained_bytes == found.gained_bytes == 28 * 16 * 2 * MIB
    assert found.seconds is not None
    assert found.seconds > 0


def test_a_ring_that_forgot_the_older_cache_does_not_blame_the_new_one_for_it(tmp_path: Path) -> None:
    _, found = _found(programs.cache_by_concatenation(tokens=60, layers=8), tmp_path, ring=500)
    assert found is not None
    assert (found.steady, found.top_is_kv) == (True, True)
    assert found.top_gained_bytes == found.gained_bytes


def test_kept_outputs_grow_but_keep_no_graph(tmp_path: Path) -> None:
    _, found = _found(programs.kept_outputs(), tmp_path)
    assert found is not None
    assert (found.steady, found.retains_graph, found.top_is_kv) == (True, False, False)
    assert found.top_owner == f"{programs.FILE}:12 in forward"


@pytest.mark.parametrize("program", [programs.weights_too_large, programs.one_pass])
def test_loading_and_layers_are_no_steps(tmp_path: Path, program: object) -> None:
    assert callable(program)
    assert _found(program(), tmp_path) == (None, None)


def test_a_level_run_does_not_grow(tmp_path: Path) -> None:
    steps, found = _found(programs.level_training(steps=12), tmp_path)
    assert steps is not None
    assert found is not None
    assert len(steps) == 13
    assert len(set(steps.peak_bytes.tolist()[1:-1])) == 1
    assert (found.steady, found.gained_bytes, found.retains_graph, found.top_owner) == (False, 0, False, None)


def test_what_rose_and_was_given_back_is_no_growth_to_the_failure(tmp_path: Path) -> None:
    _, found = _found(programs.cut_to_pieces(), tmp_path)
    assert found is not None
    assert not found.steady


def test_live_bytes_at_the_start_of_each_step_are_those_the_allocator_knew(tmp_path: Path) -> None:
    device = programs.leak_of_graphs(steps=6)
    steps, _ = _found(device, tmp_path)
    assert steps is not None
    assert steps.live_bytes.sum(axis=0).tolist() == [device.live[event - 1] for event in steps.first_event.tolist()]
    bounds = [*steps.first_event.tolist(), len(device.events)]
    assert steps.peak_bytes.tolist() == [max(device.live[begin:end]) for begin, end in pairwise(bounds)]


def test_many_steps_are_joined(tmp_path: Path) -> None:
    steps, found = _found(programs.kept_outputs(steps=150), tmp_path)
    assert steps is not None
    assert found is not None
    assert 40 <= len(steps) <= 64
    assert found.steady


def test_a_loop_on_one_line_is_found_when_it_turns_more_often_than_a_net_has_layers(tmp_path: Path) -> None:
    _, found = _found(programs.kept_graphs_on_one_line(steps=300), tmp_path)
    assert found is not None
    assert (found.steady, found.retains_graph) == (True, True)
    assert _found(programs.kept_graphs_on_one_line(steps=60), tmp_path) == (None, None), "may be layers"


def test_features_kept_from_a_few_places_are_no_graph(tmp_path: Path) -> None:
    _, found = _found(programs.kept_features(), tmp_path)
    assert found is not None
    assert (found.steady, found.retains_graph) == (True, False)


def test_layers_run_again_in_backward_are_no_steps(tmp_path: Path) -> None:
    assert _found(programs.recomputed_layers(), tmp_path) == (None, None)


def test_outputs_kept_under_one_library_call_are_not_taken_for_its_cache(tmp_path: Path) -> None:
    """All of the library lies under one line of the user's: its cache is level, its outputs pile up."""
    device = Device()
    site = "/env/lib/python3.11/site-packages/transformers"
    for step in range(12):
        ids = device.malloc(MIB, programs.at(19))
        if step == 0:
            device.malloc(50 * MIB, [frame("update", f"{site}/cache_utils.py", 4), *programs.at(20)])
        device.malloc(20 * MIB, [frame("_sample", f"{site}/generation/utils.py", 9), *programs.at(20)])
        device.free(ids)
    _, found = _found(device, tmp_path)
    assert found is not None
    assert (found.steady, found.top_is_kv, found.top_owner) == (True, False, f"{programs.FILE}:20 in <module>")


@pytest.mark.parametrize("passing", [False, True])
def test_a_store_is_filled_where_nothing_else_comes_and_goes(tmp_path: Path, passing: bool) -> None:
    """A list of batches is filled before any step; a replay buffer grows beside the steps that fill it."""
    device = Device()
    for _ in range(20):
        if passing:
            device.free(device.malloc(2 * MIB, programs.at(11)))
        device.malloc(20 * MIB, programs.at(12))
    _, found = _found(device, tmp_path)
    assert found is not None
    assert (found.rose, found.steady, found.fills) == (True, passing, not passing)


def test_what_waits_for_another_stream_does_not_grow(tmp_path: Path) -> None:
    """The program gives every block back at once, and torch may not use it again before another stream has passed."""
    device = Device()
    for _ in range(20):
        device.free(device.malloc(2 * MIB, programs.at(11)))
        device.free(device.malloc(20 * MIB, programs.at(12)), waits=True)
    _, found = _found(device, tmp_path)
    assert found is not None
    assert (found.steady, found.fills, found.gained_bytes) == (False, False, 0)


def test_a_loop_that_lies_deeper_than_other_stacks_is_found(tmp_path: Path) -> None:
    device = Device()
    device.malloc(MIB, programs.at(3))
    for _ in range(5):
        for line in (20, 21, 22):
            device.free(
                device.malloc(MIB, [frame("step", programs.FILE, line), *programs.at(9, "main"), *programs.at(5)])
            )
    steps, _ = _found(device, tmp_path)
    assert steps is not None
    assert len(steps) == 5


@pytest.mark.parametrize(("steps", "known"), [(2, False), (3, True)])
def test_three_settled_steps_of_equal_gain_are_enough(tmp_path: Path, steps: int, known: bool) -> None:
    _, found = _found(programs.leak_of_graphs(steps=steps), tmp_path)
    assert (found is not None and found.steady) == known


@settings(max_examples=40)
@given(
    lines=st.lists(
        st.tuples(st.integers(1, 20).map(lambda half: 2 * half), st.sampled_from([0.0, 0.5, 1.0])),
        min_size=2,
        max_size=4,
    ),
    steps=st.integers(6, 14),
    weights=st.integers(0, 200).map(lambda half: 2 * half),
)
def test_what_grew_is_told_from_what_is_merely_live(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[int, float]], steps: int, weights: int
) -> None:
    """Each line keeps none, every other or all of its blocks from step to step; weights are merely live. The batch that
    each step gives back is more than the hundredth of all that does not count as work."""
    device = Device()
    programs.load(device, 1, max(weights, 2) * MIB)
    owned, by_line = dict.fromkeys(range(len(lines)), 0), []
    for step in range(steps):
        by_line.append(dict(owned))
        batch = device.malloc(2 * MIB, programs.at(70))
        for line, (size, kept) in enumerate(lines):
            address = device.malloc(size * MIB, programs.inside(20 + line, programs.at(71)))
            if kept and (kept == 1 or step % 2):
                owned[line] += size * MIB
            else:
                device.free(address)
        device.free(batch)
    found_steps, found = _found(device, tmp_path_factory.getbasetemp())
    assert found_steps is not None
    assert found is not None
    live = [sum(each.values()) for each in by_line]
    # The first is the warm-up.
    gains = {line: by_line[-1][line] - by_line[1][line] for line in owned}
    assert found.gained_bytes == live[-1] - live[1]
    rises = [after - before for before, after in pairwise(live[1:])]
    gained = live[-1] - live[1]
    assert found.steady == (
        gained >= max(16 * MIB, device_share(device))
        and sum(rise > 0 for rise in rises) >= 0.8 * len(rises)
        and max(rises) <= 0.6 * gained
    )
    if gained:
        most = max(gains.values())
        assert found.top_gained_bytes == most
        assert found.top_owner in {f"{programs.FILE}:{20 + line} in forward" for line in gains if gains[line] == most}
    else:
        assert found.top_owner is None


def device_share(device: Device) -> float:
    """Less than this share of the peak is no growth worth the name."""
    return 0.005 * max(device.live)


def test_keys_and_values_on_lines_of_their_own_are_one_cache(tmp_path: Path) -> None:
    device = Device()
    programs.load(device, 4, 20 * MIB)
    loop = [programs.NO_GRAD, *programs.at(80)]
    cache: list[int | None] = [None] * 16
    for token in range(30):
        hidden = device.malloc(MIB, [frame("step", programs.FILE, 30), *loop])
        for place, old in enumerate(cache):
            line = 13 + place % 2
            cache[place] = device.malloc(
                (token + 1) * MIB, programs.inside(line, [frame("step", programs.FILE, 32), *loop])
            )
            if old is not None:
                device.free(old)
        device.free(hidden)
    _, found = _found(device, tmp_path)
    assert found is not None
    assert found.top_is_kv
    assert found.kv_owners == {f"{programs.FILE}:{line} in forward" for line in (13, 14)}


def test_very_deep_stacks_take_time_in_proportion() -> None:
    """Twenty events under one stack of ten thousand calls: each depth looks at one frame more, not at all above it."""
    frames = [{"filename": f"f{number}.py", "name": f"g{number}", "line": number} for number in range(10_000)]
    events = [
        {"action": "alloc", "addr": 512 * number, "size": 512, "stream": 0, "time_us": number, "frames": frames}
        for number in range(1, 21)
    ]
    read = snapshot_of({"segments": [], "device_traces": [events]}, "x.pickle")
    begun = time.process_time()
    find_steps(ownership_of(read, 0), until=20)
    assert time.process_time() - begun < 5


def test_what_was_filled_and_then_cleared_is_no_growth_whatever_was_allocated_since(tmp_path: Path) -> None:
    """A store that was filled in a loop and given back is not kept, though another one holds as much by then."""

    def stack(line: int) -> list[dict[str, Any]]:
        return [
            frame("take", "/app/load.py", 9),
            frame("<listcomp>", "/app/load.py", line),
            frame("main", "/app/load.py", line),
        ]

    device = Device()
    shards = [device.malloc(100 * MIB, stack(20)) for _ in range(15)]
    for shard in shards[3:]:
        device.free(shard)
    for _ in range(10):
        device.malloc(90 * MIB, stack(21))
    device.fail(1700 * MIB, 1450 * MIB, [frame("main", "/app/load.py", 22)])
    _, found = _found(device, tmp_path)
    assert found is not None
    assert not found.steady


def test_a_list_of_many_blocks_that_grows_by_a_few_in_a_short_ring_is_no_cache(tmp_path: Path) -> None:
    """Its number stays nearly the same, as a cache's; but what was there stays, where a cache is made anew."""
    device = Device()

    def stack(function: str, line: int) -> list[dict[str, Any]]:
        return [frame(function, "/app/run.py", line), frame("main", "/app/run.py", 30)]

    for _ in range(220):
        passing = [device.malloc(5 * MIB, stack("work", 4)) for _ in range(3)]
        device.malloc(7 * MIB, stack("result", 5))
        for block in passing:
            device.free(block)
    device.fail(7 * MIB, 0, stack("result", 5))
    _, found = _found(device, tmp_path, ring=160)
    assert found is not None
    assert (found.steady, found.top_is_kv) == (True, False)
