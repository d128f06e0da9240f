"""What every form of output shares: a line of it, a device while its lines come in, and a few readings of text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from ...model.devices import DeviceProcess, DeviceReading
from ...model.source import Source
from ...model.units import parse_size

ARTEFACTS = (
    "sizes in the output of nvidia-smi are negative, not numbers, or larger than the device: artefacts of the driver "
    "or of what copied them, left out"
)
MOST_DEVICES = 64
"""Of one look; more than that is not a machine."""
_MOST_PROCESSES = 512
_BLANK_LINES = 2


@dataclass(frozen=True)
class TableLine:
    """A line without what launchers, quotes and indentation put before it."""

    number: int
    text: str
    time_seconds: float | None = None
    """When the line was logged, where its prefix says so."""


@dataclass
class Memory:
    """What one log has told so far that later pieces of it need."""

    indices: dict[str, int] = field(default_factory=dict)
    """Of devices, by uuid or bus id."""
    notes: dict[str, None] = field(default_factory=dict)
    """Sentences, each once."""


@dataclass
class Draft:
    """A reading while its lines come in."""

    index: int | None = None
    line: int = 0
    name: str | None = None
    uuid: str | None = None
    total: int | None = None
    used: int | None = None
    free: int | None = None
    reserved: int | None = None
    utilization: float | None = None
    mig: bool | None = None
    minor: int | None = None
    processes: list[DeviceProcess] = field(default_factory=list)
    processes_shown: bool = False
    time: float | None = None
    index_told: bool = True

    def add(self, process: DeviceProcess) -> None:
        """Lists a process on the device."""
        self.processes_shown = True
        if len(self.processes) < _MOST_PROCESSES:
            self.processes.append(process)

    @property
    def says_something(self) -> bool:
        """Whether it tells of memory or of processes."""
        return self.used is not None or self.total is not None or self.free is not None or self.processes_shown

    def reading(self, path: str) -> DeviceReading | None:
        """The reading; None where it is not known of which device."""
        if self.index is None:
            return None
        return DeviceReading(
            index=self.index,
            source=Source(path=path, line=self.line),
            name=self.name,
            uuid=self.uuid,
            total_bytes=self.total,
            used_bytes=self.used,
            free_bytes=self.free,
            reserved_by_driver_bytes=self.reserved,
            utilization=self.utilization,
            mig_mode=self.mig,
            processes=tuple(self.processes) if self.processes_shown else None,
            time_seconds=self.time,
            index_told=self.index_told,
        )


class Piece:
    """One piece of output being read. A form's class says which lines are its own and hands out what is complete."""

    patience = 0
    """Strangers' lines that may stand between two of its own."""

    def __init__(self, path: str, memory: Memory) -> None:
        self.path, self.memory = path, memory
        self.found = 0
        """Readings so far."""
        self._ready: list[DeviceReading] = []
        self._blanks = 0

    def take(self, line: TableLine) -> bool:
        """Reads a line; False where it is not part of the piece."""
        if not line.text.strip():
            self._blanks += 1
            return self._blanks <= _BLANK_LINES
        self._blanks = 0
        return self.read(line)

    def read(self, line: TableLine) -> bool:
        """Reads a line that is not blank."""
        raise NotImplementedError

    def close(self) -> None:
        """Completes what is left: the piece has ended."""

    def hand_out(self) -> list[DeviceReading]:
        """The readings that were completed since the last call."""
        ready, self._ready = self._ready, []
        return ready

    def finish(self, drafts: Iterable[Draft]) -> None:
        """Makes readings of drafts that say something."""
        for draft in drafts:
            if draft.used is not None and draft.total is not None and draft.used > draft.total:
                self.note(ARTEFACTS)
                draft.used = None
            if draft.says_something and (reading := draft.reading(self.path)) is not None:
                self.found += 1
                self._ready.append(reading)

    def note(self, sentence: str) -> None:
        """Something that the reader of the report must know of this input."""
        self.memory.notes.setdefault(sentence)


def whole(text: str | None) -> int | None:
    """A plain whole number. `isdigit` would also take ², which `int` refuses, and digits without end."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,10}", text) else None


@lru_cache(maxsize=4096)
def size(text: str) -> int | None:
    """Bytes of a size as printed; None for `N/A`, `[Not Supported]`, `ERR!` and anything else."""
    try:
        found = parse_size(text)
    except ValueError:
        return None
    return found if 0 <= found < _NO_DEVICE else None


_NO_DEVICE = 1 << 60
"""No device has an exbibyte; a driver that does not know prints 2^64 and its neighbours."""
_ARTEFACT = re.compile(r"-[0-9][0-9.]{0,30}|[+-]?(?:nan|inf)(?:inity)?|\S{1,30} ?[KMG]i?B", re.IGNORECASE)


def is_artefact(text: str) -> bool:
    """Whether it stands where a size belongs and cannot be one: negative, not a number, or beyond any device."""
    try:
        return not 0 <= parse_size(text) < _NO_DEVICE
    except ValueError:
        return _ARTEFACT.fullmatch(text) is not None


def ratio(text: str | None) -> float | None:
    """0.17 of `17 %` and `17`; None where it is not a number of percent."""
    number = whole(text.removesuffix("%").strip()) if text is not None else None
    return None if number is None else number / 100
