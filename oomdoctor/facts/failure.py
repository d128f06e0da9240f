"""oom.*: the device request that failed, and what the message's figures say about everybody else.

Arithmetic (all figures of one message): the segments of this process are `reserved`; all that the device has in use is
`total - free`; what is neither is unexplained: contexts, libraries and other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise

from ..allocator.request import Request
from ..allocator.simulation.settings import AllocatorSettings
from ..language import N_
from ..model.events import EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.run import DeviceOomRecord, RunRecord
from ..model.source import Source
from ..model.units import GIB, MIB, TIB
from .deriver import computed, device_member, failed_devices, member_for
from .device_records import (
    card_of,
    latest_device_records,
    outside_the_allocator,
    process_on,
    processes_beside,
    reading_at_failure,
    run_of,
    speaking_records,
)
from .incidents import latest_device_failures
from .one_failure import same_request
from .own_process import (
    CONTEXT_ALLOWANCE_BYTES,
    ROUNDING_BYTES,
    held_by_message,
    listed_processes,
    own_entry,
    printed_size,
    process_name,
    reserved_by_message,
    room_for_others,
    size_of,
)
from .tensor_size import requested_bytes

_BACKENDS = {"cuda", "hip", "xpu", "mps", "npu", "mlu", "neuron", "metal", "tensorflow", "jax", "cudaMallocAsync"}
_WORTH_TELLING_BYTES = 256 * MIB
"""Less may be the driver's own, or the rounding of several figures."""
_ROUND_BYTES = 128 * MIB
_ROUNDING = 0.01
_CAPPED_BELOW = 0.999
"""Share of the device's size below which the total that the allocator was told is a cap."""
_ENORMOUS_BYTES, _IMPOSSIBLE_DEVICE_BYTES = TIB, 16 * TIB
"""No accelerator has this much. Scores of a sequence of some hundred thousand tokens (pictures in one prompt, an old
torch without a fused attention) do come to the first; beyond the second a request is not about capacity."""


def derive(evidence: Evidence, facts: FactSet) -> None:
    """Facts of the latest incident: the probe's records first, then the messages."""
    records = latest_device_records(evidence)
    speaking = speaking_records(evidence)
    events = latest_device_failures(evidence)
    capped = {event.device for event in events if event.size("allowed_bytes") is not None}
    for device, record in speaking.items():
        _put_record(evidence, record, device_member(device), device in capped, facts)
    siblings = {process.pid for run in evidence.runs for process in run.processes}
    names = _names_by_pid(evidence)
    for event in events:
        recorded = _record_of(evidence, event, speaking)
        if recorded is None or _tell_of_one(event, recorded):
            _put_event(event, member_for(evidence, event.device, _backend(event)), siblings, names, facts)
    _put_pool_dump(evidence, facts)
    _put_buffers(evidence, facts)
    _put_driver_errors(evidence, events, facts)
    for member in failed_devices(facts):
        _put_reach(member, facts)
        _put_told_card(evidence.card_bytes, member, facts)
        _put_derived(member, facts)
    _put_counts(evidence, events, records, facts)
    _put_start_up_tries(evidence, facts)


def _backend(event: LogEvent) -> str:
    word = event.word("backend") or "other"
    return word if word in _BACKENDS else "other"


def _record_of(evidence: Evidence, event: LogEvent, speaking: Mapping[int, DeviceOomRecord]) -> DeviceOomRecord | None:
    """The record that the facts of a message's device are about."""
    if event.device is not None:
        return speaking.get(event.device)
    return next((one for index, one in speaking.items() if device_member(index) == member_for(evidence, None)), None)


def _tell_of_one(event: LogEvent, record: DeviceOomRecord) -> bool:
    """Whether a message can be of the recorded failure: another rank's, or an earlier one, has figures of its own."""
    if None not in (event.rank, record.rank) and event.rank != record.rank:
        return False
    printed, held = _allocated(event), record.state.allocated_bytes if record.state is not None else None
    if printed is not None and held is not None and abs(printed - held) > max(ROUNDING_BYTES, _ROUNDING * held):
        # What an uncaught error left was looked at later: what the failed call held for itself was given back by then.
        return record.requested_bytes is None and held < printed
    return same_request(event.size("requested_bytes"), record.requested_bytes)


def _allocated(event: LogEvent) -> int | None:
    """What live tensors hold. Torch counts what is free in the pools of graphs to it as well, and says how much."""
    allocated = event.size("allocated_bytes")
    return None if allocated is None else max(0, allocated - (event.size("private_pool_bytes") or 0))


def _put_record(evidence: Evidence, record: DeviceOomRecord, member: str, is_capped: bool, facts: FactSet) -> None:
    """Under a memory fraction torch tells its observer the share as the total, but what is free of the whole device."""
    source, run = record.source, run_of(evidence, record)
    total, free = record.device_total_bytes, record.device_free_bytes
    card = None if run is None else card_of(run, record)
    size = None if card is None else card.total_bytes
    if total is not None and (is_capped or total < max(free or 0, _CAPPED_BELOW * (size or 0))):
        facts.put("oom.allowed_bytes", total, source, member)
        facts.put("oom.capped_by", "fraction", source)
        total = size
    facts.put("oom.failed", True, source, member)
    facts.put("oom.device_index", record.device, source, member)
    backend = "hip" if run is not None and "+rocm" in run.versions.get("torch", "") else "cuda"
    facts.put("oom.backend", backend if record.requested_bytes is not None else None, source)
    facts.put("oom.requested_bytes", record.requested_bytes, source, member)
    facts.put("oom.total_bytes", total, source, member)
    facts.put("oom.free_bytes", free, source, member)
    state = record.state
    if state is not None:
        facts.put("oom.allocated_bytes", state.allocated_bytes, source, member)
        facts.put("oom.reserved_bytes", state.reserved_bytes, source, member)
        facts.put("oom.active_bytes", state.active_bytes, source, member)
    if run is not None:
        _put_reading(run, record, member, facts)


def _put_reading(run: RunRecord, record: DeviceOomRecord, member: str, facts: FactSet) -> None:
    """What the driver said of the device and of all processes on it while the failed one still held its memory."""
    reading = reading_at_failure(run, record)
    outside = outside_the_allocator(run, record)
    if outside is not None:
        size, look = outside
        facts.put("oom.outside_allocator_bytes", size, look.source, member)
        if reading is None and record.state is not None and record.state.reserved_bytes is not None:
            facts.put("oom.process_used_bytes", record.state.reserved_bytes + size, look.source, member)
    if reading is None:
        return
    source, own = reading.source, process_on(reading, record.pid)
    related, others = processes_beside(record, reading)
    facts.put("oom.process_used_bytes", None if own is None else own.used_bytes, source, member)
    if related and all(one.used_bytes is not None for one in related):
        facts.put("oom.sibling_bytes", sum(one.used_bytes or 0 for one in related), source, member)
    if all(other.used_bytes is not None for other in others):
        size = sum(other.used_bytes or 0 for other in others)
        facts.put("oom.foreign_measured", True, source, member)
        facts.put("oom.foreign_bytes", size, source, member)
        facts.put("oom.foreign_listed_bytes", size, source, member)
        largest = max(others, key=lambda other: other.used_bytes or 0, default=None)
        if largest is not None:
            facts.put("oom.foreign_process", process_name(largest.name, largest.pid), source, member)


def _names_by_pid(evidence: Evidence) -> dict[int, str]:
    """Of the processes that tables of the devices list, those with a name."""
    return {
        process.pid: process.name
        for reading in evidence.devices
        for process in reading.processes or ()
        if process.pid is not None and process.name
    }


def _put_event(event: LogEvent, member: str, siblings: set[int], names: Mapping[int, str], facts: FactSet) -> None:
    source = event.source
    facts.put("oom.failed", True, source, member)
    facts.put("oom.device_index", event.device, source, member)
    facts.put("oom.backend", _backend(event), source)
    facts.put("allocator.largest_free_block_bytes", event.size("largest_free_block_bytes"), source, member)
    generation = event.word("generation")
    facts.put(
        "oom.generation", generation if generation in ("cached", "reserved", "sentences", "bare") else None, source
    )
    if event.word("advice"):
        facts.put("oom.advised_fragmentation", True, source)
    facts.put("oom.requested_bytes", requested_bytes(event), source, member)
    for name in (
        "total",
        "free",
        "active",
        "reserved_unallocated",
        "private_pool",
        "allowed",
    ):
        facts.put(f"oom.{name}_bytes", event.size(f"{name}_bytes"), source, member)
    facts.put("oom.allocated_bytes", _allocated(event), source, member)
    facts.put("oom.reserved_bytes", reserved_by_message(event), source, member)
    limit = event.size("buffer_limit_bytes")
    facts.put("oom.buffer_limit_bytes", limit, source, member)
    if limit is not None:
        facts.put("oom.capped_by", "buffer-limit", source)
    _put_cap(event, member, facts, "watermark" if _backend(event) == "mps" else "fraction")
    facts.put("oom.outside_allocator_bytes", event.size("other_bytes"), source, member)
    shape = event.fields.get("shape")
    if isinstance(shape, tuple) and shape:
        facts.put("oom.tensor_shape", " x ".join(str(size) for size in shape), source, member)
        facts.put("oom.tensor_dimensions", len(shape), source, member)
    _put_processes(event, member, siblings, names, facts)


def _put_cap(event: LogEvent, member: str, facts: FactSet, kind: str) -> None:
    allowed = event.size("allowed_bytes")
    if allowed is not None:
        facts.put("oom.allowed_is_round", allowed % _ROUND_BYTES == 0, event.source, member)
        facts.put("oom.capped_by", kind, event.source)
    elif event.fields.get("pool_at_maximum") is True:
        facts.put("oom.capped_by", "pool-limit", event.source)


def _put_pool_dump(evidence: Evidence, facts: FactSet) -> None:
    """TensorFlow's allocator prints its state only when a request fails: with a limit in it, it is a failure itself."""
    for event in reversed(evidence.of_kind(EventKind.DEVICE_STATE)):
        allowed = event.size("allowed_bytes")
        if allowed is None:
            continue
        member = member_for(evidence, event.device)
        facts.put("oom.failed", True, event.source, member)
        facts.put("oom.backend", "tensorflow", event.source)
        facts.put("oom.allowed_bytes", allowed, event.source, member)
        facts.put("oom.allocated_bytes", event.size("allocated_bytes"), event.source, member)
        facts.put("oom.reserved_bytes", event.size("reserved_bytes"), event.source, member)
        _put_cap(event, member, facts, "pool-limit")


def _put_processes(event: LogEvent, member: str, siblings: set[int], names: Mapping[int, str], facts: FactSet) -> None:
    """Who else is on the device, by the message's list of processes; `siblings` are those of the same command."""
    if event.fields.get("capacity_unknown") is True or event.fields.get("zeros_set_aside") is True:
        return
    source, own = event.source, printed_size(event)
    others = list(listed_processes(event))
    related = [entry for entry in others if len(entry) > 1 and entry[0] in siblings]
    if related and all(isinstance(entry[1], int) for entry in related):
        facts.put("oom.sibling_bytes", sum(size_of(entry) or 0 for entry in related), source, member)
        others = [entry for entry in others if entry not in related]
    mine = own_entry(event, others)
    if mine is not None:
        pid = mine[0]
        others = [entry for entry in others if entry is not mine and (pid is None or entry[0] != pid)]
        own = size_of(mine)
        facts.put("oom.listed_self", None if pid is None else N_("process {pid}").format(pid=pid), source, member)
    sizes = [size for entry in others if (size := size_of(entry)) is not None]
    if own is None and held_by_message(event) is None and len(sizes) == 1:
        sizes = []  # cut before it says what torch holds: the one process listed may be the program itself
    facts.put("oom.process_used_bytes", own, source, member)
    if event.rank is not None and len(_alike(sizes, _RANKS_DIFFER)) >= _FEWEST_RANKS:
        # Those of the other ranks, and that of the rank whose card it is.
        facts.put("oom.sibling_bytes", sum(sizes), source, member)
        facts.put("oom.foreign_bytes", 0, source, member)
        facts.put("oom.foreign_listed_bytes", 0, source, member)
    room = room_for_others(event)
    if room is not None and sum(sizes) > room:
        return  # more than was in use beside this process: which figure is wrong is not known, so nobody is accused
    if sizes or own is not None:
        facts.put("oom.foreign_measured", True, source, member)
        facts.put("oom.foreign_listed_bytes", sum(sizes), source, member)
    if sizes:
        facts.put("oom.foreign_bytes", sum(sizes), source, member)
        _put_equals(sizes, source, member, facts)
        named = max((e for e in others if e[1] in sizes), key=lambda entry: size_of(entry) or 0, default=None)
        pid = named[0] if named is not None else None
        if isinstance(pid, int) and pid in names:
            facts.put("oom.foreign_process", process_name(names[pid], pid), source, member)
        elif pid is not None:
            facts.put("oom.foreign_process", N_("process {named}").format(named=pid), source, member)


def _put_equals(sizes: list[int], source: Source, member: str, facts: FactSet) -> None:
    """Several processes with the same amount each, as ranks have that make a context on a device not theirs."""
    equal = _alike(sizes, _ROUNDING)
    if len(equal) >= _FEWEST_EQUALS:
        facts.put("oom.equal_processes", len(equal), source, member)
        facts.put("oom.equal_processes_bytes", sum(equal), source, member)


def _alike(sizes: list[int], differ: float) -> list[int]:
    """Those that differ from the middle one by that share of it at most."""
    middle = sorted(sizes)[len(sizes) // 2] if sizes else 0
    return [size for size in sizes if abs(size - middle) <= differ * middle]


_FEWEST_EQUALS = 3
_FEWEST_RANKS, _RANKS_DIFFER = 4, 0.15
"""What ranks load for themselves differs by that share, where they have only begun."""


def _put_buffers(evidence: Evidence, facts: FactSet) -> None:
    """A buffer that llama.cpp and its kin could not get is a failed device request as well."""
    failed = [e for e in evidence.of_kind(EventKind.ENGINE_BUFFER_FAILED) if e.fields.get("fatal") is not False]
    for event in failed[-1:]:
        member = member_for(evidence, event.device)
        facts.put("oom.failed", True, event.source, member)
        facts.put("oom.device_index", event.device, event.source, member)
        facts.put("oom.requested_bytes", event.size("requested_bytes"), event.source, member)
        facts.put("oom.backend", "engine", event.source)
        facts.put("oom.total_bytes", event.size("total_bytes"), event.source, member)
        facts.put("oom.free_bytes", event.size("free_bytes"), event.source, member)
        if event.fields.get("over_buffer_limit") is True:
            facts.put("oom.capped_by", "buffer-limit", event.source)


def _put_driver_errors(evidence: Evidence, messages: Iterable[LogEvent], facts: FactSet) -> None:
    for event in reversed(evidence.of_kind(EventKind.ACCELERATOR_ERROR)):
        library, code = event.word("library"), event.word("code") or ""
        if library == "nvml":
            facts.put("oom.nvml_assert", True, event.source)
        elif event.fields.get("masks_oom") is True or "memory" in code.lower() or "ALLOC" in code.upper():
            facts.put("oom.library", library, event.source)
            facts.put("oom.library_code", code or None, event.source)
            facts.put("oom.requested_by_library_bytes", event.size("requested_bytes"), event.source)
            if not list(messages):
                facts.put("oom.stated_by_driver_only", True, event.source)


def _put_reach(member: str, facts: FactSet) -> None:
    value = _reader(member, facts)
    reserved, free, allowed = value("oom.reserved_bytes"), value("oom.free_bytes"), value("oom.allowed_bytes")
    if reserved is not None and free is not None:
        reach = reserved + free if allowed is None else min(reserved + free, allowed)
        facts.put("oom.reach_bytes", reach, computed("oom.reserved_bytes", "oom.free_bytes"), member)


def _put_told_card(card_bytes: int | None, member: str, facts: FactSet) -> None:
    """The size of the card as the user gives it, unless the allocator could have had more."""
    reach = facts.size("oom.reach_bytes", member)
    if card_bytes is not None and (reach is None or card_bytes >= reach):
        facts.put("oom.total_bytes", card_bytes, Source(path="--gpu"), member)


def _put_derived(member: str, facts: FactSet) -> None:
    value = _reader(member, facts)
    reserved, allocated = value("oom.reserved_bytes"), value("oom.allocated_bytes")
    if reserved is not None and allocated is not None:
        private = value("oom.private_pool_bytes") or 0
        idle = max(0, reserved - allocated - private)
        of = ("oom.reserved_bytes", "oom.allocated_bytes", *(["oom.private_pool_bytes"] if private else []))
        source = computed(*of)
        facts.put("oom.reserved_unallocated_bytes", idle, source, member)
    total, free = value("oom.total_bytes"), value("oom.free_bytes")
    requested, allowed = value("oom.requested_bytes"), value("oom.allowed_bytes")
    if total is not None and free is not None and reserved is not None:
        unexplained = max(0, total - free - reserved)
        source = computed("oom.total_bytes", "oom.free_bytes", "oom.reserved_bytes")
        facts.put("oom.unexplained_bytes", unexplained, source, member)
        own = value("oom.process_used_bytes")
        if own is not None:
            source = computed("oom.process_used_bytes", "oom.reserved_bytes")
            facts.put("oom.outside_allocator_bytes", max(0, own - reserved), source, member)
            left = max(0, total - free - own - (value("oom.sibling_bytes") or 0))
            source = computed("oom.total_bytes", "oom.free_bytes", "oom.process_used_bytes")
            facts.put("oom.foreign_bytes", left if left > ROUNDING_BYTES else 0, source, member)
        else:
            left = max(0, unexplained - CONTEXT_ALLOWANCE_BYTES - (value("oom.sibling_bytes") or 0))
            facts.put("oom.foreign_bytes", left, computed("oom.unexplained_bytes"), member)
            facts.put("oom.foreign_measured", False, computed("oom.unexplained_bytes"), member)
        _put_unlisted(left, member, facts)
    if requested is None:
        return
    if facts.value("oom.requested_exact", member):
        expandable = facts.value("allocator.expandable_segments", member) is True
        # What the allocator asks the driver for.
        requested = Request(0, requested, settings=AllocatorSettings(expandable_segments=expandable)).driver_bytes
    if free is not None:
        room, source = free, computed("oom.requested_bytes", "oom.free_bytes")
        if allowed is not None and reserved is not None:
            room = min(free, max(0, allowed - reserved))
            source = computed("oom.requested_bytes", "oom.free_bytes", "oom.allowed_bytes")
        facts.put("oom.shortfall_bytes", max(0, requested - room), source, member)
        rounded = ROUNDING_BYTES if requested >= GIB and not facts.value("oom.requested_exact", member) else 0
        facts.put("oom.free_suffices", allowed is None and free >= requested + rounded, source, member)
    if requested >= _IMPOSSIBLE_DEVICE_BYTES:
        facts.put("oom.impossible_size", True, computed("oom.requested_bytes"))
    elif requested >= _ENORMOUS_BYTES:
        facts.put("oom.enormous", True, computed("oom.requested_bytes"))


def _put_unlisted(left: int, member: str, facts: FactSet) -> None:
    """What is left of the device's bytes beyond those of the process, and of all whom somebody lists."""
    listed = facts.size("oom.foreign_listed_bytes", member)
    unlisted = left - (listed or 0)
    if unlisted >= _WORTH_TELLING_BYTES:
        source = computed("oom.unexplained_bytes", *(() if listed is None else ("oom.foreign_listed_bytes",)))
        facts.put("oom.unlisted_bytes", unlisted, source, member)


def _reader(member: str, facts: FactSet) -> Callable[[str], int | None]:
    def value(name: str) -> int | None:
        found = facts.value(name, member)
        return found if isinstance(found, int) else None

    return value


def _put_start_up_tries(evidence: Evidence, facts: FactSet) -> None:
    """Each try asks for less than the one before: a framework feeling for the size of its first block.

    Torch's warning prints what is free, and means one request that failed; it does not count here.
    """
    tries = [event for event in evidence.of_kind(EventKind.DEVICE_OOM_TRY) if event.size("free_bytes") is None]
    sizes = [size for event in tries if (size := event.size("requested_bytes")) is not None]
    if len(sizes) >= 2 and all(after < before for before, after in pairwise(sizes)):
        told = max(event.size("repeats") or 1 for event in tries)  # equal but for the figures: kept as first and last
        facts.put("oom.start_up_tries", max(len(sizes), told), tries[-1].source)


def _foreign_parts(facts: FactSet) -> Iterator[float]:
    for member in failed_devices(facts):
        foreign, total = facts.size("oom.foreign_bytes", member), facts.size("oom.total_bytes", member)
        if foreign is not None and total:
            yield foreign / total


def _put_counts(
    evidence: Evidence, events: tuple[LogEvent, ...], records: tuple[DeviceOomRecord, ...], facts: FactSet
) -> None:
    failed = failed_devices(facts)
    if not failed:
        return
    facts.put("oom.device_count", len(failed), computed("oom.failed"))
    sizes = [size for m in failed if isinstance(size := facts.value("oom.requested_bytes", m), int)]
    facts.put("oom.largest_request_bytes", max(sizes, default=None), computed("oom.requested_bytes"))
    lacking = [size for m in failed if isinstance(size := facts.value("oom.shortfall_bytes", m), int)]
    facts.put("oom.largest_shortfall_bytes", max(lacking, default=None), computed("oom.shortfall_bytes"))
    facts.put(
        "oom.largest_foreign_ratio",
        max(_foreign_parts(facts), default=None),
        computed("oom.foreign_bytes", "oom.total_bytes"),
    )
    if records:
        facts.put("oom.count", max(record.count for record in records), records[-1].source)
    else:
        sources = [e.source for e in events] or [Source(derived_from=("oom.failed",))]
        facts.put("oom.count", max(1, len(evidence.of_kind(EventKind.DEVICE_OOM))), sources[-1])
