"""What the input does not say of a host that ran out, or of a card of which only processes are listed."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import _
from ..model.diagnosis import Missing
from ..model.evidence import Evidence
from ..model.facts import FactSet

_LIMITS_BY = {
    "slurm": "`sacct -j <job> --format=JobID,State,ReqMem,MaxRSS`",
    "kubernetes": "`kubectl describe pod <pod>`",
    "docker": "`docker inspect <container>`",
    "systemd": "`systemctl show <unit> -p MemoryMax -p MemoryPeak`",
}
_LIMIT_FROM_INSIDE = "`cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.peak`"


def host_gaps(facts: FactSet) -> Iterator[Missing]:
    """How large a limit was that stopped something, and who held the memory of what was killed."""
    of_group = facts.value("host.job_limit_hit") is True or facts.value("host.kernel_killed") == "memcg"
    sizes = (facts.value("host.job_limit_bytes"), facts.value("host.cgroup_limit_bytes"))
    if of_group and facts.value("host.limit_is_machine") is not True and sizes == (None, None):
        yield Missing(
            _("how large the limit was, and what was used"),
            _("what says that it was hit names neither"),
            _LIMITS_BY.get(str(facts.value("host.orchestrator")), _LIMIT_FROM_INSIDE),
        )
    killed = of_group or facts.value("host.kernel_killed") is not None or facts.value("host.oom_killer") is not None
    victim = facts.value("host.kernel_victim") or facts.value("host.oom_killer_victim")
    is_python = victim is None or "python" in str(victim).lower()
    if killed and is_python and facts.value("host.largest_holder") is None:
        yield Missing(
            _("who held the memory in what was killed"),
            _("a kill leaves a program no time to say it"),
            _(
                "`(ulimit -d <KiB> && oomdoctor run -- <your command>)`, a little below the limit, ends it with an "
                "error that names the variable"
            ),
        )


def card_gaps(evidence: Evidence) -> Iterator[Missing]:
    """The size of a card of which a table lists processes, and says nothing else."""
    listed = {look.index for look in evidence.devices if look.processes}
    told = {look.index for look in evidence.devices if look.total_bytes is not None or look.used_bytes is not None}
    if listed and not listed & told:
        yield Missing(
            _("the size of the devices, and what is free on them"),
            _("only the list of processes is in the input"),
            _("`nvidia-smi > nvidia-smi.txt`, with the table above that list"),
        )
