"""Events read from the bytes of a pickle are those that the unpickler makes, or the file is unpickled as it is."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from snapshots.make import MIB, Device, frame, snapshot

from oomdoctor.errors import InputRefused
from oomdoctor.model.snapshot import ACTIONS, Snapshot
from oomdoctor.readers import event_rows
from oomdoctor.readers.event_rows import CutContent, cut_rows
from oomdoctor.readers.snapshot import read_snapshot

GENUINE = Path(__file__).parents[3] / "shared" / "snapshots"
FRAMES = [frame(f"f{i}", f"{i % 5}.py", i) for i in range(40)]
STACKS = [FRAMES[i : i + length] for i in range(30) for length in (1, 2, 9)] + [[]]


@pytest.fixture(autouse=True)
def _cut_small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_rows, "_WORTH_CUTTING_BYTES", 0)
    monkeypatch.setattr(event_rows, "_LEAST_SHARE", 0.0)
    monkeypatch.setattr(event_rows, "_FEWEST_ROWS", 2)


def _busy(events: int = 300, base: int = 0x7F00_0000_0000, index: int = 0) -> Device:
    """A device that allocates and frees, each time with a list of its own of frames that are shared."""
    device, live = Device(index, base), []
    while len(device.events) < events:
        turn = len(device.events)
        live.append(device.malloc(512 * (1 + turn % 7), list(STACKS[turn % len(STACKS)])))
        if turn % 3:
            device.free(live.pop(turn % len(live)), list(STACKS[turn * 7 % len(STACKS)]))
    return device


def _with_pools(device: Device, pools: list[Any]) -> Device:
    """As torch writes events since 2.10: each with the pair of its pool, frames last."""
    for number, event in enumerate(device.events):
        pool = pools[number % len(pools)]
        # A tuple of its own each time, as torch makes them.
        event["pool_id"] = (*pool,) if isinstance(pool, tuple) else pool
        event["frames"] = event.pop("frames")
    return device


def _told(snapshot: Snapshot) -> dict[str, Any]:
    """Everything in it, stacks in full."""
    told: dict[str, Any] = {
        "kind": (snapshot.schema, snapshot.backend, snapshot.unknown_keys, snapshot.settings, snapshot.devices),
        "ooms": [
            (oom.device, oom.requested_bytes, oom.free_bytes, oom.time_us, oom.event_index) for oom in snapshot.ooms
        ],
    }
    for name, table in (
        ("segments", snapshot.segments),
        ("blocks", snapshot.blocks),
        *((f"events {events.device}", events) for events in snapshot.events),
    ):
        for each in fields(table):
            column = getattr(table, each.name)
            values = column if column is None or isinstance(column, int) else column.tolist()
            if each.name == "stack":
                values = [snapshot.stacks[row] if row >= 0 else None for row in values]
            told[f"{name} {each.name}"] = values, getattr(column, "dtype", None)
    return told


def _both(data: bytes, folder: Path) -> tuple[Any, Any, bool]:
    """What is read with rows cut out and without, a refusal by its words, and whether any row was cut."""
    path = folder / "s.pickle"
    path.write_bytes(data)
    found: list[Any] = []
    for limit in (0, 1 << 60):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(event_rows, "_WORTH_CUTTING_BYTES", limit)
            try:
                found.append(_told(read_snapshot(path, "s")))
            except InputRefused as refused:
                found.append(str(refused))
    return found[0], found[1], cut_rows(data) is not None


@pytest.mark.parametrize("protocol", [4, 5])
def test_nearly_all_of_a_regular_history_is_cut_and_nothing_is_lost(tmp_path: Path, protocol: int) -> None:
    first, second = _busy(), _busy(index=1, base=1 << 40)
    data = pickle.dumps(snapshot(first, second), protocol)
    stream = cut_rows(data)
    assert stream is not None
    assert len(stream.action) > 0.8 * (len(first.events) + len(second.events))
    loaded = stream.resolved(pickle.loads(stream.rest))
    assert isinstance(loaded, CutContent)
    assert [type(row) for trace in loaded.content["device_traces"] for row in trace].count(int) == len(stream.run) - 1  # type: ignore[index]
    cut, whole, _ = _both(data, tmp_path)
    assert cut == whole


def test_who_waits_is_told_how_far_it_is() -> None:
    told: list[float] = []
    assert cut_rows(pickle.dumps(snapshot(_busy()), 4), told.append) is not None
    assert told == sorted(told)
    assert len(told) >= 2
    assert all(0 <= share < 1 for share in told)


def test_several_frames_of_the_pickler_and_batches_of_a_list_are_joined(tmp_path: Path) -> None:
    data = pickle.dumps(snapshot(_busy(5_000)), 4)
    assert data.count(b"\x95") > 3
    cut, whole, was_cut = _both(data, tmp_path)
    assert was_cut
    assert cut == whole


def test_a_failure_that_shares_its_frames_with_rows_that_are_cut_keeps_them(tmp_path: Path) -> None:
    """torch records segments given back in vain and the failure with one list of frames."""
    device = _busy()
    for _ in range(3):
        device.malloc(512, STACKS[0])
    shared = list(STACKS[5])
    given_back = {"action": "segment_free", "addr": 4096, "size": 2 * MIB, "stream": 0, "time_us": 1, "frames": shared}
    device.events += [dict(given_back), dict(given_back)]
    device.events.append({"action": "oom", "device_free": 5, "size": MIB, "stream": 0, "time_us": 2, "frames": shared})
    device.events += _busy(100, base=1 << 41).events
    content = snapshot(device)
    cut, whole, was_cut = _both(pickle.dumps(content, 4), tmp_path)
    assert was_cut
    assert cut == whole
    assert len(cut["ooms"]) == 1
    place = cut["ooms"][0][-1]
    assert ACTIONS[cut["events 0 action"][0][place]] == "oom"
    assert cut["events 0 stack"][0][place] == cut["events 0 stack"][0][place - 1] is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda event: event.update(size=None),
        lambda event: event.update(size="x"),
        lambda event: event.update(size=-1),
        lambda event: event.update(size=1 << 61),
        lambda event: event.update(addr=1 << 70),
        lambda event: event.update(addr=-512),
        lambda event: event.update(addr=(1 << 64) - 512),
        lambda event: event.update(time_us=1.5),
        lambda event: event.update(stream=(1 << 63) - 1),
        lambda event: event.update(frames=None),
        lambda event: event.update(frames=5),
        lambda event: event.update(frames=[5]),
        lambda event: event.update(frames="text"),
        lambda event: event.update(action="teleport"),
        lambda event: event.update(action=None),
        lambda event: event.update(news=[event["frames"]]),
        lambda event: event.pop("time_us"),
        lambda event: event.pop("frames"),
        lambda event: event.pop("size"),
        lambda event: event.clear(),
    ],
)
@pytest.mark.parametrize("every", [1, 2, 50])
def test_events_of_any_other_form_are_read_or_refused_as_ever(tmp_path: Path, change: Any, every: int) -> None:
    device = _busy()
    for event in device.events[100::every]:
        change(event)
    cut, whole, _ = _both(pickle.dumps(snapshot(device), 4), tmp_path)
    assert cut == whole


@pytest.mark.parametrize(
    ("pools", "expected"),
    [
        ([(0, 0)], [0]),
        ([(0, 0), (0, 1), (3, 0), (70_000, 300)], [0, 1, 3 << 32, 70_000 << 32 | 300]),
        ([(0, 0), (1 << 31, 0)], [0, -1]),
        ([(0, 0), (0, -1)], [0, -1]),
        ([(0, 0), (0, 0, 0)], [0, -1]),
        ([(0, 0), (1 << 70, 0)], [0, -1]),
        ([(0, 0), ()], [0, 0]),
        ([(0, 0), None], None),
        ([(0, 0), 7], None),
        ([7], None),
        (["pool"], None),
    ],
)
def test_the_pools_of_events_are_read_with_them(tmp_path: Path, pools: list[Any], expected: list[int] | None) -> None:
    device = _with_pools(_busy(), pools)
    device.malloc(512, STACKS[0], pool=(1, 0))
    _with_pools(device, pools)
    cut, whole, was_cut = _both(pickle.dumps(snapshot(device), 4), tmp_path)
    assert cut == whole
    assert was_cut or len(pools) > 1
    read = cut["events 0 pool"][0]
    if expected is None:
        assert read is None
    else:
        assert read == [expected[number % len(expected)] for number in range(len(device.events))]


def test_pairs_where_numbers_should_be_are_refused(tmp_path: Path) -> None:
    device = _busy()
    for event in device.events:
        event["time_us"] = (event["time_us"], 0)
    cut, whole, _ = _both(pickle.dumps(snapshot(device), 4), tmp_path)
    assert cut == whole
    assert "times of events must be" in cut


def test_pools_of_events_without_frames_are_read(tmp_path: Path) -> None:
    device = _with_pools(_busy(), [(0, 0), (0, 1)])
    for event in device.events:
        del event["frames"]
    cut, whole, was_cut = _both(pickle.dumps(snapshot(device), 4), tmp_path)
    assert cut == whole
    assert was_cut


@pytest.mark.parametrize("key", ["compile_context", "user_metadata"])
@pytest.mark.parametrize("value", ["N/A", "", None, "x" * 300, 7])
def test_keys_of_newer_versions_do_no_harm(tmp_path: Path, key: str, value: Any) -> None:
    device = _busy()
    for number, event in enumerate(device.events):
        frames = event.pop("frames")
        event[key] = value if number % 2 or not isinstance(value, str) else (value + " ")[:-1]
        event["frames"] = frames
    cut, whole, was_cut = _both(pickle.dumps(snapshot(device), 4), tmp_path)
    assert cut == whole
    assert was_cut or value == "x" * 300


@pytest.mark.parametrize("empty", [[0], [], range(1000)], ids=["but one", "none", "all"])
def test_notes_on_events_are_read_and_cost_nothing_where_there_are_none(tmp_path: Path, empty: Any) -> None:
    """torch has one object for all empty texts, and one of its own for each note."""
    device = _busy()
    for number, event in enumerate(device.events):
        frames = event.pop("frames")
        event["user_metadata"] = "" if number in empty else f"step {number % 3}"
        event["frames"] = frames
    data = pickle.dumps(snapshot(device), 4)
    cut, whole, _ = _both(data, tmp_path)
    assert cut == whole
    stream = cut_rows(data)
    assert stream is not None
    if len(empty) == 1000:
        assert stream.resolved(pickle.loads(stream.rest)).rows.keys[-2:] == ("user_metadata", "frames")
        assert cut["events 0 note"][0] is None
    else:
        with pytest.raises(InputRefused, match="notes"):
            stream.resolved(pickle.loads(stream.rest))
        assert cut["events 0 note"][0].count(-1) == len(empty)
        assert max(cut["events 0 note"][0]) == 2


@pytest.mark.parametrize("length", [3, 6, 8, 9, 30])
def test_a_text_that_is_none_is_refused_though_nobody_reads_it(tmp_path: Path, length: int) -> None:
    device = _busy()
    for number, event in enumerate(device.events):
        event["compile_context"] = f"{number:0{length}d}"[:length]
        event["frames"] = event.pop("frames")
    data = pickle.dumps(snapshot(device), 4)
    assert _both(data, tmp_path)[2]
    text = device.events[200]["compile_context"].encode()
    at = data.index(b"\x8c" + bytes([length]) + text + b"\x94", len(data) // 2)
    cut, whole, _ = _both(data[: at + 1 + length] + b"\xff" + data[at + 2 + length :], tmp_path)
    assert cut == whole
    assert "damaged" in cut


def test_a_key_that_is_not_known_is_named(tmp_path: Path) -> None:
    device = _busy()
    device.events = [{"action": e["action"], "novelty": 1, **e} for e in device.events]
    cut, whole, was_cut = _both(pickle.dumps(snapshot(device), 4), tmp_path)
    assert was_cut
    assert cut == whole
    assert cut["kind"][2] == ("events.novelty",)


def test_events_that_lie_elsewhere_are_no_events(tmp_path: Path) -> None:
    content = snapshot(Device())
    content["other_traces"] = [_busy().events]
    cut, whole, was_cut = _both(pickle.dumps(content, 4), tmp_path)
    assert was_cut
    assert cut == whole
    assert cut["kind"][2] == ("other_traces",)


def test_numbers_among_the_events_are_refused(tmp_path: Path) -> None:
    content = snapshot(_busy())
    content["device_traces"][0].insert(200, 0)
    cut, whole, _ = _both(pickle.dumps(content, 4), tmp_path)
    assert cut == whole
    assert whole.startswith("it is a pickle, but no PyTorch memory snapshot: events must be a list of dicts; give ")


def test_what_names_code_is_refused_unrun_also_between_events(tmp_path: Path) -> None:
    content = snapshot(_busy())
    content["device_traces"][0].insert(150, print)
    cut, whole, _ = _both(pickle.dumps(content, 4), tmp_path)
    assert cut == whole
    assert "builtins.print" in cut


def test_a_long_stretch_of_other_data_is_walked_over_in_little_memory() -> None:
    code = (
        "import resource; from oomdoctor.readers.pickle_operations import walk; "
        "data = b'K\\x01N' * 4_000_000 + b'\\x94'; "
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; assert walk(data, 0, len(data)) == 1; "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20_000, "KiB"


OPERATIONS = b"}](euta0N.\x94hjKMJ\x8a\x8c\x95R\x85\x86\x88"


@given(
    changes=st.lists(
        st.tuples(st.sampled_from(["set", "insert", "delete"]), st.integers(0, 1 << 20), st.sampled_from(OPERATIONS)),
        min_size=1,
        max_size=3,
    ),
    mend=st.booleans(),
    pools=st.booleans(),
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_stream_is_read_or_refused_as_ever(
    tmp_path: Path, changes: list[tuple[str, int, int]], mend: bool, pools: bool
) -> None:
    device = _busy(60)
    data = bytearray(pickle.dumps(snapshot(_with_pools(device, [(0, 0), (0, 300)]) if pools else device), 4))
    for how, place, byte in changes:
        place %= len(data)
        if how == "set":
            data[place] = byte
        elif how == "insert":
            data.insert(place, byte)
        else:
            del data[place]
    if mend:
        # So that it is what the frame holds that is wrong, not its length.
        data[3:11] = (len(data) - 11).to_bytes(8, "little")
    cut, whole, _ = _both(bytes(data), tmp_path)
    assert cut == whole


@pytest.mark.skipif(not GENUINE.exists(), reason="the genuine snapshots are not beside this checkout")
def test_genuine_snapshots_are_read_to_the_same_columns(tmp_path: Path) -> None:
    cut_from = 0
    for path in sorted(GENUINE.glob("real-*.pickle")):
        cut, whole, was_cut = _both(path.read_bytes(), tmp_path)
        assert cut == whole, path.name
        cut_from += was_cut
    assert cut_from == 12
