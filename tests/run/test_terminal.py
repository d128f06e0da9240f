"""Under a terminal the command sees a terminal, and the keyboard works as without the wrapper."""

import fcntl
import os
import re
import shlex
import signal
import struct
import termios
import time

import pytest
from harness import PYTHON, wait_until, wrapped
from terminal_session import Session

WORDS = "import os,sys; print([os.isatty(n) for n in range(3)], tuple(os.get_terminal_size(1)))"


def test_all_three_are_terminals_of_the_same_size(tmp_path):
    session = Session(wrapped([PYTHON, "-c", WORDS], tmp_path / "i"))
    assert session.end() == 0
    assert b"[True, True, True] (101, 31)\r\n" in session.text
    assert b"[True, True, True] (101, 31)\n" in (tmp_path / "i/stdout.log").read_bytes()


@pytest.mark.parametrize("number", [1, 2])
def test_one_redirected_the_other_a_terminal(tmp_path, number):
    def redirect():
        file = os.open(tmp_path / "file", os.O_CREAT | os.O_WRONLY)
        os.dup2(file, number)

    script = "import os; os.write(0, str([os.isatty(n) for n in range(3)]).encode())"
    session = Session(wrapped([PYTHON, "-c", script], tmp_path / "i"), prelude=redirect)
    assert session.end() == 0
    assert str([True, number != 1, number != 2]).encode() in session.text


def test_keyboard_input_arrives_and_a_resize_is_seen(tmp_path):
    script = (
        "import os, signal\n"
        "signal.signal(signal.SIGWINCH, lambda *a: print('size', tuple(os.get_terminal_size(1)), flush=True))\n"
        "print('name?', flush=True); name = input(); print('hello', name, flush=True)\n"
        "while input() != 'end': pass\n"
    )
    session = Session(wrapped([PYTHON, "-c", script], tmp_path / "i"))
    session.read_until(b"name?")
    session.type(b"world\n")
    session.read_until(b"hello world")
    fcntl.ioctl(session.screen, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    session.read_until(b"size (120, 40)")
    session.type(b"end\n")
    assert session.end() == 0


def test_control_c_arrives_once(tmp_path):
    script = (
        "import signal, time\n"
        "caught = []\n"
        "signal.signal(2, lambda *a: (caught.append(1), print('caught', flush=True)))\n"
        "print('up', flush=True)\n"
        "while not caught: time.sleep(0.1)\n"
        "time.sleep(0.5)\n"
    )
    session = Session(wrapped([PYTHON, "-c", script], tmp_path / "i"))
    session.read_until(b"up")
    session.type(b"\x03")
    assert session.end() == 0
    assert session.text.count(b"caught") == 1


def test_control_c_ends_the_command_and_the_wrapper_by_sigint(tmp_path):
    session = Session(wrapped([PYTHON, "-c", "import time; print('up', flush=True); time.sleep(30)"], tmp_path / "i"))
    session.read_until(b"up")
    session.type(b"\x03")
    assert session.end() == -signal.SIGINT
    assert b"KeyboardInterrupt" in session.text


def test_control_z_and_fg_in_a_shell(tmp_path):
    command = " ".join(
        f"'{word}'" for word in wrapped(["sh", "-c", "echo up; read line; echo got $line"], tmp_path / "i")
    )
    session = Session(["bash", "--norc", "--noprofile", "-i"])
    session.type(f"{command}\n".encode())
    session.read_until(b"\rup\r\n")
    session.type(b"\x1a")
    session.read_until(b"Stopped")
    session.type(b"fg\n")
    time.sleep(0.5)
    session.type(b"words\n")
    session.read_until(b"got words")
    session.type(b"exit 7\n")
    assert session.end() == 7


def test_hang_up_reaches_the_command(tmp_path):
    script = (
        "import signal,sys,time\n"
        f"signal.signal(1, lambda *a: (open({str(tmp_path / 'hup')!r}, 'a').write('x'), sys.exit()))\n"
        "print('up', flush=True)\n"
        "time.sleep(20)"
    )
    session = Session(wrapped([PYTHON, "-c", script], tmp_path / "i"))
    session.read_until(b"up")
    os.close(session.screen)
    wait_until(lambda: os.waitpid(session.pid, os.WNOHANG)[0], 30)
    assert (tmp_path / "hup").read_text() == "x"


FULL_SCREEN = """
import os, sys, termios, time, tty
found = termios.tcgetattr(1)
tty.setraw(1)
os.write(1, b"READY")
time.sleep(0.5)
parent = os.getppid()
relays = [int(pid) for pid in open("/proc/%d/task/%d/children" % (parent, parent)).read().split()]
for pid in relays:
    if pid != os.getpid(): os.kill(pid, 9)
time.sleep(0.3)
termios.tcsetattr(1, termios.TCSANOW, found)
"""


def test_the_terminal_is_given_back_when_the_relay_was_killed(tmp_path):
    """A full-screen program sets its own terminal back, and nobody is left to mirror that."""
    with_modes = f"stty -g; {shlex.join(wrapped([PYTHON, '-c', FULL_SCREEN], tmp_path / 'i'))}; stty -g; echo END"
    session = Session(["sh", "-c", with_modes])
    session.read_until(b"READY")
    session.read_until(b"END")
    session.end()
    modes = re.findall(rb"\b[0-9a-f]+(?::[0-9a-f]+){10,}", session.text)
    assert len(modes) == 2
    assert modes[0] == modes[1]
