"""Records the allocator's figures once a second, from when CUDA is initialised to the end of the process.

After ten minutes they are recorded when a thousandth of that time has passed since the last ones, or a peak has grown
by a hundredth, so that a day of training leaves 2 MB and not 30.

A forked child has no such thread and needs none: CUDA cannot be used in the child of a process that had initialised
it, and a child that initialises CUDA itself starts its own through torch's queue.
"""

from __future__ import annotations

import _thread
import os
import time

from . import finish, handshake, history, identity, records
from .allocator import read_state, reserved_bytes
from .guard import guarded
from .torch_version import may_be_listened_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_INTERVAL_SECONDS = 1.0
_LOOKS = 10
"""Looks in that time, where stacks depend on what is seen. A look at one device takes some 30 µs."""
_PATIENCE_SECONDS = 0.5
_EARLY_SECONDS = 600.0
_SHARE = 1 / 1000
_PEAKS = ("peak_allocated_bytes", "peak_reserved_bytes")


class _Sampler:
    """One thread's work. Not a `threading.Thread`, so that the user's `threading.enumerate()` stays as it was."""

    def __init__(self, torch: Any) -> None:
        self.pid = os.getpid()
        self._torch = torch
        self._begun = time.monotonic()
        self._last: dict[int, dict[str, int | None]] = {}
        self._recorded_at: dict[int, float] = {}
        # Held while the thread shall run: waiting for it is a sleep that stop() can end.
        self._running = _thread.allocate_lock()
        self._running.acquire()
        self._finished = _thread.allocate_lock()
        self._finished.acquire()

    def run(self) -> None:
        """Sample until stopped."""
        looks, count = _LOOKS if history.is_adaptive() else 1, 0
        try:
            while not self._running.acquire(timeout=_INTERVAL_SECONDS / looks):
                count += 1
                if looks > 1:
                    self._follow()
                if count % looks == 0:
                    self.sample()
        finally:
            self._finished.release()

    @guarded("looking how full the devices are")
    def _follow(self) -> None:
        if self._torch.cuda.is_initialized():
            devices = range(self._torch.cuda.device_count())
            reserved = {device: reserved_bytes(self._torch, device) for device in devices}
            history.follow(self._torch, {device: size for device, size in reserved.items() if size})

    @guarded("sampling the allocator")
    def sample(self, last: bool = False) -> None:
        """Record each device that torch has reserved memory on, if its figures have changed and are due."""
        if not self._torch.cuda.is_initialized():
            return
        for device in range(self._torch.cuda.device_count()):
            state = read_state(self._torch, device)
            if state and state["peak_reserved_bytes"] and state != self._last.get(device):
                if not last and not self._is_due(device, state):
                    continue
                self._last[device] = state
                self._recorded_at[device] = time.monotonic()
                records.write("allocator", pid=self.pid, rank=identity.rank(), **state)

    def _is_due(self, device: int, state: dict[str, int | None]) -> bool:
        now = time.monotonic()
        age, known = now - self._begun, self._last.get(device)
        if age <= _EARLY_SECONDS or known is None or now - self._recorded_at[device] >= age * _SHARE:
            return True
        return any((state[name] or 0) > (known[name] or 0) * 1.01 for name in _PEAKS)

    def sample_at_end(self) -> None:
        """The only sample, where no thread was started."""
        if self.pid == os.getpid():
            self._sample_last()

    def stop(self) -> None:
        """End the thread after a last sample, before Python takes the modules away from it."""
        if self.pid == os.getpid():
            self._running.release()
            if self._finished.acquire(timeout=_PATIENCE_SECONDS):
                self._sample_last()

    def _sample_last(self) -> None:
        """What torch had at the end and, where that is wanted, what the driver says of the process at that moment."""
        self.sample(last=True)
        if self._last and handshake.is_asked_at_end():
            handshake.ask(b"end")


class _Current:
    sampler: _Sampler | None = None


@guarded("starting the sampler")
def start(torch: Any) -> None:
    """Start sampling in this process, once; where another thread may not ask, sample at the end only."""
    current = _Current.sampler
    if current is None or current.pid != os.getpid():
        _Current.sampler = sampler = _Sampler(torch)
        if may_be_listened_to(torch):
            _thread.start_new_thread(sampler.run, ())
            finish.at_end(sampler.stop)
        else:
            finish.at_end(sampler.sample_at_end)
