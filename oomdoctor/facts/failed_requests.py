"""Each failed request beside the memory that was reserved when it failed, as the report draws it."""

from __future__ import annotations

from ..allocator.address_map import address_map, pool_name
from ..allocator.fragmentation import SMALL_REQUEST_BYTES, request_size
from ..allocator.owners import Ownership, ownership_of
from ..allocator.room import HOLES, LARGE_ENOUGH, clearing, unusable
from ..allocator.stacks import CATEGORY_WORDS, Category
from ..language import N_
from ..model.evidence import Evidence
from ..model.failed_request import FailedRequest, InTheWay, Room, Unused
from ..model.snapshot import Snapshot
from .allocator import failed_request, latest_oom
from .deriver import device_member
from .focus import focus

_MOST_OWNERS = 5


def failed_requests(evidence: Evidence) -> tuple[FailedRequest, ...]:
    """One a device whose snapshot shows the state at a failure; where it is of another moment there is none."""
    found = []
    told = focus(evidence)
    for snapshot in told.snapshots:
        for device in snapshot.devices:
            ownership = ownership_of(snapshot, device)
            oom = latest_oom(snapshot, device)
            request = failed_request(told, ownership, oom)
            if request is not None and (snapshot.segments.device == device).any():
                free = oom.free_bytes if oom is not None else None
                found.append(_failed(snapshot, ownership, request, free))
    return tuple(found)


def _failed(
    snapshot: Snapshot, ownership: Ownership, request: tuple[int, int], free_bytes: int | None
) -> FailedRequest:
    device, (size, stream) = ownership.replay.device, request
    reasons = unusable(snapshot, device, size, stream)
    way = clearing(snapshot, device, size, stream)
    owner_of, kind_of = _blocks(snapshot, ownership)
    owners: dict[str, InTheWay] = {}
    for row in way.in_the_way if way is not None else ():
        before = owners.get(owner_of[row], InTheWay(owner_of[row], 0, 0))
        owners[before.owner] = InTheWay(
            before.owner, before.bytes + int(snapshot.blocks.size_bytes[row]), before.count + 1
        )
    return FailedRequest(
        where=device_member(device, snapshot.backend),
        requested_bytes=size,
        needed_bytes=request_size(size),
        pool=pool_name(request_size(size) <= SMALL_REQUEST_BYTES, False, stream),
        device_free_bytes=free_bytes,
        largest_hole_bytes=max((each.largest_bytes for each in reasons if each.reason in HOLES), default=0),
        unused=tuple(Unused(each.reason, each.bytes, each.count, each.largest_bytes) for each in reasons),
        room=Room(
            hole_bytes=way.hole_bytes,
            in_the_way_bytes=way.in_the_way_bytes,
            in_the_way_count=len(way.in_the_way),
            owners=tuple(sorted(owners.values(), key=lambda each: -each.bytes)[:_MOST_OWNERS]),
        )
        if way is not None and all(each.reason != LARGE_ENOUGH for each in reasons)
        else None,
        map=address_map(snapshot, device, size, stream, kind_of, way.in_the_way if way is not None else ()),
        source=str(snapshot.path),
    )


def _blocks(snapshot: Snapshot, ownership: Ownership) -> tuple[list[str], list[str]]:
    """For each block of the final state who allocated it, and what it is for, as far as its stack tells."""
    unknown = N_("no stack was recorded")
    readings = ownership.readings
    stacks = snapshot.blocks.stack.tolist()
    return (
        [readings[stack].owner if stack >= 0 else unknown for stack in stacks],
        [CATEGORY_WORDS[readings[stack].category if stack >= 0 else Category.UNKNOWN] for stack in stacks],
    )
