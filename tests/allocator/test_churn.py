"""GIVEN blocks that came and went WHEN a request fails for want of a hole THEN who left the holes is known."""

from __future__ import annotations

import json
from pathlib import Path

from snapshots import programs
from snapshots.make import MIB, Device, snapshot, write

from oomdoctor.diagnose import diagnose
from oomdoctor.report import render


def _churning(*, one_size: bool = False, later: bool = False) -> Device:
    """Line 20 takes and gives back blocks of twenty sizes between those that line 21 keeps; line 22 fails."""
    device = Device()
    device.free(device.malloc(800 * MIB, programs.at(10)))
    passing = []
    for number in range(20):
        passing.append(device.malloc((20 if one_size else 4 + 2 * number) * MIB, programs.at(20)))
        device.malloc(4 * MIB, programs.at(21))
    for address in passing:
        device.free(address)
    device.fail(90 * MIB, programs.FREE, programs.at(22))
    if later:
        device.malloc(30 * MIB, programs.at(23))
    return device


def test_who_left_the_holes_and_of_how_many_sizes_is_told(tmp_path: Path) -> None:
    for later in (False, True):
        found = diagnose([write(tmp_path / "s.pickle", snapshot(_churning(later=later)))])
        (failed,) = json.loads(render(found, "json"))["failed_requests"]
        holes = sum(each["bytes"] for each in failed["unused"] if each["reason"] == "too-small")
        first = failed["churn"][0]
        assert (first["owner"], first["freed"], first["sizes"]) == (f"{programs.FILE}:20 in <module>", 20, 20)
        assert (first["smallest_bytes"], first["largest_bytes"]) == (4 * MIB, 42 * MIB)
        assert sum(each["hole_bytes"] for each in failed["churn"]) == holes
        names = ("churn_owner", "churn_sizes", "churn_freed")
        facts = [found.facts[f"allocator.{name}@cuda:0"].value for name in names]
        assert facts == [f"{programs.FILE}:20 in <module>", 20, 20]
        said = "it freed 20 blocks, of 20 sizes from 4.00 MiB to 42.00 MiB"
        assert said in " ".join(render(found, "html").split())


def test_blocks_of_one_size_are_no_churn_of_sizes(tmp_path: Path) -> None:
    found = diagnose([write(tmp_path / "s.pickle", snapshot(_churning(one_size=True)))])
    assert "allocator.churn_owner@cuda:0" not in found.facts
    assert found.failed_requests[0].churn[0].sizes == 1
    assert "sizes from" not in render(found, "html")
