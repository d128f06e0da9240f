"""How much more host memory this process can take: a snapshot must not be what gets it killed."""

from __future__ import annotations

import os

from . import process_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_V2 = ("memory.max", "memory.current", b"inactive_file", b"active_file")
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", b"total_inactive_file", b"total_active_file")
_GROUPS = "/sys/fs/cgroup"
_CALL = "there is room for %d MiB more on the host, and it may take %d"


def require(needed: int) -> None:
    """Raise MemoryError, which says why, where less than this is known to be left."""
    left = left_bytes()
    if left is not None and left < needed:
        raise MemoryError(_CALL % (max(left, 0) >> 20, needed >> 20))


def left_bytes(root: str = "") -> int | None:
    """The least that the machine, a control group or a limit of the process's own leaves. None: nothing is known."""
    known = [size for size in (*_of_limits(), *_of_machine(root), *_of_groups(root)) if size is not None]
    return min(known) if known else None


def _of_limits() -> Iterator[int]:
    sizes = process_size.read()
    for limit, used in (("address_space_limit_bytes", "vm_size_bytes"), ("data_limit_bytes", "vm_data_bytes")):
        if limit in sizes and used in sizes:
            yield sizes[limit] - sizes[used]


def _of_machine(root: str) -> Iterator[int]:
    for line in _lines(root + "/proc/meminfo"):
        if line.startswith(b"MemAvailable:"):
            yield int(line.split()[1]) << 10


def _of_groups(root: str) -> Iterator[int]:
    """Of each group that this process is in, up to the top; in a container its own is the top."""
    for line in _lines(root + "/proc/self/cgroup"):
        _, controllers, path = line.decode("utf-8", "replace").split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        folders = (_GROUPS + "/memory",) if controllers else (_GROUPS, _GROUPS + "/unified")
        for folder in folders:
            part = path.strip("/")
            while True:
                for left in _of_group(root + os.path.join(folder, part), _V1 if controllers else _V2):
                    yield left
                if not part:
                    break
                part = part.rpartition("/")[0]


def _of_group(folder: str, names: tuple[str, str, bytes, bytes]) -> Iterator[int]:
    limit, used = (_number(os.path.join(folder, name)) for name in names[:2])
    if limit is None or used is None:
        return
    cached = 0  # goes when room is needed
    for line in _lines(os.path.join(folder, "memory.stat")):
        if line.split(b" ", 1)[0] in names[2:]:
            cached += int(line.split()[1])
    yield limit - used + cached


def _number(path: str) -> int | None:
    """The number in a file; None for 'max', and where there is none."""
    word = b"".join(_lines(path)).strip()
    return int(word) if word.isdigit() else None


def _lines(path: str) -> list[bytes]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return os.read(descriptor, 1 << 16).splitlines()
    except OSError:
        return []
    finally:
        os.close(descriptor)
