"""NVML in a process of its own: a driver that never answers, or ends who asks it, harms nobody else.

The process is a fork, started before any thread is. It has the driver's library to itself, no stream of its parent's,
and ends with it. Every question has a bound; an answer that comes later is taken when the next question is asked.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import select
import signal
import struct
import threading
import time
from collections.abc import Collection
from typing import Any, NoReturn

from ..language import N_
from ..model.devices import DeviceReading, DeviceTraits
from .nvml import Nvml

_OPEN_SECONDS = 60.0
"""Where the driver is not kept loaded, the start takes seconds for each card."""
_AGAIN_SECONDS = 1.0
_ANSWER_SECONDS = 10.0
_END_SECONDS = 0.3
_MOST_BYTES_MORE = 2 << 30
"""Of memory that the process may take: a number of processes that is none makes the library's arrays as long."""
_PR_SET_PDEATHSIG = 1
_LENGTH = struct.Struct("!I")


class NvmlProcess:
    """As `Nvml`, from outside. Its methods never raise; what cannot be read is empty."""

    def __init__(self) -> None:
        """Start the process; before any thread, best with the signals blocked that the caller does not want in it."""
        self.is_open = False
        self.reason: str | None = None
        """Why there is no NVML; None while there is, or before `open`, or while it does not answer."""
        self.cpu_seconds = 0.0
        """Of all answers so far."""
        self._lock = threading.Lock()
        self._outstanding = ""
        self._received = b""
        questions, self._questions = os.pipe()
        self._answers, answers = os.pipe()
        self._pid = 0
        try:
            parent = os.getpid()
            self._pid = os.fork()
        except OSError as error:
            self._lose(N_("no process for NVML: {error}").format(error=error.strerror))
        if self._pid == 0 and self.reason is None:
            _serve(questions, answers, parent)
        os.close(questions)
        os.close(answers)

    @property
    def answers(self) -> bool:
        """Whether nothing waits for an answer."""
        return not self._outstanding

    def open(self, patience: float = _OPEN_SECONDS) -> bool:
        """Load and initialise NVML; whether that worked. False with no `reason` where it has not answered yet."""
        if not self.is_open and self.reason is None:
            self._ask("open", (), patience)
        return self.is_open

    def versions(self, patience: float = _ANSWER_SECONDS) -> dict[str, str]:
        """As `Nvml.versions`."""
        return self._ask("versions", (), patience) or {}

    def read(self, own: Collection[int] = (), patience: float = _ANSWER_SECONDS) -> tuple[DeviceReading, ...]:
        """As `Nvml.read`; empty as well where there is no answer in time."""
        return self._ask("read", (tuple(own),), patience) or ()

    def traits(self, patience: float = _ANSWER_SECONDS) -> tuple[DeviceTraits, ...]:
        """As `Nvml.traits`."""
        return self._ask("traits", (), patience) or ()

    def close(self) -> None:
        """Let the process end, and kill it where it does not; one that sits in the driver ends with this one."""
        with contextlib.suppress(OSError):
            os.close(self._questions)
        with contextlib.suppress(OSError):  # a supervisor reaps what is not the command, and may have been quicker
            if self._pid and not self._ends_in_time():
                os.kill(self._pid, signal.SIGKILL)
                self._ends_in_time()
        with contextlib.suppress(OSError):
            os.close(self._answers)
        self._questions = self._answers = -1
        self.is_open = False

    def _ends_in_time(self) -> bool:
        deadline = time.monotonic() + _END_SECONDS
        while not os.waitpid(self._pid, os.WNOHANG)[0]:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.002)
        return True

    def _ask(self, what: str, arguments: tuple[object, ...], patience: float) -> Any:
        deadline = time.monotonic() + patience
        # whoever asks meanwhile waits for this answer, but no longer than it has patience
        if not self._lock.acquire(timeout=patience):
            return None
        try:
            while self._outstanding and self.reason is None:
                late = self._outstanding
                self._take(deadline)
                if self._outstanding or late == what == "open":
                    return None
            if self.reason is not None or (what != "open" and not self.is_open):
                return None
            self._outstanding = what
            words = pickle.dumps((what, arguments))
            os.write(self._questions, _LENGTH.pack(len(words)) + words)
            return self._take(deadline)
        except OSError:
            self._lose(N_("the process that asks NVML was ended by it"))
            return None
        finally:
            self._lock.release()

    def _take(self, deadline: float) -> Any:
        """The answer to what is outstanding; None, and it stays outstanding, where it does not come in time."""
        while True:
            size = _LENGTH.unpack_from(self._received)[0] if len(self._received) >= _LENGTH.size else None
            if size is not None and len(self._received) >= _LENGTH.size + size:
                break
            if not select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return None
            data = os.read(self._answers, 1 << 20)
            if not data:
                self._lose(N_("the process that asks NVML was ended by it"))
                return None
            self._received += data
        answer, spent = pickle.loads(self._received[_LENGTH.size : _LENGTH.size + size])
        self._received = self._received[_LENGTH.size + size :]
        self.cpu_seconds += spent
        if self._outstanding == "open":
            self.is_open, self.reason = answer
        self._outstanding = ""
        return answer

    def _lose(self, why: str) -> None:
        self.is_open, self.reason, self._outstanding = False, why, ""


def _serve(questions: int, answers: int, parent: int) -> NoReturn:
    try:
        _keep_to_itself({questions, answers})
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        nvml = Nvml()
        while os.getppid() == parent and (header := _read_exactly(questions, _LENGTH.size)):
            what, arguments = pickle.loads(_read_exactly(questions, _LENGTH.unpack(header)[0]))
            begun = time.process_time()
            answer = getattr(nvml, what)(*arguments)
            if what == "open":
                answer = (answer, nvml.reason)
            words = pickle.dumps((answer, time.process_time() - begun))
            data = memoryview(_LENGTH.pack(len(words)) + words)
            while data:
                data = data[os.write(answers, data) :]
    finally:
        os._exit(0)


def _keep_to_itself(kept: set[int]) -> None:
    """Hold nothing of the parent's open, leave no core file, and take no more memory than a driver's library needs."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        if number not in kept:
            os.dup2(null, number)
    for number in (int(name) for name in os.listdir("/proc/self/fd")):
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = _MOST_BYTES_MORE if most == resource.RLIM_INFINITY else min(most, _MOST_BYTES_MORE)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, most))


def _read_exactly(source: int, size: int) -> bytes:
    """So many bytes; none at the end."""
    data = b""
    while len(data) < size:
        part = os.read(source, size - len(data))
        if not part:
            return b""
        data += part
    return data


_silent: list[float] = []
"""How long a driver that had not answered is waited for again: a sweep asks before each of its runs."""


def read_devices(own: Collection[int] = ()) -> tuple[tuple[DeviceReading, ...], str | None]:
    """One look at all devices, and the reason when there is nothing to see (None otherwise)."""
    nvml = NvmlProcess()
    try:
        if not nvml.open(min(_silent, default=_OPEN_SECONDS)):
            if nvml.reason is None:
                _silent.append(_AGAIN_SECONDS)
            return (), nvml.reason or N_("NVML did not answer")
        readings = nvml.read(own)
        why = nvml.reason or (N_("NVML names no device") if nvml.answers else N_("NVML did not answer"))
        return readings, None if readings else why
    finally:
        nvml.close()
