"""Every signal reaches the command once, whichever way it was sent."""

import contextlib
import os
import signal
import subprocess
import time

import pytest
from harness import PYTHON, clean_environment, is_running, wait_until, wrapped

COUNTER = """
import os, signal, sys, time
def note(number, frame): os.write(1, b"%d " % number)
for number in {numbers}: signal.signal(number, note)
os.write(1, b"%d\\n" % os.getpid())
deadline = time.monotonic() + 20
while time.monotonic() < deadline: time.sleep(0.05)
"""
HANDLED = [
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP, signal.SIGCONT),
    *(signal.SIGWINCH, signal.SIGQUIT, signal.SIGALRM, signal.SIGRTMIN),
]


@pytest.fixture
def counting(tmp_path):
    script = COUNTER.format(numbers=[int(number) for number in HANDLED])
    process = subprocess.Popen(
        wrapped([PYTHON, "-c", script], tmp_path / "i"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.command = int(process.stdout.readline())
    yield process
    for pid in (process.command, process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def received(process, seconds=10, quiet_seconds=0.2):
    """All that the command says it received, once nothing more has come for a while."""
    os.set_blocking(process.stdout.fileno(), False)
    said = b""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        piece = process.stdout.read(4096)
        if piece:
            said += piece
            deadline = time.monotonic() + quiet_seconds
        time.sleep(0.02)
    return [int(word) for word in said.split()]


def test_sent_to_the_wrapper_each_arrives_once(counting):
    for number in HANDLED:
        os.kill(counting.pid, number)
        assert received(counting) == [number]
    assert counting.poll() is None


def test_sent_to_the_group_each_arrives_once(counting):
    for number in HANDLED:
        os.killpg(counting.pid, number)
        assert received(counting) == [number]
    # and the next to the wrapper alone is not mistaken for one of them
    os.kill(counting.pid, signal.SIGTERM)
    assert received(counting) == [signal.SIGTERM]


HELD_UP = """
import time
import oomdoctor.run.capture as capture
capture.StreamCapture.put = lambda *words: time.sleep(0.5)
from oomdoctor.cli.main import main
main()
"""
"""As by a disk that does not answer."""


def test_each_arrives_once_while_the_copy_of_the_output_is_held_up(tmp_path):
    """Many of the same: to the group in a row, to the wrapper in a row, and in turn."""
    numbers = [signal.SIGUSR1, signal.SIGTERM, signal.SIGRTMIN, signal.SIGRTMAX]
    script = COUNTER.format(numbers=[int(number) for number in numbers]).replace("time.sleep(0.05)", "busy()")
    script = "def busy(): time.sleep(0.05); os.write(2, b'.')\n" + script
    process = subprocess.Popen(
        [PYTHON, "-c", HELD_UP, *wrapped([PYTHON, "-c", script], tmp_path / "i")[3:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=clean_environment(),
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        for number in numbers:
            for send in (os.killpg, os.killpg, os.kill, os.kill, os.killpg, os.kill):
                send(process.pid, number)
                time.sleep(0.15)
            assert received(process, quiet_seconds=2) == [number] * 6
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_the_wrapper_ends_by_the_signal_that_ended_the_command(tmp_path, number):
    process = subprocess.Popen(
        wrapped(["sh", "-c", "echo started; exec sleep 300"], tmp_path / "i"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    assert process.wait(timeout=100) == -number


def test_a_graceful_end_on_a_signal_is_waited_for(tmp_path):
    script = (
        "import signal,sys,time\n"
        "signal.signal(15, lambda *a: (time.sleep(0.5), print('saved'), sys.exit(9)))\n"
        "print('up', flush=True)\n"
        "time.sleep(300)"
    )
    process = subprocess.Popen(
        wrapped([PYTHON, "-c", script], tmp_path / "i"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    assert process.communicate(timeout=100)[0] == b"saved\n"
    assert process.returncode == 9


def test_timeout_of_coreutils_works_through_the_wrapper(tmp_path):
    done = subprocess.run(
        ["timeout", "1", *wrapped(["sleep", "300"], tmp_path / "i")], capture_output=True, timeout=100
    )
    assert done.returncode == 124


def state(pid):
    with open(f"/proc/{pid}/stat") as stream:
        return stream.read().rpartition(")")[2].split()[0]


def test_stop_and_continue(tmp_path):
    process = subprocess.Popen(
        wrapped(["sh", "-c", "echo $$; exec sleep 300"], tmp_path / "i"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    command = int(process.stdout.readline())
    os.kill(command, signal.SIGSTOP)
    wait_until(lambda: state(process.pid) == "T")  # the shell sees the job stop
    os.kill(process.pid, signal.SIGCONT)
    wait_until(lambda: state(command) != "T" and state(process.pid) != "T")
    process.terminate()
    assert process.wait(timeout=100) == -signal.SIGTERM
    assert not is_running(command)


@pytest.mark.parametrize("number", [signal.SIGCONT, signal.SIGKILL])
def test_a_command_that_alone_is_stopped_and_goes_on_or_is_killed_is_waited_for(tmp_path, number):
    """As by a debugger or a scheduler that knows the command's number only: the wrapper must not stay stopped."""
    script = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGCONT, lambda *_: print('on', flush=True))\n"
        "print(os.getpid(), flush=True)\n"
        "deadline = time.monotonic() + 4\n"
        "while time.monotonic() < deadline: time.sleep(0.1)\n"
        "raise SystemExit(3)"
    )
    process = subprocess.Popen(
        wrapped([PYTHON, "-c", script], tmp_path / "i"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    command = int(process.stdout.readline())
    os.kill(command, signal.SIGSTOP)
    wait_until(lambda: state(process.pid) == "T")
    os.kill(command, number)
    assert process.communicate(timeout=100)[0] == (b"on\n" if number == signal.SIGCONT else b"")
    assert process.returncode == (3 if number == signal.SIGCONT else -signal.SIGKILL)
