"""Short ways to write evidence down."""

from __future__ import annotations

from oomdoctor.facts import derive_facts
from oomdoctor.model.events import EventKind, FieldValue, LogEvent
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.facts import FactSet
from oomdoctor.model.host import HostSample
from oomdoctor.model.run import RunRecord
from oomdoctor.model.source import Source
from oomdoctor.model.units import GIB, MIB

HERE = Source(path="crash.log", line=1)


def gib(size: float) -> int:
    return round(size * GIB)


def mib(size: float) -> int:
    return round(size * MIB)


def event(
    kind: EventKind, device: int | None = None, rank: int | None = None, text: str = "", **fields: FieldValue
) -> LogEvent:
    return LogEvent(kind, HERE, fields, text, device, rank)


def oom(device: int | None = 0, rank: int | None = None, **fields: FieldValue) -> LogEvent:
    return event(EventKind.DEVICE_OOM, device, rank, backend="cuda", **fields)


def traceback(
    *frames: tuple[str, int, str, str], error: str | None = "torch.OutOfMemoryError", **fields: FieldValue
) -> LogEvent:
    return event(EventKind.EXCEPTION, frames=frames, exception_type=error, complete=error is not None, **fields)


def facts_of(*events: LogEvent, command: str | None = None) -> FactSet:
    return derive_facts(Evidence(events=events, command=command))


def run(samples: tuple[HostSample, ...] = (), **fields: object) -> RunRecord:
    known: dict[str, object] = {
        "path": "incident",
        "command": ("python", "train.py"),
        "working_directory": "/srv",
        "started_seconds": 1000.0,
        "ended_seconds": 1100.0,
        "exit_status": 1,
        "signal": None,
        "samples": samples,
        "sample_interval_seconds": 0.5,
    }
    return RunRecord(**{**known, **fields})  # type: ignore[arg-type]


def rising(start: int, step: int, count: int, **fields: int) -> tuple[HostSample, ...]:
    """Samples whose resident and virtual size rise by `step` every half second."""
    return tuple(
        HostSample(1000.0 + i / 2, tree_rss_bytes=start + i * step, tree_virtual_bytes=start + i * step, **fields)
        for i in range(count)
    )
