"""GIVEN a watched command WHEN SIGKILL hits it, its supervisor or both at any instant THEN nothing is lost."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness import PYTHON, WRAPPER, is_running, wait_until, wrapped

from oomdoctor.bundle.read import is_bundle, read_bundle
from oomdoctor.diagnose import diagnose
from oomdoctor.readers.bundle import read_run

STEPS = """
import os, sys, time
open(sys.argv[1] + '/pid', 'w').write(str(os.getpid()))
held = []
for step in range(8):
    held.append(bytearray(1 << 20))
    print('step', step, flush=True)
    time.sleep(0.04)
os.rename(sys.argv[1] + '/pid', sys.argv[1] + '/done')
time.sleep(0.2)
raise MemoryError
"""


def pid_of(place: Path) -> int | None:
    for name in ("pid", "done"):
        with contextlib.suppress(OSError, ValueError):
            return int((place / name).read_text())
    return None


def contents(folder: Path) -> dict[str, bytes]:
    files = {}
    for file in (*folder.glob("*.records"), *folder.glob("probe/*.records")):
        with contextlib.suppress(OSError):
            files[str(file.relative_to(folder))] = file.read_bytes()
    return files


def kill(place: Path, target: str, seconds: float) -> None:
    """Start, kill after `seconds`, and look at what is left."""
    place.mkdir()
    folder = place / "incident"
    process = subprocess.Popen(
        wrapped([PYTHON, "-c", STEPS, str(place)], folder, "--interval", "0.02"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(seconds)
    recorded = contents(folder)
    command = pid_of(place)
    if target == "both":
        os.killpg(process.pid, signal.SIGKILL)
    elif target == "supervisor":
        process.kill()
    elif command is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(command, signal.SIGKILL)
    out = process.communicate(timeout=60)[0]
    if target == "supervisor" and command is not None:
        wait_until(lambda: not is_running(command), 30)
        assert (place / "done").exists(), "the command was harmed"
        assert out == b"".join(b"step %d\n" % step for step in range(8))
    elif target == "command" and command is not None:
        assert process.returncode in (-signal.SIGKILL, 1)
    after = contents(folder)
    for name, content in recorded.items():
        assert after[name].startswith(content), f"{name} lost what it had"
    if not folder.is_dir() or not after:
        return
    bundle = read_bundle(folder)
    assert bundle.damaged <= len(after)
    for name, content in recorded.items():
        whole = content.count(b"\n")
        records = bundle.supervisor if name == "supervisor.records" else bundle.probes[int(Path(name).stem)]
        assert len(records.records) >= whole, f"a whole record of {name} was not read"
    found = diagnose([folder])
    assert found.inputs[0].status in ("read", "partly")
    if not bundle.complete:
        assert not read_run(folder).run.complete


def kill_many(folder: Path, number: int, at_once: int) -> None:
    numbers = random.Random(8)
    todo = [
        (folder / str(index), ("command", "supervisor", "both")[index % 3], numbers.uniform(0.05, 1.6))
        for index in range(number)
    ]
    with ThreadPoolExecutor(at_once) as pool:
        for done in [pool.submit(kill, *one) for one in todo]:
            done.result()


def test_kills_at_a_few_instants(tmp_path):
    kill_many(tmp_path, 6, 3)


@pytest.mark.extended
@pytest.mark.slow
def test_kills_at_two_hundred_instants(tmp_path):
    kill_many(tmp_path, 200, 4)


def test_analyze_says_that_the_supervisor_died(tmp_path):
    folder = tmp_path / "incident"
    # `kill -9` of its parent, which is the wrapper
    script = "import os, time; time.sleep(0.4); os.kill(os.getppid(), 9); time.sleep(0.1)"
    process = subprocess.run(wrapped([PYTHON, "-c", script], folder), capture_output=True)
    assert process.returncode == -signal.SIGKILL
    analyzed = subprocess.run(
        [*WRAPPER[:3], "analyze", str(folder), "--format", "markdown"], capture_output=True, text=True
    )
    assert analyzed.returncode == 0
    assert "the supervisor died before it could write its last record" in analyzed.stdout
    assert "its exit is not recorded" in analyzed.stdout
    assert "Cause not determined" in analyzed.stdout


def test_a_supervisor_that_had_only_opened_its_records(tmp_path):
    folder = tmp_path / "incident"
    folder.mkdir()
    assert not is_bundle(folder)
    (folder / "supervisor.records").write_bytes(b"")
    assert is_bundle(folder)
    (record,) = diagnose([folder]).inputs
    assert record.status == "partly"
    assert "manifest.json: it was never written" in record.why
