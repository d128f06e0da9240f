"""In which order the segments were made that stood where the recording begins.

Of equally large blocks newer releases of torch take that of the oldest segment, and no event tells how old those
segments are. But every recorded choice among equals does: the one that was taken is older than those passed over.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable

from .allocator import CachingAllocator
from .blocks import Block, Pool
from .device import Device
from .expandable import reach
from .settings import AllocatorSettings

Pair = tuple[int, int]
"""Ages of two segments: the first was taken, the second was passed over."""


class GuidedAllocator(CachingAllocator):
    """Takes the block that torch took, where the order of the first segments alone decides; notes what that tells."""

    def __init__(self, device: Device, settings: AllocatorSettings) -> None:
        super().__init__(device, settings, oldest_first=True)
        self.first_segments = 0
        """Segments up to this age stood at the beginning."""
        self.wanted_address = 0
        self.choices: set[Pair] = set()
        self.departed = False
        """A block was taken that the order of the addresses would not have chosen."""

    def _among_equals(self, pool: Pool, block: Block) -> Block:
        equals = []
        for other in pool.from_size(block.stream, block.size):
            if other.size != block.size or other.age > self.first_segments:
                break
            if reach(other) == reach(block):
                equals.append(other)
        taken = next((one for one in equals if one.address == self.wanted_address), None)
        if taken is None or any(one.age == taken.age and one.address < taken.address for one in equals):
            return block
        self.choices.update((taken.age, one.age) for one in equals if one.age != taken.age)
        self.departed = self.departed or taken is not block
        return taken


def order_of(count: int, choices: Iterable[Pair]) -> tuple[int, ...]:
    """The age of each of `count` segments that stood at the beginning (1 is the oldest), by address.

    Where the choices do not tell, or contradict one another, the order is that of the addresses.
    """
    younger: dict[int, list[int]] = defaultdict(list)
    older = [0] * (count + 1)
    for first, second in sorted(set(choices)):
        younger[first].append(second)
        older[second] += 1
    ready = [number for number in range(1, count + 1) if not older[number]]
    ages = [0] * (count + 1)
    age = 0
    while age < count:
        number = heapq.heappop(ready) if ready else next(one for one in range(1, count + 1) if not ages[one])
        if ages[number]:
            continue
        age += 1
        ages[number] = age
        for other in younger[number]:
            older[other] -= 1
            if not older[other] and not ages[other]:
                heapq.heappush(ready, other)
    return tuple(ages[1:])
