"""Opens a pickle as plain data: numbers, text, lists, tuples, dicts. Anything that names code is refused unrun."""

from __future__ import annotations

import copyreg
import gc
import gzip
import io
import os
import pickle
import re
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn, Protocol, TypeVar

from ..errors import InputRefused
from ..language import N_
from ..model.units import GIB, MIB
from .packed import MAGIC_BYTES, beginning, is_packed, unpack

try:
    import resource
except ImportError:  # not POSIX: loading goes on without the ceiling
    resource = None  # type: ignore[assignment]

_GZIP_MAGIC = b"\x1f\x8b"
_AGAIN = N_("copy it again, or have it written anew")
_PIECE_BYTES = 16 * MIB
_WATCH_SECONDS = 0.1
SHARE_OF_READING = 0.3
"""Of the time until a shortened stream is made."""
_MOST_EXPANSION = 256
"""A gzipped snapshot shrinks about 20-fold; what unpacks to more than this times its size was built to."""
_OBJECTS_PER_BYTE = 40
"""Bytes of objects allowed per byte of pickle; snapshots need 4 to 6."""
_USUAL_STACK_BYTES = 8 * MIB
_STACK_BYTES_PER_LEVEL = 64
_DEEPEST_STACK_BYTES = 256 * MIB

Built = TypeVar("Built")


Tell = Callable[[float], None]
"""Is told the share of the work that is done, from 0 to 1."""


class Shortened(Protocol):
    """A stream of which a part was read in another way."""

    @property
    def rest(self) -> bytes:
        """What is left to unpickle."""

    def resolved(self, loaded: object) -> object:
        """The content, from what the rest is unpickled to. Raises InputRefused where the two do not fit."""


_BINARY_HEAD = re.compile(rb"\x80[\x00-\x05].", re.DOTALL)
_TEXT_HEAD = re.compile(
    rb"""\([dlt]p\d+\n                               # protocol 0: a mark, a dict, list or tuple, its place in the memo
       | [\]})][q.(]                                # protocol 1: an empty container, memoised or filled
       | \(?[ci][A-Za-z_][\w.]*\n[A-Za-z_][\w.]*\n[(pqR).]""",  # a global: GLOBAL or INST
    re.VERBOSE,
)


def looks_like_pickle(head: bytes) -> bool:
    """Whether a file that begins with `head` is a pickle of protocol 0 to 5, plain or packed, by its content."""
    if head.startswith(_GZIP_MAGIC):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, 4096)
        except zlib.error:
            return False
    elif is_packed(head):
        try:
            head = beginning(head, 4096)
        except InputRefused:
            return False
        if not head:
            return True  # what is packed in blocks shows nothing before the first is whole
    return bool(_BINARY_HEAD.match(head) or _TEXT_HEAD.match(head))


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep Python's cyclic collector off: it would walk a million fresh, acyclic objects again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def load_plain(
    path: Path,
    build: Callable[[object], Built],
    shorten: Callable[[bytes, Tell], Shortened | None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Built:
    """What `build` makes of the content of the pickle at `path` (packed by gzip, xz, bzip2 or zstd, or not).

    `shorten` may take a part of a stream out before it is unpickled; where its result cannot be built, the whole is.
    `progress` is told, a few times a second, the bytes done and all bytes (of a compressed file, unpacked).

    The content is built without importing or calling anything. The collector is off until `build` has ended, and the
    stack is deep enough for what the content may nest: Python does not guard the hashing of a tuple in a tuple in a …

    Raises InputRefused, with a reason that leaves the path to who prints it, when it cannot be read, is empty, cut off
    or damaged, names a global, a persistent object or an extension, or wants more memory than its size can explain.
    """
    try:
        with path.open("rb") as opened:
            size = path.stat().st_size
            magic = opened.read(MAGIC_BYTES)
            opened.seek(0)
            if not magic:
                raise InputRefused(N_("the file is empty; copy it again, or have it written anew"))
            if _is_mostly_hole(opened):
                raise InputRefused(N_("most of it was never written; {again}").format(again=_AGAIN))
            file: IO[bytes] = opened
            if magic.startswith(_GZIP_MAGIC) or is_packed(magic):
                plain = _unpacked(opened, magic, _MOST_EXPANSION * size + 64 * MIB)
                file, size = io.BytesIO(plain), len(plain)
            done = [0.0]

            def tell(share: float) -> None:
                done[0] = share

            def watch() -> None:
                if progress is not None:
                    progress(round(done[0] * size) if done[0] < 1 else file.tell(), size)

            def work() -> Built:
                with collector_paused():
                    if shorten is not None:
                        try:
                            shortened = shorten(_read(file, size, tell), tell)
                            if shortened is not None:
                                return build(shortened.resolved(_load(io.BytesIO(shortened.rest), size)))
                        except (InputRefused, MemoryError):
                            pass  # the whole stream has the last word
                        file.seek(0)
                    tell(1)
                    return build(_load(file, size))

            return _on_deep_stack(size, work, watch)
    except OSError as error:
        raise InputRefused(N_("it cannot be read: {value}").format(value=error.strerror or error)) from error


def _is_mostly_hole(file: IO[bytes]) -> bool:
    """Whether it is a sparse file, which says to be as long as one likes: reading it would take that much memory."""
    status = os.fstat(file.fileno())
    if status.st_blocks * 512 + 64 * MIB > status.st_size:
        return False
    try:  # a file system that packs what it stores also takes less, and has no hole
        return os.lseek(file.fileno(), 0, os.SEEK_HOLE) < status.st_size
    except OSError:
        return False
    finally:
        os.lseek(file.fileno(), 0, os.SEEK_SET)


def _read(file: IO[bytes], size: int, tell: Tell) -> bytes:
    pieces, done = [], 0
    while piece := file.read(_PIECE_BYTES):
        pieces.append(piece)
        done += len(piece)
        tell(min(done / (size + 1), 1) * SHARE_OF_READING)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _on_deep_stack(size: int, work: Callable[[], Built], watch: Callable[[], None]) -> Built:
    """Do `work` on a thread whose stack holds what `size` bytes of pickle can nest (a level takes one byte of it)."""
    before = threading.stack_size(min(_DEEPEST_STACK_BYTES, _USUAL_STACK_BYTES + _STACK_BYTES_PER_LEVEL * size))
    try:
        with ThreadPoolExecutor(max_workers=1) as pool:
            future = pool.submit(work)
            while not wait([future], timeout=_WATCH_SECONDS).done:
                watch()
            return future.result()
    finally:
        threading.stack_size(before)


def _unpacked(file: IO[bytes], magic: bytes, limit: int) -> bytes:
    try:
        plain = _unpacked_gzip(file, limit + 1) if magic.startswith(_GZIP_MAGIC) else unpack(file, magic, limit + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputRefused(N_("it is a damaged or cut off gzip file; {again}").format(again=_AGAIN)) from error
    if len(plain) > limit:
        raise InputRefused(
            N_("it unpacks to more than {MOST_EXPANSION} times its size: no snapshot does that").format(
                MOST_EXPANSION=_MOST_EXPANSION
            )
        )
    if not magic.startswith(_GZIP_MAGIC) and not looks_like_pickle(plain[:4096]):
        raise InputRefused(N_("what is packed in it is no memory snapshot: unpack it and give what is inside"))
    return plain


def _unpacked_gzip(file: IO[bytes], limit: int) -> bytes:
    return gzip.GzipFile(fileobj=file).read(limit)


def _load(stream: IO[bytes], size: int) -> object:
    # An object once built for an extension code is served from this cache without find_class being asked.
    copyreg.clear_extension_cache()
    try:
        with _memory_ceiling(GIB + _OBJECTS_PER_BYTE * size):
            return _PlainUnpickler(stream).load()
    except InputRefused:
        raise
    except MemoryError as error:
        raise InputRefused(
            N_("it asks for more memory than a file of {size} bytes can need; if it is a snapshot, {again}").format(
                size=size, again=_AGAIN
            )
        ) from error
    except EOFError as error:
        raise InputRefused(N_("it is cut off: the pickle has no end; {again}").format(again=_AGAIN)) from error
    except Exception as error:  # junk can raise nearly anything: ValueError, KeyError, struct.error, RecursionError …
        if "truncated" in str(error):
            raise InputRefused(N_("it is cut off in the middle of a value; {again}").format(again=_AGAIN)) from error
        raise InputRefused(
            N_(
                "it is damaged, or is no pickle of plain data; nothing in it was run; if it is a snapshot, {again}"
            ).format(again=_AGAIN)
        ) from error


class _PlainUnpickler(pickle.Unpickler):
    """Builds containers, numbers and text only.

    GLOBAL, STACK_GLOBAL, INST and EXT* all come to `find_class`; PERSID and BINPERSID to `persistent_load`.
    With no global on its stack, REDUCE, OBJ, NEWOBJ and BUILD have nothing they could call.
    """

    def find_class(self, module: str, name: str) -> NoReturn:
        raise InputRefused(
            N_(
                "it asks to load {module}.{name}; a memory snapshot holds plain data only. Nothing in it was run"
            ).format(module=module[:100], name=name[:100])
        )

    def persistent_load(self, _pid: object) -> NoReturn:
        raise InputRefused(
            N_(
                "it refers to an object stored outside it (a persistent id); "
                "a memory snapshot holds plain data only. Nothing in it was run"
            )
        )


@contextmanager
def _memory_ceiling(allowance: int) -> Iterator[None]:
    """Let the process grow by `allowance` bytes at most, so that a few bytes of opcodes cannot claim all memory.

    A huge memo index (LONG_BINPUT) makes the unpickler allocate and fill 16 bytes for each index below it. It has no
    hook to check that; the operating system's limit is the only one. Without /proc or RLIMIT_AS nothing is limited.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        ceiling = pages * resource.getpagesize() + allowance
        if soft == resource.RLIM_INFINITY or ceiling < soft:
            resource.setrlimit(resource.RLIMIT_AS, (ceiling, hard))
    except (OSError, ValueError, AttributeError):
        yield
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
