"""From bytes to cleaned text: encodings, compression, terminal escapes. Constant memory, whatever the size."""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Protocol

from ..language import N_

HEAD = 4096
"""How many bytes are looked at to tell the encoding."""

_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20
_HOLE_BYTES = 1 << 16
"""Fewer zeros are read like anything else."""


class Utf8Chunks:
    """Iterates over a binary stream as UTF-8 chunks: gunzipped, UTF-16 and UTF-32 transcoded, byte-order mark dropped.

    Bytes that are not UTF-8 pass through unchanged; `decode` reads the lines that hold them as Latin-1.
    """

    def __init__(self, source: BinaryIO) -> None:
        self.notes: list[str] = []
        self._raw = _Counted(source)

    @property
    def bytes_read(self) -> int:
        """Bytes taken from the source so far, as stored."""
        return self._raw.count

    def __iter__(self) -> Iterator[bytes]:
        stored = io.BufferedReader(self._raw, _CHUNK)
        stream: _Reads = stored
        if stored.peek(2)[:2] == _GZIP:
            stream = gzip.GzipFile(fileobj=stored)
        first = b""
        while len(first) < HEAD and (piece := self._read(stream)):
            first += piece
        encoding, mark = _encoding(first)
        if encoding is None:
            yield first[mark:]
            while piece := self._read(stream):
                yield piece
            return
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        piece = first[mark:]
        while piece:
            yield decoder.decode(piece).encode("utf-8", "replace")
            piece = self._read(stream)
        yield decoder.decode(b"", True).encode("utf-8", "replace")

    def _read(self, stream: _Reads) -> bytes:
        try:
            # One read at a time: of damaged data, what comes before the damage is handed out first.
            return stream.read1(_CHUNK)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            note = N_("the compressed data ends early or is damaged; what came before was read")
            # Each further read of the same stream fails anew: said once.
            if note not in self.notes:
                self.notes.append(note)
            return b""


class _Reads(Protocol):
    def read1(self, size: int = ..., /) -> bytes: ...


class _Counted(io.RawIOBase):
    """A raw stream that counts what passes. Of a file that grows meanwhile, what it held at first."""

    def __init__(self, source: BinaryIO) -> None:
        self.source, self.count = source, 0
        self._end = _size(source)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._next(len(buffer))
        while len(data) >= _HOLE_BYTES and data.count(0) == len(data) and self._skip_hole():
            data = self._next(len(buffer))
        buffer[: len(data)] = data
        self.count += len(data)
        return len(data)

    def _next(self, size: int) -> bytes:
        return self.source.read(size if self._end is None else max(0, min(size, self._end - self.source.tell())))

    def _skip_hole(self) -> bool:
        """Go on behind what was never written of a sparse file, which may be as long as one likes; whether it did."""
        if self._end is None:
            return False
        place = self.source.tell()
        try:
            behind = os.lseek(self.source.fileno(), place, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # that is: nothing but the hole until the end
                return False
            behind = self._end
        if place < behind:
            self.source.seek(behind)
        return place < behind


def _size(source: BinaryIO) -> int | None:
    """Where an ordinary file ends now; None of a pipe, and where the system does not tell."""
    try:
        status = os.fstat(source.fileno())
        source.tell()
    except (AttributeError, OSError):  # UnsupportedOperation of bytes in memory is an OSError
        return None
    return status.st_size or None if stat.S_ISREG(status.st_mode) else None


def _encoding(head: bytes) -> tuple[str | None, int]:
    """The encoding when it is UTF-16 or UTF-32 (None: ASCII-compatible) and the length of the byte-order mark."""
    if head.startswith(codecs.BOM_UTF8):
        return None, 3
    if head.startswith(codecs.BOM_UTF32_LE):  # begins as UTF-16's mark does
        return "utf-32-le", 4
    if head.startswith(codecs.BOM_UTF32_BE):
        return "utf-32-be", 4
    if head.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le", 2
    if head.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be", 2
    quarter = len(head) // 4
    if quarter >= 2:
        zeros = [head[place : 4 * quarter : 4].count(0) for place in range(4)]
        if min(zeros[1:]) > _MOSTLY * quarter and zeros[0] < _HARDLY * quarter:
            return "utf-32-le", 0
        if min(zeros[:3]) > _MOSTLY * quarter and zeros[3] < _HARDLY * quarter:
            return "utf-32-be", 0
    half = len(head) // 2
    if half >= 2:
        even, odd = head[0 : 2 * half : 2].count(0), head[1 : 2 * half : 2].count(0)
        # Logs are mostly ASCII: every other byte of UTF-16 is zero, and hardly ever its neighbour.
        if odd > _MOSTLY * half and even < _HARDLY * half:
            return "utf-16-le", 0
        if even > _MOSTLY * half and odd < _HARDLY * half:
            return "utf-16-be", 0
    return None, 0


_MOSTLY, _HARDLY = 0.6, 0.05


def looks_like_text(head: bytes) -> bool:
    """Whether a file that begins with `head` (some kB) is text in an encoding `Utf8Chunks` reads, compressed or not."""
    if head.startswith(_GZIP):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, HEAD)
        except zlib.error:
            return False
    encoding, mark = _encoding(head)
    head = head[mark:]
    if encoding is not None:
        head = head.decode(encoding, "replace").encode()
    return len(_ZEROS.findall(head)) <= _MOST_GAPS and _is_text_but_for_zeros(head)


def is_riddled_with_zeros(head: bytes) -> bool:
    """Whether it would be text if the zero bytes that stand everywhere in it were taken out."""
    return head.count(0) < len(head) / 2 and _is_text_but_for_zeros(head) and b"\n" in head


def _is_text_but_for_zeros(head: bytes) -> bool:
    rest = head.replace(b"\0", b"")
    strange = len(rest) - len(rest.translate(None, _RARE_IN_TEXT))
    return (bool(rest) or not head) and strange <= 0.02 * len(rest)


RIDDLED = N_(
    "text with zero bytes all over it, which no log has: take them out, as in tr -d '\\000' < FILE > clean.log, "
    "and give that"
)
_ZEROS = re.compile(rb"\0+")
_MOST_GAPS = 3
"""Where a log was cut short while its program wrote on, or the machine died, a run of zeros fills the gap."""
_RARE_IN_TEXT = bytes(code for code in range(32) if code not in b"\t\n\r\x0b\x0c\x1b\x08\x07")


def decode(raw: bytes) -> str:
    """One line's text: UTF-8, else Latin-1 (some loggers mix both in one file)."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        # A piece cut out of a long line may begin or end inside a character.
        cut = raw.lstrip(_CONTINUATION)
        try:
            return cut.decode("utf-8")
        except UnicodeDecodeError as error:
            if len(cut) > HEAD and error.start >= len(cut) - 3:
                return cut[: error.start].decode("utf-8")
            return raw.decode("latin-1")


_CONTINUATION = bytes(range(0x80, 0xC0))

_ESCAPES = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b\x9c]{0,2000}(?:\x07|\x1b\\|\x9c)"  # OSC: titles, links
    r"|\x1b\](?:[0-9]{1,4};)?"  # one that was cut: what follows is the line
    r"|\x1b[()*+][0-9A-Za-z]"
    r"|\x1b[ -/]{0,4}[0-~]?"
    r"|(?:\\x1b|\\u001b|\\033|#033|\^\[)\[[0-9;]{0,24}[mK]"  # as escaped by a logger or by syslog
)
_ORPHANS = re.compile(r"\[(?:0|1|22|39|3[0-7]|9[0-7]|[0-9]{1,2}(?:;[0-9]{1,3}){1,4})m")
"""Colour codes whose escape character was lost when the text was pasted."""
_CONTROLS = re.compile(r"[\x00-\x08\n-\x1f\x7f-\x9f]+")
_COLOUR = re.compile(r"\[[0-9;]{1,12}[mK]")


def clean(text: str) -> str:
    """`text` without terminal escapes and control characters; tabs stay, no-break spaces become spaces."""
    if text.isprintable() and _COLOUR.search(text) is None:
        return text
    text = _ORPHANS.sub("", _ESCAPES.sub("", text))
    return _CONTROLS.sub("", text).replace("\xa0", " ").replace("\ufeff", "")
