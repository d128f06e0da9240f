"""All that the readers got out of the inputs: the one thing facts are derived from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .devices import DeviceReading
from .diagnosis import Excerpt, InputRecord
from .events import EventKind, LogEvent
from .run import RunRecord
from .snapshot import Snapshot


@dataclass(frozen=True)
class Evidence:
    """The merged evidence of one analysis. Order inside each tuple is the order of the input."""

    inputs: tuple[InputRecord, ...] = ()
    events: tuple[LogEvent, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    devices: tuple[DeviceReading, ...] = ()
    """Readings of nvidia-smi and the like; those of a run are in its record."""
    runs: tuple[RunRecord, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    command: str | None = None
    """The launch line: of the run, or as the user gave it, or as the log shows it."""
    card_bytes: int | None = None
    """The size of the card, as the user gave it."""
    derived: dict[str, Any] = field(init=False, default_factory=dict, repr=False, compare=False)
    """What was computed of it once for all who ask, as in `Snapshot`; a copy with other parts begins anew."""

    def of_kind(self, *kinds: EventKind) -> tuple[LogEvent, ...]:
        """The events of these kinds, in order."""
        return tuple(event for event in self.events if event.kind in kinds)
