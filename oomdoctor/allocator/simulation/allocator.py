"""A model of torch's caching allocator on one device (CUDACachingAllocator.cpp: `DeviceCachingAllocator`).

Each method names the function whose rules it follows. What is left out: user pools with an allocator of their own,
pools that may be used as a last resort or do not split, and callbacks that free memory.
"""

from __future__ import annotations

from . import expandable
from .blocks import Block, Pool, merge
from .device import Device
from .memory_map import Area
from .rounding import MIN_BLOCK_BYTES, SMALL_BYTES, block_size, segment_size
from .settings import AllocatorSettings

DEFAULT_POOL = 0


class CachingAllocator:
    """Serves requests from cached blocks, else from the device, as torch does under these settings."""

    def __init__(self, device: Device, settings: AllocatorSettings, *, oldest_first: bool = False) -> None:
        """`oldest_first`: of equally large blocks that of the oldest segment is taken, else that at the lowest address.

        Releases differ in this; see `BlockComparatorSizeCounterAddress` and `BlockComparatorSize`.
        """
        self.device, self.settings, self.oldest_first = device, settings, oldest_first
        self.reserved_bytes = 0
        self.active_bytes = 0
        """Of blocks in use or waiting for another stream."""
        self.segments_made = 0
        self._pools: dict[tuple[int, bool], Pool] = {}
        self._in_use: dict[int, Block] = {}
        self._waiting: dict[int, Block] = {}

    # --- what a program does ------------------------------------------------------------------------------------

    def malloc(self, request_bytes: int, stream: int, pool: int = DEFAULT_POOL) -> Block | None:
        """The block that serves a request; None where it runs out of memory (`malloc`)."""
        size = block_size(request_bytes, self.settings)
        source = self.pool(pool, small=size <= SMALL_BYTES)
        block = self._cached_block(source, stream, size)
        if block is None:
            self._collect_garbage()
            block = self._new_block(source, stream, size)
        if block is None and not is_capture(pool):
            if self._release_oversize(source, stream, size):
                block = self._new_block(source, stream, size)
            if block is None:
                self.release_cached()
                block = self._new_block(source, stream, size)
        return None if block is None else self._hand_out(block, size)

    def free(self, block: Block) -> None:
        """The program gives a block back; it cannot be used again before `complete` (`free`)."""
        block.allocated, block.waiting = False, True
        self._waiting[block.address] = block

    def complete(self, block: Block) -> None:
        """No stream uses the block any more: it is cached, joined with free neighbours (`free_block`)."""
        if block.is_free:
            return
        self._waiting.pop(block.address, None)
        del self._in_use[block.address]
        block.allocated = block.waiting = False
        self.active_bytes -= block.size
        merge(block, block.previous)
        merge(block, block.next)
        block.pool.add(block)

    def release_cached(self, pool: int = DEFAULT_POOL) -> None:
        """Give back each segment of a pool that holds nothing, and idle pages (`release_cached_blocks`)."""
        for block in list(self._waiting.values()):
            if block.pool.identity == pool:
                self.complete(block)
        for small in (False, True):
            source = self.pool(pool, small=small)
            to_unmap = []
            for block in source:
                if block.reservation is not None:
                    to_unmap.append(block)
                elif not block.is_split:
                    self.release(block)
            for block in to_unmap:
                self.count(-expandable.unmap(block, self.device))

    # --- how it does it ------------------------------------------------------------------------------------------

    def pool(self, identity: int, *, small: bool) -> Pool:
        """The cached blocks of one pool (`get_pool`)."""
        found = self._pools.get((identity, small))
        if found is None:
            found = self._pools[(identity, small)] = Pool(identity, small=small)
        return found

    def age_of_new_segment(self) -> int:
        """What its blocks are told apart by from others of their size."""
        self.segments_made += 1
        return self.segments_made if self.oldest_first else 0

    def adopt(self, block: Block) -> None:
        """Take a block as allocated; it is in no pool."""
        block.allocated = True
        self._in_use[block.address] = block
        self.active_bytes += block.size

    def areas(self) -> tuple[Area, ...]:
        """All segments, and each mapped stretch of the expandable ones, by address (`snapshot`)."""
        blocks = [*self._in_use.values(), *(block for pool in self._pools.values() for block in pool)]
        found = []
        for block in blocks:
            if block.previous is not None and block.previous.mapped:
                continue
            size, last = block.size, block
            while last.next is not None and last.next.mapped:
                last = last.next
                size += last.size
            pool = block.pool
            area = Area(block.address, size, block.stream, pool.identity, pool.small, block.reservation is not None)
            found.append(area)
        return tuple(sorted(found, key=lambda area: area.address))

    def count(self, change_bytes: int) -> None:
        """Keep the sum of what is reserved."""
        self.reserved_bytes += change_bytes

    def release(self, block: Block) -> None:
        """Give a whole segment back (`release_block`)."""
        block.pool.remove(block)
        self.device.give_back(block.size)
        self.device.vacate(block.address, block.size)
        self.count(-block.size)

    def _cached_block(self, pool: Pool, stream: int, size: int) -> Block | None:
        """`get_free_block`: the smallest that is large enough; with expandable segments what it can grow to counts."""
        settings = self.settings
        pool.searches += 1
        block = pool.smallest(stream, size)
        if block is not None and block.reservation is not None:
            candidates = pool.from_size(stream, size)
            next(candidates)
            if settings.expandable_segments:
                for other in candidates:
                    if block.reservation is None or expandable.reach(other) >= expandable.reach(block):
                        break
                    block = other
            else:
                block = next((other for other in candidates if other.reservation is None), None)
        if block is None:
            return None
        bound = settings.max_split_bytes
        if bound is not None:
            if size < bound <= block.size:
                return None
            if size >= bound and block.size >= size + settings.max_non_split_rounding_bytes:
                return None
        block = self._among_equals(pool, block)
        pool.remove(block)
        return block

    def _among_equals(self, pool: Pool, block: Block) -> Block:
        """The one to take of the stream's blocks of this size; `block` is the first by the allocator's order."""
        return block

    def _new_block(self, pool: Pool, stream: int, size: int) -> Block | None:
        """`alloc_block`: memory from the device; the block is in no pool."""
        wanted = segment_size(size, self.settings)
        allowed = self.device.allowed_bytes
        if allowed is not None and self.reserved_bytes + wanted > allowed:
            return None
        if self.settings.expandable_segments:
            return expandable.grow(self, pool, stream, size)
        if not self.device.take(wanted):
            return None
        address = self.device.place(wanted)
        self.count(wanted)
        return Block(pool, stream, address, wanted, self.age_of_new_segment())

    def _hand_out(self, block: Block, size: int) -> Block:
        """`alloc_found_block` with `should_split`: the rest is cached where it is worth a block of its own."""
        rest = block.size - size
        if block.pool.small or self.settings.expandable_segments:
            split = rest >= MIN_BLOCK_BYTES
        else:
            bound = self.settings.max_split_bytes
            split = (bound is None or size < bound) and rest > SMALL_BYTES
        if split:
            remaining = Block(block.pool, block.stream, block.address + size, rest, block.age)
            remaining.reservation = block.reservation
            remaining.put_behind(block)
            block.size = size
            block.pool.add(remaining)
        self.adopt(block)
        return block

    def _release_oversize(self, pool: Pool, stream: int, size: int) -> bool:
        """`release_available_cached_blocks`: with max_split_size_mb, of what is not split just enough.

        Where a recording begins late, large blocks may stand split that the setting would have left whole.
        """
        bound = self.settings.max_split_bytes
        if bound is None:
            return False
        wanted = max(size, bound)
        block = pool.smallest(stream, wanted)
        if block is not None and block.reservation is None and not block.is_split:
            self.release(block)
            return True
        released = 0
        for block in list(pool.below_size(stream, wanted)):
            if released >= wanted or block.size < bound:
                break
            if block.reservation is None and not block.is_split:
                released += block.size
                self.release(block)
        return released >= wanted

    def _collect_garbage(self) -> None:
        """`garbage_collect_cached_blocks`: above the threshold, whole segments that were not used for long go back."""
        threshold, allowed = self.settings.garbage_collection_threshold, self.device.allowed_bytes
        if threshold <= 0 or allowed is None or self.reserved_bytes <= int(threshold * allowed):
            return
        target, reclaimed = self.reserved_bytes - int(threshold * allowed), 0
        pool = self.pool(DEFAULT_POOL, small=False)
        whole = [block for block in pool if not block.is_split]
        ages = sum(pool.searches - block.born for block in whole)
        count, found = len(whole), True
        while reclaimed < target and found and count > 0:
            oldest, found = ages / count, False
            for block in [block for block in pool if not block.is_split and block.reservation is None]:
                age = pool.searches - block.born
                if age >= oldest:
                    found = True
                    reclaimed += block.size
                    ages -= age
                    count -= 1
                    self.release(block)


def is_capture(pool: int) -> bool:
    """Whether a pool is that of a CUDA graph: while it is captured, nothing can be given back.

    The first half of such a pool's number is not zero (`MemPool`); see `pool_number` for how it is written here.
    """
    return pool >> 32 != 0
