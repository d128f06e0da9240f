"""What a run leaves behind, and that nothing about leaving it harms the command."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from harness import PYTHON, is_running, wait_until, wrapped

from oomdoctor.readers.bundle import is_bundle, read_run


def run(command, folder, *options, **keywords):
    return subprocess.run(wrapped(command, folder, *options), capture_output=True, timeout=60, **keywords)


def test_a_run_is_recorded(tmp_path):
    folder = tmp_path / "i"
    script = "import time; held = bytearray(80 << 20); time.sleep(1); raise SystemExit(3)"
    assert run([PYTHON, "-c", script], folder, "--interval", "0.1").returncode == 3
    assert is_bundle(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(file.stat().st_mode & 0o077 == 0 for file in folder.rglob("*"))
    stored = read_run(folder)
    assert stored.problems == ()
    assert (stored.run.exit_status, stored.run.signal, stored.run.complete) == (3, None, True)
    assert stored.run.command == (PYTHON, "-c", script)
    assert max(sample.tree_rss_bytes or 0 for sample in stored.run.samples) > 80 << 20
    assert len(stored.run.samples) >= 2  # ten on an idle machine
    assert stored.run.limits.memory_total_bytes
    assert stored.run.ended_seconds - stored.run.started_seconds > 1


def test_secrets_are_masked_in_all_that_is_written(tmp_path):
    secret = "hf_abcdefghijklmnopqrstuvwxyz0123"
    command = ["sh", "-c", 'echo "token $1"; echo "PASSWORD=$1" >&2', "sh", secret, "--api-key", "k3y-of-mine"]
    environment = {**os.environ, "VLLM_API_KEY": "k3y-of-mine", "HF_TOKEN": secret, "CUDA_VISIBLE_DEVICES": "0"}
    done = run(command, tmp_path / "i", env=environment)
    assert secret.encode() in done.stdout  # what the command prints is its own affair
    written = b"".join(file.read_bytes() for file in (tmp_path / "i").rglob("*") if file.is_file())
    assert secret.encode() not in written
    assert b"k3y-of-mine" not in written
    assert json.loads((tmp_path / "i/manifest.json").read_text())["variables"]["CUDA_VISIBLE_DEVICES"] == "0"


def test_only_head_and_tail_of_much_output_are_kept(tmp_path):
    script = "for i in range(200000): print('line', i)"
    done = run([PYTHON, "-c", script], tmp_path / "i", "--keep-output", "500K")
    assert done.stdout.count(b"\n") == 200_000
    kept = (tmp_path / "i/stdout.log").read_bytes()
    assert len(kept) < 520 << 10
    assert kept.startswith(b"line 0\nline 1\n")
    assert kept.endswith(b"line 199998\nline 199999\n")
    assert kept.count(b"bytes left out here]") == 1
    assert not list((tmp_path / "i").glob("*.tail-*"))


def test_a_killed_supervisor_leaves_a_readable_bundle_and_an_unharmed_command(tmp_path, ends):
    folder, out = tmp_path / "i", tmp_path / "out"
    script = (
        "import os, time\n"
        "print(os.getpid(), flush=True)\n"
        "for i in range(15): time.sleep(0.1); print('step', i, flush=True)\n"
        "open('done', 'w')"
    )
    with open(out, "wb") as stream:
        process = subprocess.Popen(wrapped([PYTHON, "-c", script], folder), stdout=stream, cwd=tmp_path)
        wait_until(lambda: b"step 2" in out.read_bytes())
        wait_until(lambda: b'"kind":"sample"' in (folder / "supervisor.records").read_bytes())
        process.kill()
        process.wait()
    command = int(out.read_text().split()[0])
    ends.append(command)
    assert is_running(command)
    stored = read_run(folder)
    assert not stored.run.complete
    assert stored.run.exit_status is stored.run.signal is None
    assert stored.run.samples
    assert stored.problems
    wait_until((tmp_path / "done").exists)  # no SIGPIPE: its output still finds a reader
    wait_until(lambda: out.read_bytes().endswith(b"step 14\n"))
    wait_until(lambda: (folder / "stdout.log").read_bytes().endswith(b"step 14\n"))


def test_a_folder_that_cannot_be_written_does_not_stop_the_command(tmp_path):
    unwritable = Path("/proc/oomdoctor-incident")
    done = run(["sh", "-c", "echo works; exit 6"], unwritable, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert (done.returncode, done.stdout) == (6, b"works\n")
    assert b"Cannot write an incident folder" in done.stderr
    (elsewhere,) = tmp_path.glob("oomdoctor-*")
    assert read_run(elsewhere).run.exit_status == 6


def test_an_earlier_incident_is_never_overwritten(tmp_path):
    for _ in range(2):
        assert run(["true"], tmp_path / "i").returncode == 0
    assert is_bundle(tmp_path / "i")
    assert is_bundle(tmp_path / "i-2")


def test_a_folder_removed_while_running_does_not_harm_the_command(tmp_path):
    folder = tmp_path / "i"
    script = (
        "import os, shutil, time\n"
        # What is written meanwhile makes one attempt fail.
        f"while os.path.exists({str(folder)!r}): shutil.rmtree({str(folder)!r}, ignore_errors=True)\n"
        "for i in range(2000): print('x' * 1000)\n"
        "time.sleep(0.5)\n"
        "raise SystemExit(4)"
    )
    done = run([PYTHON, "-c", script], folder, "--keep-output", "100K", "--interval", "0.1")
    assert done.returncode == 4
    assert done.stdout == (b"x" * 1000 + b"\n") * 2000


@pytest.fixture
def tiny_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_does_not_harm_the_command(tiny_disk):
    script = "for i in range(20000): print('a line of output', i)\nraise SystemExit(5)"
    done = run([PYTHON, "-c", script], tiny_disk / "i", "--interval", "0.05")
    assert done.returncode == 5
    assert done.stdout.count(b"\n") == 20_000
    assert b"No space left" in done.stderr
    assert is_bundle(tiny_disk / "i")
    assert read_run(tiny_disk / "i").run.command[0] == PYTHON


@pytest.fixture
def memory_group():
    """A real memory control group of 96 MiB."""
    top = Path("/sys/fs/cgroup/memory")
    version = 1
    if not top.is_dir():
        top, version = Path("/sys/fs/cgroup"), 2
    group = top / f"oomdoctor-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if version == 1 else "memory.max")).write_text(str(96 << 20))
    except OSError as error:
        if group.is_dir():
            group.rmdir()
        pytest.skip(f"a memory control group cannot be made here: {error.strerror}")
    yield group
    deadline = time.monotonic() + 10
    while True:
        try:
            group.rmdir()
            return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


HOG = "import time\nheld = []\nwhile True: held.append(bytearray(4 << 20)); time.sleep(0.03)"


@pytest.mark.parametrize("inside", [True, False], ids=["wrapper in the group", "command moves into it"])
def test_a_kill_by_the_kernel_shows_in_the_counters(tmp_path, memory_group, inside):
    folder = tmp_path / "i"
    hog = [PYTHON, "-c", HOG]
    enter = f"echo $$ > {memory_group}/cgroup.procs; "
    if inside:
        command = ["sh", "-c", enter + 'exec "$@"', "sh", *wrapped(hog, folder, "--interval", "0.05")]
    else:
        command = wrapped(["sh", "-c", enter + 'sleep 0.3; exec "$@"', "sh", *hog], folder, "--interval", "0.05")
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    run = read_run(folder).run
    assert run.signal == signal.SIGKILL
    assert run.counters.cgroup_oom_kill_after == run.counters.cgroup_oom_kill_before + 1
    assert run.counters.cgroup_failcnt_after > run.counters.cgroup_failcnt_before
    assert run.limits.cgroup_limit_bytes == 96 << 20
    assert any((sample.cgroup_used_bytes or 0) > 32 << 20 for sample in run.samples)


def test_a_limit_that_the_script_sets_itself_is_seen(tmp_path):
    script = "import resource, time; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30)); time.sleep(0.5)"
    assert run([PYTHON, "-c", script], tmp_path / "i", "--interval", "0.1").returncode == 0
    limits = read_run(tmp_path / "i").run.limits
    assert limits.address_space_limit_bytes == 3 << 30
    assert "address_space_limit_bytes" not in limits.unlimited


@pytest.mark.parametrize(
    ("script", "seen"),
    [
        ("pass", False),
        ("raise SystemExit(1)", False),
        ("raise MemoryError", True),
        ("try: raise MemoryError('x')\nexcept MemoryError: print('CUDA out of memory')", True),
        ("import os; os.kill(os.getpid(), 9)", None),
    ],
)
def test_signs_of_an_out_of_memory_event(tmp_path, script, seen):
    from oomdoctor.model.host import OomCounters
    from oomdoctor.run.signs import out_of_memory_seen

    done = run([PYTHON, "-c", script], tmp_path / "i", "--no-probe")
    status = done.returncode if done.returncode >= 0 else None
    number = -done.returncode if done.returncode < 0 else None
    assert out_of_memory_seen(tmp_path / "i", OomCounters(), status, number) is seen
