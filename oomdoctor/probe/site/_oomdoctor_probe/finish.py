"""Records that a process came to its end in order, and what ended it."""

from __future__ import annotations

import atexit

from . import exceptions, process_size, records
from .guard import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class _State:
    """What this process has to say at its end."""

    ended = False
    at_end: list[Callable[[], None]] = []
    count_device_ooms: Callable[[], int] | None = None


def watch_exit() -> None:
    """Write the last record when Python shuts down. Registered first, so it runs after the user's own."""
    atexit.register(_at_exit)


def at_end(action: Callable[[], None]) -> None:
    """Call this before the last record."""
    _State.at_end.append(action)


def count_device_ooms_with(count: Callable[[], int]) -> None:
    """Who knows how often a device ran out of memory."""
    _State.count_device_ooms = count


def forget() -> None:
    """In a forked child: it has its own end."""
    _State.ended = False
    exceptions.forget()


@guarded("recording the end")
def _at_exit() -> None:
    # A hook of the user's that replaced ours has not told us; Python keeps what it printed.
    exceptions.record_last()
    write_end()


def write_end() -> None:
    """Write the last record, once."""
    if _State.ended:
        return
    _State.ended = True
    for action in _State.at_end:
        action()
    records.write(
        "end",
        clean=True,
        after_exception=exceptions.ended_by_exception(),
        device_ooms=_State.count_device_ooms() if _State.count_device_ooms else 0,
        rss_peak_bytes=process_size.read().get("rss_peak_bytes"),
    )
