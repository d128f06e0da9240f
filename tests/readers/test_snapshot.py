"""Every schema of a memory snapshot is read to the same columns; what is none is refused with a reason."""

from __future__ import annotations

import bz2
import copy
import gzip
import json
import lzma
import pickle
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from snapshots.make import LINEAR, MIB, MODULE_CALL, Device, frame, snapshot, without_addresses, write

from oomdoctor.errors import InputRefused
from oomdoctor.model.snapshot import ACTIONS, Snapshot
from oomdoctor.readers.identify import HEAD_BYTES, InputKind, identify
from oomdoctor.readers.inputs import read_inputs
from oomdoctor.readers.snapshot import read_snapshot, snapshot_of

GENUINE = Path(__file__).parents[3] / "shared" / "snapshots"

TRAIN = [LINEAR, *MODULE_CALL, frame("step", "/home/me/train.py", 12), frame("<module>", "/home/me/train.py", 40)]
LOAD = [frame("load", "/home/me/train.py", 3), frame("<module>", "/home/me/train.py", 38)]


def _two_devices() -> list[Device]:
    """Two devices with frees, pending frees, a second stream, a private pool and a failed request."""
    first, second = Device(0), Device(1, base=(1 << 63) + (1 << 54) + 512, expandable=True)
    kept = [first.malloc(size, LOAD) for size in (700, 3 * MIB, 12 * MIB)]
    first.malloc(5 * MIB, TRAIN, stream=7)
    first.malloc(100, TRAIN, pool=(1, 0))
    first.free(kept[0], TRAIN)
    first.free(kept[2], TRAIN, waits=True)
    first.fail(1 << 30, 4096, TRAIN)
    gone = second.malloc(30 * MIB, LOAD)
    second.malloc(2 * MIB, TRAIN)
    second.free(gone)
    second.release_idle()
    return [first, second]


def _read(tmp_path: Path, content: object, **how: Any) -> Snapshot:
    return read_snapshot(write(tmp_path / "made.pickle", content, **how), "made.pickle")


def _totals(found: Snapshot) -> dict[str, Any]:
    """The totals that an index of snapshots gives."""
    return {
        "segments": len(found.segments),
        "blocks": len(found.blocks),
        "events": sum(map(len, found.events)),
        "devices": found.device_count,
        "reserved_bytes": found.reserved_bytes,
        "allocated_bytes": found.allocated_bytes,
        "actions": dict(Counter(ACTIONS[code] for trace in found.events for code in trace.action.tolist())),
    }


def _totals_by_hand(content: dict[str, Any]) -> dict[str, Any]:
    blocks = [block for segment in content["segments"] for block in segment["blocks"]]
    events = [event for trace in content["device_traces"] for event in trace]
    return {
        "segments": len(content["segments"]),
        "blocks": len(blocks),
        "events": len(events),
        "devices": len(content["device_traces"]),
        "reserved_bytes": sum(segment["total_size"] for segment in content["segments"]),
        "allocated_bytes": sum(block["size"] for block in blocks if block["state"] == "active_allocated"),
        "actions": dict(Counter(event["action"] for event in events)),
    }


@pytest.mark.skipif(not GENUINE.exists(), reason="the genuine snapshots are not beside this checkout")
def test_genuine_snapshots_have_their_true_totals() -> None:
    index = json.loads((GENUINE / "index.json").read_text())
    assert len(index) == 16
    for row in index:
        found = read_snapshot(GENUINE / row["file"])
        assert _totals(found) == {key: row[key] for key in _totals(found)}, row["file"]
        assert found.unknown_keys == ()
        assert found.backend in (("npu",) if "npu" in row["backend"] else ("cuda", "cuda or hip", "unknown"))


@pytest.mark.parametrize("how", [{"protocol": p} for p in range(6)] + [{"packed": True}], ids=str)
def test_all_protocols_and_gzip_give_the_true_totals(tmp_path: Path, how: dict[str, Any]) -> None:
    content = snapshot(*_two_devices())
    assert _totals(_read(tmp_path, content, **how)) == _totals_by_hand(content)


def test_columns_hold_what_was_written(tmp_path: Path) -> None:
    first, second = _two_devices()
    content = snapshot(first, second)
    found = _read(tmp_path, content)
    assert (found.path, found.schema, found.backend, found.devices) == ("made.pickle", "native", "cuda or hip", (0, 1))
    written = [block for segment in content["segments"] for block in segment["blocks"]]
    assert found.blocks.address.tolist() == [block["address"] for block in written]
    assert max(found.blocks.address.tolist()) > 1 << 63, "an address no float holds"
    assert found.blocks.requested_bytes.tolist() == [block["requested_size"] for block in written]
    assert found.segments.private_pool.tolist() == [s["segment_pool_id"] != (0, 0) for s in content["segments"]]
    assert found.segments.is_small.tolist() == [s["segment_type"] == "small" for s in content["segments"]]
    assert found.segments.is_expandable.tolist() == [s["is_expandable"] for s in content["segments"]]
    assert 7 in found.segments.stream.tolist()
    for device, trace in zip((first, second), found.events, strict=True):
        assert trace.address.tolist() == [event.get("addr", 0) for event in device.events]
        assert trace.size_bytes.tolist() == [event["size"] for event in device.events]
        assert trace.time_us.tolist() == [event["time_us"] for event in device.events]
        for row, event in zip(trace.stack.tolist(), device.events, strict=True):
            stack = () if row < 0 else found.stacks[row]
            assert [(f.function, f.file, f.line) for f in stack] == [
                (f["name"], f["filename"], f["line"]) for f in event["frames"]
            ]
    assert len(found.stacks) == len(set(found.stacks)) == 2, "each distinct stack once"


def test_the_failed_request_is_exact(tmp_path: Path) -> None:
    first, _ = _two_devices()
    (oom,) = _read(tmp_path, snapshot(first)).ooms
    assert (oom.device, oom.requested_bytes, oom.free_bytes) == (0, 1 << 30, 4096)
    assert (oom.event_index, oom.time_us) == (len(first.events) - 1, first.time_us)


def test_stacks_with_equal_frames_in_different_objects_are_one(tmp_path: Path) -> None:
    device = Device()
    for _ in range(3):
        device.malloc(512, copy.deepcopy(TRAIN))
    found = _read(tmp_path, snapshot(device))
    assert len(found.stacks) == 1
    assert set(found.blocks.stack.tolist()) == {0, -1}


def test_stacks_alike_at_both_ends_and_in_the_middle_are_told_apart(tmp_path: Path) -> None:
    device = Device()
    shared = [frame(f"f{i}", "a.py", i) for i in range(40)]
    for place in range(40):
        device.malloc(512, [*shared[:place], frame("odd", "a.py", 99), *shared[place + 1 :]])
    found = _read(tmp_path, snapshot(device))
    allocs = found.events[0].stack[found.events[0].action == ACTIONS.index("alloc")].tolist()
    assert [
        found.stacks[row].index(next(f for f in found.stacks[row] if f.function == "odd")) for row in allocs
    ] == list(range(40))


def test_blocks_without_addresses_take_them_from_their_segment(tmp_path: Path) -> None:
    content = snapshot(*_two_devices())
    whole, old = _read(tmp_path, content), _read(tmp_path, without_addresses(content))
    assert (old.schema, whole.schema) == ("history", "native")
    assert old.blocks.address.tolist() == whole.blocks.address.tolist()
    assert old.blocks.state.tolist() == whole.blocks.state.tolist(), "active_awaiting_free is active_pending_free"
    assert 2 in old.blocks.state.tolist()
    assert [old.stacks[row] if row >= 0 else () for row in old.blocks.stack.tolist()] == [
        whole.stacks[row] if row >= 0 else () for row in whole.blocks.stack.tolist()
    ]
    assert set(old.events[0].time_us.tolist()) == {-1}
    assert old.ooms[0].time_us is None


def test_a_bare_list_of_segments_is_a_snapshot(tmp_path: Path) -> None:
    content = snapshot(*_two_devices())
    found = _read(tmp_path, content["segments"])
    assert (found.schema, found.events, found.ooms) == ("segments-only", (), ())
    assert found.reserved_bytes == _totals_by_hand(content)["reserved_bytes"]


def test_state_only_and_history_only(tmp_path: Path) -> None:
    content = snapshot(*_two_devices())
    assert _read(tmp_path, {"segments": content["segments"], "device_traces": [[], []]}).schema == "state-only"
    found = _read(tmp_path, {"device_traces": content["device_traces"]})
    assert (len(found.segments), len(found.blocks), found.devices) == (0, 0, (0, 1))


def test_a_history_without_times_is_one(tmp_path: Path) -> None:
    content = snapshot(*_two_devices())
    for trace in content["device_traces"]:
        for event in trace:
            del event["time_us"]
    found, timed = _read(tmp_path, content), _read(tmp_path, snapshot(*_two_devices()))
    assert (found.schema, found.unknown_keys) == ("native-without-times", ())
    assert [set(trace.time_us.tolist()) for trace in found.events] == [{-1}, {-1}]
    assert [oom.time_us for oom in found.ooms] == [None]
    for without, with_times in zip(found.events, timed.events, strict=True):
        assert without.size_bytes.tolist() == with_times.size_bytes.tolist()
        assert without.address.tolist() == with_times.address.tolist()


def _in_two_streams(data: bytes) -> bytes:
    return bz2.compress(data[:700]) + bz2.compress(data[700:])


@pytest.mark.parametrize(
    "pack",
    [lambda data: data, gzip.compress, lzma.compress, bz2.compress, _in_two_streams],
    ids=["plain", "gzip", "xz", "bzip2", "bzip2 on several cores"],
)
def test_a_snapshot_is_told_by_content_however_it_is_packed(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "no_name_that_helps.log"
    path.write_bytes(pack(pickle.dumps(snapshot(*_two_devices()))))
    assert identify(path.read_bytes()[:HEAD_BYTES]) is InputKind.SNAPSHOT
    assert read_inputs([path]).snapshots[0].reserved_bytes == _read(tmp_path, snapshot(*_two_devices())).reserved_bytes


def test_what_is_packed_in_one_large_block_is_told_once_it_is_unpacked(tmp_path: Path) -> None:
    content = snapshot(*_two_devices())
    content["device_traces"][0][0]["user_metadata"] = random.Random(1).randbytes(400_000).hex()
    path, log = tmp_path / "s.bz2", tmp_path / "log.bz2"
    path.write_bytes(bz2.compress(pickle.dumps(content)))
    log.write_bytes(bz2.compress(random.Random(1).randbytes(400_000).hex().encode()))
    assert read_inputs([path]).snapshots[0].reserved_bytes == _read(tmp_path, content).reserved_bytes
    (read,) = read_inputs([log]).inputs
    assert "what is packed in it is no memory snapshot" in read.why


def test_missing_keys_have_documented_stand_ins(tmp_path: Path) -> None:
    content = snapshot(Device())
    content["segments"] = [
        {"address": 4096, "blocks": [{"size": 512, "state": "active_allocated"}, {"size": 1536, "state": "inactive"}]}
    ]
    found = _read(tmp_path, content)
    assert found.segments.total_bytes.tolist() == [2048]
    assert (found.segments.is_small.tolist(), found.segments.device.tolist()) == ([True], [0])
    assert found.blocks.address.tolist() == [4096, 4608]
    assert found.blocks.requested_bytes.tolist() == [512, 1536]


def test_what_is_not_known_is_kept_and_named(tmp_path: Path) -> None:
    device = Device()
    device.malloc(512, TRAIN)
    content = snapshot(device)
    content["new_top"] = 1
    content["segments"][0]["new_in_segment"] = 1
    content["segments"][0]["blocks"][0]["new_in_block"] = 1
    device.events[0]["new_in_event"] = 1
    device.events.append({"action": "teleport", "addr": 1, "size": 2})
    found = _read(tmp_path, content)
    assert found.unknown_keys == (
        "action:teleport", "blocks.new_in_block", "events.new_in_event", "new_top", "segments.new_in_segment",
    )  # fmt: skip
    assert ACTIONS[found.events[0].action[-1]] == "unknown"


def _broken(change: str) -> object:
    device = Device()
    device.malloc(512, TRAIN)
    content = copy.deepcopy(snapshot(device))
    segment, event = content["segments"][0], content["device_traces"][0][0]
    block = segment["blocks"][0]
    match change:
        case "text for a size":
            block["size"] = "big"
        case "no size":
            del block["size"]
        case "negative size":
            event["size"] = -1
        case "absurd size":
            segment["total_size"] = 1 << 62
        case "huge number":
            event["size"] = 1 << 80
        case "unknown state":
            block["state"] = "quantum"
        case "list for a state":
            block["state"] = []
        case "list for an action":
            event["action"] = []
        case "nested numbers":
            block["size"] = [1, 2]
        case "number for frames":
            event["frames"] = 5
        case "number for a frame":
            event["frames"] = [5]
        case "number for a pool":
            segment["segment_pool_id"] = 5
        case "dict for segments":
            content["segments"] = {}
        case "number for a segment":
            content["segments"] = [5]
        case "text for traces":
            content["device_traces"] = "x"
        case "number for blocks":
            segment["blocks"] = 5
    return content


@pytest.mark.parametrize(
    "change",
    [
        "text for a size", "no size", "negative size", "absurd size", "huge number", "unknown state",
        "list for a state",
        "list for an action", "nested numbers", "number for frames", "number for a frame", "number for a pool",
        "dict for segments", "number for a segment", "text for traces", "number for blocks",
    ],
)  # fmt: skip
def test_a_wrong_shape_is_refused(tmp_path: Path, change: str) -> None:
    with pytest.raises(InputRefused, match=r"^it is a pickle, but no PyTorch memory snapshot: "):
        _read(tmp_path, _broken(change))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("text for a size", "sizes of blocks must be whole numbers; number 0 is text"),
        ("no size", "sizes of blocks must be whole numbers; number 0 has none"),
        ("nested numbers", "sizes of blocks must be whole numbers; number 0 is a list"),
        ("huge number", "sizes of events must be whole numbers; number 0 does not fit in 64 bits"),
        ("negative size", "sizes of events must lie between 0 and 1 PiB; number 0 is -1"),
        ("number for a frame", "a frame of a stack must be a dict with name, filename and line"),
    ],
)
def test_a_wrong_shape_is_named_in_words_of_ours(tmp_path: Path, change: str, why: str) -> None:
    with pytest.raises(InputRefused) as caught:
        _read(tmp_path, _broken(change))
    assert str(caught.value) == (
        f"it is a pickle, but no PyTorch memory snapshot: {why}; give the file that `_dump_snapshot` of "
        "torch.cuda.memory (or of another device) wrote, or have it written anew"
    )


@pytest.mark.parametrize("content", [{}, 5, None, "text", {"model": {}, "optimizer": {}}, [1, 2], [{"a": 1}, 3]])
def test_another_pickle_is_refused(tmp_path: Path, content: object) -> None:
    with pytest.raises(InputRefused, match="no PyTorch memory snapshot"):
        _read(tmp_path, content)


def test_the_backend_is_read_from_the_stacks(tmp_path: Path) -> None:
    for file, backend in (("/x/torch_npu/npu/memory.py", "npu"), ("XPUCachingAllocator.cpp", "xpu")):
        device = Device()
        device.malloc(512, [frame("f", file, 1)])
        assert _read(tmp_path, snapshot(device)).backend == backend


@pytest.mark.parametrize(
    ("function", "file", "backend"),
    [
        ("c10::cuda::CUDACachingAllocator::malloc", "", "cuda"),
        ("malloc", "/x/torch/lib/libtorch_cuda.so", "cuda"),
        ("c10::hip::get_device", "", "hip"),
        ("malloc", "/x/torch/lib/libc10_xpu.so", "xpu"),
        ("synchronize", "/x/torch/cuda/__init__.py", "unknown"),  # the same file on ROCm
        ("main", "train.py", "unknown"),
    ],
)
def test_a_backend_is_named_only_where_nothing_else_can_be_meant(
    tmp_path: Path, function: str, file: str, backend: str
) -> None:
    device = Device()
    device.malloc(512, [frame(function, file, 1)])
    content = snapshot(device)
    content.pop("allocator_settings", None)
    assert _read(tmp_path, content).backend == backend


def test_devices_that_recorded_nothing_are_counted(tmp_path: Path) -> None:
    device = Device()
    device.malloc(512, TRAIN)
    content = snapshot(device)
    content["device_traces"] = [*content["device_traces"], [], [], []]
    found = _read(tmp_path, content)
    assert (found.devices, found.device_count) == ((0,), 4)
    found = _read(tmp_path, {"segments": [{**content["segments"][0], "device": 2}]})
    assert (found.devices, found.device_count) == ((2,), 3)


def test_negative_addresses_are_read_as_their_twos_complement(tmp_path: Path) -> None:
    device = Device(base=-4096)
    device.malloc(512, TRAIN)
    assert _read(tmp_path, snapshot(device)).blocks.address.tolist()[0] == (1 << 64) - 4096


@pytest.mark.parametrize(
    "content",
    [
        {"segments": [], "device_traces": [[]] * 5000},
        {"segments": [{"device": 1 << 40, "address": 512, "total_size": 512, "blocks": []}], "device_traces": []},
    ],
)
def test_more_devices_than_any_machine_has_are_refused(content) -> None:
    """Every device takes time of its own, and a few bytes of a file can name very many."""
    with pytest.raises(InputRefused, match="devices"):
        snapshot_of(content, "x.pickle")
