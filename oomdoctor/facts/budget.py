"""Budgets: where the memory of a device, of the host, or of a process under a limit was at the failure.

Every budget closes: the parts and the unattributed rest add up to the total exactly, and each part is the figure that
the evidence gives. A plan may be overdrawn: its unattributed rest is then negative. What is physically there cannot be,
so a part that does not fit beside the surer ones before it (figures of another moment) is left out, never cut to size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..language import N_
from ..model.diagnosis import Budget, Incident
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.host import HostSample
from ..model.run import RunRecord
from .cgroup_budget import killed_in_cgroup
from .closing import Values, Wanted, close, plan
from .device_budget import device_budgets
from .focus import focus
from .until import points_until_failure, process_limit, samples_until_failure

ENGINE_SHARE = N_("engine's share")
ENGINE_SHARE_AT_LEAST = N_("engine's share, at least")
"""Places of an engine's plan: of what it may use of the device, or of the least that this can be."""
PLANS = (ENGINE_SHARE, ENGINE_SHARE_AT_LEAST)
_SAME_MOMENT = 0.05
"""A process that has given back more than this share since it failed is not set beside what it held afterwards."""


def budgets(evidence: Evidence, facts: FactSet) -> tuple[Budget, ...]:
    """The devices (failed ones first), then the engine's own plan, the host, the cgroup and the process's limit."""
    evidence = focus(evidence)
    found: list[Budget | None] = [*device_budgets(evidence, facts), _engine(facts)]
    killed = killed_in_cgroup(facts)
    for run in evidence.runs:
        # What the kernel printed is of the moment of the kill; a sample was some time before.
        found += [_host(run, facts), _cgroup(run) if killed is None else None, _process_limit(run, facts)]
    found.append(killed)
    if not evidence.runs and killed is None:
        found.append(_stated_limit(facts))
    return tuple(budget for budget in found if budget is not None)


def with_moments(found: Sequence[Budget], incidents: Sequence[Incident]) -> tuple[Budget, ...]:
    """The budgets of devices that failed, each labelled where the report is about another failure than theirs."""
    labelled = []
    for budget in found:
        own = next((incident for incident in incidents if incident.where == budget.where), None)
        is_other = own is not None and own is not incidents[0] and ":" not in incidents[0].where
        if own is not None and is_other and budget.request_bytes is not None:
            budget = replace(budget, moment=N_("at its own failure ({source})").format(source=own.source))
        labelled.append(budget)
    return tuple(labelled)


def _engine(facts: FactSet) -> Budget | None:
    """The engine's plan: its share of the device, weights, outside torch, activation peak, KV.

    What is left for the pool is the share less all else. So where the share is not printed, what is printed of the
    rest and what is left come to the least that it can be.
    """
    value = Values(facts, None)
    printed = N_("printed by the program")
    pool = value("engine.kv_available_bytes")
    before: list[Wanted] = [
        ("weights", value("engine.weights_bytes"), printed),
        ("outside torch", value("engine.non_torch_bytes"), printed),
        (N_("activation peak"), value("engine.activation_peak_bytes"), printed),
        (N_("working buffers"), value("engine.temporary_bytes"), printed),
    ]
    total, where = value("engine.budget_bytes"), ENGINE_SHARE
    if total is None and pool is not None and value("engine.weights_bytes"):
        total, where = pool + sum(size or 0 for _, size, _ in before), ENGINE_SHARE_AT_LEAST
    if total is None or total <= 0:
        return None
    return plan(where, total, [*before, (N_("KV pool"), pool, printed)], value("engine.kv_needed_bytes"))


def _host(run: RunRecord, facts: FactSet) -> Budget | None:
    sample = _last(samples_until_failure(run), "tree_rss_bytes")
    if sample is None or sample.total_bytes is None or sample.available_bytes is None:
        return None
    own = sample.tree_rss_bytes
    others = sample.total_bytes - sample.available_bytes - (own or 0)
    wanted: list[Wanted] = [
        ("available", sample.available_bytes, "measured"),
        (N_("this command and its descendants"), own, "measured"),
        (N_("other processes and the kernel"), others, "computed"),
    ]
    return close("host", sample.total_bytes, wanted, Values(facts, None)("host.failed_request_bytes"))


def _cgroup(run: RunRecord) -> Budget | None:
    limit = run.limits.cgroup_limit_bytes
    sample = _last(samples_until_failure(run), "cgroup_used_bytes")
    if limit is None or sample is None or sample.cgroup_used_bytes is None:
        return None
    own, used = sample.tree_rss_bytes, sample.cgroup_used_bytes
    wanted: list[Wanted] = [(N_("used in the cgroup"), used, "measured")]
    if own is not None and own <= used:
        wanted = [
            (N_("this command and its descendants"), own, "measured"),
            (N_("others in the cgroup, page cache included"), used - own, "computed"),
        ]
    return close("cgroup", limit, [*wanted, (N_("below the limit at the last sample"), limit - used, "computed")])


def _stated_limit(facts: FactSet) -> Budget | None:
    """The limit of a container or job in which something was killed, with what the kernel or its system says of it."""
    value = Values(facts, None)
    cgroup, job = value("host.cgroup_limit_bytes"), value("host.job_limit_bytes")
    in_cgroup = cgroup is not None and facts.value("host.kernel_killed") == "memcg"
    # The kernel's report of a kill with what was in use is a budget of its own (`killed_in_cgroup`).
    limit, used = (cgroup, None) if in_cgroup else (job, value("host.job_used_bytes"))
    if limit is None:
        return None
    victim, sampled = value("host.kernel_victim_bytes"), value("host.job_sampled_bytes")
    used = None if used is None else min(used, limit)
    printed = N_("printed by the program")
    wanted: list[Wanted] = [(N_("what the kernel killed"), victim, printed)]
    if used is None:
        wanted.append((N_("the most that accounting sampled"), sampled, printed))
    else:
        others = used - (victim or 0)
        wanted += [
            (
                N_("others in the cgroup, page cache included") if victim else N_("used in the cgroup"),
                others,
                "computed",
            ),
            (N_("below the limit"), limit - used, "computed"),
        ]
    return close("cgroup" if in_cgroup else N_("job or container"), limit, wanted)


def _process_limit(run: RunRecord, facts: FactSet) -> Budget | None:
    """The failing process under its own limit, at the failure; a sampled size is not set beside what was held later."""
    value = Values(facts, None)
    limit, size, request = process_limit(run), value("host.failing_process_bytes"), value("host.failed_request_bytes")
    if limit is None:
        return None
    if size is None:
        sizes = [size for _, size in points_until_failure(run, "tree_virtual_bytes")]
        if not sizes:
            return None
        sampled: list[Wanted] = [
            (N_("the largest process at the last sample"), sizes[-1], "measured"),
            (N_("below the limit at the last sample"), limit - sizes[-1], "computed"),
        ]
        return close(N_("process limit"), limit, sampled, request)
    held = value("host.largest_holder_bytes")
    wanted: list[Wanted] = [(N_("the process"), size, "measured")]
    given_back = value("host.given_back_bytes") or 0
    if held is not None and held <= size - given_back and given_back <= _SAME_MOMENT * size:
        exact = facts.value("host.largest_holder_exact") is not False
        how = N_("measured by the probe") if exact else N_("estimated by the probe")
        wanted = [
            (str(facts.value("host.largest_holder") or N_("largest Python object")), held, how),
            (N_("the rest of the process"), size - held, "computed"),
        ]
    return close(N_("process limit"), limit, [*wanted, (N_("below the limit"), limit - size, "computed")], request)


def _last(samples: Sequence[HostSample], name: str) -> HostSample | None:
    return next((s for s in reversed(samples) if getattr(s, name)), None)
