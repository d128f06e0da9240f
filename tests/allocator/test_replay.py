"""The replay, held against what a model allocator knew at every event, and against a slow, obvious replay."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snapshots.make import MIB, Device, frame, snapshot, write
from snapshots.recorder import Recorder
from snapshots.slow import sizes_of_gone, to_512

from oomdoctor.allocator.replay import BEFORE_RING, Replay, replay
from oomdoctor.allocator.request import settings_of
from oomdoctor.allocator.simulation.rounding import block_size
from oomdoctor.allocator.simulation.settings import INTERVALS, AllocatorSettings
from oomdoctor.allocator.whole_blocks import block_sizes
from oomdoctor.readers.snapshot import read_snapshot

GENUINE = Path(__file__).parents[3] / "shared" / "snapshots"
SIZES = (1, 512, 700, 100_000, MIB, 3 * MIB, 12 * MIB, 33 * MIB)
STACKS = [[frame("f", f"{name}.py", 1)] for name in "abc"]


def _replay(content: object, folder: Path, device: int = 0) -> Replay:
    return replay(read_snapshot(write(folder / "s.pickle", content)), device)


def slow_backwards(
    content: dict[str, Any], device: int, rounded: Callable[[int], int] = to_512
) -> tuple[int, list[int], int]:
    """Live bytes before the first event and after each one: undo one event after the other, from the final state.

    The last: how many blocks are not known to have been no larger.
    """
    gone = sizes_of_gone(content, device, rounded)
    live = {
        block["address"]: block["size"]
        for segment in content["segments"]
        if segment["device"] == device
        for block in segment["blocks"]
        if block["state"] != "inactive"
    }
    after, total = [], sum(live.values())
    trace = content["device_traces"][device]
    for number in range(len(trace) - 1, -1, -1):
        event = trace[number]
        after.append(total)
        if event["action"] == "alloc":
            total -= live.pop(event["addr"])
        elif event["action"] == "free_completed":
            live[event["addr"]] = gone[number][0]
            total += live[event["addr"]]
    return total, after[::-1], sum(not known for _, known in gone.values())


def slow_state(
    content: dict[str, Any], device: int, event: int
) -> tuple[dict[int, tuple[int, str | None]], dict[int, int], int]:
    """After an event: what is live (address: size and file of who allocated it), of it what waits for another stream,
    and the bytes reserved, by undoing one event after the other.
    """
    gone = sizes_of_gone(content, device)
    live: dict[int, tuple[int, str | None]] = {}
    waiting: dict[int, int] = {}
    reserved = 0
    for segment in content["segments"]:
        if segment["device"] == device:
            reserved += segment["total_size"]
            for block in segment["blocks"]:
                if block["state"] != "inactive":
                    live[block["address"]] = block["size"], block["frames"][0]["filename"]
                if block["state"] == "active_pending_free":
                    waiting[block["address"]] = block["size"]
    trace = content["device_traces"][device]
    for number in range(len(trace) - 1, event, -1):
        undone = trace[number]
        address, size = undone.get("addr", 0), gone.get(number, (0, True))[0]
        match undone["action"]:
            case "alloc":
                del live[address]
            case "free_requested":
                del waiting[address]
            case "free_completed":
                # Who allocated it is known where that is in the ring.
                made = [e for e in trace[:number] if e["action"] == "alloc" and e["addr"] == address]
                live[address] = size, made[-1]["frames"][0]["filename"] if made else None
                waiting[address] = size
            case "segment_alloc" | "segment_map":
                reserved -= undone["size"]
            case "segment_free" | "segment_unmap":
                reserved += undone["size"]
    return live, waiting, reserved


steps = st.lists(
    st.tuples(
        st.sampled_from(["malloc", "malloc", "malloc", "free", "wait", "complete", "release", "fail"]),
        st.integers(0, 1000),
        st.sampled_from(SIZES),
    ),
    max_size=60,
)


def run(program: list[tuple[str, int, int]], device: Device) -> None:
    live: list[int] = []
    waiting: list[int] = []
    for what, choice, size in program:
        if what == "malloc":
            live.append(device.malloc(size, STACKS[choice % 3], stream=choice % 2))
        elif what in ("free", "wait") and live:
            address = live.pop(choice % len(live))
            device.free(address, waits=what == "wait")
            if what == "wait":
                waiting.append(address)
        elif what == "complete" and waiting:
            device.complete(waiting.pop(choice % len(waiting)))
        elif what == "release":
            device.release_idle()
        elif what == "fail":
            device.fail(size, 0, STACKS[0])


@given(program=steps, kept=st.integers(1, 80), expandable=st.booleans())
@settings(max_examples=80)
def test_every_event_of_a_cut_ring_is_as_the_allocator_knew_it(
    tmp_path_factory: pytest.TempPathFactory, program: list[tuple[str, int, int]], kept: int, expandable: bool
) -> None:
    device = Device(expandable=expandable)
    run(program, device)
    content = snapshot(device, ring=kept)
    found = _replay(content, tmp_path_factory.getbasetemp())
    count = len(content["device_traces"][0])
    before = device.live[-count - 1] if len(device.live) > count else 0
    slow_before, slow_after, unsure = slow_backwards(content, 0)
    assert len(found.lifetimes.may_be_more) == unsure
    if unsure:
        most = [before, *device.live[-kept:]]
        told = [found.before_bytes, *found.live_bytes.tolist()]
        assert all(least <= truth <= least + unsure * MIB for least, truth in zip(told, most, strict=True))
        assert found.peak_bytes <= max(most) <= found.peak_bytes + found.peak_may_be_more_bytes
        return
    assert found.live_bytes.tolist() == device.live[-kept:]
    assert found.reserved_bytes.tolist() == device.reserved[-kept:]
    assert found.before_bytes == before
    assert (found.before_bytes, found.live_bytes.tolist()) == (slow_before, slow_after)
    assert found.peak_bytes == max([before, *device.live[-kept:]])
    assert found.live_at(found.peak_event) == found.peak_bytes
    assert found.disagreement.total == 0
    for event in (BEFORE_RING, count // 2, count - 1):
        if event < count:
            lifetimes = found.lifetimes
            assert int(lifetimes.size_bytes[lifetimes.live_after(event)].sum()) == found.live_at(event)


@given(
    program=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1000), st.integers(1, 60 * MIB)), max_size=80),
    used=st.sampled_from(
        [
            AllocatorSettings(),
            AllocatorSettings(roundup_power2_divisions=(2,) * INTERVALS),
            AllocatorSettings(roundup_power2_divisions=(0, 1, 4, 8) * (INTERVALS // 4)),
            AllocatorSettings(max_split_bytes=24 * MIB),
            AllocatorSettings(expandable_segments=True, roundup_power2_divisions=(4,) * INTERVALS),
        ]
    ),
)
@settings(max_examples=80, deadline=None)
def test_blocks_that_are_gone_count_as_large_as_the_allocator_made_them(
    tmp_path_factory: pytest.TempPathFactory, program: list[tuple[int, int, int]], used: AllocatorSettings
) -> None:
    """The rest that is not split off, and what roundup_power2_divisions adds, no event tells."""
    recorder, live = Recorder(700 * MIB, used), []
    for what, choice, size in program:
        if what and live:
            recorder.free(live.pop(choice % len(live)))
        elif choice == 7:
            recorder.empty_cache()
        address = recorder.malloc(size if what < 3 else size // 64 + 1)
        live += [] if address is None else [address]
    for address in live:
        recorder.free(address)
    found = _replay(recorder.snapshot(), tmp_path_factory.getbasetemp())
    assert [0, *found.live_bytes.tolist()][:-1] == [sum(sizes.values()) for _, sizes in recorder.maps]
    assert not found.lifetimes.may_be_more


@given(program=steps, kept=st.integers(1, 80), expandable=st.booleans(), chosen=st.integers(0, 1000))
@settings(max_examples=40)
def test_what_is_live_waiting_and_reserved_is_what_undoing_the_events_leaves(
    tmp_path_factory: pytest.TempPathFactory,
    program: list[tuple[str, int, int]],
    kept: int,
    expandable: bool,
    chosen: int,
) -> None:
    devices = Device(0, expandable=expandable), Device(1, base=(1 << 63) + (1 << 54) + 512)
    run(program[::2], devices[0])
    run(program[1::2], devices[1])
    content = snapshot(*devices, ring=kept)
    read = read_snapshot(write(tmp_path_factory.getbasetemp() / "s.pickle", content))
    for device in devices:
        found, index = replay(read, device.index), device.index
        count = len(found.events)
        # The peak is where undoing finds most live, and what was live then is the same.
        totals = [sum(size for size, _ in slow_state(content, index, at)[0].values()) for at in range(-1, count)]
        assert found.peak_bytes == max(totals)
        peaks = [at - 1 for at, total in enumerate(totals) if total == max(totals)]
        assert found.peak_event == next((event for event in peaks if event >= 0), BEFORE_RING)
        for event in {found.peak_event, chosen % (count + 1) - 1}:
            live, waiting, reserved = slow_state(content, index, event)
            rows = found.lifetimes.live_after(event)
            stacks = [read.stacks[row][0].file if row >= 0 else None for row in found.lifetimes.stack[rows].tolist()]
            assert sorted(zip(found.lifetimes.size_bytes[rows].tolist(), map(str, stacks), strict=True)) == sorted(
                (size, str(file)) for size, file in live.values()
            )
            assert found.pending_at(event) == sum(waiting.values())
            assert found.reserved_at(event) == reserved


@given(st.lists(st.integers(1, 1 << 40), min_size=1), st.sampled_from([0, 1, 2, 4, 16]), st.sampled_from([0, 32]))
def test_a_column_is_rounded_as_one_request_is(sizes: list[int], divisions: int, padding: int) -> None:
    used = AllocatorSettings(roundup_power2_divisions=(divisions,) * INTERVALS, padding_bytes=padding)
    assert block_sizes(np.asarray(sizes, dtype=np.int64), used).tolist() == [block_size(size, used) for size in sizes]


@given(program=steps, drop=st.integers(0, 200))
@settings(max_examples=60)
def test_a_history_with_a_hole_still_ends_in_the_final_state(
    tmp_path_factory: pytest.TempPathFactory, program: list[tuple[str, int, int]], drop: int
) -> None:
    device = Device()
    run(program, device)
    if not device.events:
        return
    truth = device.live[-1]
    del device.events[drop % len(device.events)]
    found = _replay(snapshot(device), tmp_path_factory.getbasetemp())
    assert found.live_at(len(device.events) - 1 if device.events else BEFORE_RING) == truth
    assert int(found.live_bytes.min(initial=0)) >= 0


def test_each_kind_of_contradiction_is_counted(tmp_path: Path) -> None:
    def contradictions(*actions: str, live: bool) -> tuple[int, int, int, int]:
        device = Device()
        address = device.malloc(512, STACKS[0])
        if not live:
            device.free(address)
        device.events = [{"action": action, "addr": address, "size": 512, "frames": []} for action in actions]
        found = _replay(snapshot(device), tmp_path).disagreement
        return found.allocated_twice, found.freed_twice, found.missing_at_end, found.revived_at_end

    assert contradictions("alloc", live=True) == (0, 0, 0, 0)
    assert contradictions("alloc", "alloc", live=True) == (1, 0, 0, 0)
    assert contradictions("free_completed", "free_completed", live=False) == (0, 1, 0, 0)
    assert contradictions("alloc", live=False) == (0, 0, 1, 0)
    assert contradictions("alloc", "free_completed", live=True) == (0, 0, 0, 1)


def test_segments_that_grow_and_shrink_by_parts_are_reserved_as_far_as_they_are_mapped(tmp_path: Path) -> None:
    """Expandable segments: granules are mapped behind each other, and given back from the middle."""
    base, part = 1 << 40, 20 * MIB
    parts = [("segment_map", 0), ("segment_map", 1), ("segment_map", 2), ("segment_unmap", 1)]
    content = {
        "segments": [
            {
                "device": 0, "address": base + at * part, "total_size": part, "stream": 0, "segment_type": "large",
                "is_expandable": True, "frames": [],
                "blocks": [{"address": base + at * part, "size": part, "requested_size": 0, "state": "inactive"}],
            }
            for at in (0, 2)
        ],
        "device_traces": [
            [
                {"action": action, "addr": base + at * part, "size": part, "stream": 0, "frames": []}
                for action, at in parts
            ]
        ],
    }  # fmt: skip
    found = _replay(content, tmp_path)
    assert found.reserved_bytes.tolist() == [part, 2 * part, 3 * part, 2 * part]
    assert (found.reserved_before_bytes, found.peak_reserved_bytes) == (0, 3 * part)
    assert found.disagreement.total == 0


def test_events_alone_are_not_contradicted_by_a_state_that_is_not_there(tmp_path: Path) -> None:
    device = Device()
    device.malloc(512, STACKS[0])
    found = _replay({"device_traces": snapshot(device)["device_traces"]}, tmp_path)
    assert found.disagreement.total == 0


def test_a_block_that_is_still_live_has_its_final_size(tmp_path: Path) -> None:
    """A remainder too small to split stays with the block: the final state knows it, the event does not."""
    device = Device()
    device.malloc(3 * MIB, STACKS[0])
    content = snapshot(device)
    first, rest = content["segments"][0]["blocks"]
    first["size"] += rest["size"]
    content["segments"][0]["blocks"] = [first]
    assert _replay(content, tmp_path).live_bytes.tolist() == [0, 20 * MIB]


def test_two_final_blocks_at_one_address_are_both_counted(tmp_path: Path) -> None:
    device = Device()
    device.malloc(512, STACKS[0])
    device.malloc(512, STACKS[0])
    content = snapshot(device) | {"device_traces": [[]]}
    for block in content["segments"][0]["blocks"]:
        block["address"] = 4096
    assert _replay(content, tmp_path).before_bytes == 1024


def test_no_history_is_not_an_empty_one(tmp_path: Path) -> None:
    device = Device()
    device.malloc(3 * MIB, STACKS[0])
    found = _replay(snapshot(device, ring=None) | {"device_traces": [[]]}, tmp_path)
    assert (found.has_history, found.starts_empty, found.before_bytes) == (False, False, 3 * MIB)
    assert (found.peak_event, found.peak_bytes) == (BEFORE_RING, 3 * MIB)


def test_a_peak_before_the_ring_is_found(tmp_path: Path) -> None:
    device = Device()
    address = device.malloc(33 * MIB, STACKS[0])
    device.free(address)
    device.malloc(512, STACKS[0])
    content = snapshot(device)
    content["device_traces"] = [content["device_traces"][0][-3:]]
    found = _replay(content, tmp_path)
    assert (found.peak_event, found.peak_bytes) == (BEFORE_RING, 34 * MIB)
    assert found.peak_may_be_more_bytes == 0
    assert not found.starts_empty


def test_what_waits_for_another_stream_is_live_and_pending(tmp_path: Path) -> None:
    device = Device()
    first, second = device.malloc(512, STACKS[0]), device.malloc(3 * MIB, STACKS[0])
    device.free(first, waits=True)
    device.free(second, waits=True)
    middle = len(device.events) - 1
    device.complete(first)
    found = _replay(snapshot(device), tmp_path)
    assert [found.pending_at(event) for event in (middle - 2, middle - 1, middle, middle + 1)] == [
        0, 512, 512 + 3 * MIB, 3 * MIB,
    ]  # fmt: skip
    assert found.live_at(middle) == 512 + 3 * MIB
    assert (found.is_final(middle), found.is_final(middle + 1)) == (False, True)


def test_when_the_program_gave_each_block_back(tmp_path: Path) -> None:
    """Of an address that is used again each use has its own request; what the ring forgot was asked for before it."""
    device = Device()
    kept = device.malloc(2 * MIB, STACKS[0])
    first = device.malloc(512, STACKS[0])
    device.free(first, waits=True)
    asked_first = len(device.events) - 1
    device.malloc(3 * MIB, STACKS[0])
    device.complete(first)
    again = device.malloc(512, STACKS[0])
    assert again == first
    device.free(again, waits=True)
    asked_again = len(device.events) - 1
    device.complete(again)
    device.free(kept)
    found = _replay(snapshot(device), tmp_path)
    uses = found.lifetimes.address == first
    assert sorted(found.given_back[uses].tolist()) == [asked_first, asked_again]
    assert found.given_back[found.lifetimes.address == kept].tolist() == [len(device.events) - 2]
    assert found.given_back[found.lifetimes.size_bytes == 3 * MIB].tolist() == [len(device.events)]
    ring = len(device.events) - asked_first - 1
    cut = _replay(snapshot(device, ring=ring), tmp_path)
    assert sorted(cut.given_back[cut.lifetimes.address == first].tolist()) == [
        BEFORE_RING,
        asked_again - asked_first - 1,
    ]


@pytest.mark.skipif(not GENUINE.exists(), reason="the genuine snapshots are not beside this checkout")
@pytest.mark.parametrize("name", [f"real-{number:02}" for number in range(1, 17)])
def test_genuine_histories_agree_with_the_slow_replay_and_contradict_nothing(name: str) -> None:
    path = GENUINE / f"{name}.pickle"
    with path.open("rb") as file:
        content = pickle.load(file)
    for segment in content["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:  # old ones have no address
            address = block.setdefault("address", address) + block["size"]
    read = read_snapshot(path)
    before, after, _ = slow_backwards(content, 0, partial(block_size, settings=settings_of(read, 0)))
    found = replay(read, 0)
    assert (found.before_bytes, found.live_bytes.tolist()) == (before, after)
    assert found.peak_bytes == max([before, *after])
    assert found.disagreement.total == 0


@pytest.mark.skipif(not GENUINE.exists(), reason="the genuine snapshots are not beside this checkout")
def test_forwards_only_would_understate_the_peak_of_a_genuine_ring() -> None:
    path = GENUINE / "real-06.pickle"
    with path.open("rb") as file:
        content = pickle.load(file)
    live: dict[int, int] = {}
    forwards = 0
    for event in content["device_traces"][0]:
        if event["action"] == "alloc":
            live[event["addr"]] = event["size"]
            forwards = max(forwards, sum(live.values()))
        elif event["action"] == "free_completed":
            live.pop(event["addr"], None)
    read = read_snapshot(path)
    before, after, _ = slow_backwards(content, 0, partial(block_size, settings=settings_of(read, 0)))
    found = replay(read, 0)
    assert forwards < 8.43 * (1 << 30) < 11.5 * (1 << 30) < found.peak_bytes
    assert found.peak_bytes == max(before, *after)
    assert found.peak_bytes <= found.reserved_at(found.peak_event), "no more can be live than is reserved"
