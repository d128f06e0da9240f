"""What the relay's thread reports of signals, where much comes and nobody reads."""

import fcntl
import os
import signal
import subprocess
import time

import pytest
from harness import PYTHON, wrapped

from oomdoctor.run import witness

BLOCKED = frozenset({signal.SIGUSR1, signal.SIGRTMIN})


@pytest.fixture
def relay():
    """A process that reports into a pipe of one page, and the supervisor's end of it."""
    seen, reports = os.pipe()
    fcntl.fcntl(reports, 1031, 4096)  # F_SETPIPE_SZ
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*BLOCKED, witness.MARK})
    pid = os.fork()
    if pid == 0:
        os.set_blocking(reports, False)
        witness.testify(BLOCKED, reports)
        os._exit(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(reports)
    yield pid, seen
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def fill(pid):
    """Send until the pipe can hold no more; one after the other, so that each is reported by itself."""
    for _ in range(400):
        os.kill(pid, signal.SIGRTMIN)
        time.sleep(0.0005)


def test_an_answer_waits_for_room_in_the_pipe(relay):
    pid, seen = relay
    # GIVEN more signals than the pipe has room for, while the supervisor stood still; and a mark
    fill(pid)
    os.kill(pid, witness.MARK)
    time.sleep(0.2)
    testimony = witness.Testimony(pid, seen)
    testimony._awaits_answer = True
    # WHEN the supervisor asks
    started = time.monotonic()
    assert testimony._mark()
    # THEN it has its answer at once, and what comes from now on is told
    assert time.monotonic() - started < 0.9
    os.kill(pid, signal.SIGUSR1)
    testimony.forget()
    assert not testimony.names(signal.SIGUSR1)
    os.kill(pid, signal.SIGUSR1)
    assert testimony.names(signal.SIGUSR1)
    testimony.close()


def test_no_report_is_torn_by_a_pipe_that_is_nearly_full(relay):
    pid, seen = relay
    # GIVEN a pipe with little room, and a thousand signals that lie with a relay which then gets time
    for _ in range(100):
        os.kill(pid, signal.SIGRTMIN)
        time.sleep(0.0005)
    os.kill(pid, signal.SIGSTOP)
    for _ in range(1000):
        os.kill(pid, signal.SIGRTMIN)
    os.kill(pid, signal.SIGCONT)
    time.sleep(0.3)
    # THEN each line is whole, also where lines were left out, and an answer follows
    testimony = witness.Testimony(pid, seen)
    assert testimony._mark()
    assert {number for number, _ in testimony._seen} == {signal.SIGRTMIN}
    testimony.close()


def test_signals_without_a_pause_do_not_hold_up_the_supervisor(relay):
    pid, seen = relay
    # A process of one thread: where others do not block a signal, as of a worker that runs tests, they would die of it.
    supervisor = os.fork()
    if supervisor == 0:
        status = 1
        try:
            status = 0 if seconds_of_an_answer_in_a_flood(pid, seen) < 5 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(supervisor, 0)[1]) == 0


def seconds_of_an_answer_in_a_flood(pid, seen):
    testimony = witness.Testimony(pid, seen)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    supervisor = os.getpid()
    sender = os.fork()
    if sender == 0:
        while os.getppid() == supervisor:
            os.kill(pid, signal.SIGUSR1)
            os.kill(supervisor, signal.SIGUSR1)
            time.sleep(0.0002)
        os._exit(0)
    try:
        signal.sigwaitinfo({signal.SIGUSR1})
        time.sleep(0.01)
        started = time.monotonic()
        testimony.names(signal.SIGUSR1)
        return time.monotonic() - started
    finally:
        os.kill(sender, signal.SIGKILL)
        os.waitpid(sender, 0)


def test_without_room_for_a_thread_the_output_still_arrives(tmp_path):
    """A stack that the limit of address space has no room for: the relay's thread cannot be started."""
    command = wrapped([PYTHON, "-c", "print('out')"], tmp_path / "i")
    limited = ["bash", "-c", 'ulimit -S -s 8000000 && ulimit -v 6000000 && exec "$@"', "bash", *command]
    done = subprocess.run(limited, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"out\n"), done.stderr
