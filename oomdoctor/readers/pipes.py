"""Inputs that are no ordinary files: pipes that may never end, devices, views of the running kernel."""

from __future__ import annotations

import os
import select
import stat
from functools import cache
from pathlib import Path
from typing import BinaryIO

from ..language import N_

PIPE_SILENT_SECONDS = 60.0
"""A named pipe whose writer says nothing for this long is given up."""

PATIENCE_LOST = N_(
    "nothing came through the pipe for {PIPE_SILENT_SECONDS} s and its writer has not closed "
    "it; to wait as long as it takes, give it as the standard input: oomdoctor analyze - < "
    "PIPE"
).format(PIPE_SILENT_SECONDS=f"{PIPE_SILENT_SECONDS:.0f}")
VIEW_OF_THE_KERNEL = N_(
    "a view of the running kernel, which may never end and is no log: save what it says first, as in "
    "dmesg -T > kernel.log, and give that file"
)
_KERNELS = ("/proc", "/sys", "/sys/kernel/tracing", "/sys/kernel/debug", "/sys/kernel/debug/tracing", "/sys/fs/cgroup")


def is_view_of_the_kernel(path: Path) -> bool:
    """Whether it lies in a file system that the kernel makes up: reading may block for ever, or take the words away."""
    try:
        device = path.stat().st_dev
    except OSError:
        return False
    return device in _devices_of_the_kernel()


@cache
def _devices_of_the_kernel() -> frozenset[int]:
    return frozenset(found for name in _KERNELS if (found := _mounted(name)) is not None)


def _mounted(name: str) -> int | None:
    """The device of what is mounted there; None where nothing is."""
    try:
        return os.stat(name).st_dev if os.path.ismount(name) else None
    except OSError:
        return None


def what_it_is(path: Path) -> str:
    """What stands there instead of a file, and what to give in its place."""
    mode = path.stat().st_mode
    if stat.S_ISSOCK(mode):
        return N_("a socket, not a file: save what comes through it, and give that file")
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return N_("a device, not a file: it may never end; save what it says in a file, and give that")
    return N_("neither a file nor a folder")


class Patient:
    """Reads a pipe that is not buffered and does not block, as long as its writer says something now and then."""

    def __init__(self, stream: BinaryIO, seconds: float) -> None:
        self._stream, self._seconds = stream, seconds
        self.gave_up, self.count = False, 0

    def read(self, size: int) -> bytes:
        """`size` bytes, or fewer at the end or where the writer fell silent."""
        pieces, left = [], size
        while left > 0 and not self.gave_up:
            piece: bytes | None = self._stream.read(left)
            if piece is None:  # there is a writer, who has said nothing more yet
                self.gave_up = not select.select([self._stream], [], [], self._seconds)[0]
                continue
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
        found = b"".join(pieces)
        self.count += len(found)
        return found
