"""GIVEN a snapshot WHEN it is exported THEN other tools find in it what the allocator's model says is true."""

from __future__ import annotations

import csv
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from snapshots import programs
from snapshots.make import Device, frame, snapshot, write

from oomdoctor.cli.main import oomdoctor
from oomdoctor.errors import InputRefused, UsageError


def _export(path: Path, form: str, *options: str) -> Path:
    target = path.parent / f"out.{form}"
    ended = _run(path, "--to", form, "--output", str(target), *options)
    assert ended.exit_code == 0, ended.exception
    return target


def _run(*words: object) -> Result:
    return CliRunner().invoke(oomdoctor, ["export", *map(str, words)])


def _rows(path: Path, table: str) -> list[dict[str, str]]:
    return list(csv.DictReader(_export(path, "csv", "--table", table).open(encoding="utf-8")))


@pytest.fixture
def device() -> Device:
    return programs.kept_outputs()


@pytest.fixture
def path(tmp_path: Path, device: Device) -> Path:
    return write(tmp_path / "run.pickle", snapshot(device), protocol=5, packed=True)


def test_live_allocations_add_up_to_what_is_live(path: Path, device: Device) -> None:
    rows = _rows(path, "allocations")
    assert sum(int(row["size_bytes"]) for row in rows if row["end_event"] == "") == device.live[-1]
    assert all(int(row["end_time_us"]) >= int(row["start_time_us"]) for row in rows if row["end_event"])


def test_what_stood_before_the_recording_has_no_start(tmp_path: Path, device: Device) -> None:
    cut = write(tmp_path / "cut.pickle", snapshot(device, ring=10))
    before = [row for row in _rows(cut, "allocations") if row["start_event"] == ""]
    assert before
    assert all(row["start_time_us"] == "" for row in before)


def test_tables_agree_with_the_pickle(path: Path, device: Device) -> None:
    content = snapshot(device)
    events = _rows(path, "events")
    assert [(row["action"], int(row["address"])) for row in events] == [
        (event["action"], event.get("addr", 0)) for event in content["device_traces"][0]
    ]
    assert sum(int(row["total_bytes"]) for row in _rows(path, "segments")) == device.reserved[-1]
    assert sum(int(r["size_bytes"]) for r in _rows(path, "blocks") if r["state"] != "inactive") == device.live[-1]
    assert {int(row["stack"]) for row in events if row["stack"]} <= {int(r["stack"]) for r in _rows(path, "stacks")}


def test_a_spreadsheet_runs_nothing(tmp_path: Path) -> None:
    device = Device()
    device.malloc(4096, [frame("=cmd|' /C calc'!A0", "/home/me/x.py", 1)])
    functions = [row["function"] for row in _rows(write(tmp_path / "s.pickle", snapshot(device)), "stacks")]
    assert functions == ["'=cmd|' /C calc'!A0"]


def test_parquet_holds_the_same_as_csv(path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for table in ("allocations", "events", "segments", "blocks", "stacks"):
        found = parquet.read_table(_export(path, "parquet", "--table", table)).to_pylist()
        as_text = [{k: "" if v is None else str(v) for k, v in row.items()} for row in found]
        assert as_text == _rows(path, table)


def test_addresses_of_64_bits_survive(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    device = Device(base=(1 << 64) - (1 << 30))
    device.malloc(4096, [])
    path = write(tmp_path / "high.pickle", snapshot(device))
    addresses = parquet.read_table(_export(path, "parquet", "--table", "blocks"))["address"].to_pylist()
    assert addresses[0] == (1 << 64) - (1 << 30)
    assert _rows(path, "blocks")[0]["address"] == str((1 << 64) - (1 << 30))


def _trace(path: Path, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(_export(path, "perfetto", *options).read_text())["traceEvents"]
    return found


def test_the_trace_counts_live_bytes_after_each_event(path: Path, device: Device) -> None:
    counters = [event["args"] for event in _trace(path) if event["ph"] == "C"][1:]
    assert [c["live bytes"] for c in counters] == device.live
    assert [c["live bytes"] + c["idle bytes"] for c in counters] == device.reserved


def test_slices_of_a_trace_begin_and_end(path: Path, device: Device) -> None:
    events = _trace(path, "--at-least", "0")
    begun = {event["id"]: event for event in events if event["ph"] == "b"}
    ended = {event["id"]: event for event in events if event["ph"] == "e"}
    assert begun.keys() == ended.keys()
    assert all(begun[i]["ts"] <= ended[i]["ts"] for i in begun)
    end = max(event["ts"] for event in events if event["ph"] == "e")
    held = sum(begun[number]["args"]["bytes"] for number in begun if ended[number]["ts"] == end)
    assert held == device.live[-1]


def test_small_allocations_have_no_slice_of_their_own(path: Path) -> None:
    assert all(e["args"]["bytes"] >= 1 << 20 for e in _trace(path, "--at-least", "1MiB") if e["ph"] == "b")


def test_what_the_program_did_and_said_is_in_the_trace(tmp_path: Path, device: Device) -> None:
    content = snapshot(device)
    times = [event["time_us"] for event in content["device_traces"][0]]
    content["external_annotations"] = [
        {"stage": "START", "name": "evaluate", "device": 0, "time_us": times[5]},
        {"stage": "END", "name": "evaluate", "device": 0, "time_us": times[9]},
    ]
    slices = [e for e in _trace(write(tmp_path / "s.pickle", content)) if e["ph"] == "X"]
    (mark,) = [e for e in slices if e["cat"] == "annotation"]
    assert (mark["name"], mark["ts"], mark["dur"]) == ("evaluate", times[5], times[9] - times[5])
    assert [e["name"] for e in slices if e["cat"] == "phase"] == ["load", "forward"]
    assert all(e["args"]["how known"] for e in slices if e["cat"] == "phase")


def test_notes_and_how_a_category_is_known_are_columns(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    device = Device()
    device.malloc(4096, [frame("f", "/home/me/x.py", 1)])
    path = write(tmp_path / "plain.pickle", snapshot(device))
    assert parquet.read_table(_export(path, "parquet", "--table", "events"))["note"].to_pylist() == [None, None]
    device.events[-1]["user_metadata"] = "KV cache"
    path = write(tmp_path / "noted.pickle", snapshot(device))
    assert parquet.read_table(_export(path, "parquet", "--table", "events"))["note"].to_pylist() == [None, "KV cache"]
    (row,) = _rows(path, "allocations")
    assert (row["category"], row["category_known_by"]) == ("kv-append", "the program's own note on the allocation")


def test_a_failure_is_marked(tmp_path: Path) -> None:
    device = Device()
    device.malloc(4096, [])
    device.fail(1 << 30, 5 << 20, [])
    (mark,) = [e for e in _trace(write(tmp_path / "s.pickle", snapshot(device))) if e["ph"] == "i"]
    assert mark["args"] == {"requested_bytes": 1 << 30, "free_bytes": 5 << 20}


def test_standard_output_is_no_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the name `-` would surprise everybody."""
    monkeypatch.chdir(path.parent)
    result = _run(path, "--to", "csv", "--output", "-")
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == "export writes a file: name one with --output"
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_an_event_without_a_time_leaves_the_others_theirs(tmp_path: Path, device: Device) -> None:
    content = snapshot(device)
    events = content["device_traces"][0]
    del events[5]["time_us"]
    times = [each["ts"] for each in _trace(write(tmp_path / "s.pickle", content)) if each["ph"] == "C"][1:]
    assert times == [each.get("time_us", events[4]["time_us"]) for each in events]


def _numbers(value: Any) -> list[int | float]:
    if isinstance(value, dict):
        return [each for inner in value.values() for each in _numbers(inner)]
    if isinstance(value, list):
        return [each for inner in value for each in _numbers(inner)]
    return [value] if isinstance(value, (int, float)) else []


def test_slices_of_two_devices_have_ids_of_their_own(tmp_path: Path) -> None:
    """Viewers join what has one category and one id, whatever its process."""
    devices = Device(0), Device(1, base=(1 << 64) - (1 << 40))
    for device in devices:
        device.free(device.malloc(4 << 20, [frame("f", "/home/me/x.py", 1)]))
        device.malloc(8 << 20, [frame("f", "/home/me/x.py", 2)])
    events = _trace(write(tmp_path / "s.pickle", snapshot(*devices)), "--at-least", "0")
    begun = [event for event in events if event["ph"] == "b"]
    assert len(begun) == len({event["id"] for event in begun}) == 4
    assert {event["pid"] for event in begun} == {0, 1}
    assert all(int(event["id"], 16) >= 0 for event in begun)
    last = next(event for event in begun if event["pid"] == 1)
    assert last["args"]["address"] == hex((1 << 64) - (1 << 40))


@pytest.mark.parametrize("how", ["events", "annotations"])
def test_no_number_of_a_trace_is_one_that_a_viewer_rounds(how: str, tmp_path: Path, device: Device) -> None:
    content = snapshot(device)
    trace = content["device_traces"][0]
    if how == "events":
        for number, event in enumerate(trace):
            event["time_us"] = (1 << 62) + number
    content["external_annotations"] = [
        {"stage": stage, "name": name, "device": 0, "time_us": time}
        for name, times in (("far", (1 << 60, 1 << 70)), ("near", (trace[1]["time_us"], trace[2]["time_us"])))
        for stage, time in zip(("START", "END"), times, strict=True)
    ]
    events = _trace(write(tmp_path / "s.pickle", content), "--at-least", "0")
    assert max(map(abs, _numbers(events))) < 1 << 53
    assert [e["name"] for e in events if e.get("cat") == "annotation"] == ([] if how == "events" else ["near"])
    named = next(event["args"]["name"] for event in events if event["name"] == "process_name")
    assert named.endswith(" (no times recorded: 1 µs an event)") == (how == "events")


@pytest.mark.parametrize("number", [-1, 128])
def test_a_device_that_torch_cannot_have_is_no_reason_to_fill_the_memory(number: int, tmp_path: Path) -> None:
    content = snapshot(programs.kept_outputs())
    content["segments"][0]["device"] = number
    path = write(tmp_path / "s.pickle", content)
    ended = _run(path, "--to", "viewer", "--output", tmp_path / "out")
    assert isinstance(ended.exception, InputRefused)
    assert f"device {number}, which torch cannot have" in str(ended.exception)
    assert not (tmp_path / "out").exists()
    assert _run(path, "--to", "csv", "--table", "segments", "--output", tmp_path / "out.csv").exit_code == 0


def test_the_snapshot_itself_is_never_overwritten(path: Path) -> None:
    before = path.read_bytes()
    ended = _run(path, "--to", "viewer", "--output", path)
    assert isinstance(ended.exception, UsageError)
    assert path.read_bytes() == before


@pytest.mark.parametrize("form", ["viewer", "csv", "perfetto"])
def test_what_is_no_snapshot_is_refused_by_name(tmp_path: Path, form: str) -> None:
    path = write(tmp_path / "other.pickle", {"hello": 1})
    ended = _run(path, "--to", form, "--output", tmp_path / "out")
    assert isinstance(ended.exception, InputRefused)
    assert "other.pickle" in str(ended.exception)
    assert not (tmp_path / "out").exists()


def test_a_pickle_that_names_code_runs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "bad.pickle"
    mark = tmp_path / "was-run"
    path.write_bytes(f"cos\nsystem\n(S'touch {mark}'\ntR.".encode())
    ended = _run(path, "--to", "viewer", "--output", tmp_path / "out")
    assert isinstance(ended.exception, InputRefused)
    assert not mark.exists()


def test_a_wrong_size_is_told(path: Path) -> None:
    ended = _run(path, "--to", "perfetto", "--at-least", "much")
    assert isinstance(ended.exception, UsageError)
    assert "64KiB" in str(ended.exception)


def test_an_archive_is_called_one(tmp_path: Path, path: Path) -> None:
    packed = tmp_path / "s.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(path, "s.pickle")
    for form in ("csv", "perfetto", "viewer"):
        refused = _run(packed, "--to", form, "--output", tmp_path / "out").exception
        assert isinstance(refused, InputRefused)
        assert str(refused).startswith(f"{packed}: it is a zip archive")
        assert str(refused).endswith("unpack it and give what is inside")


def test_an_output_that_could_not_be_written_is_not_removed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    target = tmp_path / "out.parquet"

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet.ParquetWriter, "write_table", fail)
    refused = _run(path, "--to", "parquet", "--output", target).exception
    assert isinstance(refused, UsageError)
    assert str(refused) == f"cannot write {target}: No space left on device"
    assert target.exists()


@pytest.mark.parametrize("compressed", [False, True])
def test_of_a_folder_that_is_no_bundle_the_one_snapshot_is_taken_whatever_its_name(
    tmp_path: Path, compressed: bool
) -> None:
    folder = tmp_path / "left" / "deeper"
    folder.mkdir(parents=True)
    content = snapshot(Device())
    write(folder / ("s.pickle.gz" if compressed else "no-suffix"), content)
    (tmp_path / "left" / "crash.log").write_text("nothing\n")
    ended = _run(tmp_path / "left", "--to", "csv", "--output", str(tmp_path / "out.csv"))
    assert ended.exit_code == 0, ended.exception
    write(folder / "second.pickle", content)
    ended = _run(tmp_path / "left", "--to", "csv", "--output", str(tmp_path / "out.csv"))
    assert isinstance(ended.exception, UsageError)
    assert "several snapshots; name one of them" in str(ended.exception)


def test_a_folder_without_a_snapshot_is_refused_with_what_to_give(tmp_path: Path) -> None:
    (tmp_path / "crash.log").write_text("nothing\n")
    ended = _run(tmp_path, "--to", "csv")
    assert isinstance(ended.exception, InputRefused)
    assert "holds no memory snapshot: give the file" in str(ended.exception)
