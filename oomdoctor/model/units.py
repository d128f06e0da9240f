"""Sizes as people write and read them. One rule for rounding, used by every renderer."""

from __future__ import annotations

import re

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40

_FACTORS = {
    "": 1, "b": 1, "byte": 1, "bytes": 1,
    "k": KIB, "kb": KIB, "kib": KIB, "ki": KIB,
    "m": MIB, "mb": MIB, "mib": MIB, "mi": MIB,
    "g": GIB, "gb": GIB, "gib": GIB, "gi": GIB,
    "t": TIB, "tb": TIB, "tib": TIB, "ti": TIB,
    "pib": TIB << 10, "pb": TIB << 10, "eib": TIB << 20, "eb": TIB << 20,
}  # fmt: skip
_LARGEST = 1 << 80
"""Even a length read from garbage, times the size of an element, is less; more digits than that are no size."""
_SIZE = re.compile(r"\s*(-?[0-9][0-9,]*(?:\.[0-9]*)?)\s*([A-Za-z]*)\s*")
_DECIMAL_COMMA = re.compile(r"-?[0-9]{1,9},(?:[0-9]{1,2}|[0-9]{4,9})")
"""Thousands are three digits: `1,50` is one and a half as some locales write it; `1,500` is read as thousands."""


def parse_size(text: str) -> int:
    """Bytes of `1.5 GiB`, `1,5 GiB`, `20,971,520`, `512MiB`, `24g`, `298. GiB` (NumPy).

    Decimal-looking units are read as binary: the frameworks print GB for 1024^3 far more often than for 1e9 (Ray too:
    it calls 1,081 GB 1006.84GB); a caller that knows a printer means 1e9 (SGLang's host cache) multiplies itself.
    Raises ValueError for anything else, also for a number that no program could mean.
    """
    found = _SIZE.fullmatch(text)
    if not found or found[2].lower() not in _FACTORS:
        raise ValueError(f"not a size: {text!r}")
    number = found[1].replace(",", "." if _DECIMAL_COMMA.fullmatch(found[1]) else "")
    size = float(number) * _FACTORS[found[2].lower()]
    if abs(size) > _LARGEST:
        raise ValueError(f"not a size: {text[:100]!r}")
    return round(size)


def format_bytes(size: int | float) -> str:
    """`23.37 GiB`, `250.00 MiB`, `512 B`: binary units, two decimals, sign kept; the same in every language."""
    sign, rest = ("-" if size < 0 else ""), abs(size)
    for name, unit in (("EiB", TIB << 20), ("PiB", TIB << 10), ("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if rest >= unit * 0.99995:
            return f"{sign}{rest / unit:.2f} {name}"
    return f"{sign}{rest:.0f} B"


def format_seconds(seconds: float) -> str:
    """`0.25 s`, `42 s`, `31 min`, `5 h 12 min`."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def exact_size(size_bytes: int) -> str:
    """`80GiB`, `81559MiB`, `1001B`: nothing is rounded, so that an option takes it for the same size."""
    for name, unit in (("GiB", GIB), ("MiB", MIB)):
        if size_bytes % unit == 0:
            return f"{size_bytes // unit}{name}"
    return f"{size_bytes}B"
