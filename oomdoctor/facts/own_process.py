"""Which of the processes that a message or a table lists is the one that failed; only the others are neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..language import N_
from ..model.devices import DeviceProcess, DeviceReading
from ..model.events import FieldValue, LogEvent
from ..model.units import GIB, MIB

CONTEXT_ALLOWANCE_BYTES = GIB
"""At most this much of the unexplained bytes is taken for the process's own context and libraries.

A context takes 0.2-0.7 GiB with lazy loading, up to about 1 GiB before (CUDA 11.7 and older).
"""
ROUNDING_BYTES = 16 * MIB
"""Two figures of a message, each rounded to 0.01 GiB, may differ by this much and agree."""
_SAME_USE = 0.05
"""A table that shows the device as full as the message does, to this share of it, is of the failure's moment."""

Entry = tuple[FieldValue, ...]
"""Of the message's list: a process id or None, and its bytes."""


def process_name(name: str | None, pid: int | None) -> str:
    """`python (pid 42)`, or the name alone where no pid is listed."""
    name = name or "unnamed"
    return name if pid is None else N_("{name} (pid {pid})").format(name=name, pid=pid)


def reserved_by_message(event: LogEvent) -> int | None:
    """The segments of the failed process; a message may print what is live and what is idle instead."""
    reserved, live, idle = map(event.size, ("reserved_bytes", "allocated_bytes", "reserved_unallocated_bytes"))
    return live + idle if reserved is None and live is not None and idle is not None else reserved


def held_by_message(event: LogEvent) -> int | None:
    """Its segments, or what is live of them: the message may be cut after that."""
    reserved = reserved_by_message(event)
    return event.size("allocated_bytes") if reserved is None else reserved


def printed_size(event: LogEvent) -> int | None:
    """What the message says that this process has in use; None where NVML could not tell (WSL, some containers)."""
    own, reserved = event.size("process_used_bytes"), reserved_by_message(event)
    return None if own is not None and reserved is not None and own + ROUNDING_BYTES < reserved else own


def listed_processes(event: LogEvent) -> tuple[Entry, ...]:
    """The processes that the message lists beside this one, or all of them where it did not know its own."""
    listed = event.fields.get("other_processes")
    return tuple(entry for entry in listed if isinstance(entry, tuple)) if isinstance(listed, tuple) else ()


def own_entry(event: LogEvent, entries: Sequence[Entry]) -> Entry | None:
    """The failed process itself among them, as a container's message lists it under the host's number.

    By the number that the line was printed under; else it is at least as large as the segments of the process, and
    either within the allowance of them or too large to stand beside them on the device.
    """
    numbered = next((entry for entry in entries if event.pid is not None and entry[0] == event.pid), None)
    if numbered is not None and printed_size(event) is None:
        return numbered
    held, total, free = held_by_message(event), event.size("total_bytes"), event.size("free_bytes")
    if printed_size(event) is not None or held is None or total is None or free is None:
        return None
    return next((entry for entry in entries if _is_self(size_of(entry), held, total - free)), None)


def room_for_others(event: LogEvent) -> int | None:
    """The most that other processes can hold by the message: what is neither free nor held by the one that failed.

    Each figure is rounded, and what is free was read a moment before the list.
    """
    held, total, free = held_by_message(event), event.size("total_bytes"), event.size("free_bytes")
    if held is None or total is None or free is None:
        return None
    return max(0, total - free - held) + max(ROUNDING_BYTES, total // 50)


def _is_self(size: int | None, held: int, used: int) -> bool:
    if size is None or size + ROUNDING_BYTES < held:
        return False
    return size - held <= CONTEXT_ALLOWANCE_BYTES or size + held > used + ROUNDING_BYTES


def size_of(entry: Entry) -> int | None:
    """Its bytes; None where they are not told."""
    return entry[1] if len(entry) > 1 and isinstance(entry[1], int) else None


def with_own(reading: DeviceReading, failures: Sequence[LogEvent], known: set[int]) -> DeviceReading:
    """The reading, its processes marked as the command's own or another's where that is known.

    By the numbers of processes that failed, or that are `known` as the command's. Else, in a container whose numbers
    are not the host's, by size: of one process only, and with what the message says of it. Of the rest those are others
    that the message lists as such; where the one that failed is found, all are.
    """
    here = [event for event in failures if event.device in (None, reading.index)]
    own = known | {event.pid for event in failures if event.pid is not None} | set(_listed_under(here))
    listed = reading.processes or ()
    found = {process.pid for process in listed if process.pid in own and process.pid is not None}
    if not found:
        alike = [process for event in here for process in _of_its_size(event, reading)]
        found = {process.pid for process in alike if process.pid is not None}
    if found:
        marked = tuple(replace(one, own=one.pid in found if one.pid is not None else None) for one in listed)
        return replace(reading, processes=marked)
    others = {entry[0] for event in here for entry in listed_processes(event)} - {None}
    if not any(process.pid in others for process in listed):
        return reading
    return replace(
        reading, processes=tuple(replace(one, own=False if one.pid in others else one.own) for one in listed)
    )


def _listed_under(failures: Sequence[LogEvent]) -> Iterator[int]:
    for event in failures:
        entry = own_entry(event, listed_processes(event))
        if entry is not None and isinstance(entry[0], int):
            yield entry[0]


def _of_its_size(event: LogEvent, reading: DeviceReading) -> list[DeviceProcess]:
    """The one listed process that is as large as the one that failed; none where none or several are."""
    size, reserved = printed_size(event), reserved_by_message(event)
    if size is not None:
        least, most = size - ROUNDING_BYTES, size + ROUNDING_BYTES
    elif reserved is not None and _is_of_its_moment(event, reading):
        least, most = reserved - ROUNDING_BYTES, reserved + CONTEXT_ALLOWANCE_BYTES
    else:
        return []
    listed = [process for process in reading.processes or () if process.used_bytes is not None]
    alike = [process for process in listed if least <= (process.used_bytes or 0) <= most]
    return alike if len(alike) == 1 else []


def _is_of_its_moment(event: LogEvent, reading: DeviceReading) -> bool:
    total, free, used = event.size("total_bytes"), event.size("free_bytes"), reading.used_bytes
    if total is None or free is None or used is None:
        return False
    return abs(used - (total - free)) <= _SAME_USE * total
