"""What a request finds in reserved memory: pools, streams, pins, and what could be released."""

from __future__ import annotations

from pathlib import Path

import pytest
from snapshots.make import MIB, Device, frame, snapshot, write

from oomdoctor.allocator.fragmentation import Fragmentation, fragmentation
from oomdoctor.allocator.request import Request
from oomdoctor.readers.snapshot import read_snapshot

STACK = [frame("f", "a.py", 1)]


def _fragmentation(folder: Path, device: Device, request: int, stream: int = 0) -> Fragmentation:
    found = read_snapshot(write(folder / "s.pickle", snapshot(device)))
    return fragmentation(found, Request(device.index, request, stream))


@pytest.mark.parametrize(
    ("request_bytes", "block", "segment"),
    [
        (0, 512, 2 * MIB),
        (1, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (33 * MIB, 33 * MIB, 34 * MIB),
    ],
)
def test_requests_are_rounded_as_the_allocator_does(request_bytes: int, block: int, segment: int) -> None:
    request = Request(0, request_bytes)
    assert (request.block_bytes, request.segment_bytes) == (block, segment)


def test_a_cut_segment_holds_enough_but_no_piece_is_large_enough(tmp_path: Path) -> None:
    device = Device()
    device.free(device.malloc(100 * MIB, STACK))
    pieces = [device.malloc(20 * MIB, STACK) for _ in range(5)]
    device.free(pieces[0])
    device.free(pieces[2])
    device.free(pieces[3])
    found = _fragmentation(tmp_path, device, 50 * MIB)
    assert found.usable_idle_bytes == 60 * MIB
    assert found.largest_free_block_bytes == 40 * MIB
    assert (found.releasable_bytes, found.pinned_idle_bytes) == (0, 60 * MIB)


def test_pools_and_streams_do_not_serve_each_other(tmp_path: Path) -> None:
    device = Device()
    device.free(device.malloc(30 * MIB, STACK))
    device.free(device.malloc(50 * MIB, STACK, stream=3))
    device.free(device.malloc(70 * MIB, STACK, pool=(0, 1)))
    device.free(device.malloc(512, STACK))
    large, other, small = (
        _fragmentation(tmp_path, device, size, stream) for size, stream in ((20 * MIB, 0), (20 * MIB, 3), (512, 0))
    )
    assert [found.largest_free_block_bytes for found in (large, other, small)] == [30 * MIB, 50 * MIB, 2 * MIB]
    assert large.private_idle_bytes == 70 * MIB
    assert large.releasable_bytes == 82 * MIB


def test_pending_blocks_are_neither_idle_nor_releasable(tmp_path: Path) -> None:
    device = Device()
    device.free(device.malloc(30 * MIB, STACK), waits=True)
    found = _fragmentation(tmp_path, device, 20 * MIB)
    assert (found.pending_free_bytes, found.usable_idle_bytes, found.releasable_bytes) == (30 * MIB, 0, 0)


def test_expandable_segments_give_back_whole_granules(tmp_path: Path) -> None:
    device = Device(expandable=True)
    device.free(device.malloc(100 * MIB, STACK))
    kept = [device.malloc(size, STACK) for size in (30 * MIB, 30 * MIB, 40 * MIB)]
    device.free(kept[1])  # 30..60 MiB idle: only the granule 40..60 lies wholly inside
    found = _fragmentation(tmp_path, device, 20 * MIB)
    assert (found.releasable_bytes, found.pinned_idle_bytes) == (20 * MIB, 10 * MIB)


def test_other_devices_do_not_count(tmp_path: Path) -> None:
    first, second = Device(0), Device(1, base=1 << 50)
    first.free(first.malloc(30 * MIB, STACK))
    second.free(second.malloc(50 * MIB, STACK))
    found = read_snapshot(write(tmp_path / "s.pickle", snapshot(first, second)))
    assert [fragmentation(found, Request(device, 20 * MIB)).usable_idle_bytes for device in (0, 1, 2)] == [
        30 * MIB,
        50 * MIB,
        0,
    ]
