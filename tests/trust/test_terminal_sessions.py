"""GIVEN a command at a terminal WHEN somebody types THEN the screen shows what it shows without the wrapper."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from harness import PYTHON, wrapped
from terminal_session import Session
from test_process import SELF_REPORT, without_the_probe

PROBE = Path(__file__).parents[1] / "probe"
sys.path.append(str(PROBE))
from watched import find_python  # noqa: E402

Steps = Sequence[tuple[bytes, bytes]]
"""(what to wait for, what to type then)."""

ORDINARY = f"""
import os, runpy, sys, termios
runpy.run_path({SELF_REPORT!r})
print([termios.tcgetattr(0)[3], termios.tcgetattr(1)[0], termios.tcgetattr(1)[3]])
print([os.get_terminal_size(number) for number in range(3)])
for done in range(101): print("\\r%3d %%|%s|" % (done, "#" * (done // 10)), end="", file=sys.stderr, flush=True)
print("\\n\\x1b[31mred\\x1b[0m", end=" ", flush=True); import readline; print(input("name? ") * 2, flush=True)
import time; time.sleep(0.3)  # what is printed through /dev/tty does not wait for the rest
import getpass; print(getpass.getpass("secret? "))
import pdb; value = 41
pdb.set_trace(); print("after")
"""


def play(command: Sequence[str], steps: Steps, patience: float = 120) -> tuple[int, bytes]:
    session = Session(command)
    for awaited, keys in steps:
        session.read_until(awaited, patience)
        time.sleep(0.15)
        session.type(keys)
    status = session.end()
    return status, re.sub(rb"oomdoctor: [^\n]*\n(?:  [^\n]*\n)*", b"", session.text)


def play_both(command: Sequence[str], folder: Path, steps: Steps) -> tuple[tuple[int, bytes], tuple[int, bytes]]:
    return play(command, steps), play(wrapped(command, folder), steps)


def test_a_session_looks_the_same(tmp_path):
    """isatty, size and modes, a bar, a colour, readline with a correction, a password, pdb."""
    script = tmp_path / "script.py"
    script.write_text(ORDINARY)
    steps = [
        (b"name? ", b"ab\x02\x02X\n"),
        (b"secret? ", b"hidden\n"),
        (b"(Pdb) ", b"p value + 1\n"),
        (b"42\r\n", b"c\n"),
    ]
    bare, watched = play_both([PYTHON, str(script)], tmp_path / "i", steps)
    report, _, screen = watched[1].partition(b"\r\n")
    expected, _, bare_screen = bare[1].partition(b"\r\n")
    assert screen == bare_screen
    assert b"XabXab" in screen
    assert b"hidden\r\nhidden" not in screen
    assert watched[0] == bare[0] == 0
    seen, known = without_the_probe(json.loads(report)), json.loads(expected)
    kinds = [one.pop("isatty") for one in (seen, known)]
    assert kinds == [[True] * 3] * 2
    assert seen["terminal size"] == known["terminal size"] == [101, 31]
    for one in (seen, known):  # two sessions have two numbers
        del one["groups"][-2:], one["status"]["NSpgid"], one["status"]["NSsid"]
    assert {name for name in known if name != "modules" and seen[name] != known[name]} == set()


def repl(version: str) -> list[str]:
    found = find_python(version)
    if found is None:
        pytest.skip(f"Python {version} is not installed here")
    return [found, "-q"]


SCREENS: dict[str, tuple[Sequence[str] | str, Steps]] = {
    "python -i": ([PYTHON, "-i", "-q", "-c", "x=1"], [(b">>> ", b"x+1\n"), (b"2\r\n", b"exit(4)\n")]),
    **{
        f"REPL {version}": (version, [(b">>> ", b"x=5*3\n"), (b">>> ", b"x\n"), (b"15\r\n", b"exit(3)\n")])
        for version in ("3.8", "3.9", "3.10", "3.11", "3.12")
    },
    "read -s": (["bash", "-c", "read -s -p 'pw? ' x; echo; echo got $x"], [(b"pw? ", b"secret\n")]),
    "stty, one key": (
        ["bash", "-c", "stty -icanon -echo; echo go; dd bs=1 count=1 2>/dev/null | od -c; stty sane"],
        [(b"go", b"k")],
    ),
    "^\\": (["bash", "-c", "ulimit -c 0; echo up; exec sleep 10"], [(b"up", b"\x1c")]),
    "^D": (["cat"], [(b"", b"line\n"), (b"line\r\nline", b"\x04")]),
    "typed while it runs": (["bash", "-c", "echo up; sleep 0.5; read x; echo got $x"], [(b"up", b"typed\n")]),
    "setsid": (["setsid", "-w", PYTHON, "-c", "import os; print(os.isatty(1), os.isatty(0))"], []),
    "tostop": (["bash", "-c", "stty tostop; echo hi; stty -tostop"], []),
    "script": (["script", "-qc", "echo inner; read x; echo got $x", "/dev/null"], [(b"inner", b"abc\r")]),
    "killed with its modes set": (["bash", "-c", "stty -echo -icanon; echo set; kill -9 $$"], []),
    "sizes": (["bash", "-c", "stty size; stty size <&1; tput cols; ps -o tty= -p $$ | wc -w"], []),
}


@pytest.mark.extended
@pytest.mark.parametrize("name", SCREENS)
def test_the_screen_is_the_same(tmp_path, name, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    command, steps = SCREENS[name]
    if isinstance(command, str):
        command = repl(command)
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed here")
    bare, watched = play_both(command, tmp_path / "i", steps)
    # a mode that the command has taken back by then may double what makes no difference
    assert (watched[0], watched[1].replace(b"\r\r", b"\r")) == (bare[0], bare[1].replace(b"\r\r", b"\r"))


FULL_SCREEN = """
import curses, sys, termios
def main(screen):
    screen.addstr(0, 0, "ready"); screen.refresh()
    key = screen.getch()
    screen.addstr(1, 0, "key %d" % key); screen.refresh()
before = termios.tcgetattr(0)
curses.wrapper(main)
import time; time.sleep(0.3)
print("put back", termios.tcgetattr(0) == before)
"""


def test_full_screen_programs(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    bare, watched = play_both([PYTHON, "-c", FULL_SCREEN], tmp_path / "i", [(b"ready", b"z")])
    assert watched == bare
    assert b"key 122" in bare[1]
    assert b"put back True" in bare[1]


@pytest.mark.extended
@pytest.mark.skipif(shutil.which("vim") is None, reason="vim is not installed here")
def test_an_editor(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    text = tmp_path / "text"
    steps = [(b"", b"ihello\x1b"), (b"hello", b":wq\r")]
    assert play(wrapped(["vim", "-u", "NONE", "-N", str(text)], tmp_path / "i"), steps)[0] == 0
    assert text.read_text() == "hello\n"


def test_background_and_foreground(tmp_path):
    """bg and fg of an interactive shell; a background job that reads is stopped by the terminal."""
    command = shlex.join(wrapped(["sh", "-c", "echo up; sleep 1; read line; echo got $line"], tmp_path / "i"))
    session = Session(["bash", "--norc", "--noprofile", "-i"])
    session.type(f"{command}\n".encode())
    session.read_until(b"\rup\r\n")
    while b"Stopped" not in session.text:  # on a busy machine the first may come before the terminal is ready for it
        session.type(b"\x1a")
        session.read_more(1.0)
    session.type(b"bg\n")
    session.read_until(b"&\r\n")
    while session.text.count(b"Stopped") < 2:
        session.type(b"jobs\n")
        session.read_more(0.5)
    session.type(b"fg\n")
    time.sleep(1.5)  # stopped for longer than any look of the wrapper takes
    session.type(b"words\n")
    session.read_until(b"got words")
    session.type(b"exit 7\n")
    assert session.end() == 7
