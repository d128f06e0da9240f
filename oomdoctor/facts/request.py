"""What the failing request belongs to: blocks of its size, the batch, a cache, the weights."""

from __future__ import annotations

from ..allocator.stacks import read_stack
from ..language import N_
from ..model.evidence import Evidence
from ..model.facts import FactSet, Scope
from ..model.snapshot import BLOCK_STATES, Snapshot
from ..model.source import Source
from ..model.units import MIB
from .allocator import latest_oom, speaking_snapshot
from .deriver import computed, device_member, failed_devices

_LIVE = BLOCK_STATES.index("active_allocated")
_LEFT_OVER_BYTES = MIB
"""The allocator does not split off less than this: a block may be this much larger than what it was asked for."""
_WORTHWHILE_BYTES = 20 * MIB
_NOT_OF_THE_BATCH = (
    "weights",
    "optimizer-state",
    "gradient",
    "checkpoint",
    "communication",
    "collect",
    "kv-append",
    "kv-pool",
)
"""Operations whose requests stay as they are, or may, when the batch is halved."""
_SLOTS_OF_ADAM = 2
"""Two averages of the size and type of each parameter (torch/optim/adam.py, `_init_group`)."""
_OF_THE_STEP = ("owner.activations_bytes", "oom.requested_bytes", "oom.alike_bytes", "oom.allocated_bytes")
_CACHES = ("owner.kv_bytes", "growth.kept_bytes")
_KEPT = ("owner.weights_bytes", "owner.gradients_bytes", "owner.optimizer_bytes", "owner.kv_bytes")


def derive(evidence: Evidence, facts: FactSet) -> None:
    """Scores, logits and activations of one shape come one for each layer or copy; small sizes say nothing."""
    for device in sorted({device for snapshot in evidence.snapshots for device in snapshot.devices}):
        snapshot = speaking_snapshot(evidence.snapshots, device)
        oom, member = latest_oom(snapshot, device), device_member(device, snapshot.backend)
        if oom is not None and oom.requested_bytes >= _WORTHWHILE_BYTES:
            source = Source(
                path=snapshot.path, record=N_("blocks of {requested} bytes").format(requested=oom.requested_bytes)
            )
            size = oom.requested_bytes + _live_of_size(snapshot, device, oom.requested_bytes)
            facts.put("oom.alike_bytes", size, source, member)
    for member in facts.members(Scope.DEVICE):
        requested = facts.value("oom.requested_bytes", member)
        facts.put("oom.alike_bytes", requested, computed("oom.requested_bytes"), member)


def derive_wanted(evidence: Evidence, facts: FactSet) -> None:
    """What each remedy works on, once owners are counted and the operation is known."""
    _put_state_making(evidence, facts)
    operation = facts.value("activity.operation")
    for member in facts.members(Scope.DEVICE):
        of_batch = operation not in _NOT_OF_THE_BATCH or (
            operation == "gradient" and _has_activations_like(member, facts)
        )
        _put_step(member, of_batch, facts)
        caches = [size for name in _CACHES if (size := facts.size(name, member)) is not None]
        facts.put("owner.cache_bytes", max(caches, default=None), computed(*_CACHES), member)
        weights, requested = facts.size("owner.weights_bytes", member), facts.size("oom.requested_bytes", member)
        if weights is not None and requested is not None:
            source = computed("owner.weights_bytes", "oom.requested_bytes", "activity.operation")
            wanted = weights + (requested if operation == "weights" else 0)
            facts.put("owner.weights_wanted_bytes", wanted, source, member)
    _put_weights_ratio(facts)


def _put_state_making(evidence: Evidence, facts: FactSet) -> None:
    """That an optimizer was making its state, where no traceback says what was done: by the stack of the request."""
    failed = failed_devices(facts)
    for snapshot in evidence.snapshots:
        for device in snapshot.devices:
            oom = latest_oom(snapshot, device)
            if oom is None or oom.stack < 0 or failed != (device_member(device, snapshot.backend),):
                continue
            stack = snapshot.stacks[oom.stack]
            if read_stack(stack).makes_state:
                told = N_("stack of the oom event {event}").format(event=oom.event_index)
                facts.put("activity.operation", "optimizer-state", Source(path=snapshot.path, record=told))
                gradients = facts.size("owner.gradients_bytes", failed[0])
                if gradients is not None and any("adam" in frame.file for frame in stack):
                    source = computed("owner.gradients_bytes")
                    facts.put("owner.optimizer_needed_bytes", _SLOTS_OF_ADAM * gradients, source, failed[0])


def _put_weights_ratio(facts: FactSet) -> None:
    """Of the failed devices, the one that the weights fill most; unknown while one of them is."""
    ratios = []
    for member in failed_devices(facts):
        wanted, total = facts.size("owner.weights_wanted_bytes", member), facts.size("oom.total_bytes", member)
        if wanted is None or not total:
            return
        ratios.append(wanted / total)
    source = computed("owner.weights_wanted_bytes", "oom.total_bytes")
    facts.put("owner.weights_wanted_ratio", max(ratios, default=None), source)


def _has_activations_like(member: str, facts: FactSet) -> bool:
    """Whether more of the gradient's size is live than a model and its optimizer keep: then it is an activation's."""
    alike, requested = facts.size("oom.alike_bytes", member), facts.size("oom.requested_bytes", member)
    kept = sum(facts.size(name, member) or 0 for name in _KEPT)
    return alike is not None and requested is not None and alike - requested > kept


def _put_step(member: str, of_batch: bool, facts: FactSet) -> None:
    """What half a batch needs half of. Temporaries of the failing line have no name yet: those of its size count."""
    held, requested, alike, live = (facts.size(name, member) for name in _OF_THE_STEP)
    if held is None or requested is None:
        return
    held += sum(facts.size(name, member) or 0 for name in ("owner.logits_bytes", "owner.batch_bytes"))
    if facts.value("owner.holder_is_of_a_step", member) is True:
        # What is saved for backward is among the activations already.
        saved = facts.size("owner.holder_saved_bytes", member) or 0
        held += max(0, (facts.size("owner.holder_bytes", member) or 0) - saved)
    if of_batch and alike is not None and live is not None:
        kept = sum(facts.size(name, member) or 0 for name in _KEPT)
        held = max(held, min(alike - requested, live - kept))
    source = computed(*_OF_THE_STEP, "activity.operation")
    facts.put("owner.step_bytes", held, source, member)
    facts.put("oom.of_step_bytes", requested if of_batch else 0, source, member)


def _live_of_size(snapshot: Snapshot, device: int, size: int) -> int:
    blocks = snapshot.blocks
    mine = snapshot.segments.device[blocks.segment] == device
    alike = (blocks.size_bytes >= size) & (blocks.size_bytes < size + _LEFT_OVER_BYTES) & (blocks.state == _LIVE)
    return int(blocks.size_bytes[mine & alike].sum())
