"""host.* and exit.*: samples, limits, counters, kills."""

from __future__ import annotations

from dataclasses import replace

import pytest
from given import event, facts_of, gib, mib, oom, rising, run, traceback

from oomdoctor.facts import derive_facts
from oomdoctor.facts.budget import budgets
from oomdoctor.facts.series import all_series
from oomdoctor.facts.steadiness import steady_rise
from oomdoctor.model.events import EventKind
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.host import HostLimits, HostSample, OomCounters
from oomdoctor.model.run import ExceptionRecord, LargeObject, StackFrame
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
    assert facts.value("host.largest_holder") == "list local 'kept' in main(), in leak.py"
    assert facts.value("host.largest_holder_bytes") == mib(1500)
    assert facts.value("host.largest_holder_is_container") is True
    assert facts.value("host.failing_line") == "leak.py:4 in load: return bytearray(8 << 20)"
    assert str(facts["host.largest_holder"].source) == "incident (exception)"


def test_far_below_the_limit_one_large_request_may_have_met_it():
    limits = HostLimits(address_space_limit_bytes=gib(64))
    facts = derive_facts(Evidence(runs=(run(rising(mib(20), mib(10), 8), limits=limits, exceptions=(ERROR,)),)))
    assert facts.value("host.process_limit_reached") is None


def own(**sizes: int | None) -> ExceptionRecord:
    """The error as a process tells it that read its own size, too."""
    return replace(ERROR, **sizes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "late", [{"tree_rss_bytes": mib(40), "tree_virtual_bytes": mib(60)}, {}, {"tree_rss_bytes": 0}]
)
def test_what_is_sampled_after_the_failure_is_the_teardown(late: dict[str, int]):
    samples = (*rising(mib(20), mib(75), 20), HostSample(1010.1, processes=None, **late), HostSample(1010.4))
    evidence = Evidence(runs=(run(samples, exceptions=(ERROR,)),))
    assert derive_facts(evidence).value("host.growth_bytes") == 18 * mib(75)
    curve = all_series(evidence)[0]
    assert (curve.values_bytes[-1], len(curve.values_bytes)) == (mib(20) + 19 * mib(75), 20)


def test_the_look_between_the_kill_and_the_end_is_the_teardown_too():
    samples = (*rising(mib(20), mib(75), 20), HostSample(1009.9, tree_rss_bytes=mib(300), tree_virtual_bytes=mib(900)))
    killed = run(samples, exit_status=None, signal=9, ended_seconds=1010.0)
    assert derive_facts(Evidence(runs=(killed,))).value("host.growth_bytes") == 18 * mib(75)


def test_a_process_that_fails_before_the_first_sample_tells_its_own_size():
    error = own(vm_size_bytes=mib(1990), vm_peak_bytes=mib(1995), address_space_limit_bytes=gib(2))
    facts = derive_facts(Evidence(runs=(run(exceptions=(error,), limits=HostLimits(data_limit_bytes=mib(7))),)))
    assert facts.value("host.process_limit_bytes") == gib(2)
    assert facts.value("host.failing_process_bytes") == mib(1995)
    assert facts.value("host.peak_virtual_bytes") == mib(1995)
    assert facts.value("host.process_limit_reached") is True
    assert facts.value("host.bound_hit") == "the process's own limit of 2.00 GiB"


def test_what_an_unwound_stack_gave_back_had_been_there():
    """A list that a comprehension was building is gone before any hook is called; the kernel's peak remembers it."""
    error = own(vm_size_bytes=mib(14), vm_peak_bytes=mib(299), address_space_limit_bytes=mib(300))
    evidence = Evidence(runs=(run(exceptions=(error,)),))
    facts = derive_facts(evidence)
    assert facts.value("host.process_limit_reached") is True
    (budget,) = budgets(evidence, facts)
    assert [(part.name, part.bytes) for part in budget.parts] == [
        ("the process", mib(299)),
        ("below the limit", mib(1)),
    ]


def test_the_limit_that_leaves_less_room_counts():
    error = own(vm_size_bytes=gib(3), vm_data_bytes=mib(990), address_space_limit_bytes=gib(8), data_limit_bytes=gib(1))
    facts = derive_facts(Evidence(runs=(run(exceptions=(error,)),)))
    assert facts.value("host.process_limit_bytes") == gib(1)
    assert facts.value("host.failing_process_bytes") == mib(990)


def test_a_process_without_a_limit_does_not_inherit_another_ones():
    error = own(vm_size_bytes=gib(3))
    facts = derive_facts(Evidence(runs=(run(exceptions=(error,), limits=HostLimits(data_limit_bytes=gib(4))),)))
    assert facts.value("host.process_limit_bytes") is None
    assert facts.value("host.process_limit_reached") is None


@pytest.mark.parametrize(("used", "reached"), [(mib(290), True), (mib(120), None), (mib(20), None)])
def test_a_request_of_unknown_size_met_the_limit_only_near_it(used: int, reached: bool | None):
    error = own(vm_size_bytes=used, address_space_limit_bytes=mib(400))
    assert derive_facts(Evidence(runs=(run(exceptions=(error,)),))).value("host.process_limit_reached") is reached


def test_the_process_s_own_word_is_the_last_point_of_the_curve():
    error = own(vm_size_bytes=mib(1500), rss_bytes=mib(1490), address_space_limit_bytes=mib(1500))
    evidence = Evidence(runs=(run(rising(mib(20), mib(75), 5), exceptions=(error,)),))
    assert [series.values_bytes[-1] for series in all_series(evidence)] == [mib(1490), mib(1500)]


def test_of_several_processes_one_s_word_is_not_the_tree_s():
    error = own(vm_size_bytes=mib(100), rss_bytes=mib(90))
    evidence = Evidence(runs=(run(rising(mib(200), mib(75), 5, processes=3), exceptions=(error,)),))
    assert [series.values_bytes[-1] for series in all_series(evidence)] == [mib(500), mib(500)]


def test_a_line_that_only_fails_is_not_where_it_grows():
    grown = replace(LIST, adds=True, complete=False, extrapolated=True)
    facts = derive_facts(Evidence(runs=(run(exceptions=(own(large_objects=(grown,)),)),)))
    assert facts.value("host.largest_holder") == "list local 'kept' in main(), grown at leak.py:9"
    assert facts.value("host.largest_holder_grows") is True
    assert facts.value("host.largest_holder_size") == "about 1.46 GiB"
    walked = own(large_objects=(replace(LIST, complete=False),))
    facts = derive_facts(Evidence(runs=(run(exceptions=(walked,)),)))
    assert facts.value("host.largest_holder_grows") is False
    assert facts.value("host.largest_holder_size") == "at least 1.46 GiB"


@pytest.mark.parametrize(
    ("kind", "size", "filled"),
    [
        ("ndarray", mib(1400), True),
        ("bytearray", mib(1400), True),
        ("ndarray", mib(100), False),
        ("list", gib(1), False),
    ],
)
def test_one_object_that_is_filled_is_not_taken_for_what_steps_keep(kind: str, size: int, filled: bool):
    held = LargeObject(kind, "local 'table' in main()", "fill.py", 7, "main", size, size, adds=True)
    evidence = Evidence(runs=(run(rising(mib(20), mib(75), 20), exceptions=(own(large_objects=(held,)),)),))
    facts = derive_facts(evidence)
    word = "filled" if kind == "ndarray" else "grown"
    said = f"{kind} local 'table' in main(), {word} at fill.py:7"
    assert facts.value("host.largest_holder") == said
    assert facts.value("host.filled_object") == (said if filled else None)


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
        ([10, 80, 150, 220, 290, 290, 290, 290, 290, 291], False),  # loaded, then level until it failed
    ],
)
def test_steady_means_step_by_step(sizes: list[int], steady: bool):
    rise = steady_rise([(float(i), mib(size)) for i, size in enumerate(sizes)])
    assert rise is not None
    assert rise.steady is steady


def test_a_sampler_that_was_kept_waiting_makes_no_jump():
    times = (0.0, 0.1, 0.4, 0.9, 4.9, 5.4, 5.9)
    rise = steady_rise([(time, mib(20 + 100 * time)) for time in times])
    assert rise is not None
    assert rise.steady


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


@pytest.mark.parametrize(
    ("fields", "victim"),
    [
        ({"program": "python", "pid": 4410}, "python (pid 4410)"),
        ({"program": "python"}, "python"),
        ({"pid": 7}, "process 7"),
    ],
)
def test_the_kernel_s_victim_is_named_with_its_process(fields: dict[str, object], victim: str):
    kill = event(EventKind.KERNEL_OOM, constraint="memcg", limit_bytes=gib(30), usage_bytes=gib(30), **fields)
    facts = facts_of(replace(kill, fields={**kill.fields, "anon_rss_bytes": gib(29)}))
    assert facts.value("host.kernel_victim") == victim
    assert facts.value("host.kernel_victim_bytes") == gib(29)
    assert facts.value("host.cgroup_used_bytes") == gib(30)
    assert facts.value("host.cgroup_limit_bytes") == gib(30)


def test_a_bare_kill_explains_nothing():
    facts = facts_of(event(EventKind.PROCESS_KILLED, exit_code=-9, reported_by="elastic"))
    assert facts.value("exit.killed") is True
    assert facts.value("exit.kill_explained_by_memory") is None


@pytest.mark.parametrize(("system", "hit"), [("kubernetes", True), ("elastic", None)])
def test_a_container_s_system_states_its_own_limit(system: str, hit: bool | None):
    facts = facts_of(event(EventKind.PROCESS_KILLED, signal=9, reported_by=system, oom_stated=True))
    assert facts.value("host.job_limit_hit") is hit


def test_ray_watches_the_machine():
    facts = facts_of(
        event(EventKind.MEMORY_LIMIT_HIT, system="ray", of_node=True, used_bytes=gib(59), total_bytes=gib(62))
    )
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


def test_a_traceback_that_does_not_say_of_what_leaves_the_recovery_open():
    went_on = event(EventKind.RECOVERED, how="fallback")
    cut = traceback(("/srv/a.py", 3, "decode", "x = f(y)"), error=None)
    assert facts_of(oom(), went_on, cut).value("exit.recovered") is None
    assert facts_of(oom(), went_on, cut).value("exit.recovery_failed") is True
    child = traceback(error="Exception", message="process 3 terminated with exit code 1")
    assert facts_of(oom(), went_on, child).value("exit.recovered") is None
    later = traceback(error="KeyError", message="'name'")
    assert facts_of(oom(), went_on, later).value("exit.recovered") is True


def test_shared_memory_that_could_not_be_opened_may_be_a_limit_on_files():
    opened = event(EventKind.SHM_EXHAUSTED, reason_unstated=True)
    assert facts_of(opened).value("host.shm_reason_unstated") is True
    assert facts_of(opened, event(EventKind.SHM_EXHAUSTED, signal=7)).value("host.shm_reason_unstated") is None


def test_of_several_refusals_of_pinned_memory_the_last_counts():
    tries = [event(EventKind.PINNED_ALLOCATION_FAILED, requested_bytes=size) for size in (245638656, 221074944)]
    assert facts_of(*tries).value("host.pinned_request_bytes") == 221074944


@pytest.mark.parametrize(
    ("log", "lacking"),
    [
        # YARN: 7.2 GB of 4.2 GB
        (event(EventKind.MEMORY_LIMIT_HIT, system="yarn", used_bytes=gib(7), limit_bytes=gib(4)), gib(3)),
        # killed at the limit: how much more it wanted is not told
        (event(EventKind.MEMORY_LIMIT_HIT, system="docker", used_bytes=gib(4), limit_bytes=gib(4)), None),
        (event(EventKind.MEMORY_LIMIT_HIT, system="slurm", used_bytes=gib(5)), None),
        (event(EventKind.HOST_ALLOCATION_FAILED, allocator="numpy", requested_bytes=gib(9)), None),
    ],
)
def test_what_the_host_lacked_is_told_by_the_bound_that_was_met(log, lacking):
    assert derive_facts(Evidence(events=(log,))).value("host.shortfall_bytes") == lacking


def test_what_the_host_lacked_of_a_request_is_what_was_not_available():
    samples = rising(mib(20), mib(10), 8, available_bytes=gib(2), total_bytes=gib(8))
    refused = event(EventKind.HOST_ALLOCATION_FAILED, allocator="numpy", requested_bytes=gib(9))
    facts = derive_facts(Evidence(runs=(run(samples),), events=(refused,)))
    assert facts.value("host.shortfall_bytes") == gib(7)
