"""A quick look at whether a run met an out-of-memory event: enough to decide whether a report is worth making."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from ..model.host import OomCounters

_MOST_BYTES = 64 << 20

_PROBE_SIGN = re.compile(rb'"kind": ?"device-oom"|"is_memory_error": ?true')
_PHRASES = (
    *(b"out of memory", b"outofmemory", b"memoryerror", b"cannot allocate memory", b"unable to allocate", b"bad_alloc"),
    *(
        b"failed to allocate",
        b"oom-kill",
        b"oomkill",
        b"oom kill",
        b"killed process",
        b"alloc_failed",
        b"resource_exhausted",
    ),
    *(b"resource exhausted", b"no available memory for the cache blocks", b"insufficient memory", b"not enough memory"),
    *(b"allocation failed", b"no space left on device: '/dev/shm", b"bus error", b"defaultcpuallocator"),
)


def out_of_memory_seen(
    bundle: Path, counters: OomCounters | None, status: int | None, number: int | None
) -> bool | None:
    """True: something says so. None: it was killed with no word of why. False: nothing says so. Never raises."""
    if counters is not None and (counters.kernel_kills or counters.cgroup_ooms):
        return True
    if any(_PROBE_SIGN.search(_content(file)) for file in (bundle / "probe").glob("*.records")):
        return True
    for name in ("stdout.log", "stderr.log", "kernel.log"):
        text = _content(bundle / name).lower()
        if any(phrase in text for phrase in _PHRASES):
            return True
    return None if number == signal.SIGKILL or status == 128 + signal.SIGKILL else False


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(_MOST_BYTES)
    except OSError:
        return b""
