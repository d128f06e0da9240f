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

    def __init__(self, look: Callable[[], None], interval: float, delay: float, name: str) -> None:
        """`delay`: seconds before the first look. If `look` raises, the sampler stops and says why in `failure`."""
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
                self._look()
            except Exception as error:
                self.failure = f"{type(error).__name__}: {error}"
                return
            cost = time.thread_time() - begun
            if self._stopped.wait(max(pause, cost / MOST_OF_A_CORE)):
                return
            pause = min(pause * 2, self._interval)


class Thinner:
    """Decides which samples are worth keeping, so that a run of weeks leaves megabytes, not gigabytes.

    In the first ten minutes all are. Later one is kept when a value has moved by a hundredth of the whole since the
    last one kept, or when a thousandth of the run's time has passed.
    """

    EARLY_SECONDS = 600.0
    MOST_MOVES = 100_000
    """Samples kept for having moved; after that only those due by time."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._kept_at = self._begun
        self._values: tuple[int, ...] = ()
        self._moves = 0

    def keeps(self, values: tuple[int | None, ...], whole: int | None) -> bool:
        """Whether a sample with these values (bytes) is to be kept; `whole`: the bytes there are."""
        now = time.monotonic()
        known = tuple(value or 0 for value in values)
        age = now - self._begun
        threshold = (whole or 0) / 100
        moved = len(known) != len(self._values) or any(
            abs(new - old) > threshold for new, old in zip(known, self._values, strict=True)
        )
        if (
            age > self.EARLY_SECONDS
            and not (moved and self._moves < self.MOST_MOVES)
            and now - self._kept_at < age / 1000
        ):
            return False
        if moved and age > self.EARLY_SECONDS:
            self._moves += 1
        self._kept_at, self._values = now, known
        return True
