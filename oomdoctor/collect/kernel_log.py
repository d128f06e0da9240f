"""What the kernel says about memory while the command runs, from /dev/kmsg, where it may be read."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator

MAX_KEPT_BYTES = 1 << 20
_READ_SECONDS = 2.0
"""A kernel that writes faster than one can read is not read for ever."""

_ABOUT_MEMORY = re.compile(
    r"oom|out of memory|killed process|invoked|memory cgroup|mem-info|page allocation failure|anon-rss|total-vm"
    r"|\bswap\b|hugetlb|NVRM|Xid|segfault|memory failure|memory: usage|kmem: usage",
    re.IGNORECASE,
)
_KILLER_BEGINS = re.compile(r"invoked oom-killer", re.IGNORECASE)
_KILLER_ENDS = re.compile(r"killed process \d+", re.IGNORECASE)


class KernelLog:
    """Follows the kernel log from the moment it is made. Its methods never raise."""

    def __init__(self, path: str = "/dev/kmsg") -> None:
        self.reason: str | None = None
        """Why the log cannot be read; None when it can."""
        self._file: int | None = None
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._file, 0, os.SEEK_END)
            # some sandboxes let one open the log but not read it: find out now
            with contextlib.suppress(BlockingIOError):
                os.read(self._file, 0)
        except OSError as error:
            self.reason = f"{path}: {error.strerror or error}"
            self.close()

    def lines(self) -> list[str]:
        """The lines about memory since the last call, as `dmesg` prints them, at most 1 MiB of the latest."""
        return lines_about_memory(parse_messages(self._messages()))

    def close(self) -> None:
        """Stop following."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None

    def _messages(self) -> Iterator[bytes]:
        if self._file is None:
            return
        deadline = time.monotonic() + _READ_SECONDS
        while time.monotonic() < deadline:
            try:
                message = os.read(self._file, 8192)
            except BrokenPipeError:
                continue  # the ring has overwritten what came next; the read after this one goes on behind the gap
            except OSError:
                return  # nothing more for now
            if not message:
                return
            yield message


def parse_messages(messages: Iterable[bytes]) -> Iterator[str]:
    """Records of /dev/kmsg (`priority,sequence,microseconds,flags;text`) as lines of `dmesg`."""
    for message in messages:
        header, separator, body = message.partition(b";")
        fields = header.split(b",")
        if not separator or len(fields) < 3 or not fields[2].isdigit():
            continue
        microseconds = int(fields[2])
        text = body.split(b"\n", 1)[0].decode("utf-8", "replace")
        yield f"[{microseconds // 1_000_000:5d}.{microseconds % 1_000_000:06d}] {text}"


def lines_about_memory(lines: Iterable[str]) -> list[str]:
    """The lines that bear on memory; all lines of a killer's report, its table of tasks included."""
    kept: list[str] = []
    size = 0
    in_report = False
    for line in lines:
        if _KILLER_BEGINS.search(line):
            in_report = True
        if in_report or _ABOUT_MEMORY.search(line):
            kept.append(line)
            size += len(line) + 1
        if in_report and _KILLER_ENDS.search(line):
            in_report = False
    while size > MAX_KEPT_BYTES:
        size -= len(kept.pop(0)) + 1
    return kept
