"""Keys for programs that read them from the terminal made for output, as pagers do: `less` opens that of its stderr.

Most programs read the keyboard from stdin or `/dev/tty`, which are the real terminal, and must go on doing so. A key is
passed on only while the command's terminal is in a mode for single keys, and a process of the foreground opened it for
reading alone or has it as its stdin: nothing else is done with a terminal that is opened so. `more` reads its stderr,
opened as every program has it: it is known by its name.
"""

from __future__ import annotations

import contextlib
import os
import termios

_LOCAL = 3
"""Place of the local modes in what `termios.tcgetattr` returns."""
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
_READ_STDERR = frozenset({"more"})
"""Programs that read keys from their stderr, whichever way that was opened."""
_MOST_AT_ONCE = 1024
"""What a terminal takes without anybody reading it."""


class Keyboard:
    """The real terminal's keys, on their way to a reader of the command's own terminal."""

    def __init__(self, source: int, device: int, real: int) -> None:
        """`source`: the command's terminal as the wrapper holds it; `device`: its number, as `st_rdev` has it.

        Raises OSError where the real terminal cannot be opened once more.
        """
        self._source = source
        self._device = device
        self._real = real
        # a description of its own: that it does not wait must not show in the shell's
        self.keys = os.open(os.ttyname(real), os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._reader: int | None = None
        self._pause = _FIRST_PAUSE_SECONDS
        self.look_at: float | None = None

    @property
    def has_reader(self) -> bool:
        """Whether keys are to be passed on, as far as the last look knows."""
        return self._reader is not None

    def mode_may_have_changed(self, now: float) -> None:
        """The command has printed: look soon for a reader, where there may be one."""
        if not self.has_reader and self._takes_single_keys():
            self._pause = _FIRST_PAUSE_SECONDS
            self.look_at = now

    def look_if_due(self, now: float) -> None:
        """Look whether somebody reads the command's terminal, at growing pauses while it is in a mode for that."""
        if self.look_at is None or now < self.look_at:
            return
        if not self._takes_single_keys():
            self._reader = self.look_at = None
            return
        self._reader = self._find_reader()
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_SECONDS)
        self.look_at = now + self._pause

    def pass_on(self) -> None:
        """Keys have come: hand them to the reader, if it still is one. Never raises, never waits."""
        is_reader = self._reader is not None and self._reads(self._reader) and self._takes_single_keys()
        if not is_reader or not self._is_in_front():
            self._reader = None
            return
        with contextlib.suppress(OSError):
            os.write(self._source, os.read(self.keys, _MOST_AT_ONCE))

    def _takes_single_keys(self) -> bool:
        try:
            return not termios.tcgetattr(self._source)[_LOCAL] & termios.ICANON
        except termios.error:
            return False

    def _is_in_front(self) -> bool:
        try:
            return os.tcgetpgrp(self._real) == os.getpgrp()
        except OSError:
            return False

    def _find_reader(self) -> int | None:
        if not self._is_in_front():
            return None
        with contextlib.suppress(OSError):
            return next((pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if self._reads(pid)), None)
        return None

    def _reads(self, pid: int) -> bool:
        """Whether this process is in the foreground and reads the command's terminal."""
        try:
            if os.getpgid(pid) != os.getpgrp():
                return False
            return any(self._is_read_at(pid, number) for number in os.listdir(f"/proc/{pid}/fd"))
        except OSError:  # it has ended, or is somebody else's
            return False

    def _is_read_at(self, pid: int, number: str) -> bool:
        try:
            if os.stat(f"/proc/{pid}/fd/{number}").st_rdev != self._device:
                return False
            if number == "0" or (number == "2" and self._is_known(pid)):
                return True
            with open(f"/proc/{pid}/fdinfo/{number}") as stream:
                flags = next(line.split()[1] for line in stream if line.startswith("flags:"))
            return int(flags, 8) & os.O_ACCMODE == os.O_RDONLY
        except (OSError, StopIteration, IndexError, ValueError):
            return False

    @staticmethod
    def _is_known(pid: int) -> bool:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) in _READ_STDERR
