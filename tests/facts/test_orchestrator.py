"""GIVEN what says who started a program WHEN facts are made THEN its system is named, and the next limit to try."""

from __future__ import annotations

import pytest
from given import event, facts_of, gib, mib, run

from oomdoctor.facts import derive_facts
from oomdoctor.model.events import EventKind
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.host import HostLimits


@pytest.mark.parametrize(
    ("path", "system"),
    [
        ("/kubepods.slice/kubepods-burstable.slice/cri-containerd-0a1b.scope", "kubernetes"),
        ("/slurm/uid_1000/job_77/step_batch", "slurm"),
        ("/system.slice/slurmstepd.scope/job_77/step_0", "slurm"),
        ("/docker/0a1b2c", "docker"),
        ("/system.slice/docker-0a1b2c.scope", "docker"),
        ("/system.slice/train.service", "systemd"),
        ("/job-17", None),
        ("/", None),
    ],
)
def test_the_control_group_is_named_by_who_made_it(path: str, system: str | None) -> None:
    killed = event(EventKind.KERNEL_OOM, constraint="memcg", cgroup=path)
    assert facts_of(killed).value("host.orchestrator") == system
    watched = run(limits=HostLimits(cgroup_path=path))
    assert derive_facts(Evidence(runs=(watched,))).value("host.orchestrator") == system


def test_a_variable_of_the_run_tells_it_and_the_system_s_own_word_comes_first() -> None:
    watched = run(limits=HostLimits(cgroup_path="/"), variables={"SLURM_JOB_ID": "77"})
    assert derive_facts(Evidence(runs=(watched,))).value("host.orchestrator") == "slurm"
    hit = event(EventKind.MEMORY_LIMIT_HIT, system="kubernetes")
    assert derive_facts(Evidence(runs=(watched,), events=(hit,))).value("host.orchestrator") == "kubernetes"


@pytest.mark.parametrize(
    ("limit", "asked"), [(gib(8), gib(12)), (gib(15), gib(23)), (mib(300), mib(512)), (gib(4), gib(6))]
)
def test_the_limit_to_try_is_half_as_much_again_in_round_steps(limit: int, asked: int) -> None:
    facts = facts_of(event(EventKind.MEMORY_LIMIT_HIT, system="slurm", limit_bytes=limit))
    assert facts.value("host.limit_to_try_bytes") == asked
    assert facts.value("host.limit_more_bytes") == asked - limit


def test_of_a_whole_machine_no_larger_limit_is_asked_for() -> None:
    facts = facts_of(event(EventKind.MEMORY_LIMIT_HIT, system="ray", limit_bytes=gib(64), of_node=True))
    assert facts.value("host.limit_to_try_bytes") is None
    assert facts_of(event(EventKind.MEMORY_LIMIT_HIT, system="slurm")).value("host.limit_to_try_bytes") is None
