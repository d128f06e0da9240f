"""Blocks of segments, and the pools of cached ones (CUDACachingAllocator.cpp: `Block`, `BlockPool`)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Reservation:
    """Addresses that an expandable segment may map; `page_bytes` at a time (`ExpandableSegment`)."""

    address: int
    size_bytes: int
    page_bytes: int


class Block:
    """A piece of a segment; its neighbours in it are linked."""

    __slots__ = ("address", "age", "allocated", "born", "mapped", "next", "owner", "pool", "previous", "reservation",
                 "size", "stream", "waiting")  # fmt: skip

    def __init__(self, pool: Pool, stream: int, address: int, size: int, age: int) -> None:
        self.pool, self.stream, self.address, self.size = pool, stream, address, size
        self.age = age
        """Of equally large blocks the lower one is taken: the address, or when its segment was made."""
        self.allocated = False
        self.waiting = False
        """Given back by the program, but another stream may still use it."""
        self.owner = -1
        """Number of the allocation that has it, or had it last."""
        self.mapped = True
        self.reservation: Reservation | None = None
        self.previous: Block | None = None
        self.next: Block | None = None
        self.born = 0
        """Searches of the pool before it came there; its age when garbage is collected."""

    @property
    def is_split(self) -> bool:
        """Whether its segment has other blocks."""
        return self.previous is not None or self.next is not None

    @property
    def is_free(self) -> bool:
        """Neither in use nor waiting; it may be unmapped."""
        return not self.allocated and not self.waiting

    def put_before(self, after: Block) -> None:
        """Link it in front of a block."""
        self.previous, self.next = after.previous, after
        if after.previous is not None:
            after.previous.next = self
        after.previous = self

    def put_behind(self, before: Block) -> None:
        """Link it behind a block."""
        self.previous, self.next = before, before.next
        if before.next is not None:
            before.next.previous = self
        before.next = self


Key = tuple[int, int, int, int]


class Pool:
    """Cached blocks of one pool by stream and size, and what of its reservations is not mapped."""

    def __init__(self, identity: int, *, small: bool) -> None:
        self.identity, self.small = identity, small
        self.searches = 0
        self._keys: list[Key] = []
        self._blocks: dict[int, Block] = {}
        self._unmapped: list[tuple[int, int]] = []
        self._unmapped_blocks: dict[int, Block] = {}

    def __iter__(self) -> Iterator[Block]:
        """The cached blocks, those of lower streams first, the smallest first."""
        return iter([self._blocks[key[3]] for key in self._keys])

    def add(self, block: Block) -> None:
        """Cache a block."""
        block.born = self.searches
        insort(self._keys, (block.stream, block.size, block.age, block.address))
        self._blocks[block.address] = block

    def remove(self, block: Block) -> None:
        """Take a block out. Its size and address must be those it had when it came."""
        del self._keys[bisect_left(self._keys, (block.stream, block.size, block.age, block.address))]
        del self._blocks[block.address]

    def smallest(self, stream: int, size: int) -> Block | None:
        """The first of `from_size`."""
        at = bisect_left(self._keys, (stream, size, -1, -1))
        if at == len(self._keys) or self._keys[at][0] != stream:
            return None
        return self._blocks[self._keys[at][3]]

    def from_size(self, stream: int, size: int) -> Iterator[Block]:
        """The stream's cached blocks of at least that size, the smallest first. The pool must not change meanwhile."""
        at = bisect_left(self._keys, (stream, size, -1, -1))
        while at < len(self._keys) and self._keys[at][0] == stream:
            yield self._blocks[self._keys[at][3]]
            at += 1

    def below_size(self, stream: int, size: int) -> Iterator[Block]:
        """The stream's cached blocks that are smaller, the largest first."""
        at = bisect_left(self._keys, (stream, size, -1, -1)) - 1
        while at >= 0 and self._keys[at][0] == stream:
            yield self._blocks[self._keys[at][3]]
            at -= 1

    def add_unmapped(self, block: Block) -> None:
        """Keep addresses that are reserved but not mapped."""
        insort(self._unmapped, (block.stream, block.address))
        self._unmapped_blocks[block.address] = block

    def remove_unmapped(self, block: Block) -> None:
        """Take them out."""
        del self._unmapped[bisect_left(self._unmapped, (block.stream, block.address))]
        del self._unmapped_blocks[block.address]

    def unmapped(self, stream: int) -> Iterator[Block]:
        """The stream's, by address."""
        at = bisect_left(self._unmapped, (stream, -1))
        while at < len(self._unmapped) and self._unmapped[at][0] == stream:
            yield self._unmapped_blocks[self._unmapped[at][1]]
            at += 1


def merge(block: Block, other: Block | None) -> None:
    """Join a free neighbour into a block that is in no pool (`try_merge_blocks`)."""
    if other is None or not other.is_free or other.mapped != block.mapped:
        return
    if other.mapped:
        other.pool.remove(other)
    else:
        other.pool.remove_unmapped(other)
    if block.previous is other:
        block.address = other.address
        block.previous = other.previous
        if block.previous is not None:
            block.previous.next = block
    else:
        block.next = other.next
        if block.next is not None:
            block.next.previous = block
    block.size += other.size
