"""Process ids in PID namespaces. The kernel tells the numbers that a process has further in, never those outside."""

from __future__ import annotations

import os

_FIRST_NAMESPACE = "pid:[4026531836]"
"""The kernel's own: its number is fixed (PROC_PID_INIT_INO)."""


def inner_pid(pid: int) -> int | None:
    """The number by which a process knows itself; None where that is `pid`, or cannot be read."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            line = next(line for line in file if line.startswith(b"NSpid:"))
    except (OSError, StopIteration):
        return None
    inner = int(line.split()[-1])
    return None if inner == pid else inner


def in_the_first_namespace() -> bool | None:
    """Whether the numbers seen here are the machine's, which the driver tells; None where that cannot be read."""
    try:
        return os.readlink("/proc/self/ns/pid") == _FIRST_NAMESPACE
    except OSError:
        return None
