"""GIVEN limits of a machine, a container or a shell WHEN a run is checked THEN what it will run into is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from preflight.given import GIB, MIB, levels, limits, only, setup

from oomdoctor.model.host import HostLimits, HostSample
from oomdoctor.preflight.checkpoint import Checkpoint, find_model, read_checkpoint
from oomdoctor.preflight.finding import Level
from oomdoctor.preflight.host import check_disk, check_limits, check_memory, check_shm
from oomdoctor.preflight.setup import read_all_limits


@pytest.mark.parametrize(
    ("command", "shm", "level"),
    [
        ((), 64 * MIB, Level.WARN),
        ((), 16 * GIB, Level.FINE),
        ((), None, Level.UNSEEN),
        (("torchrun", "--nproc-per-node=8", "t.py"), 256 * MIB, Level.WARN),
        (("docker", "run", "--gpus", "all", "image"), 16 * GIB, Level.WARN),
        (("docker", "run", "--shm-size", "8g", "image"), 64 * MIB, Level.FINE),
        (("docker", "run", "--ipc=host", "image"), 64 * MIB, Level.FINE),
    ],
)
def test_shared_memory(command: tuple[str, ...], shm: int | None, level: Level) -> None:
    assert levels(check_shm(setup(*command, shm=shm)), "host.shm") == [level]


def test_shells_limits() -> None:
    soft = {"address space": 40 * GIB, "data": None, "locked memory": 8 * MIB, "open files": 256, "processes": 100}
    found = list(check_limits(setup(soft=soft)))
    assert [each.level for each in found] == [Level.WARN] * 3
    assert found[0].lines == ("ulimit -v unlimited",)
    locked = list(
        check_limits(setup("llama-server", "-m", "x.gguf", "--mlock", soft={**limits().soft, "locked memory": MIB}))
    )
    assert "locked" in locked[0].seen


def test_limits_that_cannot_be_read_are_not_fine() -> None:
    assert levels(check_limits(setup(soft={})), "host.ulimit") == [Level.UNSEEN]
    assert levels(check_limits(setup()), "host.ulimit") == [Level.FINE]


def in_group(limit: int, used: int, cached: int | None = 0) -> dict:
    return {
        "now": HostSample(
            0.0, total_bytes=128 * GIB, available_bytes=100 * GIB, swap_free_bytes=0, cgroup_used_bytes=used
        ),
        "host": HostLimits(
            memory_total_bytes=128 * GIB, cgroup_path="/x", cgroup_limit_bytes=limit, swap_total_bytes=0
        ),
        "cgroup_file_bytes": cached,
    }


def test_the_groups_limit_counts_before_the_machines_memory() -> None:
    found = only(check_memory(setup(**in_group(16 * GIB, 15 * GIB)), None), "host.memory")
    assert (found.level, found.figures["free_bytes"]) == (Level.WARN, GIB)
    cached = only(check_memory(setup(**in_group(16 * GIB, 15 * GIB, cached=10 * GIB)), None), "host.memory")
    assert (cached.level, cached.figures["free_bytes"]) == (Level.FINE, 11 * GIB)


@pytest.mark.parametrize(
    ("checkpoint", "command", "level"),
    [
        (Checkpoint(60 * GIB, 5 * GIB, 12, True), (), Level.FINE),
        (Checkpoint(70 * GIB, 5 * GIB, 14, True), (), Level.WARN),
        (Checkpoint(60 * GIB, 10 * GIB, 6, False), (), Level.FINE),
        (Checkpoint(60 * GIB, 10 * GIB, 6, False), ("torchrun", "--nproc-per-node", "4", "t.py"), Level.WARN),
        (Checkpoint(60 * GIB, 10 * GIB, 6, False), ("torchrun", "--nproc-per-node", "8", "t.py"), Level.FAIL),
    ],
)
def test_the_checkpoint_against_host_memory(checkpoint: Checkpoint, command: tuple[str, ...], level: Level) -> None:
    assert levels(check_memory(setup(*command), checkpoint), "host.checkpoint") == [level]


def test_swap_that_was_not_told_is_not_none() -> None:
    """Else a read that swap may hold would be called a failure."""
    large = Checkpoint(80 * GIB, 80 * GIB, 1, False)
    for told, level in ((0, Level.FAIL), (8 * GIB, Level.FAIL), (20 * GIB, Level.WARN), (None, Level.WARN)):
        given = limits()
        machine = setup(now=replace(given.now, swap_free_bytes=told), host=replace(given.host, swap_total_bytes=told))
        found = list(check_memory(machine, large))
        assert only(found, "host.checkpoint").level is level, told
        assert only(found, "host.swap").level is (Level.UNSEEN if told is None else Level.FINE)


def test_a_group_whose_cached_files_are_not_told_has_no_known_room() -> None:
    given = setup(**in_group(16 * GIB, 15 * GIB, cached=None))
    found = only(check_memory(given, None), "host.memory")
    assert (found.level, "16.00 GiB" in found.why) == (Level.UNSEEN, True)
    beyond = only(check_memory(setup(**in_group(500 * GIB, 15 * GIB, cached=None)), None), "host.memory")
    assert (beyond.level, beyond.figures["free_bytes"]) == (Level.FINE, 100 * GIB)


def test_without_one_field_of_the_table_the_others_are_still_looked_at(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1000 kB\nSwapTotal: 0 kB\nMemFree: \xff kB\n", "latin-1")
    read = read_all_limits(tmp_path)
    found = list(check_memory(setup(now=read.now, host=read.host, overcommit=None), None))
    assert {each.check: each.level for each in found} == {
        "host.memory": Level.UNSEEN, "host.cgroup": Level.UNSEEN, "host.swap": Level.FINE,
    }  # fmt: skip


def test_a_mapped_file_larger_than_the_address_space_fails() -> None:
    given = setup(soft={**limits().soft, "address space": 4 * GIB})
    found = only(check_memory(given, Checkpoint(5 * GIB, 5 * GIB, 1, True)), "host.checkpoint")
    assert found.level is Level.FAIL


def test_strict_overcommit() -> None:
    given = setup(overcommit=2, commit_limit_bytes=10 * GIB, committed_bytes=9 * GIB)
    found = only(check_memory(given, None), "host.overcommit")
    assert (found.level, found.figures["left_bytes"]) == (Level.WARN, GIB)
    assert levels(check_memory(setup(overcommit=2), None), "host.overcommit") == [Level.UNSEEN]


def test_disk_only_where_the_command_names_it(tmp_path: Path) -> None:
    assert list(check_disk(setup("python", "x.py"), None)) == []
    given = setup("python", "x.py", "--offload_folder", str(tmp_path / "not yet"))
    assert levels(check_disk(given, Checkpoint(1, 1, 1, True)), "host.disk") == [Level.FINE]
    assert levels(check_disk(given, Checkpoint(1 << 60, 1, 1, True)), "host.disk") == [Level.WARN]


def test_nothing_of_proc_can_be_read(tmp_path: Path) -> None:
    found = read_all_limits(tmp_path)
    assert (found.free_bytes, found.overcommit, found.cgroup_free_bytes) == (None, None, None)
    given = setup(now=found.now, host=found.host, overcommit=None)
    assert levels(check_memory(given, None), "host.memory") == [Level.UNSEEN]
    assert levels(check_shm(given), "host.shm") == [Level.UNSEEN]


@pytest.mark.parametrize("version", [1, 2])
def test_cached_files_of_both_versions_of_control_groups(tmp_path: Path, version: int) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    mount = tmp_path / "sys/fs/cgroup"
    mount.mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1000000 kB\nMemAvailable: 900000 kB\n")
    kind, line, prefix = (
        ("cgroup2 none rw", "0::/", "") if version == 2 else ("cgroup none rw,memory", "5:memory:/", "total_")
    )
    (tmp_path / "proc/self/cgroup").write_text(f"{line}\n")
    (tmp_path / "proc/self/mountinfo").write_text(f"1 1 0:1 / /sys/fs/cgroup rw - {kind}\n")
    names = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    for name, value in zip(names, (500 * MIB, 400 * MIB), strict=True):
        (mount / name).write_text(f"{value}\n")
    (mount / "memory.stat").write_text(f"{prefix}active_file {100 * MIB}\n{prefix}inactive_file {50 * MIB}\nanon 7\n")
    assert read_all_limits(tmp_path).cgroup_free_bytes == 250 * MIB


def test_files_of_a_checkpoint(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path) is None
    (tmp_path / "pytorch_model-00001.bin").write_bytes(b"x" * 30)
    (tmp_path / "training_args.bin").write_bytes(b"x" * 99)
    assert read_checkpoint(tmp_path) == Checkpoint(30, 30, 1, False)
    (tmp_path / "a.safetensors").write_bytes(b"x" * 10)
    (tmp_path / "b.safetensors").write_bytes(b"x" * 20)
    (tmp_path / "consolidated.safetensors").write_bytes(b"x" * 30)
    assert read_checkpoint(tmp_path) == Checkpoint(30, 20, 2, True)


def test_a_name_in_the_hubs_cache(tmp_path: Path) -> None:
    folder = tmp_path / "hub" / "models--meta--llama"
    (folder / "snapshots" / "abc").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    assert find_model("meta/llama", {"HF_HOME": str(tmp_path)}) == folder / "snapshots" / "abc"
    (folder / "refs" / "main").write_text("../../..")
    assert find_model("meta/llama", {"HF_HOME": str(tmp_path)}) is None
    assert find_model("../nothing-there", {"HF_HOME": str(tmp_path)}) is None
