"""Each failed request beside the memory that was reserved when it failed, as the report draws it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ..allocator.address_map import address_map, pool_name
from ..allocator.churn import churn
from ..allocator.giving_back import giving_back
from ..allocator.owners import Ownership, ownership_of
from ..allocator.request import Request
from ..allocator.room import HOLES, LARGE_ENOUGH, clearing, pinned, unusable
from ..allocator.stacks import CATEGORY_WORDS, Category
from ..language import N_
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.failed_request import FailedRequest, InTheWay, Pinning, Room, Unused
from ..model.snapshot import BLOCK_STATES, Snapshot
from .allocator import failed_request, latest_oom, moment, state_then
from .deriver import device_member
from .focus import focus

_MOST_OWNERS = 5
_LIVE = BLOCK_STATES.index("active_allocated")


def failed_requests(evidence: Evidence, facts: FactSet) -> tuple[FailedRequest, ...]:
    """One a device whose snapshot shows the state at a failure, or lets it be rebuilt; else there is none."""
    found = []
    told = focus(evidence)
    for snapshot in told.snapshots:
        for device in snapshot.devices:
            ownership = ownership_of(snapshot, device)
            oom = latest_oom(snapshot, device)
            request = failed_request(told, ownership, oom)
            then = state_then(ownership, oom)
            state = then.snapshot
            if request is not None and state is not None and (state.segments.device == device).any():
                free = oom.free_bytes if oom is not None else None
                allowed = facts.size("oom.allowed_bytes", device_member(device, snapshot.backend))
                failed = _failed(state, ownership, request, free, allowed)
                came_and_went = churn(ownership, state, request, moment(ownership, oom))
                found.append(
                    replace(
                        failed,
                        churn=came_and_went[:_MOST_OWNERS],
                        undone=then.undone,
                        may_be_more_bytes=then.may_be_more_bytes,
                    )
                )
    return tuple(found)


def _failed(
    snapshot: Snapshot, ownership: Ownership, request: Request, free_bytes: int | None, allowed_bytes: int | None
) -> FailedRequest:
    segments, blocks = snapshot.segments, snapshot.blocks
    mine = segments.device == request.device
    reserved = int(segments.total_bytes[mine].sum())
    room_bytes = free_bytes
    if free_bytes is not None and allowed_bytes is not None:
        room_bytes = min(free_bytes, max(0, allowed_bytes - reserved))
    reasons = unusable(snapshot, request)
    owner_of, kind_of = _blocks(snapshot, ownership)
    rows, room = _room(snapshot, request, room_bytes)
    if any(each.reason == LARGE_ENOUGH for each in reasons):
        rows, room = (), None
    return FailedRequest(
        where=device_member(request.device, snapshot.backend),
        requested_bytes=request.requested_bytes,
        needed_bytes=request.block_bytes,
        pool=pool_name(request.is_small, bool(request.pool), request.stream),
        captured=request.is_capturing,
        wanted_bytes=request.driver_bytes,
        device_free_bytes=free_bytes,
        room_bytes=room_bytes,
        live_bytes=int(blocks.size_bytes[mine[blocks.segment] & (blocks.state == _LIVE)].sum()),
        reserved_bytes=reserved,
        largest_hole_bytes=max((each.largest_bytes for each in reasons if each.reason in HOLES), default=0),
        unused=tuple(Unused(each.reason, each.bytes, each.count, each.largest_bytes) for each in reasons),
        pinning=_pinning(snapshot, request.device, owner_of),
        room=None if room is None else replace(room, owners=_in_the_way(snapshot, rows, owner_of)),
        map=address_map(snapshot, request, kind_of, rows),
        source=str(snapshot.path),
    )


def _room(snapshot: Snapshot, request: Request, room_bytes: int | None) -> tuple[tuple[int, ...], Room | None]:
    """Whichever needs fewer live bytes to go: a hole in a segment, or segments for the driver. Rows of the blocks."""
    hole = clearing(snapshot, request)
    given = None if room_bytes is None else giving_back(snapshot, request, room_bytes)
    if hole is None and given is None:
        return (), None
    if given is None or (hole is not None and hole.in_the_way_bytes <= given.in_the_way_bytes):
        assert hole is not None
        return hole.in_the_way, Room(hole.hole_bytes, 0, hole.in_the_way_bytes, len(hole.in_the_way), ())
    return given.in_the_way, Room(0, given.given_back_bytes, given.in_the_way_bytes, len(given.in_the_way), ())


def _in_the_way(snapshot: Snapshot, rows: Iterable[int], owner_of: list[str]) -> tuple[InTheWay, ...]:
    owners: dict[str, InTheWay] = {}
    for row in rows:
        before = owners.get(owner_of[row], InTheWay(owner_of[row], 0, 0))
        size = int(snapshot.blocks.size_bytes[row])
        owners[before.owner] = replace(before, bytes=before.bytes + size, count=before.count + 1)
    return tuple(sorted(owners.values(), key=lambda each: -each.bytes)[:_MOST_OWNERS])


def _pinning(snapshot: Snapshot, device: int, owner_of: list[str]) -> tuple[Pinning, ...]:
    holes, live = pinned(snapshot, device)
    names: dict[str, int] = {}
    owner = np.asarray([names.setdefault(owner_of[row], len(names)) for row in live.tolist()], dtype=np.int64)
    sizes, found = snapshot.blocks.size_bytes, []
    for name, number in names.items():
        mine = owner == number
        rows, beside = np.unique(live[mine]), np.unique(holes[mine])
        found.append(Pinning(name, int(sizes[rows].sum()), len(rows), int(sizes[beside].sum())))
    return tuple(sorted(found, key=lambda each: (-each.hole_bytes, each.owner))[:_MOST_OWNERS])


def _blocks(snapshot: Snapshot, ownership: Ownership) -> tuple[list[str], list[str]]:
    """For each block of the final state who allocated it, and what it is for, as far as its stack tells."""
    unknown = N_("no stack was recorded")
    readings = ownership.readings
    stacks = snapshot.blocks.stack.tolist()
    return (
        [readings[stack].owner if stack >= 0 else unknown for stack in stacks],
        [CATEGORY_WORDS[readings[stack].category if stack >= 0 else Category.UNKNOWN] for stack in stacks],
    )
