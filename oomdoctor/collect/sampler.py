"""Threads that look again and again until told to stop. They keep no history: memory stays flat."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

FIRST_PAUSE_SECONDS = 0.05
"""A small job dies quickly: the first looks follow each other closely, each pause twice the one before."""

MOST_OF_A_CORE = 0.1
"""A slow look (thousands of processes) makes the pauses longer, so that watching stays below this share of a core."""


class Sampler:
    """Calls `look` again and again, at growing pauses up to `interval` seconds, in a thread of its own."""

    def __init__(self, look: Callable[[], float | None], interval: float, delay: float, name: str) -> None:
        """`delay`: seconds before the first look. `look` may answer what CPU time it took outside of this thread.

        If it raises, the sampler stops and says why in `failure`.
        """
        self.failure: str | None = None
        self._look = look
        self._interval = interval
        self._delay = delay
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"oomdoctor-{name}", daemon=True)

    def start(self) -> None:
        """Begin looking."""
        self._thread.start()

    def stop(self, patience: float) -> bool:
        """Stop, after the look in progress but at most `patience` seconds; whether the thread has ended.

        A thread that has not (NVML may sit in the driver) is left behind: it ends with the process.
        """
        self._stopped.set()
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        if self._stopped.wait(self._delay):
            return
        pause = min(FIRST_PAUSE_SECONDS, self._interval)
        while True:
            begun = time.thread_time()
            try:
                elsewhere = self._look() or 0.0
            except Exception as error:
                self.failure = f"{type(error).__name__}: {error}"
                return
            cost = time.thread_time() - begun + elsewhere
            if self._stopped.wait(max(pause, cost / MOST_OF_A_CORE)):
                return
            pause = min(pause * 2, self._interval)


class Thinner:
    """Decides which samples are worth keeping: their number grows with the logarithm of the run's time.

    In the first ten minutes all are. Later one is kept when a thousandth of the run's time has passed since the last
    one, a third of that where a value has moved by a hundredth of the whole, and at once where it lies that much
    beyond all that were kept. A day whose every sample moves leaves some 16,000.
    """

    EARLY_SECONDS = 600.0
    SHARE, SHARE_IF_MOVED = 1 / 1000, 1 / 3000
    """Of the run's time: how long after the last one."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._kept_at = self._begun
        self._last: tuple[int, ...] = ()
        self._least: tuple[int, ...] = ()
        self._most: tuple[int, ...] = ()

    def keeps(self, values: tuple[int | None, ...], whole: int | None) -> bool:
        """Whether a sample with these values (bytes) is to be kept; `whole`: the bytes there are."""
        now, known = time.monotonic(), tuple(value or 0 for value in values)
        if self._last and not self._is_due(now, known, (whole or 0) / 100):
            return False
        self._least = tuple(map(min, known, self._least or known))
        self._most = tuple(map(max, known, self._most or known))
        self._kept_at, self._last = now, known
        return True

    def _is_due(self, now: float, known: tuple[int, ...], threshold: float) -> bool:
        age, since = now - self._begun, now - self._kept_at
        if age <= self.EARLY_SECONDS or since >= age * self.SHARE:
            return True
        bounds = zip(known, self._least, self._most, strict=True)
        if any(value < least - threshold or value > most + threshold for value, least, most in bounds):
            return True
        moved = any(abs(new - old) > threshold for new, old in zip(known, self._last, strict=True))
        return moved and since >= age * self.SHARE_IF_MOVED
