"""`nvidia-smi dmon` and `pmon`: a line per device or process and moment, the header again every now and then."""

from __future__ import annotations

import re

from ...model.devices import DeviceProcess
from ...model.units import MIB
from ..times import moment
from .piece import MOST_DEVICES, Draft, Memory, Piece, TableLine, ratio, whole

ANCHORS = ("# gpu  ", "# Idx  ", "#YYYYMMDD", "#HH:MM:SS")

_NAMES = re.compile(r"#\s{0,4}(?:(?:Date|Time)\s{1,12}){0,2}gpu\s{1,12}[a-z]\w{0,8}(?:\s|$)")
_UNITS = re.compile(r"#\s{0,4}(?:(?:YYYYMMDD|HH:MM:SS)\s{1,12}){0,2}Idx(?:\s|$)")
_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)")
_CLOCK = re.compile(r"\d\d:\d\d:\d\d")
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,6})?|-")
_PATIENCE = 60


def is_header(text: str) -> bool:
    """Whether a line names the columns or their units."""
    return _NAMES.match(text) is not None or _UNITS.match(text) is not None


class Monitor(Piece):
    """Reads the rows under a header; which of the two tools wrote them, the columns tell."""

    patience = _PATIENCE

    def __init__(self, path: str, memory: Memory) -> None:
        super().__init__(path, memory)
        self.columns: list[str] = []
        self.look: dict[int, Draft] = {}
        """Of pmon: the devices of the moment, with their processes so far."""
        self.rows_without_memory = 0

    def read(self, line: TableLine) -> bool:
        """Reads a line; False where it is not one of these."""
        text = line.text.strip()
        if _NAMES.match(text):
            self.columns = [name.lower() for name in text[1:].split()]
            return True
        if _UNITS.match(text):
            return True
        cells = text.split(maxsplit=max(0, len(self.columns) - 1))
        if len(cells) != len(self.columns) or not self.columns:
            return False
        row = dict(zip(self.columns, cells, strict=True))
        index = whole(row["gpu"])
        if index is None:
            return False
        draft = Draft(index=index, line=line.number, time=_time(row, line), utilization=ratio(row.get("sm")))
        if "pid" in row:
            return self._read_process(row, draft)
        if "fb" not in row:
            self.rows_without_memory += 1
        used = whole(row.get("fb"))
        if not all(_NUMBER.fullmatch(cell) for name, cell in row.items() if name not in ("date", "time")):
            return False
        draft.used = None if used is None else used * MIB
        self.finish([draft])
        return True

    def _read_process(self, row: dict[str, str], draft: Draft) -> bool:
        pid, used = whole(row["pid"]), whole(row.get("fb"))
        if pid is None and row["pid"] != "-":
            return False
        index = draft.index or 0
        known = self.look.get(index)
        draft.utilization, draft.processes_shown = None, True
        again = known is not None and (pid is None or pid in {process.pid for process in known.processes})
        before = next(iter(self.look.values()), None)
        if again or (before is not None and before.time != draft.time) or index < max(self.look, default=0):
            self._end_of_look()
        if len(self.look) < MOST_DEVICES:
            device = self.look.setdefault(index, draft)
            if pid is not None:
                name = row.get("command", row.get("name", "")).strip()
                kind = row.get("type", "-")
                device.add(
                    DeviceProcess(
                        pid,
                        None if used is None else used * MIB,
                        name if name not in ("", "-") else None,
                        kind if kind != "-" else None,
                    )
                )
        return True

    def _end_of_look(self) -> None:
        self.finish(self.look.values())
        self.look = {}

    def close(self) -> None:
        """Completes what is left."""
        self._end_of_look()
        if self.rows_without_memory and not self.found:
            self.note(
                "nvidia-smi dmon was run without its memory columns (-s m): its rows say nothing of memory in use"
            )


def _time(row: dict[str, str], line: TableLine) -> float | None:
    """When the row was printed; a time of day alone (-o T) is not enough."""
    date, clock = _DATE.fullmatch(row.get("date", "")), _CLOCK.fullmatch(row.get("time", ""))
    if date is None or clock is None:
        return line.time_seconds
    return moment(int(date[1]), int(date[2]), int(date[3]), clock[0])
