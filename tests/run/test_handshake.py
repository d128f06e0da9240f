"""GIVEN a process out of device memory WHEN it asks for a look THEN it is taken at once and never waited for long."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from oomdoctor.run.handshake import Handshake
from oomdoctor.run.session import PROBE_SITE, socket_path

ASK = """
import sys, time
from _oomdoctor_probe import handshake
begun = time.monotonic()
for _ in range(int(sys.argv[1])):
    handshake.ask()
print(time.monotonic() - begun, 'socket' in sys.modules)
"""


def ask(path: str | None, times: int = 1) -> float:
    environment = {**os.environ, "PYTHONPATH": str(PROBE_SITE)}
    environment.pop("OOMDOCTOR_BUNDLE", None)
    if path is not None:
        environment["OOMDOCTOR_SOCKET"] = path
    done = subprocess.run(
        [sys.executable, "-S", "-c", ASK, str(times)], env=environment, capture_output=True, check=True
    )
    seconds, imported = done.stdout.split()
    assert (done.stderr, imported) == (b"", b"False")
    return float(seconds)


def test_a_look_is_taken_before_the_answer(tmp_path: Path) -> None:
    looks: list[float] = []
    handshake = Handshake(str(tmp_path / "ask"), lambda: looks.append(time.monotonic()))
    handshake.start()
    assert ask(str(tmp_path / "ask")) < 0.25
    assert len(looks) == 1
    handshake.stop()
    assert handshake.failure is None
    assert list(tmp_path.iterdir()) == []


def test_those_who_ask_together_share_a_look(tmp_path: Path) -> None:
    looks: list[float] = []
    handshake = Handshake(str(tmp_path / "ask"), lambda: looks.append(time.monotonic()))
    handshake.start()
    seconds = ask(str(tmp_path / "ask"), times=20)
    assert 1 <= len(looks) <= 1 + seconds / 0.05
    handshake.stop()


def test_nobody_waits_for_a_slow_look(tmp_path: Path) -> None:
    released = threading.Event()
    handshake = Handshake(str(tmp_path / "ask"), lambda: released.wait(10) and None)
    handshake.start()
    assert 0.2 < ask(str(tmp_path / "ask")) < 0.5
    released.set()
    handshake.stop()


@pytest.mark.parametrize("path", [None, "/nowhere/ask", "x" * 300])
def test_nobody_there_harms_nothing(path: str | None) -> None:
    assert ask(path) < 0.2


def test_a_look_that_fails_is_told(tmp_path: Path) -> None:
    nowhere = Handshake(str(tmp_path / "nowhere" / "ask"), _raise)
    nowhere.start()
    assert nowhere.failure is not None
    handshake = Handshake(str(tmp_path / "ask"), _raise)
    handshake.start()
    ask(str(tmp_path / "ask"))
    assert handshake.failure == "ValueError: gone"
    handshake.stop()


def _raise() -> None:
    raise ValueError("gone")


def test_a_long_folder_gets_a_short_socket(tmp_path: Path) -> None:
    assert socket_path(tmp_path / "i") == str(tmp_path / "i" / ".ask")
    assert len(socket_path(tmp_path / ("long" * 40))) < 100
