"""An allocator in which segments and live blocks stand as they stood at a moment of the recording."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from .allocator import CachingAllocator
from .blocks import Block, Reservation
from .expandable import reservation_size
from .memory_map import Area, LiveBlock, MemoryMap
from .rounding import page_size


def stand(allocator: CachingAllocator, start: MemoryMap, ages: tuple[int, ...] = ()) -> dict[int, Block]:
    """Fill an empty allocator; the live blocks by their number. Nothing is taken from the device for it.

    `ages` says in which order the segments were made (see `order`); by address, where it says nothing.
    """
    found: dict[int, Block] = {}
    chains: dict[int, list[Block]] = {}
    number = 0
    for position, area in enumerate(start.areas):
        made = allocator.age_of_new_segment()
        age = ages[position] if ages and allocator.oldest_first else made
        live: list[tuple[int, LiveBlock]] = []
        while number < len(start.blocks) and start.blocks[number].address < area.end:
            live.append((number, start.blocks[number]))
            number += 1
        blocks = _blocks(allocator, area, age, live, found)
        allocator.count(area.size_bytes)
        if area.expandable:
            bases = start.bases.get((area.stream, area.pool, area.small), ())
            at = bisect_right(bases, area.address) - 1
            chains.setdefault(bases[at] if at >= 0 else area.address, []).extend(blocks)
        else:
            allocator.device.occupy(area.address, area.size_bytes)
            _settle(blocks)
    for base, blocks in chains.items():
        _settle(_reserved(allocator, blocks, base))
    return found


def _blocks(
    allocator: CachingAllocator, area: Area, age: int, live: list[tuple[int, LiveBlock]], found: dict[int, Block]
) -> list[Block]:
    """The blocks of one segment, the free ones between the live ones included."""
    pool = allocator.pool(area.pool, small=area.small)
    blocks: list[Block] = []
    at = area.address
    for number, one in live:
        if one.address > at:
            blocks.append(Block(pool, area.stream, at, one.address - at, age))
        block = found[number] = Block(pool, area.stream, one.address, min(one.size_bytes, area.end - one.address), age)
        block.owner = number
        allocator.adopt(block)
        if one.waiting:
            allocator.free(block)
        blocks.append(block)
        at = block.address + block.size
    if at < area.end:
        blocks.append(Block(pool, area.stream, at, area.end - at, age))
    return blocks


def _reserved(allocator: CachingAllocator, blocks: list[Block], base: int) -> list[Block]:
    """The blocks of an expandable segment with the addresses between and behind them, which are not mapped."""
    first, last = blocks[0], blocks[-1]
    page = page_size(small=first.pool.small, settings=allocator.settings)
    size = max(reservation_size(allocator.device, page), last.address + last.size - base)
    reservation = Reservation(base, size, page)
    allocator.device.occupy(base, size)
    chain: list[Block] = []
    at = base
    for block in blocks:
        if block.address > at:
            chain.append(_unmapped(first, at, block.address - at))
        chain.append(block)
        at = block.address + block.size
    if at < base + size:
        chain.append(_unmapped(first, at, base + size - at))
    for block in chain:
        block.reservation = reservation
    return chain


def _unmapped(like: Block, address: int, size: int) -> Block:
    block = Block(like.pool, like.stream, address, size, like.age)
    block.mapped = False
    return block


def _settle(blocks: list[Block]) -> None:
    """Link neighbours, and cache what is free."""
    for before, block in pairwise(blocks):
        before.next, block.previous = block, before
    for block in blocks:
        if not block.mapped:
            block.pool.add_unmapped(block)
        elif block.is_free:
            block.pool.add(block)
