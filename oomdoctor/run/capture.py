"""Keeps the head and the tail of what the command prints: masked, bounded, and on disk while the command still runs."""

from __future__ import annotations

import os
from pathlib import Path

from ..bundle.redact import StreamMasker

_AT_ONCE = 64 << 10
"""Bytes masked at a time: no search holds the interpreter, which the thread of `witness.py` needs, for long."""


class StreamCapture:
    """One stream's log: the head in `<path>`, what follows in `<path>.tail-1`, `-2` …, of which the last three stay.

    `finish` joins them. A writer that dies before leaves the parts, in reading order. Nothing here raises OSError:
    the first failure (a full disk, a folder that has gone) ends the capture and is kept in `failure`.
    """

    def __init__(self, path: Path, head_bytes: int, tail_bytes: int) -> None:
        self.failure: str | None = None
        self._path = path
        self._head_left = head_bytes
        self._tail_bytes = tail_bytes
        self._pending = bytearray()
        self._masker = StreamMasker()
        self._segments: list[Path] = []
        self._segment_left = 0
        self._count = 0
        self._left_out = 0
        self._file: int | None = None
        self._open(path)

    @property
    def holds_line(self) -> bool:
        """Whether a line that has not ended waits for `flush(at_rest=True)`."""
        return self._file is not None and self._masker.holds_line

    def put(self, data: bytes) -> None:
        """Take what was printed. Of a flood faster than `flush` can mask it only the latest is held."""
        if self._file is None:
            return
        self._pending += data
        if len(self._pending) <= self._head_left + 2 * self._tail_bytes:
            return  # twice, so that cutting the front off, which moves the rest, is done rarely
        if self._head_left:
            self.flush()
        else:
            self._trim()

    def flush(self, at_rest: bool = False, whole: bool = False) -> None:
        """Mask and write what is held.

        `at_rest`: also a line that has not ended, but for its last word; `whole`: that too.
        """
        if self._file is None:
            return
        if not self._head_left:
            self._trim()
        pending = bytes(self._pending)
        self._pending.clear()
        parts = [self._masker.feed(pending[at : at + _AT_ONCE]) for at in range(0, len(pending), _AT_ONCE)]
        if whole:
            parts.append(self._masker.flush())
        elif at_rest:
            parts.append(self._masker.rest())
        self._write(b"".join(parts))

    def finish(self) -> None:
        """Write the rest and join head and tail into the one log."""
        self.flush(whole=True)
        self._close()
        if self.failure is not None or not self._segments:
            return
        try:
            tail = b"".join(segment.read_bytes() for segment in self._segments)
            if len(tail) > self._tail_bytes:
                cut = tail.find(b"\n", len(tail) - self._tail_bytes) + 1 or len(tail) - self._tail_bytes
                self._left_out += cut
                tail = tail[cut:]
            self._open(self._path)
            if self._left_out:
                tail = b"\n[oomdoctor: %d bytes left out here]\n" % self._left_out + tail
            self._put_all(tail)
            for segment in self._segments:
                segment.unlink()
        except OSError as error:
            self._fail(error)
        self._close()

    def _trim(self) -> None:
        """Drop what the tail has no room for, up to a line's end, so that no secret loses the name it is known by."""
        excess = len(self._pending) - self._tail_bytes
        if excess > 0:
            cut = self._pending.find(b"\n", excess) + 1 or len(self._pending)
            self._left_out += cut
            del self._pending[:cut]

    def _write(self, data: bytes) -> None:
        try:
            if self._head_left and data:
                head, data = data[: self._head_left], data[self._head_left :]
                self._put_all(head)
                self._head_left -= len(head)
            while data:
                if not self._segment_left:
                    self._next_segment()
                part, data = data[: self._segment_left], data[self._segment_left :]
                self._put_all(part)
                self._segment_left -= len(part)
        except OSError as error:
            self._fail(error)

    def _next_segment(self) -> None:
        self._close()
        self._count += 1
        segment = self._path.with_name(f"{self._path.name}.tail-{self._count}")
        self._open(segment)
        self._segments.append(segment)
        self._segment_left = max(1, self._tail_bytes // 2)
        if len(self._segments) > 3:
            oldest = self._segments.pop(0)
            self._left_out += oldest.stat().st_size
            oldest.unlink()

    def _put_all(self, data: bytes) -> None:
        while data and self._file is not None:
            data = data[os.write(self._file, data) :]

    def _open(self, path: Path) -> None:
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.failure = f"{self._path.name}: {error.strerror or error}"
        self._close()
        self._pending.clear()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
