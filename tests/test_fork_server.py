"""GIVEN a fork server WHEN a program runs in a fork THEN it cannot tell, and neither can who reads what it left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fork_server import ForkServer
from harness import wait_until

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def server() -> Iterator[ForkServer]:
    made = ForkServer(sys.executable, ["decimal"], os.environ)
    yield made
    made.close()


@pytest.fixture
def run(server: ForkServer, tmp_path: Path) -> Run:
    def run(text: str, timeout: float = 30, **variables: str) -> subprocess.CompletedProcess[bytes]:
        path = tmp_path / "program.py"
        path.write_text(text)
        return server.run(str(path), text, tmp_path, variables, timeout)

    return run


def children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def is_gone(pid: int) -> bool:
    """Ended; who is to reap it may be this process, where an earlier test made it the reaper of orphans."""
    deadline = time.monotonic() + 10
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def test_a_program_finds_what_a_process_of_its_own_would_find(run: Run, tmp_path: Path) -> None:
    text = """
import __main__, os, subprocess, sys
print(__name__, __main__.value if hasattr(__main__, 'value') else None, __file__, sys.argv, sys.path[0], os.getcwd())
value = 1
print(__main__.value, os.environ, 'decimal' in sys.modules, repr(sys.stdin.read()), os.getpid() == os.getpgrp())
print(subprocess.run(['sh', '-c', 'echo $NAMED'], stdout=subprocess.PIPE, text=True).stdout.strip())
print('said', file=sys.stderr)
"""
    ended = run(text, NAMED="so")
    path = tmp_path / "program.py"
    assert ended.stdout.decode().splitlines() == [
        f"__main__ None {path} ['{path}'] {tmp_path} {tmp_path}",
        "1 environ({'NAMED': 'so'}) True '' True",
        "so",
    ]
    assert (ended.returncode, ended.stderr) == (0, b"said\n")


def test_what_one_program_did_the_next_does_not_find(run: Run) -> None:
    run("import decimal, os\ndecimal.left = 1\nos.environ['LEFT'] = '1'\nos.chdir('/')")
    assert run("import decimal, os\nprint(hasattr(decimal, 'left'), os.environ)").stdout == b"False environ({})\n"


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("raise ValueError('so')", 1, b"ValueError: so\n"),
        ("import sys; sys.exit(7)", 7, b""),
        ("import os; os._exit(9)", 9, b""),
        ("import os; os.kill(os.getpid(), 15)", -signal.SIGTERM, b""),
        ("import atexit; atexit.register(print, 'at the end', flush=True); 1 / 0", 1, b"division by zero\n"),
        ("1 +", 1, b"SyntaxError: invalid syntax\n"),
    ],
)
def test_it_ends_as_any_program_does(run: Run, text: str, status: int, said: bytes) -> None:
    ended = run(text)
    assert (ended.returncode, ended.stdout) == (status, b"at the end\n" if "atexit" in text else b"")
    assert ended.stderr.endswith(said)


def test_of_a_program_that_takes_too_long_nothing_is_left(run: Run, tmp_path: Path) -> None:
    hang = """
import os, subprocess, time
print(os.getpid(), subprocess.Popen(['sleep', '60']).pid, flush=True)
time.sleep(60)
"""
    with pytest.raises(subprocess.TimeoutExpired) as raised:
        run(hang, timeout=1)
    assert all(is_gone(int(pid)) for pid in raised.value.stdout.split())
    assert run("print(1)").stdout == b"1\n"


def test_no_process_and_no_file_is_left_open(run: Run, server: ForkServer) -> None:
    files, before = len(os.listdir("/proc/self/fd")), children()
    of_program = "import os; print(os.listdir('/proc/self/fd'), os.getppid())"
    first = run(of_program).stdout.split(b"]")
    for _ in range(5):
        assert run(of_program).stdout.split(b"]") == first
    pid = int(first[1])
    assert Path(f"/proc/{pid}/task/{pid}/children").read_text() == ""
    of_server = len(os.listdir(f"/proc/{pid}/fd"))
    run("")
    assert len(os.listdir(f"/proc/{pid}/fd")) == of_server
    server.close()
    assert (len(os.listdir("/proc/self/fd")), children()) == (files, before)


def test_it_ends_with_who_started_it_also_in_the_middle_of_a_program(tmp_path: Path) -> None:
    text = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from fork_server import ForkServer
program = "import os, time; print(os.getpid(), os.getppid(), file=open('pids', 'w'), flush=True); time.sleep(60)"
ForkServer(sys.executable, [], os.environ).run('p.py', program, Path.cwd(), {{}})
"""
    with subprocess.Popen([sys.executable, "-c", text], cwd=tmp_path) as client:
        pids = tmp_path / "pids"
        try:
            wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"), 60)
        finally:
            client.kill()
    assert all(is_gone(int(pid)) for pid in pids.read_text().split())


def test_it_ends_also_where_a_forked_process_still_holds_its_connection(run: Run, server: ForkServer) -> None:
    run("")
    pid = os.fork()
    if not pid:
        try:
            time.sleep(60)
        finally:
            os._exit(0)
    try:
        begun = time.monotonic()
        server.close()
        assert time.monotonic() - begun < 20
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
