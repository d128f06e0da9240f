"""What happened when: starts, phases, failed requests, retries, kills, as the timeline marks them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

from ..language import N_
from ..model.diagnosis import Incident, Moment, MomentKind
from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.run import AllocatorState, DeviceOomRecord, RunRecord
from ..model.source import Source
from ..model.units import format_bytes
from .deriver import device_member
from .focus import focus
from .host_errors import own_host_errors
from .incidents import of_process
from .until import was_killed

_Item = TypeVar("_Item")
_SAME_SECONDS = 1.0
"""Two witnesses of one failure date it at most so far apart."""
_MOST_OF_A_KIND = 12
"""More marks of one kind cannot be told apart: then the first and the last of them."""
_PHASES = {
    "load": N_("loading begins"),
    "profile": N_("profiling begins"),
    "kv-allocation": N_("the KV pool is allocated"),
    "graph-capture": N_("graph capture begins"),
    "warm-up": N_("warm-up begins"),
    "serving": N_("serving begins"),
    "sleep": N_("sleep begins"),
}


def moments(evidence: Evidence, incidents: Sequence[Incident]) -> tuple[Moment, ...]:
    """All that has a time, in its order; of `incidents` those that nothing else tells of."""
    told = focus(evidence)
    chosen = {(run.path, run.started_seconds) for run in told.runs}
    # of such a run also what it had caught
    runs = [run for run in evidence.runs if (run.path, run.started_seconds) in chosen]
    found = [moment for run in runs for moment in _of_run(run)]
    found += _of_events(told)
    found += [one for one in _of_snapshots(told) if not any(_is_of_failure(one, other) for other in found)]
    for incident in incidents:
        when = incident.when_seconds
        if when is not None and not any(_ended_badly(one) and abs(one.when_seconds - when) < 1 for one in found):
            where = None if incident.where.startswith("the ") else incident.where
            found.append(Moment(when, where, MomentKind.FAILURE, incident.cause, incident.source))
    return tuple(sorted(found, key=lambda moment: (moment.when_seconds, moment.kind is not MomentKind.RETRY)))


def _is_of_failure(one: Moment, other: Moment) -> bool:
    """Whether another witness tells of the same failure."""
    return (
        other.kind is MomentKind.FAILURE
        and other.where in (None, one.where)
        and abs(other.when_seconds - one.when_seconds) < _SAME_SECONDS
    )


def _ended_badly(moment: Moment) -> bool:
    return moment.kind in (MomentKind.FAILURE, MomentKind.KILL)


def _of_run(run: RunRecord) -> Iterator[Moment]:
    for process in run.processes:
        if process.rank is not None:
            what = N_("rank {rank} starts").format(rank=process.rank)
            yield Moment(process.started_seconds, None, MomentKind.PHASE, what, run.path)
    yield from _failures(run.device_ooms)
    yield from _retries(run)
    for error in _ends(list(own_host_errors(run))):
        what = of_process(error)
        yield Moment(error.time_seconds, "host", MomentKind.FAILURE, what, str(error.source))
    if run.ended_seconds is not None:
        killed = was_killed(run)
        what = N_("the command is killed") if killed else N_("the command ends")
        yield Moment(run.ended_seconds, None, MomentKind.KILL if killed else MomentKind.PHASE, what, run.path)


def _failures(records: Iterable[DeviceOomRecord]) -> Iterator[Moment]:
    """The failed requests of each device: the first, and those after it."""
    of_device: dict[int | None, list[DeviceOomRecord]] = {}
    for record in sorted(records, key=lambda record: record.time_seconds):
        of_device.setdefault(record.device, []).append(record)
    for device, failed in of_device.items():
        for record in _ends(failed):
            first = record is failed[0]
            if record.requested_bytes is None:
                what = N_("first out-of-memory error") if first else N_("out-of-memory error")
            else:
                said = N_("first out-of-memory error, {size} asked for") if first else N_("{size} refused")
                what = said.format(size=format_bytes(record.requested_bytes))
            where = None if device is None else device_member(device)
            yield Moment(record.time_seconds, where, MomentKind.FAILURE, what, str(record.source))


def _of_snapshots(evidence: Evidence) -> Iterator[Moment]:
    """The failed requests that the allocator's own history dates: of each device the first, and those after it."""
    for snapshot in evidence.snapshots:
        for device in sorted({oom.device for oom in snapshot.ooms}):
            failed = [oom for oom in snapshot.ooms if oom.device == device and oom.time_us is not None]
            for oom in _ends(sorted(failed, key=lambda oom: oom.time_us or 0)):
                what = N_("{size} refused").format(size=format_bytes(oom.requested_bytes))
                source = str(Source(path=snapshot.path, record="oom event"))
                where = device_member(device, snapshot.backend)
                yield Moment((oom.time_us or 0) / 1e6, where, MomentKind.FAILURE, what, source)


def _retries(run: RunRecord) -> Iterator[Moment]:
    """Where the allocator's count of retries rose: it gave its idle memory back and asked the driver again.

    The count is read only now and then. Every request fails after such a try, so a rise that is first read after a
    failure is dated by the failure.
    """
    for device in sorted({state.device for state in run.allocator_states}):
        states = [s for s in run.allocator_states if s.device == device and s.retries is not None]
        rises = [
            (_by_failure(run, before, after), (after.retries or 0) - (before.retries or 0))
            for before, after in pairwise(sorted(states, key=lambda state: state.time_seconds))
            if before.pid == after.pid and (after.retries or 0) > (before.retries or 0)
        ]
        for when, number in _ends(rises):
            what = N_("the allocator emptied its cache and asked again")
            if number > 1:
                what = N_("the allocator emptied its cache and asked again, {number} times").format(number=number)
            yield Moment(when, device_member(device), MomentKind.RETRY, what, run.path)


def _by_failure(run: RunRecord, before: AllocatorState, after: AllocatorState) -> float:
    between = (
        failed.time_seconds
        for failed in run.device_ooms
        if failed.device in (None, after.device)
        and failed.pid == after.pid
        and before.time_seconds < failed.time_seconds <= after.time_seconds
    )
    return min(between, default=after.time_seconds)


def _of_events(evidence: Evidence) -> Iterator[Moment]:
    dated = [event for event in evidence.events if event.time_seconds is not None]
    for event in _ends([e for e in dated if e.kind is EventKind.ENGINE_PHASE and e.word("edge") == "begin"]):
        what = _PHASES.get(event.word("phase") or "")
        if what:
            yield Moment(event.time_seconds or 0.0, None, MomentKind.PHASE, what, str(event.source))
    for kind, moment, what in (
        (EventKind.DEVICE_OOM, MomentKind.FAILURE, N_("device out of memory")),
        (EventKind.KERNEL_OOM, MomentKind.KILL, N_("killed by the kernel for want of memory")),
        (EventKind.PROCESS_KILLED, MomentKind.KILL, N_("process killed")),
        (EventKind.MEMORY_LIMIT_HIT, MomentKind.KILL, N_("a memory limit was hit")),
        (EventKind.RECOVERED, MomentKind.RECOVERED, N_("the program went on")),
        (EventKind.ENGINE_PREEMPTED, MomentKind.RETRY, N_("the engine preempted requests")),
    ):
        for event in _ends([e for e in dated if e.kind is kind]):
            where = None if event.device is None else device_member(event.device, event.word("backend") or "cuda")
            yield Moment(event.time_seconds or 0.0, where, moment, what, str(event.source))


def _ends(items: Sequence[_Item]) -> Sequence[_Item]:
    return items if len(items) <= _MOST_OF_A_KIND else (items[0], items[-1])
