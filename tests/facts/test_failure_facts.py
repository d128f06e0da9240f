"""oom.*: the arithmetic of one message."""

from __future__ import annotations

import pytest
from given import HERE, event, facts_of, gib, mib, oom, run
from hypothesis import given
from hypothesis import strategies as st

from oomdoctor.facts import derive_facts, failure
from oomdoctor.facts.registry import REGISTRY
from oomdoctor.model.devices import DeviceReading
from oomdoctor.model.events import EventKind
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.facts import FactSet
from oomdoctor.model.run import AllocatorState, DeviceOomRecord, ProcessRecord
from oomdoctor.model.source import Source


def test_reserved_form_gives_idle_and_what_nobody_explains():
    facts = facts_of(
        oom(
            requested_bytes=mib(352),
            total_bytes=gib(8),
            free_bytes=mib(156),
            allocated_bytes=gib(1.75),
            reserved_bytes=gib(2),
            generation="reserved",
        )
    )
    assert facts.value("oom.reserved_unallocated_bytes", "cuda:0") == gib(0.25)
    assert facts.value("oom.unexplained_bytes", "cuda:0") == gib(8) - mib(156) - gib(2)
    assert facts.value("oom.foreign_bytes", "cuda:0") == gib(8) - mib(156) - gib(3)  # less 1 GiB for its own context
    assert facts.value("oom.foreign_measured", "cuda:0") is False
    assert facts.value("oom.shortfall_bytes", "cuda:0") == mib(196)
    assert facts["oom.foreign_bytes@cuda:0"].source.derived_from == ("oom.unexplained_bytes",)


def test_sentences_form_measures_the_process_itself():
    facts = facts_of(
        oom(
            requested_bytes=gib(8),
            total_bytes=gib(24),
            free_bytes=gib(7),
            process_used_bytes=gib(16.5),
            allocated_bytes=gib(16),
            reserved_unallocated_bytes=mib(8),
            generation="sentences",
        )
    )
    assert facts.value("oom.reserved_bytes", "cuda:0") == gib(16) + mib(8)
    assert facts.value("oom.outside_allocator_bytes", "cuda:0") == gib(0.5) - mib(8)
    assert facts.value("oom.foreign_bytes", "cuda:0") == gib(0.5)
    assert facts.value("oom.foreign_measured", "cuda:0") is True


@pytest.mark.parametrize(
    ("listed", "own"),
    [
        (gib(23.57), gib(23.57)),  # the process itself, seen from inside a container
        (gib(23.2), gib(23.2)),
        (gib(0.5), None),  # smaller than the segments: somebody else
    ],
)
def test_a_listed_process_may_be_the_process_itself(listed: int, own: int | None):
    facts = facts_of(
        oom(
            requested_bytes=mib(158),
            total_bytes=gib(23.69),
            free_bytes=mib(115),
            other_processes=((21422, listed),),
            allocated_bytes=gib(22.14),
            reserved_unallocated_bytes=mib(910),
        )
    )
    assert facts.value("oom.process_used_bytes", "cuda:0") == own
    if own is None:
        assert facts.value("oom.foreign_bytes", "cuda:0") == listed
        assert facts.value("oom.foreign_process", "cuda:0") == "process 21422"


def test_the_process_itself_in_a_message_cut_after_what_is_live():
    facts = facts_of(
        oom(
            requested_bytes=gib(2),
            total_bytes=gib(24),
            free_bytes=gib(0.5),
            other_processes=((811, gib(23.5)),),
            allocated_bytes=gib(19),
        )
    )
    assert facts.value("oom.process_used_bytes", "cuda:0") == gib(23.5)
    assert facts.value("oom.foreign_bytes", "cuda:0") is None


def test_two_large_processes_that_fit_side_by_side_are_two():
    facts = facts_of(
        oom(
            requested_bytes=gib(1),
            total_bytes=gib(24),
            free_bytes=mib(500),
            other_processes=((13237, gib(18.9)),),
            process_used_bytes=gib(4.2),
            allocated_bytes=gib(2.8),
            reserved_unallocated_bytes=gib(1),
        )
    )
    assert facts.value("oom.foreign_bytes", "cuda:0") == gib(18.9)
    assert facts.value("oom.process_used_bytes", "cuda:0") == gib(4.2)


@pytest.mark.parametrize(
    "artefact", [{"process_used_bytes": 0}, {"capacity_unknown": True, "process_used_bytes": 1 << 64}]
)
def test_what_nvml_could_not_tell_is_unknown(artefact: dict[str, int | bool]):
    facts = facts_of(
        oom(
            requested_bytes=mib(896),
            total_bytes=gib(22),
            free_bytes=mib(759),
            allocated_bytes=gib(20.5),
            reserved_unallocated_bytes=mib(102),
            **artefact,
        )
    )
    assert facts.value("oom.process_used_bytes", "cuda:0") is None
    assert facts.value("oom.foreign_measured", "cuda:0") is False


def test_a_cap_bounds_the_room_instead_of_the_driver():
    facts = facts_of(
        oom(
            requested_bytes=gib(2),
            total_bytes=gib(24),
            free_bytes=gib(12),
            allowed_bytes=gib(12),
            allocated_bytes=gib(11),
            reserved_bytes=gib(11),
        )
    )
    assert facts.value("oom.shortfall_bytes", "cuda:0") == gib(1)
    assert facts.value("oom.free_suffices", "cuda:0") is False
    assert facts.value("oom.capped_by") == "fraction"
    assert facts.value("oom.allowed_is_round", "cuda:0") is True


@pytest.mark.parametrize(("free", "suffices"), [(8.26, False), (8.27, False), (8.40, True)])
def test_free_memory_that_is_the_request_by_its_two_decimals(free: float, suffices: bool):
    facts = facts_of(oom(requested_bytes=gib(8.26), total_bytes=gib(10.92), free_bytes=gib(free)))
    assert facts.value("oom.free_suffices", "cuda:0") is suffices


def test_free_memory_that_would_have_sufficed():
    facts = facts_of(
        oom(
            requested_bytes=gib(4),
            total_bytes=gib(15.1),
            free_bytes=gib(15.1),
            allocated_bytes=1024,
            reserved_unallocated_bytes=mib(2),
        )
    )
    assert facts.value("oom.free_suffices", "cuda:0") is True
    assert facts.value("oom.shortfall_bytes", "cuda:0") == 0


def test_a_message_without_figures_leaves_them_unknown():
    facts = facts_of(event(EventKind.DEVICE_OOM, backend="hip", generation="bare"))
    assert facts.value("oom.failed", "cuda:?") is True
    assert facts.value("oom.count") == 1
    for name in ("requested", "total", "free", "allocated", "reserved", "foreign", "shortfall", "unexplained"):
        assert facts.value(f"oom.{name}_bytes", "cuda:?") is None


def test_an_unnamed_device_is_the_only_one_the_evidence_shows():
    facts = facts_of(oom(device=3, requested_bytes=gib(1)), oom(device=None, rank=1, requested_bytes=gib(1)))
    assert facts.members(facts.specs["oom.failed"].scope) == ("cuda:3",)


def test_each_failed_device_has_its_facts():
    facts = facts_of(*(oom(device=n, rank=n, requested_bytes=gib(n + 1)) for n in range(4)))
    assert [facts.value("oom.requested_bytes", f"cuda:{n}") for n in range(4)] == [gib(n + 1) for n in range(4)]
    assert facts.value("oom.device_count") == 4
    assert facts.value("ranks.failed") == 4


def test_the_latest_of_two_failures_is_the_incident():
    facts = facts_of(oom(requested_bytes=gib(4), total_bytes=gib(24)), oom(requested_bytes=gib(1), total_bytes=gib(24)))
    assert facts.value("oom.requested_bytes", "cuda:0") == gib(1)
    assert facts.value("oom.count") == 1, "the earlier one is another failure"


def test_beyond_any_accelerator_is_impossible():
    assert facts_of(oom(requested_bytes=1 << 60)).value("oom.impossible_size") is True
    assert facts_of(oom(requested_bytes=gib(200))).value("oom.impossible_size") is None


def test_the_probe_is_exact_where_the_message_is_rounded():
    record = DeviceOomRecord(
        Source(path="incident", record="device-oom 1"),
        1.0,
        10,
        0,
        25_088_000_000,
        gib(24),
        gib(21),
        AllocatorState(1.0, 0, allocated_bytes=gib(2), reserved_bytes=gib(2.5), active_bytes=gib(2.25)),
    )
    facts = derive_facts(
        Evidence(events=(oom(requested_bytes=gib(23.37), total_bytes=gib(24)),), runs=(run(device_ooms=(record,)),))
    )
    assert facts.value("oom.requested_bytes", "cuda:0") == 25_088_000_000
    assert facts.value("allocator.pending_free_bytes", "cuda:0") == gib(0.25)


def test_a_driver_error_is_not_torch_s():
    facts = facts_of(
        event(EventKind.ACCELERATOR_ERROR, library="cublas", code="CUBLAS_STATUS_ALLOC_FAILED", masks_oom=True)
    )
    assert facts.value("oom.stated_by_driver_only") is True
    assert facts.value("oom.library") == "cublas"
    assert facts.value("oom.count") is None


def test_processes_of_one_size_are_counted_where_three_have_it():
    def listed(*sizes: float) -> FactSet:
        others = tuple((100 + n, gib(size)) for n, size in enumerate(sizes))
        figures = {"total_bytes": gib(32), "free_bytes": mib(40), "reserved_bytes": gib(20)}
        return facts_of(oom(process_used_bytes=gib(21), other_processes=others, **figures))

    assert listed(1.5, 1.5, 1.5, 4).value("oom.equal_processes", "cuda:0") == 3
    assert listed(1.5, 1.5, 1.5, 4).value("oom.equal_processes_bytes", "cuda:0") == gib(4.5)
    assert listed(1.5, 3, 4).value("oom.equal_processes", "cuda:0") is None


def test_ranks_that_have_only_begun_on_anothers_card():
    processes = ((1, gib(6.5)), (2, gib(1.2)), (3, gib(1.1)), (4, gib(1.25)), (5, gib(1.15)))
    fields = {"requested_bytes": mib(64), "total_bytes": gib(24), "free_bytes": mib(40), "other_processes": processes}
    facts = facts_of(oom(0, 5, **fields))
    assert facts.value("oom.sibling_bytes", "cuda:0") == sum(size for _, size in processes)
    assert facts.value("oom.foreign_bytes", "cuda:0") == 0
    assert facts_of(oom(0, None, **fields)).value("oom.sibling_bytes", "cuda:0") is None


def test_a_buffer_over_the_platform_s_limit():
    facts = facts_of(event(EventKind.ENGINE_BUFFER_FAILED, requested_bytes=gib(8), over_buffer_limit=True))
    assert facts.value("oom.capped_by") == "buffer-limit"


def test_a_framework_feeling_for_its_first_block():
    shrinking = [event(EventKind.DEVICE_OOM_TRY, requested_bytes=gib(size)) for size in (18, 16, 14)]
    assert facts_of(*shrinking).value("oom.start_up_tries") == 3
    folded = [event(EventKind.DEVICE_OOM_TRY, requested_bytes=gib(size), repeats=n) for size, n in ((18, 1), (9, 7))]
    assert facts_of(*folded).value("oom.start_up_tries") == 7
    warned = [event(EventKind.DEVICE_OOM_TRY, requested_bytes=gib(size), free_bytes=gib(1)) for size in (18, 16)]
    assert facts_of(*warned).value("oom.start_up_tries") is None


@given(
    total=st.integers(1, 1 << 40),
    free=st.integers(0, 1 << 40),
    allocated=st.integers(0, 1 << 40),
    idle=st.integers(0, 1 << 40),
    own=st.none() | st.integers(0, 1 << 40),
    requested=st.integers(1, 1 << 45),
)
def test_no_size_is_ever_negative(total: int, free: int, allocated: int, idle: int, own: int | None, requested: int):
    facts = facts_of(
        oom(
            requested_bytes=requested,
            total_bytes=total,
            free_bytes=free,
            allocated_bytes=allocated,
            reserved_unallocated_bytes=idle,
            process_used_bytes=own,
        )
    )
    assert all(fact.value >= 0 for name, fact in facts.items() if "_bytes" in name and isinstance(fact.value, int))


def test_memory_that_the_program_printed_again_and_again():
    prints = [event(EventKind.DEVICE_STATE, 0, allocated_bytes=gib(size)) for size in (1, 3, 5, 7, 9, 11, 13)]
    facts = facts_of(*prints, oom(requested_bytes=gib(2), total_bytes=gib(16)))
    assert facts.value("growth.steady", "cuda:0") is True
    assert facts.value("growth.bytes", "cuda:0") == gib(10)
    level = [event(EventKind.DEVICE_STATE, 0, allocated_bytes=gib(5)) for _ in range(7)]
    assert facts_of(*level).value("growth.steady", "cuda:0") is False


def test_growth_beside_the_allocator_is_not_torch_s():
    source = Source(path="incident")
    states = tuple(AllocatorState(float(i), 0, allocated_bytes=gib(4), reserved_bytes=gib(5)) for i in range(10))
    readings = tuple(
        DeviceReading(0, source, total_bytes=gib(24), used_bytes=gib(6 + i), time_seconds=i + 0.5) for i in range(10)
    )
    facts = derive_facts(Evidence(runs=(run(allocator_states=states, device_readings=readings),)))
    assert facts.value("growth.outside_torch_steady", "cuda:0") is True
    assert facts.value("growth.outside_torch_bytes", "cuda:0") == gib(8)
    assert (
        derive_facts(Evidence(runs=(run(device_readings=readings),))).value("growth.outside_torch_steady", "cuda:0")
        is None
    )


def test_under_a_fraction_the_observers_total_is_the_share():
    record = DeviceOomRecord(Source("incident"), 1010.0, 7, 0, gib(2), gib(6), gib(17), None)
    facts = derive_facts(Evidence(runs=(run(device_ooms=(record,)),)))
    assert facts.value("oom.allowed_bytes", "cuda:0") == gib(6)
    assert facts.value("oom.total_bytes", "cuda:0") is None


def test_processes_of_the_same_command_are_no_strangers():
    message = oom(
        total_bytes=gib(24), free_bytes=gib(1), allocated_bytes=gib(11), reserved_unallocated_bytes=0,
        requested_bytes=gib(2), process_used_bytes=gib(11.5), other_processes=((8, gib(10)), (9, gib(1))),
    )  # fmt: skip
    own = tuple(ProcessRecord(pid, 1, ("python",), 0.0) for pid in (7, 8))
    facts = derive_facts(Evidence(events=(message,), runs=(run(processes=own),)))
    assert facts.value("oom.sibling_bytes", "cuda:0") == gib(10)
    assert facts.value("oom.foreign_bytes", "cuda:0") == gib(1)
    alone = derive_facts(Evidence(events=(message,)))
    assert alone.value("oom.sibling_bytes", "cuda:0") is None
    assert alone.value("oom.foreign_bytes", "cuda:0") == gib(11)


@pytest.mark.parametrize(("requested", "free", "shortfall"), [(8, 14, 6), (8, 20, 0), (1, 1, 1), (11, 10, 2)])
def test_the_allocator_asks_for_segments(requested: int, free: int, shortfall: int):
    facts = FactSet(REGISTRY)
    for name, size in (("requested", mib(requested)), ("free", mib(free)), ("reserved", gib(4)), ("total", gib(6))):
        facts.put(f"oom.{name}_bytes", size, HERE, "cuda:0")
    facts.put("oom.failed", True, HERE, "cuda:0")
    facts.put("oom.requested_exact", True, HERE, "cuda:0")
    failure.derive(Evidence(), facts)
    assert facts.value("oom.shortfall_bytes", "cuda:0") == mib(shortfall)
    assert facts.value("oom.free_suffices", "cuda:0") is (shortfall == 0)


@pytest.mark.parametrize(("version", "backend"), [("2.9.1+rocm6.4", "hip"), ("2.9.1+cu128", "cuda"), ("2.9.1", "cuda")])
def test_a_rocm_build_of_torch_is_no_cuda(version: str, backend: str) -> None:
    record = DeviceOomRecord(Source("incident"), 1010.0, 7, 0, gib(2), gib(24), gib(1), None)
    facts = derive_facts(Evidence(runs=(run(device_ooms=(record,), versions={"torch": version}),)))
    assert facts.value("oom.backend") == backend
