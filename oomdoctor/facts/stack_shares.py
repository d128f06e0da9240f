"""Who held a device's memory by a snapshot, in the parts of its budget: one count for the bar and for the rows."""

from __future__ import annotations

from collections.abc import Sequence

from ..allocator.owners import Share, ownership_of
from ..language import N_
from ..model.diagnosis import Holding
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.source import KnownBy
from .allocator import latest_oom, moment, speaking_snapshot
from .deriver import device_member
from .device_records import speaking_record
from .growth import cache_owners

_MOST_OWNERS = 20


def stack_shares(evidence: Evidence, facts: FactSet, member: str) -> tuple[Share, ...] | None:
    """At the failure, else at the end; None without a snapshot, or where it is of another moment."""
    if facts.value("owner.unrecorded_bytes", member) is None:
        return None
    devices = {d for s in evidence.snapshots for d in s.devices if device_member(d, s.backend) == member}
    if not devices:
        return None
    (device,) = devices
    snapshots = tuple(
        s for s in evidence.snapshots if device in s.devices and device_member(device, s.backend) == member
    )
    ownership = ownership_of(speaking_snapshot(snapshots, device, speaking_record(evidence, device)), device)
    event = moment(ownership, latest_oom(ownership.snapshot, device))
    return ownership.shares(event, cache_owners(ownership))


def share_holdings(member: str, shares: Sequence[Share]) -> tuple[Holding, ...]:
    """The 20 largest, and the others as a row for each part: together the sum of each part is that of its shares."""
    rows = [
        Holding(member, one.owner, one.bytes, one.count, one.how_known, one.part, (), one.known_by)
        for one in shares[:_MOST_OWNERS]
    ]
    rest: dict[tuple[str, KnownBy], list[Share]] = {}
    for one in shares[_MOST_OWNERS:]:
        rest.setdefault((one.part, one.known_by), []).append(one)
    for (part, known_by), small in rest.items():
        size, count = sum(one.bytes for one in small), sum(one.count for one in small)
        name = N_("{others} smaller owners").format(others=len(small)) if len(small) > 1 else small[0].owner
        how = N_("sum of the smaller rows") if len(small) > 1 else small[0].how_known
        rows.append(Holding(member, name, size, count, how, part, (), known_by))
    return tuple(rows)
