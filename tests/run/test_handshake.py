"""GIVEN a process out of device memory WHEN it asks for a look THEN it is taken at once and never waited for long."""

from __future__ import annotations

import os
import socket
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


def test_those_who_wait_when_a_look_begins_share_it_and_no_later_one_does(tmp_path: Path) -> None:
    began, go_on = threading.Event(), threading.Event()
    looks: list[float] = []

    def look() -> None:
        looks.append(time.monotonic())
        began.set()
        go_on.wait(5)

    handshake = Handshake(str(tmp_path / "ask"), look)
    handshake.start()
    answered: list[bytes] = []

    def wait_for_answer() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(str(tmp_path / "ask"))
            connection.sendall(b"oom 1\n")
            answered.append(connection.recv(1))

    waiting = [threading.Thread(target=wait_for_answer) for _ in range(5)]
    waiting[0].start()
    assert began.wait(5)
    for thread in waiting[1:]:
        thread.start()
    time.sleep(0.1)  # all of them have connected; the first look began before they did
    go_on.set()
    for thread in waiting:
        thread.join(5)
    assert answered == [b"!"] * 5
    assert len(looks) == 2
    handshake.stop()


def test_nobody_waits_for_a_slow_look(tmp_path: Path) -> None:
    released = threading.Event()
    handshake = Handshake(str(tmp_path / "ask"), lambda: released.wait(10) and None)
    handshake.start()
    assert 0.2 < ask(str(tmp_path / "ask")) < 0.5
    released.set()
    handshake.stop()


def test_who_ends_in_order_is_looked_at_otherwise_than_who_fails(tmp_path: Path) -> None:
    looks: list[str] = []
    handshake = Handshake(str(tmp_path / "ask"), lambda: looks.append("oom"), lambda: looks.append("end"))
    handshake.start()
    for why in (b"end 1\n", b"oom 1\n", b"what\n"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(str(tmp_path / "ask"))
            connection.sendall(why)
            assert connection.recv(1) == (b"" if why == b"what\n" else b"!")
    handshake.stop()
    assert looks == ["end", "oom"]


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
