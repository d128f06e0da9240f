"""host.orchestrator and host.limit_to_try_bytes: who bounded the program's memory, and what to ask of it next."""

from __future__ import annotations

import re

from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.source import Source
from ..model.units import GIB, MIB
from .deriver import computed

_STARTERS = {"slurm", "kubernetes", "docker", "systemd"}
_OF_PATH = (
    (re.compile(r"/kubepods|/kubelet"), "kubernetes"),
    (re.compile(r"/slurm(?:stepd)?[/_.]|/slurm$"), "slurm"),
    (re.compile(r"/docker[/-]"), "docker"),
    (re.compile(r"\.(?:service|scope)$"), "systemd"),
)
"""How each names the control groups that it makes; those of containers stand below one of systemd's."""
_OF_VARIABLE = (("SLURM_JOB_ID", "slurm"), ("KUBERNETES_SERVICE_HOST", "kubernetes"))


def derive(evidence: Evidence, facts: FactSet) -> None:
    """What a job system says of itself, else the name of the control group, else the variables of the run."""
    stated = facts.find("host.job_system", None)
    if stated is not None and stated.value in _STARTERS:
        facts.put("host.orchestrator", stated.value, computed("host.job_system"))
    for event in reversed(evidence.of_kind(EventKind.KERNEL_OOM)):
        facts.put("host.orchestrator", _named_by(event.word("cgroup")), event.source)
    for run in reversed(evidence.runs):
        limits = Source(path=run.path, record="limits")
        facts.put("host.orchestrator", None if run.limits is None else _named_by(run.limits.cgroup_path), limits)
        for variable, system in _OF_VARIABLE:
            found = system if run.variables.get(variable) else None
            facts.put("host.orchestrator", found, Source(path=run.path, record="variables"))
    _put_limit_to_try(facts)


def _named_by(path: str | None) -> str | None:
    return next((system for pattern, system in _OF_PATH if path and pattern.search(path)), None)


def _put_limit_to_try(facts: FactSet) -> None:
    """Half as much again as the limit that was hit, in whole GiB, or below 4 GiB in whole 256 MiB.

    What was needed is more than the limit, and by how much nobody saw: what asked for it was killed first.
    """
    for name in ("host.job_limit_bytes", "host.cgroup_limit_bytes"):
        limit = facts.value(name)
        if isinstance(limit, int) and limit > 0 and facts.value("host.limit_is_machine") is not True:
            step = GIB if limit >= 4 * GIB else 256 * MIB
            more = -(-limit * 3 // (2 * step)) * step
            facts.put("host.limit_to_try_bytes", more, computed(name))
            facts.put("host.limit_more_bytes", more - limit, computed(name))
