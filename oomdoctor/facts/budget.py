"""Budgets: where the memory of a device, of the host, or of a process under a limit was at the failure.

Every budget closes: the parts and the unattributed rest add up to the total exactly, and each part is the figure that
the evidence gives. A plan may be overdrawn: its unattributed rest is then negative. What is physically there cannot be,
so a part that does not fit beside the surer ones before it (figures of another moment) is left out, never cut to size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..model.diagnosis import Budget, BudgetPart
from ..model.evidence import Evidence
from ..model.facts import FactSet, Scope
from ..model.run import HostSample, RunRecord
from .focus import focus
from .registry import OWNED_CATEGORIES
from .until import points_until_failure, process_limit, samples_until_failure

_ROUNDING = 0.005
"""Figures printed with two decimals may together pass the total by this share of it; a part is then trimmed by less
than the rounding of its own figure."""

_SAME_MOMENT = 0.05
"""A process that has given back more than this share since it failed is not set beside what it held afterwards."""

_Wanted = tuple[str, int | None, str]
"""Name, bytes (None: unknown, left out), how it is known."""


def budgets(evidence: Evidence, facts: FactSet) -> tuple[Budget, ...]:
    """The devices (failed ones first), then the engine's own plan, the host, the cgroup and the process's limit."""
    members = sorted(facts.members(Scope.DEVICE), key=lambda m: not facts.value("oom.failed", m))
    found = [_device(member, facts) for member in members]
    found += [_reserved(member, facts) for member in members]
    found.append(_engine(facts))
    for run in focus(evidence).runs:
        found += [_host(run, facts), _cgroup(run), _process_limit(run, facts)]
    return tuple(budget for budget in found if budget is not None)


def close(where: str, total: int, wanted: Iterable[_Wanted], request: int | None = None) -> Budget:
    """A budget of what is physically there: parts that fit, surest first; what they leave is unattributed."""
    left, parts, slack = total, [], round(_ROUNDING * total)
    for name, size, how in wanted:
        if size is None or size <= 0 or size > left + slack or left == 0:
            continue
        parts.append(BudgetPart(name, min(size, left), how))
        left -= parts[-1].bytes
    return Budget(where, total, tuple(parts), left, request)


def plan(where: str, total: int, wanted: Iterable[_Wanted], request: int | None = None) -> Budget:
    """A budget of what is meant to be there: all parts as they are; a negative rest is what they overdraw it by."""
    parts = tuple(BudgetPart(name, size, how) for name, size, how in wanted if size is not None and size > 0)
    return Budget(where, total, parts, total - sum(part.bytes for part in parts), request)


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
            ("other processes", value("device.foreign_bytes"), value.how("device.foreign_bytes")),
            ("free", value("device.free_bytes"), value.how("device.free_bytes")),
        ]
        used = value("device.used_bytes")
        if used is not None:
            foreign = value("device.foreign_bytes")
            how = "measured" if foreign is None else "computed"
            wanted.append(("in use by processes on the device", used - (foreign or 0), how))
    return close(member, total, wanted, value("oom.requested_bytes"))


def _failed_parts(value: "_Values", reserve: int | None) -> list[_Wanted]:
    """What is surest first, for the rest must fit beside it."""
    private = value("oom.private_pool_bytes")
    allocated = value("oom.allocated_bytes")
    live = None if allocated is None else max(0, allocated - (private or 0))
    wanted: list[_Wanted] = [
        ("the driver's reserve", reserve, "computed"),
        ("free", value("oom.free_bytes"), value.how("oom.free_bytes")),
    ]
    categories = [(label, value(name), value.how_owned(name)) for name, label in OWNED_CATEGORIES]
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
        (
            "idle in blocks of the allocator",
            idle,
            value.how("oom.reserved_unallocated_bytes", "printed by the allocator"),
        ),
        ("this process outside the allocator", value("oom.outside_allocator_bytes"), "computed"),
    ]
    foreign = value.how("oom.foreign_bytes")
    if foreign == "computed" and not value.flag("oom.foreign_measured"):
        foreign = "computed: a lower bound"
    wanted.append(("other processes", value("oom.foreign_bytes"), foreign))
    return wanted


def _reserved(member: str, facts: FactSet) -> Budget | None:
    """What torch had reserved on a device whose snapshot holds no failure: live by category, and idle."""
    value = _Values(facts, member)
    reserved, allocated = value("allocator.reserved_bytes"), value("allocator.allocated_bytes")
    if value.flag("oom.failed") or reserved is None or reserved <= 0 or allocated is None:
        return None
    categories = [(label, value(name), value.how_owned(name)) for name, label in OWNED_CATEGORIES]
    pending = value("allocator.pending_free_bytes") or 0
    known = sum(size or 0 for _, size, _ in categories)
    wanted: list[_Wanted] = [*categories] if known <= allocated + pending else []
    live = allocated - sum(size or 0 for _, size, _ in wanted)
    name = "other live tensors" if wanted and known else "live tensors of this process"
    wanted += [
        (name, live, "computed" if known else "measured by the snapshot"),
        ("freed, waiting for another stream", pending, "measured by the snapshot"),
        ("idle in blocks of the allocator", reserved - allocated - pending, "computed"),
    ]
    return close(f"{member} reserved by torch", reserved, wanted)


def _engine(facts: FactSet) -> Budget | None:
    """The engine's plan: its share of the device, weights, outside torch, activation peak, KV."""
    value = _Values(facts, None)
    total = value("engine.budget_bytes")
    if total is None or total <= 0:
        return None
    printed = "printed by the program"
    return plan(
        "engine's share",
        total,
        [
            ("weights", value("engine.weights_bytes"), printed),
            ("outside torch", value("engine.non_torch_bytes"), printed),
            ("activation peak", value("engine.activation_peak_bytes"), printed),
            ("working buffers", value("engine.temporary_bytes"), printed),
            ("KV pool", value("engine.kv_available_bytes"), printed),
        ],
        value("engine.kv_needed_bytes"),
    )


def _host(run: RunRecord, facts: FactSet) -> Budget | None:
    sample = _last(samples_until_failure(run), "tree_rss_bytes")
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
    limit = run.limits.cgroup_limit_bytes
    sample = _last(samples_until_failure(run), "cgroup_used_bytes")
    if limit is None or sample is None or sample.cgroup_used_bytes is None:
        return None
    own, used = sample.tree_rss_bytes, sample.cgroup_used_bytes
    wanted: list[_Wanted] = [("used in the cgroup", used, "measured")]
    if own is not None and own <= used:
        wanted = [
            ("this command and its descendants", own, "measured"),
            ("others in the cgroup, page cache included", used - own, "computed"),
        ]
    return close("cgroup", limit, [*wanted, ("below the limit at the last sample", limit - used, "computed")])


def _process_limit(run: RunRecord, facts: FactSet) -> Budget | None:
    """The failing process under its own limit, at the failure; a sampled size is not set beside what was held later."""
    value = _Values(facts, None)
    limit, size, request = process_limit(run), value("host.failing_process_bytes"), value("host.failed_request_bytes")
    if limit is None:
        return None
    if size is None:
        sizes = [size for _, size in points_until_failure(run, "tree_virtual_bytes")]
        if not sizes:
            return None
        sampled: list[_Wanted] = [
            ("the largest process at the last sample", sizes[-1], "measured"),
            ("below the limit at the last sample", limit - sizes[-1], "computed"),
        ]
        return close("process limit", limit, sampled, request)
    held = value("host.largest_holder_bytes")
    wanted: list[_Wanted] = [("the process", size, "measured")]
    given_back = value("host.given_back_bytes") or 0
    if held is not None and held <= size - given_back and given_back <= _SAME_MOMENT * size:
        exact = facts.value("host.largest_holder_exact") is not False
        how = "measured by the probe" if exact else "estimated by the probe"
        wanted = [
            (str(facts.value("host.largest_holder") or "largest Python object"), held, how),
            ("the rest of the process", size - held, "computed"),
        ]
    return close("process limit", limit, [*wanted, ("below the limit", limit - size, "computed")], request)


def _last(samples: Sequence[HostSample], name: str) -> HostSample | None:
    return next((s for s in reversed(samples) if getattr(s, name)), None)


class _Values:
    """Integer facts of one member (or of the incident)."""

    def __init__(self, facts: FactSet, member: str | None) -> None:
        self._facts, self._member = facts, member

    def __call__(self, name: str) -> int | None:
        found = self._facts.value(name, self._member)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def how(self, name: str, otherwise: str = "measured") -> str:
        """`computed` where the fact was derived from others."""
        fact = self._facts.find(name, self._member)
        return "computed" if fact is not None and fact.source.derived_from else otherwise

    def how_owned(self, name: str) -> str:
        """Whether the probe counted objects, or the stacks of a snapshot suggest what its blocks are for."""
        fact = self._facts.find(name, self._member)
        counted = fact is not None and fact.source.record == "census"
        return "counted by the probe" if counted else "by the stacks of the snapshot"

    def flag(self, name: str) -> bool:
        """True where the flag is known and set."""
        return self._facts.value(name, self._member) is True
