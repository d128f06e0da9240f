"""The command as a child: started as a shell would, given every signal once, and its end taken over by the wrapper.

The child stays in the wrapper's process group. What is sent to the group (^C, ^Z, a resized terminal, `kill -- -pgid`,
SIGKILL) therefore reaches it as it would without the wrapper. What is sent to the wrapper alone is passed on.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from ..language import _
from .signals import FORWARDED, GROUP_DELIVERY_SECONDS, Witness, stop_with
from .spawn import spawn
from .terminal import Stream

_PR_SET_DUMPABLE = 4


@dataclass(frozen=True)
class ChildEnd:
    """How the command ended: by `status` (0–255) or by `signal`; one of them is None."""

    status: int | None
    signal: int | None = None


class CannotStart(Exception):
    """The command could not be started; `status` is what a shell would end with (126 or 127)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Inherited:
    """What this process was started with of signals, and the command is to be."""

    mask: frozenset[int]
    ignores_children: bool
    """SIGCHLD is ignored: children leave no zombies, and nobody learns their status."""


def block_signals() -> Inherited:
    """Block the signals that `Child.wait` takes one by one; how things were, as the command gets them back."""
    ignores_children = signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an inherited 'ignore' would lose the child's status
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED, signal.SIGCHLD})
    return Inherited(frozenset(int(number) for number in mask), ignores_children)


def restore_signals(inherited: Inherited) -> None:
    """Undo `block_signals`; a signal that came meanwhile acts now."""
    signal.pthread_sigmask(signal.SIG_SETMASK, inherited.mask)


class Child:
    """The running command."""

    def __init__(self, pid: int, received: Collection[int] = ()) -> None:
        self.pid = pid
        self.started = time.time()
        self.received = set(received)
        """Signals that came for the command from outside."""

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str],
        streams: Sequence[Stream],
        inherited: Inherited,
        witness: Witness,
    ) -> Child:
        """Start `command`, found on PATH, with its streams in place and the signals that the wrapper was started with.

        Descriptors that the wrapper inherited go on to it; the wrapper then lets go of them. Raises CannotStart.
        """
        ends = [(stream.child_end, number) for stream in streams for number in stream.numbers]

        def started(*words: str) -> Child:
            return cls(*spawn(words, environment, ends, inherited.mask, inherited.ignores_children, witness))

        if not command[0]:
            raise CannotStart(127, _("'': command not found: an empty name, as a variable that is not set leaves it"))
        try:
            try:
                return started(*command)
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
                # a script without a first line, as shells do
                return started("/bin/sh", _found(command[0]), *command[1:])
        except FileNotFoundError as error:
            if os.path.exists(_found(command[0])):
                reason = _("{command}: its interpreter, which the first line names, is not there")
            else:
                reason = _("{command}: command not found")
            raise CannotStart(127, reason.format(command=command[0])) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise CannotStart(
                126, _("{command}: cannot be started: {why}").format(command=command[0], why=reason)
            ) from error

    def wait(self, witness: Witness, on_resize: Callable[[], bool]) -> ChildEnd:
        """Pass signals on until the command ends; stop and go on with it.

        `on_resize` is called when the terminal's size may have changed and says whether the command's own terminal did.
        """
        awaited = {*FORWARDED, signal.SIGCHLD}
        while True:
            self._reap_adopted()
            end = self._look(witness)
            if end is not None:
                return end
            # Not sigtimedwait: stopped and continued after its time, Python tells of a signal that never came. What
            # comes while nobody waits is kept, for it is blocked.
            if not signal.sigpending() & awaited:
                with contextlib.suppress(Exception):
                    witness.nothing_is_pending()
            came = signal.sigwaitinfo(awaited)
            woken = came.si_signo == signal.SIGCONT and came.si_pid == witness.pid
            if came.si_signo != signal.SIGCHLD and not woken:
                self._pass_on(came.si_signo, witness, on_resize)

    def _pass_on(self, number: int, witness: Witness, on_resize: Callable[[], bool]) -> None:
        self.received.add(number)
        try:
            resized = number == signal.SIGWINCH and on_resize()
            time.sleep(GROUP_DELIVERY_SECONDS)
            if witness.saw(number) and not resized:
                return
            # of a resize, the command may have looked at its terminal before that had the new size
        except Exception:
            pass  # trouble of ours must not keep a signal from the command
        with contextlib.suppress(OSError):
            os.kill(self.pid, number)

    def _reap_adopted(self) -> None:
        """End zombies that are not the command: the first process of a container inherits orphans."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if ended.si_pid == self.pid:
                    return
                os.waitid(os.P_PID, ended.si_pid, os.WEXITED | os.WNOHANG)

    def _look(self, witness: Witness) -> ChildEnd | None:
        options = os.WEXITED | os.WSTOPPED | os.WNOHANG
        try:
            changed = os.waitid(os.P_PID, self.pid, options)
        except ChildProcessError:
            return ChildEnd(status=None)
        if changed is None:
            return None
        if changed.si_code == os.CLD_EXITED:
            return ChildEnd(status=changed.si_status)
        if changed.si_code in (os.CLD_KILLED, os.CLD_DUMPED):
            return ChildEnd(status=None, signal=changed.si_status)
        stop_with(self.pid, changed.si_status, witness)
        return None


def end_like(status: int | None, number: int | None) -> NoReturn:
    """End this process as the command ended: with its status, or by the signal that killed it, without a core dump."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    if number is not None:
        _forbid_core_dump()
        with contextlib.suppress(OSError, ValueError):  # SIGKILL needs no preparation
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        # still here: the first process of a container is not killed by signals it does not handle
        status = 128 + number
    os._exit(1 if status is None else status)


def let_go_of_inherited() -> None:
    """Close what only the command should hold now: stdin, stdout and every inherited descriptor above 2.

    Otherwise whoever writes to, or waits for the end of, one of them would see the wrapper where there should be none.
    """
    with contextlib.suppress(OSError):
        for number in (int(name) for name in os.listdir("/proc/self/fd")):
            if number > 2:
                with contextlib.suppress(OSError):
                    if os.get_inheritable(number):
                        os.close(number)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1):
            os.dup2(null, number, inheritable=False)
        os.close(null)


def _found(name: str) -> str:
    """The file that a search of PATH finds."""
    if "/" in name:
        return name
    candidates = (os.path.join(folder or ".", name) for folder in os.get_exec_path())
    return next((path for path in candidates if os.access(path, os.X_OK) and not os.path.isdir(path)), name)


def _forbid_core_dump() -> None:
    """The command has left its own; one of the wrapper would only be mistaken for it."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(Exception):
        import ctypes

        # where cores are piped to a program the limit alone does not hold the kernel back
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
