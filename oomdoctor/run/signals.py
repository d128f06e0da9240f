"""Signals that the wrapper passes on to the command, and who saw them."""

from __future__ import annotations

import os
import signal
from typing import Protocol

_FORWARDED_NAMES = (
    *("SIGHUP", "SIGINT", "SIGQUIT", "SIGABRT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGTERM", "SIGCONT", "SIGTSTP"),
    *("SIGURG", "SIGWINCH", "SIGIO", "SIGPWR"),
)
FORWARDED: frozenset[int] = frozenset(
    {getattr(signal, name) for name in _FORWARDED_NAMES} | set(range(signal.SIGRTMIN, signal.SIGRTMAX + 1))
)
"""Signals that are passed on to the command. While it runs they have no effect on the wrapper itself."""

GROUP_DELIVERY_SECONDS = 0.002
"""The kernel sends a group's signal to one member after the other; by then all have it."""


class Witness(Protocol):
    """A process of the same group that sees which signals that is sent (see `witness.py`)."""

    pid: int

    def saw(self, number: int) -> bool:
        """Whether it was sent this signal, which the caller has taken, as well."""

    def forget(self) -> None:
        """Let go of what it was sent until now."""

    def nothing_is_pending(self) -> None:
        """No signal waits for the caller: what it was sent until now belongs to none."""

    def stopped(self, pid: int) -> None:
        """The caller is about to stop: continue it when the process `pid` goes on or ends."""

    def awake(self) -> None:
        """The caller has been continued."""


def pending_signals(pid: int) -> int:
    """The signals that lie with a process which blocks them, signal 1 the lowest bit; 0 where that cannot be read."""
    try:
        with open(f"/proc/{pid}/status", "rb") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return 0
    masks = [int(line.split()[1], 16) for line in lines if line.startswith((b"ShdPnd:", b"SigPnd:"))]
    return masks[0] | masks[-1] if masks else 0


def stop_with(pid: int, number: int, witness: Witness) -> None:
    """Stop as the command `pid` did, by `number`, so that the shell sees the job stop; returns when continued."""
    witness.stopped(pid)
    # sent while it is blocked, it is one with the ^Z that came here too: between a look at that and the end of the
    # block another could come, and stop this process again right after it was continued
    os.kill(os.getpid(), number)
    blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, {number} - {signal.SIGSTOP})
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    witness.awake()
