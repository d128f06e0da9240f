"""device.*, devices.*, lookalike.*: tables side by side, and what only looks like a shortage."""

from __future__ import annotations

import pytest
from given import HERE, event, facts_of, gib, mib, run, traceback

from oomdoctor.facts import derive_facts
from oomdoctor.facts.devices import derive
from oomdoctor.facts.registry import REGISTRY
from oomdoctor.model.devices import DeviceProcess, DeviceReading
from oomdoctor.model.events import EventKind
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.facts import FactSet
from oomdoctor.model.run import DeviceOomRecord
from oomdoctor.model.source import Source


def reading(index: int, used: float, *processes: DeviceProcess, total: float = 24) -> DeviceReading:
    return DeviceReading(index, HERE, total_bytes=gib(total), used_bytes=gib(used), processes=processes or None)


def facts_from(*readings: DeviceReading):
    return derive_facts(Evidence(devices=readings))


def test_ranks_that_all_touch_the_first_device():
    first = [DeviceProcess(pid, gib(0.7) if pid > 1 else gib(5), "python", "C") for pid in (1, 2, 3, 4)]
    others = [reading(n, 5, DeviceProcess(n + 1, gib(5), "python", "C")) for n in (1, 2, 3)]
    facts = facts_from(reading(0, 7.1, *first), *others)
    assert facts.value("devices.processes_on_first") == 4
    assert facts.value("devices.processes_on_several") == 3
    assert facts.value("devices.visitors_bytes") == 3 * gib(0.7)


def test_spread_of_two_devices():
    facts = facts_from(reading(0, 23), reading(1, 1))
    assert facts.value("devices.spread_bytes") == gib(22)
    assert facts.value("devices.fullest_used_ratio") == 23 / 24
    assert facts.value("devices.processes_on_first") is None  # no table was shown


def test_one_device_has_no_spread():
    assert facts_from(reading(0, 23)).value("devices.fullest_used_ratio") is None


def test_entries_without_a_process_are_remains():
    facts = facts_from(reading(0, 6, DeviceProcess(31794, gib(5.2), "Unknown Error", "C")))
    assert facts.value("devices.remains_bytes") == gib(5.2)


def test_use_that_no_listed_process_holds():
    facts = facts_from(reading(0, 6, DeviceProcess(1, gib(2), "python", "C")))
    assert facts.value("device.unlisted_bytes", "cuda:0") == gib(4)
    hidden = facts_from(reading(0, 6, DeviceProcess(1, None, "python", "C")))
    assert hidden.value("device.unlisted_bytes", "cuda:0") is None


def test_foreign_only_where_the_command_s_own_processes_are_known():
    own, other = DeviceProcess(1, gib(2), "python", "C", True), DeviceProcess(2, gib(9), "Xorg", "C", False)
    facts = facts_from(reading(0, 12, own, other))
    assert facts.value("device.foreign_bytes", "cuda:0") == gib(9)
    assert facts.value("device.foreign_process", "cuda:0") == "Xorg (pid 2)"
    unknown = facts_from(reading(0, 12, DeviceProcess(1, gib(2), "python", "C")))
    assert unknown.value("device.foreign_bytes", "cuda:0") is None


def test_growth_between_two_looks():
    assert facts_from(reading(0, 2), reading(0, 8)).value("devices.grew_between_readings") is True
    assert facts_from(reading(0, 2), reading(0, 2.1)).value("devices.grew_between_readings") is False


def test_on_chip_memory_is_not_the_device_s():
    facts = facts_of(
        event(EventKind.KERNEL_RESOURCE, resource="shared memory", required_bytes=131072, limit_bytes=101376)
    )
    assert facts.value("lookalike.kernel_resource_required_bytes") == 131072
    assert facts.value("oom.count") is None


def test_a_flat_length_from_garbage_against_a_square_one_that_is_meant():
    flat = event(EventKind.HOST_ALLOCATION_FAILED, allocator="numpy", requested_bytes=gib(2800), shape=(124994103978,))
    square = event(
        EventKind.HOST_ALLOCATION_FAILED, allocator="numpy", requested_bytes=gib(2800), shape=(600000, 600000)
    )
    assert facts_of(flat).value("oom.impossible_size") is True
    assert facts_of(square).value("oom.impossible_size") is None


def test_a_wrapper_s_words_around_another_error():
    failed = event(EventKind.ENGINE_WARMUP_FAILED, what="prefill", tokens=256)
    other = traceback(("m.py", 1, "forward", "attention("), error="RuntimeError", message="unsupported architecture")
    memory = traceback(("m.py", 1, "forward", "attention("), error="RuntimeError", message="CUDA out of memory")
    assert facts_of(failed, other).value("lookalike.masked_exception") is True
    assert facts_of(failed, memory).value("lookalike.masked_exception") is None
    assert facts_of(failed).value("lookalike.masked_exception") is None


def test_a_look_after_the_failure_shows_only_what_was_given_back() -> None:
    looks = tuple(
        DeviceReading(0, HERE, total_bytes=gib(24), used_bytes=used, free_bytes=gib(24) - used, time_seconds=time)
        for time, used in ((1005.0, gib(23)), (1020.0, mib(3)))
    )
    failed = DeviceOomRecord(HERE, 1010.0, 7, 0, gib(2), gib(24), 0, None)
    during = run(device_readings=looks, device_ooms=(failed,))
    assert derive_facts(Evidence(runs=(during,))).value("device.used_bytes", "cuda:0") == gib(23)
    after = derive_facts(Evidence(runs=(run(device_readings=looks[1:], device_ooms=(failed,)),)))
    assert after.value("device.used_bytes", "cuda:0") is None
    assert after.value("device.total_bytes", "cuda:0") == gib(24)


@pytest.mark.parametrize(
    ("named", "pid"), [("process 4242", "4242"), ("python (pid 77)", "77"), ("unnamed", None), ("gpu 3", None)]
)
def test_the_number_of_the_largest_other_process_is_told_by_itself(named: str, pid: str | None) -> None:
    facts = FactSet(REGISTRY)
    facts.put("oom.foreign_process", named, Source("crash.log", 1), "cuda:0")
    derive(Evidence(), facts)
    assert facts.value("device.foreign_pid", "cuda:0") == pid
