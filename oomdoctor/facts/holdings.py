"""Who held what: rows of owners on the devices and of Python objects on the host."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..language import N_
from ..model.devices import DeviceProcess
from ..model.diagnosis import Budget, Holding
from ..model.evidence import Evidence
from ..model.facts import FactSet, Scope
from ..model.source import KnownBy
from .census import speaking_censuses
from .census_holdings import census_holdings
from .deriver import device_member
from .device_budget import FOREIGN, IN_USE, reserved_by_torch
from .device_records import speaking_records
from .devices import readings_by_device
from .focus import focus
from .host_run import describe_holder
from .live_parts import LIVE_RESTS, UNDIVIDED
from .registry import OWNED_CATEGORIES
from .stack_shares import share_holdings, stack_shares

_PROCESSES = N_("processes on the device")


def holdings(evidence: Evidence, facts: FactSet, budgets: Sequence[Budget] = ()) -> tuple[Holding, ...]:
    """Largest first within a place: owners (by census, else snapshot, else category), processes, Python objects.

    Where owners are told by a census or a snapshot, those of each part of the place's budget add up to it.
    """
    evidence = focus(evidence)
    divided = {**_by_stacks(evidence, facts), **census_holdings(evidence)}
    of_devices = [row for row in _owners(facts) if row.where not in divided]
    for where, told in divided.items():
        budget = next((one for one in budgets if one.where in (where, reserved_by_torch(where)) and one.parts), None)
        of_devices += [*told, *(_rest(where, told, budget) if budget is not None else ())]
    rows = [*of_devices, *_processes(evidence, {row.where for row in of_devices}, budgets), *_objects(evidence)]
    places = {row.where: None for row in rows}
    return tuple(
        row for place in places for row in sorted((r for r in rows if r.where == place), key=lambda r: -r.bytes)
    )


def _by_stacks(evidence: Evidence, facts: FactSet) -> dict[str, tuple[Holding, ...]]:
    shares = {member: stack_shares(evidence, facts, member) for member in facts.members(Scope.DEVICE)}
    return {member: share_holdings(member, found) for member, found in shares.items() if found}


def _rest(where: str, rows: Sequence[Holding], budget: Budget) -> Iterator[Holding]:
    """What the budget counts in a part beside the rows: another moment's, or the rounding of a printed figure."""
    for part in budget.parts:
        held = sum(row.bytes for row in rows if row.category == part.name)
        if part.bytes > held and (held or part.name in LIVE_RESTS):
            yield Holding(where, N_("told by no owner"), part.bytes - held, 0, part.how_known, part.name)


def _owners(facts: FactSet) -> Iterator[Holding]:
    for member in facts.members(Scope.DEVICE):
        for name, label in OWNED_CATEGORIES:
            fact = facts.find(name, member)
            if fact is not None and isinstance(fact.value, int) and fact.value > 0:
                yield Holding(member, label, fact.value, 1, str(fact.source), label)
        top, size = facts.value("owner.top", member), facts.find("owner.top_bytes", member)
        if isinstance(top, str) and size is not None and isinstance(size.value, int):
            yield Holding(member, top, size.value, 1, str(size.source), UNDIVIDED)
        stack, gained = facts.value("growth.top_stack", member), facts.find("growth.top_stack_bytes", member)
        if isinstance(stack, str) and stack != top and gained is not None and isinstance(gained.value, int):
            count = facts.value("growth.top_stack_count", member)
            number = int(count) if isinstance(count, (int, float)) else 1
            yield Holding(
                member, N_("{stack} (grew)").format(stack=stack), gained.value, number, str(gained.source), UNDIVIDED
            )


def _processes(evidence: Evidence, divided: set[str], budgets: Sequence[Budget]) -> Iterator[Holding]:
    """The processes on each device, but for the failed one where what it holds is `divided` up already."""
    failed = {(device_member(device), record.pid) for device, record in speaking_records(evidence).items()}
    failed |= {(member, record.pid) for member, _, record, _ in speaking_censuses(evidence)}
    for index, readings in readings_by_device(evidence).items():
        reading = next((one for one in reversed(readings) if one.processes is not None), readings[-1])
        for process in reading.processes or ():
            told = device_member(index) in divided and (device_member(index), process.pid) in failed
            if process.used_bytes and not told:
                named = process.name or "unnamed"
                said = N_("process of {name}") if process.pid is None else N_("process {pid} ({name})")
                if process.own:
                    said = N_("this command's process {pid} ({name})")
                name = said.format(pid=process.pid, name=named)
                where, how = device_member(index), str(reading.source)
                kind = _part_of(process, [part.name for one in budgets if one.where == where for part in one.parts])
                yield Holding(where, name, process.used_bytes, 1, how, kind, (), KnownBy.MEASURED)


def _part_of(process: DeviceProcess, parts: Sequence[str]) -> str:
    """The part of the device's budget that a process is in; one that is divided up there is in several."""
    named = re.compile(rf"other process\b.*\bpid {process.pid}\b")
    general = (FOREIGN, IN_USE) if process.own is False else (IN_USE,)
    found = [part for part in parts if named.search(part)] + [part for part in general if part in parts]
    return found[0] if found else _PROCESSES


def _objects(evidence: Evidence) -> Iterator[Holding]:
    for run in evidence.runs:
        for exception in run.exceptions:
            for found in exception.large_objects:
                how = N_("measured by the probe")
                if not found.complete:
                    sampled = N_("measured by the probe (reckoned from a sample)")
                    how = sampled if found.extrapolated else N_("measured by the probe (a lower bound)")
                yield Holding(
                    "host", describe_holder(found), found.deep_bytes, found.length or 1, how, known_by=KnownBy.MEASURED
                )
