"""GIVEN a run that was killed WHEN its incidents are told THEN the kernel's word and the exit are one of them."""

from __future__ import annotations

import pytest
from given import event, facts_of, mib, run

from oomdoctor.facts import derive_facts
from oomdoctor.facts.incidents import find_incidents
from oomdoctor.model.events import EventKind
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.run import HostLimits, OomCounters

KERNEL = event(EventKind.KERNEL_OOM, constraint="memcg", pid=7, program="python")
COUNTED = OomCounters(cgroup_oom_kill_before=2, cgroup_oom_kill_after=3)


@pytest.mark.parametrize("ending", [{"signal": 9}, {"exit_status": 137}])
def test_the_kernels_word_and_the_exit_are_one_incident(ending):
    evidence = Evidence(events=(KERNEL,), runs=(run(**ending),))
    (incident,) = find_incidents(evidence)
    assert (incident.where, incident.cause) == ("host", "killed by the kernel for want of memory")
    assert incident.source == str(KERNEL.source)


def test_a_counter_that_rose_says_as_much_as_the_kernel():
    (incident,) = find_incidents(Evidence(runs=(run(signal=9, counters=COUNTED),)))
    assert incident.cause == "killed by the kernel for want of memory"
    assert "counters" in incident.source


def test_a_kill_that_nothing_explains_stays_a_signal():
    still = OomCounters(cgroup_oom_kill_before=3, cgroup_oom_kill_after=3)
    (incident,) = find_incidents(Evidence(runs=(run(signal=9, counters=still),)))
    assert incident.cause == "ended by signal 9"


def test_a_kernel_kill_in_a_run_that_went_on_is_an_incident_of_its_own():
    (incident,) = find_incidents(Evidence(events=(KERNEL,), runs=(run(exit_status=0),)))
    assert incident.source == str(KERNEL.source)
    assert incident.where == "the program"


def test_a_limit_is_named_only_when_it_is_known_to_have_stopped_something():
    limits = HostLimits(cgroup_limit_bytes=mib(300))
    assert facts_of().value("host.bound_hit") is None
    spared = derive_facts(Evidence(runs=(run(signal=9, limits=limits),)))
    hit = derive_facts(Evidence(runs=(run(signal=9, limits=limits, counters=COUNTED),)))
    assert spared.value("host.bound_hit") is None
    assert hit.value("host.bound_hit") == "the cgroup's limit of 300.00 MiB"
