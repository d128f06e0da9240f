"""One run under the watch of `run`, in a process of its own, which can be timed, ended early and interrupted.

It has a session of its own: the terminal's signals reach the sweep alone, which passes them on once.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from ..run.child import CannotStart
from ..run.session import UNWRITTEN, RunOptions, run_command

_GRACE_SECONDS = 10.0
"""Between asking a run to end, telling it, killing it, and killing its supervisor, which no longer answers then."""
_LINGER_SECONDS = 1.0
"""After the awaited text, so that what it stands for is seen."""
_LEFT_BEHIND_SECONDS = 5.0
"""Given to what a command has started and not ended: its memory would be counted to the next run."""
_LOOK_SECONDS = 0.2
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


class Interrupted(Exception):
    """The sweep was told to stop; the run that was under way has ended and counts for nothing."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    bundle: Path | None = None
    status: int | None = None
    signal: int | None = None
    out_of_memory_seen: bool | None = False
    seconds: float = 0.0
    unwritten: tuple[str, ...] = ()
    """What of the evidence could not be written."""
    cannot_start: str | None = None
    timed_out: bool = False
    reached: bool = False
    """The awaited text was printed, and the command was ended then."""
    left_behind: int = 0
    """Processes that outlived the command and were ended."""


class Signals:
    """What the sweep was told while a run is under way."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self.stop_wanted = False

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Collect signals instead of acting on them."""
        before = {number: signal.signal(number, self._note) for number in (*_STOPPING, signal.SIGTSTP)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGTSTP:
            self.stop_wanted = True
        else:
            self.came.append(number)


def adopt_orphans() -> None:
    """Have processes whose parents end become children of this one, so that none outlives its run unseen."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run_watched(
    command: Sequence[str],
    environment: Mapping[str, str],
    options: RunOptions,
    timeout_seconds: float | None = None,
    until: str | None = None,
) -> Ended:
    """Run the command with these additions to the environment. Raises Interrupted."""
    others = {process.pid for process in _descendants()}
    signals = Signals()
    with signals.caught():
        output, told, pid = _start(command, environment, options)
        try:
            run = _Run(pid, output, told, signals, timeout_seconds, until)
            ended = run.follow()
        finally:
            os.close(output)
            os.close(told)
        left = _end_left_behind(others)
    if signals.came:
        raise Interrupted(signals.came[0])
    return Ended(
        bundle=Path(ended["bundle"]) if ended.get("bundle") else None,
        status=ended.get("status"),
        signal=ended.get("signal"),
        out_of_memory_seen=ended.get("out_of_memory_seen", False),
        unwritten=tuple(ended.get("unwritten", ())),
        seconds=run.seconds,
        cannot_start=ended.get("cannot_start"),
        timed_out=run.timed_out,
        reached=run.reached,
        left_behind=left,
    )


def _start(command: Sequence[str], environment: Mapping[str, str], options: RunOptions) -> tuple[int, int, int]:
    output, output_end = os.pipe()
    told, told_end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(output_end)
        os.close(told_end)
        os.set_blocking(output, False)
        os.set_blocking(told, False)
        return output, told, pid
    try:
        for number in (*_STOPPING, signal.SIGTSTP):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, stream in ((null, 0), (output_end, 1), (output_end, 2)):
            os.dup2(source, stream)
        for source in (output, output_end, told, null):
            os.close(source)
        os.environ.update(environment)
        _tell(told_end, command, options)
    finally:
        os._exit(1)


def _tell(told: int, command: Sequence[str], options: RunOptions) -> None:
    try:
        outcome = run_command(command, options)
    except CannotStart as error:
        words: dict[str, object] = {"cannot_start": str(error)}
    else:
        words = {
            "bundle": None if outcome.bundle is None else str(outcome.bundle),
            "status": outcome.status,
            "signal": outcome.signal,
            "out_of_memory_seen": outcome.out_of_memory_seen,
            "unwritten": [why for what, why, _ in outcome.unseen if what == UNWRITTEN],
        }
    os.write(told, json.dumps(words).encode())
    os._exit(0)


class _Run:
    """Follows one run until its supervisor has said how it ended."""

    def __init__(
        self, pid: int, output: int, told: int, signals: Signals, timeout_seconds: float | None, until: str | None
    ) -> None:
        self.timed_out = False
        self.reached = False
        self.seconds = 0.0
        self._pid, self._output, self._told, self._signals = pid, output, told, signals
        self._begun = time.monotonic()
        self._deadline = None if timeout_seconds is None else self._begun + timeout_seconds
        self._awaited = None if until is None else until.encode()
        self._tail = b""
        self._passed_on = 0
        self._ending: list[tuple[float, Callable[[], None]]] = []

    def follow(self) -> dict[str, Any]:
        """Wait for the end; what the supervisor says of it."""
        words = b""
        open_ends = [self._told, self._output]
        while self._told in open_ends:
            ready, _, _ = select.select(open_ends, [], [], _LOOK_SECONDS)
            for number in ready:
                data = _read(number)
                if data == b"":
                    open_ends.remove(number)
                elif number == self._told:
                    words += data or b""
                else:
                    self._listen(data or b"")
            self._act(time.monotonic())
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        self.seconds = time.monotonic() - self._begun
        try:
            said = json.loads(words)
        except ValueError:
            return {}
        return said if isinstance(said, dict) else {}

    def _listen(self, data: bytes) -> None:
        if self._awaited is None or self.reached:
            return
        text = self._tail + data
        self._tail = text[-len(self._awaited) :]
        if self._awaited in text:
            self.reached = True
            self._end_from(time.monotonic() + _LINGER_SECONDS)

    def _act(self, now: float) -> None:
        if self._signals.stop_wanted:
            self._pause()
        for number in self._signals.came[self._passed_on :]:
            self._passed_on += 1
            self._send(number)
            self._end_from(now + _GRACE_SECONDS)
        if self._deadline is not None and now > self._deadline and not self.reached and not self._ending:
            self.timed_out = True
            self._end_from(now)
        while self._ending and self._ending[0][0] <= now:
            self._ending.pop(0)[1]()

    def _end_from(self, first: float) -> None:
        """End it as ^C would, then less politely."""
        if not self._ending:
            self._ending = [
                (first, lambda: self._send(signal.SIGINT)),
                (first + _GRACE_SECONDS, lambda: self._send(signal.SIGTERM)),
                (first + 2 * _GRACE_SECONDS, self._kill),
                (first + 3 * _GRACE_SECONDS, lambda: self._send(signal.SIGKILL)),
            ]

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, number)

    def _kill(self) -> None:
        """The command and all that it started; its supervisor then writes down how it ended."""
        for process in _descendants(self._pid):
            with contextlib.suppress(psutil.Error):
                if not _is_relay(process):
                    process.kill()

    def _pause(self) -> None:
        """^Z stops the run and the sweep, and both go on together."""
        self._signals.stop_wanted = False
        self._send(signal.SIGSTOP)  # SIGTSTP does nothing in a session without a terminal
        stopped = time.monotonic()
        os.kill(os.getpid(), signal.SIGSTOP)
        if self._deadline is not None:
            self._deadline += time.monotonic() - stopped
        self._send(signal.SIGCONT)


def _read(number: int) -> bytes | None:
    """What is there; empty at the end, None where nothing is."""
    try:
        return os.read(number, 1 << 16)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _end_left_behind(others: set[int]) -> int:
    """Wait for what outlived the command, then end it; how many had to be ended."""

    def left() -> list[psutil.Process]:
        found = []
        for process in _descendants():
            with contextlib.suppress(psutil.Error):
                if process.pid in others:
                    continue
                if process.status() == psutil.STATUS_ZOMBIE:
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(process.pid, os.WNOHANG)
                else:
                    found.append(process)
        return found

    def wait(seconds: float) -> list[psutil.Process]:
        deadline = time.monotonic() + seconds
        while (still := left()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return still

    outlived = [process for process in wait(_LEFT_BEHIND_SECONDS) if not _is_relay(process)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in left():
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)
        wait(2.0)
    return len(outlived)


def _is_relay(process: psutil.Process) -> bool:
    """Whether it passes a command's output on: it is the supervisor's, and ends with the last who writes."""
    try:
        return process.cmdline() == psutil.Process().cmdline()
    except psutil.Error:
        return False


def _descendants(pid: int | None = None) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
