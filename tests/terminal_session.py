"""A command with a terminal of its own, which a test types into and reads."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

from harness import clean_environment


class Session:
    """A command with a terminal of its own, as a login shell would be."""

    def __init__(self, command, rows=31, columns=101, prelude=None):
        self.pid, self.screen = pty.fork()
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
                if prelude:
                    prelude()
                os.execvpe(command[0], command, clean_environment())
            finally:
                os._exit(99)
        # what select has seen may be flushed before it is read: by ^Z, for one
        os.set_blocking(self.screen, False)
        self.text = b""

    def _read(self):
        """Whether the terminal is still open; what there is to read, is read."""
        try:
            self.text += os.read(self.screen, 4096)
        except BlockingIOError:
            return True
        except OSError:  # nobody holds it open any more
            return False
        return True

    def read_until(self, words, seconds=120):
        deadline = time.monotonic() + seconds
        while words not in self.text:
            left = deadline - time.monotonic()
            assert left > 0, f"{words!r} did not come: {self.text!r}"
            if select.select([self.screen], [], [], left)[0] and not self._read():
                break
        assert words in self.text, self.text

    def read_more(self, seconds):
        """What comes within that time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self.screen], [], [], left)[0] and not self._read():
                break

    def type(self, keys):
        os.write(self.screen, keys)

    def end(self):
        """The wait status, after reading what is left."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if select.select([self.screen], [], [], 0.05)[0] and self._read():
                continue
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.screen)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError(f"it did not end: {self.text!r}")
