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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from ..language import _
from .terminal import Stream

_FORWARDED_NAMES = (
    *("SIGHUP", "SIGINT", "SIGQUIT", "SIGABRT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGTERM", "SIGCONT", "SIGTSTP"),
    *("SIGURG", "SIGWINCH", "SIGIO", "SIGPWR"),
)
FORWARDED: frozenset[int] = frozenset(
    {getattr(signal, name) for name in _FORWARDED_NAMES} | set(range(signal.SIGRTMIN, signal.SIGRTMAX + 1))
)
"""Signals that are passed on to the command. While it runs they have no effect on the wrapper itself."""

_GROUP_DELIVERY_SECONDS = 0.002
"""The kernel sends a group's signal to one member after the other; by then all have it."""
_PR_SET_DUMPABLE = 4
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""The command must not ignore them."""


class Witness(Protocol):
    """A process of the same group that lets signals lie (see `relay.py`)."""

    pid: int

    def saw(self, number: int) -> bool:
        """Whether it was sent this signal as well."""

    def forget(self) -> None:
        """Drop the signals that lie with it."""

    def stopped(self, pid: int) -> None:
        """The caller is about to stop: continue it when the process `pid` goes on or ends."""

    def awake(self) -> None:
        """The caller has been continued."""


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

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.started = time.time()
        self.received: set[int] = set()
        """Signals that came for the command from outside."""

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str],
        streams: Sequence[Stream],
        inherited: Inherited,
    ) -> Child:
        """Start `command`, found on PATH, with its streams in place and the signals that the wrapper was started with.

        Descriptors that the wrapper inherited go on to it; the wrapper then lets go of them. Raises CannotStart.
        """
        ends = [(stream.child_end, number) for stream in streams for number in stream.numbers]

        def spawn(words: tuple[str, ...]) -> int:
            if inherited.ignores_children:
                return _fork(words, environment, ends, inherited.mask)
            return os.posix_spawnp(
                words[0],
                words,
                environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, end, number) for end, number in ends],
                setsigmask=inherited.mask,
                setsigdef=_IGNORED_BY_PYTHON,
            )

        if not command[0]:
            raise CannotStart(127, _("'': command not found: an empty name, as a variable that is not set leaves it"))
        try:
            try:
                pid = spawn(tuple(command))
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
                pid = spawn(
                    ("/bin/sh", _found(command[0]), *command[1:])
                )  # a script without a first line, as shells do
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
        return cls(pid)

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
            came = signal.sigwaitinfo(awaited)
            woken = came.si_signo == signal.SIGCONT and came.si_pid == witness.pid
            if came.si_signo != signal.SIGCHLD and not woken:
                self._pass_on(came.si_signo, witness, on_resize)

    def _pass_on(self, number: int, witness: Witness, on_resize: Callable[[], bool]) -> None:
        self.received.add(number)
        try:
            resized = number == signal.SIGWINCH and on_resize()
            time.sleep(_GROUP_DELIVERY_SECONDS)
            if witness.saw(number):
                witness.forget()
                if not resized:
                    return
                # the command may have looked at its terminal before that had the new size
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
        witness.stopped(self.pid)
        _stop_self(changed.si_status)
        witness.awake()
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


def _fork(
    words: tuple[str, ...], environment: Mapping[str, str], ends: Sequence[tuple[int, int]], mask: frozenset[int]
) -> int:
    """What `posix_spawnp` cannot do: start a command that ignores SIGCHLD. Raises OSError."""
    told, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            for end, number in ends:
                os.dup2(end, number)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            for ignored in _IGNORED_BY_PYTHON:
                signal.signal(ignored, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvpe(words[0], words, environment)
        except OSError as error:
            os.write(tells, b"%d" % (error.errno or 0))
        finally:
            os._exit(127)
    os.close(tells)
    with os.fdopen(told, "rb") as stream:
        failed = stream.read()
    if failed:
        os.waitpid(pid, 0)
        raise OSError(int(failed), os.strerror(int(failed)))
    return pid


def _found(name: str) -> str:
    """The file that a search of PATH finds."""
    if "/" in name:
        return name
    candidates = (os.path.join(folder or ".", name) for folder in os.get_exec_path())
    return next((path for path in candidates if os.access(path, os.X_OK) and not os.path.isdir(path)), name)


def _stop_self(number: int) -> None:
    """Stop as the command did, so that the shell sees the job stop; returns when it is continued."""
    stopping = {number} - {signal.SIGSTOP}
    signal.sigtimedwait(stopping, 0)  # ^Z came here too: one stop is enough
    blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, stopping)
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _forbid_core_dump() -> None:
    """The command has left its own; one of the wrapper would only be mistaken for it."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(Exception):
        import ctypes

        # where cores are piped to a program the limit alone does not hold the kernel back
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
