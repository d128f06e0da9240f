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

from oomdoctor.diagnose import diagnose
from oomdoctor.run.terminal import is_interactive_shell

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


BUSY = """
import curses, subprocess, sys, time
def main(screen):
    beside = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
    screen.addstr(0, 0, "ready"); screen.refresh(); time.sleep(1.5)
    keys = [screen.getch() for _ in range(3)]
    beside.kill(); beside.wait()
    screen.addstr(1, 0, "keys %s" % keys); screen.refresh()
curses.wrapper(main)
"""


def test_keys_typed_while_a_program_is_busy_are_its_own(tmp_path, monkeypatch):
    """It reads them from stdin: nothing takes them from there, though its terminal is in a mode for single keys."""
    monkeypatch.setenv("TERM", "xterm")
    bare, watched = play_both([PYTHON, "-c", BUSY], tmp_path / "i", [(b"ready", b"abc")])
    assert watched == bare
    assert b"keys [97, 98, 99]" in bare[1]


PAGERS = {
    "a file": ["less", "TEXT"],
    "a pipe": ["sh", "-c", "cat TEXT | less; exit 3"],
    "by a program": [PYTHON, "-c", "import subprocess; print(subprocess.call(['less', 'TEXT']), flush=True)"],
    "its stdin is what it prints to": ["sh", "-c", "less TEXT 0<&1; exit 4"],
}


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed here")
@pytest.mark.parametrize("how", PAGERS)
def test_a_pager(tmp_path, monkeypatch, how):
    """It reads keys from the terminal of its stderr: to the end, back to the start, a search, stopped and gone on."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("LESS", raising=False)
    text = tmp_path / "text"
    text.write_text("".join(f"line {number}\n" for number in range(500)))
    steps = [(b"line 5", b"G"), (b"line 499", b"g"), (b"line 0", b"/line 250\r"), (b"line 260", b"q")]
    words = [word.replace("TEXT", str(text)) for word in PAGERS[how]]
    bare, watched = play_both(words, tmp_path / "i", steps)
    assert watched[0] == bare[0]
    assert watched[1].replace(b"\r\r", b"\r").endswith(bare[1][-200:].replace(b"\r\r", b"\r"))


@pytest.mark.skipif(shutil.which("more") is None, reason="more is not installed here")
@pytest.mark.parametrize("how", ["a file", "a pipe"])
def test_more(tmp_path, monkeypatch, how):
    """It reads keys from its stderr itself: a page, a line, the end."""
    monkeypatch.setenv("TERM", "xterm")
    text = tmp_path / "text"
    text.write_text("".join(f"line {number}\n" for number in range(500)))
    words = [word.replace("TEXT", str(text)).replace("less", "more") for word in PAGERS[how]]
    assert page_through(wrapped(words, tmp_path / "i")) == page_through(words)


def page_through(words):
    """The status: a key that was typed at the very moment of the prompt, and came to nothing, is typed again."""
    session = Session(words)
    session.read_until(b"--More--")
    for key, shown in ((b" ", b"--More--"), (b"\r", b"--More--"), (b"q", b"\x1b[K")):
        before = len(session.text)
        for _ in range(20):
            session.type(key)
            session.read_more(1.0)
            if shown in session.text[before:]:
                break
        assert shown in session.text[before:], (key, session.text)
    assert b"line 58" in session.text
    return session.end()


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed here")
def test_a_pager_that_is_stopped_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    text = tmp_path / "text"
    text.write_text("".join(f"line {number}\n" for number in range(500)))
    session = Session(["bash", "--norc", "--noprofile", "-i"])
    session.type(f"{shlex.join(wrapped(['less', str(text)], tmp_path / 'i'))}\n".encode())
    session.read_until(b"line 5")
    time.sleep(0.3)
    session.type(b"\x1a")
    session.read_until(b"Stopped")
    session.type(b"echo shell has $((6*7)) keys\n")
    session.read_until(b"shell has 42 keys")
    session.type(b"fg\n")
    time.sleep(1.0)
    session.type(b"G")
    session.read_until(b"line 499")
    session.type(b"q")
    time.sleep(1.0)
    session.type(b"exit 6\n")
    assert session.end() == 6


SHELL_STEPS = [
    (b"$ ", b"PS1='> '; tty >/dev/null && echo has a terminal; sleep 100\n"),
    (b"\nhas a terminal", b"\x1a"),
    (b"Stopped", b"jobs\n"),
    (b"Stopped                 sleep 100\r\n> ", b"fg\n"),
    (b"fg\r\nsleep 100", b"\x03"),
    (b"^C", b"stty size; sleep 50 &\n"),
    (b"31 101", b"kill %1; wait; exit 5\n"),
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed here")
def test_a_shell_inside_has_job_control(tmp_path, monkeypatch):
    """A job is stopped by ^Z, listed, taken to the foreground, ended by ^C; another runs behind."""
    monkeypatch.setenv("PS1", "$ ")
    monkeypatch.setenv("TERM", "dumb")
    bare, watched = play_both(["bash", "--norc", "--noprofile", "-i"], tmp_path / "i", SHELL_STEPS)

    def plain(screen):
        return re.sub(rb"\[1\] \d+", b"[1] N", screen.replace(b"\x1b[?2004h", b"").replace(b"\x1b[?2004l\r", b""))

    assert b"no job control" not in watched[1]
    assert (watched[0], plain(watched[1])) == (bare[0], plain(bare[1]))
    assert watched[0] == 5


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        ("bash", True),
        ("/bin/bash -i", True),
        ("-zsh", True),
        ("bash --norc --noprofile -i", True),
        ("bash --rcfile file -i", True),
        ("bash -o vi", True),
        ("fish --login", True),
        ("bash -c true", False),
        ("bash -lc true", False),
        ("fish --command true", False),
        ("sh script.sh", False),
        ("bash --rcfile file script", False),
        ("python", False),
    ],
)
def test_which_shells_have_the_terminal_itself(command, is_one):
    assert is_interactive_shell(command.split()) is is_one


def test_a_command_may_have_the_streams_themselves(tmp_path):
    """`--keep-output 0`: the very terminal, of which it is the foreground; nothing is kept, and that is said."""
    words = "import os; print(os.ttyname(1) == os.ttyname(0), os.tcgetpgrp(2) == os.getpgrp(), os.ttyname(2)[:4])"
    session = Session(wrapped([PYTHON, "-c", words], tmp_path / "i", "--keep-output", "0"))
    assert session.end() == 0
    assert b"True True /dev" in session.text
    assert not (tmp_path / "i/stdout.log").exists()
    assert any("output" in missing.what for missing in diagnose([tmp_path / "i"]).missing)


@pytest.mark.extended
@pytest.mark.skipif(shutil.which("vim") is None, reason="vim is not installed here")
def test_an_editor(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    text = tmp_path / "text"
    steps = [(b"", b"ihello\x1b"), (b"hello", b":wq\r")]
    assert play(wrapped(["vim", "-u", "NONE", "-N", str(text)], tmp_path / "i"), steps)[0] == 0
    assert text.read_text() == "hello\n"


def test_background_and_foreground(tmp_path):
    """bg and fg of an interactive shell; a background job that reads is stopped by the terminal.

    The command is bash: dash starts programs by vfork, and a ^Z just then stops the new process alone, with or without
    a wrapper. And ^Z flushes what the shell has printed but the test not read, unless the terminal is told not to.
    """
    command = shlex.join(wrapped(["bash", "-c", "echo up; sleep 1; read line; echo got $line"], tmp_path / "i"))
    session = Session(["bash", "--norc", "--noprofile", "-i"])
    session.type(b"stty noflsh\n")
    session.type(f"{command}\n".encode())
    session.read_until(b"\rup\r\n")
    deadline = time.monotonic() + 120
    while b"Stopped" not in session.text:  # on a busy machine the first may come before the terminal is ready for it
        assert time.monotonic() < deadline, session.text
        session.type(b"\x1a")
        session.read_more(1.0)
    session.type(b"bg\n")
    session.read_until(b"&\r\n")
    while session.text.count(b"Stopped") < 2:
        assert time.monotonic() < deadline, session.text
        session.type(b"jobs\n")
        session.read_more(0.5)
    session.type(b"fg\n")
    time.sleep(1.5)  # stopped for longer than any look of the wrapper takes
    session.type(b"words\n")
    session.read_until(b"got words")
    session.type(b"exit 7\n")
    assert session.end() == 7
