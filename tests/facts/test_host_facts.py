"""host.* and exit.*: samples, limits, counters, kills."""

from __future__ import annotations

import pytest
from given import event, facts_of, gib, mib, oom, rising, run, traceback

from oomdoctor.facts import derive_facts
from oomdoctor.facts.steadiness import steady_rise
from oomdoctor.model.events import EventKind
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.run import ExceptionRecord, HostLimits, HostSample, LargeObject, OomCounters, StackFrame
from oomdoctor.model.source import Source

LIST = LargeObject("list", "local 'kept' in main()", "leak.py", 9, "main", 2000, mib(1500), length=180)
BYTES = LargeObject("bytearray", "local 'batch' in main()", "leak.py", 8, "main", mib(8), mib(8))
FRAMES = (
    StackFrame("leak.py", 12, "main", "batch = load()"),
    StackFrame("leak.py", 4, "load", "return bytearray(8 << 20)"),
)
ERROR = ExceptionRecord(
    Source(path="incident", record="exception"), 1010.0, 7, "MemoryError", "", FRAMES, True, large_objects=(LIST, BYTES)
)


def test_a_list_that_grows_until_the_process_s_own_limit():
    samples = rising(mib(20), mib(75), 20, available_bytes=gib(20), total_bytes=gib(32))
    limits = HostLimits(memory_total_bytes=gib(32), address_space_limit_bytes=mib(1500))
    facts = derive_facts(Evidence(runs=(run(samples, limits=limits, exceptions=(ERROR,)),)))
    assert facts.value("host.growth_steady") is True
    assert facts.value("host.growth_bytes") == 18 * mib(75)
    assert facts.value("host.growth_bytes_per_second") == mib(150)
    assert facts.value("host.peak_virtual_bytes") == mib(20) + 19 * mib(75)
    assert facts.value("host.process_limit_reached") is True
    assert facts.value("host.largest_holder") == "list local 'kept' in main(), leak.py:9"
    assert facts.value("host.largest_holder_bytes") == mib(1500)
    assert facts.value("host.largest_holder_is_container") is True
    assert facts.value("host.failing_line") == "leak.py:4 in load: return bytearray(8 << 20)"
    assert str(facts["host.largest_holder"].source) == "incident (exception)"


def test_far_below_the_limit_it_was_not_the_limit():
    limits = HostLimits(address_space_limit_bytes=gib(64))
    facts = derive_facts(Evidence(runs=(run(rising(mib(20), mib(10), 8), limits=limits, exceptions=(ERROR,)),)))
    assert facts.value("host.process_limit_reached") is False


def test_without_a_limit_or_samples_nothing_is_said_of_it():
    facts = derive_facts(Evidence(runs=(run(exceptions=(ERROR,)),)))
    for name in ("process_limit_reached", "growth_steady", "growth_bytes", "available_bytes"):
        assert facts.value(f"host.{name}") is None


@pytest.mark.parametrize(
    ("sizes", "steady"),
    [
        ([10, 100, 200, 300, 400, 500, 600], True),
        ([10, 100, 200, 195, 300, 400, 500, 600], True),  # one small step back is noise
        ([10, 300, 300, 300, 300, 300, 300], False),  # level
        ([10, 100, 105, 110, 115, 120, 900], False),  # one jump
        ([10, 100, 300, 100, 320, 90, 330], False),  # up and down
        ([10, 10, 11, 12, 13, 14, 15], False),  # too little to matter
    ],
)
def test_steady_means_step_by_step(sizes: list[int], steady: bool):
    rise = steady_rise([(float(i), mib(size)) for i, size in enumerate(sizes)])
    assert rise is not None
    assert rise.steady is steady


def test_too_few_samples_say_nothing():
    assert steady_rise([(float(i), mib(i)) for i in range(5)]) is None


def test_counters_explain_a_kill():
    counters = OomCounters(
        cgroup_oom_kill_before=2, cgroup_oom_kill_after=3, system_oom_kill_before=5, system_oom_kill_after=5
    )
    facts = derive_facts(Evidence(runs=(run(exit_status=None, signal=9, counters=counters),)))
    assert facts.value("host.cgroup_oom_kills") == 1
    assert facts.value("host.system_oom_kills") == 0
    assert facts.value("exit.killed") is True
    assert facts.value("exit.kill_explained_by_memory") is True


def test_a_bare_kill_explains_nothing():
    facts = facts_of(event(EventKind.PROCESS_KILLED, exit_code=-9, reported_by="elastic"))
    assert facts.value("exit.killed") is True
    assert facts.value("exit.kill_explained_by_memory") is None


@pytest.mark.parametrize(("system", "hit"), [("kubernetes", True), ("elastic", None)])
def test_a_container_s_system_states_its_own_limit(system: str, hit: bool | None):
    facts = facts_of(event(EventKind.PROCESS_KILLED, signal=9, reported_by=system, oom_stated=True))
    assert facts.value("host.job_limit_hit") is hit


def test_ray_watches_the_machine():
    facts = facts_of(event(EventKind.MEMORY_LIMIT_HIT, system="ray", used_bytes=gib(59), total_bytes=gib(62)))
    assert facts.value("host.limit_is_machine") is True
    assert facts.value("host.total_bytes") == gib(62)


def test_equal_workers_are_within_a_tenth_of_the_largest():
    rows = ((1, gib(11.2), "worker"), (2, gib(11), "worker"), (3, mib(500), "main"))
    facts = facts_of(event(EventKind.HOST_STATE, top_processes=rows))
    assert facts.value("host.equal_workers") is True
    assert facts.value("host.workers") == 2


def test_pinned_memory_fails_with_the_device_s_words():
    error = event(
        EventKind.ACCELERATOR_ERROR, library="cuda", code="out of memory", thread="pin_memory", masks_oom=True
    )
    assert facts_of(error).value("host.pinned_failed") is True
    frame = traceback(("cache.py", 1, "allocate_cpu_cache", "torch.empty(n, pin_memory=True)"), error="RuntimeError")
    bare = event(EventKind.ACCELERATOR_ERROR, library="cuda", code="out of memory", masks_oom=True)
    assert facts_of(frame, bare).value("host.pinned_failed") is True
    assert facts_of(bare).value("host.pinned_failed") is None


def test_untouched_memory_grows_in_the_virtual_size_only():
    samples = tuple(HostSample(1000.0 + i, tree_virtual_bytes=mib(100) + i * mib(50)) for i in range(9))
    assert derive_facts(Evidence(runs=(run(samples),))).value("host.growth_steady") is True


def test_recovered_stands_only_when_no_failure_follows():
    went_on = event(EventKind.RECOVERED, how="retry")
    assert facts_of(oom(), went_on).value("exit.recovered") is True
    assert facts_of(oom(), went_on, oom()).value("exit.recovered") is None
