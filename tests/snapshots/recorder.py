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
        self.maps: list[tuple[tuple[Area, ...] | None, dict[int, int]]] = []
        """Segments and the sizes of live blocks before each event. None: between pages that come and go."""
        self._areas: tuple[Area, ...] | None = ()
        self._before: tuple[Area, ...] = ()

    def malloc(self, size: int, stream: int = 0) -> int | None:
        block = self.allocator.malloc(size, stream)
        self._segments()
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
        self._segments()

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
                "roundup_power2_divisions": {
                    str(1 << power): divisions for power, divisions in enumerate(self.settings.roundup_power2_divisions)
                },
            },
        }

    def _event(self, action: str, address: int | None, size: int, stream: int, **more: int) -> None:
        self.maps.append((self._areas, {a: block.size for a, (block, _) in self.live.items()}))
        where = {} if address is None else {"addr": address}
        self.events.append({"action": action, "size": size, "stream": stream, "frames": [], **where, **more})

    def _segments(self) -> None:
        before, after = self._before, self.allocator.areas()
        self._before = after
        changes = [
            *(("segment_unmap", *page) for page in _pages(before, after)),
            *(("segment_map", *page) for page in _pages(after, before)),
        ]
        if not self.settings.expandable_segments:
            changes = [
                *(("segment_free", a.address, a.size_bytes, a.stream) for a in before if a not in after),
                *(("segment_alloc", a.address, a.size_bytes, a.stream) for a in after if a not in before),
            ]
        for action, address, size, stream in changes:
            self._event(action, address, size, stream)
            self._areas = None
        self._areas = after


def _block(address: int, size: int, requested: int, state: str) -> dict[str, Any]:
    return {"address": address, "size": size, "requested_size": requested, "state": state, "frames": []}


def _pages(these: tuple[Area, ...], without: tuple[Area, ...]) -> list[tuple[int, int, int]]:
    """What is in the first areas and not in the second: address, size, stream."""
    found: list[tuple[int, int, int]] = []
    for area in these:
        at = area.address
        for other in without:
            if other.end <= at or other.address >= area.end:
                continue
            if other.address > at:
                found.append((at, other.address - at, area.stream))
            at = other.end
        if at < area.end:
            found.append((at, area.end - at, area.stream))
    return found
