"""GIVEN an input with several failures WHEN facts are derived THEN they are of one failure, the others are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from given import event, gib, mib, oom, rising, run

from oomdoctor.facts import derive_facts
from oomdoctor.facts.budget import budgets
from oomdoctor.facts.focus import focus
from oomdoctor.facts.holdings import holdings
from oomdoctor.facts.incidents import find_incidents
from oomdoctor.facts.series import all_series
from oomdoctor.model.devices import DeviceReading
from oomdoctor.model.events import EventKind, LogEvent
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.host import HostLimits, OomCounters
from oomdoctor.model.run import DeviceOomRecord, ExceptionRecord, LargeObject, ProcessRecord, RunRecord
from oomdoctor.model.source import Source


def at(path: str, found: LogEvent, seconds: float | None = None) -> LogEvent:
    return replace(found, source=Source(path=path, line=1), time_seconds=seconds)


HELD = LargeObject("list", "local 'kept' in main()", "leak.py", 9, "main", 1, mib(1300), 150, adds=True)


def leak(path: str, started: float) -> RunRecord:
    error = ExceptionRecord(
        Source(path=f"{path}/probe"), started + 10, 7, "MemoryError", "", (), True, large_objects=(HELD,)
    )
    return run(
        rising(mib(20), mib(75), 20),
        path=path,
        started_seconds=started,
        exceptions=(error,),
        limits=HostLimits(address_space_limit_bytes=mib(1500)),
        command=("python", f"{path}.py"),
    )


def full_card(path: str, started: float) -> RunRecord:
    record = DeviceOomRecord(Source(path=f"{path}/probe"), started + 20, 8, 0, gib(2), gib(24), mib(100), None)
    return run(path=path, started_seconds=started, device_ooms=(record,), command=("python", f"{path}.py"))


def both(first: RunRecord, second: RunRecord, *events: LogEvent) -> Evidence:
    return Evidence(events=events, runs=(first, second), command=f"python {first.path}.py")


def test_of_two_runs_the_later_gives_all_figures() -> None:
    for evidence in (
        both(leak("a", 1000.0), full_card("b", 2000.0)),
        both(full_card("b", 2000.0), leak("a", 1000.0)),
    ):
        facts = derive_facts(evidence)
        assert facts.value("oom.requested_bytes", "cuda:0") == gib(2)
        assert facts.value("host.memory_error") is None
        assert facts.value("command.line") == "python b.py"
        assert [budget.where for budget in budgets(evidence, facts)] == ["cuda:0"]
        assert all_series(evidence) == ()
        assert holdings(evidence, facts) == ()
        assert [incident.where for incident in find_incidents(evidence)] == ["cuda:0", "host"]


def test_a_later_run_that_ended_well_explains_nothing() -> None:
    fine = run(path="b", started_seconds=2000.0, exit_status=0)
    assert derive_facts(both(leak("a", 1000.0), fine)).value("host.memory_error") is True


def test_each_run_has_its_own_logs_and_loose_ones_are_nobodys() -> None:
    mine = at("b/stdout.log", oom(requested_bytes=gib(3)))
    its = at("stdout.log", event(EventKind.SHM_EXHAUSTED))
    loose = at("crash.log", oom(1, requested_bytes=gib(5)))
    evidence = both(leak("a", 1000.0), run(path="b", started_seconds=2000.0), mine, its, loose)
    assert focus(evidence).events == (mine,)
    facts = derive_facts(evidence)
    assert facts.value("oom.requested_bytes", "cuda:0") == gib(3)
    assert facts.value("oom.failed", "cuda:1") is None
    assert facts.value("host.shm_exhausted") is None
    assert [i.where for i in find_incidents(evidence)] == ["cuda:0", "host", "the program", "cuda:1"]


def test_a_single_run_takes_the_loose_files_with_it() -> None:
    loose = at("crash.log", oom(requested_bytes=gib(3)))
    table = DeviceReading(0, Source(path="smi.txt"), total_bytes=gib(24))
    evidence = Evidence(events=(loose,), runs=(leak("a", 1000.0),), devices=(table,))
    assert focus(evidence) == evidence


def test_where_no_run_failed_the_loose_log_is_what_failed() -> None:
    fine = [run(path=path, started_seconds=start, exit_status=0) for path, start in (("a", 1.0), ("b", 2.0))]
    loose = at("crash.log", oom(requested_bytes=gib(3)))
    assert derive_facts(both(*fine, loose)).value("oom.requested_bytes", "cuda:0") == gib(3)


def test_a_kill_on_the_host_and_a_full_device_in_two_files_are_two_failures() -> None:
    killed = at("dmesg.txt", event(EventKind.KERNEL_OOM, constraint="global", program="python", anon_rss_bytes=gib(60)))
    failed = at("crash.log", oom(requested_bytes=gib(3)))
    note = at("start.log", event(EventKind.VERSION, package="torch", version="2.6.0"))
    facts = derive_facts(Evidence(events=(note, killed, failed)))
    assert facts.value("host.kernel_killed") is None
    assert facts.value("oom.requested_bytes", "cuda:0") == gib(3)
    assert facts.value("torch.version") == "2.6.0"
    late = Evidence(events=(replace(killed, time_seconds=20.0), note, replace(failed, time_seconds=10.0)))
    assert derive_facts(late).value("oom.failed", "cuda:0") is None
    assert [incident.cause for incident in find_incidents(late)] == [
        "killed by the kernel for want of memory",
        "device out of memory",
    ]


def test_in_one_file_a_kill_after_the_device_failed_is_another_failure() -> None:
    killed = at("all.log", event(EventKind.KERNEL_OOM, constraint="global", program="python"))
    evidence = Evidence(events=(at("all.log", oom(requested_bytes=gib(3))), killed))
    assert focus(evidence).events == (killed,)
    assert focus(focus(evidence)) == focus(evidence)


KILL = event(EventKind.KERNEL_OOM, constraint="memcg", pid=24191, program="python", limit_bytes=mib(96))


@pytest.mark.parametrize(
    ("changes", "is_ours"),
    [
        ({"counters": OomCounters(cgroup_oom_kill_before=3, cgroup_oom_kill_after=3)}, False),
        ({"counters": OomCounters(cgroup_oom_kill_before=3, cgroup_oom_kill_after=4)}, True),
        ({"counters": OomCounters()}, True),
        ({"counters": OomCounters(cgroup_oom_kill_before=3, cgroup_oom_kill_after=3), "signal": 9}, True),
        (
            {
                "counters": OomCounters(cgroup_oom_kill_before=3, cgroup_oom_kill_after=3),
                "processes": (ProcessRecord(24191, 1, ("python",), 0.0),),
            },
            True,
        ),
    ],
)
def test_the_kernel_also_kills_other_peoples_processes(changes: dict[str, Any], is_ours: bool) -> None:
    failed = replace(full_card("a", 1000.0), exit_status=1, **changes)
    evidence = Evidence(events=(at("kernel.log", KILL),), runs=(failed,))
    assert derive_facts(evidence).value("host.kernel_killed") == ("memcg" if is_ours else None)
    told = [incident.cause for incident in find_incidents(evidence)]
    assert any("killed" in cause for cause in told), "it is told, whosever it was"


def in_order(*events: LogEvent) -> Evidence:
    """The events of one log, a line each."""
    placed = [replace(found, source=Source(path="serve.log", line=n)) for n, found in enumerate(events, 1)]
    return Evidence(events=tuple(placed))


START = event(EventKind.ENGINE_START, engine="vllm")
NOTHING_LEFT = event(EventKind.ENGINE_KV_NONE, engine="vllm")
FULL = oom(requested_bytes=gib(3), total_bytes=gib(24), allocated_bytes=gib(9), reserved_unallocated_bytes=gib(13))


def test_of_an_engine_that_was_started_again_the_last_failed_start_gives_all_figures() -> None:
    evidence = in_order(START, FULL, START, NOTHING_LEFT)
    facts = derive_facts(evidence)
    assert facts.value("engine.kv_pool_none") is True
    assert facts.value("oom.failed", "cuda:0") is None
    assert [incident.cause for incident in find_incidents(evidence)] == [
        "nothing left for the KV pool",
        "device out of memory",
    ]


def test_a_start_that_went_well_explains_nothing() -> None:
    facts = derive_facts(in_order(START, FULL, START))
    assert facts.value("oom.requested_bytes", "cuda:0") == gib(3)


@pytest.mark.parametrize(
    "first",
    [
        START,  # told by several lines
        event(EventKind.ENGINE_WARMUP_FAILED, engine="vllm", fatal=False),
        replace(FULL, fields={**FULL.fields, "recovered": True}),
    ],
)
def test_what_did_not_end_the_engine_stays_with_it(first: LogEvent) -> None:
    assert len(focus(in_order(first, START, NOTHING_LEFT)).events) == 3


def test_a_server_that_starts_runners_goes_on() -> None:
    runner = event(EventKind.ENGINE_START, engine="ollama")
    assert len(focus(in_order(runner, FULL, runner, NOTHING_LEFT)).events) == 4


KILLED = event(EventKind.KERNEL_OOM, constraint="global", pid=4242, program="mysqld", anon_rss_bytes=mib(90))


def test_what_the_kernel_killed_before_the_device_failed_is_another_incident() -> None:
    evidence = in_order(KILLED, FULL)
    facts = derive_facts(evidence)
    assert facts.value("host.kernel_killed") is None
    assert facts.value("oom.requested_bytes", "cuda:0") == gib(3)
    assert [incident.cause for incident in find_incidents(evidence)] == [
        "device out of memory",
        "killed by the kernel for want of memory",
    ]


def test_a_kill_after_the_device_failed_is_told_without_its_figures() -> None:
    facts = derive_facts(in_order(FULL, KILLED))
    assert facts.value("host.kernel_killed") == "global"
    assert facts.value("oom.requested_bytes", "cuda:0") is None


@pytest.mark.parametrize(
    ("lines", "given", "command"),
    [
        (("vllm serve M --max-model-len 4096",), None, "vllm serve M --max-model-len 4096"),
        (("vllm serve M -tp 2", "vllm serve M -tp 2"), None, "vllm serve M -tp 2"),
        (("vllm serve M -tp 2", "vllm serve M -tp 4"), None, None),
        (("vllm serve M -tp 2",), "python serve.py", "python serve.py"),
    ],
)
def test_a_launch_line_pasted_with_the_log_is_its_command(lines, given, command):
    typed = [event(EventKind.COMMAND_LINE, command=line) for line in lines]
    evidence = Evidence(events=(*typed, oom(1)), command=given)
    assert focus(evidence).command == command
    assert derive_facts(evidence).value("command.line") == command
