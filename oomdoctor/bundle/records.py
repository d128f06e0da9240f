r"""Framed records: one line each, with a checksum, so that a file cut off at any byte still reads up to that byte.

A record is `<crc32 of the JSON text, 8 hex digits> <JSON object>\n`. It is appended by one write to a file opened for
appending, so a killed writer leaves at most one broken line, and several writers do not mix their lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

MAX_RECORD_BYTES = 32 << 20
"""A longer line is not a record: nothing of ours writes one, and a reader must not hold more in memory."""


@dataclass(frozen=True)
class Record:
    """One whole record."""

    line: int
    """Counted from 1, damaged lines included."""
    data: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """What the record is about; empty when it does not say."""
        kind = self.data.get("kind")
        return kind if isinstance(kind, str) else ""


@dataclass(frozen=True)
class Records:
    """All that one file of records still says."""

    records: tuple[Record, ...] = ()
    damaged: int = 0
    """Lines whose checksum, JSON or length is wrong."""

    def of_kind(self, kind: str) -> Iterator[Record]:
        """The records of this kind, in the order they were written."""
        return (record for record in self.records if record.kind == kind)


def encode_record(data: Mapping[str, object]) -> bytes:
    """The line of this record.

    Raises TypeError or ValueError when `data` is not plain JSON (NaN and infinity are not).
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).encode("ascii")
    return b"%08x %s\n" % (zlib.crc32(text), text)


def decode_record(line: bytes) -> dict[str, Any] | None:
    """The object that a line (without its newline) carries; None when the line is damaged."""
    if len(line) < 11 or line[8:9] != b" ":
        return None
    text = line[9:]
    try:
        if int(line[:8], 16) != zlib.crc32(text):
            return None
        data = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def read_lines(lines: Iterable[bytes]) -> Records:
    """The whole records among these lines, each with or without its newline."""
    records: list[Record] = []
    damaged = 0
    for number, line in enumerate(lines, 1):
        line = line.rstrip(b"\n")
        if not line:
            continue  # put in front of a record that followed a half-written one
        data = decode_record(line)
        if data is None:
            damaged += 1
        else:
            records.append(Record(number, data))
    return Records(tuple(records), damaged)


def bounded_lines(stream: BinaryIO, limit: int) -> Iterator[bytes]:
    """The lines of the first `limit` bytes; of a line too long for a record only its beginning."""
    left = limit
    while left > 0 and (line := stream.readline(min(MAX_RECORD_BYTES, left))):
        left -= len(line)
        yield line
        while left > 0 and len(line) == MAX_RECORD_BYTES and not line.endswith(b"\n"):
            line = stream.readline(min(MAX_RECORD_BYTES, left))
            left -= len(line)


class RecordWriter:
    """Appends records to a file, each by one write; not safe for several threads by itself."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises OSError when the file cannot be opened for appending."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(path, flags, 0o600)
        self._broken_line = False

    def append(self, data: Mapping[str, object]) -> None:
        """Write one record. Raises OSError when it could not be written whole; a later one still can be."""
        line = encode_record(data)
        if self._broken_line:
            line = b"\n" + line
        written = 0
        try:
            written = os.write(self._file, line)
        finally:
            if written:
                self._broken_line = written < len(line)
        if written < len(line):
            raise OSError(28, "No space left for a whole record")

    def close(self) -> None:
        """Close the file; never raises."""
        with contextlib.suppress(OSError):
            os.close(self._file)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
