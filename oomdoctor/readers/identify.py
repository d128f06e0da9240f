"""What an input is, by its content and never by its name."""

from __future__ import annotations

import zlib
from enum import Enum

from ..language import N_
from .pickles import looks_like_pickle
from .text import looks_like_text

HEAD_BYTES = 64 << 10
"""How much of an input is looked at."""


class InputKind(str, Enum):
    """Kinds of single files; a folder is a bundle or holds these."""

    EMPTY = "empty"
    SNAPSHOT = "pytorch-snapshot"
    LOG = "log"
    ARCHIVE = "archive"
    BINARY = "binary"


_ARCHIVES = {
    b"PK\x03\x04": N_("a zip archive (a checkpoint saved by torch.save is one)"),
    b"\xfd7zXZ\x00": N_("an xz archive"),
    b"\x28\xb5\x2f\xfd": N_("a zstandard archive"),
    b"BZh": N_("a bzip2 archive"),
}


def identify(head: bytes) -> InputKind:
    """The kind of a file by its first HEAD_BYTES (as stored: gzip is looked into)."""
    content = gunzip_head(head) if is_gzip(head) else head
    if not content:
        return InputKind.EMPTY
    if looks_like_pickle(content):  # also in an xz archive
        return InputKind.SNAPSHOT
    if archive_name(content) or (is_gzip(head) and is_gzip(content)):
        return InputKind.ARCHIVE
    return InputKind.LOG if looks_like_text(content) else InputKind.BINARY


def archive_name(head: bytes) -> str | None:
    """What kind of archive this is, in words; None when it is none that is known."""
    return next((name for magic, name in _ARCHIVES.items() if head.startswith(magic)), None)


def is_gzip(head: bytes) -> bool:
    """Starts as a gzip member does."""
    return head.startswith(b"\x1f\x8b\x08")


def gunzip_head(head: bytes) -> bytes:
    """The beginning of what a gzip file holds; empty when even that cannot be unpacked."""
    try:
        return zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
    except zlib.error:
        return b""
