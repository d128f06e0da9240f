"""GIVEN a command that is about to start WHEN ^C or ^Z comes before it has its program THEN it takes effect.

The start is held up at one of four moments, of which the test learns by a line.
"""

import contextlib
import os
import signal
import subprocess

import pytest
from extended import extended_but
from harness import PYTHON, clean_environment, wait_until

HELD_UP = """
import os, sys, time
from oomdoctor.run import spawn
moment = sys.argv.pop(1)
def hold(*_):
    os.write(2, b"now\\n")
    end = time.monotonic() + 1
    while time.monotonic() < end: time.sleep(0.01)
if moment == "before it is there":
    fork = os.fork
    def late():
        if sys._getframe(1).f_code.co_name == "spawn": hold()
        return fork()
    os.fork = late
elif moment == "while it is held":
    give = spawn._give_what_came_before
    def late(*words):
        hold()
        return give(*words)
    spawn._give_what_came_before = late
elif moment == "before its program":
    execute = os.execvpe
    def late(*words):
        hold()
        execute(*words)
    os.execvpe = late
from oomdoctor.cli.main import main
main()
"""
MOMENTS = ("before it is there", "while it is held", "before its program")


def state(pid):
    with open(f"/proc/{pid}/stat") as stream:
        return stream.read().rpartition(")")[2].split()[0]


@pytest.fixture(params=MOMENTS)
def starting(tmp_path, request):
    command = [PYTHON, "-c", HELD_UP, request.param, "run", "--report", "never", "--output", str(tmp_path / "i")]
    process = subprocess.Popen(
        [*command, "--", "sh", "-c", "exec sleep 60"],
        stderr=subprocess.PIPE,
        process_group=0,
        env=clean_environment(),
    )
    assert process.stderr is not None
    assert process.stderr.readline() == b"now\n"
    yield process
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("number", extended_but([signal.SIGINT, signal.SIGTERM, signal.SIGUSR1], signal.SIGINT))
@pytest.mark.parametrize("send", [os.killpg, os.kill])
def test_a_signal_during_the_start_ends_the_command(starting, send, number):
    send(starting.pid, number)
    assert starting.wait(timeout=30) == -number


def test_a_stop_during_the_start_stops_both(starting):
    os.killpg(starting.pid, signal.SIGTSTP)
    wait_until(lambda: state(starting.pid) == "T")
    os.killpg(starting.pid, signal.SIGCONT)
    wait_until(lambda: state(starting.pid) != "T")
    os.kill(starting.pid, signal.SIGTERM)
    assert starting.wait(timeout=30) == -signal.SIGTERM
