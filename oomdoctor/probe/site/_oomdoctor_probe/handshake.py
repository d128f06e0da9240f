"""Asks the supervisor to look at the devices and the host now, while the memory is still held.

OOMDOCTOR_SOCKET       where it listens; without it, or when nobody does, nothing is asked.
OOMDOCTOR_LOOK_AT_END  `1`: a process that used a device asks at its end too.
"""

from __future__ import annotations

import os
from time import monotonic

from .guard import guarded

_PATIENCE_SECONDS = 0.25


def is_asked_at_end() -> bool:
    """Whether the supervisor wants to look when a process ends in order."""
    return os.environ.get("OOMDOCTOR_LOOK_AT_END") == "1"


@guarded("asking the supervisor")
def ask(why: bytes = b"oom") -> None:
    """Wait until it has looked, or for a quarter of a second."""
    path = os.environ.get("OOMDOCTOR_SOCKET", "")
    if not path:
        return
    # The extension alone: the `socket` module would be one more import at the worst moment.
    import _socket

    deadline = monotonic() + _PATIENCE_SECONDS
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(_PATIENCE_SECONDS)
        connection.connect(path)
        connection.sendall(b"%s %d\n" % (why, os.getpid()))
        connection.settimeout(max(0.001, deadline - monotonic()))
        connection.recv(1)
    except OSError:
        # Gone, or busy: what it saw last must do.
        pass
    finally:
        connection.close()
