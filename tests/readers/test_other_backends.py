"""GIVEN snapshots as torch on XPU, NPU and ROCm writes them WHEN they are read THEN nothing in them is lost or fatal.

Read in torch/csrc/xpu/Module.cpp of PyTorch and torch_npu/csrc/npu/Module.cpp and memory_snapshot.cpp of Ascend/pytorch
(November 2026). ROCm is torch.cuda under other names in the C++ frames.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from snapshots.make import MIB, Device, Stack, frame, snapshot, write

from oomdoctor.cli.main import oomdoctor
from oomdoctor.export.viewer_pickle import write_viewer_pickle
from oomdoctor.model.snapshot import ACTIONS, Snapshot
from oomdoctor.readers.snapshot import read_snapshot

PYTHON = [frame("step", "/home/me/train.py", 7)]
BEYOND_DOUBLES = 0xFF01_2345_6780_0000
"""Of XPU: the upper half of the address space, which no double holds exactly."""
QUEUE = 0x0055_5A1B_2C3D_4E50


def _device(stack: Stack, base: int, stream: int) -> Device:
    device = Device(base=base)
    kept = [device.malloc(3 * MIB, stack, stream=stream) for _ in range(4)]
    device.free(kept[1], stack)
    device.free(kept[2], stack, waits=True)
    device.fail(1 << 34, 5 * MIB, stack, stream=stream)
    return device


def xpu(stack: Stack = PYTHON) -> dict[str, Any]:
    """Streams are addresses of SYCL queues; two settings, no annotations; events carry times."""
    content = copy.deepcopy(snapshot(_device(stack, BEYOND_DOUBLES, QUEUE)))
    del content["external_annotations"]
    content["allocator_settings"] = {"PYTORCH_ALLOC_CONF": "", "expandable_segments": False}
    for segment in content["segments"]:
        segment["requested_size"] = sum(block["requested_size"] for block in segment["blocks"])
    return content


def npu(stack: Stack = PYTHON) -> dict[str, Any]:
    """No times, no settings; the allocator of workspaces puts its segments behind and its events before the others."""
    workspace = Device(base=0x12C0_C000_0000)
    workspace.malloc(16 * MIB, stack)
    content = copy.deepcopy(snapshot(_device(stack, 0x12C1_0000_0000, -0x7F01)))
    content["segments"] += copy.deepcopy(workspace.state())
    marks = {"action": "workspace_snapshot", "addr": 0, "size": 16 * MIB, "stream": 0}
    content["device_traces"][0][:0] = [*copy.deepcopy(workspace.events), marks]
    for event in content["device_traces"][0]:
        event.pop("time_us", None)
    del content["external_annotations"], content["allocator_settings"]
    return content


def old_npu() -> list[dict[str, Any]]:
    """torch_npu before it recorded histories: a bare list, without streams, addresses of blocks or requested sizes."""
    kept = ("device", "address", "total_size", "allocated_size", "active_size", "segment_type", "blocks")
    segments = [{key: each[key] for key in kept} for each in _device(PYTHON, 0x12C1_0000_0000, 0).state()]
    for segment in segments:
        segment["blocks"] = [{key: block[key] for key in ("size", "state")} for block in segment["blocks"]]
    return segments


MALLOC = frame(
    "c10::hip::HIPCachingAllocator::Native::NativeCachingAllocator::malloc(void**, signed char, unsigned long)", "??", 0
)


def rocm(*native: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(snapshot(_device([*native, *PYTHON], 0x7F00_0000_0000, 0)))


def _read(folder: Path, content: object) -> Snapshot:
    return read_snapshot(write(folder / "snapshot.pickle", content))


@pytest.mark.parametrize(
    ("content", "backend", "schema"),
    [
        (xpu(), "xpu", "native"),
        (xpu([frame("_lazy_init", "/env/lib/python3.12/site-packages/torch/xpu/__init__.py", 9)]), "xpu", "native"),
        (npu([frame("f", "/env/lib/python3.12/site-packages/torch_npu/npu/x.py", 1)]), "npu", "native-without-times"),
        (npu(), "unknown", "native-without-times"),
        (old_npu(), "unknown", "segments-only"),
        (rocm(MALLOC), "hip", "native"),
        (rocm(), "cuda or hip", "native"),
    ],
)
def test_nothing_is_lost_and_nothing_unknown(tmp_path: Path, content: Any, backend: str, schema: str) -> None:
    found = _read(tmp_path, content)
    assert (found.backend, found.schema, found.unknown_keys) == (backend, schema, ())
    segments = content["segments"] if isinstance(content, dict) else content
    assert found.segments.address.tolist() == [segment["address"] for segment in segments]
    assert int(found.blocks.size_bytes.sum()) == sum(segment["total_size"] for segment in segments)
    if isinstance(content, dict):
        assert len(found.events[0]) == len(content["device_traces"][0])
        (oom,) = found.ooms
        assert (oom.requested_bytes, oom.free_bytes) == (1 << 34, 5 * MIB)
        assert found.stacks[oom.stack][-1].file == content["device_traces"][0][-1]["frames"][-1]["filename"]


def test_streams_and_addresses_are_exact_above_what_a_double_holds(tmp_path: Path) -> None:
    found = _read(tmp_path, xpu())
    assert set(found.segments.stream.tolist()) == {QUEUE}
    assert int(found.blocks.address[0]) == BEYOND_DOUBLES
    assert int(found.blocks.address[1]) == BEYOND_DOUBLES + 3 * MIB
    # torch_npu writes streams as signed numbers
    assert set(_read(tmp_path, npu()).segments.stream.tolist()) == {(1 << 64) - 0x7F01, 0}


def test_the_mark_of_the_workspaces_is_one_of_a_snapshot(tmp_path: Path) -> None:
    found = _read(tmp_path, npu())
    row = [event["action"] for event in npu()["device_traces"][0]].index("workspace_snapshot")
    assert ACTIONS[found.events[0].action[row]] == "snapshot"


@pytest.mark.parametrize("make", [xpu, npu, old_npu, rocm])
def test_keys_of_newer_versions_are_named_and_go_to_the_viewer(tmp_path: Path, make: Any) -> None:
    content = make()
    segments = content["segments"] if isinstance(content, dict) else content
    segments[0]["queue_priority"] = "high"
    target = tmp_path / "viewer.pickle"
    write_viewer_pickle(write(tmp_path / "new.pickle", content), target)
    for path in (tmp_path / "new.pickle", target):
        assert read_snapshot(path).unknown_keys == ("segments.queue_priority",)


@pytest.mark.parametrize("make", [xpu, npu, old_npu, rocm])
def test_the_reports_hold_no_number_that_a_browser_rounds(tmp_path: Path, make: Any) -> None:
    path = write(tmp_path / "snapshot.pickle", make())
    page, data = tmp_path / "report.html", tmp_path / "report.json"
    for target, form in ((page, "html"), (data, "json")):
        ended = CliRunner().invoke(oomdoctor, ["analyze", str(path), "--format", form, "--output", str(target)])
        assert ended.exit_code == 0, ended.output
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)
    numbers: list[int] = []
    for content in (*blocks, data.read_text(encoding="utf-8")):
        json.loads(content, parse_int=lambda digits: numbers.append(int(digits)))
    assert numbers
    assert max(map(abs, numbers)) < 1 << 53
    if make is xpu:
        # the segments of the address map, to the last digit
        assert f"{BEYOND_DOUBLES:#x}" in text + data.read_text(encoding="utf-8")
