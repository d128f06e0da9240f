"""How large a block and a segment a request gets (CUDACachingAllocator.cpp: `round_size`, `get_allocation_size`)."""

from __future__ import annotations

from ...model.units import MIB
from .settings import AllocatorSettings

MIN_BLOCK_BYTES = 512
SMALL_BYTES = MIB
"""Largest request of the small pool (kSmallSize)."""
SMALL_BUFFER_BYTES = 2 * MIB
"""A segment, and a page, of the small pool."""
OWN_SEGMENT_FROM_BYTES = 10 * MIB
ROUND_LARGE_BYTES = 2 * MIB


def block_size(request_bytes: int, settings: AllocatorSettings) -> int:
    """The block that a request needs (`round_size`)."""
    found = settings.block_sizes.get(request_bytes)
    if found is None:
        found = settings.block_sizes[request_bytes] = _round_size(request_bytes + settings.padding_bytes, settings)
    return found


def _round_size(request_bytes: int, settings: AllocatorSettings) -> int:
    if request_bytes < MIN_BLOCK_BYTES:
        return MIN_BLOCK_BYTES
    divisions = settings.divisions_for(request_bytes)
    if divisions > 1 and request_bytes > MIN_BLOCK_BYTES * divisions:
        return _next_division(request_bytes, divisions)
    return -(-request_bytes // MIN_BLOCK_BYTES) * MIN_BLOCK_BYTES


def segment_size(block_bytes: int, settings: AllocatorSettings) -> int:
    """What the driver is asked for where no cached block serves (`get_allocation_size`)."""
    if block_bytes <= SMALL_BYTES:
        return SMALL_BUFFER_BYTES
    if block_bytes < OWN_SEGMENT_FROM_BYTES:
        return settings.large_segment_bytes
    return -(-block_bytes // ROUND_LARGE_BYTES) * ROUND_LARGE_BYTES


def page_size(*, small: bool, settings: AllocatorSettings) -> int:
    """In what an expandable segment grows (`find_expandable_block`)."""
    return SMALL_BUFFER_BYTES if small else settings.large_segment_bytes


def _next_division(size: int, divisions: int) -> int:
    """`roundup_power2_next_division`: between two powers of two there are `divisions` equal steps."""
    floor = 1 << (size.bit_length() - 1)
    if floor == size:
        return size
    step = floor >> (divisions.bit_length() - 1)
    return floor << 1 if step == 0 else -(-size // step) * step
