"""The map of segments: to scale, nothing lost, the request's own pool first."""

from __future__ import annotations

import itertools
from pathlib import Path

from snapshots.make import MIB, Device, snapshot, write

from oomdoctor.allocator.address_map import CELLS, IDLE, WAITING, address_map
from oomdoctor.allocator.request import Request
from oomdoctor.model.failed_request import AddressMap
from oomdoctor.model.snapshot import Snapshot
from oomdoctor.readers.snapshot import read_snapshot


def _read(folder: Path, *devices: Device) -> Snapshot:
    return read_snapshot(write(folder / "s.pickle", snapshot(*devices)))


def _map(found: Snapshot, request: int, stream: int = 0, in_the_way: tuple[int, ...] = ()) -> AddressMap:
    return address_map(found, Request(0, request, stream), ["weights"] * len(found.blocks), in_the_way)


def _bytes_of(found: AddressMap, kind: str) -> int:
    return sum(run.bytes for row in found.rows for run in row.runs if run.kind == kind)


def test_kinds_have_their_share_of_the_picture(tmp_path: Path) -> None:
    device = Device()
    rows = [device.malloc(20 * MIB, []) for _ in range(12)]
    for row in rows[::3]:
        device.free(row)
    device.free(rows[1], waits=True)
    found = _map(_read(tmp_path, device), 40 * MIB)
    cell = found.row_bytes / CELLS * len(found.rows)
    assert abs(_bytes_of(found, IDLE) - 80 * MIB) <= cell
    assert abs(_bytes_of(found, WAITING) - 20 * MIB) <= cell
    assert abs(_bytes_of(found, "weights") - 140 * MIB) <= cell
    assert found.omitted_bytes == 0


def test_the_request_fits_a_row_and_all_rows_have_one_scale(tmp_path: Path) -> None:
    device = Device()
    device.malloc(20 * MIB, [])
    found = _map(_read(tmp_path, device), 500 * MIB)
    assert found.row_bytes == 500 * MIB
    assert found.rows[0].used_bytes == 20 * MIB


def test_a_segment_longer_than_a_row_goes_on_in_the_next(tmp_path: Path) -> None:
    device = Device()
    device.malloc(960 * MIB, [])
    found = _map(_read(tmp_path, device), 2 * MIB)
    assert sum(row.used_bytes for row in found.rows) == 960 * MIB
    assert len(found.rows) == 24
    addresses = [row.first_address for row in found.rows]
    assert {b - a for a, b in itertools.pairwise(addresses)} == {found.row_bytes}


def test_the_pool_that_serves_the_request_comes_first(tmp_path: Path) -> None:
    device = Device()
    device.malloc(100 * MIB, [], stream=3)
    device.malloc(1000, [])
    device.malloc(20 * MIB, [])
    found = _map(_read(tmp_path, device), 30 * MIB)
    assert [(row.pool, row.serves_request) for row in found.rows if row.serves_request] == [
        ("large pool, stream 0", True)
    ]
    assert found.rows[0].serves_request
    assert {row.pool for row in found.rows[1:]} == {"large pool, stream 3", "small pool, stream 0"}


def test_what_stands_in_the_way_is_marked_where_it_is(tmp_path: Path) -> None:
    device = Device()
    for _ in range(3):
        device.malloc(20 * MIB, [])
    found = _map(_read(tmp_path, device), 60 * MIB, in_the_way=(1,))
    assert [row.in_the_way for row in found.rows] == [(30 * MIB,)]


def test_many_segments_are_bounded_and_what_is_left_out_is_told(tmp_path: Path) -> None:
    device = Device()
    for stream in range(80):
        device.malloc(20 * MIB, [], stream=stream)
    found = _map(_read(tmp_path, device), 2 * MIB)
    shown = sum(row.used_bytes for row in found.rows)
    assert shown + found.omitted_bytes == 80 * 20 * MIB
    assert found.omitted_bytes > 0


def test_another_device_is_not_on_it(tmp_path: Path) -> None:
    first, second = Device(), Device(1, base=0x7E00_0000_0000)
    first.malloc(20 * MIB, [])
    second.malloc(40 * MIB, [])
    found = _map(_read(tmp_path, first, second), 2 * MIB)
    assert sum(row.used_bytes for row in found.rows) == 20 * MIB
