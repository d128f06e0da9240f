"""Run a recorded program through the model, from the state in which the recording begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .allocator import CachingAllocator
from .blocks import Block
from .device import Device
from .memory_map import Area, MemoryMap
from .order import GuidedAllocator, order_of
from .recording import Kind, Recording, Step
from .rounding import SMALL_BYTES, block_size, page_size, segment_size
from .settings import AllocatorSettings
from .standing import stand


@dataclass(frozen=True)
class Outcome:
    """How a recorded program fares."""

    served: bool
    """The request that failed when it was recorded is served."""
    failed_event: int | None
    """The event whose request is not served: the recorded failure, or one before it."""
    failed_request_bytes: int | None
    spare_bytes: int
    """Free on the device after the request is served, once the allocator has given back all it can."""
    missing_bytes: int
    """What the driver lacks for the segment that the request needs, once all is given back."""
    requests: int
    """Requests before the failing one that were served."""
    placed_alike: int
    """Of these, how many came to stand where they stood when it was recorded."""
    served_before: int
    """Requests that failed when it was recorded, were survived, and are served here."""
    reserved_bytes: int
    live_bytes: int
    areas: tuple[Area, ...]
    """Segments at the end, or when it failed."""

    requests_missed: int = 0
    """Recorded requests after the one that is not served, the failing one included."""

    @property
    def fails_earlier(self) -> bool:
        """It does not come as far as the recorded failure."""
        return self.requests_missed > 0


_STEPS_BETWEEN = 4096

Tell = Callable[[int, int], None]
"""Is told, now and then, the steps done and all steps of a pass."""


class DoesNotFit(Exception):
    """What stood where the recording begins does not fit on the device."""


def run(
    recording: Recording,
    settings: AllocatorSettings,
    device: Device,
    *,
    as_recorded: bool = False,
    packed: bool = False,
    oldest_first: bool = False,
    ages: tuple[int, ...] = (),
    tell: Tell | None = None,
) -> Outcome:
    """The outcome under these settings on this device, whose `free_bytes` are those where the recording begins.

    `as_recorded`: new segments come to stand where they stood. `packed`: what stood at the beginning is laid out anew
    by these settings, instead of standing as it did; raises DoesNotFit where that is too much for the device.
    """
    allocator = CachingAllocator(device, settings, oldest_first=oldest_first)
    if packed:
        device.free_bytes += recording.start.reserved_bytes
        blocks = _lay_out_anew(allocator, recording.start)
    else:
        if device.free_bytes < 0:
            raise DoesNotFit
        blocks = stand(allocator, recording.start, ages)
    return _Run(allocator, blocks, as_recorded, tell).through(recording.steps)


def find_order(
    recording: Recording, settings: AllocatorSettings, device: Device, tell: Tell | None = None
) -> tuple[tuple[int, ...], Outcome | None]:
    """In which order the segments at the beginning were made, as far as the recorded choices tell.

    With it the outcome of the recorded run in that order, where finding the order was such a run: where it is that of
    the addresses, which is tried, and every choice was the one that it asks for.
    """
    allocator = GuidedAllocator(device, settings)
    blocks = stand(allocator, recording.start)
    allocator.first_segments = len(recording.start.areas)
    outcome = _Run(allocator, blocks, as_recorded=True, tell=tell).through(recording.steps)
    ages = order_of(allocator.first_segments, allocator.choices)
    tried = not allocator.departed and ages == tuple(range(1, allocator.first_segments + 1))
    return ages, outcome if tried else None


class _Run:
    def __init__(
        self, allocator: CachingAllocator, blocks: dict[int, Block], as_recorded: bool, tell: Tell | None
    ) -> None:
        self.allocator, self.blocks, self.as_recorded, self.tell = allocator, blocks, as_recorded, tell
        self.requests = self.placed_alike = self.served_before = 0

    def through(self, steps: tuple[Step, ...]) -> Outcome:
        allocator, blocks, device = self.allocator, self.blocks, self.allocator.device
        guided = allocator if isinstance(allocator, GuidedAllocator) else None
        target = len(steps) - 1
        malloc, free, complete, empty = Kind.MALLOC, Kind.FREE, Kind.COMPLETE, Kind.EMPTY
        for position, step in enumerate(steps):
            kind = step.kind
            if self.tell is not None and position % _STEPS_BETWEEN == 0:
                self.tell(position, len(steps))
            if kind is malloc:
                if self.as_recorded:
                    device.hint = step.segment_address
                if guided is not None:
                    guided.wanted_address = step.address
                block = allocator.malloc(step.size_bytes, step.stream, step.pool)
                if block is None:
                    return self._failed(steps, position)
                block.owner = step.block
                blocks[step.block] = block
                self.requests += 1
                self.placed_alike += block.address == step.address
            elif kind is free:
                allocator.free(blocks[step.block])
            elif kind is complete:
                block = blocks.pop(step.block)
                if block.owner == step.block:  # else the allocator has waited for it, and it serves another
                    allocator.complete(block)
            elif kind is empty:
                allocator.release_cached(step.pool)
            else:
                device.hint = None
                block = allocator.malloc(step.size_bytes, step.stream, step.pool)
                if position == target:
                    return self._failed(steps, position) if block is None else self._served()
                if block is not None:
                    self.served_before += 1
                    allocator.complete(block)
        raise ValueError("a recording ends with the request that failed")

    def _served(self) -> Outcome:
        areas = self.allocator.areas()
        self.allocator.release_cached()
        return self._outcome(None, areas, spare=self._room())

    def _failed(self, steps: tuple[Step, ...], position: int) -> Outcome:
        step = steps[position]
        missed = sum(1 for one in steps[position:] if one.kind in (Kind.MALLOC, Kind.FAIL)) - 1
        areas = self.allocator.areas()
        return self._outcome(step, areas, missing=self._missing(step), missed=missed)

    def _missing(self, step: Step) -> int:
        """How much more the device would have to have free for the request that failed.

        It is asked for again with more than enough: the failure has given back all that was idle, so that what is taken
        now is what is needed, wherever it comes to stand.
        """
        allocator, device = self.allocator, self.allocator.device
        settings, room = allocator.settings, self._room()
        size = block_size(step.size_bytes, settings)
        wanted = segment_size(size, settings)
        if not settings.expandable_segments:
            return max(0, wanted - room)
        page = page_size(small=size <= SMALL_BYTES, settings=settings)
        pages = -(-size // page) * page
        device.free_bytes, device.allowed_bytes = room + pages + page, None
        if allocator.malloc(step.size_bytes, step.stream, step.pool) is None:
            return max(0, pages - room)  # no reservation on this card has so many addresses
        return pages + page - device.free_bytes

    def _room(self) -> int:
        """What the process could still reserve."""
        device = self.allocator.device
        if device.allowed_bytes is None:
            return device.free_bytes
        return min(device.free_bytes, max(0, device.allowed_bytes - self.allocator.reserved_bytes))

    def _outcome(
        self, failed: Step | None, areas: tuple[Area, ...], *, spare: int = 0, missing: int = 0, missed: int = 0
    ) -> Outcome:
        return Outcome(
            served=failed is None,
            failed_event=None if failed is None else failed.event,
            failed_request_bytes=None if failed is None else failed.size_bytes,
            spare_bytes=spare,
            missing_bytes=missing,
            requests=self.requests,
            placed_alike=self.placed_alike,
            served_before=self.served_before,
            reserved_bytes=sum(area.size_bytes for area in areas),
            live_bytes=self.allocator.active_bytes,
            areas=areas,
            requests_missed=missed,
        )


def _lay_out_anew(allocator: CachingAllocator, start: MemoryMap) -> dict[int, Block]:
    """Every block that was live is asked for again, in order of address."""
    areas = iter(start.areas)
    area = next(areas, None)
    found = {}
    for number, block in enumerate(start.blocks):
        while area is not None and block.address >= area.end:
            area = next(areas, None)
        stream, pool = (area.stream, area.pool) if area is not None else (0, 0)
        made = allocator.malloc(block.size_bytes, stream, pool)
        if made is None:
            raise DoesNotFit
        if block.waiting:
            allocator.free(made)
        made.owner = number
        found[number] = made
    return found
