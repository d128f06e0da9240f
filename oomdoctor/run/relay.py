"""A small process beside the supervisor that passes the command's output on and keeps a copy.

It is a process of its own so that the command is not harmed by the end of the supervisor: output flows on if that is
killed, and a grandchild that goes on printing after the command's end still finds a reader instead of SIGPIPE.

It serves as a witness too: a thread takes the signals that the group is sent (see `witness.py`). And it wakes the
supervisor, which stops with the command, where the command alone goes on or is killed.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import json
import os
import re
import select
import signal
import stat
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from ..language import N_
from .keyboard import Keyboard
from .terminal import FoundModes, ModeMirror, Stream
from .witness import MARK, Testimony, testify

if TYPE_CHECKING:
    from .capture import StreamCapture

_CHUNK = 64 << 10
_PIPE_CHUNK = 4096
"""What a pipe that polls writable takes without blocking."""
_FLUSH_SECONDS = 0.2
_MOST_FOR_COPY = 0.1
"""Masking and writing the copy of a flood takes at most about this share of the time."""
_DRAIN_SECONDS = 1.0
_END_SECONDS = 0.5
_MODE_SECONDS = 0.05
"""A program that changes its terminal's mode prints something just before or after."""
_STOPPED_SECONDS = 0.2
"""Between two looks at a command that has stopped."""
_ENDED, _STOPPED, _AWAKE, _DONE = b"e", b"s", b"a", b"\n"
_WORD = re.compile(rb"([a-z])(\d*)\.")
"""What the supervisor says: a letter and a number, that of the question or of a process."""


class Relay:
    """The supervisor's handle on the relay process."""

    def __init__(
        self, streams: Sequence[Stream], make_capture: Callable[[str], StreamCapture | None], blocked: Collection[int]
    ) -> None:
        """Start the relay; call before any thread is started, with the signals in `blocked` already blocked.

        `make_capture` is called in the relay with the name of each log. Raises OSError when there can be no process.
        """
        questions, self._questions = os.pipe()
        self._answers, answers = os.pipe()
        seen, reports = os.pipe()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {MARK})
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                _become_relay((questions, answers, reports), streams, make_capture, blocked)
                status = 0
            finally:
                os._exit(status)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number in (questions, answers, reports):
            os.close(number)
        self._testimony = Testimony(self.pid, seen)
        self._modes = FoundModes(streams)
        self._count = 0
        for stream in streams:
            if stream.terminal is None:  # a terminal's size is set through it
                os.close(stream.source)

    def saw(self, number: int) -> bool:
        """Whether the relay was sent this signal as well; not where that cannot be told."""
        return self._testimony.names(number)

    def forget(self) -> None:
        """Let go of what the relay was sent until now."""
        self._testimony.forget()

    def nothing_is_pending(self) -> None:
        """No signal waits for the caller."""
        self._testimony.nothing_is_pending()

    def stopped(self, pid: int) -> None:
        """Have the relay continue the caller, about to stop as the command `pid` did, when that goes on or ends."""
        self._tell(_STOPPED, pid)

    def awake(self) -> None:
        """The caller has been continued."""
        self._tell(_AWAKE, 0)

    def finish(self) -> tuple[str, ...]:
        """After the command's end: wait, briefly, until its output is passed on and kept; what could not, in words."""
        answer = self._ask(_ENDED, patience=_DRAIN_SECONDS * 2)
        os.close(self._questions)
        try:
            told = json.loads(answer or b"")
        except ValueError:
            told = {"failures": [N_("the end of the output: the relay did not answer")], "stays": True}
            if self._is_gone():
                self._modes.give_back()
        if not told["stays"]:
            self._reap()
        os.close(self._answers)
        self._testimony.close()
        return tuple(str(failure) for failure in told["failures"])

    def _is_gone(self) -> bool:
        """Whether it was killed: what the command has done to its terminal since then was not mirrored."""
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] != 0
        except ChildProcessError:  # reaped with the orphans
            return True

    def _reap(self) -> None:
        """Leave no zombie to a first process that may not look after it. It is about to end: its pipe closes then."""
        deadline = time.monotonic() + _END_SECONDS
        with contextlib.suppress(OSError):
            if select.select([self._answers], [], [], _END_SECONDS)[0] and not os.read(self._answers, 1):
                # a disk that does not answer may hold up its end, but never that of the command
                while not os.waitpid(self.pid, os.WNOHANG)[0] and time.monotonic() < deadline:
                    time.sleep(0.001)

    def _tell(self, word: bytes, number: int) -> None:
        with contextlib.suppress(OSError):
            os.write(self._questions, b"%s%d." % (word, number))

    def _ask(self, word: bytes, patience: float) -> bytes | None:
        """The answer; None where there is none in time."""
        self._count += 1
        self._tell(word, self._count)
        answer, own = b"", b"%s%d." % (word, self._count)
        with contextlib.suppress(OSError):
            while select.select([self._answers], [], [], patience)[0] and (data := os.read(self._answers, 4096)):
                answer += data
                # an answer that came too late for an earlier question may stand before this one's
                for line in answer.split(_DONE)[:-1]:
                    if line.startswith(own):
                        return line[len(own) :]
        return None


class _Route:
    """One stream on its way: what was read and not yet passed on is held, and nothing more is read meanwhile."""

    def __init__(self, stream: Stream, capture: StreamCapture | None) -> None:
        self.source: int | None = stream.source
        self.destination = stream.destination
        self.capture = capture
        self.held = memoryview(b"")
        self._rest = b""
        self._most_at_once = _CHUNK if stat.S_ISREG(os.fstat(stream.destination).st_mode) else _PIPE_CHUNK
        self.flush_at: float | None = None
        self._pause = _FLUSH_SECONDS
        self._is_idle = False
        self._mirror: ModeMirror | None = None
        self.look_at: float | None = None
        self.keyboard: Keyboard | None = None
        if stream.terminal is not None:
            self._mirror = ModeMirror(stream.source, stream.destination, stream.mode)
            with contextlib.suppress(OSError):
                self.keyboard = Keyboard(stream.source, os.fstat(stream.child_end).st_rdev, stream.destination)

    @property
    def is_over(self) -> bool:
        return self.source is None and not self.held

    def read(self) -> None:
        """Take what the command wrote, if anything."""
        if self.source is None:
            return
        try:
            data = os.read(self.source, _CHUNK)
        except BlockingIOError:
            self.held, self._rest = memoryview(self._rest), b""
            return
        except OSError:  # EIO: a terminal that nobody holds open any more
            data = b""
        if not data:
            self.held, self._rest = memoryview(self._rest), b""
            self._close_source()
            return
        self._hold(self._rest + data)
        if self.capture is not None:
            try:
                self.capture.put(data)
            except Exception:
                self.capture = None  # the copy must never cost the command its output
            self._is_idle = False
            self.flush_at = self.flush_at or time.monotonic() + self._pause

    def _hold(self, data: bytes) -> None:
        """Of a flood, the beginning of the last line waits for its end."""
        cut = (data.rfind(b"\n") + 1 if len(data) >= _CHUNK else 0) or len(data)
        self.held, self._rest = memoryview(data[:cut]), data[cut:]

    def write(self) -> None:
        """Pass on a part of what is held: whole lines where it can, for others may write to the same place."""
        if self._mirror is not None:
            self._look()
            self.look_at = time.monotonic() + _MODE_SECONDS
        part = self.held[: self._most_at_once]
        if len(part) < len(self.held):
            part = part[: bytes(part).rfind(b"\n") + 1 or len(part)]
        try:
            self.held = self.held[os.write(self.destination, part) :]
            if not self.held and self._rest:
                self.read()
        except BlockingIOError:
            return
        except OSError as error:
            self.held, self._rest = memoryview(b""), b""
            if error.errno in (errno.EPIPE, errno.EIO, errno.ECONNRESET):
                self._close_source()  # nobody reads any more: the command learns it at its next write, as it would have

    def look_if_due(self, now: float) -> None:
        """Whether the command has changed the mode of its terminal since its last output."""
        if self._mirror is not None and self.look_at is not None and now >= self.look_at:
            self.look_at = None
            self._look()
        if self.keyboard is not None:
            self.keyboard.look_if_due(now)

    def _look(self) -> None:
        if self._mirror is not None:
            self._mirror.look()
        if self.keyboard is not None:
            self.keyboard.mode_may_have_changed(time.monotonic())

    def flush_if_due(self, now: float) -> None:
        """Write the copy to disk, some times a second; an unfinished line once nothing has come for a while."""
        if self.capture is None or self.flush_at is None or now < self.flush_at:
            return
        self.capture.flush(at_rest=self._is_idle)
        self._is_idle = True
        self._pause = max(_FLUSH_SECONDS, (time.monotonic() - now) / _MOST_FOR_COPY)
        self.flush_at = now + self._pause if self.capture.holds_line else None

    def _close_source(self) -> None:
        if self.source is not None:
            if self._mirror is not None:
                self._mirror.look()
                self._mirror = None
            if self.keyboard is not None:
                os.close(self.keyboard.keys)
                self.keyboard = None
            os.close(self.source)
            self.source = None
        if not self.held:
            self.leave_destination()

    def leave_destination(self) -> None:
        """Let go of the wrapper's stream: its reader sees the end when the command closes it, not the relay."""
        with contextlib.suppress(OSError):
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, self.destination, inheritable=False)
            os.close(null)


def _become_relay(
    pipes: tuple[int, int, int],
    streams: Sequence[Stream],
    make_capture: Callable[[str], StreamCapture | None],
    blocked: Collection[int],
) -> None:
    questions, answers, reports = pipes
    keep = {*pipes, 1, 2, *(stream.source for stream in streams)}
    ends = {stream.child_end for stream in streams}
    for number in (int(name) for name in os.listdir("/proc/self/fd")):
        if number not in keep | ends:
            with contextlib.suppress(OSError):
                os.close(number)
    os.open(os.devnull, os.O_RDWR)  # becomes 0: stdin is the command's alone
    signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # a look at the keyboard just as the shell takes it back
    destinations = {stream.destination for stream in streams}
    for number in {1, 2} - destinations:
        os.dup2(0, number)
    os.set_blocking(reports, False)
    with contextlib.suppress(RuntimeError):  # no room for a thread: the output is worth more than what it would tell
        _thread.start_new_thread(testify, (blocked, reports))
    routes = [_Route(stream, make_capture(stream.log_name)) for stream in streams]
    for number in ends:
        os.close(number)
    _Loop(questions, answers, routes).run()


class _Loop:
    """Waits for output, room to pass it on, and the supervisor's words."""

    def __init__(self, questions: int, answers: int, routes: list[_Route]) -> None:
        self._questions: int | None = questions
        self._answers = answers
        self._routes = routes
        self._drain_until: float | None = None
        self._last_question = b""
        self._supervisor = os.getppid()
        self._stopped: int | None = None
        """The command, while the supervisor stands still because it does."""

    def run(self) -> None:
        while self._questions is not None or not all(route.is_over for route in self._routes):
            self._step()
            if self._drain_until is not None and (self._is_drained() or time.monotonic() > self._drain_until):
                self._finish_captures()
        self._finish_captures()

    def _step(self) -> None:
        poll = select.poll()
        if self._questions is not None:
            poll.register(self._questions, select.POLLIN)
        for route in self._routes:
            if route.held:
                poll.register(route.destination, select.POLLOUT)
            elif route.source is not None:
                poll.register(route.source, select.POLLIN)
            if route.keyboard is not None and route.keyboard.has_reader:
                poll.register(route.keyboard.keys, select.POLLIN)
        ready = {number for number, _ in poll.poll(self._timeout_ms())}
        if self._questions is not None and self._questions in ready:
            self._listen(self._questions)
        for route in self._routes:
            if route.held:
                if route.destination in ready:
                    route.write()
                    if route.is_over:
                        route.leave_destination()
            elif route.source in ready:
                route.read()
            if route.keyboard is not None and route.keyboard.keys in ready:
                route.keyboard.pass_on()
        now = time.monotonic()
        for route in self._routes:
            route.flush_if_due(now)
            route.look_if_due(now)
        self._wake_if_due()

    def _wake_if_due(self) -> None:
        """The command was continued, or killed, alone: its supervisor would stand still for ever."""
        if self._stopped is not None and _is_stopped(self._supervisor) and not _is_stopped(self._stopped):
            with contextlib.suppress(OSError):
                os.kill(self._supervisor, signal.SIGCONT)

    def _timeout_ms(self) -> float | None:
        if self._drain_until is not None:
            return 0 if not any(route.held for route in self._routes) else 50
        times = [moment for route in self._routes for moment in (route.flush_at, route.look_at)]
        times += [route.keyboard.look_at for route in self._routes if route.keyboard is not None]
        if self._stopped is not None:
            times.append(time.monotonic() + _STOPPED_SECONDS)
        due = min((moment for moment in times if moment is not None), default=None)
        return None if due is None else max(0.0, (due - time.monotonic()) * 1000 + 1)

    def _listen(self, questions: int) -> None:
        words = os.read(questions, 4096)
        if not words:  # the supervisor is gone: pass on and keep what comes until its end
            self._hang_up()
        for said in _WORD.finditer(words):
            word, number = said.groups()
            if word == _ENDED:
                self._last_question = said[0]
                self._drain_until = time.monotonic() + _DRAIN_SECONDS
            else:
                self._stopped = int(number) if word == _STOPPED else None

    def _is_drained(self) -> bool:
        """Nothing held, and one more look at each source finds nothing: what the command wrote has been passed on."""
        for route in self._routes:
            if not route.held:
                route.read()
        return not any(route.held for route in self._routes)

    def _finish_captures(self) -> None:
        failures = []
        for route in self._routes:
            if route.capture is not None:
                route.capture.finish()
                if route.capture.failure is not None:
                    failures.append(route.capture.failure)
                route.capture = None
        if self._drain_until is not None:
            self._drain_until = None
            stays = not all(route.is_over for route in self._routes)
            self._answer(self._last_question + json.dumps({"failures": failures, "stays": stays}).encode())
            self._hang_up()

    def _answer(self, words: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._answers, words + _DONE)

    def _hang_up(self) -> None:
        if self._questions is not None:
            os.close(self._questions)
            self._questions = self._stopped = None


def _is_stopped(pid: int) -> bool:
    """By a signal or a debugger; not one that has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except (OSError, IndexError):
        return False
