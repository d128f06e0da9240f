"""Which statements of a log tell of one failure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from heapq import merge

from ..model.events import EventKind, LogEvent

_KILLS = (EventKind.PROCESS_KILLED, EventKind.KERNEL_OOM, EventKind.MEMORY_LIMIT_HIT)
_REFUSALS = (EventKind.DEVICE_OOM, EventKind.HOST_ALLOCATION_FAILED)
_SUMMARIES = (EventKind.ENGINE_BUFFER_FAILED, EventKind.ENGINE_WARMUP_FAILED)
_LONGEST_APART_SECONDS, _NEAR_LINES = 120, 200
_ABORTED = {6, 15}
"""How the peers of a process that failed end: aborted by their watchdog, or ended by the launcher."""
_REFUSAL, _UNSIZED, _KILL = ("refusal",), ("refusal", None), ("kill",)
_XLA = {"tensorflow", "jax"}
"""Runtimes in which the allocator warns of a request with its size before it is raised with its size."""

_Key = tuple[str | int | None, ...]

_ROUNDING = 0.01
"""Messages round to two decimals of a unit; two figures this close are one request."""


def same_request(first: int | None, second: int | None) -> bool:
    """Whether two figures can be one request, printed with different rounding (unknown fits anything)."""
    if first is None or second is None:
        return True
    return abs(first - second) <= _ROUNDING * max(first, second)


def failures_of(events: Iterable[LogEvent]) -> list[list[LogEvent]]:
    """The witnesses of each failure, all in the order of the log. One that can be of several is of the latest."""
    failures: list[list[LogEvent]] = []
    places: dict[_Key, list[int]] = {}
    for event in events:
        candidates = merge(*(reversed(places.get(key, [])) for key in _sought_by(event)), reverse=True)
        same = next((place for place in candidates if _is_one_failure(failures[place], event)), None)
        if same is None:
            for key in _found_by(event):
                places.setdefault(key, []).append(len(failures))
            failures.append([event])
        else:
            failures[same].append(event)
    return failures


def _found_by(event: LogEvent) -> Iterator[_Key]:
    """The keys of a failure that begins with this event."""
    if event.kind is EventKind.DEVICE_OOM:
        yield _REFUSAL
        if event.size("requested_bytes") is None:
            yield _UNSIZED
        elif event.word("backend") in _XLA:
            yield (*_REFUSAL, _about(event))
    elif event.kind is EventKind.HOST_ALLOCATION_FAILED:
        yield _REFUSAL
    elif event.kind in _KILLS and not is_aftermath(event):
        yield _KILL
        yield (*_KILL, event.size("pid"))


def _sought_by(event: LogEvent) -> tuple[_Key, ...]:
    """The keys among which every failure is that this event can be of: not all are looked at for each of thousands."""
    if is_aftermath(event) or event.kind in _SUMMARIES:
        return (_REFUSAL, _KILL) if is_aftermath(event) else (_REFUSAL,)
    if event.kind in _KILLS:
        pid = event.size("pid")
        return (_KILL,) if pid is None else ((*_KILL, pid), (*_KILL, None))
    if event.kind is EventKind.DEVICE_OOM:
        if event.size("requested_bytes") is None:
            return (_REFUSAL,)
        around = () if event.word("backend") not in _XLA else (_about(event) + step for step in (-1, 0, 1))
        return (_UNSIZED, *((*_REFUSAL, size) for size in around))
    return ()


def _about(event: LogEvent) -> int:
    """The same number, or the next, for requests that differ by their rounding."""
    return round(math.log(max(1, event.size("requested_bytes") or 1)) / _ROUNDING)


def _is_one_failure(told: list[LogEvent], event: LogEvent) -> bool:
    """Whether `event` is another witness of the failure that `told` tells of, in the order of the log.

    A kill is reported by the kernel, by what runs the process and by what waits for it; a refusal by the device is
    warned of by the allocator, raised, and summed up by the engine. Two witnesses of one kind, each with figures or a
    process of its own, speak of two failures.
    """
    if any(apart_in_time(one, event) for one in told):
        return False
    if is_aftermath(event):
        return told[0].kind in _REFUSALS or (told[0].kind in _KILLS and _by_one_launcher(told, event))
    if event.kind in _KILLS and told[0].kind in _KILLS:
        if is_aftermath(told[0]):
            return False
        told = [one for one in told if not is_aftermath(one)]
        return all(can_be_one_process(one, event) for one in told) and not any(_is_twin(one, event) for one in told)
    if told[0].kind is not EventKind.DEVICE_OOM:
        return False
    if event.kind in _SUMMARIES and event.size("requested_bytes") is None:
        return _near(told[-1], event)
    return event.kind is EventKind.DEVICE_OOM and all(
        _can_be_one_refusal(one, event) for one in told if one.kind is EventKind.DEVICE_OOM
    )


def says(event: LogEvent) -> tuple[int, int]:
    """How much a witness knows of a failure; of equal ones the first is told."""
    if event.kind in _KILLS:
        stated = 2 if event.kind is EventKind.MEMORY_LIMIT_HIT or not is_bare_kill(event) else 0
        rank = 4 if event.kind is EventKind.KERNEL_OOM else 1 if event.word("cause") else stated
    else:
        rank = 5 if event.kind is EventKind.DEVICE_OOM else 3
    return rank, sum(name.endswith("_bytes") for name in event.fields)


def is_bare_kill(event: LogEvent) -> bool:
    """`Killed`, exit code 137: an end without a reason."""
    return event.kind is EventKind.PROCESS_KILLED and event.fields.get("oom_stated") is not True


def can_be_one_process(first: LogEvent, second: LogEvent) -> bool:
    """Unless both name a process and it is not the same."""
    return not _differ(first.size("pid"), second.size("pid"))


def _differ(first: object, second: object) -> bool:
    """Both are known, and not the same."""
    return first is not None and second is not None and first != second


def _by_one_launcher(told: list[LogEvent], event: LogEvent) -> bool:
    """Who started both tells of both."""
    return not is_aftermath(told[0]) and any(
        one.source.path == event.source.path and one.word("reported_by") == event.word("reported_by") for one in told
    )


def apart_in_time(first: LogEvent, second: LogEvent) -> bool:
    """Too long for one failure; never where a time is not known."""
    if first.time_seconds is None or second.time_seconds is None:
        return False
    return abs(first.time_seconds - second.time_seconds) > _LONGEST_APART_SECONDS


def _near(first: LogEvent, second: LogEvent) -> bool:
    if first.source.path != second.source.path or first.source.line is None or second.source.line is None:
        return False
    return abs(second.source.line - first.source.line) <= _NEAR_LINES


def _is_twin(first: LogEvent, second: LogEvent) -> bool:
    """Two statements of one reporter, each with figures: of two failures, unless the figures are the same."""
    if first.kind is not second.kind or _reporter(first) != _reporter(second):
        return False
    figures = [{name: size for name, size in one.fields.items() if name.endswith("_bytes")} for one in (first, second)]
    return all(figures) and figures[0] != figures[1]


def _reporter(event: LogEvent) -> str | None:
    return event.word("reported_by") or event.word("system")


def is_aftermath(event: LogEvent) -> bool:
    """A process that ends because another failed."""
    return event.kind is EventKind.PROCESS_KILLED and abs(event.size("signal") or 0) in _ABORTED


def _can_be_one_refusal(first: LogEvent, second: LogEvent) -> bool:
    """Unless they say different things of it: the size, the shape, the device, the rank."""
    size, other = first.size("requested_bytes"), second.size("requested_bytes")
    both_xla = {first.word("backend"), second.word("backend")} <= _XLA
    if size is not None and other is not None and not (both_xla and same_request(size, other)):
        return False  # each tells a request: equal ones are told once anyhow
    if _differ(first.device, second.device) or _differ(first.rank, second.rank):
        return False
    if any(_differ(first.fields.get(name), second.fields.get(name)) for name in ("shape", "backend")[: 2 - both_xla]):
        return False
    return (size is not None) != (other is not None) or _near(first, second)
