"""Why idle memory does not serve a request, and the least that stands in its way, against an obvious search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from snapshots.make import MIB, Device, snapshot, write

from oomdoctor.allocator import room
from oomdoctor.allocator.request import Request, request_of
from oomdoctor.allocator.room import _least_live, clearing, pinned, unusable
from oomdoctor.allocator.simulation.settings import AllocatorSettings
from oomdoctor.model.snapshot import Snapshot
from oomdoctor.readers.snapshot import read_snapshot


def _read(folder: Path, device: Device) -> Snapshot:
    return read_snapshot(write(folder / "s.pickle", snapshot(device)))


def _with_holes(stream: int = 0, pool: tuple[int, int] = (0, 0)) -> Device:
    """Live blocks of 3, 2 and 4 MiB between holes of 5 MiB in a segment of 24 MiB."""
    device = Device()
    device.malloc(24 * MIB, [], stream, pool)
    (address,) = [segment.address for segment in device.segments]
    device.free(address)
    rows = [device.malloc(size * MIB, [], stream, pool) for size in (3, 5, 2, 5, 4, 5)]
    for row in (1, 3, 5):
        device.free(rows[row])
    return device


def test_holes_are_too_small_and_the_cheapest_stretch_is_found(tmp_path: Path) -> None:
    found = _read(tmp_path, _with_holes())
    (holes,) = unusable(found, Request(0, 8 * MIB))
    assert (holes.reason, holes.bytes, holes.count, holes.largest_bytes) == (room.TOO_SMALL, 15 * MIB, 3, 5 * MIB)
    way = clearing(found, Request(0, 8 * MIB))
    assert way is not None
    # The 2 MiB between the first two holes, not the 4 MiB between the last two.
    assert (way.in_the_way_bytes, len(way.in_the_way), way.hole_bytes) == (2 * MIB, 1, 12 * MIB)
    assert found.blocks.size_bytes[way.in_the_way[0]] == 2 * MIB


def test_a_request_longer_than_any_segment_has_no_stretch(tmp_path: Path) -> None:
    assert clearing(_read(tmp_path, _with_holes()), Request(0, 30 * MIB)) is None


def test_a_hole_that_is_large_enough_needs_nothing_to_go(tmp_path: Path) -> None:
    found = _read(tmp_path, _with_holes())
    assert {each.reason for each in unusable(found, Request(0, 4 * MIB))} == {room.LARGE_ENOUGH}
    way = clearing(found, Request(0, 4 * MIB))
    assert way is not None
    assert way.in_the_way == ()


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        (_with_holes(stream=7), room.OTHER_STREAM),
        (_with_holes(pool=(0, 3)), room.PRIVATE_POOL),
    ],
)
def test_memory_of_another_stream_or_pool_serves_nobody_else(tmp_path: Path, device: Device, reason: str) -> None:
    found = _read(tmp_path, device)
    assert {each.reason: each.bytes for each in unusable(found, Request(0, 3 * MIB))} == {reason: 15 * MIB}
    assert clearing(found, Request(0, 3 * MIB)) is None


def test_the_small_pool_serves_no_large_request(tmp_path: Path) -> None:
    device = Device()
    device.free(device.malloc(1000, []))
    (each,) = unusable(_read(tmp_path, device), Request(0, 3 * MIB))
    assert each.reason == room.OTHER_POOL


def test_a_request_of_a_private_pool_looks_into_that_pool(tmp_path: Path) -> None:
    device = _with_holes(pool=(1, 0))
    device.free(device.malloc(40 * MIB, []))
    found, request = _read(tmp_path, device), Request(0, 8 * MIB, pool=1 << 32)
    reasons = {each.reason: (each.bytes, each.largest_bytes) for each in unusable(found, request)}
    assert reasons == {room.TOO_SMALL: (15 * MIB, 5 * MIB), room.SHARED_POOL: (40 * MIB, 40 * MIB)}
    way = clearing(found, request)
    assert way is not None
    assert way.in_the_way_bytes == 2 * MIB
    assert clearing(found, Request(0, 8 * MIB, pool=2 << 32)) is None


def test_of_several_private_pools_of_a_stream_none_is_taken_for_that_of_the_request(tmp_path: Path) -> None:
    """Releases that do not name the pool of a request, and a recording that holds no other request of the stream."""
    device = Device()
    device.malloc(40 * MIB, [], stream=7, pool=(1, 0))
    only = snapshot(device)
    device.malloc(40 * MIB, [], stream=7, pool=(2, 0))
    both = snapshot(device)
    for content, pool in ((only, 1 << 32), (both, 0)):
        content["device_traces"] = [[{"action": "oom", "size": 60 * MIB, "stream": 7, "device_free": MIB}]]
        found = read_snapshot(write(tmp_path / "s.pickle", content))
        assert request_of(found, found.ooms[0]).pool == pool


def test_the_last_request_of_the_stream_tells_the_pool_of_the_next(tmp_path: Path) -> None:
    device = Device()
    first = device.malloc(40 * MIB, [], stream=7, pool=(1, 0))
    device.malloc(40 * MIB, [], stream=7, pool=(2, 0))
    device.free(first)
    device.malloc(40 * MIB, [], stream=3, pool=(3, 0))
    device.fail(60 * MIB, MIB, [], stream=7)
    found = read_snapshot(write(tmp_path / "s.pickle", snapshot(device)))
    assert request_of(found, found.ooms[0]).pool == 2 << 32


def test_max_split_size_keeps_a_long_hole_from_a_request_that_would_split_it(tmp_path: Path) -> None:
    device = Device()
    device.free(device.malloc(100 * MIB, []))
    found, settings = _read(tmp_path, device), AllocatorSettings(max_split_bytes=64 * MIB)
    for size, reason in ((30, room.NOT_SPLIT), (70, room.NOT_SPLIT), (90, room.LARGE_ENOUGH), (101, room.TOO_SMALL)):
        (each,) = unusable(found, Request(0, size * MIB, settings=settings))
        assert each.reason == reason, size
    assert clearing(found, Request(0, 30 * MIB, settings=settings)) is None
    assert clearing(found, Request(0, 90 * MIB, settings=settings)) is not None


def test_each_hole_is_paired_with_the_live_blocks_beside_it(tmp_path: Path) -> None:
    found = _read(tmp_path, _with_holes())
    holes, live = pinned(found, 0)
    sizes = found.blocks.size_bytes
    beside = sorted((int(sizes[hole]) // MIB, int(sizes[row]) // MIB) for hole, row in zip(holes, live, strict=True))
    assert beside == [(5, 2), (5, 2), (5, 3), (5, 4), (5, 4)]
    assert len(pinned(found, 1)[0]) == 0


def test_blocks_that_wait_are_neither_live_nor_usable(tmp_path: Path) -> None:
    device = Device()
    device.free(device.malloc(24 * MIB, []), waits=True)
    (each,) = unusable(_read(tmp_path, device), Request(0, 3 * MIB))
    assert (each.reason, each.bytes) == (room.WAITING, 24 * MIB)


def test_reasons_add_up_to_all_that_is_reserved_and_not_live(tmp_path: Path) -> None:
    found = _read(tmp_path, _with_holes())
    for size in (512, MIB, 4 * MIB, 9 * MIB):
        live = int(found.blocks.size_bytes[found.blocks.state == 1].sum())
        assert sum(each.bytes for each in unusable(found, Request(0, size))) == found.reserved_bytes - live


def test_devices_are_kept_apart(tmp_path: Path) -> None:
    found = _read(tmp_path, _with_holes())
    moved = replace(found, segments=replace(found.segments, device=found.segments.device + 1))
    assert unusable(moved, Request(0, 8 * MIB)) == ()
    assert clearing(moved, Request(0, 8 * MIB)) is None


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=12), st.integers(1, 30))
def test_no_stretch_has_fewer_live_bytes(blocks: list[tuple[int, bool]], size: int) -> None:
    sizes = np.asarray([bytes_ for bytes_, _ in blocks])
    live = np.asarray([is_live for _, is_live in blocks])
    if sizes.sum() < size:
        return
    cost, count, first, last = _least_live(sizes, live, size)
    stretches = [
        (int(sizes[i:j][live[i:j]].sum()), int(live[i:j].sum()))
        for i in range(len(blocks))
        for j in range(i + 1, len(blocks) + 1)
        if sizes[i:j].sum() >= size
    ]
    assert (cost, count) == min(stretches)
    assert sizes[first : last + 1].sum() >= size
    assert int(sizes[first : last + 1][live[first : last + 1]].sum()) == cost
