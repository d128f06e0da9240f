"""GIVEN a fault of oomdoctor's own WHEN a command runs under it THEN the command does not notice."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest
from harness import WRAPPER, wait_until, wrapped

from oomdoctor.readers.bundle import read_run

BROKEN = {
    "watch starts": "import oomdoctor.run.watch as w; w.Watch.start = lambda *a: 1 / 0",
    "watch ends": "import oomdoctor.run.watch as w; w.Watch.finish = lambda *a, **k: 1 / 0",
    "manifest": "import oomdoctor.collect.host as h; h.describe_host = lambda: 1 / 0",
    "relay": "import oomdoctor.run.relay as r; r.Relay.finish = lambda *a: 1 / 0; r.Relay.saw = lambda *a: 1 / 0",
    "no memory": "import oomdoctor.run.watch as w, oomdoctor.run.signs as s\n"
    "def f(*a, **k): raise MemoryError\nw.Watch.start = s.out_of_memory_seen = f",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_fault_of_ours_changes_nothing_for_the_command(tmp_path, name):
    main = f"{BROKEN[name]}\nfrom oomdoctor.cli.main import main; main()"
    script = "trap 'echo got; exit 7' TERM; echo up; while :; do sleep 0.05; done"
    command = [*WRAPPER[:2], main, *WRAPPER[3:], "--output", str(tmp_path / "i"), "--", "sh", "-c", script]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.terminate()
    out, errors = process.communicate(timeout=120)
    assert (process.returncode, out) == (7, b"got\n")
    assert b"Traceback" not in errors
    if name != "manifest":
        assert read_run(tmp_path / "i").run.exit_status == 7


def test_a_wrapper_that_was_stopped_for_long_goes_on(tmp_path):
    """Stopped in the middle of waiting for a signal, and continued: no signal is made up, none is lost."""
    script = "trap 'echo got' USR1; echo up; while read line; do echo $line; done; echo end; exit 3"
    process = subprocess.Popen(
        wrapped(["bash", "-c", script], tmp_path / "i"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"up\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT))
    process.send_signal(signal.SIGUSR1)
    time.sleep(1.3)
    process.send_signal(signal.SIGCONT)
    time.sleep(0.3)
    process.stdin.write(b"line\n")
    out, errors = process.communicate(timeout=120)
    assert (process.returncode, out) == (3, b"got\nline\nend\n")
    assert b"Traceback" not in errors
