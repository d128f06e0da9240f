"""Tells a signal to the whole process group, which the command then has as well, from one to the supervisor alone.

A thread of the relay takes what the group is sent and reports it: a disk that does not answer, or output to be masked,
hold it up no longer than the interpreter's lock does. A mark, which is a signal too, is answered when all that came
before it has been taken: who has the answer knows.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Collection, Sequence

from .signals import GROUP_DELIVERY_SECONDS, pending_signals

MARK = signal.SIGVTALRM
"""Not one that is passed on: nobody else has a reason to send it to the relay."""
_ANSWER = 0
"""In the place of a signal's number: the answer to a mark."""
_AT_ONCE = 100
"""Reports of one write, well below PIPE_BUF: a pipe takes all of them or none."""
_PATIENCE_SECONDS = 1.0
"""The command waits for its signal meanwhile. Only a relay that is stopped, or gets no time at all, takes longer."""


def testify(blocked: Collection[int], reports: int) -> None:
    """Be the relay's thread: report each signal that comes, with the moment; returns when nobody listens any more."""
    awaited = {*blocked, MARK}
    with contextlib.suppress(OSError):
        while True:
            taken = [signal.sigwaitinfo(awaited).si_signo]
            while (more := signal.sigtimedwait(awaited, 0)) is not None:
                taken.append(more.si_signo)
            _report(reports, [number for number in taken if number in awaited and number != MARK])
            if MARK in taken:
                select.select([], [reports], [])  # an answer that got lost would be awaited for ever
                _report(reports, [_ANSWER])


def _report(reports: int, numbers: Sequence[int]) -> None:
    now = time.monotonic_ns()
    with contextlib.suppress(BlockingIOError):  # thousands that nobody asked about
        for at in range(0, len(numbers), _AT_ONCE):
            os.write(reports, b"".join(b"%d %d\n" % (number, now) for number in numbers[at : at + _AT_ONCE]))


class Testimony:
    """The supervisor's end: what the relay has reported."""

    def __init__(self, pid: int, reports: int) -> None:
        """`pid`: the relay, with the supervisor's mask; `reports`: where it tells what it was sent."""
        self._pid = pid
        self._reports = reports
        self._rest = b""
        self._seen: list[tuple[int, int]] = []
        """(number, monotonic nanoseconds)."""
        self._awaits_answer = False
        self._unclear = 0
        """Signals, as a mask, that lay with a relay which did not answer."""
        self._is_over = False
        os.set_blocking(reports, False)

    def names(self, number: int) -> bool:
        """Whether the relay was sent `number`, which the caller has just taken, as well.

        Of the same that follow at once to the group, the command's own are one with it, as signals are that meet;
        realtime signals are told one by one. To be called GROUP_DELIVERY_SECONDS after it was taken.
        """
        if not self._mark():
            return self._guess(number)
        times = [moment for seen, moment in self._seen if seen == number]
        if not times:
            return False
        if number >= signal.SIGRTMIN:
            self._seen.remove((number, times[0]))
            return True
        end = time.monotonic() + _PATIENCE_SECONDS
        while times and time.monotonic() < end:  # who sends without a pause must not hold up all else
            self._seen = [one for one in self._seen if one[0] != number]
            if time.monotonic_ns() - times[-1] < GROUP_DELIVERY_SECONDS * 1e9:
                time.sleep(GROUP_DELIVERY_SECONDS)
            if signal.sigtimedwait({number}, 0) is None:
                break
            time.sleep(GROUP_DELIVERY_SECONDS)
            if not self._mark():
                break
            times = [moment for seen, moment in self._seen if seen == number]
        return True

    def forget(self) -> None:
        """Let go of all that was reported until now."""
        self._mark()
        self._seen.clear()

    def nothing_is_pending(self) -> None:
        """Nothing waits for the caller: what is still unclaimed never will be, as a ^Z that a SIGCONT has undone."""
        if self._seen or self._awaits_answer or self._is_ready(0):
            self._read()
            latest = time.monotonic_ns() - 2 * GROUP_DELIVERY_SECONDS * 1e9
            self._seen = [one for one in self._seen if one[1] > latest]

    def close(self) -> None:
        """No more is wanted."""
        os.close(self._reports)

    def _mark(self) -> bool:
        """Whether all that the relay was sent until now has been reported."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._awaits_answer:  # of an earlier question: what was reported before was about that
            if not self._wait(deadline):
                return False
        try:
            os.kill(self._pid, MARK)
        except OSError:
            return False
        self._awaits_answer = True
        while self._awaits_answer:
            if not self._wait(deadline):
                self._seen.clear()
                return False
        self._unclear = 0
        return True

    def _wait(self, deadline: float) -> bool:
        if self._is_over or not self._is_ready(max(0.0, deadline - time.monotonic())):
            return False
        late = self._awaits_answer and self._unclear
        self._read()
        if late and not self._awaits_answer:
            self._seen.clear()
            self._unclear = 0
        return not self._is_over

    def _is_ready(self, seconds: float) -> bool:
        return not self._is_over and bool(select.select([self._reports], [], [], seconds)[0])

    def _read(self) -> None:
        try:
            data = os.read(self._reports, 1 << 16)
        except OSError:
            return
        self._is_over = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            number, moment = map(int, line.split())
            if number == _ANSWER:
                self._awaits_answer = False
            else:
                self._seen.append((number, moment))

    def _guess(self, number: int) -> bool:
        """Of a relay that does not answer: what lies with it was sent to it, but a second time cannot be told."""
        lying = pending_signals(self._pid)
        fresh = lying & ~self._unclear
        self._unclear |= lying
        return not self._is_over and bool(fresh >> (number - 1) & 1)
