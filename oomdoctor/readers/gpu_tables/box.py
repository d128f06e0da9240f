"""The table that plain `nvidia-smi` draws, once or again and again (`-l 1`), whole or cut."""

from __future__ import annotations

import re

from ...model.devices import DeviceProcess
from ..times import CLOCK, clock_time
from .piece import MOST_DEVICES, Draft, Memory, Piece, TableLine, size

_ROW_ALONE = "iB |"
"""What a row of a process holds, and many a table besides."""
ANCHORS = ("iB /", "NVIDIA-SMI", "Processes:", "Process name", _ROW_ALONE)
"""Every table holds one of these, and so does what was left of one."""

_SIZE = r"\d{1,9}(?:\.\d{1,3})? ?[KMGT]iB"
_NAME_ROW = re.compile(
    r"\|\s{1,6}(?P<index>\d{1,3})\s{1,4}(?P<name>[A-Za-z][^|]{2,60}?)\s{1,40}(?:(?:On|Off|N/A|WDDM|TCC|MCDM)\s{0,4})?"
    r"\|\s{1,30}[0-9A-Fa-f]{4,8}:"
)
_USAGE_ROW = re.compile(
    rf"\|[^|]{{0,80}}\|\s{{0,30}}(?P<used>{_SIZE})\s?/\s{{0,8}}(?P<total>{_SIZE})\s{{0,30}}\|"
    r"(?:\s{0,20}(?P<load>\d{1,3})%)?"
)
_MIG_ROW = re.compile(r"\|\s{1,4}(?P<index>\d{1,3})\s{1,6}\d{1,3}\s{1,6}\d{1,3}\s{1,6}\d{1,3}\s*\|")
_MIG_MODE = re.compile(r"\|\s+\|\s+\|\s+(Enabled|Disabled)\*?\s*\|")
_PROCESS_ROW = re.compile(
    r"\|\s{1,6}(?P<index>\d{1,3})\s{1,12}(?:(?:N/A|\d{1,3})\s{1,8}(?:N/A|\d{1,3})\s{1,12})?(?P<pid>\d{1,10})\s{1,12}"
    r"(?:(?P<kind>[CGM](?:\+[CG]){0,2})\s{1,8})?(?P<rest>\S.{0,300})$"
)
_PROCESS_USED = re.compile(rf"\s(?:({_SIZE})|N/A)\s*\|?\s*$")
_PROCESS_TITLE = re.compile(r"\|\s{1,4}(?:Processes:|GPU\s+(?:GI\s+CI\s+)?PID\b)")


def is_drawn(text: str) -> bool:
    """Whether a line is part of a table: a row, a rule, or the clock above it."""
    text = text.strip()
    return text[:1] in ("|", "+") or CLOCK.match(text) is not None


def opens(text: str) -> bool:
    """Whether a line with an anchor is part of a table. Rows of processes were copied where its heads are missing."""
    return is_drawn(text) and (any(anchor in text for anchor in ANCHORS[:-1]) or _lone_process(text.strip()))


def _lone_process(text: str) -> bool:
    row = _PROCESS_ROW.match(text)
    return row is not None and row["kind"] is not None and _PROCESS_USED.search(row["rest"]) is not None


class Box(Piece):
    """Reads the rows of one table after another; a device shown again begins a new still."""

    def __init__(self, path: str, memory: Memory) -> None:
        super().__init__(path, memory)
        self.still: dict[int, Draft] = {}
        self.current: Draft | None = None
        self.in_processes = False
        self.has_banner = False
        self.time: float | None = None

    def _device(self, index: int, line: TableLine) -> Draft:
        if index not in self.still and len(self.still) >= MOST_DEVICES:
            self._new_still()
        time = self.time if self.time is not None else line.time_seconds
        return self.still.setdefault(index, Draft(index=index, line=line.number, time=time))

    def _new_still(self) -> None:
        self.finish(device for device in self.still.values() if device.total is not None or device.processes)
        self.still, self.in_processes, self.current = {}, False, None

    def close(self) -> None:
        """Completes what is left."""
        self._new_still()
        if self.has_banner and not self.found:
            self.note("a table of nvidia-smi shows no device: it is cut, or the tool found none")

    def read(self, line: TableLine) -> bool:
        """Reads a line; False where it is not one of these."""
        text = line.text.strip()
        if clock := CLOCK.match(text):
            self._new_still()
            self.time = clock_time(clock[0])
            return True
        if text[:1] not in ("|", "+"):
            return False
        if "NVIDIA-SMI" in text:
            self.has_banner = True
            self._new_still()
        elif _PROCESS_TITLE.match(text):
            self.in_processes = True
            for device in self.still.values():
                device.processes_shown = True
        elif (self.in_processes or (not self.still and _lone_process(text))) and (row := _PROCESS_ROW.match(text)):
            self.in_processes = True
            self._read_process(line, row)
        elif row := _NAME_ROW.match(text):
            index = int(row["index"])
            if self.in_processes or index in self.still:
                self._new_still()
            self.current = self._device(index, line)
            self.current.name = row["name"].strip()
        elif row := _MIG_ROW.match(text):
            self._device(int(row["index"]), line).mig = True
            self.current = None  # what follows is the instance's memory, not the device's
        elif (row := _USAGE_ROW.match(text)) and self.current is not None:
            self.current.used, self.current.total = size(row["used"]), size(row["total"])
            self.current.utilization = int(row["load"]) / 100 if row["load"] else None
        elif (row := _MIG_MODE.match(text)) and self.current is not None:
            self.current.mig = row[1] == "Enabled"
        return True

    def _read_process(self, line: TableLine, row: re.Match[str]) -> None:
        rest = row["rest"]
        used = _PROCESS_USED.search(rest)
        name = rest[: used.start()] if used else rest.rstrip(" |")
        process = DeviceProcess(
            pid=int(row["pid"]),
            used_bytes=size(used[1]) if used and used[1] else None,
            name=name.strip() or None,
            kind=row["kind"],
        )
        self._device(int(row["index"]), line).add(process)
