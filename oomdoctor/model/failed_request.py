"""A failed request beside the memory that was reserved: why none of it served. Sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unused:
    """Reserved memory that held no live tensor and that the request could not use."""

    reason: str
    """One of `allocator.room.REASONS`: 'too-small', 'not-split', 'other-stream', …"""
    bytes: int
    count: int
    largest_bytes: int


@dataclass(frozen=True)
class InTheWay:
    """Live blocks of one owner that would have to go."""

    owner: str
    bytes: int
    count: int


@dataclass(frozen=True)
class Pinning:
    """Live blocks of one owner that lie directly beside holes and keep them from growing."""

    owner: str
    bytes: int
    count: int
    hole_bytes: int
    """Of the holes beside them. A hole between two owners counts for both."""


@dataclass(frozen=True)
class Room:
    """The live blocks that stand in the way of the request, where the least does."""

    hole_bytes: int
    """What would be one hole without them; 0 where segments would go back to the driver instead."""
    given_back_bytes: int
    """What the driver would then have back for a new segment; 0 where a hole would be made."""
    in_the_way_bytes: int
    in_the_way_count: int
    owners: tuple[InTheWay, ...]
    """The largest, not necessarily all."""


@dataclass(frozen=True)
class MapRun:
    """A stretch of one kind within a row of the map."""

    start_bytes: int
    """From the row's beginning."""
    bytes: int
    kind: str
    """What it mostly is: 'idle', 'waiting for another stream', or a category of live memory."""


@dataclass(frozen=True)
class MapRow:
    """Segments side by side in the order of their addresses, or a part of one that is longer than a row."""

    pool: str
    """In words: 'large pool, stream 0'."""
    serves_request: bool
    """Whether the request is served from this pool."""
    segments: int
    first_address: int
    used_bytes: int
    """How far the row reaches."""
    runs: tuple[MapRun, ...]
    in_the_way: tuple[int, ...]
    """Where blocks stand that would have to go: bytes from the row's beginning."""


@dataclass(frozen=True)
class AddressMap:
    """A device's segments drawn to scale. Every row has the same scale."""

    row_bytes: int
    """What the width of a row stands for; at least the request."""
    rows: tuple[MapRow, ...]
    omitted_bytes: int = 0
    """In segments for which there was no row."""


@dataclass(frozen=True)
class Churned:
    """Whose blocks came and went where holes are now."""

    owner: str
    hole_bytes: int
    """Of the holes in which a block of its was the last to be freed."""
    holes: int
    freed: int
    """Its blocks that were allocated and freed within the recording, up to the failure."""
    sizes: int
    """Of how many sizes these were asked for."""
    smallest_bytes: int
    largest_bytes: int


@dataclass(frozen=True)
class FailedRequest:
    """One failed request and the state of the allocator at that moment."""

    where: str
    requested_bytes: int
    needed_bytes: int
    """As the allocator rounds it."""
    pool: str
    """The pool that serves it, in words."""
    captured: bool
    """It came while a CUDA graph was captured."""
    wanted_bytes: int
    """What the driver is asked for where no hole serves."""
    device_free_bytes: int | None
    room_bytes: int | None
    """What the allocator could still take of it: less where the process is allowed less."""
    live_bytes: int
    reserved_bytes: int
    largest_hole_bytes: int
    """The largest idle block that it could have used; 0: there is none."""
    unused: tuple[Unused, ...]
    pinning: tuple[Pinning, ...]
    """Who keeps the holes from growing; the largest, not necessarily all."""
    room: Room | None
    """None: nothing that could go makes room, or the request does not fail for want of a hole."""
    map: AddressMap
    source: str
    churn: tuple[Churned, ...] = ()
    """Who left the holes; the largest, not necessarily all."""
    undone: int = 0
    """Events that came after the failure: the state is rebuilt backwards from what the snapshot shows."""
    may_be_more_bytes: int = 0
    """By how much the live bytes may be more, and the holes smaller: the rounding of some blocks is not recorded."""

    @property
    def short_bytes(self) -> int | None:
        """What would be missing even if all that was reserved and not live were one piece; None: not known."""
        if self.room_bytes is None:
            return None
        return max(0, self.live_bytes + self.needed_bytes - self.reserved_bytes - self.room_bytes)

    @property
    def free_suffices(self) -> bool:
        """Whether the driver had what it was asked for: then something else refused it."""
        return self.room_bytes is not None and self.room_bytes >= self.wanted_bytes
