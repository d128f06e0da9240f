"""owner.holder_accrued and growth.*: whether what the largest holder keeps came bit by bit, by its blocks' ages, unless
the source says that each step makes it anew.

The census names the holder and some of its blocks, the history says when each was allocated: no stacks are needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..allocator.accrual import Accrual, accrual
from ..allocator.replay import replay
from ..language import N_
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.run import CensusGroup
from ..model.snapshot import Snapshot
from ..model.source import Source
from .census import largest_holder, speaking_censuses
from .device_records import snapshot_of
from .steadiness import rate


def derive(evidence: Evidence, facts: FactSet) -> None:
    """Facts of each device with a census that is joined to a snapshot with a history."""
    for member, device, record, census in speaking_censuses(evidence):
        snapshot = snapshot_of(evidence, record)
        holder = largest_holder([group for group in census.groups if group.device == device.device])
        if holder is not None and any(group.of_a_step for group in holder.groups):
            facts.put("owner.holder_accrued", False, census.source, member)
            facts.put("owner.holder_is_of_a_step", True, census.source, member)
            facts.put("growth.steady", False, census.source, member)
            continue
        if snapshot is None or holder is None or not _can_keep(holder.groups):
            continue
        found = _accrual(snapshot, device.device, [one for group in holder.groups for one in group.sample_addresses])
        if found is None:
            continue
        source = Source(path=snapshot.path, record=N_("ages of blocks of {owner}").format(owner=holder.first.owner))
        steady = found.steady and not found.within_a_step
        facts.put("owner.holder_accrued", steady, source, member)
        facts.put("owner.holder_is_of_a_step", found.within_a_step, source, member)
        if steady:
            gained = round(holder.bytes * found.share_in_recording)
            facts.put("growth.steady", True, source, member)
            facts.put("growth.bytes", gained, source, member)
            facts.put("growth.seconds", found.seconds or None, source, member)
            facts.put("growth.bytes_per_second", rate(gained, found.seconds), source, member)


def _can_keep(groups: Sequence[CensusGroup]) -> bool:
    """Whether what is held may be older than the step that failed: a single graph, or what a forward pass holds while
    it runs, came bit by bit as well, and goes with the step.
    """
    if any(group.category == "activations" for group in groups):
        return False
    is_collection = any(group.length is not None for group in groups)
    return is_collection or all(group.category == "other" for group in groups)


def _accrual(snapshot: Snapshot, device: int, addresses: Sequence[int]) -> Accrual | None:
    allocator = replay(snapshot, device)
    failures = [oom.event_index for oom in snapshot.ooms if oom.device == device]
    return accrual(snapshot, allocator, addresses, failures)
