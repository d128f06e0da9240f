"""Whatever a bundle's records hold, reading it gives a record of well-typed fields and never raises."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oomdoctor.bundle.records import encode_record
from oomdoctor.bundle.write import SCHEMA
from oomdoctor.readers.bundle import is_bundle, read_run

MIB = 1 << 20


def write(folder: Path, manifest=None, supervisor=(), probe=()):
    (folder / "probe").mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps({"schema": SCHEMA, **(manifest or {})}))
    (folder / "supervisor.records").write_bytes(b"".join(encode_record(record) for record in supervisor))
    (folder / "probe" / "42.records").write_bytes(b"".join(encode_record(record) for record in probe))
    return folder


def test_a_run_with_everything(tmp_path):
    frame = ["train.py", 7, "main", "x = f()"]
    held = {"type": "list", "holder": "global 'cache'", "file": None, "line": None, "function": None}
    folder = write(
        tmp_path / "i",
        {
            "command": ["python", "train.py"],
            "working_directory": "/w",
            "started": 10.5,
            "sample_interval_seconds": 0.5,
            "host": {"kernel": "6.1"},
            "variables": {"RANK": "3"},
        },
        [
            {"kind": "limits", "time": 11, "cgroup_limit_bytes": 96 * MIB, "unlimited": ["data_limit_bytes"]},
            {"kind": "versions", "time": 11, "versions": {"nvidia-driver": "550.1"}},
            {"kind": "sample", "time": 12.0, "time_seconds": 12.0, "tree_rss_bytes": 5 * MIB},
            {"kind": "device", "time": 12.0, "index": 0, "used_bytes": 7, "processes": [{"pid": 42, "used_bytes": 5}]},
            {"kind": "counters", "time": 13, "cgroup_oom_kill_before": 0, "cgroup_oom_kill_after": 1},
            {"kind": "unseen", "time": 13, "what": "kernel log", "why": "no", "how": "root"},
            {"kind": "exit", "time": 13, "status": None, "signal": 9, "ended": 12.5},
        ],
        [
            {"kind": "process", "time": 11, "pid": 42, "ppid": 1, "argv": ["python"], "python": "3.11.7", "rank": 3},
            {"kind": "torch", "time": 11, "version": "2.9.1"},
            {"kind": "allocator", "time": 12, "device": 0, "allocated_bytes": 3},
            {
                "kind": "device-oom",
                "time": 12,
                "device": 0,
                "requested_bytes": 100,
                "device_free_bytes": 1,
                "state": {"reserved_bytes": 9},
                "frames": [frame],
                "snapshot_path": "snapshots/42-1.pickle",
            },
            {
                "kind": "exception",
                "time": 12,
                "exception_type": "MemoryError",
                "message": "password=hunter22",
                "frames": [frame],
                "is_memory_error": True,
                "vm_size_bytes": 90 * MIB,
                "address_space_limit_bytes": 96 * MIB,
                "rss_bytes": "much",
                "large_objects": [{**held, "own_bytes": 1, "deep_bytes": 2}],
            },
            {"kind": "end", "time": 13, "clean": False, "rss_peak_bytes": 77},
        ],
    )
    stored = read_run(folder, "x/")
    run = stored.run
    assert is_bundle(folder)
    assert stored.problems == ()
    assert (run.command, run.started_seconds, run.ended_seconds) == (("python", "train.py"), 10.5, 12.5)
    assert (run.exit_status, run.signal, run.complete) == (None, 9, True)
    assert run.limits.cgroup_limit_bytes == 96 * MIB
    assert run.limits.unlimited == ("data_limit_bytes",)
    assert (run.counters.cgroup_oom_kill_before, run.counters.cgroup_oom_kill_after) == (0, 1)
    assert run.samples[0].tree_rss_bytes == 5 * MIB
    assert run.device_readings[0].processes[0].pid == 42
    assert str(run.device_readings[0].source) == "x/supervisor.records:4 (device)"
    assert run.versions == {"nvidia-driver": "550.1", "python": "3.11.7", "torch": "2.9.1"}
    assert (run.host, run.variables) == ({"kernel": "6.1"}, {"RANK": "3"})
    assert run.unseen == (("kernel log", "no", "root"),)
    (process,) = run.processes
    assert (process.pid, process.torch_version, process.rank, process.ended_cleanly) == (42, "2.9.1", 3, False)
    assert process.rss_peak_bytes == 77
    (oom,) = run.device_ooms
    assert (oom.requested_bytes, oom.rank, oom.snapshot_path) == (100, 3, "snapshots/42-1.pickle")
    assert oom.state.reserved_bytes == 9
    assert str(oom.source) == "x/probe/42.records:4 (device-oom)"
    (error,) = run.exceptions
    assert error.message == "password=<masked>"
    assert error.frames[0].line == 7
    assert error.large_objects[0].deep_bytes == 2
    assert (error.vm_size_bytes, error.address_space_limit_bytes, error.rss_bytes) == (90 * MIB, 96 * MIB, None)
    assert run.allocator_states[0].allocated_bytes == 3


@pytest.mark.parametrize("path", ["/etc/passwd", "../../x", "a/../../x", 7, None])
def test_a_snapshot_elsewhere_is_not_named(tmp_path, path):
    record = {"kind": "device-oom", "time": 1, "device": 0, "requested_bytes": 1, "snapshot_path": path}
    assert read_run(write(tmp_path / "i", probe=[record])).run.device_ooms[0].snapshot_path is None


def test_an_unfinished_run_says_so(tmp_path):
    stored = read_run(write(tmp_path / "i", {"command": ["x"]}, [{"kind": "sample", "time": 5.0}]))
    assert not stored.run.complete
    assert stored.run.exit_status is None
    assert stored.run.started_seconds == 5.0
    assert len(stored.problems) == 1


def test_wrong_types_are_dropped_field_by_field(tmp_path):
    record = {"kind": "sample", "time_seconds": 1, "total_bytes": "much", "tree_rss_bytes": -1, "processes": True}
    (sample,) = read_run(write(tmp_path / "i", supervisor=[record])).run.samples
    assert (sample.total_bytes, sample.tree_rss_bytes, sample.processes) == (None, None, None)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(
    [
        "time",
        "time_seconds",
        "total_bytes",
        "index",
        "processes",
        "device",
        "state",
        "frames",
        "large_objects",
        "requested_bytes",
        "exception_type",
        "message",
        "unlimited",
        "versions",
        "version",
        "pid",
        "rank",
        "argv",
        "clean",
        "status",
        "signal",
        "ended",
        "what",
        "why",
        "how",
        "snapshot_path",
        "count",
    ]
)
kinds = st.sampled_from(
    [
        "sample",
        "device",
        "counters",
        "unseen",
        "exit",
        "limits",
        "versions",
        "process",
        "torch",
        "exception",
        "device-oom",
        "allocator",
        "end",
        "other",
    ]
)
records = st.lists(
    st.builds(lambda kind, fields: {**fields, "kind": kind}, kinds | json_values, st.dictionaries(names, json_values)),
    max_size=6,
)
manifests = st.dictionaries(
    st.sampled_from(
        [
            *("command", "working_directory", "started", "sample_interval_seconds", "host", "variables"),
        ]
    ),
    json_values,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(manifest=manifests, supervisor=records, probe=records)
def test_no_json_makes_it_raise(tmp_path, manifest, supervisor, probe):
    run = read_run(write(tmp_path / "i", manifest, supervisor, probe)).run
    assert isinstance(run.started_seconds, float)
    for sample in run.samples:
        assert all(value is None or isinstance(value, (int, float)) for value in vars(sample).values())
    assert all(isinstance(word, str) for word in run.command)
    str(run).encode("utf-8")


def test_a_process_of_another_namespace_is_known_by_the_number_it_has_for_itself(tmp_path):
    """The driver tells the outer number, the probe the inner one; two that call themselves alike stay as they were."""
    on_card = [{"pid": pid, "used_bytes": pid, "own": True} for pid in (900, 901, 902)]
    told = [
        {"kind": "namespace", "time": 1, "pid": pid, "inner_pid": inner}
        for pid, inner in ((900, 42), (901, 7), (902, 7))
    ]
    look = {"kind": "device", "time": 1, "index": 0, "used_bytes": 2703, "processes": on_card}
    probe = [{"kind": "process", "time": 1, "pid": 42, "ppid": 1, "argv": ["python"], "python": "3.11.7"}]
    (reading,) = read_run(write(tmp_path / "i", {}, [*told, look], probe)).run.device_readings
    assert [(each.pid, each.used_bytes, each.own) for each in reading.processes] == [
        (42, 900, True), (901, 901, True), (902, 902, True),
    ]  # fmt: skip


def test_a_failure_written_again_when_more_is_known_is_one_failure(tmp_path):
    told = {"time": 1, "device": 0, "requested_bytes": 1, "exception_type": "MemoryError", "is_memory_error": True}
    held = {"type": "list", "holder": "local 'x'", "file": None, "line": None, "function": None}
    records = [
        {"kind": "exception", "id": "42-1", "large_objects": [], **told},
        {"kind": "exception", "id": "42-1", "large_objects": [{**held, "own_bytes": 1, "deep_bytes": 2}], **told},
        {"kind": "exception", "id": "42-2", "large_objects": [], **told},
        {"kind": "device-oom", "id": "42-1", **told},
        {"kind": "device-oom", "id": "42-1", "snapshot_path": "snapshots/42-1.pickle", **told},
    ]
    run = read_run(write(tmp_path / "i", probe=records)).run
    assert [len(error.large_objects) for error in run.exceptions] == [1, 0]
    assert [oom.snapshot_path for oom in run.device_ooms] == ["snapshots/42-1.pickle"]


def test_the_memory_error_behind_another_exception_is_what_is_told(tmp_path):
    link = {
        "exception_type": "MemoryError",
        "message": "",
        "frames": [["a.py", 3, "load", ""]],
        "is_memory_error": True,
    }
    record = {
        "kind": "exception",
        "time": 1,
        "exception_type": "RuntimeError",
        "message": "worker failed",
        "frames": [["a.py", 9, "main", ""]],
        "is_memory_error": False,
        "chain": ["junk", {"exception_type": "ValueError"}, link],
    }
    (error,) = read_run(write(tmp_path / "i", probe=[record])).run.exceptions
    assert (error.exception_type, error.is_memory_error, error.frames[0].line) == ("MemoryError", True, 3)


def test_a_census_is_read_with_its_addresses_and_what_is_wrong_in_it_is_left_out(tmp_path):
    group = {
        "device": 0, "category": "logits", "owner": "list 'losses' global in train.py", "bytes": 1 << 30, "count": 9,
        "saved_bytes": 1 << 29, "largest_shape": [8, "x", 2048, 32000], "largest_dtype": "bfloat16",
        "sample_addresses": [1 << 47, -1, None, 5], "length": 9, "adds": True,
    }  # fmt: skip
    device = {"device": 0, "held_bytes": 1 << 30, "vocabulary": [32000, "many"], "unheld_addresses": [7]}
    oom = {"kind": "device-oom", "time": 3.0, "id": "7-oom-1", "device": 0, "requested_bytes": 5}
    census = {
        "kind": "census", "time": 3.0, "id": "7-oom-1", "complete": True,
        "groups": [group, {"device": 0}], "devices": [device],
    }  # fmt: skip
    (found,) = read_run(write(tmp_path / "i", probe=[oom, census])).run.device_ooms
    assert found.census is not None
    (row,) = found.census.groups
    assert (row.saved_bytes, row.largest_shape, row.largest_dtype) == (1 << 29, (8, 2048, 32000), "bfloat16")
    assert row.sample_addresses == (1 << 47, 5)
    assert found.census.devices[0].vocabulary == (32000,)


def test_a_census_of_before_saved_bytes_were_recorded_still_says_what_autograd_keeps(tmp_path):
    group = {"device": 0, "owner": "list 'losses'", "bytes": 1 << 30, "count": 9}
    groups = [{**group, "category": "saved-for-backward"}, {**group, "category": "other"}]
    oom = {"kind": "device-oom", "time": 3.0, "id": "7-oom-1", "device": 0, "requested_bytes": 5}
    census = {"kind": "census", "time": 3.0, "id": "7-oom-1", "complete": True, "groups": groups, "devices": []}
    (found,) = read_run(write(tmp_path / "i", probe=[oom, census])).run.device_ooms
    assert [row.saved_bytes for row in found.census.groups] == [1 << 30, 0]
