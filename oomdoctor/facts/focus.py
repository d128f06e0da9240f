"""One failure at a time: of an input that holds several runs, or several failures of different kinds, what belongs to
the one that the report is about. Blending them would give one failure's figures under another's name.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Set
from dataclasses import replace

from ..model.events import EventKind, LogEvent
from ..model.evidence import Evidence
from ..model.run import RunRecord
from ..model.snapshot import Snapshot
from ..model.source import Source
from .allocator import speaking_snapshot
from .caught import parted_by_end
from .device_records import speaking_records
from .episodes import by_episode
from .until import was_killed

_LOG_NAMES = ("stdout.log", "stderr.log", "kernel.log")
_DEVICE = {
    EventKind.DEVICE_OOM,
    EventKind.ENGINE_BUFFER_FAILED,
    EventKind.ENGINE_KV_NONE,
    EventKind.ENGINE_KV_TOO_SMALL,
}
_POOL = {EventKind.ENGINE_KV_NONE, EventKind.ENGINE_KV_TOO_SMALL}
_HOST = {EventKind.KERNEL_OOM, EventKind.MEMORY_LIMIT_HIT}
_ENDS_AN_ENGINE = {
    *_DEVICE,
    EventKind.ENGINE_STARTUP_SHORT,
    EventKind.ENGINE_NEIGHBOUR_CHANGED,
    EventKind.ENGINE_WARMUP_FAILED,
    EventKind.ENGINE_HOST_SHORT,
    EventKind.ENGINE_TOKEN_POOL_EXHAUSTED,
    EventKind.ENGINE_STATE_POOL_SHORT,
    EventKind.HOST_ALLOCATION_FAILED,
    EventKind.PROCESS_KILLED,
}
_STARTS_RUNNERS = ("ollama",)
"""Engines whose server goes on when a runner of theirs fails, and starts the next one."""


def focus(evidence: Evidence) -> Evidence:
    """What belongs to the failure that the report is about; all of it where there is one only.

    Of several runs: the latest that failed (the latest, where none did) with its own logs and snapshots. Of logs
    without a run, where a host's kill and a device's failure stand in different files: the kind that stands last, with
    the files that hold no failure. Of a log in which a program was started again after it had failed: the last start
    that failed. Of a run that a signal ended: the end, not what the program had caught. Of several snapshots: for each
    device the one whose word counts. A launch line that was pasted with the log is its command, where nothing else
    tells it and there is one only.
    """
    chosen = _parts(evidence)[0]
    return replace(chosen, snapshots=_speaking(chosen), command=chosen.command or _pasted_command(chosen))


def _pasted_command(evidence: Evidence) -> str | None:
    lines = {event.word("command") for event in evidence.of_kind(EventKind.COMMAND_LINE)}
    return lines.pop() if len(lines) == 1 else None


def others(evidence: Evidence) -> tuple[Evidence, ...]:
    """The rest, a piece each: the other runs with what is theirs, what is nobody's, the other kind of failure."""
    return _parts(evidence)[1:]


def _parts(evidence: Evidence) -> tuple[Evidence, ...]:
    """The piece that the report is about, then the others, in the order of the input."""
    found: tuple[Evidence, ...] | None = evidence.derived.get("parts")
    if found is None:
        found = evidence.derived["parts"] = tuple(_cut(evidence))
    return found


def _cut(evidence: Evidence) -> list[Evidence]:
    if not evidence.runs:
        starts = (start for piece in _by_kind(evidence) for start in _by_start(piece))
        return [episode for start in starts for episode in by_episode(start)]
    strangers = tuple(event for event in evidence.events if _is_strangers_kill(evidence, event))
    own = replace(evidence, events=tuple(event for event in evidence.events if event not in strangers))
    pieces = [part for piece in (_by_run(own) if len(own.runs) > 1 else [own]) for part in parted_by_end(piece)]
    return [*pieces, Evidence(events=strangers)] if strangers else pieces


def _is_strangers_kill(evidence: Evidence, event: LogEvent) -> bool:
    """Whether the kernel, whose log is the whole machine's, killed somebody else's process while a run was watched.

    Its victim is none of the run's processes, the run's cgroup counted no kill, and the command was not killed.
    """
    number = _owner(evidence, event.source.path)
    if number is None or event.kind is not EventKind.KERNEL_OOM:
        return False
    run = evidence.runs[number]
    known = event.size("pid") in {process.pid for process in run.processes}
    return not known and run.counters.cgroup_kills == 0 and not was_killed(run)


def _by_run(evidence: Evidence) -> list[Evidence]:
    pieces = [_of_run(evidence, number) for number in range(len(evidence.runs))]
    loose = _kept(evidence, lambda path: _owner(evidence, path) is None, ())
    failed = [piece for piece in pieces if _has_failed(piece)]
    first = max(failed or pieces, key=lambda piece: piece.runs[0].started_seconds)
    rest = [piece for piece in pieces if piece is not first]
    if failed:
        return [first, *rest, loose]
    # No run failed: what failed, if anything, is what the loose files tell of.
    joined = replace(
        first,
        events=first.events + loose.events,
        snapshots=first.snapshots + loose.snapshots,
        devices=first.devices + loose.devices,
    )
    return [joined, *rest]


def _of_run(evidence: Evidence, number: int) -> Evidence:
    run = evidence.runs[number]
    kept = _kept(evidence, lambda path: _owner(evidence, path) == number, (run,))
    of_first = evidence.command == shlex.join(evidence.runs[0].command)
    return replace(kept, command=shlex.join(run.command)) if of_first else kept


def _owner(evidence: Evidence, path: str | None) -> int | None:
    """The number of the run whose bundle holds this file: the first's files have no prefix, the others' their name."""
    if path is None:
        return None
    for number, run in enumerate(evidence.runs[1:], 1):
        if path.startswith(f"{run.path}/"):
            return number
    own = path.startswith(("snapshots/", *(f"{name}.tail-" for name in _LOG_NAMES))) or path in _LOG_NAMES
    return 0 if own else None


def _has_failed(piece: Evidence) -> bool:
    run = piece.runs[0]
    told = any(e.is_memory_error for e in run.exceptions) or bool(run.device_ooms)
    return told or run.signal is not None or run.exit_status not in (None, 0) or any(map(_kind_of, piece.events))


def _by_kind(evidence: Evidence) -> list[Evidence]:
    """A file that holds failures of both kinds ties them together, unless the device failed after the last kill:
    what the kernel had killed before was another program, or another start.
    """
    kinds: dict[str | None, set[str]] = {}
    last = None
    for event in evidence.events:
        kind = _kind_of(event)
        if kind is not None:
            kinds.setdefault(event.source.path, set()).add(kind)
            last = event
    if last is None or len(set.union(*kinds.values())) == 1:
        return [evidence]
    if {len(found) for found in kinds.values()} != {1}:
        return [evidence]  # its episodes tell them apart
    told = [event for event in evidence.events if _kind_of(event)]
    if all(event.time_seconds is not None for event in told):
        last = max(told, key=lambda event: event.time_seconds or 0.0)
    chosen = _kind_of(last)
    keep = {path for path, found in kinds.items() if chosen in found}
    return [
        _kept(evidence, lambda path: path not in kinds or path in keep, ()),
        _kept(evidence, lambda path: path in kinds and path not in keep, ()),
    ]


def _by_start(evidence: Evidence) -> list[Evidence]:
    """The last start of an engine that failed, then the earlier ones; what is printed before the first is its own."""
    if any(event.word("engine") in _STARTS_RUNNERS for event in evidence.events):
        return [evidence]
    starts: dict[str | None, list[list[LogEvent]]] = {}
    for path, launches in _launches(evidence).items():
        of_file = starts.setdefault(path, [[]])
        failed: set[EventKind] = set()
        """How the start that is being read has failed so far."""
        for event in (event for event in evidence.events if event.source.path == path):
            if failed and (event.kind is EventKind.ENGINE_START or id(event) in launches):
                of_file.append([])
                failed.clear()
            elif _cannot_follow(event, failed):
                last = max(place for place, one in enumerate(of_file[-1]) if _ends_an_engine(one))
                of_file[-1], of_new = of_file[-1][: last + 1], of_file[-1][last + 1 :]
                of_file.append(of_new)
                failed.clear()
            of_file[-1].append(event)
            if _ends_an_engine(event):
                failed.add(event.kind)
    earlier: list[tuple[LogEvent, ...]] = []
    left_out: set[int] = set()
    for of_file in starts.values():
        chosen = max((n for n, events in enumerate(of_file) if any(map(_ends_an_engine, events))), default=0)
        for number, events in enumerate(of_file):
            if number != chosen:
                earlier.append(tuple(events))
                left_out.update(map(id, events))
    kept = tuple(event for event in evidence.events if id(event) not in left_out)
    return [replace(evidence, events=kept), *(Evidence(events=events) for events in earlier)]


def _launches(evidence: Evidence) -> dict[str | None, set[int]]:
    """By input, the commands typed between two failures: the second is of another start."""
    found: dict[str | None, set[int]] = {event.source.path: set() for event in evidence.events}
    waiting: dict[str | None, list[int]] = {}
    for event in evidence.events:
        path = event.source.path
        if event.kind is EventKind.COMMAND_LINE:
            waiting.setdefault(path, []).append(id(event))
        elif _ends_an_engine(event):
            found[path].update(waiting.pop(path, ()))
    return found


def _cannot_follow(event: LogEvent, failed: Set[EventKind]) -> bool:
    """Whether a failure is of another start than those before: the pool and the device of one do not fail in turn."""
    if not _ends_an_engine(event) or not (event.kind is EventKind.DEVICE_OOM or event.kind in _POOL):
        return False
    others = _POOL if event.kind is EventKind.DEVICE_OOM else {EventKind.DEVICE_OOM}
    return not failed.isdisjoint(others)


def _ends_an_engine(event: LogEvent) -> bool:
    recovered = event.fields.get("recovered") is True or event.fields.get("fatal") is False
    return event.kind in _ENDS_AN_ENGINE and not recovered


def _kind_of(event: LogEvent) -> str | None:
    """`device` or `host` of an event that says for itself that memory ran out there."""
    if event.fields.get("recovered") is True or event.fields.get("fatal") is False:
        return None
    if event.kind in _DEVICE:
        return "device"
    stated = event.kind is EventKind.PROCESS_KILLED and event.fields.get("oom_stated") is True
    return "host" if stated or event.kind in _HOST else None


def _kept(evidence: Evidence, keep: Callable[[str | None], bool], runs: tuple[RunRecord, ...]) -> Evidence:
    def kept(source: Source) -> bool:
        return keep(source.path)

    return replace(
        evidence,
        events=tuple(event for event in evidence.events if kept(event.source)),
        snapshots=tuple(snapshot for snapshot in evidence.snapshots if keep(snapshot.path)),
        devices=tuple(reading for reading in evidence.devices if kept(reading.source)),
        excerpts=tuple(excerpt for excerpt in evidence.excerpts if keep(excerpt.path)),
        runs=runs,
    )


def _speaking(evidence: Evidence) -> tuple[Snapshot, ...]:
    devices = sorted({device for snapshot in evidence.snapshots for device in snapshot.devices})
    records = speaking_records(evidence)
    speaking = [id(speaking_snapshot(evidence.snapshots, device, records.get(device))) for device in devices]
    return tuple(snapshot for snapshot in evidence.snapshots if id(snapshot) in speaking or not snapshot.devices)
