"""GIVEN what a run recorded WHEN its peaks are asked for THEN each says how it is known, and unknown is not zero."""

from __future__ import annotations

from dataclasses import replace

from oomdoctor.model.devices import DeviceProcess, DeviceReading
from oomdoctor.model.host import HostLimits, HostSample
from oomdoctor.model.run import AllocatorState, ProcessRecord, RunRecord, VisibleDevice
from oomdoctor.model.source import Source
from oomdoctor.sweep.outcomes import Peak
from oomdoctor.sweep.peaks import peaks_of

GIB, MIB = 1 << 30, 1 << 20
CONTEXT = 420 * MIB
SOURCE = Source(path="supervisor.records")


def reading(time: float, used: int, own: dict[int, int] | None, others: int = 0, **more: object) -> DeviceReading:
    """A card of 24 GiB; `own`: the command's processes; None: the driver names none it can tell."""
    table = None
    if own is not None:
        named = [DeviceProcess(pid, size, own=True) for pid, size in own.items()]
        table = (*named, *([DeviceProcess(1, others, own=False)] if others else []))
    fields = {"uuid": "GPU-a", "name": "Card", "total_bytes": 24 * GIB, "free_bytes": 24 * GIB - used, **more}
    return DeviceReading(0, SOURCE, used_bytes=used, processes=table, time_seconds=time, **fields)  # type: ignore[arg-type]


def state(time: float, reserved: int, peak: int, pid: int = 7, **more: object) -> AllocatorState:
    figures = {"reserved_bytes": reserved, "peak_reserved_bytes": peak, "peak_allocated_bytes": peak - MIB, **more}
    return AllocatorState(time, 0, pid=pid, **figures)  # type: ignore[arg-type]


def process(pid: int = 7, ended: bool = True, **more: object) -> ProcessRecord:
    clean = True if ended else None
    return ProcessRecord(pid, 1, ("python",), 0.0, ended_cleanly=clean, **more)  # type: ignore[arg-type]


def run(**fields: object) -> RunRecord:
    return RunRecord("run", ("python",), None, 0.0, 10.0, 0, None, **fields)  # type: ignore[arg-type]


def device(found: RunRecord, *before: DeviceReading) -> Peak | None:
    return next((peak for peak in peaks_of(found, before) if peak.where == "cuda:0"), None)


def test_torchs_peak_counts_with_what_the_process_held_beside_it() -> None:
    """The driver was read while 3 GiB were reserved; 11 GiB were for a moment nobody sampled."""
    found = run(
        processes=(process(),),
        allocator_states=(state(3.0, 2 * GIB, 2 * GIB), state(8.9, 3 * GIB, 11 * GIB)),
        device_readings=(reading(2.0, 0, {}), reading(8.95, 3 * GIB + CONTEXT, {7: 3 * GIB + CONTEXT})),
    )
    peak = device(found)
    assert peak is not None
    assert (peak.bytes, peak.exact, peak.allocated_bytes) == (11 * GIB + CONTEXT, True, 11 * GIB - MIB)
    assert (peak.total_bytes, peak.available_bytes) == (24 * GIB, 24 * GIB)
    assert peak.known == "torch's own peak, and for the rest the driver's figures of its processes"


def test_a_reading_while_the_allocator_grew_tells_nothing_of_the_rest() -> None:
    found = run(
        processes=(process(),),
        allocator_states=(state(3.0, 2 * GIB, 2 * GIB), state(3.8, 9 * GIB, 9 * GIB)),
        device_readings=(reading(3.5, 5 * GIB, {7: 5 * GIB}),),
    )
    peak = device(found)
    assert peak is not None
    assert (peak.bytes, peak.exact) == (9 * GIB, False)
    assert peak.known.startswith("at least: ")


def test_a_process_that_was_killed_may_have_held_more() -> None:
    found = run(
        processes=(process(ended=False),),
        allocator_states=(state(3.0, 2 * GIB, 2 * GIB),),
        device_readings=(reading(3.5, 2 * GIB + CONTEXT, {7: 2 * GIB + CONTEXT}),),
    )
    peak = device(found)
    assert peak is not None
    assert (peak.bytes, peak.exact) == (2 * GIB + CONTEXT, False)


def test_a_peak_that_the_program_set_back_is_no_peak_of_the_run() -> None:
    found = run(
        processes=(process(),),
        allocator_states=(state(3.0, 5 * GIB, 5 * GIB), state(8.9, GIB, 2 * GIB)),
        device_readings=(reading(8.95, GIB + CONTEXT, {7: GIB + CONTEXT}),),
    )
    peak = device(found)
    assert peak is not None
    assert (peak.bytes, peak.exact) == (5 * GIB + CONTEXT, False)


def test_what_others_hold_is_not_the_commands_and_not_free_for_it() -> None:
    found = run(
        processes=(process(),),
        allocator_states=(state(8.9, GIB, GIB),),
        device_readings=(reading(8.95, 7 * GIB + CONTEXT, {7: GIB + CONTEXT}, others=6 * GIB),),
    )
    peak = device(found, reading(0.0, 6 * GIB, {}, others=6 * GIB))
    assert peak is not None
    assert (peak.bytes, peak.available_bytes) == (GIB + CONTEXT, 18 * GIB)


def test_processes_at_once_are_added_and_those_after_each_other_are_not() -> None:
    held = 2 * GIB + CONTEXT
    at_once = run(
        processes=(process(7), process(8)),
        allocator_states=(state(3.0, 2 * GIB, 2 * GIB, pid=7), state(3.1, 2 * GIB, 2 * GIB, pid=8)),
        device_readings=(reading(5.0, 2 * held, {7: held, 8: held}),),
    )
    later = replace(
        at_once,
        allocator_states=(state(3.0, 2 * GIB, 2 * GIB, pid=7), state(6.0, 2 * GIB, 2 * GIB, pid=8)),
        device_readings=(reading(5.0, held, {7: held}), reading(6.5, held, {8: held})),
    )
    first, second = device(at_once), device(later)
    assert first is not None
    assert second is not None
    assert (first.bytes, second.bytes) == (2 * held, held)


def test_where_processes_are_not_told_the_cards_growth_counts() -> None:
    """In a container the driver's process ids are those of another namespace."""
    foreign = (DeviceProcess(4711, 3 * GIB + CONTEXT, own=None),)
    found = run(
        processes=(process(),),
        allocator_states=(state(8.9, 3 * GIB, 4 * GIB),),
        device_readings=(replace(reading(8.95, 5 * GIB + CONTEXT, None), processes=foreign),),
    )
    peak = device(found, replace(reading(0.0, 2 * GIB, None), processes=()))
    assert peak is not None
    assert (peak.bytes, peak.available_bytes) == (4 * GIB + CONTEXT, 22 * GIB)
    assert peak.known == "torch's own peak, and for the rest the card's use less what was in use before"


def test_a_card_that_only_others_use_is_not_the_commands() -> None:
    found = run(device_readings=(reading(3.0, 6 * GIB, {}, others=6 * GIB), reading(5.0, 9 * GIB, {}, others=9 * GIB)))
    assert device(found) is None


def test_without_a_driver_torchs_peak_is_a_least() -> None:
    found = run(
        processes=(process(devices=(VisibleDevice(0, None, 24 * GIB),)),), allocator_states=(state(8.9, GIB, 2 * GIB),)
    )
    peak = device(found)
    assert peak is not None
    assert (peak.bytes, peak.exact, peak.total_bytes) == (2 * GIB, False, 24 * GIB)
    assert "context and libraries were not seen" in peak.known


def test_a_slice_of_a_card_is_as_large_as_the_process_says() -> None:
    found = run(
        processes=(process(devices=(VisibleDevice(0, "MIG-b", 10 * GIB),)),),
        allocator_states=(state(8.9, GIB, 2 * GIB),),
        device_readings=(reading(8.95, 3 * GIB, None, mig_mode=True),),
    )
    peak = device(found)
    assert peak is not None
    assert (peak.total_bytes, peak.available_bytes) == (10 * GIB, 10 * GIB)


def test_an_allocator_that_gave_memory_back_is_squeezed() -> None:
    found = run(processes=(process(),), allocator_states=(state(8.9, GIB, 2 * GIB, retries=1),))
    peak = device(found)
    assert peak is not None
    assert peak.squeezed


def test_a_run_of_which_nothing_was_seen_has_no_peak() -> None:
    assert peaks_of(run(processes=(process(),))) == ()


def host(found: RunRecord) -> Peak:
    (peak,) = peaks_of(found)
    return peak


def sample(time: float, held: int | None, processes: int = 1, **more: object) -> HostSample:
    fields = {"total_bytes": 32 * GIB, "available_bytes": 30 * GIB, **more}
    return HostSample(time, tree_rss_bytes=held, processes=processes, **fields)  # type: ignore[arg-type]


def test_one_process_tells_its_own_peak() -> None:
    """What started it (a shell) was there before, and is no second process."""
    found = run(
        processes=(replace(process(rss_peak_bytes=3 * GIB), started_seconds=0.5),),
        samples=(sample(0.1, MIB, processes=3), sample(1.0, GIB)),
    )
    peak = host(found)
    assert (peak.bytes, peak.exact, peak.known) == (3 * GIB, True, "the kernel's own peak of the process")
    assert (peak.total_bytes, peak.available_bytes) == (32 * GIB, 30 * GIB + MIB)


def test_of_several_processes_the_samples_tell_at_least() -> None:
    found = run(
        processes=(process(7, rss_peak_bytes=GIB), process(8, rss_peak_bytes=GIB)),
        samples=(sample(1.0, 2 * GIB, processes=2),),
        sample_interval_seconds=0.1,
    )
    peak = host(found)
    assert (peak.bytes, peak.exact, peak.known) == (2 * GIB, False, "at least: read every 0.1 s")


def test_the_limit_that_comes_first_is_the_room() -> None:
    within = sample(1.0, GIB, cgroup_used_bytes=2 * GIB)
    for limits, room in (
        (HostLimits(memory_total_bytes=32 * GIB, cgroup_limit_bytes=8 * GIB), (8 * GIB, 7 * GIB)),
        (HostLimits(memory_total_bytes=32 * GIB, address_space_limit_bytes=4 * GIB), (4 * GIB, 4 * GIB)),
        (HostLimits(memory_total_bytes=32 * GIB), (32 * GIB, 31 * GIB)),
    ):
        peak = host(run(samples=(within,), limits=limits))
        assert (peak.total_bytes, peak.available_bytes) == room
