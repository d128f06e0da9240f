"""The most that a watched run held of each device and of the host, and how that is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..language import N_
from ..model.devices import DeviceReading
from ..model.host import HostSample
from ..model.run import AllocatorState, RunRecord
from .outcomes import HOST, Peak

_SETTLED_SECONDS = 1.0
"""The probe looks once a second and writes what has changed: a figure that stood so long was the figure."""

Seen = Sequence[tuple[float, int]]
"""Bytes held, by time."""
States = Mapping[int, Sequence[AllocatorState]]
"""What the allocators of a device said, by process, in order of time."""


def peaks_of(run: RunRecord, before: Sequence[DeviceReading] = ()) -> tuple[Peak, ...]:
    """Of each device that the command was seen on, then of the host. `before`: the devices before it began."""
    states = _states_of(run)
    if not run.device_numbers_known and run.device_readings:
        states = {}  # which card an allocator speaks of is not known
    found = []
    for index in sorted({reading.index for reading in run.device_readings} | set(states)):
        readings = [reading for reading in run.device_readings if reading.index == index]
        found.append(_device_peak(index, readings, states.get(index, {}), _before(readings, before), run))
    found.append(_host_peak(run))
    return tuple(peak for peak in found if peak is not None)


# --- devices -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Holder:
    """Somebody of the command who held memory on a device, from then to then."""

    first: float
    last: float
    bytes: int
    exact: bool
    allocated_bytes: int | None = None


def _device_peak(
    index: int,
    readings: Sequence[DeviceReading],
    states: States,
    before: DeviceReading | None,
    run: RunRecord,
) -> Peak | None:
    ends = {process.pid for process in run.processes if process.ended_cleanly}
    own = _by_process(readings)
    if own:
        holders = [
            _holder(own.get(pid, []), {pid: states[pid]} if pid in states else {}, ends) for pid in {*own, *states}
        ]
    else:
        grown = _grown(readings, before)
        if not states and (_sees_all(readings) or not any(size for _time, size in grown)):
            return None  # nobody of the command was on it
        holders = [_holder(grown, states, ends)]
    exact = all(holder.exact for holder in holders)
    held, allocated = max((_together(holders, holder.first) for holder in holders), key=lambda pair: pair[0])
    total, available = _room(index, readings, before, run)
    return Peak(
        where=f"cuda:{index}",
        bytes=held,
        known=_how_known(bool(own), exact, bool(states), bool(readings)),
        exact=exact,
        total_bytes=total,
        available_bytes=available,
        allocated_bytes=allocated,
        squeezed=any((state.retries or 0) > 0 for told in states.values() for state in told),
        name=next((reading.name for reading in readings if reading.name), None),
    )


def _holder(seen: Seen, states: States, ended: set[int]) -> _Holder:
    """`seen`: what the driver said was held; `states`: what the allocators of these processes said of their part.

    The driver is read now and then, an allocator keeps its own peak. What is held beside the allocator (context,
    libraries) is the difference at a time for which both are known.
    """
    highest = max((size for _time, size in seen), default=0)
    times = [time for time, size in seen if size]
    if not states:
        return _Holder(min(times, default=0.0), max(times, default=0.0), highest, exact=False)
    times += [state.time_seconds for told in states.values() for state in told]
    reserved = sum(_highest(told, _reserved_peak) for told in states.values())
    allocated = sum(_highest(told, lambda state: state.peak_allocated_bytes) for told in states.values())
    beside = []
    for time, size in seen:
        standing = [_standing(told, time) for told in states.values()]
        if size and None not in standing:
            beside.append(size - sum(each for each in standing if each is not None))
    rest = max(beside, default=0)
    whole = all(pid in ended and not _was_reset(told) for pid, told in states.items())
    return _Holder(
        first=min(times),
        last=max(times),
        bytes=max(reserved + max(rest, 0), highest),
        exact=whole and bool(beside) and rest >= 0,
        allocated_bytes=allocated or None,
    )


def _standing(told: Sequence[AllocatorState], time: float) -> int | None:
    """What an allocator had reserved at that time; None where it may have changed just then."""
    last = next((state for state in reversed(told) if state.time_seconds <= time), None)
    if last is None or last.reserved_bytes is None:
        return None
    later = next((state for state in told if state.time_seconds > time), None)
    if later is None or later.reserved_bytes == last.reserved_bytes or later.time_seconds - time > _SETTLED_SECONDS:
        return last.reserved_bytes
    return None


def _was_reset(told: Sequence[AllocatorState]) -> bool:
    """Whether the program set the allocator's own peak back, so that an earlier one may be lost."""
    peaks = [state.peak_reserved_bytes for state in told if state.peak_reserved_bytes is not None]
    return any(later < earlier for earlier, later in pairwise(peaks))


def _reserved_peak(state: AllocatorState) -> int | None:
    return max((size for size in (state.peak_reserved_bytes, state.reserved_bytes) if size is not None), default=None)


def _highest(told: Iterable[AllocatorState], figure: Callable[[AllocatorState], int | None]) -> int:
    return max((size for state in told if (size := figure(state)) is not None), default=0)


def _together(holders: Sequence[_Holder], time: float) -> tuple[int, int | None]:
    """The peaks of those who were there at that time: they may have been at once."""
    there = [holder for holder in holders if holder.first <= time <= holder.last]
    allocated = [holder.allocated_bytes for holder in there if holder.allocated_bytes is not None]
    return sum(holder.bytes for holder in there), sum(allocated) if allocated else None


def _by_process(readings: Sequence[DeviceReading]) -> dict[int, list[tuple[float, int]]]:
    """What each of the command's own processes held, where the driver names them with their sizes."""
    found: dict[int, list[tuple[float, int]]] = {}
    for reading in readings:
        for process in reading.processes or ():
            if process.own and process.pid is not None and process.used_bytes is not None:
                found.setdefault(process.pid, []).append((reading.time_seconds or 0.0, process.used_bytes))
    return found


def _grown(readings: Sequence[DeviceReading], before: DeviceReading | None) -> list[tuple[float, int]]:
    """By how much the card's use had grown, where its processes are not told."""
    base = before if before is not None else next(iter(readings), None)
    if base is None or base.used_bytes is None:
        return []
    used = [(reading.time_seconds or 0.0, reading.used_bytes) for reading in readings]
    return [(time, max(0, size - base.used_bytes)) for time, size in used if size is not None]


def _sees_all(readings: Sequence[DeviceReading]) -> bool:
    """Whether every process on the card was told, and told to be somebody else's."""
    return all(
        reading.processes is not None and all(process.own is False for process in reading.processes)
        for reading in readings
    )


def _before(readings: Sequence[DeviceReading], before: Sequence[DeviceReading]) -> DeviceReading | None:
    """The same card before the command began."""
    if not readings:
        return None
    uuid, index = readings[0].uuid, readings[0].index
    return next((each for each in before if (each.uuid == uuid if uuid is not None else each.index == index)), None)


def _room(
    index: int, readings: Sequence[DeviceReading], before: DeviceReading | None, run: RunRecord
) -> tuple[int | None, int | None]:
    """The card's size, and what others had left of it."""
    base = before if before is not None else next(iter(readings), None)
    if base is None or base.total_bytes is None or base.mig_mode:
        # A slice of a card (MIG) is the command's alone, and only the command knows its size.
        told = [each.total_bytes for process in run.processes for each in process.devices if each.index == index]
        return (told[0], told[0]) if told else (None, None)
    if base.free_bytes is None:
        return base.total_bytes, None if base.used_bytes is None else base.total_bytes - base.used_bytes
    return base.total_bytes, base.free_bytes + sum(each.used_bytes or 0 for each in base.processes or () if each.own)


def _states_of(run: RunRecord) -> dict[int, dict[int, list[AllocatorState]]]:
    """By device and process, in order of time."""
    found: dict[int, dict[int, list[AllocatorState]]] = {}
    at_failure = [record.state for record in run.device_ooms if record.state is not None]
    for state in sorted([*run.allocator_states, *at_failure], key=lambda each: each.time_seconds):
        if state.pid is not None:
            found.setdefault(state.device, {}).setdefault(state.pid, []).append(state)
    return found


def _how_known(by_process: bool, exact: bool, torch: bool, read: bool) -> str:
    if not read:
        return N_("at least: torch's own peak; context and libraries were not seen")
    who = (
        N_("the driver's figures of its processes") if by_process else N_("the card's use less what was in use before")
    )
    if exact:
        return N_("torch's own peak, and for the rest {who}").format(who=who)
    return (
        N_("at least: torch's last figures and {who}").format(who=who)
        if torch
        else N_("at least: {who}, read now and then").format(who=who)
    )


# --- the host ------------------------------------------------------------------------------------------------------


def _host_peak(run: RunRecord) -> Peak | None:
    sampled = max((sample.tree_rss_bytes or 0 for sample in run.samples), default=0)
    own = [process.rss_peak_bytes for process in run.processes if process.rss_peak_bytes is not None]
    held = max([sampled, *own])
    if not held:
        return None
    total, available, name = _host_room(run)
    exact = bool(own) and _is_alone(run)
    return Peak(
        where=HOST,
        bytes=held,
        known=N_("the kernel's own peak of the process")
        if exact
        else N_("at least: read {every}").format(every=_every(run)),
        exact=exact,
        total_bytes=total,
        available_bytes=available,
        name=name,
    )


def _is_alone(run: RunRecord) -> bool:
    """Whether the command is one process that told of itself, once what started it has gone (a shell, a launcher)."""
    if len(run.processes) != 1:
        return False
    begun = run.processes[0].started_seconds
    return all((sample.processes or 0) <= 1 for sample in run.samples if sample.time_seconds >= begun)


def _every(run: RunRecord) -> str:
    seconds = run.sample_interval_seconds
    return N_("now and then") if seconds is None else N_("every {seconds} s").format(seconds=f"{seconds:g}")


def _host_room(run: RunRecord) -> tuple[int | None, int | None, str | None]:
    """The limit that comes first, what of it was free as the command began, and its name."""
    first = run.samples[0] if run.samples else HostSample(time_seconds=0.0)
    held = first.tree_rss_bytes or 0
    limits: list[tuple[int, int, str]] = []
    whole = run.limits.memory_total_bytes or first.total_bytes
    if whole is not None and first.available_bytes is not None:
        limits.append((min(whole, first.available_bytes + held), whole, N_("the machine's memory")))
    cgroup = run.limits.cgroup_limit_bytes
    if cgroup is not None:
        used = max(0, (first.cgroup_used_bytes or 0) - held)
        limits.append((max(0, cgroup - used), cgroup, N_("the cgroup's limit")))
    own = (run.limits.address_space_limit_bytes, run.limits.data_limit_bytes)
    limits += [(limit, limit, N_("the process's own limit")) for limit in own if limit is not None]
    if not limits:
        return whole, None, None
    available, total, name = min(limits)
    return total, available, name
