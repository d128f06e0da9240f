"""GIVEN a disk, a folder, a clock or a group that fails WHEN a command runs THEN what was recorded can be analyzed."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from harness import PYTHON, wrapped

from oomdoctor.bundle.read import read_bundle
from oomdoctor.bundle.write import BundleWriter
from oomdoctor.cli.output import FORMATS
from oomdoctor.diagnose import diagnose
from oomdoctor.readers.bundle import is_bundle, read_run
from oomdoctor.report import render

BUSY = """
import time
held = []
for i in range(30):
 held.append(bytearray(1 << 20)); print('x' * 3000, flush=True)
 time.sleep(0.03)
"""


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_disk_that_fills_up_keeps_what_was_recorded(small_disk):
    """Somebody else fills it while the command runs, then makes room again."""
    folder = small_disk / "i"
    script = BUSY.replace("for i", f"import os\nfull = {str(small_disk / 'full')!r}\nfor i") + (
        " if i == 10:\n"
        "  try: open(full, 'wb', 0).write(b'x' * (1 << 20))\n"
        "  except OSError: pass\n"
        "  time.sleep(0.7)\n"
        " if i == 20: os.unlink(full)\n"
    )
    done = subprocess.run(
        wrapped([PYTHON, "-c", f"{script}\nraise MemoryError"], folder, "--interval", "0.02", "--keep-output", "16K"),
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.count(b"\n")) == (1, 30)
    assert b"No space left on device" in done.stderr
    run = read_run(folder).run
    assert run.exit_status == 1
    assert run.samples
    assert diagnose([folder]).inputs[0].status in ("read", "partly")


def test_a_folder_that_becomes_read_only(small_disk):
    folder = small_disk / "i"
    remount = ["mount", "-o", "remount,ro", str(small_disk)]
    script = f"{BUSY}\n if i == 10: __import__('subprocess').run({remount!r})\nraise SystemExit(4)"
    done = subprocess.run(
        wrapped([PYTHON, "-c", script], folder, "--interval", "0.02"), capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout.count(b"\n")) == (4, 30)
    assert b"Read-only file system" in done.stderr or b"Bad file" in done.stderr or is_bundle(folder)
    assert read_run(folder).run.samples
    assert diagnose([folder]).inputs[0].status in ("read", "partly")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """A whole bundle with samples, records of the probe and output."""
    folder = tmp_path_factory.mktemp("recorded") / "i"
    subprocess.run(
        wrapped([PYTHON, "-c", f"{BUSY}raise MemoryError"], folder, "--interval", "0.05"), capture_output=True
    )
    assert read_run(folder).run.exit_status == 1
    return folder


def test_a_clock_that_jumps(tmp_path):
    """An hour back, a day on, while it runs: NTP, a suspended machine."""
    folder = tmp_path / "i"
    writer = BundleWriter(folder)
    now = 1_700_000_000.0
    writer.write_manifest({"command": ["train"], "started": now, "sample_interval_seconds": 0.5})
    for step, jump in enumerate([0, 0, 0, -3600, -3600, -3600, 86400, 86400, -1e9, 1e12]):
        moment = now + step * 0.5 + jump
        about = {
            "time_seconds": moment,
            "total_bytes": 1 << 34,
            "available_bytes": 1 << 33,
            "tree_rss_bytes": step << 20,
        }
        writer.append("sample", {**about, "tree_virtual_bytes": step << 21, "processes": 1, "time": moment})
    writer.append("exit", {"status": None, "signal": 9, "ended": now - 3598.0})
    writer.close()
    found = diagnose([folder])
    assert found.inputs[0].status == "read"
    for form in FORMATS:
        assert render(found, form)


def test_a_bundle_copied_at_any_moment(tmp_path):
    folder, stop, copies = tmp_path / "i", threading.Event(), tmp_path / "copies"
    copies.mkdir()

    def copy() -> None:
        number = 0
        while not stop.wait(0.15):
            if folder.is_dir():
                number += 1
                shutil.copytree(folder, copies / str(number), ignore_dangling_symlinks=True, ignore=ignored)

    def ignored(_place: str, names: list[str]) -> list[str]:
        return [name for name in names if name.endswith((".ask", ".part"))]

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        subprocess.run(
            wrapped([PYTHON, "-c", f"{BUSY}raise MemoryError"], folder, "--interval", "0.02"), capture_output=True
        )
    finally:
        stop.set()
        thread.join()
    made = sorted(copies.iterdir(), key=lambda place: int(place.name))
    assert len(made) >= 3
    samples = [len(read_run(place).run.samples) for place in made if is_bundle(place)]
    assert samples == sorted(samples)
    for place in random.Random(1).sample(made, 3):
        assert diagnose([place]).inputs[0].status in ("read", "partly", "refused")


def test_a_bundle_cut_off_anywhere_is_analyzed(recorded, tmp_path):
    numbers = random.Random(2)
    names = [file.relative_to(recorded) for file in recorded.rglob("*") if file.is_file()]
    for number in range(12):
        place = tmp_path / str(number)
        shutil.copytree(recorded, place)
        for name in names:
            size = (place / name).stat().st_size
            if name.name != "manifest.json" and numbers.random() < 0.7:
                os.truncate(place / name, numbers.randrange(size + 1))
        bundle = read_bundle(place)
        assert bundle.damaged <= len(names)
        assert diagnose([place]).inputs[0].status in ("read", "partly")


@pytest.fixture
def whole_group():
    """A real memory control group that kills all its processes at once, or else the means to do the same."""
    top = Path("/sys/fs/cgroup/memory")
    version = 1 if top.is_dir() else 2
    group = (top if version == 1 else Path("/sys/fs/cgroup")) / f"oomdoctor-both-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if version == 1 else "memory.max")).write_text(str(160 << 20))
        if version == 2:
            (group / "memory.oom.group").write_text("1")
    except OSError as error:
        if group.is_dir():
            group.rmdir()
        pytest.skip(f"a memory control group cannot be made here: {error.strerror}")
    yield group
    for _ in range(100):
        try:
            group.rmdir()
            return
        except OSError:
            time.sleep(0.1)


HOG = "import time\nheld = []\nwhile True: held.append(bytearray(4 << 20)); time.sleep(0.02)"


def test_a_group_that_kills_both_leaves_a_readable_bundle(tmp_path, whole_group):
    """Version 1 kills one process: the rest of the group is killed just after it, as version 2 does."""
    folder = tmp_path / "i"
    enter = f'echo $$ > {whole_group}/cgroup.procs; exec "$@"'
    process = subprocess.Popen(
        ["sh", "-c", enter, "sh", *wrapped([PYTHON, "-c", HOG], folder, "--interval", "0.05")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    events = whole_group / "memory.oom_control"
    if events.exists():
        while process.poll() is None and "oom_kill 0" in events.read_text():
            time.sleep(0.002)
    else:
        process.wait(timeout=60)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=120)
    run = read_run(folder).run
    assert run.limits.cgroup_limit_bytes == 160 << 20
    assert max(sample.cgroup_used_bytes or 0 for sample in run.samples) > 80 << 20
    assert run.processes
    found = diagnose([folder])
    assert found.inputs[0].status in ("read", "partly")
