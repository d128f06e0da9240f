"""Unpacks what xz, bzip2 and zstd pack, as far as it is asked for and this Python can."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import IO, Any

from ..errors import InputRefused
from ..language import N_
from ..model.units import MIB

_PIECE_BYTES = 16 * MIB
_XZ_MEMORY_BYTES = 256 * MIB
"""The largest dictionary of the xz program needs 65 MiB to unpack."""
_AGAIN = N_("copy it again, or have it written anew")


def _xz() -> tuple[Callable[[], Any], type[Exception]]:
    import lzma  # not every Python has it

    return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES), lzma.LZMAError


def _bzip2() -> tuple[Callable[[], Any], type[Exception]]:
    import bz2  # not every Python has it

    return bz2.BZ2Decompressor, OSError


def _zstd() -> tuple[Callable[[], Any], type[Exception]]:
    from importlib import import_module

    zstd = import_module("compression.zstd")  # Python 3.14 and later
    return zstd.ZstdDecompressor, zstd.ZstdError


_PACKED: dict[bytes, tuple[str, Callable[[], tuple[Callable[[], Any], type[Exception]]]]] = {
    b"\xfd7zXZ\x00": ("xz", _xz),
    b"BZh": ("bzip2", _bzip2),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
}
MAGIC_BYTES = max(map(len, _PACKED))
"""So many bytes of a file tell what packed it."""


def is_packed(head: bytes) -> bool:
    """Whether a file that begins with `head` is packed by one of these."""
    return any(head.startswith(magic) for magic in _PACKED)


def unpack(file: IO[bytes], head: bytes, limit: int) -> bytes:
    """The first `limit` bytes of what is packed, or all of it; `head` is how the file begins.

    Raises InputRefused where it is damaged or cut off, or this Python cannot unpack it.
    """
    return _unpacked(file, head, limit, whole=True)


def beginning(head: bytes, limit: int) -> bytes:
    """At most `limit` bytes of what a file holds that begins with `head`; none where that is too little to tell.

    Raises InputRefused as `unpack` does.
    """
    return _unpacked(io.BytesIO(head), head, limit, whole=False)


def _unpacked(file: IO[bytes], head: bytes, limit: int, *, whole: bool) -> bytes:
    magic, (name, opener) = next((magic, how) for magic, how in _PACKED.items() if head.startswith(magic))
    try:
        make, damaged = opener()
    except ImportError as error:
        raise InputRefused(
            N_("it is packed by {name}, which this Python cannot unpack: unpack it and give what is inside").format(
                name=name
            )
        ) from error
    decompressor, pieces, done = make(), [], 0
    spoilt = N_("it is a damaged or cut off {name} file; {again}").format(name=name, again=_AGAIN)
    try:
        while done < limit:
            piece = b""
            if decompressor.eof:
                # Programs that pack on several cores write several streams one after another.
                piece = decompressor.unused_data or file.read(_PIECE_BYTES)
                if not piece.startswith(magic):
                    break
                decompressor = make()
            elif decompressor.needs_input:
                piece = file.read(_PIECE_BYTES)
                if not piece and not whole:
                    break
                if not piece:
                    raise InputRefused(spoilt)
            pieces.append(decompressor.decompress(piece, limit - done))
            done += len(pieces[-1])
    except damaged as error:
        raise InputRefused(spoilt) from error
    return b"".join(pieces)
