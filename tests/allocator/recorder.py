"""Records a program on the model of the allocator as torch records it: a snapshot with its events.

Segments are seen to come and go by comparing what stood before and after each step, so they are in the order of their
addresses, not in that of the allocator.
"""

from __future__ import annotations

from typing import Any

from oomdoctor.allocator.simulation.allocator import CachingAllocator
from oomdoctor.allocator.simulation.blocks import Block
from oomdoctor.allocator.simulation.device import Device
from oomdoctor.allocator.simulation.memory_map import Area
from oomdoctor.allocator.simulation.settings import AllocatorSettings

GIB, MIB = 1 << 30, 1 << 20


class Recorder:
    """One device of `free_bytes`, that holds nothing else."""

    def __init__(self, free_bytes: int, settings: AllocatorSettings | None = None) -> None:
        self.settings = settings or AllocatorSettings()
        self.device = Device(free_bytes, free_bytes, next_address=1 << 40)
        self.allocator = CachingAllocator(self.device, self.settings, oldest_first=True)
        self.events: list[dict[str, Any]] = []
        self.live: dict[int, tuple[Block, int]] = {}
        self.maps: list[tuple[tuple[Area, ...], dict[int, int]]] = []
        """Segments and the sizes of live blocks before each event."""
        self._areas: tuple[Area, ...] = ()

    def malloc(self, size: int, stream: int = 0) -> int | None:
        block = self.allocator.malloc(size, stream)
        self._segments(stream)
        if block is None:
            self._event("oom", None, size, stream, device_free=self.device.free_bytes)
            return None
        self._event("alloc", block.address, size, stream)
        self.live[block.address] = (block, size)
        return block.address

    def free(self, address: int) -> None:
        block, size = self.live[address]
        self._event("free_requested", address, size, block.stream)
        self._event("free_completed", address, size, block.stream)
        del self.live[address]
        self.allocator.free(block)
        self.allocator.complete(block)

    def empty_cache(self) -> None:
        self.allocator.release_cached()
        self._segments(0)

    def snapshot(self, ring: int | None = None) -> dict[str, Any]:
        segments = []
        for area in self.allocator.areas():
            inside = sorted(a for a in self.live if area.address <= a < area.end)
            blocks, at = [], area.address
            for address in [*inside, area.end]:
                if address > at:
                    blocks.append(_block(at, address - at, 0, "inactive"))
                if address < area.end:
                    block, size = self.live[address]
                    blocks.append(_block(address, block.size, size, "active_allocated"))
                    at = address + block.size
            segments.append(
                {
                    "device": 0,
                    "address": area.address,
                    "total_size": area.size_bytes,
                    "stream": area.stream,
                    "segment_type": "small" if area.small else "large",
                    "segment_pool_id": (0, 0),
                    "is_expandable": area.expandable,
                    "frames": [],
                    "blocks": blocks,
                }
            )
        bound = self.settings.max_split_bytes
        return {
            "segments": segments,
            "device_traces": [self.events if ring is None else self.events[-ring:]],
            "allocator_settings": {
                "PYTORCH_CUDA_ALLOC_CONF": "",
                "expandable_segments": self.settings.expandable_segments,
                "max_split_size": -1 if bound is None else bound,
            },
        }

    def _event(self, action: str, address: int | None, size: int, stream: int, **more: int) -> None:
        self.maps.append((self._areas, {a: block.size for a, (block, _) in self.live.items()}))
        where = {} if address is None else {"addr": address}
        self.events.append({"action": action, "size": size, "stream": stream, "frames": [], **where, **more})

    def _segments(self, stream: int) -> None:
        before, after = self._areas, self.allocator.areas()
        if self.settings.expandable_segments:
            for start, size in _pages(before, after):
                self._event("segment_unmap", start, size, stream)
            for start, size in _pages(after, before):
                self._event("segment_map", start, size, stream)
            self._areas = after
            return
        for area in sorted(set(before) - set(after), key=lambda one: one.address):
            self._event("segment_free", area.address, area.size_bytes, area.stream)
            self._areas = tuple(one for one in self._areas if one != area)
        for area in sorted(set(after) - set(before), key=lambda one: one.address):
            self._event("segment_alloc", area.address, area.size_bytes, area.stream)
        self._areas = after


def _block(address: int, size: int, requested: int, state: str) -> dict[str, Any]:
    return {"address": address, "size": size, "requested_size": requested, "state": state, "frames": []}


def _pages(these: tuple[Area, ...], without: tuple[Area, ...]) -> list[tuple[int, int]]:
    """What is in the first areas and not in the second."""
    found: list[tuple[int, int]] = []
    for area in these:
        at = area.address
        for other in without:
            if other.end <= at or other.address >= area.end:
                continue
            if other.address > at:
                found.append((at, other.address - at))
            at = other.end
        if at < area.end:
            found.append((at, area.end - at))
    return found
