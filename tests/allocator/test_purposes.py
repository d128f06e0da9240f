"""What allocations turn out to be for, held against a program whose every tensor's fate is known."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snapshots import programs
from snapshots.make import ADAM, LINEAR_INIT, MIB, MODULE_CALL, NO_GRAD, Device, Stack, frame, snapshot, write

from oomdoctor.allocator.owners import Ownership
from oomdoctor.allocator.purposes import CATEGORIES
from oomdoctor.allocator.replay import replay
from oomdoctor.allocator.stacks import Category
from oomdoctor.readers.snapshot import read_snapshot

FILE = "/home/me/train.py"


def _net(line: int, *outer: dict[str, Any]) -> Stack:
    return [frame("forward", FILE, line), *MODULE_CALL, *outer, frame("<module>", FILE, 71)]


def _adam(line: int) -> Stack:
    return [frame("_multi_tensor_adam", ADAM["filename"], line), frame("<module>", FILE, 73)]


def _ownership(content: dict[str, Any], folder: Path) -> Ownership:
    found = read_snapshot(write(folder / "s.pickle", content))
    return Ownership(found, replay(found, 0))


def _categories(ownership: Ownership) -> dict[tuple[int, int], Category]:
    """Of each lifetime, by the event that allocated it and its address."""
    lifetimes = ownership.replay.lifetimes
    keys = zip(lifetimes.start.tolist(), lifetimes.address.tolist(), strict=True)
    return dict(zip(keys, (CATEGORIES[number] for number in ownership.purposes.category.tolist()), strict=True))


def _live(ownership: Ownership) -> dict[int, Category]:
    """Of what is live at the end, by address."""
    return {address: category for (start, address), category in sorted(_categories(ownership).items())}


def _step(device: Device, sizes: list[int], gone: list[list[int]], ends: bool = True) -> dict[int, list[int]]:
    """A step of training: in each pass, which line's blocks are freed at once. What is live, by line."""
    live: dict[int, list[int]] = {}
    for line, size in enumerate(sizes, 10):
        kept = [device.malloc(size, _net(line)) for _ in range(2)]
        if line - 10 in gone[0]:
            device.free(kept.pop())
        live[line] = kept
    if not ends:
        return live
    gradients = []
    for line, size in reversed(list(enumerate(sizes, 10))):
        gradient = device.malloc(size + 512, [])
        if line - 10 in gone[1]:
            device.free(gradient)
        else:
            gradients.append(gradient)
        for address in live.pop(line):
            device.free(address)
    device.malloc(512, [])
    for line, size in enumerate(sizes, 200):
        device.free(device.malloc(size, _adam(line)))
    for address in gradients:
        device.free(address)
    return live


@given(
    sizes=st.lists(st.integers(1, 9).map(lambda n: n * MIB), min_size=1, max_size=4),
    forward=st.lists(st.integers(0, 3), max_size=3),
    backward=st.lists(st.integers(0, 3), max_size=3),
    kept=st.integers(30, 300),
)
@settings(max_examples=40)
def test_each_tensor_is_told_by_when_it_was_freed(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], forward: list[int], backward: list[int], kept: int
) -> None:
    device = Device()
    for size in sizes:
        device.malloc(size + 512, [LINEAR_INIT, frame("__init__", FILE, 5)])
    for _ in range(3):
        _step(device, sizes, [forward, backward])
    in_flight = _step(device, sizes, [forward, backward], ends=False)
    content = snapshot(device, ring=kept)
    ownership = _ownership(content, tmp_path_factory.getbasetemp())
    found, slow = _categories(ownership), _slow(content)
    for key, expected in slow.items():
        assert found[key] in expected, (key, found[key], expected)
    of_live = {_live(ownership)[address] for addresses in in_flight.values() for address in addresses}
    assert of_live <= {Category.SAVED, Category.ACTIVATION}
    if kept == 300 and not forward:
        assert of_live == {Category.SAVED}, "as in the three steps before"


def _slow(content: dict[str, Any]) -> dict[tuple[int, int], set[Category]]:
    """Of what was allocated and freed in the window what it may be called, event by event."""
    trace = content["device_traces"][0]
    first = next((number for number, event in enumerate(trace) if event["frames"]), len(trace))
    phases = [_phase(event) if number >= first else "" for number, event in enumerate(trace)]
    known = [number for number, phase in enumerate(phases) if phase]
    told: dict[tuple[int, int], set[Category]] = {}
    for start in known:
        ends = [
            number
            for number, event in enumerate(trace[start:], start)
            if event["action"] == "free_completed" and event["addr"] == trace[start]["addr"]
        ]
        if not ends:
            continue
        between = [phases[number] for number in known if start <= number <= ends[0]]
        after = [phases[number] for number in known if number > ends[0]][:1]
        changes = [b for a, b in itertools.pairwise(between) if a != b]
        begun = phases[start]
        word = {"forward": Category.TEMPORARY, "backward": Category.OF_BACKWARD, "optimizer": Category.OF_OPTIMIZER}
        stack = {
            "forward": Category.ACTIVATION, "backward": Category.GRADIENT, "optimizer": Category.OPTIMIZER_STATE,
        }  # fmt: skip
        key = start, trace[start]["addr"]
        if not changes and after == [begun]:
            told[key] = {word[begun]}
        elif begun == "forward" and changes == ["backward"]:
            told[key] = {Category.SAVED}
        elif changes:
            told[key] = {stack[begun]}
        else:  # at the border of two phases: what earlier ones of its line were, or what the stack says
            told[key] = {stack[begun], word[begun], *([Category.SAVED] if begun == "forward" else [])}
    return told


def _phase(event: dict[str, Any]) -> str:
    if event["action"] != "alloc":
        return ""
    if not event["frames"]:
        return "backward"
    return "optimizer" if event["frames"][0]["filename"] == ADAM["filename"] else "forward"


def test_a_first_step_that_fails_tells_nothing_of_what_is_saved(tmp_path: Path) -> None:
    device = Device()
    live = _step(device, [2 * MIB, 3 * MIB], [[], []], ends=False)
    found = _live(_ownership(snapshot(device), tmp_path))
    assert {found[address] for addresses in live.values() for address in addresses} == {Category.ACTIVATION}


def test_a_line_that_allocates_both_is_told_apart_by_how_long_they_live(tmp_path: Path) -> None:
    """`softmax(q @ k / 8)` on one line: two are given back at once, the third is saved."""
    device = Device()
    for step in range(3):
        scores = [device.malloc(8 * MIB, _net(10)) for _ in range(3)]
        device.free(scores[0])
        device.free(scores[1])
        middle = [device.malloc(MIB, _net(11)) for _ in range(5)]
        if step == 2:
            break
        device.malloc(512, [])
        for address in [scores[2], *middle]:
            device.free(address)
        device.free(device.malloc(512, []))
    assert _live(_ownership(snapshot(device), tmp_path))[scores[2]] is Category.SAVED


def test_a_larger_batch_is_judged_by_the_lines_of_the_smaller_ones(tmp_path: Path) -> None:
    device = Device()
    for _ in range(2):
        _step(device, [2 * MIB, 3 * MIB], [[], []])
    live = _step(device, [4 * MIB, 6 * MIB], [[], []], ends=False)
    ownership = _ownership(snapshot(device), tmp_path)
    assert {_live(ownership)[address] for addresses in live.values() for address in addresses} == {Category.SAVED}
    end = len(device.events) - 1
    saved = [share for share in ownership.shares(end) if share.part == "activations saved for backward"]
    assert sum(share.bytes for share in saved) == 2 * (4 + 6) * MIB
    assert {share.how_known for share in saved} == {
        "recorded stack, and when earlier blocks of the same stack were freed"
    }


def test_kept_graphs_outlive_all_that_was_ever_given_back(tmp_path: Path) -> None:
    """No block of the kept lines was ever freed: nothing shows that they were saved."""
    ownership = _ownership(snapshot(programs.leak_of_graphs()), tmp_path)
    parts = {share.part for share in ownership.shares(len(ownership.replay.events) - 1)}
    assert "activations saved for backward" not in parts
    assert "activations" in parts


def test_a_cache_replaced_by_a_larger_one_is_not_temporary(tmp_path: Path) -> None:
    ownership = _ownership(snapshot(programs.cache_by_concatenation()), tmp_path)
    (cache,) = {r.owner for r in ownership.readings if r.owner.endswith("13 in forward")}
    end = len(ownership.replay.events) - 1
    held = {share.part: share.bytes for share in ownership.shares(end) if share.owner == cache}
    assert held == {"activations": 5 * 60 * MIB + 11 * 58 * MIB}
    with_cache = {
        share.part: share.bytes for share in ownership.shares(end, frozenset({cache})) if share.owner == cache
    }
    assert with_cache == {"keys and values": 5 * 60 * MIB + 11 * 58 * MIB}


def test_what_no_stack_tells_is_told_by_the_phase_that_the_program_annotated(tmp_path: Path) -> None:
    device = Device()
    begin = device.time_us
    kept = [device.malloc(MIB, [frame("run", FILE, 5), frame("<module>", FILE, 1)]) for _ in range(4)]
    content = snapshot(device)
    content["external_annotations"] = [
        {"stage": stage, "name": "## forward ##", "device": 0, "time_us": time}
        for stage, time in (("START", begin), ("END", device.time_us))
    ]
    ownership = _ownership(content, tmp_path)
    (share,) = ownership.shares(len(device.events) - 1)
    assert (share.part, share.bytes) == ("activations", len(kept) * MIB)
    assert share.how_known == "the program's own annotation of the phase that allocated it"


def test_notes_of_the_program_have_the_last_word(tmp_path: Path) -> None:
    device = Device()
    cache = device.malloc(4 * MIB, _net(10))
    device.events[-1]["user_metadata"] = "KV cache of layer 3"
    weight = device.malloc(2 * MIB, _net(11))
    device.malloc(MIB, [LINEAR_INIT, frame("<module>", FILE, 1)])
    device.events[-1]["user_metadata"] = "weights and gradients"
    device.events.append({**device.events[-2], "action": "annotate", "user_metadata": "my weight", "addr": weight})
    ownership = _ownership(snapshot(device), tmp_path)
    found = _live(ownership)
    assert found[cache] is Category.KV_APPEND
    assert found[weight] is Category.WEIGHTS
    assert sorted(ownership.snapshot.notes) == ["KV cache of layer 3", "my weight", "weights and gradients"]
    assert ownership.snapshot.unknown_keys == ()
    assert np.asarray(ownership.purposes.how).tolist().count(4) == 2, "two words of it say two things: neither counts"


def test_evaluation_gives_back_within_its_phase(tmp_path: Path) -> None:
    device = Device()
    for _ in range(6):
        held = [device.malloc(3 * MIB, _net(10, NO_GRAD)), device.malloc(2 * MIB, _net(11, NO_GRAD))]
        for address in held:
            device.free(address)
    device.malloc(3 * MIB, _net(10, NO_GRAD))
    ownership = _ownership(snapshot(device), tmp_path)
    assert set(_categories(ownership).values()) <= {Category.TEMPORARY, Category.ACTIVATION}
    (share,) = ownership.shares(len(device.events) - 1)
    assert (share.part, share.bytes) == ("temporary tensors of forward passes", 3 * MIB), "as all before it"
