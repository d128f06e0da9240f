"""What this process uses of its memory and what it may use, as the kernel tells: two small files, read once."""

from __future__ import annotations

import os

_STATUS = {
    b"VmPeak": "vm_peak_bytes",
    b"VmSize": "vm_size_bytes",
    b"VmData": "vm_data_bytes",
    b"VmRSS": "rss_bytes",
    b"VmHWM": "rss_peak_bytes",
}
_LIMITS = ((b"Max address space", "address_space_limit_bytes"), (b"Max data size", "data_limit_bytes"))


def read(root: str = "/proc/self") -> dict[str, int]:
    """Sizes and soft limits in bytes; what cannot be read, or is without limit, is left out. Never raises."""
    found: dict[str, int] = {}
    try:
        for line in _lines(root + "/status"):
            name, _, rest = line.partition(b":")
            if name in _STATUS:
                found[_STATUS[name]] = int(rest.split()[0]) << 10
        for line in _lines(root + "/limits"):
            for start, name_of_limit in _LIMITS:
                if line.startswith(start):
                    soft = line[len(start) :].split()[0]
                    if soft.isdigit():
                        found[name_of_limit] = int(soft)
    except Exception:
        pass
    return found


def _lines(path: str) -> list[bytes]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 16384).splitlines()
    finally:
        os.close(descriptor)
