"""Changes inputs at random, the same for the same seed: bytes, numbers, lines, and what each format is touchy about."""

from __future__ import annotations

import pickle
import pickletools
import re
import struct
from collections.abc import Sequence
from random import Random

_NUMBERS = (
    b"0", b"-1", b"1", b"255", b"4294967296", b"9223372036854775807", b"18446744073709551616", b"-18446744073709551616",
    b"1e400", b"nan", b"inf", b"-inf", b"0x10", b"1" * 400, b"00", b"1,234", b"1_000", "９".encode(), b"1.", b".5",
)  # fmt: skip
_TOKENS = (
    b"<script>alert(1)</script>",
    b"<img src=x onerror=alert(1)>",
    b"</script>",
    b"<!--",
    b"]]>",
    b"javascript:alert(1)",
    b"\\",
    b"\x1b[2J",
    b"\x1b]0;title\x07",
    b"\x9b31m",
    b"\r",
    b"\n",
    b"\x00",
    b"\xff\xfe",
    "\u202e".encode(),
    "\u2028".encode(),
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b")",
    b"'",
    b'"',
    b"`",
    b"|",
    b"%s",
    b"{0}",
    b"{name}",
    b"{{",
    b"&a *a",
    b"!!python/object",
    b"---",
    b": ",
    b"- ",
    b"${HOME}",
    b"../../etc/passwd",
    b"/dev/zero",
    b"GiB",
    b"MiB",
    b"cuda:0",
    b"rank 0",
    b"CUDA out of memory. ",
    b"Tried to allocate ",
    b"Killed process ",
    b"MemoryError",
    b"oom-kill:",
    b"[rank1]: ",
    b"(pid 7) ",
)


def mutated(data: bytes, others: Sequence[bytes], random: Random, most_bytes: int = 200_000) -> bytes:
    """The input with one to eight changes."""
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        data = random.choice(_CHANGES)(data, others, random)[:most_bytes]
    return data


def random_pickle(random: Random) -> bytes:
    """A stream of pickle operations that no pickler would write: nested, the memo in disorder, lengths that lie."""
    out = [pickle.PROTO + bytes([random.choice((0, 2, 4, 5))])]
    for _ in range(random.choice((5, 50, 500))):
        operation = random.choice(pickletools.opcodes)
        out.append(operation.code.encode("latin-1") + _argument(operation, random))
        if random.random() < 0.1:
            out.append(random.choice((b"]", b"}", b"(", b")", b"\x94")) * random.choice((1, 100, 20_000)))
    return b"".join(out) + pickle.STOP


def _argument(operation: pickletools.OpcodeInfo, random: Random) -> bytes:
    kind = operation.arg
    if kind is None:
        return b""
    if kind.name in ("uint1", "uint2", "uint4", "int4", "uint8", "float8"):
        width = {"uint1": 1, "uint2": 2, "uint4": 4, "int4": 4, "uint8": 8, "float8": 8}[kind.name]
        return random.choice((bytes(width), b"\xff" * width, random.randbytes(width)))
    if kind.name.endswith(("1", "4", "8")):
        width = int(kind.name[-1])
        content = random.randbytes(random.randrange(8))
        length = random.choice((len(content), (1 << (8 * width - 1)) - 1))
        return length.to_bytes(width, "little") + content
    return random.choice((b"os\nsystem\n", b"builtins\neval\n", b"1\n", b"'x'\n", b"1L\n", b"nan\n", b"\n", b"x y\n"))


def _flip(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 4, 32))):
        if changed:
            changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _cut(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _remove(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    start, stop = _slice(data, random)
    return data[:start] + data[stop:]


def _repeat(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    start, stop = _slice(data, random)
    return data[:start] + data[start:stop] * random.choice((2, 3, 50, 1000)) + data[stop:]


def _move(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    random.shuffle(lines)
    return b"".join(lines)


def _splice(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    other = random.choice(others)
    start, stop = _slice(other, random)
    place = random.randrange(len(data) + 1)
    return data[:place] + other[start:stop] + data[place:]


def _insert(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    place = random.randrange(len(data) + 1)
    return data[:place] + random.choice(_TOKENS) * random.choice((1, 1, 1, 200)) + data[place:]


def _renumber(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    return re.sub(rb"\d+", lambda found: random.choice(_NUMBERS) if random.random() < 0.3 else found[0], data)


def _lengthen(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    return data.replace(b"\n", b" ") if random.random() < 0.5 else data.replace(b" ", random.choice(_TOKENS), 40)


def _word(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """A 32 or 64 bit number in its place."""
    width = random.choice((4, 8))
    if len(data) < width:
        return data
    place = random.randrange(len(data) - width + 1)
    number = random.choice((0, 1, (1 << (8 * width)) - 1, 1 << (8 * width - 1), random.getrandbits(16)))
    return data[:place] + struct.pack("<I" if width == 4 else "<Q", number) + data[place + width :]


def _slice(data: bytes, random: Random) -> tuple[int, int]:
    start = random.randrange(len(data) + 1)
    return start, min(len(data), start + random.choice((1, 4, 32, 300, 5000)))


_CHANGES = (_flip, _cut, _remove, _repeat, _move, _splice, _insert, _renumber, _lengthen, _word)
