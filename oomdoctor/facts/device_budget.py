"""The budget of a device: the driver's reserve, every process on it, and of the one that failed all that it holds.

total = the driver's reserve + free + other processes + context and libraries (the driver's number for the process minus
what torch had reserved) + live tensors by what they are + freed and waiting + idle + what is not attributed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..allocator.owners import WAITING, Share
from ..language import N_
from ..model.devices import DeviceProcess, DeviceReading
from ..model.diagnosis import Budget
from ..model.evidence import Evidence
from ..model.facts import FactSet, Scope
from ..model.run import AllocatorState, DeviceOomRecord, RunRecord
from ..model.units import format_bytes
from .closing import Values, Wanted, close
from .contexts import context_at
from .deriver import device_member
from .device_records import processes_beside, reading_at_failure, run_of, speaking_records
from .devices import last_reading
from .live_parts import UNDIVIDED, Counted, counted_parts, live_parts
from .own_process import CONTEXT_ALLOWANCE_BYTES
from .stack_shares import stack_shares

RESERVE = N_("the driver's reserve")
FREE = "free"
BEYOND_CAP = N_("free beyond the cap of the process")
CONTEXT = N_("context and libraries")
PENDING = WAITING
IDLE = N_("idle in blocks of the allocator")
IDLE_IN_GRAPHS = N_("idle in graph pools")
FOREIGN = N_("other processes")
IN_USE = N_("in use by processes on the device")
_MOST_RESERVE = 1 / 8
"""A total that lacks more of the driver's own is not that of the whole card: a slice of it (MIG), or another card."""
_MOST_PROCESSES = 8
_LARGEST_NAMED = 2
_STATE_SECONDS = 2.0


def device_budgets(evidence: Evidence, facts: FactSet) -> tuple[Budget, ...]:
    """One for each device, those that failed first; what torch reserved, where nothing is known of the device."""
    records, counted = speaking_records(evidence), counted_parts(evidence)
    looks = {device_member(index): reading for index, reading in last_reading(evidence).items()}
    found = []
    for member in sorted(facts.members(Scope.DEVICE), key=lambda m: not facts.value("oom.failed", m)):
        record = next((one for index, one in records.items() if device_member(index) == member), None)
        device = _Device(evidence, facts, member, record, looks.get(member), counted.get(member))
        found.append(device.failed() if facts.value("oom.failed", member) else device.working())
        found.append(device.reserved() if found[-1] is None or not found[-1].parts else None)
    return tuple(budget for budget in found if budget is not None)


@dataclass(frozen=True)
class _Device:
    """What is known of one device."""

    evidence: Evidence
    facts: FactSet
    member: str
    record: DeviceOomRecord | None
    look: DeviceReading | None
    """The last one before the failure, or at it."""
    counted: Counted | None

    @property
    def value(self) -> Values:
        return Values(self.facts, self.member)

    def _shares(self) -> tuple[Share, ...] | None:
        return stack_shares(self.evidence, self.facts, self.member)

    def failed(self) -> Budget | None:
        """At the failure."""
        value, run = self.value, None if self.record is None else run_of(self.evidence, self.record)
        reading = None if run is None or self.record is None else reading_at_failure(run, self.record)
        total, reserve, how = self._total(reading or self.look)
        if total is None:
            return None
        free, own = value("oom.free_bytes"), value("oom.process_used_bytes")
        if reading is not None and self.record is not None and self.record.requested_bytes is None:
            free = reading.free_bytes  # of the same moment as all else: the error had come up to the top by then
        inside = list(self._inside())
        rest = None if free is None else total - (reserve or 0) - free
        wanted: list[Wanted] = [(RESERVE, reserve, how), *self._free(free), *inside]
        if self.record is not None and run is not None and reading is not None and rest is not None and own is not None:
            wanted += [self._context(), *_beside(run, self.record, reading, rest - own)]
        else:
            wanted += self._others_by_figures(rest, own)
        return close(self.member, total, wanted, value("oom.requested_bytes"))

    def _total(self, reading: DeviceReading | None) -> tuple[int | None, int | None, str]:
        """The driver's total, what it keeps of it for itself, and how that is known."""
        seen, driver = self.value("oom.total_bytes"), self.value("device.total_bytes")
        if reading is not None and reading.total_bytes is not None:
            driver = reading.total_bytes
        kept = None if reading is None else reading.reserved_by_driver_bytes
        if driver is None or driver <= 0:
            return seen if seen and seen > 0 else None, None, ""
        if seen is None:
            return driver, kept, N_("measured by NVML")
        if self.value.flag("device.mig") or not 0 <= driver - seen <= _MOST_RESERVE * driver:
            return seen, None, ""
        return driver, driver - seen, N_("computed: NVML's total - CUDA's")

    def _free(self, free: int | None) -> Iterator[Wanted]:
        how = self.value.how("oom.free_bytes")
        allowed, reserved = self.value("oom.allowed_bytes"), self.value("oom.reserved_bytes")
        room = free if free is None or None in (allowed, reserved) else max(0, (allowed or 0) - (reserved or 0))
        if free is None or room is None or room >= free:
            yield FREE, free, how
            return
        yield FREE, room, N_("computed: what the cap of {value} leaves").format(value=format_bytes(allowed or 0))
        yield BEYOND_CAP, free - room, N_("computed: the rest of what is free on the device")

    def _inside(self) -> Iterator[Wanted]:
        """What torch's allocator holds in the failed process."""
        value = self.value
        allocated, active = value("oom.allocated_bytes"), value("oom.active_bytes")
        private, idle = value("oom.private_pool_bytes"), value("oom.reserved_unallocated_bytes")
        held, pending = 0, 0
        if allocated is not None:
            told_by = N_("counted by the allocator") if self.record is not None else N_("printed by the allocator")
            parts = live_parts(allocated, self.counted, self._shares(), told_by)
            held, pending = sum(size for _, size, _ in parts), max(0, (active or 0) - allocated)
            yield from parts
        yield PENDING, pending, N_("computed: active - allocated")
        yield IDLE_IN_GRAPHS, private, self._told_by("oom.private_pool_bytes")
        reserved, how = value("oom.reserved_bytes"), self._told_by("oom.reserved_unallocated_bytes")
        if reserved is not None and allocated is not None:
            idle = max(0, reserved - held - pending - (private or 0))
            how = N_("computed: reserved - live - waiting")
            if private:
                how = N_("computed: reserved - live - waiting - in graph pools")
        elif idle is not None:
            idle -= pending
        yield IDLE, idle, how

    def _told_by(self, name: str) -> str:
        return self.value.how(
            name, N_("measured by the snapshot") if self.record is not None else N_("printed by the allocator")
        )

    def _context(self) -> Wanted:
        size, own, reserved = map(
            self.value, ("oom.outside_allocator_bytes", "oom.process_used_bytes", "oom.reserved_bytes")
        )
        if size is None and own is not None and reserved is not None:
            size = own - reserved
        how = N_("printed by the program") if own is None else N_("computed: NVML's number for this process - reserved")
        return CONTEXT, size, how

    def _others_by_figures(self, rest: int | None, own: int | None) -> Iterator[Wanted]:
        """By a message's figures, without a look at the processes at that moment.

        Only what somebody lists is another process's. What is left beyond a context stays unattributed: nobody knows
        how much of it is this process's own.
        """
        value = self.value
        reserved, siblings = value("oom.reserved_bytes"), value("oom.sibling_bytes")
        of_process = own if own is not None else reserved
        room = None if rest is None or of_process is None else max(0, rest - of_process - (siblings or 0))
        foreign, how = self._listed(room)
        if own is not None or value("oom.outside_allocator_bytes") is not None:
            yield self._context()
        elif room is not None and 0 <= room - (foreign or 0) <= CONTEXT_ALLOWANCE_BYTES:
            bound = "" if value.flag("oom.foreign_measured") else "; " + N_("other processes may be in it")
            yield CONTEXT, room - (foreign or 0), N_("computed: in use - reserved") + bound
        yield N_("other processes of this command"), siblings, value.how("oom.sibling_bytes")
        yield FOREIGN, foreign, how

    def _listed(self, room: int | None) -> tuple[int | None, str]:
        """What other processes hold that the message, else a table of the device, lists."""
        by_message, by_table = self.value("oom.foreign_listed_bytes"), self.value("device.foreign_bytes")
        if by_message or by_table is None:
            return by_message, self.value.how("oom.foreign_listed_bytes")
        if room is None or by_table <= room:
            return by_table, N_("listed in a table of the device")
        how = N_("computed: the rest of what was in use; a table of the device lists {seen}")
        return room, how.format(seen=format_bytes(by_table))

    def working(self) -> Budget | None:
        """A device on which torch's allocator did not fail, as the last look at it shows it."""
        value, look = self.value, self.look
        total, reserve, how = self._total(look)
        if total is None:
            return None
        used = value("device.used_bytes")
        wanted: list[Wanted] = [
            (RESERVE, reserve, how),
            (FREE, value("device.free_bytes"), value.how("device.free_bytes")),
        ]
        own = [p for p in (look.processes if look is not None else None) or () if p.own and p.used_bytes is not None]
        run = next((run for run in self.evidence.runs if look in run.device_readings), None)
        if run is not None and look is not None and own:
            for process in own:
                wanted += self._of_process(run, look, process, alone=len(own) == 1)
        elif used is not None:
            foreign = value("device.foreign_bytes")
            wanted.append((IN_USE, used - (foreign or 0), "measured" if foreign is None else "computed"))
        wanted.append((FOREIGN, value("device.foreign_bytes"), value.how("device.foreign_bytes")))
        return close(self.member, total, wanted)

    def _of_process(self, run: RunRecord, look: DeviceReading, process: DeviceProcess, alone: bool) -> Iterator[Wanted]:
        used, state = process.used_bytes or 0, _state_at(run, look, process.pid)
        live, reserved = (state.allocated_bytes, state.reserved_bytes) if state is not None else (None, None)
        if not alone or live is None or reserved is None or not live <= reserved <= used:
            yield (
                (N_("this command: {process}") if alone else N_("process of this command: {process}")).format(
                    process=_name(run, process)
                ),
                used,
                N_("measured by NVML"),
            )
            return
        pending = max(0, (state.active_bytes or live) - live) if state is not None else 0
        counted = self.counted if self.counted is not None and self.counted.pid == process.pid else None
        if counted is not None and abs(sum(size for _, size, _ in counted.parts) - live) <= 0.01 * reserved:
            parts = counted.parts
        else:
            parts = ((UNDIVIDED, live, N_("counted by the allocator; no census or snapshot says whose")),)
        yield from parts
        yield PENDING, pending, N_("computed: active - allocated")
        inside = sum(size for _, size, _ in parts) + pending
        context = context_at(run, look.index, process.pid, look.time_seconds or 0.0)
        if context is None:
            context = used - reserved
        # The look and the allocator's figure are of different moments: what came in between was reserved.
        context = min(context, used - inside)
        yield IDLE, used - context - inside, N_("computed: NVML's number for this process - context - live - waiting")
        yield CONTEXT, context, N_("computed: NVML's number for this process - reserved")

    def reserved(self) -> Budget | None:
        """What torch had reserved on a device of which nothing else is known: live by category, and idle."""
        value, failed = self.value, self.value.flag("oom.failed")
        if failed and not value.flag("allocator.failing_request_in_snapshot"):
            return None
        moment = "oom" if failed else "allocator"
        reserved, allocated = value(f"{moment}.reserved_bytes"), value(f"{moment}.allocated_bytes")
        if reserved is None or reserved <= 0 or allocated is None:
            return None
        active = value("oom.active_bytes") if failed else None
        pending = active - allocated if active is not None else value("allocator.pending_free_bytes") or 0
        parts = live_parts(allocated, None, self._shares(), N_("measured by the snapshot"))
        private = value("allocator.private_idle_bytes") or 0
        wanted: list[Wanted] = [
            *parts,
            (PENDING, pending, N_("measured by the snapshot")),
            (IDLE_IN_GRAPHS, private, N_("measured by the snapshot")),
            (IDLE, reserved - allocated - pending - private, "computed"),
        ]
        return close(reserved_by_torch(self.member), reserved, wanted, value("oom.requested_bytes"))


def reserved_by_torch(member: str) -> str:
    """The place of a budget of what torch had reserved on a device of which nothing else is known."""
    return f"{member} reserved by torch"


def _beside(run: RunRecord, record: DeviceOomRecord, reading: DeviceReading, left: int) -> Iterator[Wanted]:
    """The other processes on the device, by the look at the failure; `left`: what they held when the request failed.

    Who takes or gives back memory between the failure and the look is shown as it stood at the failure.
    """
    related, strangers = processes_beside(record, reading)
    sizes = [process.used_bytes for process in (*related, *strangers)]
    measured = all(size is not None for size in sizes)
    seen = sum(size or 0 for size in sizes)
    if related and not strangers and len(related) == 1 and measured:
        yield (
            N_("other process of this command: {process}").format(process=_name(run, related[0])),
            left,
            _measured(left, seen),
        )
        return
    if seen > left or not measured:
        name = N_("other processes of this command") if related and not strangers else FOREIGN
        yield name, left, N_("computed: the rest of what was in use") + _named(strangers or related)
        return
    yield from _siblings(run, related)
    if strangers:
        others = sum(process.used_bytes or 0 for process in related)
        yield FOREIGN, left - others, _measured(left, seen) + _named(strangers)


def _measured(left: int, seen: int) -> str:
    if left == seen:
        return N_("measured by NVML")
    return N_("computed: the rest of what was in use; a moment later NVML read {seen}").format(seen=format_bytes(seen))


def _siblings(run: RunRecord, related: Sequence[DeviceProcess]) -> Iterator[Wanted]:
    ordered = sorted(related, key=lambda process: -(process.used_bytes or 0))
    for process in ordered[:_MOST_PROCESSES]:
        yield (
            N_("other process of this command: {process}").format(process=_name(run, process)),
            process.used_bytes,
            N_("measured by NVML"),
        )
    rest = ordered[_MOST_PROCESSES:]
    size = sum(process.used_bytes or 0 for process in rest)
    yield N_("other processes of this command: {rest} smaller ones").format(rest=len(rest)), size, "measured by NVML"


def _name(run: RunRecord, process: DeviceProcess) -> str:
    rank = next((one.rank for one in run.processes if one.pid == process.pid), None)
    return f"pid {process.pid}" if rank is None else f"rank {rank} (pid {process.pid})"


def _named(processes: Sequence[DeviceProcess]) -> str:
    """The largest by name."""
    ordered = sorted(processes, key=lambda process: -(process.used_bytes or 0))[:_LARGEST_NAMED]
    return "".join(f"; {(one.name or 'unnamed').rsplit('/', 1)[-1]} (pid {one.pid})" for one in ordered)


def _state_at(run: RunRecord, look: DeviceReading, pid: int | None) -> AllocatorState | None:
    """What torch's allocator held in the process about the time of a look: the nearest of its states."""
    when = look.time_seconds
    states = [s for s in run.allocator_states if (s.pid, s.device) == (pid, look.index)]
    if when is None or not states:
        return None
    nearest = min(states, key=lambda state: abs(state.time_seconds - when))
    return nearest if abs(nearest.time_seconds - when) <= _STATE_SECONDS else None
