"""Expandable segments (CUDACachingAllocator.cpp: `ExpandableSegment`, `map_block`, `unmap_block`)."""

from __future__ import annotations

from typing import Protocol

from .blocks import Block, Pool, Reservation, merge
from .device import Device
from .rounding import page_size
from .settings import AllocatorSettings

_WITHOUT_TOTAL_BYTES = 1 << 42
"""Addresses of a reservation where the size of the card is not known; never a bound in practice."""


class SegmentKeeper(Protocol):
    """What growing a segment asks of the allocator that keeps it."""

    device: Device
    settings: AllocatorSettings

    def age_of_new_segment(self) -> int:
        """What its blocks are told apart by from others of their size."""

    def count(self, change_bytes: int) -> None:
        """Keep the sum of what is reserved."""


def reach(block: Block) -> int:
    """What a cached block can grow to in place: itself and the unmapped addresses behind it."""
    behind = block.next
    return block.size + (behind.size if behind is not None and not behind.mapped else 0)


def grow(allocator: SegmentKeeper, pool: Pool, stream: int, size: int) -> Block | None:
    """A block of at least that size, with pages mapped for what is missing; None where there are none left."""
    block = _place(allocator, pool, stream, size)
    if not block.mapped and not _map(allocator, block, min(block.size, size)):
        return None
    while block.size < size:
        behind = block.next
        if behind is None or not _map(allocator, behind, min(size - block.size, behind.size)):
            return None
        block = behind
    pool.remove(block)
    return block


def unmap(block: Block, device: Device) -> int:
    """Give the whole pages of a cached block back; how many bytes that were (`unmap_block`)."""
    reservation = block.reservation
    if reservation is None:
        return 0
    page, base = reservation.page_bytes, reservation.address
    first = base + -(-(block.address - base) // page) * page
    last = base + (block.address + block.size - base) // page * page
    if first >= last:
        return 0
    pool = block.pool
    pool.remove(block)
    if first > block.address:
        before = _piece(block, block.address, first - block.address)
        before.put_before(block)
        pool.add(before)
    if last < block.address + block.size:
        after = _piece(block, last, block.address + block.size - last)
        after.put_behind(block)
        pool.add(after)
    block.address, block.size, block.mapped = first, last - first, False
    merge(block, block.previous)
    merge(block, block.next)
    if block.is_split:
        pool.add_unmapped(block)
    else:
        device.vacate(reservation.address, reservation.size_bytes)
    device.give_back(last - first)
    return last - first


def reservation_size(device: Device, page_bytes: int) -> int:
    """Addresses for all the memory of the card and an eighth more, in whole pages."""
    wanted = _WITHOUT_TOTAL_BYTES if device.total_bytes is None else device.total_bytes + device.total_bytes // 8
    return -(-wanted // page_bytes) * page_bytes


def reserve(allocator: SegmentKeeper, pool: Pool, stream: int) -> Block:
    """New addresses, none of them mapped."""
    page = page_size(small=pool.small, settings=allocator.settings)
    size = reservation_size(allocator.device, page)
    address = allocator.device.place(size)
    block = Block(pool, stream, address, size, allocator.age_of_new_segment())
    block.mapped, block.reservation = False, Reservation(address, size, page)
    pool.add_unmapped(block)
    return block


def _place(allocator: SegmentKeeper, pool: Pool, stream: int, size: int) -> Block:
    """`find_expandable_block`: the lowest addresses that are free or unmapped and long enough."""
    for unmapped in pool.unmapped(stream):
        first = unmapped
        if unmapped.previous is not None and unmapped.previous.is_free:
            first = unmapped.previous
        length, block = 0, first
        while length < size and block.is_free:
            length += block.size
            if block.next is None:
                break
            block = block.next
        if length >= size:
            return first
    return reserve(allocator, pool, stream)


def _map(allocator: SegmentKeeper, block: Block, size: int) -> bool:
    """Map pages for the first `size` bytes of an unmapped block; whether there were enough (`map_block`)."""
    reservation = block.reservation
    if reservation is None or block.mapped:
        return False
    mapped = -(-size // reservation.page_bytes) * reservation.page_bytes
    if not allocator.device.take(mapped):
        return False
    pool = block.pool
    pool.remove_unmapped(block)
    block.mapped = True
    if mapped < block.size:
        rest = _piece(block, block.address + mapped, block.size - mapped)
        rest.mapped = False
        rest.put_behind(block)
        pool.add_unmapped(rest)
        block.size = mapped
    merge(block, block.previous)
    merge(block, block.next)
    pool.add(block)
    allocator.count(mapped)
    return True


def _piece(block: Block, address: int, size: int) -> Block:
    piece = Block(block.pool, block.stream, address, size, block.age)
    piece.reservation = block.reservation
    return piece
