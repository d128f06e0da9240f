"""GIVEN a command WHEN it ends in any way THEN the wrapper ends in the same way."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest
from harness import PYTHON, WRAPPER, run_both, wait_until, wrapped

_STOPPING = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
_HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
KILLING = sorted({int(number) for number in signal.valid_signals()} - _STOPPING - _HARMLESS)
"""All signals whose default is death, the real-time ones included."""

IN_ONE_PROCESS = """
import json, os, sys
from oomdoctor.run.child import Child, Inherited, block_signals, end_like
from oomdoctor.run.session import _NoWitness
inherited = block_signals()
seen = []
for status, number in json.loads(sys.argv[1]):
    words = ["sh", "-c", "ulimit -c 0; kill -%d $$" % number if number else "exit %d" % status]
    end = Child.start(words, os.environ, (), inherited, _NoWitness()).wait(_NoWitness(), lambda: False)
    pid = os.fork()
    if not pid:
        end_like(end.status, end.signal)
    seen.append([end.status, end.signal, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])])
print(json.dumps(seen))
"""


def taken_over(ends: list[tuple[int | None, int | None]]) -> list[list[int | None]]:
    """What is understood of a child that ends so, and how a process that ends like it does end."""
    done = subprocess.run(
        [PYTHON, "-c", IN_ONE_PROCESS, json.dumps(ends)], stdout=subprocess.PIPE, check=True, timeout=120
    )
    seen: list[list[int | None]] = json.loads(done.stdout)
    return seen


def test_every_exit_status_is_taken_over() -> None:
    seen = taken_over([(status, None) for status in range(256)])
    assert seen == [[status, None, status] for status in range(256)]


def test_death_by_every_signal_is_taken_over() -> None:
    seen = taken_over([(None, number) for number in KILLING])
    assert seen == [[None, number, -number] for number in KILLING]


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 256, 32))
def test_every_exit_status_for_real(tmp_path, first):
    for status in range(first, first + 32):
        done = subprocess.run(wrapped(["sh", "-c", f"exit {status}"], tmp_path / "i"), capture_output=True)
        assert done.returncode == status


@pytest.mark.extended
@pytest.mark.parametrize("number", KILLING)
def test_death_by_every_signal_for_real(tmp_path, number):
    bare, watched = run_both(["sh", "-c", f"ulimit -c 0; echo out; kill -{number} $$"], tmp_path / "i")
    assert watched.returncode == bare.returncode == -number
    assert watched.stdout == bare.stdout


def test_a_missing_interpreter_is_named(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    done = subprocess.run(wrapped([str(script)], tmp_path / "i"), capture_output=True)
    assert done.returncode == 127
    assert b"its interpreter, which the first line names, is not there" in done.stderr


SLOW_REPORT = """
import time
import oomdoctor.cli.run as run
run.write_reports = lambda *a, **k: (print("reporting", flush=True, file=__import__("sys").stderr), time.sleep(20))
from oomdoctor.cli.main import main; main()
"""


@pytest.mark.parametrize(
    ("numbers", "interrupts"),
    [((signal.SIGUSR1, signal.SIGALRM, signal.SIGTERM), True), ((signal.SIGINT,), True), ((signal.SIGHUP,), True)],
    ids=["USR1, ALRM, TERM", "INT", "HUP"],
)
def test_signals_while_the_report_is_made_change_nothing(tmp_path, numbers, interrupts):
    command = [PYTHON, "-c", SLOW_REPORT, "run", "--output", str(tmp_path / "i"), "--", "sh", "-c", "exit 5"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stderr is not None
    assert process.stderr.readline() == b"reporting\n"
    for number in numbers:
        process.send_signal(number)
    assert process.wait(timeout=10) == 5
    assert b"interrupted before the report was made" in process.stderr.read()


@pytest.mark.extended
@pytest.mark.slow
def test_an_interrupt_at_any_moment_of_the_start_ends_by_it(tmp_path):
    """But for the first tenth of a second, in which Python itself is not up yet and ends as Python then does."""
    for step in range(40):
        process = subprocess.Popen(
            wrapped(["sleep", "30"], tmp_path / str(step)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        time.sleep(0.15 + step * 0.02)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode == -signal.SIGINT
        wait_until(lambda group=process.pid: not members(group))


def members(group: int) -> list[str]:
    """The processes of a group, zombies included."""
    found = subprocess.run(["ps", "-eo", "pgid=,pid=,stat=,comm="], capture_output=True, text=True).stdout
    return [line for line in found.splitlines() if int(line.split()[0]) == group]


def test_an_interrupt_before_the_command_starts_ends_by_it(tmp_path):
    prelude = (
        "import os, signal, oomdoctor.run.session as s\n"
        "s.read_baseline = lambda: (os.kill(os.getpid(), signal.SIGINT), 1 / 0)\n"
        "from oomdoctor.cli.main import main; main()"
    )
    done = subprocess.run([*WRAPPER[:2], prelude, *WRAPPER[3:], "--output", str(tmp_path / "i"), "--", "true"])
    assert done.returncode == -signal.SIGINT
