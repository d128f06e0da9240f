"""GIVEN a driver in disorder WHEN a command is run or checked THEN nothing hangs, nothing dies, and it is said.

The driver is a libnvidia-ml.so.1 made of C for the purpose; pynvml, which loads it, is the real one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from extended import extended_but
from harness import PYTHON, clean_environment, is_running, wait_until, wrapped

from oomdoctor.collect import nvml_process

SOURCE = Path(__file__).with_name("driver") / "nvml.c"
WORKS = "import sys, time; time.sleep(float(sys.argv[1])); print('done'); sys.exit(3)"
ENDED = "the process that asks NVML was ended by it"
SILENT = "NVML did not answer"

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def driver(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True, timeout=120)
    return folder


def environment(driver: Path, trouble: str) -> dict[str, str]:
    return clean_environment(LD_LIBRARY_PATH=str(driver), FAKE_NVML=trouble, OOMDOCTOR_LANG="en")


def run(driver: Path, trouble: str, folder: Path, seconds: float) -> tuple[float, dict[str, str], list[dict]]:
    """How long the wrapper took, what it says was not seen, and the readings of devices."""
    begun = time.monotonic()
    command = wrapped([PYTHON, "-c", WORKS, str(seconds)], folder)
    done = subprocess.run(command, env=environment(driver, trouble), capture_output=True, timeout=120, check=False)
    took = time.monotonic() - begun
    assert (done.returncode, done.stdout) == (3, b"done\n")
    assert b"chatter" not in done.stderr
    assert b"Traceback" not in done.stderr
    from oomdoctor.readers.bundle import read_run

    assert read_run(folder).run.complete
    words = [PYTHON, "-m", "oomdoctor", "analyze", "--format", "json", str(folder)]
    shown = subprocess.run(words, env=environment(driver, trouble), capture_output=True, timeout=120, check=False)
    told = json.loads(shown.stdout)
    return took, {one["what"]: one["why"] for one in told["missing"]}, list(read_run(folder).run.device_readings)


AT_ONCE = {
    "crashes in init": ENDED,
    "crashes in count": ENDED,
    "ends in init": ENDED,
    "mismatch": "version mismatch",
    "no driver": "Driver Not Loaded",
    "an unknown error": "Unknown",
    "no cards": "NVML names no device",
    "errors": "NVML names no device",
    "garbage": "NVML names no device",
    "hangs in init": "the command ended before NVML answered",
    "hangs in count": SILENT,
}


@pytest.mark.parametrize("trouble", extended_but(AT_ONCE, "crashes in count", "garbage", "hangs in init"))
def test_a_run_says_what_is_wrong_and_ends_in_order(driver, tmp_path, trouble):
    took, missing, _ = run(driver, trouble, tmp_path / "i", 1.5)
    assert AT_ONCE[trouble] in missing["the driver's samples of device memory"]
    assert took < 30
    assert list(tmp_path.glob("**/core*")) == []


@pytest.mark.parametrize(("trouble", "why"), extended_but([("hangs", SILENT), ("crashes", ENDED)], ("hangs", SILENT)))
def test_a_driver_that_falls_silent_during_the_run(driver, tmp_path, trouble, why):
    took, missing, devices = run(driver, f"{trouble} in the third look", tmp_path / "i", 2)
    assert len(devices) >= 2
    assert why in missing["the devices at the end"]
    assert took < 40


@pytest.mark.parametrize(
    "trouble", extended_but(["garbage sizes", "lost", "no memory", "countless processes"], "garbage sizes")
)
def test_figures_that_cannot_be_are_no_figures(driver, tmp_path, trouble):
    _, _, devices = run(driver, trouble, tmp_path / "i", 1.5)
    assert devices
    for reading in devices:
        assert trouble == "countless processes" or reading.used_bytes is None
        assert reading.utilization is None or reading.utilization <= 1
        assert not reading.processes


def test_a_hanging_driver_leaves_no_process(driver, tmp_path):
    """Not even where the supervisor is killed while it waits."""
    command = wrapped([PYTHON, "-c", WORKS, "30"], tmp_path / "i")
    with subprocess.Popen(command, env=environment(driver, "hangs in init"), stdout=subprocess.DEVNULL) as process:
        wait_until((tmp_path / "i/manifest.json").exists)
        time.sleep(1)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        own = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        beside = [int(pid) for pid in children if Path(f"/proc/{pid}/cmdline").read_bytes() == own]
        assert len(beside) == 2  # the relay and the one that asks NVML
        process.kill()
    killed = [int(pid) for pid in children if int(pid) not in beside]
    for pid in killed:
        os.kill(pid, 9)
    wait_until(lambda: not any(map(is_running, beside)), 20)


@pytest.mark.parametrize("trouble", ["crashes in init", "hangs in init", "hangs in count", "mismatch", "garbage sizes"])
def test_a_check_says_what_is_wrong(driver, tmp_path, trouble):
    words = [PYTHON, "-m", "oomdoctor", "check", "--format", "json", "--", PYTHON, "-c", "pass"]
    done = subprocess.run(words, env=environment(driver, trouble), capture_output=True, timeout=60, check=False)
    assert done.returncode in (0, 1)
    assert b"Traceback" not in done.stderr
    expected = {**AT_ONCE, "hangs in init": "did not answer within", "hangs in count": "did not answer within"}
    if trouble in expected:
        assert expected[trouble] in done.stdout.decode()
    else:
        json.loads(done.stdout)


def test_a_sweep_is_not_held_up(driver, tmp_path):
    words = [PYTHON, "-m", "oomdoctor", "sweep", "--help"]
    assert subprocess.run(words, env=environment(driver, "hangs in init"), timeout=60, check=False).returncode == 0
    code = "from oomdoctor.collect.nvml_process import read_devices; print(read_devices())"
    for trouble in ("crashes in init", "mismatch", "garbage"):
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment(driver, trouble), capture_output=True, timeout=60, check=True
        )
        assert done.stdout.startswith(b"((), '")


def test_a_driver_that_hangs_is_waited_for_once(monkeypatch):
    """A sweep asks before each of its runs."""
    asked = []
    monkeypatch.setattr(nvml_process, "_silent", [])
    monkeypatch.setattr(nvml_process.NvmlProcess, "open", lambda self, patience: asked.append(patience))
    assert [nvml_process.read_devices() for _ in range(3)] == [((), SILENT)] * 3
    assert asked == [60.0, 1.0, 1.0]
