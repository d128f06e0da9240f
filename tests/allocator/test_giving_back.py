"""Which blocks would have to go: without them the model of the allocator serves the request, with fewer it does not."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snapshots.make import MIB, Device, write
from snapshots.make import snapshot as made_snapshot
from snapshots.recorder import Recorder

from oomdoctor.allocator.giving_back import giving_back
from oomdoctor.allocator.request import Request, request_of
from oomdoctor.allocator.room import clearing
from oomdoctor.allocator.simulation.settings import AllocatorSettings
from oomdoctor.model.snapshot import Snapshot
from oomdoctor.readers.snapshot import read_snapshot

EXPANDABLE = AllocatorSettings(expandable_segments=True)


def read(recorder: Recorder, folder: Path) -> Snapshot:
    return read_snapshot(write(folder / "s.pickle", recorder.snapshot()))


def many_segments() -> Recorder:
    """Segments of 20 MiB with a hole of 17 MiB each, kept by 3, 2, 3 and 2 MiB; 10 MiB are free."""
    recorder = Recorder(90 * MIB)
    for kept in (3, 2, 3, 2):
        first, second = recorder.malloc(kept * MIB), recorder.malloc((20 - kept) * MIB - 512)
        assert first is not None
        assert second is not None
        recorder.free(second)
        recorder.malloc((20 - kept) * MIB - MIB)  # so that the next one needs a segment of its own
    for address, (_, size) in list(recorder.live.items()):
        if size > 3 * MIB:
            recorder.free(address)
    return recorder


def test_segments_go_back_whole_where_no_segment_is_as_long_as_the_request(tmp_path: Path) -> None:
    recorder = many_segments()
    assert recorder.malloc(48 * MIB) is None
    found = read(recorder, tmp_path)
    request = request_of(found, found.ooms[-1])
    assert clearing(found, request) is None
    way = giving_back(found, request, 10 * MIB)
    assert way is not None
    # 38 MiB are missing: two segments, and of the four those that 2 MiB keep.
    assert (way.in_the_way_bytes, len(way.in_the_way), way.given_back_bytes) == (4 * MIB, 2, 40 * MIB)
    assert giving_back(found, request, 48 * MIB) is None
    assert giving_back(found, Request(0, 1000 * MIB), 10 * MIB) is None
    assert giving_back(found, Request(0, 48 * MIB, pool=1 << 32), 10 * MIB) is None  # a graph is captured


def test_a_small_request_needs_a_whole_segment_and_grows_by_whole_pages() -> None:
    assert Request(0, 3 * MIB).driver_bytes == 20 * MIB
    assert Request(0, 33 * MIB).driver_bytes == 34 * MIB
    assert Request(0, 3 * MIB, settings=EXPANDABLE).driver_bytes == 20 * MIB
    assert Request(0, 33 * MIB, settings=EXPANDABLE).driver_bytes == 40 * MIB


def test_private_segments_do_not_go_back(tmp_path: Path) -> None:
    device = Device()
    device.malloc(40 * MIB, [], pool=(1, 0))
    found = read_snapshot(write(tmp_path / "s.pickle", made_snapshot(device)))
    assert giving_back(found, Request(0, 50 * MIB), 20 * MIB) is None


def test_neighbouring_pages_that_one_block_keeps_cost_it_once(tmp_path: Path) -> None:
    """30 MiB reach over two pages; two others are kept by 16 MiB each: cheaper page by page, dearer together."""
    base, blocks, at = 1 << 40, [], 0
    for size, live in ((30, True), (10, False), (16, True), (4, False), (16, True), (4, False)):
        state = "active_allocated" if live else "inactive"
        blocks.append({"address": base + at * MIB, "size": size * MIB, "requested_size": size * MIB, "state": state})
        at += size
    segment = {"address": base, "total_size": at * MIB, "segment_type": "large", "is_expandable": True}
    content = {"segments": [{**segment, "device": 0, "stream": 0, "blocks": blocks}], "device_traces": [[]]}
    found = read_snapshot(write(tmp_path / "s.pickle", content))
    way = giving_back(found, Request(0, 40 * MIB, settings=EXPANDABLE), 0)
    assert way is not None
    assert (way.in_the_way, way.in_the_way_bytes, way.given_back_bytes) == ((0,), 30 * MIB, 40 * MIB)


def in_the_way(snapshot: Snapshot, request: Request, room_bytes: int) -> tuple[list[int], int] | None:
    """Addresses of the cheaper way's blocks, and their bytes."""
    ways = [one for one in (clearing(snapshot, request), giving_back(snapshot, request, room_bytes)) if one is not None]
    if not ways:
        return None
    way = min(ways, key=lambda one: one.in_the_way_bytes)
    return [int(snapshot.blocks.address[row]) for row in way.in_the_way], way.in_the_way_bytes


def is_served_without(recorder: Recorder, addresses: Iterable[int], request: Request) -> bool:
    without = deepcopy(recorder)
    for address in addresses:
        without.free(address)
    return without.malloc(request.requested_bytes, request.stream) is not None


steps = st.lists(
    st.tuples(
        st.sampled_from(["malloc", "malloc", "malloc", "free"]),
        st.integers(0, 10_000),
        st.sampled_from([MIB, MIB + 1, 5 * MIB, 9 * MIB, 12 * MIB, 19 * MIB, 33 * MIB, 64 * MIB]),
    ),
    min_size=4,
    max_size=30,
)


def failed(program: list[tuple[str, int, int]], how: AllocatorSettings, request_bytes: int) -> Recorder:
    recorder = Recorder(150 * MIB, how)
    for what, choice, size in program:
        if what == "malloc":
            recorder.malloc(size, choice % 2)
        elif recorder.live:
            recorder.free(list(recorder.live)[choice % len(recorder.live)])
    while recorder.malloc(request_bytes, 0) is not None:
        pass
    return recorder


sizes = st.sampled_from([3 * MIB, 24 * MIB, 40 * MIB, 100 * MIB])
hows = st.sampled_from([AllocatorSettings(), EXPANDABLE, AllocatorSettings(max_split_bytes=32 * MIB)])


@given(program=steps, how=hows, request_bytes=sizes)
@settings(max_examples=80)
def test_without_what_stands_in_the_way_the_request_is_served(
    tmp_path_factory: pytest.TempPathFactory,
    program: list[tuple[str, int, int]],
    how: AllocatorSettings,
    request_bytes: int,
) -> None:
    recorder = failed(program, how, request_bytes)
    found = read(recorder, tmp_path_factory.mktemp("s"))
    request = request_of(found, found.ooms[-1])
    way = in_the_way(found, request, recorder.device.free_bytes)
    if way is not None:
        assert is_served_without(recorder, way[0], request)


def test_what_goes_back_may_be_what_the_request_was_to_grow_from(tmp_path: Path) -> None:
    recorder = Recorder(150 * MIB, EXPANDABLE)
    recorder.malloc(MIB + 1)
    recorder.malloc(102 * MIB, 1)
    assert recorder.malloc(24 * MIB) is None  # 19 MiB are idle behind the first block, 10 MiB are free
    found = read(recorder, tmp_path)
    request = request_of(found, found.ooms[-1])
    way = giving_back(found, request, recorder.device.free_bytes)
    assert way is not None
    assert way.in_the_way_bytes > 2 * MIB  # without that block its page would go, and two would be needed
    assert is_served_without(recorder, [int(found.blocks.address[row]) for row in way.in_the_way], request)


@pytest.mark.extended
@given(program=steps, request_bytes=sizes)
@settings(max_examples=60)
def test_with_any_fewer_bytes_gone_it_is_not(
    tmp_path_factory: pytest.TempPathFactory, program: list[tuple[str, int, int]], request_bytes: int
) -> None:
    recorder = failed(program, AllocatorSettings(), request_bytes)
    if len(recorder.live) > 8:
        return
    found = read(recorder, tmp_path_factory.mktemp("s"))
    request = request_of(found, found.ooms[-1])
    way = in_the_way(found, request, recorder.device.free_bytes)
    held = {address: block.size for address, (block, _) in recorder.live.items()}
    for count in range(len(held) + 1):
        for gone in combinations(held, count):
            if way is None or sum(held[one] for one in gone) < way[1]:
                assert not is_served_without(recorder, gone, request)
