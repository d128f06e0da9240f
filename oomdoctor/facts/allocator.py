"""allocator.*, owner.* and, exactly, oom.*: what a memory snapshot says of each of its devices.

Of several snapshots that show a device, the one with its latest out-of-memory event speaks, else the one recorded
last; facts of two snapshots are never mixed under one device.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..allocator.churn import churn
from ..allocator.consistency import broken_segments
from ..allocator.fragmentation import Fragmentation, fragmentation
from ..allocator.owners import Ownership, ownership_of
from ..allocator.rebuilt import StateThen, state_after
from ..allocator.replay import BEFORE_RING, Replay
from ..allocator.request import Request, request_of, settings_of
from ..allocator.stacks import FORWARD, Category
from ..language import N_
from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.failed_request import Churned
from ..model.run import DeviceOomRecord
from ..model.snapshot import Snapshot, SnapshotOom
from ..model.source import Source
from ..model.units import MIB
from .deriver import device_member, member_for
from .device_records import SAME_MOMENT_SECONDS, speaking_record
from .growth import cache_owners, put_growth, put_spike_of_curve

_BACKENDS = frozenset({"cuda", "hip", "xpu", "npu"})
_SAME_MOMENT_BYTES = 16 * MIB
_SAME_MOMENT_SHARE = 0.01
_NEXT_TO_NOTHING = 0.01
_MANY_SIZES = 8
_OWNERS = (
    ("owner.weights_bytes", {Category.WEIGHTS}),
    ("owner.gradients_bytes", {Category.GRADIENT}),
    ("owner.optimizer_bytes", {Category.OPTIMIZER_STATE}),
)
_ACTIVATIONS = (FORWARD - {Category.LOGITS}) | {Category.SAVED, Category.TEMPORARY, Category.OF_BACKWARD}
"""What a backward pass gives back at once are gradients of activations, as large as these."""


def derive(evidence: Evidence, facts: FactSet) -> None:
    """Facts of every device that a snapshot shows."""
    for device in sorted({device for snapshot in evidence.snapshots for device in snapshot.devices}):
        record = speaking_record(evidence, device)
        snapshot = speaking_snapshot(evidence.snapshots, device, record)
        ownership = ownership_of(snapshot, device)
        oom = latest_oom(snapshot, device)
        member = device_member(device, snapshot.backend)
        if oom is not None and record is not None and not shows_failure(snapshot, oom, record):
            # Of an earlier failure: what was live then is not what was live when it failed for good.
            put_growth(ownership, oom, member, facts)
            continue
        if oom is not None:
            _put_oom(ownership, oom, member, facts)
        _put_state(ownership, oom, member, facts, failed_request(evidence, ownership, oom))
        if oom is not None and not ownership.has_all_stacks:
            # The steps that stacks tell are the last ones only; what came before them shows in the curve.
            put_spike_of_curve(ownership, oom, member, facts)
        put_growth(ownership, oom, member, facts)
        if oom is not None:
            put_spike_of_curve(ownership, oom, member, facts)
        _put_owners(ownership, oom, member, facts)


def latest_oom(snapshot: Snapshot, device: int) -> SnapshotOom | None:
    """The device's last out-of-memory event."""
    ooms = [oom for oom in snapshot.ooms if oom.device == device]
    return max(ooms, key=lambda oom: oom.event_index, default=None)


def in_order(failures: Iterable[Iterable[SnapshotOom]]) -> list[SnapshotOom]:
    """Failures of several snapshots, the latest last; whoever tells of one only tells of that.

    Times decide where all have one, else the order of the snapshots. What no time tells apart failed on several devices
    at once: the lowest of these counts as the latest.
    """
    found = [oom for group in failures for oom in sorted(group, key=lambda one: (-one.device, one.event_index))]
    if all(oom.time_us is not None for oom in found):
        found.sort(key=lambda oom: oom.time_us or 0)
    return found


def shows_failure(snapshot: Snapshot, oom: SnapshotOom, record: DeviceOomRecord) -> bool:
    """Whether the failure of a snapshot is the recorded one."""
    if record.snapshot_path is not None and snapshot.path.endswith(record.snapshot_path):
        return True
    late = None if oom.time_us is None else abs(oom.time_us / 1e6 - record.time_seconds)
    if record.requested_bytes is None:
        return late is not None and late <= SAME_MOMENT_SECONDS
    wanted, recorded = (
        Request(oom.device, size, settings=settings_of(snapshot, oom.device)).segment_bytes
        for size in (oom.requested_bytes, record.requested_bytes)
    )
    return (late is None or late <= SAME_MOMENT_SECONDS) and wanted in (record.requested_bytes, recorded)


def speaking_snapshot(snapshots: tuple[Snapshot, ...], device: int, record: DeviceOomRecord | None = None) -> Snapshot:
    """The snapshot whose word on `device` counts. At least one of `snapshots` must show it.

    That of the recorded failure, else the one with the latest failure, else the latest.
    """

    def rank(position: int) -> tuple[bool, bool, int, int, int]:
        snapshot = snapshots[position]
        oom = latest_oom(snapshot, device)
        times = [int(trace.time_us.max(initial=-1)) for trace in snapshot.events if trace.device == device]
        oom_time = oom.time_us if oom is not None and oom.time_us is not None else -1
        path = record.snapshot_path if record is not None else None
        own = path is not None and snapshot.path.endswith(path)
        return own, oom is not None, oom_time, max(times, default=-1), position

    return snapshots[max((i for i, s in enumerate(snapshots) if device in s.devices), key=rank)]


def moment(ownership: Ownership, oom: SnapshotOom | None) -> int:
    """The event whose aftermath the facts describe: the failure, else the end of the recording."""
    return oom.event_index if oom is not None else len(ownership.replay.events) - 1


def _source(ownership: Ownership, record: str) -> Source:
    return Source(path=ownership.snapshot.path, record=record)


def _put_oom(ownership: Ownership, oom: SnapshotOom, member: str, facts: FactSet) -> None:
    device, event = ownership.replay, oom.event_index
    source = _source(ownership, N_("oom event {event}").format(event=event))
    facts.put("oom.failed", True, source, member)
    facts.put("oom.device_index", oom.device, source, member)
    facts.put("oom.requested_bytes", oom.requested_bytes, source, member)
    facts.put("oom.requested_exact", True, source, member)
    facts.put("oom.free_bytes", oom.free_bytes, source, member)
    if not broken_segments(ownership.snapshot, device.device):
        facts.put("oom.active_bytes", device.live_at(event), source, member)
        facts.put("oom.allocated_bytes", device.live_at(event) - device.pending_at(event), source, member)
        facts.put("oom.reserved_bytes", device.reserved_at(event), source, member)
        facts.put("oom.taken_meanwhile_bytes", _taken_meanwhile(ownership, oom), source, member)
    backend = ownership.snapshot.backend
    facts.put("oom.backend", backend if backend in _BACKENDS else None, source)


def _taken_meanwhile(ownership: Ownership, oom: SnapshotOom) -> int | None:
    """What the allocator held, or could have had, earlier in the recording, and could not have at the failure.

    None where nothing is missing, where the recording contradicts itself, or does not tell what was free.
    """
    device, event = ownership.replay, oom.event_index
    if oom.free_bytes is None or device.disagreement.total:
        return None
    room = [device.reserved_before_bytes, int(device.reserved_bytes[: event + 1].max())]
    room += [
        device.reserved_at(one.event_index) + one.free_bytes
        for one in ownership.snapshot.ooms
        if one.device == oom.device and one.event_index < event and one.free_bytes is not None
    ]
    taken = max(room) - device.reserved_at(event) - oom.free_bytes
    return taken if taken > 0 else None


def failed_request(evidence: Evidence, ownership: Ownership, oom: SnapshotOom | None) -> Request | None:
    """The failed request, where the state in which it failed is known: see `state_then`.

    A snapshot without an oom event of its own (no history) takes the request from a message that agrees with
    it on what was allocated: then both show the same moment.
    """
    allocator = ownership.replay
    if broken_segments(ownership.snapshot, allocator.device):
        return None
    if oom is not None:
        then = state_then(ownership, oom).snapshot
        return None if then is None else request_of(then, oom)
    member = device_member(allocator.device, ownership.snapshot.backend)
    held = allocator.live_at(moment(ownership, None)) - allocator.pending_at_end_bytes
    for event in reversed(evidence.of_kind(EventKind.DEVICE_OOM)):
        requested, allocated = event.size("requested_bytes"), event.size("allocated_bytes")
        if requested is None or allocated is None or member_for(evidence, event.device) != member:
            continue
        if abs(allocated - held) <= max(_SAME_MOMENT_BYTES, _SAME_MOMENT_SHARE * held):
            settings = settings_of(ownership.snapshot, allocator.device)
            return Request(allocator.device, requested, settings=settings)
    return None


def state_then(ownership: Ownership, oom: SnapshotOom | None) -> StateThen:
    """The state in which a request failed: the final one, or that which is rebuilt from it. Without one: the final."""
    if oom is None:
        return StateThen(ownership.snapshot)
    return state_after(ownership.snapshot, ownership.replay.device, oom.event_index)


def _put_state(
    ownership: Ownership, oom: SnapshotOom | None, member: str, facts: FactSet, request: Request | None
) -> None:
    allocator, snapshot = ownership.replay, ownership.snapshot
    source = _source(ownership, N_("final state of device {device}").format(device=allocator.device))
    mine = snapshot.segments.device == allocator.device
    broken = broken_segments(snapshot, allocator.device)
    facts.put("allocator.broken_segments", broken or None, source, member)
    facts.put("allocator.segments", int(mine.sum()), source, member)
    setting = snapshot.settings.get("expandable_segments")
    if mine.any():
        facts.put("allocator.expandable_segments", bool(snapshot.segments.is_expandable[mine].any()), source, member)
    elif isinstance(setting, bool):
        facts.put("allocator.expandable_segments", setting, source, member)
    if request is not None:
        then = state_then(ownership, oom)
        assert then.snapshot is not None
        if then.undone and oom is not None:
            told = N_("state at the oom event {event}, rebuilt from the final state")
            source = _source(ownership, told.format(event=oom.event_index))
        found = fragmentation(then.snapshot, request)
        facts.put("allocator.largest_free_block_bytes", found.largest_free_block_bytes, source, member)
        facts.put("allocator.usable_idle_bytes", found.usable_idle_bytes, source, member)
        facts.put("oom.private_pool_bytes", found.private_idle_bytes, source, member)
        _put_idle(found, source, member, facts)
        _put_churn(churn(ownership, then.snapshot, request, moment(ownership, oom)), source, member, facts)
    elif oom is not None:
        facts.put("allocator.not_rebuilt", state_then(ownership, oom).why_not or None, source, member)
    elif not broken:
        _put_idle(fragmentation(snapshot, Request(allocator.device, 0)), source, member, facts)
    if oom is None and not broken:
        pending = allocator.pending_at_end_bytes
        facts.put("allocator.allocated_bytes", allocator.live_at(moment(ownership, None)) - pending, source, member)
        facts.put("allocator.reserved_bytes", int(snapshot.segments.total_bytes[mine].sum()), source, member)
    source = _source(
        ownership,
        N_("{events} events of device {device}").format(events=len(allocator.events), device=allocator.device),
    )
    # A program's first request may be the one that failed: its event is all the history there is.
    if oom is not None or allocator.has_history:
        facts.put("allocator.failing_request_in_snapshot", oom is not None, source, member)
    if not allocator.has_history:
        return
    facts.put("allocator.history_complete", allocator.starts_empty, source, member)
    if mine.any():
        facts.put("allocator.contradictions", allocator.disagreement.total, source, member)
    if oom is not None and allocator.starts_empty:
        facts.put("allocator.nothing_given_back", _nothing_given_back(allocator, oom.event_index), source, member)
    facts.put("allocator.peak_allocated_bytes", allocator.peak_bytes, source, member)
    facts.put("allocator.peak_may_be_more_bytes", allocator.peak_may_be_more_bytes or None, source, member)
    facts.put("allocator.peak_reserved_bytes", allocator.peak_reserved_bytes, source, member)


def _put_churn(found: tuple[Churned, ...], source: Source, member: str, facts: FactSet) -> None:
    """Who left most of the holes, where that were blocks of many sizes that came and went."""
    most = next((each for each in found if each.sizes >= _MANY_SIZES), None)
    if most is None or 2 * most.hole_bytes < sum(each.hole_bytes for each in found):
        return
    facts.put("allocator.churn_owner", most.owner, source, member)
    facts.put("allocator.churn_hole_bytes", most.hole_bytes, source, member)
    facts.put("allocator.churn_sizes", most.sizes, source, member)
    facts.put("allocator.churn_freed", most.freed, source, member)


def _nothing_given_back(allocator: Replay, event: int) -> bool:
    """Whether all that was allocated up to an event is still held after it. The smallest temporaries do not count."""
    lifetimes = allocator.lifetimes
    freed = int(lifetimes.size_bytes[lifetimes.end <= event].sum())
    return freed <= _NEXT_TO_NOTHING * allocator.live_at(event)


def _put_idle(found: Fragmentation, source: Source, member: str, facts: FactSet) -> None:
    """What does not depend on the request."""
    facts.put("allocator.releasable_bytes", found.releasable_bytes, source, member)
    facts.put("allocator.pinned_idle_bytes", found.pinned_idle_bytes, source, member)
    facts.put("allocator.pending_free_bytes", found.pending_free_bytes, source, member)
    facts.put("allocator.private_idle_bytes", found.private_idle_bytes, source, member)
    if found.private_idle_bytes:
        facts.put("allocator.program_pool_idle_bytes", found.program_pool_idle_bytes, source, member)


def _put_owners(ownership: Ownership, oom: SnapshotOom | None, member: str, facts: FactSet) -> None:
    """Owners at the failure. A category that no stack names is unknown, not empty."""
    event = moment(ownership, oom)
    when = N_("stacks of the blocks live at the end of the recording")
    if oom is not None:
        when = N_("stacks of the blocks live at the oom event {event}").format(event=event)
    source = _source(ownership, when if event != BEFORE_RING else "blocks")
    owners = ownership.owners(event)
    facts.put("owner.unrecorded_bytes", ownership.by_category(event).get(Category.UNKNOWN, 0), source, member)
    unnamed = sum(owner.bytes for owner in owners if owner.category is Category.UNKNOWN)
    named = [owner for owner in owners if owner.category is not Category.UNKNOWN]
    if named and named[0].bytes > unnamed:
        facts.put("owner.top", named[0].name, source, member)
        facts.put("owner.top_bytes", named[0].bytes, source, member)
    facts.put("owner.constructed_bytes", ownership.constructed_bytes(event) or None, source, member)
    # Concatenated keys and values look like activations in a stack; how they grew gives them away.
    held = ownership.by_category(event, cache_owners(ownership))
    for name, categories in (
        *_OWNERS,
        ("owner.kv_bytes", {Category.KV_APPEND}),
        ("owner.activations_bytes", _ACTIVATIONS),
        ("owner.logits_bytes", {Category.LOGITS}),
    ):
        facts.put(name, sum(held.get(category, 0) for category in categories) or None, source, member)
