"""What a refused tensor takes, where a message names its shape and type instead of bytes."""

from __future__ import annotations

from math import prod

from ..model.events import LogEvent

_ITEM_BYTES = {
    1: ("bool", "int8", "uint8", "float8_e4m3fn", "float8_e5m2"),
    2: ("half", "float16", "bfloat16", "int16", "uint16"),
    4: ("float", "float32", "int32", "uint32"),
    8: ("double", "float64", "int64", "uint64", "complex64"),
    16: ("complex128",),
}
_BYTES_OF = {name: size for size, names in _ITEM_BYTES.items() for name in names}


Shaped = tuple[tuple[int, ...], int, str]
"""Shape, bytes of an item, and type."""


def size_of(shaped: Shaped) -> int:
    """Bytes of such a tensor."""
    return prod(shaped[0]) * shaped[1]


def shape_of(event: LogEvent) -> Shaped | None:
    """What a message tells of a tensor."""
    shape, dtype = event.fields.get("shape"), event.word("dtype") or ""
    item = _BYTES_OF.get(dtype)
    if not isinstance(shape, tuple) or not shape or item is None:
        return None
    sides = tuple(side for side in shape if isinstance(side, int) and side > 0)
    return (sides, item, dtype) if len(sides) == len(shape) else None


def requested_bytes(event: LogEvent) -> int | None:
    """As printed, or as shape and type have it."""
    printed = event.size("requested_bytes")
    if printed is not None:
        return printed
    told = shape_of(event)
    return None if told is None else size_of(told)
