"""GIVEN the state at a failure WHEN it is reported THEN why nothing served is said, and the map shows where."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from snapshots.make import MIB, Device, frame, snapshot, write

from oomdoctor.diagnose import diagnose
from oomdoctor.model.failed_request import AddressMap, FailedRequest, MapRow, MapRun, Room, Unused
from oomdoctor.report import render
from oomdoctor.report.failed_request import view_failed_request

MINE = frame("keep", "/home/me/train.py", 31)


def _pinned() -> Device:
    """Five blocks of 20 MiB in one segment; the second and the fourth are freed; 30 MiB is asked for."""
    device = Device()
    device.free(device.malloc(100 * MIB, []))
    rows = [device.malloc(20 * MIB, [MINE]) for _ in range(5)]
    device.free(rows[1])
    device.free(rows[3])
    device.fail(30 * MIB, 4 * MIB, [])
    return device


def test_the_report_says_why_and_whose_block_stands_in_the_way(tmp_path: Path) -> None:
    path = write(tmp_path / "s.pickle", snapshot(_pinned()))
    (failed,) = json.loads(render(diagnose([path]), "json"))["failed_requests"]
    assert failed["unused"] == [{"reason": "too-small", "bytes": 40 * MIB, "count": 2, "largest_bytes": 20 * MIB}]
    assert failed["room"] == {
        "hole_bytes": 60 * MIB,
        "given_back_bytes": 0,
        "in_the_way_bytes": 20 * MIB,
        "in_the_way_count": 1,
        "owners": [{"owner": "/home/me/train.py:31 in keep", "bytes": 20 * MIB, "count": 1}],
    }
    page = render(diagnose([path]), "html")
    assert "asked for 30.00\N{NO-BREAK SPACE}MiB" in page.replace(
        "asked for 30.00 MiB", "asked for 30.00\N{NO-BREAK SPACE}MiB"
    )
    assert 'class="map"' in page
    assert page.count('class="way"') == 1


def test_a_snapshot_of_a_later_moment_draws_the_map_of_the_failure(tmp_path: Path) -> None:
    device = _pinned()
    (then,) = diagnose([write(tmp_path / "s.pickle", snapshot(device))]).failed_requests
    device.malloc(20 * MIB, [MINE])
    diagnosis = diagnose([write(tmp_path / "s.pickle", snapshot(device))])
    (rebuilt,) = diagnosis.failed_requests
    assert rebuilt.undone == len(device.events) - 1 - [each["action"] for each in device.events].index("oom")
    assert replace(rebuilt, undone=0) == then
    page = render(diagnosis, "html")
    assert 'class="map"' in page
    assert "after the failure: this state is rebuilt backwards from it." in page
    assert json.loads(render(diagnosis, "json"))["failed_requests"][0]["undone_events"] == rebuilt.undone


def test_a_moment_that_cannot_be_rebuilt_says_why(tmp_path: Path) -> None:
    device = _pinned()
    address = device.malloc(20 * MIB, [MINE])
    device.free(address)
    content = snapshot(device)
    content["device_traces"][0].pop()
    diagnosis = diagnose([write(tmp_path / "s.pickle", content)])
    assert diagnosis.failed_requests == ()
    page = render(diagnosis, "html")
    assert 'class="map"' not in page
    why = "the state then cannot be rebuilt: the events contradict the final state"
    assert [why in gap.why for gap in diagnosis.missing].count(True) == 1


FAILED = FailedRequest(
    where="cuda:0",
    requested_bytes=30 * MIB,
    needed_bytes=30 * MIB,
    pool="large pool, stream 0",
    captured=False,
    wanted_bytes=30 * MIB,
    device_free_bytes=None,
    room_bytes=None,
    live_bytes=60 * MIB,
    reserved_bytes=100 * MIB,
    largest_hole_bytes=20 * MIB,
    unused=(Unused("too-small", 40 * MIB, 2, 20 * MIB),),
    pinning=(),
    room=Room(60 * MIB, 0, 20 * MIB, 1, ()),
    map=AddressMap(
        100 * MIB, (MapRow("large pool, stream 0", True, 1, 4096, 80 * MIB, (MapRun(0, MIB, "idle"),), ()),)
    ),
    source="s.pickle",
)


def test_what_is_not_known_of_the_device_is_not_said() -> None:
    assert view_failed_request(FAILED).asked == "30.00 MiB was asked for, in one piece of the large pool, stream 0."


def test_without_a_long_segment_nothing_is_told_to_go() -> None:
    view = view_failed_request(replace(FAILED, room=None))
    assert "No segment of its pool is as long as the request" in view.room
    assert view.in_the_way == ()


def test_a_hole_that_is_large_enough_is_not_blamed() -> None:
    view = view_failed_request(
        replace(FAILED, room=None, largest_hole_bytes=40 * MIB, unused=(Unused("large-enough", 40 * MIB, 1, 40 * MIB),))
    )
    assert "none of it served" not in view.reserved
    assert "not the want of a hole" in view.room


def test_the_request_is_drawn_to_the_scale_of_the_rows() -> None:
    view = view_failed_request(FAILED)
    assert view.map.request_width == 0.3
    assert view.map.rows[0].width == 0.8
    assert view.map.rows[0].paths[0].path == "M0 0m0 0v1h40V0"


def test_names_from_the_snapshot_cannot_act_in_the_page(tmp_path: Path) -> None:
    device = Device()
    device.free(device.malloc(100 * MIB, []))
    rows = [device.malloc(20 * MIB, [frame("<script>alert(1)</script>", "/x/\x1b]0;a\x07.py", 1)]) for _ in range(5)]
    device.free(rows[1])
    device.free(rows[3])
    device.fail(30 * MIB, 4 * MIB, [])
    page = render(diagnose([write(tmp_path / "s.pickle", snapshot(device))]), "html")
    assert "<script>alert" not in page
    assert "\x1b" not in page
