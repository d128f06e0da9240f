"""GIVEN a snapshot WHEN it is exported for torch's viewers THEN they open it, and our reader finds the same in it.

The invariants were read in torch/utils/viz/MemoryViz.js and torch/cuda/_memory_viz.py (November 2026).
"""

from __future__ import annotations

import copy
import importlib.util
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from snapshots import programs
from snapshots.make import MIB, Device, frame, snapshot, without_addresses, write

from oomdoctor.cli.main import oomdoctor
from oomdoctor.errors import InputRefused
from oomdoctor.export.viewer_pickle import write_viewer_pickle
from oomdoctor.model.snapshot import Snapshot
from oomdoctor.readers.snapshot import read_snapshot

OPCODES = {
    "APPEND", "APPENDS", "BINFLOAT", "BINGET", "BININT", "BININT1", "BININT2", "BINPUT", "BINUNICODE", "DICT",
    "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "FRAME", "LIST", "LONG1", "LONG_BINGET", "LONG_BINPUT", "MARK",
    "MEMOIZE", "NEWFALSE", "NEWTRUE", "NONE", "PROTO", "SETITEM", "SETITEMS", "SHORT_BINUNICODE", "STOP", "TUPLE",
    "TUPLE1", "TUPLE2", "TUPLE3",
}  # fmt: skip
STACK = [frame("step", "/home/me/train.py", 7)]


def _exported(folder: Path, content: object, **how: Any) -> Path:
    source, target = write(folder / "source.pickle", content, **how), folder / "viewer.pickle"
    write_viewer_pickle(source, target)
    return target


def _told(found: Snapshot) -> dict[str, Any]:
    """All that two files of one snapshot have in common, each stack by its frames."""

    def columns(rows: Any) -> dict[str, Any]:
        told = {name: each.tolist() for name, each in vars(rows).items() if isinstance(each, np.ndarray)}
        told["stack"] = [found.stacks[row] if row >= 0 else () for row in told["stack"]]
        return told

    return {
        "segments": columns(found.segments),
        "blocks": columns(found.blocks),
        "events": [columns(trace) for trace in found.events if len(trace)],
        "ooms": [(o.device, o.requested_bytes, o.free_bytes, o.event_index) for o in found.ooms],
        "unknown": found.unknown_keys,
        "settings": found.settings,
    }


def _check_what_viewers_rely_on(path: Path) -> dict[str, Any]:
    opcodes = list(pickletools.genops(path.read_bytes()))
    assert {opcode.name for opcode, _, _ in opcodes} <= OPCODES
    assert opcodes[0][1] == 4
    content: dict[str, Any] = pickle.loads(path.read_bytes())
    for segment in content["segments"]:
        assert 0 <= segment["device"] < len(content["device_traces"])
        # They count addresses up from that of the segment; a live block outside of it makes the viewer fail.
        end = 0
        for block in segment["blocks"]:
            assert block["state"] in ("active_allocated", "active_pending_free", "inactive")
            assert block["state"] == "inactive" or end < segment["total_size"]
            assert isinstance(block["frames"], (list, tuple))
            end += block["size"]
            assert 0 <= block["requested_size"] <= block["size"]
        assert segment["allocated_size"] <= segment["total_size"] == end
        # JavaScript adds no BigInt, which longer numbers become, to a number.
        assert all(-(1 << 63) <= segment[key] < 1 << 63 for key in ("address", "stream"))
    for event in (event for trace in content["device_traces"] for event in trace):
        assert isinstance(event["frames"], (list, tuple))
        for each in event["frames"]:
            assert [type(each[key]) for key in ("name", "filename", "line")] == [str, str, int]
        if event["action"] != "oom":
            assert -(1 << 63) <= event["addr"] < 1 << 63
            assert event["size"] >= 0
    return content


steps = st.lists(
    st.tuples(
        st.sampled_from(["malloc", "malloc", "malloc", "free", "wait", "complete", "release", "fail"]),
        st.integers(0, 1000),
        st.sampled_from([1, 512, MIB, 2 * MIB + 1, 30 * MIB]),
    ),
    max_size=30,
)


def _run(program: list[tuple[str, int, int]], device: Device) -> None:
    live: list[int] = []
    waiting: list[int] = []
    for what, choice, size in program:
        if what == "malloc":
            live.append(device.malloc(size, STACK, stream=choice % 2, pool=(0, choice % 3 // 2)))
        elif what in ("free", "wait") and live:
            address = live.pop(choice % len(live))
            device.free(address, waits=what == "wait")
            waiting += [address] * (what == "wait")
        elif what == "complete" and waiting:
            device.complete(waiting.pop(choice % len(waiting)))
        elif what == "release":
            device.release_idle()
        elif what == "fail":
            device.fail(size, 0, STACK)


@given(
    program=steps,
    base=st.sampled_from([0x7F00_0000_0000, (1 << 53) + (1 << 30), (1 << 64) - (1 << 40)]),
    expandable=st.booleans(),
    device=st.sampled_from([0, 0, 3]),
    form=st.sampled_from(["now", "old", "list"]),
    lacking=st.sets(
        st.sampled_from(["total_size", "allocated_size", "requested_size", "frames", "device", "time_us", "address"])
    ),
    protocol=st.sampled_from([2, 4, 5]),
)
@settings(max_examples=60)
def test_the_exported_file_reads_the_same_and_has_what_viewers_rely_on(
    tmp_path_factory: pytest.TempPathFactory,
    program: list[tuple[str, int, int]],
    base: int,
    expandable: bool,
    device: int,
    form: str,
    lacking: set[str],
    protocol: int,
) -> None:
    made = Device(index=device, base=base, expandable=expandable)
    _run(program, made)
    content: Any = copy.deepcopy(snapshot(*(Device(index) for index in range(device)), made))
    if form == "old":
        content = without_addresses(content)
    if "address" in lacking:
        lacking -= {"address"}
        for segment in content["segments"]:
            for block in segment["blocks"]:
                block.pop("address", None)
    for row in [*content["segments"], *(b for s in content["segments"] for b in s["blocks"])]:
        for key in lacking:
            row.pop(key, None)
    for event in (event for trace in content["device_traces"] for event in trace):
        for key in lacking & {"frames", "time_us"}:
            event.pop(key, None)
    if form == "list":
        content = content["segments"]
    folder = tmp_path_factory.getbasetemp()
    before = _told(read_snapshot(write(folder / "before.pickle", content)))
    path = _exported(folder, content, protocol=protocol)
    _check_what_viewers_rely_on(path)
    assert _told(read_snapshot(path)) == before


def _viewer_of_torch() -> Any:
    """It needs no torch, whose import takes seconds."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("torch is not installed here")
    own = importlib.util.spec_from_file_location("_memory_viz", Path(spec.origin).parent / "cuda" / "_memory_viz.py")
    assert own is not None
    assert own.loader is not None
    viewer = importlib.util.module_from_spec(own)
    own.loader.exec_module(viewer)
    return viewer


def test_pythons_own_viewer_reads_the_exported_file(tmp_path: Path) -> None:
    viewer = _viewer_of_torch()
    device = programs.kept_outputs()
    device.fail(1 << 30, 5 << 20, STACK)
    for content in (snapshot(device), without_addresses(snapshot(device)), snapshot(device)["segments"]):
        loaded = pickle.loads(_exported(tmp_path, copy.deepcopy(content), packed=True).read_bytes())
        assert f"segments: {len(loaded['segments'])}" in viewer.segsum(loaded)
        trace = viewer.trace(loaded)
        assert "raise OutOfMemoryError # 1.0GiB requested, 5.0MiB free" in trace or not loaded["device_traces"][0]
        for told in (viewer.memory, viewer.segments):
            lines = told(loaded, format_flamegraph=lambda text: text).splitlines()
            sizes = [int(line.rsplit(" ", 1)[1]) for line in lines]
            assert sum(sizes) == sum(segment["total_size"] for segment in loaded["segments"])


def test_values_whose_opcodes_the_viewer_does_not_know_are_written_as_text(tmp_path: Path) -> None:
    device = Device()
    device.malloc(512, STACK)
    content = copy.deepcopy(snapshot(device))
    content["build"] = {"hash": b"\xffab", "flags": {"b", "a"}, "longest": 1 << 3000}
    content["segments"][0]["mask"] = b"\x01"
    content["device_traces"][0][0]["tags"] = {"x"}
    content["device_traces"][0].append({"action": None})
    before = _told(read_snapshot(write(tmp_path / "before.pickle", content)))
    path = _exported(tmp_path, content)
    found = _check_what_viewers_rely_on(path)
    assert found["build"] == {"hash": "\\xffab", "flags": ["a", "b"], "longest": hex(1 << 3000)}
    assert found["device_traces"][0][0]["tags"] == ["x"]
    assert _told(read_snapshot(path)) == before


def test_stacks_stay_shared(tmp_path: Path) -> None:
    device = Device()
    for _ in range(200):
        device.malloc(512, STACK)
    path = _exported(tmp_path, snapshot(device))
    assert path.stat().st_size <= (tmp_path / "source.pickle").stat().st_size


@pytest.mark.parametrize("wrong", ["segments", "block", "overrun"])
def test_what_the_reader_or_the_viewer_refuses_is_not_written(tmp_path: Path, wrong: str) -> None:
    device = Device()
    device.malloc(512, STACK)
    device.malloc(512, STACK)
    content: Any = copy.deepcopy(snapshot(device))
    if wrong == "segments":
        content["segments"] = "none"
    elif wrong == "block":
        content["segments"][0]["blocks"][0]["size"] = -1
    else:
        content["segments"][0]["total_size"] = 512
    path = write(tmp_path / "wrong.pickle", content)
    target = tmp_path / "out"
    ended = CliRunner().invoke(oomdoctor, ["export", str(path), "--to", "viewer", "--output", str(target)])
    assert isinstance(ended.exception, InputRefused)
    assert "wrong.pickle" in str(ended.exception)
    assert not target.exists()
    if wrong == "overrun":
        assert "0x7f0000000000" in str(ended.exception)
        assert "`--to csv` writes the snapshot as it is" in str(ended.exception)
