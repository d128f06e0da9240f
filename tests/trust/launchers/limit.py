"""What the jobs have in common: a process that soon gets no more memory."""

from __future__ import annotations

import resource


def leave_little() -> None:
    """Let this process grow by 200 MiB."""
    with open("/proc/self/statm") as stream:
        pages = int(stream.read().split()[0])
    size = pages * resource.getpagesize() + (200 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
