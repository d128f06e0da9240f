"""`gpustat`: a line per device, coloured or not, with the clock above; and `gpustat --json`."""

from __future__ import annotations

import re

from ...model.devices import DeviceProcess
from ...model.units import MIB
from ..times import CLOCK, clock_time, unix_time
from .piece import Draft, Memory, Piece, TableLine, ratio, whole

ANCHORS = (" MB |",)
JSON_ANCHORS = ('"memory.used"', '"query_time"')

_DEVICE = re.compile(
    r"\[(?P<index>\d{1,3})\] (?P<name>[^|]{1,80}?) {0,40}\|[^|]{1,120}\|"
    r" {0,8}(?P<used>\d{1,9}|\?\?) / {0,6}(?P<total>\d{1,9}|\?\?)"
    r" MB \|(?P<rest>.{0,4000})$"
)
_LOAD = re.compile(r"(\d{1,3}) %")
_PROCESS = re.compile(r"(?P<who>[^\s()]{1,200})\((?P<used>\d{1,9}|\?)M\)")
_PID = re.compile(r"/(\d{1,10})$")
_HEAD = re.compile(rf"\S{{1,80}}\s{{1,60}}(?P<clock>{CLOCK.pattern})(?:\s|$)")
_COMMAND = re.compile(r"\s{0,4}[├└]─ ")


def is_part(text: str) -> bool:
    """Whether a line is part of such output."""
    return any(form.match(text) for form in (_DEVICE, _HEAD, _COMMAND))


def opens(text: str) -> bool:
    """Whether this line, which holds an anchor, is a device's."""
    return _DEVICE.match(text) is not None


class Gpustat(Piece):
    """Reads one look after another."""

    def __init__(self, path: str, memory: Memory) -> None:
        super().__init__(path, memory)
        self.time: float | None = None

    def read(self, line: TableLine) -> bool:
        """Reads a line; False where it is not one of these."""
        if row := _DEVICE.match(line.text):
            self.finish([self._device(row, line)])
            return True
        if head := _HEAD.match(line.text):
            self.time = clock_time(head["clock"])
            return True
        return _COMMAND.match(line.text) is not None

    def _device(self, row: re.Match[str], line: TableLine) -> Draft:
        used, total = whole(row["used"]), whole(row["total"])
        load = _LOAD.findall(row[0].split("|")[1])
        draft = Draft(
            index=int(row["index"]),
            line=line.number,
            name=row["name"],
            used=None if used is None else used * MIB,
            total=None if total is None else total * MIB,
            utilization=ratio(load[-1]) if load else None,
            time=self.time if self.time is not None else line.time_seconds,
        )
        # A line that lists nobody may be one of `--no-processes`.
        for process in _PROCESS.finditer(row["rest"]):
            pid, held = _PID.search(process["who"]), whole(process["used"])
            name = process["who"][: pid.start()] if pid else process["who"]
            draft.add(DeviceProcess(int(pid[1]) if pid else None, None if held is None else held * MIB, name))
        return draft


# --- --json ---------------------------------------------------------------------------------------------------

_JSON_LINE = re.compile(r"\s{0,40}[\[\]{}\"]")
_TOKEN = re.compile(
    r"\"(?P<key>[\w.]{1,40})\"\s{0,4}:\s{0,4}(?:\"(?P<text>(?:[^\"\\]|\\.){0,500})\"|(?P<number>-?\d{1,15})|(?P<null>null)|(?P<open>[\[{]))?"
    r"|(?P<bracket>[\[\]{}])|\"(?:[^\"\\]|\\.){0,2000}\""
)


def is_json(text: str) -> bool:
    """Whether a line may be part of the JSON."""
    return _JSON_LINE.match(text) is not None


class GpustatJson(Piece):
    """Reads names and values as they come: which are a device's and which a process's, the depth of the lists tells."""

    def __init__(self, path: str, memory: Memory) -> None:
        super().__init__(path, memory)
        self.time: float | None = None
        self.device: Draft | None = None
        self.in_processes = False
        self.depth = 0
        """Of brackets inside the list of processes."""
        self.process: dict[str, str] = {}

    def read(self, line: TableLine) -> bool:
        """Reads a line; False where it is not one of these."""
        if _JSON_LINE.match(line.text) is None:
            return False
        for token in _TOKEN.finditer(line.text):
            opened = token["open"] or token["bracket"] or ""
            if self.in_processes:
                self._read_in_processes(token, opened)
            elif token["key"]:
                self._read_of_device(token, opened, line)
        return True

    def _read_of_device(self, token: re.Match[str], opened: str, line: TableLine) -> None:
        key, value = token["key"], token["text"] or token["number"]
        if key == "query_time":
            self._end_of_device()
            self.time = unix_time(value or "")
        elif key == "index":
            self._end_of_device()
            time = self.time if self.time is not None else line.time_seconds
            self.device = Draft(index=whole(value), line=line.number, time=time)
        elif self.device is None:
            return
        elif key in ("name", "uuid"):
            setattr(self.device, key, value)
        elif key in ("memory.used", "memory.total") and (amount := whole(value)) is not None:
            setattr(self.device, key.rpartition(".")[2], amount * MIB)
        elif key == "utilization.gpu":
            self.device.utilization = ratio(value)
        elif key == "processes" and opened == "[":
            self.device.processes_shown = self.in_processes = True
            self.depth = 0

    def _read_in_processes(self, token: re.Match[str], opened: str) -> None:
        if token["key"] and self.depth == 1:
            self.process[token["key"]] = token["text"] or token["number"] or ""
        if opened in ("[", "{"):
            self.depth += 1
        elif opened:
            self.depth -= 1
            if opened == "}" and self.depth == 0 and self.device is not None:
                pid, used = whole(self.process.get("pid")), whole(self.process.get("gpu_memory_usage"))
                name = self.process.get("command") or self.process.get("username") or None
                self.device.add(DeviceProcess(pid, None if used is None else used * MIB, name))
                self.process = {}
            self.in_processes = self.depth >= 0

    def _end_of_device(self) -> None:
        if self.device is not None:
            self.finish([self.device])
        self.device = None

    def close(self) -> None:
        """Completes what is left."""
        self._end_of_device()
