"""Where a watched process that has run out of device memory asks for a look at the devices and the host, now.

The process waits a quarter of a second at most; a look that takes longer is still recorded.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator

_PATIENCE_SECONDS = 0.25


class Handshake:
    """Listens in a thread of its own. Trouble is told in `failure` and stops nothing."""

    def __init__(self, path: str, look: Callable[[], None], look_at_end: Callable[[], None] | None = None) -> None:
        """`look_at_end`: what is done for a process that ends in order; None: nothing."""
        self.failure: str | None = None
        self._path = path
        self._looks = {b"oom": look, b"end": look_at_end}
        self._socket: socket.socket | None = None

    def start(self) -> None:
        """Begin to listen."""
        try:
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listening.bind(self._path)
            os.chmod(self._path, 0o600)
            listening.listen(64)
        except OSError as error:
            self.failure = f"{self._path}: {error.strerror or error}"
            return
        self._socket = listening
        threading.Thread(target=self._run, args=(listening,), name="oomdoctor-handshake", daemon=True).start()

    def stop(self) -> None:
        """Stop listening; a look in progress is left behind."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _run(self, listening: socket.socket) -> None:
        while True:
            try:
                first, _ = listening.accept()
            except OSError:
                return  # stopped
            # Ranks fail together: one look serves all that wait when it begins. Who comes later may still have
            # taken memory meanwhile, and gets the next one.
            with contextlib.ExitStack() as waiting:
                asked = [(one, _asks(waiting.enter_context(one))) for one in (first, *_others(listening))]
                for why, look in self._looks.items():
                    if look is not None and any(why == each for _, each in asked):
                        try:
                            look()
                        except Exception as error:
                            self.failure = f"{type(error).__name__}: {error}"
                for one, why in asked:
                    if why in self._looks:
                        with contextlib.suppress(OSError):
                            one.sendall(b"!")


def _others(listening: socket.socket) -> Iterator[socket.socket]:
    """Those that wait already."""
    while True:
        try:
            if not select.select([listening], [], [], 0)[0]:
                return
            connection = listening.accept()[0]
        except (OSError, ValueError):  # ValueError: it was closed meanwhile
            return
        yield connection


def _asks(connection: socket.socket) -> bytes:
    """Why it asks: `oom` or `end`; nothing, where it says nothing."""
    try:
        connection.settimeout(_PATIENCE_SECONDS)
        return connection.recv(100).partition(b" ")[0]
    except OSError:
        return b""
