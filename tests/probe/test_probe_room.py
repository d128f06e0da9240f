"""GIVEN a host nearly full WHEN a device runs out THEN the record comes first, the rest follows if there is room."""

from __future__ import annotations

import ast
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from stub_torch import write_stub
from watched import SITE, Harness

sys.path.insert(0, str(SITE))

from _oomdoctor_probe import room

LEAVE = """
import resource
def leave(mib):
    used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize:")) >> 10
    resource.setrlimit(resource.RLIMIT_AS, ((used + mib) << 20,) * 2)
"""
FAIL = """
import torch
try: torch.allocate(1 << 40)
except torch.OutOfMemoryError: caught = True
"""


@pytest.mark.parametrize(("mib", "snapshots", "refused"), [
    (1000, 1, []), (180, 0, ["writing a snapshot"]), (40, 0, ["writing a snapshot", "taking the census"]),
])  # fmt: skip
def test_snapshot_and_census_follow_if_there_is_room(
    harness: Harness, mib: int, snapshots: int, refused: list[str]
) -> None:
    """Under a real limit. A snapshot of a full ring is reckoned to take 211 MiB, a census 64, and a thread that
    allocates for the first time may take 64 of addresses meanwhile."""
    write_stub(harness.folder, "2.14")
    ended = harness.run(harness.script(f"{LEAVE}import torch, pickle\nleave({mib})\n{FAIL}print(caught)"))
    assert ended.stdout == b"True\n", ended.stderr
    first, *_ = harness.records("device-oom")
    assert (first["requested_bytes"], first["snapshot_path"]) == (1 << 40, None)
    assert len(list((harness.bundle / "snapshots").glob("*.pickle"))) == snapshots
    errors = harness.records("probe-error")
    assert [error["what"] for error in errors] == refused
    assert all("MemoryError: there is room for " in error["error"] for error in errors)


def test_the_reserve_is_enough_for_the_record(harness: Harness) -> None:
    """Everything is taken to the last word; the device's failure is recorded all the same."""
    write_stub(harness.folder, "2.14")
    text = f"""{LEAVE}
import torch, pickle
torch.cuda._lazy_init()
leave(30)
rest = []
def fill():
    for size in (1 << 20, 1 << 16, 1 << 12, 1 << 9, 64, 1):
        try:
            while True: rest.append(bytearray(size))
        except MemoryError: pass
def fail():
    try: torch.allocate(1 << 40)
    except (MemoryError, torch.OutOfMemoryError): pass
fill()
fail()
del rest
print("went on")
"""
    assert harness.run(harness.script(text)).stdout == b"went on\n"
    assert [record["requested_bytes"] for record in harness.records("device-oom")] == [1 << 40]
    assert {error["what"] for error in harness.records("probe-error")} == {"writing a snapshot", "taking the census"}


def test_what_a_group_leaves_is_less_its_cached_files(tmp_path: Path) -> None:
    """Version 1 and 2; the tightest of all groups above counts, and one that is not there does not."""
    assert room.left_bytes(str(tmp_path)) is None
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:    4000 kB\n")
    assert room.left_bytes(str(tmp_path)) == 4000 << 10
    pod = tmp_path / "sys/fs/cgroup/pod"
    (pod / "job").mkdir(parents=True)
    for folder, limit, used in ((pod, "3000000", "2000000"), (pod / "job", "max", "1")):
        (folder / "memory.max").write_text(limit)
        (folder / "memory.current").write_text(used)
    (pod / "memory.stat").write_text("anon 1500000\ninactive_file 300000\nactive_file 200000\n")
    (proc / "self/cgroup").write_text("0::/pod/job\n")
    assert room.left_bytes(str(tmp_path)) == 1_500_000
    old = tmp_path / "sys/fs/cgroup/memory"
    old.mkdir()
    (old / "memory.limit_in_bytes").write_text("1000000")
    (old / "memory.usage_in_bytes").write_text("999000")
    (proc / "self/cgroup").write_text("4:memory:/docker/gone\n2:cpu:/\n0::/pod/job\n")
    assert room.left_bytes(str(tmp_path)) == 1000


@pytest.fixture
def group() -> Iterator[Path]:
    """A real memory control group of 320 MiB."""
    top = Path("/sys/fs/cgroup/memory")
    version = 1 if top.is_dir() else 2
    made = (top if version == 1 else Path("/sys/fs/cgroup")) / f"oomdoctor-room-{os.getpid()}"
    try:
        made.mkdir()
        (made / ("memory.limit_in_bytes" if version == 1 else "memory.max")).write_text(str(320 << 20))
    except OSError as error:
        if made.is_dir():
            made.rmdir()
        pytest.skip(f"a memory control group cannot be made here: {error.strerror}")
    yield made
    for _ in range(100):
        try:
            made.rmdir()
            return
        except OSError:
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("mib", "snapshots", "refused"), [(20, 1, []), (262, 0, ["writing a snapshot", "taking the census"])]
)
def test_snapshot_and_census_follow_if_a_real_group_has_room(
    harness: Harness, group: Path, mib: int, snapshots: int, refused: list[str]
) -> None:
    """GIVEN so many MiB in use in a group of 320 THEN the process lives on, and the record is there in any case."""
    write_stub(harness.folder, "2.14")
    text = f"""
import os
with open({str(group / "cgroup.procs")!r}, "w") as file: file.write(str(os.getpid()))
import torch, pickle
held = bytearray(os.urandom(1 << 20)) * {mib}
{FAIL}
print(caught, len(held) >> 20)
"""
    ended = harness.run(harness.script(text))
    assert ended.stdout == f"True {mib}\n".encode(), (ended.returncode, ended.stderr)
    assert [record["requested_bytes"] for record in harness.records("device-oom")][:1] == [1 << 40]
    assert len(list((harness.bundle / "snapshots").glob("*.pickle"))) == snapshots
    assert [error["what"] for error in harness.records("probe-error")] == refused


ORDER = """
import os, sys
from _oomdoctor_probe import records, reserve
seen = []
def noted(name, call):
    def inner(*words, **more):
        seen.append((name, words[0] if name == "write" else ""))
        return call(*words, **more)
    return inner
reserve.release = noted("release", reserve.release)
reserve.take = noted("take", reserve.take)
records.write = noted("write", records.write)
"""


def test_the_reserve_goes_first_and_the_fixed_record_next(harness: Harness) -> None:
    """GIVEN a failure of the device THEN the reserve is given back before anything is written, and taken again."""
    write_stub(harness.folder, "2.14")
    ended = harness.run(harness.script(f"import torch\ntorch.cuda._lazy_init()\n{ORDER}{FAIL}print(seen)"))
    seen = ast.literal_eval(ended.stdout.decode())
    assert seen[:2] == [("release", ""), ("write", "device-oom")]
    assert seen.count(("take", "")) == seen.count(("release", "")) == 1
