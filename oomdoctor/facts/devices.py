"""device.* and devices.*: the cards side by side, as nvidia-smi or the sampler's NVML readings show them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from ..model.devices import DeviceProcess, DeviceReading
from ..model.diagnosis import DeviceLook
from ..model.events import EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.facts import FactSet, Scope
from ..model.run import RunRecord
from ..model.source import Source
from ..model.units import MIB
from .deriver import computed, device_member
from .incidents import latest_device_failures
from .own_process import process_name, with_own
from .until import is_until_failure

_CONTEXT_ONLY_BYTES = 64 * MIB
"""Graphics helpers and the driver hold less; not worth the name of a process that occupies a card."""
_FEWEST_OF_A_LOOP = 6
_A_PAIR = 2
"""Two stills of one device, given together, are of one moment: a list of devices and one of their processes."""
_SAME_MOMENT_SECONDS = 60.0
"""Two tools that are run one after the other show the same moment."""

_PID = re.compile(r"(?:pid|process) ([0-9]{1,10})\b")
_RESERVING = re.compile(r"\bvllm\b|sglang|text-generation-server|lmdeploy|trtllm|tritonserver", re.IGNORECASE)
"""Engines that title their processes, or whose program has a name of its own."""


def readings_by_device(evidence: Evidence) -> dict[int, list[DeviceReading]]:
    """All readings of each device until the failure, in time order.

    A run's look after its failure shows what the ended process gave back: only the device's own traits count.
    """
    found: dict[int, list[DeviceReading]] = {}
    failures, known = evidence.of_kind(EventKind.DEVICE_OOM), {p.pid for run in evidence.runs for p in run.processes}
    printed = [with_own(reading, failures, known) for reading in _printed_until_failure(evidence)]
    for reading in (*printed, *(r for run in evidence.runs for r in _until_failure(run))):
        found.setdefault(reading.index, []).append(reading)
    return dict(sorted(found.items()))


def _printed_until_failure(evidence: Evidence) -> Iterator[DeviceReading]:
    """Those of a table or a loop; of a loop that went on after the failure what came before it, where that is known."""
    failures = latest_device_failures(evidence)
    before = [not any(_is_after(reading, event) for event in failures) for reading in evidence.devices]
    counts = Counter(reading.index for reading, is_before in zip(evidence.devices, before, strict=True) if is_before)
    for reading, is_before in zip(evidence.devices, before, strict=True):
        # A single table that was pasted after a failure is there to show who else holds the device.
        if is_before or counts[reading.index] < _FEWEST_OF_A_LOOP:
            yield reading


def _is_after(reading: DeviceReading, event: LogEvent) -> bool:
    if event.device not in (None, reading.index):
        return False
    if reading.time_seconds is not None and event.time_seconds is not None:
        return reading.time_seconds > event.time_seconds
    here, there = reading.source, event.source
    return here.path == there.path and here.line is not None and there.line is not None and here.line > there.line


def _until_failure(run: RunRecord) -> Iterator[DeviceReading]:
    kept = [reading for reading in run.device_readings if is_until_failure(run, reading.time_seconds)]
    yield from kept
    for reading in run.device_readings:
        if reading.index not in {one.index for one in kept}:
            yield replace(reading, used_bytes=None, free_bytes=None, utilization=None, processes=None)


def last_reading(evidence: Evidence) -> dict[int, DeviceReading]:
    """The reading of each device that its facts are about."""
    return {index: _fullest_late(found) for index, found in readings_by_device(evidence).items()}


def derive(evidence: Evidence, facts: FactSet) -> None:
    """The last reading of each device, and the spread between devices."""
    readings = readings_by_device(evidence)
    last = last_reading(evidence)
    for index, reading in last.items():
        member, source = device_member(index), reading.source
        facts.put("device.total_bytes", reading.total_bytes, source, member)
        facts.put("device.used_bytes", reading.used_bytes, source, member)
        free = reading.free_bytes
        if free is None and reading.total_bytes is not None and reading.used_bytes is not None:
            free = reading.total_bytes - reading.used_bytes - (reading.reserved_by_driver_bytes or 0)
        facts.put("device.free_bytes", free, source, member)
        facts.put("device.utilization_ratio", reading.utilization, source, member)
        facts.put("device.mig", reading.mig_mode, source, member)
        _put_processes(reading, member, facts)
        _put_growth(readings[index], member, facts)
    _put_spread(last, facts)
    for name in ("mig", "grew_between_readings"):
        known = [fact for i in last if (fact := facts.find(f"device.{name}", device_member(i))) is not None]
        if known:
            facts.put(f"devices.{name}", any(fact.value for fact in known), known[0].source)
    _put_shared(last, facts)
    for member in facts.members(Scope.DEVICE):
        _put_foreign_pid(member, facts)


def _fullest_late(readings: list[DeviceReading]) -> DeviceReading:
    """The last reading that names a process table or use, of those taken at a failure where there are any.

    What is read later shows a device that the failed process has left.
    """
    told = [r for r in readings if r.used_bytes is not None or r.processes]
    chosen = ([r for r in told if r.at_failure] or told or readings)[-1]
    return chosen if chosen.source.line is None else _completed(chosen, readings)


def _completed(chosen: DeviceReading, readings: list[DeviceReading]) -> DeviceReading:
    """With what other lines of the same moment show: some tools print the devices here and their processes there."""
    pair = len(readings) == _A_PAIR and any(one.time_seconds is None for one in readings)
    near = [one for one in reversed(readings) if pair or _is_near(one, chosen)]
    total = next((one.total_bytes for one in reversed(readings) if one.total_bytes is not None), None)
    found = replace(chosen, total_bytes=total) if chosen.total_bytes is None else chosen
    if found.used_bytes is None and (other := next((one for one in near if one.used_bytes is not None), None)):
        found = replace(found, used_bytes=other.used_bytes, free_bytes=other.free_bytes)
    if found.processes is None and (other := next((one for one in near if one.processes is not None), None)):
        found = replace(found, processes=other.processes)
    return found


def _is_near(one: DeviceReading, other: DeviceReading) -> bool:
    if one.time_seconds is not None and other.time_seconds is not None:
        return abs(one.time_seconds - other.time_seconds) <= _SAME_MOMENT_SECONDS
    return one.source.path == other.source.path


def _put_foreign_pid(member: str, facts: FactSet) -> None:
    """The number that ends the largest of them, where it is told."""
    for name in ("oom.foreign_process", "device.foreign_process"):
        found = _PID.search(str(facts.value(name, member) or ""))
        facts.put("device.foreign_pid", found[1] if found else None, computed(name), member)


def _put_processes(reading: DeviceReading, member: str, facts: FactSet) -> None:
    if reading.processes is None:
        return
    source = reading.source
    computing = [p for p in reading.processes if p.kind != "G"]
    facts.put("device.processes", len({who(p) for p in computing}), source, member)
    if any(p.own is not None for p in computing):
        facts.put("device.own_processes", len({who(p) for p in computing if p.own}), source, member)
    foreign = [p for p in computing if p.own is False]
    if foreign and all(p.used_bytes is not None for p in foreign):
        facts.put("device.foreign_bytes", sum(p.used_bytes or 0 for p in foreign), source, member)
    if foreign:
        largest = max(foreign, key=lambda p: p.used_bytes or 0)
        facts.put("device.foreign_process", name_of(largest), source, member)
        if facts.value("oom.failed", member):
            facts.put("oom.foreign_process", name_of(largest), source, member)  # where the message names none
    reserving = next((p for p in computing if p.name and _RESERVING.search(p.name)), None)
    facts.put("device.reserving_process", None if reserving is None else name_of(reserving), source, member)
    listed = [p.used_bytes for p in reading.processes]
    if reading.used_bytes is not None and all(size is not None for size in listed):
        unlisted = reading.used_bytes - sum(size or 0 for size in listed) - (reading.reserved_by_driver_bytes or 0)
        facts.put("device.unlisted_bytes", max(0, unlisted), source, member)


def who(process: DeviceProcess) -> int | str:
    """What tells a process from the others on its device."""
    return process.pid if process.pid is not None else f"{process.name}"


def name_of(process: DeviceProcess) -> str:
    """`python (pid 42)`, or the name alone where no pid is listed."""
    return process_name(process.name, process.pid)


def _put_growth(readings: list[DeviceReading], member: str, facts: FactSet) -> None:
    used = [r.used_bytes for r in readings if r.used_bytes is not None]
    total = readings[-1].total_bytes
    if len(used) >= 2 and total:
        facts.put("device.grew_between_readings", used[-1] - used[0] > total // 10, readings[-1].source, member)


def _put_spread(last: dict[int, DeviceReading], facts: FactSet) -> None:
    facts.put("devices.count", len(last) or None, _source(last))
    used = {i: r.used_bytes for i, r in last.items() if r.used_bytes is not None}
    ratios = {i: used[i] / total for i in used if (total := last[i].total_bytes)}
    if len(ratios) < 2:
        return
    names = tuple(f"device.used_bytes@{device_member(i)}" for i in ratios)
    facts.put("devices.fullest_used_ratio", max(ratios.values()), computed(*names))
    facts.put("devices.emptiest_used_ratio", min(ratios.values()), computed(*names))
    facts.put("devices.spread_bytes", max(used.values()) - min(used.values()), computed(*names))
    fullest, *others = sorted((used[i] for i in ratios), reverse=True)
    if others[0] > 0:
        facts.put("devices.fullest_over_next_ratio", fullest / others[0], computed(*names))
    if len(others) >= _A_PAIR:
        facts.put("devices.others_alike", others[0] - others[-1] <= _NEARLY_THE_SAME * others[0], computed(*names))
    if all(last[i].utilization is not None for i in ratios):
        kinds = {(last[i].name, last[i].total_bytes) for i in ratios}
        alike = len({name for name, _total in kinds}) == 1 and _within(sorted(total or 0 for _n, total in kinds))
        facts.put(
            "devices.at_work", alike and all((last[i].utilization or 0) >= _COMPUTES for i in ratios), _source(last)
        )


def _within(totals: list[int]) -> bool:
    """Cards of one kind may differ by a few MiB."""
    return totals[-1] - totals[0] <= _NEARLY_THE_SAME * totals[-1]


_NEARLY_THE_SAME = 0.05
_COMPUTES = 0.1
"""Share of the sampling interval from which on a card is taken to compute for a job, not for a desktop."""


def _put_shared(last: dict[int, DeviceReading], facts: FactSet) -> None:
    """One process on several devices, with a context on the first of them: ranks that all touch device 0."""
    tables = {i: r.processes for i, r in last.items() if r.processes is not None}
    if not tables:
        return
    pids = ({p.pid for p in table if p.kind != "G" and p.pid is not None} for table in tables.values())
    places: Counter[int | None] = Counter(pid for table in pids for pid in table)
    facts.put("devices.processes_on_several", sum(count > 1 for count in places.values()), _source(last))
    first = tables.get(0)
    if first is not None:
        holding = {
            who(p) for p in first if p.kind != "G" and (p.used_bytes or _CONTEXT_ONLY_BYTES) >= _CONTEXT_ONLY_BYTES
        }
        facts.put("devices.processes_on_first", len(holding), last[0].source)
        visitors = [p for p in first if places[p.pid] > 1 and p.used_bytes is not None]
        if visitors:
            facts.put("devices.visitors_bytes", sum(p.used_bytes or 0 for p in visitors), last[0].source)
    strangers = [p for table in tables.values() for p in table if _is_remains(p)]
    if strangers:
        facts.put("devices.remains_bytes", sum(p.used_bytes or 0 for p in strangers), _source(last))


def _is_remains(process: DeviceProcess) -> bool:
    """An entry whose process the driver can no longer name: it has ended, and its memory has not."""
    name = (process.name or "").strip().lower()
    return name in ("unknown error", "[not found]", "not found") and (process.used_bytes or 0) > 0


def _source(last: dict[int, DeviceReading]) -> Source:
    return next(iter(last.values())).source if last else computed()


def device_looks(evidence: Evidence) -> tuple[DeviceLook, ...]:
    """Of each device the last look before the failure that told who is on it, else the last one."""
    return tuple(
        DeviceLook(
            device_member(index), next((one for one in reversed(readings) if one.processes is not None), readings[-1])
        )
        for index, readings in readings_by_device(evidence).items()
    )
