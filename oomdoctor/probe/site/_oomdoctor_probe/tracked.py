"""All objects that Python's collector knows, but for tuples.

Python refuses to finish a tuple that it is making (SystemError, in the thread that makes it) while somebody else refers
to it, and the collector's list refers to all. So no other thread runs until the tuples in that list are let go.
"""

from __future__ import annotations

import gc
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_UNDISTURBED_SECONDS = 0.08
_LONGEST_TURN_SECONDS = 0.05


def all_but_tuples() -> list[Any]:
    """In the collector's order."""
    if len(sys._current_frames()) == 1:
        return _filtered()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(max(interval, _UNDISTURBED_SECONDS))
    try:
        # Who waits for a turn by the old interval gets it now; after that everybody waits by the new one.
        time.sleep(min(2 * interval, _LONGEST_TURN_SECONDS))
        return _filtered()
    finally:
        sys.setswitchinterval(interval)


def _filtered() -> list[Any]:
    return [held for held in gc.get_objects() if type(held) is not tuple]
