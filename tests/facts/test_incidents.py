"""GIVEN a run that was killed WHEN its incidents are told THEN the kernel's word and the exit are one of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from given import event, facts_of, gib, mib, oom, run

from oomdoctor.facts import derive_facts
from oomdoctor.facts.budget import budgets
from oomdoctor.facts.incidents import find_incidents
from oomdoctor.model.events import EventKind
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.host import HostLimits, OomCounters
from oomdoctor.model.run import DeviceOomRecord, ExceptionRecord
from oomdoctor.model.source import Source

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
    assert not incident.is_memory


@pytest.mark.parametrize("ending", [{"signal": 6}, {"signal": 9}, {"exit_status": 137}])
def test_an_end_by_a_signal_is_not_a_want_of_memory(ending):
    (incident,) = find_incidents(Evidence(runs=(run(**{"exit_status": None, **ending}),)))
    assert not incident.is_memory


@pytest.mark.parametrize(
    ("more", "is_memory"),
    [((), False), ((KERNEL,), True), ((event(EventKind.MEMORY_LIMIT_HIT, system="slurm"),), True)],
)
def test_a_bare_kill_in_a_log_needs_another_word(more, is_memory):
    killed = event(EventKind.PROCESS_KILLED, exit_code=-9, reported_by="elastic")
    (incident,) = find_incidents(Evidence(events=(killed, *more)))
    assert incident.is_memory is is_memory
    assert (incident.cause == "process killed") is not is_memory
    stated = event(EventKind.PROCESS_KILLED, signal=9, reported_by="kubernetes", oom_stated=True)
    assert find_incidents(Evidence(events=(stated,)))[0].is_memory


def test_a_worker_of_a_pool_that_vanished_may_have_been_killed():
    words = "A process in the process pool was terminated abruptly while the future was running or pending."
    log = event(EventKind.EXCEPTION, exception_type="concurrent.futures.process.BrokenProcessPool", message=words)
    (incident,) = find_incidents(Evidence(events=(log,)))
    assert (incident.cause, incident.is_memory) == ("a worker process of a pool vanished", False)
    assert facts_of(log).value("exit.worker_vanished") is True
    told = ExceptionRecord(Source(path="incident"), 1010.0, 7, "BrokenProcessPool", words, ())
    counted = Evidence(runs=(run(exceptions=(told,), counters=COUNTED),))
    assert find_incidents(counted)[0].is_memory
    assert derive_facts(counted).value("exit.kill_explained_by_memory") is True


def test_the_counters_can_say_that_nobody_killed_for_memory():
    still = OomCounters(3, 3, 3, 3, system_oom_kill_before=1, system_oom_kill_after=1)
    killed = {"exit_status": None, "signal": 9}
    assert derive_facts(Evidence(runs=(run(**killed, counters=still),))).value("exit.no_kill_counted") is True
    for counters in (OomCounters(), COUNTED):
        assert derive_facts(Evidence(runs=(run(**killed, counters=counters),))).value("exit.no_kill_counted") is None


@pytest.mark.parametrize(
    ("fields", "words", "is_memory"),
    [
        ({"library": "cuda", "code": "out of memory"}, "the driver reported out of memory", True),
        (
            {"library": "cublas", "code": "CUBLAS_STATUS_ALLOC_FAILED"},
            "a library (cublas) found no memory left on the device",
            True,
        ),
        (
            {"library": "cudnn", "code": "CUDNN_STATUS_NOT_INITIALIZED"},
            "a library (cudnn) found no memory left on the device",
            False,
        ),
        ({"library": "cuda", "code": "out of memory", "thread": "pin_memory"}, "page-locked host memory refused", True),
    ],
)
def test_a_library_s_want_of_memory_is_an_incident(fields, words, is_memory):
    (incident,) = find_incidents(Evidence(events=(event(EventKind.ACCELERATOR_ERROR, masks_oom=True, **fields),)))
    assert (incident.cause, incident.is_memory) == (words, is_memory)


def test_what_follows_the_allocator_s_own_failure_is_not_another():
    follows = event(EventKind.ACCELERATOR_ERROR, library="cublas", code="CUBLAS_STATUS_ALLOC_FAILED", masks_oom=True)
    assert len(find_incidents(Evidence(events=(oom(), follows)))) == 1


@pytest.mark.parametrize("backend", ["xpu", "npu", "mlu"])
def test_a_device_has_one_name_everywhere(backend):
    failed = event(EventKind.DEVICE_OOM, 1, backend=backend, total_bytes=gib(16), free_bytes=0, requested_bytes=gib(1))
    evidence = Evidence(events=(failed,))
    facts = derive_facts(evidence)
    assert find_incidents(evidence)[0].where == f"{backend}:1"
    assert [budget.where for budget in budgets(evidence, facts)] == [f"{backend}:1"]


def test_a_kernel_kill_in_a_run_that_went_on_is_an_incident_of_its_own():
    (incident,) = find_incidents(Evidence(events=(KERNEL,), runs=(run(exit_status=0),)))
    assert incident.source == str(KERNEL.source)
    assert incident.where == "python (pid 7)"


def test_a_limit_is_named_only_when_it_is_known_to_have_stopped_something():
    limits = HostLimits(cgroup_limit_bytes=mib(300))
    assert facts_of().value("host.bound_hit") is None
    spared = derive_facts(Evidence(runs=(run(signal=9, limits=limits),)))
    hit = derive_facts(Evidence(runs=(run(signal=9, limits=limits, counters=COUNTED),)))
    assert spared.value("host.bound_hit") is None
    assert hit.value("host.bound_hit") == "the cgroup's limit of 300.00 MiB"


def test_who_says_that_memory_was_why_is_named():
    stated = event(EventKind.PROCESS_KILLED, oom_stated=True, reported_by="kubernetes", exit_code=137)
    bare = event(EventKind.PROCESS_KILLED, reported_by="shell", exit_code=137)
    (told,) = find_incidents(Evidence(events=(stated,)))
    (plain,) = find_incidents(Evidence(events=(bare,)))
    assert (told.cause, told.is_memory) == ("killed for want of memory, says kubernetes", True)
    assert (plain.cause, plain.is_memory) == ("process killed", False)


def test_an_exit_that_another_line_explains_is_no_failure_of_its_own():
    bare = event(EventKind.PROCESS_KILLED, reported_by="container", exit_code=137)
    stated = event(EventKind.PROCESS_KILLED, oom_stated=True, reported_by="kubernetes")
    (told,) = find_incidents(Evidence(events=(stated, bare)))
    assert told.cause == "killed for want of memory, says kubernetes"
    other = event(EventKind.PROCESS_KILLED, reported_by="shell", pid=8)
    assert len(find_incidents(Evidence(events=(KERNEL, other)))) == 2
    same = event(EventKind.PROCESS_KILLED, reported_by="shell", pid=7)
    assert len(find_incidents(Evidence(events=(KERNEL, same)))) == 1


@pytest.mark.parametrize("seconds", [None, 1008.0])
def test_the_ranks_that_a_launcher_ends_after_a_failure_are_none_of_their_own(seconds):
    """GIVEN a failure that the probe recorded and its message WHEN the launcher ends the others THEN it is one."""
    printed = replace(oom(requested_bytes=mib(64)), time_seconds=1005.0)
    ended = event(EventKind.PROCESS_KILLED, signal=15, pid=8, reported_by="elastic", time_seconds=seconds)
    record = DeviceOomRecord(Source("probe", 1), 1005.0, 7, 0, mib(64), gib(12), mib(30), None)
    found = find_incidents(Evidence(events=(printed, ended), runs=(run(device_ooms=(record,)),)))
    assert [one.cause for one in found] == ["CUDA out of memory in process 7"]


def test_an_end_by_a_signal_before_the_failure_stays_one():
    record = DeviceOomRecord(Source("probe", 1), 1005.0, 7, 0, mib(64), gib(12), mib(30), None)
    ended = event(EventKind.PROCESS_KILLED, signal=15, pid=8, reported_by="elastic")
    found = find_incidents(Evidence(events=(ended, oom(requested_bytes=mib(64))), runs=(run(device_ooms=(record,)),)))
    assert len(found) == 2
