"""The budget of a cgroup in which the kernel killed, by what its report prints: the victim, and where the rest went."""

from __future__ import annotations

from ..language import N_
from ..model.diagnosis import Budget
from ..model.facts import FactSet
from .closing import Values, Wanted, close

_PRINTED = N_("printed by the kernel")


def killed_in_cgroup(facts: FactSet) -> Budget | None:
    """Anonymous memory, files (shared memory among them), the kernel's own: together what the cgroup is charged with.

    Where the kernel counted swap as well, or the report is cut, only the victim is told from the rest.
    """
    value = Values(facts, None)
    limit, used = value("host.cgroup_limit_bytes"), value("host.cgroup_used_bytes")
    if limit is None or used is None or facts.value("host.kernel_killed") != "memcg":
        return None
    used = min(used, limit)
    victim, anonymous = value("host.kernel_victim_bytes"), value("host.cgroup_anonymous_bytes")
    files, shared = value("host.cgroup_file_bytes"), value("host.cgroup_shared_bytes")
    name = facts.value("host.kernel_victim")
    killed = N_("the killed process") if name is None else N_("killed: {process}").format(process=name)
    wanted: list[Wanted] = [(killed, victim, _PRINTED)]
    if anonymous is None or facts.value("host.limit_counts_swap") is True:
        rest = N_("others in the cgroup, page cache included") if victim else N_("used in the cgroup")
        wanted.append((rest, used - (victim or 0), "computed"))
    else:
        wanted += [
            (N_("other processes of the cgroup"), anonymous - (victim or 0), "computed"),
            (N_("shared memory (/dev/shm, tmpfs)"), shared, _PRINTED),
            (N_("page cache"), None if files is None else files - (shared or 0), _PRINTED),
            (N_("the kernel's, for the cgroup"), value("host.cgroup_kernel_bytes"), _PRINTED),
        ]
    return close("cgroup", limit, [*wanted, (N_("below the limit"), limit - used, "computed")])
