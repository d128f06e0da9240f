"""Starts a command as a shell would, and loses no signal that comes meanwhile.

A plain fork, not `posix_spawn`: that has its caller wait in the kernel until the command's program is loaded, and a ^Z
in between would stop the one and leave the other deaf to every key. The new process is held until it is known which
signals came before there was one, for those were not sent to it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from typing import NoReturn

from .signals import FORWARDED, GROUP_DELIVERY_SECONDS, Witness, pending_signals, stop_with

_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""The command must not ignore them."""
_AT_ONCE = FORWARDED - {signal.SIGWINCH}
"""A resize is left for `Child.wait`, which gives the command's terminal its size first."""
_LOOK_SECONDS = 0.05


def spawn(
    words: Sequence[str],
    environment: Mapping[str, str],
    ends: Sequence[tuple[int, int]],
    mask: frozenset[int],
    ignores_children: bool,
    witness: Witness,
) -> tuple[int, set[int]]:
    """Start `words`, found on PATH: the process, and the signals that came for it before it was there.

    `ends`: descriptors and the numbers that they get; `mask`: signals that it has blocked; `ignores_children`: it is to
    ignore SIGCHLD. To be called with the forwarded signals and SIGCHLD blocked. Raises OSError where it cannot start.
    """
    told, tells = os.pipe()
    held, holds = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            _become(words, environment, ends, mask, ignores_children, (held, holds, tells))
        os.close(tells)
        tells = -1
        received = _give_what_came_before(pid, witness)
        os.write(holds, b"!")
        failed = _outcome(pid, told, witness)
    finally:
        for number in {told, tells, held, holds} - {-1}:
            os.close(number)
    if failed:
        os.waitpid(pid, 0)
        raise OSError(failed, os.strerror(failed))
    return pid, received


def _become(
    words: Sequence[str],
    environment: Mapping[str, str],
    ends: Sequence[tuple[int, int]],
    mask: frozenset[int],
    ignores_children: bool,
    pipes: tuple[int, int, int],
) -> NoReturn:
    held, holds, tells = pipes
    try:
        os.close(holds)
        # a handler of Python's would take a signal that comes before the program is loaded, and be gone with it
        for handled in signal.valid_signals():
            if callable(signal.getsignal(handled)):
                signal.signal(handled, signal.SIG_DFL)
        for ignored in _IGNORED_BY_PYTHON:
            signal.signal(ignored, signal.SIG_DFL)
        if ignores_children:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        if os.read(held, 1):  # nothing: the wrapper was killed
            for end, number in ends:
                os.dup2(end, number)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvpe(words[0], tuple(words), environment)
    except OSError as error:
        os.write(tells, b"%d" % (error.errno or errno.EIO))
    finally:
        os._exit(127)


def _give_what_came_before(pid: int, witness: Witness) -> set[int]:
    """What came for the wrapper until now: the new process gets of it what it was not sent itself."""
    if not signal.sigpending() & _AT_ONCE:
        return set()
    time.sleep(GROUP_DELIVERY_SECONDS)
    its_own, received = pending_signals(pid), set()
    while (came := signal.sigtimedwait(_AT_ONCE, 0)) is not None:
        received.add(came.si_signo)
        if not its_own >> (came.si_signo - 1) & 1:
            os.kill(pid, came.si_signo)
    with contextlib.suppress(Exception):  # a witness that fails must not keep the command from starting
        witness.forget()
    return received


def _outcome(pid: int, told: int, witness: Witness) -> int:
    """Why the program could not be loaded, as an errno; 0 where it was, or the process has ended before."""
    while not select.select([told], [], [], _LOOK_SECONDS)[0]:
        # stopped before it had its program
        stopped = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG)
        if stopped is not None:
            stop_with(pid, stopped.si_status, witness)
    return int(os.read(told, 16) or 0)
