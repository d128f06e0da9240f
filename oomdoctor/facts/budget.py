"""Budgets: where the memory of a device, of the host, or of a process under a limit was at the failure.

Every budget closes: the parts and the unattributed rest add up to the total exactly. A part is never larger than what
is left of the total, so that figures taken at different moments cannot make it overflow.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..model.diagnosis import Budget, BudgetPart
from ..model.evidence import Evidence
from ..model.facts import FactSet, Scope
from ..model.run import HostSample, RunRecord

_CATEGORIES = (
    ("owner.weights_bytes", "weights and buffers"),
    ("owner.gradients_bytes", "gradients"),
    ("owner.optimizer_bytes", "optimizer state"),
    ("owner.kv_bytes", "keys and values"),
    ("owner.activations_bytes", "activations"),
)

_Wanted = tuple[str, int | None, str]
"""Name, bytes (None: unknown, left out), how it is known."""


def budgets(evidence: Evidence, facts: FactSet) -> tuple[Budget, ...]:
    """The devices (failed ones first), then the engine's own plan, the host, the cgroup and the process's limit."""
    members = sorted(facts.members(Scope.DEVICE), key=lambda m: not facts.value("oom.failed", m))
    found = [_device(member, facts) for member in members]
    found.append(_engine(facts))
    for run in evidence.runs:
        found += [_host(run, facts), _cgroup(run), _process_limit(run, facts)]
    return tuple(budget for budget in found if budget is not None)


def close(where: str, total: int, wanted: Iterable[_Wanted], request: int | None = None) -> Budget:
    """A budget whose parts never exceed the total; what they leave is unattributed."""
    left, parts = total, []
    for name, size, how in wanted:
        fitting = min(max(size or 0, 0), left)
        if fitting > 0:
            parts.append(BudgetPart(name, fitting, how))
            left -= fitting
    return Budget(where, total, tuple(parts), left, request)


def _device(member: str, facts: FactSet) -> Budget | None:
    value = _Values(facts, member)
    seen, driver = value("oom.total_bytes"), value("device.total_bytes")
    total = driver if driver is not None and (seen is None or driver >= seen) else seen
    if total is None or total <= 0:
        return None
    reserve = total - seen if seen is not None else None
    if value.flag("oom.failed"):
        wanted = _failed_parts(value, reserve)
    else:
        wanted = [
            ("other processes", value("device.foreign_bytes"), "measured"),
            ("free", value("device.free_bytes"), "measured"),
        ]
        used = value("device.used_bytes")
        if used is not None:
            rest = used - (value("device.foreign_bytes") or 0)
            wanted.append(("in use by processes on the device", rest, "measured"))
    return close(member, total, wanted, value("oom.requested_bytes"))


def _failed_parts(value: "_Values", reserve: int | None) -> list[_Wanted]:
    """What is surest first, for the rest must fit beside it."""
    private = value("oom.private_pool_bytes")
    allocated = value("oom.allocated_bytes")
    live = None if allocated is None else max(0, allocated - (private or 0))
    wanted: list[_Wanted] = [
        ("the driver's reserve", reserve, "computed"),
        ("free", value("oom.free_bytes"), "measured"),
    ]
    categories = [(label, value(name), "measured by the probe") for name, label in _CATEGORIES]
    known = sum(size or 0 for _, size, _ in categories)
    if live is not None and 0 < known <= live:
        wanted += [*categories, ("other live tensors", live - known, "computed")]
    else:
        wanted.append(("live tensors of this process", live, "printed by the allocator"))
    pending = value("oom.active_bytes")
    if pending is not None and allocated is not None:
        wanted.append(("freed, waiting for another stream", pending - allocated, "computed"))
    idle = value("oom.reserved_unallocated_bytes")
    if idle is not None and pending is not None and allocated is not None:
        idle -= max(0, pending - allocated)
    wanted += [
        ("idle in graph pools", private, "printed by the allocator"),
        ("idle in blocks of the allocator", idle, "printed by the allocator"),
        ("this process outside the allocator", value("oom.outside_allocator_bytes"), "computed"),
    ]
    measured = "measured" if value.flag("oom.foreign_measured") else "computed: a lower bound"
    wanted.append(("other processes", value("oom.foreign_bytes"), measured))
    return wanted


def _engine(facts: FactSet) -> Budget | None:
    """The engine's plan: its share of the device, weights, outside torch, activation peak, KV."""
    value = _Values(facts, None)
    total = value("engine.budget_bytes")
    if total is None or total <= 0:
        return None
    printed = "printed by the program"
    return close(
        "engine's share",
        total,
        [
            ("weights", value("engine.weights_bytes"), printed),
            ("outside torch", value("engine.non_torch_bytes"), printed),
            ("activation peak", value("engine.activation_peak_bytes"), printed),
            ("KV pool", value("engine.kv_available_bytes"), printed),
        ],
        value("engine.kv_needed_bytes"),
    )


def _host(run: RunRecord, facts: FactSet) -> Budget | None:
    sample = _fullest(run.samples)
    if sample is None or sample.total_bytes is None or sample.available_bytes is None:
        return None
    own = sample.tree_rss_bytes
    others = sample.total_bytes - sample.available_bytes - (own or 0)
    wanted: list[_Wanted] = [
        ("available", sample.available_bytes, "measured"),
        ("this command and its descendants", own, "measured"),
        ("other processes and the kernel", others, "computed"),
    ]
    return close("host", sample.total_bytes, wanted, _Values(facts, None)("host.failed_request_bytes"))


def _cgroup(run: RunRecord) -> Budget | None:
    limit, used = run.limits.cgroup_limit_bytes, [s for s in run.samples if s.cgroup_used_bytes is not None]
    if limit is None or not used:
        return None
    sample = max(used, key=lambda s: s.cgroup_used_bytes or 0)
    own, all_used = sample.tree_rss_bytes or 0, sample.cgroup_used_bytes or 0
    wanted: list[_Wanted] = [
        ("this command and its descendants", min(own, all_used), "measured"),
        ("others in the cgroup, page cache included", all_used - own, "computed"),
        ("below the limit", limit - all_used, "computed"),
    ]
    return close("cgroup", limit, wanted)


def _process_limit(run: RunRecord, facts: FactSet) -> Budget | None:
    limit = run.limits.address_space_limit_bytes or run.limits.data_limit_bytes
    sizes = [s.tree_virtual_bytes for s in run.samples if s.tree_virtual_bytes is not None]
    if limit is None or not sizes:
        return None
    value = _Values(facts, None)
    virtual, held = max(sizes), value("host.largest_holder_bytes")
    holder = facts.value("host.largest_holder")
    wanted: list[_Wanted] = [
        (str(holder or "largest Python object"), held, "measured by the probe"),
        ("other mappings of the process", virtual - (held or 0), "measured"),
        ("below the limit at the last sample", limit - max(virtual, held or 0), "computed"),
    ]
    return close("process limit", limit, wanted, value("host.failed_request_bytes"))


def _fullest(samples: Iterable[HostSample]) -> HostSample | None:
    known = [s for s in samples if s.tree_rss_bytes is not None]
    return max(known, key=lambda s: s.tree_rss_bytes or 0) if known else None


class _Values:
    """Integer facts of one member (or of the incident)."""

    def __init__(self, facts: FactSet, member: str | None) -> None:
        self._facts, self._member = facts, member

    def __call__(self, name: str) -> int | None:
        found = self._facts.value(name, self._member)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def flag(self, name: str) -> bool:
        """True where the flag is known and set."""
        return self._facts.value(name, self._member) is True
