"""A log of several failures, cut into episodes: what belongs to one failure of one start of one program.

A program may fail and go on, be started again, or fail of something else altogether; what is pasted may be of two
machines. Figures and stacks of one episode say nothing of another's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..model.events import FAILURES, EventKind, LogEvent
from ..model.evidence import Evidence
from .one_failure import is_aftermath, is_bare_kill, same_request
from .tensor_size import requested_bytes

_APART_SECONDS = 15 * 60.0
"""Ranks of one job that fail for one reason do so within this time."""
_MOST_TOLD = 8
"""Of more episodes the earliest are told together: not each of a thousand refused requests has a cause of its own."""
_NO_ROOM_LINES = 3
_PER_FRAME, _BESIDE = 4, 12
"""Lines of a traceback for each of its frames, and beside them."""

_DEVICE, _HOST, _OTHER = "device", "host", "other"
_KIND_OF: dict[EventKind, str] = {
    EventKind.DEVICE_OOM: _DEVICE,
    EventKind.ENGINE_BUFFER_FAILED: _DEVICE,
    EventKind.ENGINE_KV_NONE: _DEVICE,
    EventKind.ENGINE_KV_TOO_SMALL: _DEVICE,
    EventKind.ENGINE_STARTUP_SHORT: _DEVICE,
    EventKind.HOST_ALLOCATION_FAILED: _HOST,
    EventKind.KERNEL_OOM: _HOST,
    EventKind.MEMORY_LIMIT_HIT: _HOST,
    EventKind.SHM_EXHAUSTED: _HOST,
    EventKind.KERNEL_RESOURCE: _OTHER,
    EventKind.DEVICE_ASSERT: _OTHER,
}
"""Failures that are unlike those of the other kinds. What is not here (a bare kill, a failed warm-up) goes with any."""
_OF_A_FAILURE = frozenset(
    {
        EventKind.EXCEPTION,
        EventKind.ACCELERATOR_ERROR,
        EventKind.DEVICE_OOM_TRY,
        EventKind.ENGINE_STEP_FAILED,
        EventKind.OOM_KILL_COUNT,
        EventKind.PEER_LOST,
        EventKind.RECOVERED,
    }
)
"""What is told of a failure without being one; all else is told of the program."""
_LEADS_TO_IT = frozenset(
    {EventKind.EXCEPTION, EventKind.ACCELERATOR_ERROR, EventKind.DEVICE_OOM_TRY, EventKind.ENGINE_STEP_FAILED}
)
_WITHOUT_TRACEBACK = frozenset({EventKind.KERNEL_OOM, EventKind.MEMORY_LIMIT_HIT, EventKind.PROCESS_KILLED})
_WARNS_FIRST = frozenset({"tensorflow", "jax"})
"""Their allocator warns of a request with one size before it is raised with another."""
_RUNTIMES = frozenset(
    {
        *("java", "v8", "go", "rust", "dotnet", "php", "ruby", "erlang", "ghc"),
        *("postgres", "mysql", "redis", "elasticsearch", "clickhouse", "duckdb", "r", "matlab"),
    }
)
"""Allocators of other programs than Python's."""
_ENGINES = {
    "vllm": "vllm", "sglang": "sglang", "tgi": "tgi", "lmdeploy": "lmdeploy", "tensorrt-llm": "tensorrt-llm",
    "llama.cpp": "llama.cpp", "ollama": "llama.cpp", "llama-cpp-python": "llama.cpp", "mlc": "mlc",
}  # fmt: skip
"""By the name that an event carries: programs of which one does not run inside another."""


@dataclass
class _Episode:
    """Events of one file by their place in it."""

    begins: int
    """Where the program begins that failed: what was printed before is another's."""
    failures: list[LogEvent] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    """What is told of its failure alone."""
    ends: int = 0
    recovered: bool = False
    kinds: set[str] = field(default_factory=set)
    engines: set[str] = field(default_factory=set)
    runtimes: set[str] = field(default_factory=set)
    refused: dict[tuple[int | None, int | None], LogEvent] = field(default_factory=dict)
    """By device and rank, the last request that was refused there."""
    killed: LogEvent | None = None

    def add(self, event: LogEvent, number: int) -> None:
        """Another witness of its failure."""
        self.failures.append(event)
        self.events.append(number)
        self.ends = number
        if kind := _kind(event):
            self.kinds.add(kind)
        if engine := _ENGINES.get(event.word("engine") or ""):
            self.engines.add(engine)
        if event.kind is EventKind.HOST_ALLOCATION_FAILED:
            self.runtimes.add(_runtime(event))
        elif event.kind is EventKind.DEVICE_OOM:
            self.refused[event.device, event.rank] = event
        elif event.kind is EventKind.KERNEL_OOM:
            self.killed = event

    @property
    def seconds(self) -> float | None:
        known = [seconds for event in self.failures if (seconds := _seconds(event)) is not None]
        return max(known, default=None)


def by_episode(evidence: Evidence) -> list[Evidence]:
    """The evidence with the episode that ended it, then the others, latest first, each with what led to it."""
    if sum(map(_failed, evidence.events)) < 2:
        return [evidence]
    files = _by_file(evidence)
    if all(len(episodes) < 2 for _places, episodes in files.values()):
        return [evidence]
    left_out: set[int] = set()
    earlier: list[Evidence] = []
    for places, episodes in files.values():
        if len(episodes) < 2:
            continue
        ordered = _latest_first(episodes)
        kept = set(_events_of(ordered[0], episodes, len(places)))
        left_out.update(place for number, place in enumerate(places) if number not in kept)
        single, together = ordered[1:_MOST_TOLD], ordered[_MOST_TOLD:]
        of_each = [_events_of(one, episodes, None) for one in single]
        if together:
            of_each.append(sorted(number for one in together for number in one.events))
        earlier += [Evidence(events=tuple(evidence.events[places[n]] for n in numbers)) for numbers in of_each]
    events = tuple(event for place, event in enumerate(evidence.events) if place not in left_out)
    return [replace(evidence, events=events), *earlier]


def told_by_times(evidence: Evidence) -> bool:
    """Whether in one of the files the failure that came last does not stand last."""
    if sum(map(_failed, evidence.events)) < 2:
        return False
    found = (episodes for _places, episodes in _by_file(evidence).values())
    return any(len(each) > 1 and _last_by_time(each) not in (None, each[-1]) for each in found)


def _by_file(evidence: Evidence) -> dict[str | None, tuple[list[int], list[_Episode]]]:
    """Of each file the places of its events and its episodes; cut once for the same evidence."""
    known: dict[str | None, tuple[list[int], list[_Episode]]] | None = evidence.derived.get("episodes")
    if known is None:
        files: dict[str | None, list[int]] = {}
        for place, event in enumerate(evidence.events):
            files.setdefault(event.source.path, []).append(place)
        known = {
            path: (places, _episodes([evidence.events[place] for place in places])) for path, places in files.items()
        }
        evidence.derived["episodes"] = known
    return known


def _latest_first(episodes: Sequence[_Episode]) -> list[_Episode]:
    """What ended it first: the last one by the times, where each has one; else the last.

    One from which the program went on ended nothing, where an earlier start of it did end.
    """
    ordered = list(reversed(episodes))
    if _last_by_time(episodes) is not None:
        ordered.sort(key=lambda one: -(one.seconds or 0.0))
    if ordered[0].recovered:
        ended = next((one for one in ordered if not one.recovered and one.begins != ordered[0].begins), None)
        if ended is not None:
            ordered.remove(ended)
            ordered.insert(0, ended)
    return ordered


def _last_by_time(episodes: Sequence[_Episode]) -> _Episode | None:
    """None where not each has a time, or the last have the same."""
    times = [one.seconds for one in episodes]
    if any(seconds is None for seconds in times):
        return None
    return max(reversed(episodes), key=lambda one: one.seconds or 0.0)


def _events_of(one: _Episode, episodes: Sequence[_Episode], until: int | None) -> list[int]:
    """What is told of its failure, and of its program: up to its end, or `until` where it is the last word."""
    end = one.ends + 1 if until is None or one is not episodes[-1] else until
    of_others = {number for other in episodes if other is not one for number in other.events}
    return [number for number in range(one.begins, end) if number not in of_others]


def _episodes(events: Sequence[LogEvent]) -> list[_Episode]:
    found: list[_Episode] = []
    waiting: list[int] = []
    """Numbers of what is told of a failure since the last one: its or the next one's."""
    restarted = recovered = launched = False
    for number, event in enumerate(events):
        if not _failed(event):
            if event.kind in _OF_A_FAILURE:
                waiting.append(number)
                restarted = restarted or (event.kind is EventKind.RECOVERED and event.word("how") == "restart")
                recovered = recovered or (event.kind is EventKind.RECOVERED and event.word("how") != "restart")
            launched = launched or event.kind is EventKind.COMMAND_LINE
            continue
        current = found[-1] if found else None
        beside = current is not None and _stand_together(current.failures[-1], event)
        if current is None:
            current = _Episode(begins=0)
            found.append(current)
            current.events += waiting
        else:
            own = list(_leading_to(event, waiting, events))
            new_program = (restarted and not beside) or launched or _is_another_program(current, event)
            if recovered and not beside and not is_aftermath(event):
                current.recovered = True
            if new_program or current.recovered or _is_another(current, event):
                _give(current, [n for n in waiting if n not in own])
                begins = current.ends + 1 if new_program else current.begins
                current = _Episode(begins=begins)
                found.append(current)
                waiting = own
            current.events += waiting
        current.add(event, number)
        waiting, launched = [], False
        # What went on did so after the last of several lines that tell of one failure.
        restarted, recovered = restarted and beside, recovered and beside
    if found:
        _give(found[-1], waiting)
        found[-1].recovered = found[-1].recovered or recovered
    return list(_merged(found))


def _stand_together(one: LogEvent, other: LogEvent) -> bool:
    """Whether there is no room for a step, or a start, between two lines."""
    first, last = one.source.line, other.source.line
    return first is not None and last is not None and 0 <= last - first <= _NO_ROOM_LINES


def _give(episode: _Episode, numbers: Iterable[int]) -> None:
    for number in numbers:
        episode.events.append(number)
        episode.ends = max(episode.ends, number)


def _merged(episodes: Iterable[_Episode]) -> Iterator[_Episode]:
    """Of a program that went on again and again it is told once."""
    last: _Episode | None = None
    for episode in episodes:
        if last is not None and last.recovered and episode.recovered and last.begins == episode.begins:
            last.failures += episode.failures
            last.events += episode.events
            last.ends = episode.ends
            continue
        if last is not None:
            yield last
        last = episode
    if last is not None:
        yield last


def _leading_to(event: LogEvent, waiting: Sequence[int], events: Sequence[LogEvent]) -> Iterator[int]:
    """Of what stands before a failure what is its own: the traceback that it ends, the tries before it."""
    if event.kind in _WITHOUT_TRACEBACK:
        return
    for number in reversed(waiting):
        before = events[number]
        if before.kind not in _LEADS_TO_IT or not _reaches(before, event):
            return
        yield number
        if before.kind is EventKind.EXCEPTION:
            return


def _reaches(traceback: LogEvent, event: LogEvent) -> bool:
    """Whether a failure can be what the traceback ends with, by the lines between them."""
    frames, first, last = traceback.fields.get("frames"), traceback.source.line, event.source.line
    if first is None or last is None:
        return True
    return last - first <= _PER_FRAME * (len(frames) if isinstance(frames, tuple) else 0) + _BESIDE


def _is_another_program(told: _Episode, event: LogEvent) -> bool:
    """Whether the next failure is of another program: another engine, runtime or machine."""
    engine = _ENGINES.get(event.word("engine") or "")
    if engine is not None and told.engines and engine not in told.engines:
        return True
    if event.kind is EventKind.HOST_ALLOCATION_FAILED:
        return bool(told.runtimes) and _runtime(event) not in told.runtimes
    if event.kind is not EventKind.DEVICE_OOM:
        return False
    framework = _framework(event)
    if framework is not None and any(_framework(one) not in (None, framework) for one in told.refused.values()):
        return True
    before = told.refused.get((event.device, event.rank))
    sizes = [None if each is None else each.size("total_bytes") for each in (before, event)]
    # The same index, another size: a card of another machine.
    return None not in sizes and not same_request(*sizes)


def _framework(event: LogEvent) -> str | None:
    """Whose allocator refused, by its own words; None for the driver's and others'."""
    backend = event.word("backend")
    if backend in _WARNS_FIRST:
        return backend
    return "torch" if backend in ("cuda", "hip") and event.size("allocated_bytes") is not None else None


def _runtime(event: LogEvent) -> str:
    allocator = event.word("allocator") or ""
    return allocator if allocator in _RUNTIMES else "python"


def _is_another(told: _Episode, event: LogEvent) -> bool:
    """Whether the next failure is no other witness, or consequence, of the one that `told` tells of."""
    if is_aftermath(event):
        return False
    times = [_seconds(told.failures[-1]), _seconds(event)]
    if None not in times and abs((times[1] or 0.0) - (times[0] or 0.0)) > _APART_SECONDS:
        return True
    kind = _kind(event)
    if kind is not None and told.kinds and kind not in told.kinds:
        return True
    if event.kind is EventKind.DEVICE_OOM:
        before = told.refused.get((event.device, event.rank))
        if before is None or event.word("backend") in _WARNS_FIRST:
            return False
        return not same_request(requested_bytes(before), requested_bytes(event))
    if event.kind is EventKind.KERNEL_OOM and told.killed is not None:
        return _of_other_group(told.killed, event)
    return False


def _of_other_group(one: LogEvent, other: LogEvent) -> bool:
    """Kills in two control groups, or in one and of the whole machine."""
    if one.size("pid") == other.size("pid"):
        return False
    return any(
        None not in (one.word(name), other.word(name)) and one.word(name) != other.word(name)
        for name in ("constraint", "cgroup")
    )


def _kind(event: LogEvent) -> str | None:
    if event.kind is EventKind.PROCESS_KILLED:
        return None if is_bare_kill(event) else _HOST
    return _KIND_OF.get(event.kind)


def _failed(event: LogEvent) -> bool:
    recovered = event.fields.get("recovered") is True or event.fields.get("fatal") is False
    return event.kind in FAILURES and not recovered


def _seconds(event: LogEvent) -> float | None:
    return event.time_seconds if event.after_seconds is None else event.after_seconds
