"""A failed request beside the memory that was reserved: why none of it served. Sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unused:
    """Reserved memory that held no live tensor and that the request could not use."""

    reason: str
    """'too-small', 'other-stream', 'other-pool', 'private-pool', 'waiting' or 'large-enough'."""
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
class Room:
    """The place where the fewest live bytes stand in the way of the request."""

    hole_bytes: int
    """What would be one hole without them."""
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
class FailedRequest:
    """One failed request and the state of the allocator at that moment."""

    where: str
    requested_bytes: int
    needed_bytes: int
    """As the allocator rounds it."""
    pool: str
    """The pool that serves it, in words."""
    device_free_bytes: int | None
    largest_hole_bytes: int
    """The largest idle block that it could have used; 0: there is none."""
    unused: tuple[Unused, ...]
    room: Room | None
    """None: no segment is long enough, or the request does not fail for want of a hole."""
    map: AddressMap
    source: str
