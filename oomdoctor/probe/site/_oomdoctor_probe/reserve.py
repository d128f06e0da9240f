"""A little memory set aside at the start, so that there is something to write with when none is left."""

from __future__ import annotations

_RESERVED_BYTES = 4 << 20

_reserve: list[bytes] = []


def take() -> None:
    """Set the reserve aside. It is address space only: `bytes(n)` asks for zeroed pages and never touches them."""
    if not _reserve:
        try:
            _reserve.append(bytes(_RESERVED_BYTES))
        except MemoryError:
            # There is none to set aside any more; what is left belongs to the user.
            pass


def release() -> None:
    """Give the reserve back to the allocator."""
    _reserve.clear()
