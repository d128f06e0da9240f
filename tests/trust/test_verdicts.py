"""GIVEN the counters before and after, samples and the kernel's log WHEN a command dies THEN why is told apart.

Each bundle is written as the supervisor writes it, with the counters read from files as the kernel lays them out in
both versions of control groups. The signal is the same in most of them: it decides nothing.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from harness import PYTHON, wrapped

from oomdoctor.bundle.write import BundleWriter
from oomdoctor.collect.cgroup import CgroupCounters, find_memory_cgroup, read_pressure, read_system_oom_kills
from oomdoctor.diagnose import diagnose
from oomdoctor.model.diagnosis import Diagnosis, Verdict
from oomdoctor.model.host import HostSample, OomCounters

MIB = 1 << 20
GIB = 1 << 30
KERNEL = (
    "[ 1205.114300] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
    "[ 1205.114800] oom-kill:constraint={constraint},nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
    "task_memcg=/job,task=python,pid=4410,uid=0\n"
    "[ 1205.114810] {words}: Killed process 4410 (python) total-vm:9112612kB, anon-rss:8097792kB, file-rss:6276kB, "
    "shmem-rss:0kB, UID:0 pgtables:260kB oom_score_adj:0\n"
)
GLOBAL = KERNEL.format(constraint="CONSTRAINT_NONE", words="Out of memory")
MEMCG = KERNEL.format(constraint="CONSTRAINT_MEMCG", words="Memory cgroup out of memory").replace(
    "global_oom,", "oom_memcg=/job,"
)


@dataclass(frozen=True)
class Counted:
    """What the kernel's files say at one moment."""

    own_kills: int = 0
    limit_hits: int = 0
    machine_kills: int = 0
    pressure: float = 0.0


def lay_out(root: Path, version: int, now: Counted) -> None:
    """The files as the kernel of that version shows them; the limit is that of the group above the command's."""
    if version == 2:
        top = "sys/fs/cgroup"
        files = {
            "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n",
            "proc/self/cgroup": "0::/job/step\n",
            f"{top}/job/memory.max": f"{2 * GIB}\n",
            f"{top}/job/memory.events": f"max {now.limit_hits * 9}\noom {now.limit_hits}\noom_kill {now.own_kills}\n",
            f"{top}/job/step/memory.max": "max\n",
            f"{top}/job/step/memory.events": f"low 0\nhigh 0\nmax 0\noom 0\noom_kill {now.own_kills}\n",
        }
    else:
        top = "sys/fs/cgroup/memory"
        files = {
            "proc/self/mountinfo": "35 23 0:31 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n",
            "proc/self/cgroup": "4:memory:/job/step\n",
            f"{top}/job/memory.limit_in_bytes": f"{2 * GIB}\n",
            f"{top}/job/memory.failcnt": f"{now.limit_hits}\n",
            f"{top}/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
            f"{top}/job/step/memory.limit_in_bytes": "9223372036854771712\n",
            f"{top}/job/step/memory.oom_control": f"oom_kill_disable 0\nunder_oom 0\noom_kill {now.own_kills}\n",
        }
    files["proc/vmstat"] = f"nr_free_pages 12\noom_kill {now.machine_kills}\n"
    files["proc/pressure/memory"] = (
        "some avg10=99.00 avg60=0.00 avg300=0.00 total=9\n"
        f"full avg10={now.pressure:.2f} avg60=0.00 avg300=0.00 total=4\n"
    )
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def counters(root: Path, version: int | None, before: Counted, after: Counted) -> tuple[OomCounters, float | None]:
    """What the collectors read of both moments; version None: a machine that shows no group."""
    read: list[tuple[CgroupCounters, int | None]] = []
    for now in (before, after):
        lay_out(root, version or 2, now)
        group = None if version is None else find_memory_cgroup(root=root)
        read.append((group.counters() if group else CgroupCounters(), read_system_oom_kills(root)))
    (first, first_kills), (last, last_kills) = read
    return OomCounters(
        *(first.oom, last.oom, first.oom_kill, last.oom_kill, first_kills, last_kills, first.failcnt, last.failcnt)
    ), read_pressure(root)


@dataclass(frozen=True)
class Death:
    """How a command ended, and what was seen around it."""

    after: Counted = Counted()
    signal: int | None = 9
    status: int | None = None
    received: Sequence[int] = ()
    command: Sequence[str] = ("python", "train.py")
    kernel: str = ""
    stderr: str = ""
    available: int = 40 * GIB
    shm_free: int = 1 * GIB
    probe: Mapping[str, Any] | None = None


def bundle(folder: Path, version: int | None, death: Death) -> Path:
    before = Counted(own_kills=3, limit_hits=5, machine_kills=12)
    after = replace(
        death.after,
        own_kills=3 + death.after.own_kills,
        limit_hits=5 + death.after.limit_hits,
        machine_kills=12 + death.after.machine_kills,
    )
    counted, pressure = counters(folder / "root", version, before, after)
    writer = BundleWriter(folder / "incident")
    started = time.time() - 60
    writer.write_manifest({"command": list(death.command), "started": started, "sample_interval_seconds": 0.5})
    writer.append("limits", {"memory_total_bytes": 64 * GIB, "shm_total_bytes": 1 * GIB, "cgroup_limit_bytes": 2 * GIB})
    for step in range(8):
        sample = HostSample(
            time_seconds=started + step,
            total_bytes=64 * GIB,
            available_bytes=death.available,
            tree_rss_bytes=800 * MIB,
            tree_virtual_bytes=2 * GIB,
            processes=1,
            pressure_full_avg10=pressure,
            shm_free_bytes=death.shm_free,
        )
        writer.append("sample", {**vars(sample), "time": sample.time_seconds})
    writer.append("counters", vars(counted))
    if death.kernel:
        writer.write_file("kernel.log", death.kernel.encode())
    writer.write_file("stderr.log", death.stderr.encode())
    if death.probe is not None:
        from oomdoctor.bundle.records import encode_record

        record = {
            "kind": "exception",
            "time": started + 7.5,
            "id": "7-1",
            "pid": 7,
            "frames": [],
            "chain": [],
            **death.probe,
        }
        (writer.directory / "probe" / "7.records").write_bytes(encode_record(record))
    ended = {"status": death.status, "signal": death.signal, "ended": started + 8, "received": list(death.received)}
    writer.append("exit", ended)
    writer.close()
    return writer.directory


MEMORY_ERROR = {"exception_type": "MemoryError", "message": "", "is_memory_error": True, "fatal": True}
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 4, in <module>\nMemoryError\n'
SHM = (
    "RuntimeError: DataLoader worker (pid 12) is killed by signal: Bus error. It is possible that dataloader's workers "
    "are out of shared memory.\n"
)
CUDA = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB "
    "of which 1.12 GiB is free. Including non-PyTorch memory, this process has 22.56 GiB memory in use. Of the "
    "allocated memory 21.90 GiB is allocated by PyTorch, and 214.12 MiB is reserved by PyTorch but unallocated.\n"
)

OOM, NOT, UNKNOWN = Verdict.OUT_OF_MEMORY, Verdict.NOT_OUT_OF_MEMORY, Verdict.UNDETERMINED

DEATHS: dict[str, tuple[Death, Verdict, set[str], set[str]]] = {
    # name: (the death, the verdict, causes of which one comes first, causes that must not be found)
    "the group's limit": (Death(Counted(1, 4, 1)), OOM, {"HST002"}, {"HST001", "HST015"}),
    "the group's limit, in the kernel's words": (
        Death(Counted(1, 4, 1), kernel=MEMCG),
        OOM,
        {"HST002"},
        {"HST001"},
    ),
    "the machine, nearly full": (Death(Counted(1, 0, 1), available=300 * MIB), OOM, {"HST001"}, {"HST002"}),
    "the machine, in the kernel's words": (
        Death(Counted(1, 0, 1), kernel=GLOBAL),
        OOM,
        {"HST001"},
        {"HST002", "HST015"},
    ),
    "a limit further up, or the machine": (Death(Counted(1, 0, 1)), OOM, {"HST015", "HST001"}, {"HST002"}),
    "somebody else's kill": (Death(Counted(0, 0, 2)), UNKNOWN, {"HST005"}, {"HST001", "HST002", "HST015"}),
    "somebody else's kill, in the kernel's words": (
        Death(Counted(0, 0, 1), kernel=GLOBAL),
        UNKNOWN,
        {"HST005"},
        {"HST001", "HST002", "HST015"},
    ),
    "SIGKILL by somebody": (Death(), UNKNOWN, {"HST005"}, {"HST001", "HST002", "HST015"}),
    "SIGKILL behind a shell": (
        Death(signal=None, status=137),
        UNKNOWN,
        {"HST005"},
        {"HST001", "HST002", "HST015"},
    ),
    "the limit was hit, and only reclaimed": (Death(Counted(0, 3, 0)), UNKNOWN, {"HST005"}, {"HST001", "HST002"}),
    "MemoryError": (
        Death(signal=None, status=1, stderr=TRACEBACK, probe=MEMORY_ERROR),
        OOM,
        {"HST003", "HST006", "HST007"},
        {"HST001", "HST002", "HST005"},
    ),
    "CUDA": (Death(signal=None, status=1, stderr=CUDA), OOM, set(), {"HST001", "HST002", "HST005"}),
    "bus error, /dev/shm full": (Death(signal=7, shm_free=0), OOM, {"HST009"}, {"HST005", "HST002"}),
    "bus error behind a shell": (Death(signal=None, status=135, shm_free=0), OOM, {"HST009"}, {"HST005"}),
    "bus error of a worker, as torch says": (
        Death(signal=None, status=1, stderr=SHM, shm_free=0),
        OOM,
        {"HST009"},
        {"HST005"},
    ),
    "bus error with room": (Death(signal=7), UNKNOWN, set(), {"HST009", "HST005"}),
    "timeout's SIGTERM": (Death(signal=15, received=[15]), NOT, {"NOT009"}, {"HST005", "HST001", "HST002"}),
    "timeout inside": (
        Death(signal=None, status=124, command=("timeout", "60", "python", "train.py")),
        NOT,
        {"NOT009"},
        {"HST005"},
    ),
    "^C": (Death(signal=2, received=[2]), NOT, {"NOT009"}, {"HST005"}),
    "SIGTERM that it sent itself": (Death(signal=15), UNKNOWN, set(), {"NOT009", "HST005"}),
    "SIGTERM after MemoryError": (
        Death(signal=15, received=[15], stderr=TRACEBACK, probe={**MEMORY_ERROR, "fatal": False}),
        OOM,
        {"HST003", "HST006", "HST007"},
        {"NOT009"},
    ),
    "a stall without any kill, then a timeout": (
        Death(Counted(pressure=87.0), signal=15, received=[15], available=200 * MIB),
        OOM,
        {"HST016"},
        {"HST005", "HST001"},
    ),
    "a stall, then SIGKILL by a watchdog": (
        Death(Counted(pressure=87.0), available=200 * MIB),
        OOM,
        {"HST016"},
        {"HST001", "HST002"},
    ),
}
WITHOUT_GROUP: dict[str, tuple[Death, Verdict, set[str], set[str]]] = {
    "only the machine's counter": (Death(Counted(0, 0, 1)), OOM, {"HST001"}, {"HST002"}),
    "nothing counted": (Death(), UNKNOWN, {"HST005"}, {"HST001", "HST002"}),
}


def check(found: Diagnosis, verdict: Verdict, first: set[str], never: set[str]) -> None:
    names = [finding.rule for finding in found.findings]
    assert not never & set(names), found.summary
    if first:
        assert names, found.summary
        assert names[0] in first
    assert found.verdict is verdict, (found.summary, names)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", DEATHS)
def test_each_death_is_told_apart(tmp_path, name, version):
    death, *expected = DEATHS[name]
    check(diagnose([bundle(tmp_path, version, death)]), *expected)


@pytest.mark.parametrize("name", WITHOUT_GROUP)
def test_a_machine_that_shows_no_group(tmp_path, name):
    death, *expected = WITHOUT_GROUP[name]
    check(diagnose([bundle(tmp_path, None, death)]), *expected)


@pytest.mark.parametrize("text", ["exit code 137\n", "Killed\n", "train.sh: line 3:  4410 Killed   python train.py\n"])
def test_137_alone_proves_nothing(tmp_path, text):
    log = tmp_path / "job.log"
    log.write_text(f"step 1 loss 2.0\n{text}")
    found = diagnose([log])
    assert found.verdict is not Verdict.OUT_OF_MEMORY
    assert {finding.rule for finding in found.findings} <= {"HST005"}


SHM_FILLED = """
import mmap, os
room = os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize
with open("/dev/shm/filled", "wb+") as file:
    file.truncate(room + (4 << 20))
    view = mmap.mmap(file.fileno(), 0)
    import time
    for at in range(0, len(view), 1 << 20):
        view[at : at + 4096] = b"x" * 4096
        for page in range(at, min(at + (1 << 20), len(view)), 4096): view[page] = 1
        if at == len(view) - (4 << 20) - (1 << 20): time.sleep(0.6)
"""


@pytest.mark.extended
@pytest.mark.parametrize("how", ["bus error", "SIGKILL by somebody", "timeout", "MemoryError"])
def test_real_deaths(tmp_path, how):
    command: list[str]
    around: list[str] = []
    if how == "bus error":
        around = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=16m tmpfs /dev/shm && exec "$@"', "sh"]
        if subprocess.run([*around, "true"], capture_output=True).returncode:
            pytest.skip("a small /dev/shm cannot be mounted here")
        command = [PYTHON, "-c", SHM_FILLED]
    elif how == "SIGKILL by somebody":
        command = ["sh", "-c", "sleep 0.5; kill -9 $$"]
    elif how == "timeout":
        around, command = ["timeout", "2"], ["sleep", "30"]
    else:
        command = [PYTHON, "-c", "import time; time.sleep(0.3); bytearray(1 << 60)"]
    subprocess.run([*around, *wrapped(command, tmp_path / "i", "--interval", "0.1")], capture_output=True, timeout=60)
    found = diagnose([tmp_path / "i"])
    expected = {
        "bus error": (OOM, {"HST009"}, {"HST005"}),
        "SIGKILL by somebody": (UNKNOWN, {"HST005"}, {"HST001", "HST002", "HST015"}),
        "timeout": (NOT, {"NOT009"}, {"HST005"}),
        "MemoryError": (OOM, {"HST003", "NOT007"}, {"HST005"}),
    }
    check(found, *expected[how])
