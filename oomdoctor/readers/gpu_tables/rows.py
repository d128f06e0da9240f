"""`nvidia-smi --query-gpu=… --format=csv` and `--query-compute-apps=…`, once or in a loop (`-l`, `-lms`).

The columns are those of the header. Without one (`noheader`) they are those of the command, where that was pasted too.
"""

from __future__ import annotations

import re

from ...model.devices import DeviceProcess
from ..times import moment
from .piece import ARTEFACTS, MOST_DEVICES, Draft, Memory, Piece, TableLine, is_artefact, ratio, size, whole

ANCHORS = ("memory.used", "memory.total", "memory.free", "used_gpu_memory", "used_memory", "--query-", " MiB, ")

_HEADER = re.compile(r"^[a-z][\w.]{1,40}(?: \[\w{1,5}\])?(?:, ?[a-z][\w.]{1,60}(?: \[[\w%]{1,5}\])?){0,60}\s*$")
_COMMAND = re.compile(r"--query-(?:gpu|compute-apps)[= ][\"']?(?P<columns>[a-z][\w.]{1,40}(?:,[a-z][\w.]{1,40}){0,60})")
_MEMORY = ("memory.total", "memory.used", "memory.free", "used_gpu_memory", "used_memory")
_UNKNOWN = re.compile(r"\[[A-Za-z/ ]{2,30}\]|N/A|ERR!|")
_TIME = re.compile(r"(\d{4})/(\d\d)/(\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?")
_BARE_ROW = re.compile(r"(?:[^,]{1,80}, ){1,40}\d{1,9} MiB(?:, |\s*$)")
_DEVICE = re.compile(r"\bGPU-[0-9a-f]{8}-|\b(?:NVIDIA|Tesla|GeForce|Quadro)\b|^\d{4}/\d\d/\d\d ")
_NOWHERE = "a list of processes does not say on which device they are: query gpu_uuid too, of both"
_SAME_LOOK_SECONDS = 0.4
"""Rows of one look are stamped within this time; a loop waits longer."""
_PATIENCE = 60

_SIZES = frozenset({*_MEMORY, "memory.reserved"})
_NUMBERS = frozenset({"index", "pid"})
_CHECKED = _SIZES | _NUMBERS
_NAMES = frozenset({"timestamp", "name", "gpu_name", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "process_name"})
_MARKS = ("", "[", "N", "E")
"""With these begin the words for what is not known."""
_Row = dict[str, "str | int | None"]
"""Sizes in bytes, numbers, texts; None: not known."""


def opens(text: str) -> bool:
    """Whether this line tells the columns of rows, or is a row whose columns nobody told."""
    return _columns(text) is not None or (_BARE_ROW.match(text) is not None and _DEVICE.search(text) is not None)


class Rows(Piece):
    """Reads rows under one header after another."""

    patience = _PATIENCE

    def __init__(self, path: str, memory: Memory) -> None:
        super().__init__(path, memory)
        self.columns: list[tuple[str, str]] = []
        self.with_units: bool | None = None
        """Whether the rows print units; None: there was none yet."""
        self.names_something = False
        """Whether a column says more than numbers do, which another program may write as well."""
        self.look: list[Draft] = []
        """Devices whose processes may still be listed, and rows that do not say which device they are of."""
        self.lists: dict[str | None, Draft] = {}
        """Processes whose device was not listed before them, by its uuid where that is told."""
        self.headers = 0
        self.looks_told_apart = True
        self.untold = 0

    def read(self, line: TableLine) -> bool:
        """Reads a line; False where it is not one of these."""
        if (columns := _columns(line.text)) is not None:
            if not any(name == "pid" for name, _ in columns):  # processes belong to the devices listed before
                self.headers += _HEADER.match(line.text) is not None
                self._end_of_look()
            self._end_of_lists()
            self.columns, self.with_units = columns, None
            self.names_something = any(name in _NAMES for name, _ in columns)
            return True
        cells = line.text.split(",")
        if not self.columns:
            self.note(
                "rows of nvidia-smi's CSV stand without their header, so their columns are unknown: "
                "add the header, or the command with its --query-gpu=…"
            )
            return False
        row = self._cells(cells)
        if row is None:
            self.patience = _PATIENCE if len(self.columns) > 1 and self.found + len(self.look) else 0
            return False
        if "pid" in row:
            self._read_process(row, line)
        else:
            self._read_device(row, line)
        return True

    def _cells(self, texts: list[str]) -> _Row | None:
        """What the columns hold; None where it is not such as they hold: an unrelated line may have as many commas."""
        if len(texts) != len(self.columns):
            return None
        row: _Row = {}
        told, with_units = False, self.with_units
        for (name, unit), text in zip(self.columns, texts, strict=True):
            text = text.strip()
            value: str | int | None = None if text[:1] in _MARKS and _UNKNOWN.fullmatch(text) else text
            if name in _SIZES and isinstance(value, str):
                if with_units is None:
                    with_units = not value.isdecimal()
                elif with_units is value.isdecimal() and not self.names_something:
                    return None
                value = size(f"{value} {unit or 'MiB'}" if value.isdecimal() else value)
                if value is None and is_artefact(text):
                    self.note(ARTEFACTS)
                    row[name] = None
                    continue
            elif name in _NUMBERS and isinstance(value, str):
                value = whole(value)
            if value is None and name in _CHECKED and not _UNKNOWN.fullmatch(text):
                return None
            told = told or (value is not None and name in _CHECKED)
            row[name] = value
        if told:
            self.with_units = with_units
        return row if told else None

    def _read_device(self, row: _Row, line: TableLine) -> None:
        draft = _draft(row, line)
        identity = _text(row, "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial")
        known = self.memory.indices
        if draft.index is None and identity is not None:
            # Without an index, devices are numbered as they are listed, which is in order of their index.
            draft.index = known.get(identity, len(known))
        if draft.index is not None:
            if identity is not None and (identity in known or len(known) < MOST_DEVICES):
                known[identity] = draft.index
            if any(draft.index == other.index for other in self.look):
                self._end_of_look()
        elif self.look and draft.time is not None and self.look[0].time is not None:
            if draft.time - self.look[0].time > _SAME_LOOK_SECONDS:
                self._end_of_look(told_apart=True)
        elif self.look:
            self.looks_told_apart = False
        if len(self.look) >= MOST_DEVICES:
            self._end_of_look()
        self.look.append(draft)

    def _read_process(self, row: _Row, line: TableLine) -> None:
        """A row of --query-compute-apps: of a device that was listed before, else of one that others may tell."""
        uuid, pid = _text(row, "gpu_uuid"), _number(row, "pid")
        of_uuid = [draft for draft in self.look if draft.uuid is not None and draft.uuid == uuid]
        devices = of_uuid or (self.look if uuid is None and len(self.look) == 1 else [])
        if pid is None:
            return
        used = _number(row, "used_gpu_memory", "used_memory")
        process = DeviceProcess(pid, used, _text(row, "process_name", "name"), "C")
        if devices:
            devices[-1].add(process)
        elif uuid is None and len(self.look) > 1:
            self.note(_NOWHERE)
        elif uuid in self.lists or len(self.lists) < MOST_DEVICES:
            self.lists.setdefault(uuid, _unplaced(uuid, line)).add(process)

    def _end_of_lists(self) -> None:
        """Of devices that were not listed before: by what the log has told of their uuids, else as they are listed."""
        for uuid, draft in self.lists.items():
            known = self.memory.indices
            draft.index_told = uuid is not None and uuid in known
            draft.index = known[uuid] if uuid is not None and uuid in known else list(self.lists).index(uuid)
            if not draft.index_told:
                self.note(_NOWHERE)
        self.finish(self.lists.values())
        self.lists = {}

    def _end_of_look(self, told_apart: bool = False) -> None:
        """Numbers rows without a device's name by their order, where they are known to be one look at all devices."""
        nameless = [draft for draft in self.look if draft.index is None]
        if nameless and (told_apart or self.headers > 1 or self.looks_told_apart or len(nameless) == 1):
            for index, draft in enumerate(nameless):
                draft.index = index
        elif nameless:
            self.untold += len(nameless)
        self.finish(self.look)
        self.look, self.looks_told_apart = [], True

    def close(self) -> None:
        """Completes what is left."""
        self._end_of_look()
        self._end_of_lists()
        if self.untold:
            self.note(f"{self.untold:,} rows of nvidia-smi's CSV do not say which device they are of: query index too")


def _columns(text: str) -> list[tuple[str, str]] | None:
    """Names and units of the columns that a header or a command tells; None where the line is neither."""
    if _HEADER.match(text) and any(word in text for word in _MEMORY):
        return [_column(cell) for cell in text.split(",")]
    command = _COMMAND.search(text)
    if command is None or not any(word in command["columns"] for word in _MEMORY):
        return None
    return [(name, "") for name in command["columns"].split(",")]


def _column(cell: str) -> tuple[str, str]:
    name, _, unit = cell.strip().partition(" ")
    return name, unit.strip("[]")


def _draft(row: _Row, line: TableLine) -> Draft:
    mig = _text(row, "mig.mode.current")
    time = _TIME.fullmatch(_text(row, "timestamp") or "")
    stamp = None if time is None else moment(int(time[1]), int(time[2]), int(time[3]), time[4])
    return Draft(
        index=_number(row, "index"),
        line=line.number,
        name=_text(row, "name", "gpu_name"),
        uuid=_text(row, "uuid", "gpu_uuid"),
        total=_number(row, "memory.total"),
        used=_number(row, "memory.used"),
        free=_number(row, "memory.free"),
        reserved=_number(row, "memory.reserved"),
        utilization=ratio(_text(row, "utilization.gpu")),
        mig=None if mig not in ("Enabled", "Disabled") else mig == "Enabled",
        time=line.time_seconds if time is None or stamp is None else stamp + float(f"0.{time[5] or 0}"),
    )


def _unplaced(uuid: str | None, line: TableLine) -> Draft:
    return Draft(line=line.number, uuid=uuid, time=line.time_seconds)


def _text(row: _Row, *names: str) -> str | None:
    for name in names:
        value = row.get(name)
        if isinstance(value, str):
            return value
    return None


def _number(row: _Row, *names: str) -> int | None:
    for name in names:
        value = row.get(name)
        if isinstance(value, int):
            return value
    return None
