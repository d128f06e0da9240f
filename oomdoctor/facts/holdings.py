"""Who held what: rows of owners on the devices and of Python objects on the host."""

from __future__ import annotations

from collections.abc import Iterator

from ..language import N_
from ..model.diagnosis import Holding
from ..model.evidence import Evidence
from ..model.facts import FactSet, Scope
from .census import speaking_censuses
from .census_holdings import census_holdings
from .deriver import device_member
from .device_records import speaking_records
from .devices import readings_by_device
from .focus import focus
from .host_run import describe_holder
from .registry import OWNED_CATEGORIES
from .snapshot_views import snapshot_holdings


def holdings(evidence: Evidence, facts: FactSet) -> tuple[Holding, ...]:
    """Largest first within a place: owners (by census, else snapshot, else category), processes, Python objects."""
    evidence = focus(evidence)
    counted = census_holdings(evidence)
    by_stack = [row for snapshot in evidence.snapshots for row in snapshot_holdings(snapshot)]
    of_devices = [row for row in by_stack or _owners(facts) if row.where not in counted]
    of_devices += [row for rows in counted.values() for row in rows]
    rows = [*of_devices, *_processes(evidence, {row.where for row in of_devices}), *_objects(evidence)]
    places = {row.where: None for row in rows}
    return tuple(
        row for place in places for row in sorted((r for r in rows if r.where == place), key=lambda r: -r.bytes)
    )


def _owners(facts: FactSet) -> Iterator[Holding]:
    for member in facts.members(Scope.DEVICE):
        for name, label in OWNED_CATEGORIES:
            fact = facts.find(name, member)
            if fact is not None and isinstance(fact.value, int) and fact.value > 0:
                yield Holding(member, label, fact.value, 1, str(fact.source))
        top, size = facts.value("owner.top", member), facts.find("owner.top_bytes", member)
        if isinstance(top, str) and size is not None and isinstance(size.value, int):
            yield Holding(member, top, size.value, 1, str(size.source))
        stack, gained = facts.value("growth.top_stack", member), facts.find("growth.top_stack_bytes", member)
        if isinstance(stack, str) and stack != top and gained is not None and isinstance(gained.value, int):
            count = facts.value("growth.top_stack_count", member)
            number = int(count) if isinstance(count, (int, float)) else 1
            yield Holding(member, N_("{stack} (grew)").format(stack=stack), gained.value, number, str(gained.source))


def _processes(evidence: Evidence, divided: set[str]) -> Iterator[Holding]:
    """The processes on each device, but for the failed one where what it holds is `divided` up already."""
    failed = {(device_member(device), record.pid) for device, record in speaking_records(evidence).items()}
    failed |= {(member, record.pid) for member, _, record, _ in speaking_censuses(evidence)}
    for index, readings in readings_by_device(evidence).items():
        reading = next((one for one in reversed(readings) if one.processes is not None), readings[-1])
        for process in reading.processes or ():
            told = device_member(index) in divided and (device_member(index), process.pid) in failed
            if process.used_bytes and not told:
                named = process.name or "unnamed"
                name = (
                    N_("process {pid} ({name})").format(pid=process.pid, name=named)
                    if process.pid is not None
                    else N_("process of {name}").format(name=named)
                )
                yield Holding(device_member(index), name, process.used_bytes, 1, str(reading.source))


def _objects(evidence: Evidence) -> Iterator[Holding]:
    for run in evidence.runs:
        for exception in run.exceptions:
            for found in exception.large_objects:
                how = N_("measured by the probe")
                if not found.complete:
                    sampled = N_("measured by the probe (reckoned from a sample)")
                    how = sampled if found.extrapolated else N_("measured by the probe (a lower bound)")
                yield Holding("host", describe_holder(found), found.deep_bytes, found.length or 1, how)
