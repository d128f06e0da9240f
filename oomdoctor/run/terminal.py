"""The command's own streams: a terminal where the wrapper has one, a pipe otherwise; stdin stays what it is.

The terminal made here is for output only and passes bytes through unchanged; the real one does the processing.
Keyboard, job control and `/dev/tty` stay those of the real terminal: the command stays in the wrapper's process group.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import termios
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_LOG_NAMES = {1: "stdout.log", 2: "stderr.log"}
_OUTPUT, _FLAGS, _CHARACTERS = 1, range(4), 6
"""Places in what `termios.tcgetattr` returns."""


@dataclass(frozen=True)
class Stream:
    """One way out of the command."""

    numbers: tuple[int, ...]
    """The command's file descriptors that lead into it: (1,), (2,) or (1, 2)."""
    source: int
    """Where the wrapper reads what the command writes; non-blocking."""
    child_end: int
    terminal: int | None = None
    """The real terminal, where there is one: the wrapper's own number for it, which stays when stdout is let go of."""
    mode: list[Any] | None = None
    """What the command finds its terminal set to, as `termios.tcgetattr` tells it."""

    @property
    def destination(self) -> int:
        """The wrapper's own descriptor that the bytes go on to."""
        return self.numbers[0]

    @property
    def log_name(self) -> str:
        """The log in the bundle."""
        return _LOG_NAMES[self.numbers[0]]

    def copy_window_size(self) -> bool:
        """Give the command's terminal the size of the real one; whether that changed it."""
        if self.terminal is None:
            return False
        try:
            size = fcntl.ioctl(self.terminal, termios.TIOCGWINSZ, bytes(8))
            if fcntl.ioctl(self.source, termios.TIOCGWINSZ, bytes(8)) == size:
                return False
            fcntl.ioctl(self.source, termios.TIOCSWINSZ, size)
        except OSError:
            return False
        return True


class ModeMirror:
    """Keeps the real terminal in the mode that the command gives its own, as full-screen programs do."""

    def __init__(self, source: int, real: int, mode: list[Any] | None) -> None:
        """`source`: the command's terminal as the wrapper holds it; `mode`: as the command found it.

        Not as it is now: a program that starts quickly may have set it already.
        """
        self._source = source
        self._real = real
        self._found = self._known = mode

    def look(self) -> None:
        """Do to the real terminal what has been done to the command's since the last look; never raises."""
        mode, known = self._mode(), self._known
        if mode is None or known is None:
            return
        with contextlib.suppress(OSError):
            if os.tcgetpgrp(self._real) != os.getpgrp():
                self._known = self._found  # the shell has it now, and gives it back as it was found
                return
        if mode == known:
            return
        with contextlib.suppress(termios.error):
            real = termios.tcgetattr(self._real)
            for place in _FLAGS:
                changed = mode[place] ^ known[place]
                real[place] = (real[place] & ~changed) | (mode[place] & changed)
            pairs = enumerate(zip(known[_CHARACTERS], mode[_CHARACTERS], strict=True))
            for place, (before, after) in pairs:
                if after != before:
                    real[_CHARACTERS][place] = after
            termios.tcsetattr(self._real, termios.TCSANOW, real)
            if mode[_OUTPUT] & termios.OPOST:  # done once, by the real one
                mode[_OUTPUT] &= ~termios.OPOST
                termios.tcsetattr(self._source, termios.TCSANOW, mode)
            self._known = mode

    def _mode(self) -> list[Any] | None:
        try:
            return termios.tcgetattr(self._source)
        except termios.error:
            return None


class FoundModes:
    """How the real terminals were set when the command started."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._found: list[tuple[int, list[Any]]] = []
        for stream in streams:
            if stream.terminal is not None:
                with contextlib.suppress(termios.error):
                    self._found.append((stream.terminal, termios.tcgetattr(stream.terminal)))

    def give_back(self) -> None:
        """Set them so again, where the mirror has ended before the command set its own back; never raises."""
        for real, mode in self._found:
            with contextlib.suppress(OSError, termios.error):
                if os.tcgetpgrp(real) == os.getpgrp():
                    termios.tcsetattr(real, termios.TCSANOW, mode)


_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "csh", "tcsh"})
_TAKES_A_WORD = frozenset({"--rcfile", "--init-file", "-o", "+o", "-O", "+O"})


def is_interactive_shell(command: Sequence[str]) -> bool:
    """Whether it is a shell with nothing to run but what is typed: its job control needs the terminal itself."""
    if os.path.basename(command[0]).lstrip("-") not in _SHELLS:
        return False
    words = iter(command[1:])
    for word in words:
        if word in _TAKES_A_WORD:
            next(words, None)
        elif not word.startswith(("-", "+")) or (not word.startswith("--") and "c" in word) or word == "--command":
            return False
    return True


def open_streams(numbers: tuple[int, ...]) -> tuple[Stream, ...]:
    """Pipes or terminals for those of the wrapper's stdout and stderr (1, 2) that are open; a closed one stays closed.

    Where both lead to one place (`2>&1`, one terminal) they share one way, so that lines keep their order.
    Raises OSError when the system has no descriptors or terminals left.
    """
    if numbers == (1, 2) and _lead_to_one_place():
        return (_open_stream((1, 2)),)
    return tuple(_open_stream((number,)) for number in numbers)


def occupy_closed_numbers() -> tuple[int, ...]:
    """Put /dev/null on whichever of 0, 1 and 2 is closed, so that nothing opened later is taken for a standard stream.

    These descriptors close on exec: the command still finds them closed. Returns those of 1 and 2 that were open.
    """
    were_open = tuple(number for number in (1, 2) if _is_open(number))
    with contextlib.suppress(OSError):
        while (number := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) <= 2:
            pass
        os.close(number)
    return were_open


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _lead_to_one_place() -> bool:
    out, error = os.fstat(1), os.fstat(2)
    return (out.st_dev, out.st_ino) == (error.st_dev, error.st_ino) and (not stat.S_ISCHR(out.st_mode) or os.isatty(1))


def _open_stream(numbers: tuple[int, ...]) -> Stream:
    real = numbers[0]
    if os.isatty(real):
        source, child_end = os.openpty()
        with contextlib.suppress(termios.error):
            attributes = termios.tcgetattr(real)
            attributes[_OUTPUT] &= ~termios.OPOST
            termios.tcsetattr(child_end, termios.TCSANOW, attributes)
        mode = None
        with contextlib.suppress(termios.error):
            mode = termios.tcgetattr(child_end)
        stream = Stream(numbers, source, child_end, terminal=os.dup(real), mode=mode)
        stream.copy_window_size()
    else:
        source, child_end = os.pipe()
        stream = Stream(numbers, source, child_end)
    os.set_blocking(source, False)
    return stream
