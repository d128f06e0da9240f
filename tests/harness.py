"""Runs a command bare and under watch, so that tests can compare what a caller sees."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

PYTHON = sys.executable
WRAPPER = (PYTHON, "-c", "from oomdoctor.cli.main import main; main()", "run", "--report", "never")


def wrapped(command: Sequence[str], folder: Path, *options: str) -> list[str]:
    return [*WRAPPER, "--output", str(folder), *options, "--", *command]


def run_both(command: Sequence[str], folder: Path, **keywords) -> tuple[subprocess.CompletedProcess, ...]:
    """The finished process of the bare command and of the wrapped one, without the wrapper's own sentences."""
    keywords = {"timeout": 120, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **keywords}
    bare = subprocess.run(command, **keywords)
    watched = subprocess.run(wrapped(command, folder), **keywords)
    if watched.stderr is not None:
        lines = watched.stderr.splitlines(keepends=True)
        watched.stderr = b"".join(line for line in lines if not line.startswith(b"oomdoctor: "))
    return bare, watched


def wait_until(condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def clean_environment(**more: str) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if not name.startswith("OOMDOCTOR")}, **more}


@pytest.fixture(autouse=True)
def no_core_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


@pytest.fixture
def ends() -> Iterator[list[int]]:
    """Processes to end after the test, by their id."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
