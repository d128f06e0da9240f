"""One side of a comparison: what each process held on each device at one moment, and what it ran with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..allocator.owners import ownership_of
from ..allocator.stacks import python_frames
from ..errors import InputRefused
from ..facts import derive_facts
from ..facts.allocator import latest_oom, moment
from ..facts.budget import budgets
from ..facts.census import words
from ..facts.deriver import device_member
from ..facts.device_records import latest_device_records
from ..facts.focus import focus
from ..facts.live_parts import part_of
from ..facts.unheld import read_unheld
from ..language import N_, _, pgettext
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.run import Census, DeviceOomRecord, RunRecord
from ..model.snapshot import Frame, Snapshot
from ..model.units import format_bytes
from ..readers.inputs import Progress, read_inputs
from ..readers.log.launch import launch_options

Stack = tuple[Frame, ...]

SETTING_GROUPS = ("command", "environment", "version", "allocator", "machine")
"""In the order in which people look for what they changed."""

_PYTHON = re.compile(r"/lib/python([23]\.[0-9]+)/")
_OF_PROCESS = re.compile(r"(?:^|/)snapshots/([0-9]+)-[0-9]+\.")


@dataclass(frozen=True)
class Held:
    """Live bytes and the blocks they are in."""

    bytes: int
    count: int

    def __add__(self, other: Held) -> Held:
        return Held(self.bytes + other.bytes, self.count + other.count)


NOTHING = Held(0, 0)


@dataclass(frozen=True)
class Owners:
    """Who held the live bytes of a place, counted in one way: every live byte is in one owner and one category."""

    by_owner: Mapping[str, Held]
    by_category: Mapping[str, Held]


@dataclass(frozen=True)
class Place:
    """One process on one device (or the host, where a budget is all there is). None: not counted in this way."""

    where: str
    moment: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The allocator's own figures: allocated, reserved, idle in blocks, most allocated, request …, as far as known."""
    budget: Mapping[str, int] = field(default_factory=dict)
    """All memory of the device, the host or a limit by parts, and `in all`; empty where that is not known."""
    rank: int | None = None
    pid: int | None = None
    total_bytes: int | None = None
    """Of the card, where that is known."""
    form: tuple[str, ...] = ()
    """What the snapshot's form tells of the torch that wrote it; empty where there is no snapshot."""
    has_failed: bool = False
    """The moment is that of a failed request."""
    shares_device: bool = False
    """Another process of this side holds memory on the same device."""
    census: Owners | None = None
    stacks: Owners | None = None
    by_stack: Mapping[Stack, Held] | None = None

    @property
    def is_device(self) -> bool:
        """Whether an allocator's own figures are known, not a budget alone."""
        return bool(self.sizes)

    @property
    def reach_bytes(self) -> int | None:
        """What the process could have in all: its segments and what was free, where both are known."""
        reserved, free = self.sizes.get("reserved"), self.sizes.get("free on the device")
        return None if reserved is None or free is None else reserved + free

    @property
    def name(self) -> str:
        """`rank 1 on cuda:1`."""
        if self.rank is not None:
            return N_("rank {rank} on {place}").format(rank=self.rank, place=self.where)
        return (
            self.where
            if self.pid is None or not self.shares_device
            else N_("process {pid} on {place}").format(pid=self.pid, place=self.where)
        )


@dataclass(frozen=True)
class Side:
    """One input. A group of `settings` that was not recorded at all is missing."""

    path: str
    places: tuple[Place, ...]
    settings: Mapping[str, Mapping[str, str]]
    problems: tuple[str, ...] = ()
    """What of it could not be read."""


def read_side(path: Path, progress: Progress | None = None) -> Side:
    """Read a snapshot, an incident bundle, a log or a folder of these.

    Raises InputRefused when nothing in it tells of memory.
    """
    evidence = read_inputs([path], progress=progress)
    refused = [f"{one.path}: {one.why}" for one in evidence.inputs if one.status == "refused"]
    if len(refused) == len(evidence.inputs):
        raise InputRefused(f"{path}: " + "; ".join(one.why for one in evidence.inputs if one.why))
    facts = derive_facts(evidence)
    whole = _budgets(evidence, facts)
    devices = tuple(
        place if place.shares_device else replace(place, budget=whole.get(place.where, {}))
        for place in (_with_total(one, facts) for one in _of_devices(evidence))
        if place.sizes
    )
    shown = {place.where for place in devices}
    others = (Place(where, "", budget=parts) for where, parts in whole.items() if where.split(" ")[0] not in shown)
    places = (*devices, *others)
    if not places:
        raise InputRefused(
            _("{path}: nothing in it tells how much memory was held; give a snapshot or a bundle").format(path=path)
        )
    return Side(
        path=str(path),
        places=places,
        settings=_settings(evidence, facts),
        problems=tuple(refused),
    )


def _with_total(place: Place, facts: FactSet) -> Place:
    total = place.sizes.get("the device") or facts.size("oom.total_bytes", place.where)
    total = total or facts.size("device.total_bytes", place.where)
    sizes = place.sizes if total is None else {**place.sizes, N_("the device"): total}
    return replace(place, total_bytes=total, sizes=sizes)


# --- devices ------------------------------------------------------------------------------------------------------


def _of_devices(evidence: Evidence) -> tuple[Place, ...]:
    """The last failure (without one, the last snapshot) of each process on each device, by rank and device."""
    records = latest_device_records(evidence)
    ranks = {process.pid: process.rank for run in evidence.runs for process in run.processes}
    latest: dict[tuple[str, int | None], Place] = {}
    for snapshot in evidence.snapshots:
        for device in snapshot.devices:
            record = next((one for one in records if _took(one, snapshot) and one.device == device), None)
            pid = record.pid if record is not None else _pid(snapshot)
            rank = record.rank if record is not None and record.rank is not None else ranks.get(pid or -1)
            place = _place(snapshot, device, record, pid, rank)
            key = (place.where, pid if pid is not None else id(snapshot))
            latest[key] = place
    for record in records:
        if record.device is not None and record.census is not None:
            where = device_member(record.device)
            if (where, record.pid) not in latest:
                latest[(where, record.pid)] = _of_census_alone(record, record.census, where)
    on_device = Counter(place.where for place in latest.values())
    places = [replace(place, shares_device=on_device[place.where] > 1) for place in latest.values()]
    return tuple(sorted(places, key=lambda one: (one.rank is None, one.rank or 0, one.where, one.pid or 0)))


def _took(record: DeviceOomRecord, snapshot: Snapshot) -> bool:
    return record.snapshot_path is not None and snapshot.path.endswith(record.snapshot_path)


def _pid(snapshot: Snapshot) -> int | None:
    found = _OF_PROCESS.search(snapshot.path)
    return int(found[1]) if found else None


def _place(snapshot: Snapshot, device: int, record: DeviceOomRecord | None, pid: int | None, rank: int | None) -> Place:
    ownership = ownership_of(snapshot, device)
    allocator, oom = ownership.replay, latest_oom(snapshot, device)
    event = moment(ownership, oom)
    live, reserved = allocator.live_at(event), allocator.reserved_at(event)
    sizes = {N_("allocated"): live, N_("reserved"): reserved, N_("idle in blocks"): reserved - live}
    if allocator.has_history:
        sizes[N_("most allocated")] = allocator.peak_bytes
    if oom is not None:
        sizes[N_("request that failed")] = oom.requested_bytes
        if oom.free_bytes is not None:
            sizes[N_("free on the device")] = oom.free_bytes
        when = _("when a request of {requested} failed").format(requested=format_bytes(oom.requested_bytes))
    else:
        when = _("at the end of the recording") if allocator.has_history else _("when the snapshot was taken")
    if record is not None and record.device_total_bytes is not None:
        sizes[N_("the device")] = record.device_total_bytes

    owners = {one.name: Held(one.bytes, one.count) for one in ownership.owners(event)}
    size, count = ownership.live_by_kind(event)
    categories: dict[str, Held] = {}
    stacks: dict[Stack, Held] = {}
    for share in ownership.shares(event):
        # One recording may show when such blocks are freed, the other may not: compared is what both can tell.
        part = share.part_by_stack
        categories[part] = categories.get(part, NOTHING) + Held(share.bytes, share.count)
    for kind, frames in enumerate(snapshot.stacks):
        if count[kind]:
            stack = _own_frames(frames)
            stacks[stack] = stacks.get(stack, NOTHING) + Held(int(size[kind]), int(count[kind]))
    return Place(
        where=device_member(device, snapshot.backend),
        moment=when,
        sizes=sizes,
        rank=rank,
        pid=pid,
        form=(snapshot.schema, *sorted(map(str, snapshot.settings))),
        has_failed=oom is not None,
        census=_of_census(record, device, snapshot),
        stacks=Owners(owners, categories) if stacks else None,
        by_stack=stacks or None,
    )


def _own_frames(stack: Stack) -> Stack:
    """Without native frames, where there are others: the same line reaches the allocator in more ways than one."""
    return tuple(python_frames(stack)) or stack


def _of_census(record: DeviceOomRecord | None, device: int, snapshot: Snapshot | None) -> Owners | None:
    """By the probe's census, where it came to its end: a part of one would make what it missed look freed."""
    census = record.census if record is not None else None
    if census is None or not census.complete:
        return None
    owners: dict[str, Held] = {}
    categories: dict[str, Held] = {}
    rows: list[tuple[str, str, Held]] = [
        (words(group), part_of(group), Held(group.bytes, group.count))
        for group in census.groups
        if group.device == device
    ]
    for counted in census.devices:
        if counted.device == device:
            rows += [(one.owner, one.part, Held(one.bytes, one.count)) for one in read_unheld(counted, snapshot)]
    for owner, category, held in rows:
        owners[owner] = owners.get(owner, NOTHING) + held
        categories[category] = categories.get(category, NOTHING) + held
    return Owners(owners, categories) if rows else None


def _of_census_alone(record: DeviceOomRecord, census: Census, where: str) -> Place:
    state, sizes = record.state, {}
    if state is not None:
        known = {N_("allocated"): state.allocated_bytes, N_("reserved"): state.reserved_bytes}
        sizes = {name: size for name, size in known.items() if size is not None}
    if not sizes:
        held = [one.held_bytes for one in census.devices if one.device == record.device and one.held_bytes is not None]
        sizes = {N_("held by Python objects"): sum(held)} if held else {}
    if record.device_free_bytes is not None:
        sizes[N_("free on the device")] = record.device_free_bytes
    if record.device_total_bytes is not None:
        sizes[N_("the device")] = record.device_total_bytes
    request = record.requested_bytes
    return Place(
        where=where,
        moment=_("when it failed")
        if request is None
        else _("when a request of {request} failed").format(request=format_bytes(request)),
        sizes=sizes,
        rank=record.rank,
        pid=record.pid,
        has_failed=True,
        census=_of_census(record, record.device or 0, None),
    )


# --- budgets -------------------------------------------------------------------------------------------------------


def _budgets(evidence: Evidence, facts: FactSet) -> dict[str, Mapping[str, int]]:
    """Of devices, of the host and of limits, by place: those whose parts were measured."""
    return {
        budget.where: {
            **{part.name: part.bytes for part in budget.parts},
            N_("not attributed"): budget.unattributed_bytes,
            N_("in all"): budget.total_bytes,
        }
        for budget in budgets(evidence, facts)
        if budget.parts
    }


# --- what it ran with ----------------------------------------------------------------------------------------------


def _settings(evidence: Evidence, facts: FactSet) -> Mapping[str, Mapping[str, str]]:
    told = focus(evidence)
    groups: dict[str, Mapping[str, str]] = {}
    if told.command:
        groups["command"] = dict(_command(told.command))
    versions = {
        name: str(value)
        for name, fact in (("torch", "torch.version"), (str(facts.value("engine.name")), "engine.version"))
        if (value := facts.value(fact)) is not None
    }
    versions.update(_merged(run.versions for run in told.runs))
    python = {found[1] for snapshot in told.snapshots for found in map(_PYTHON.search, _files(snapshot)) if found}
    if len(python) == 1:
        versions.setdefault("python", python.pop())
    if versions:
        groups["version"] = versions
    if told.runs:
        groups["environment"] = _merged(run.variables for run in told.runs)
        groups["machine"] = {**_merged(run.host for run in told.runs), **_limits(told.runs)}
    allocator = _merged({k: str(v) for k, v in snapshot.settings.items()} for snapshot in told.snapshots)
    if allocator:
        groups["allocator"] = allocator
    return groups


def _files(snapshot: Snapshot) -> Iterable[str]:
    """The files of all frames, each once."""
    return dict.fromkeys(frame.file for stack in snapshot.stacks for frame in stack)


def _command(line: str) -> Iterator[tuple[str, str]]:
    """The options by name, then the whole line: what is no option differs there."""
    for name, value in launch_options(line):
        yield f"--{name}", value if value is not None else pgettext("value", "given")
    yield "line", line


def _limits(runs: Sequence[RunRecord]) -> Mapping[str, str]:
    found = {}
    for run in runs:
        for name, size in (
            ("memory", run.limits.memory_total_bytes),
            (N_("cgroup limit"), run.limits.cgroup_limit_bytes),
            (N_("address space limit"), run.limits.address_space_limit_bytes),
        ):
            if size is not None:
                found[name] = format_bytes(size)
    return found


def _merged(mappings: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {key: value for mapping in mappings for key, value in mapping.items()}
