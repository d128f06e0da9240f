"""The clock that bounds a census: on a busy machine it goes slower, for there a second of real time is less work.

Where several ranks run out of memory at once, each gets a part of the machine, and a census by the wall clock would end
before it has found anything.
"""

from __future__ import annotations

from time import monotonic, thread_time

_SHARE_OF_REAL_TIME = 0.25
"""Of a thread that gets no computing time at all; so nobody waits longer than four times what is allowed."""


def now() -> float:
    """Seconds from an unspecified moment, as `time.monotonic` while this thread computes all the time."""
    return _SHARE_OF_REAL_TIME * monotonic() + (1 - _SHARE_OF_REAL_TIME) * thread_time()
