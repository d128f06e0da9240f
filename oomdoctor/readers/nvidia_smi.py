"""`nvidia-smi` output: the usual table (old and new, several stills, cut), `--query-gpu … --format=csv` and `-q`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from enum import Enum

from ..model.devices import DeviceProcess, DeviceReading
from ..model.source import Source
from ..model.units import MIB, parse_size

ANCHORS = (
    "MiB /",
    "NVIDIA-SMI",
    "Processes:",
    "Process name",
    "NVSMI LOG",
    "FB Memory Usage",
    "memory.used",
    "memory.total",
)
"""Every table holds one of these."""
LONGEST_TABLE = 1200
"""Lines."""


class Layout(Enum):
    """How a piece of output is laid out."""

    TABLE = "table"
    CSV = "csv"
    QUERY = "query"

    def continues(self, text: str) -> bool:
        """Whether a line next to the piece is part of it."""
        if self is Layout.TABLE:
            return text.lstrip()[:1] in ("|", "+") or _CLOCK.match(text) is not None
        if self is Layout.CSV:
            return text.count(",") >= 1 and not text[:1].isspace()
        return bool(_PAIR.match(text) or _HEADING.match(text) or _QUERY_TITLE.search(text))


def layout_of(text: str) -> Layout | None:
    """The layout of the output that this line, which holds an anchor, belongs to."""
    if text.lstrip()[:1] in ("|", "+"):
        return Layout.TABLE
    if "NVSMI LOG" in text or re.match(r"\s{4}FB Memory Usage\s*$", text):
        return Layout.QUERY
    if _CSV_HEADER.match(text):
        return Layout.CSV
    return None


def find_devices(lines: Sequence[str], path: str, first_line: int = 1) -> tuple[DeviceReading, ...]:
    """The readings in these lines, of which the first is line `first_line` of `path`; other lines are passed over."""
    readings: list[DeviceReading] = []
    numbered = list(enumerate(lines, start=first_line))
    if any(_CSV_HEADER.match(text) for _, text in numbered):
        readings += _read_csv(numbered, path)
    if any(text.strip() == "FB Memory Usage" for _, text in numbered):
        readings += _read_query(numbered, path)
    readings += _read_tables(numbered, path)
    return tuple(readings)


# --- what is being put together ------------------------------------------------------------------------------


@dataclass
class _Device:
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

    def reading(self, path: str) -> DeviceReading | None:
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
        )


_Numbered = Sequence[tuple[int, str]]


# --- the table -----------------------------------------------------------------------------------------------

_NAME_ROW = re.compile(
    r"\|\s{1,6}(?P<index>\d{1,3})\s{1,4}(?P<name>[A-Za-z][^|]{2,60}?)\s{1,40}(?:(?:On|Off|N/A|WDDM|TCC|MCDM)\s{0,4})?"
    r"\|\s{1,30}[0-9A-Fa-f]{4,8}:"
)
_USAGE_ROW = re.compile(
    r"\|[^|]{0,80}\|\s{0,30}(?P<used>\d{1,9})MiB\s?/\s{0,8}(?P<total>\d{1,9})MiB\s{0,30}\|"
    r"(?:\s{0,20}(?P<load>\d{1,3})%)?"
)
_MIG_ROW = re.compile(r"\|\s{1,4}(?P<index>\d{1,3})\s{1,6}\d{1,3}\s{1,6}\d{1,3}\s{1,6}\d{1,3}\s*\|")
_MIG_MODE = re.compile(r"\|\s+\|\s+\|\s+(Enabled|Disabled)\*?\s*\|")
_PROCESS_ROW = re.compile(
    r"\|\s{1,6}(?P<index>\d{1,3})\s{1,12}(?:(?:N/A|\d{1,3})\s{1,8}(?:N/A|\d{1,3})\s{1,12})?(?P<pid>\d{1,10})\s{1,12}"
    r"(?:(?P<kind>[CGM](?:\+[CG])?)\s{1,8})?(?P<rest>\S.{0,300})$"
)
_PROCESS_USED = re.compile(r"\s(?:(\d{1,9})MiB|N/A)\s*\|?\s*$")
_CLOCK = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}")


class _Table:
    """Reads the rows of one table after another; a device shown again begins a new still."""

    def __init__(self) -> None:
        self.stills: list[dict[int, _Device]] = [{}]
        self.current: _Device | None = None
        self.in_processes = False
        self.time: float | None = None

    def device(self, index: int, line: int) -> _Device:
        return self.stills[-1].setdefault(index, _Device(index=index, line=line, time=self.time))

    def new_still(self) -> None:
        if self.stills[-1]:
            self.stills.append({})
        self.in_processes, self.current = False, None

    def read(self, number: int, text: str) -> None:
        if clock := _CLOCK.match(text):
            self.new_still()
            self.time = _clock_time(clock[0])
        elif "NVIDIA-SMI" in text:
            self.new_still()
        elif re.match(r"\|\s{1,4}(?:Processes:|GPU\s+(?:GI\s+CI\s+)?PID\b)", text):
            self.in_processes = True
            for device in self.stills[-1].values():
                device.processes_shown = True
        elif self.in_processes and (row := _PROCESS_ROW.match(text)):
            self.read_process(number, row)
        elif row := _NAME_ROW.match(text):
            index = int(row["index"])
            if self.in_processes or index in self.stills[-1]:
                self.new_still()
            self.current = self.device(index, number)
            self.current.name = row["name"].strip()
        elif row := _MIG_ROW.match(text):
            self.device(int(row["index"]), number).mig = True
            self.current = None  # what follows is the instance's memory, not the device's
        elif (row := _USAGE_ROW.match(text)) and self.current is not None:
            self.current.used, self.current.total = int(row["used"]) * MIB, int(row["total"]) * MIB
            self.current.utilization = int(row["load"]) / 100 if row["load"] else None
        elif (row := _MIG_MODE.match(text)) and self.current is not None:
            self.current.mig = row[1] == "Enabled"

    def read_process(self, number: int, row: re.Match[str]) -> None:
        rest = row["rest"]
        used = _PROCESS_USED.search(rest)
        name = rest[: used.start()] if used else rest.rstrip(" |")
        device = self.device(int(row["index"]), number)
        device.processes_shown = True
        device.processes.append(
            DeviceProcess(
                pid=int(row["pid"]),
                used_bytes=int(used[1]) * MIB if used and used[1] else None,
                name=name.strip() or None,
                kind=row["kind"],
            )
        )


def _read_tables(lines: _Numbered, path: str) -> Iterable[DeviceReading]:
    table = _Table()
    for number, text in lines:
        table.read(number, text.strip())
    for still in table.stills:
        for device in still.values():
            if (device.total is not None or device.processes) and (reading := device.reading(path)):
                yield reading


def _clock_time(text: str) -> float | None:
    """Unix time of `Thu Mar  7 21:49:33 2024`; no zone is printed, it is read as UTC."""
    try:
        return datetime.strptime(text, "%a %b %d %H:%M:%S %Y").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


# --- --query-gpu … --format=csv ------------------------------------------------------------------------------

_CSV_HEADER = re.compile(r"^[a-z][\w.]{1,40}(?: \[\w{1,5}\])?(?:, ?[a-z][\w.]{1,60}(?: \[[\w%]{1,5}\])?){0,60}\s*$")
_CSV_MEMORY = ("memory.total", "memory.used", "memory.free", "used_gpu_memory", "used_memory")


def _read_csv(lines: _Numbered, path: str) -> Iterable[DeviceReading]:
    columns: list[tuple[str, str]] = []
    order: dict[str, int] = {}
    devices: list[_Device] = []
    for number, text in lines:
        if _CSV_HEADER.match(text) and any(word in text for word in _CSV_MEMORY):
            columns = [_column(cell) for cell in text.split(",")]
            continue
        cells = [cell.strip() for cell in text.split(",")]
        if not columns or len(cells) != len(columns):
            columns = []
            continue
        row = {name: (cell, unit) for (name, unit), cell in zip(columns, cells, strict=True)}
        if "pid" in row:
            _add_process(row, devices)
        else:
            devices.append(_csv_device(row, number, order))
    return [reading for device in devices if (reading := device.reading(path))]


def _column(cell: str) -> tuple[str, str]:
    name, _, unit = cell.strip().partition(" ")
    return name, unit.strip("[]")


_Row = dict[str, tuple[str, str]]


def _csv_device(row: _Row, number: int, order: dict[str, int]) -> _Device:
    identity = _cell(row, "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id")
    index = _whole(_cell(row, "index"))
    load = re.match(r"(\d{1,3})", _cell(row, "utilization.gpu") or "")
    mig = _cell(row, "mig.mode.current")
    time = re.fullmatch(r"(\d{4})/(\d\d)/(\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?", _cell(row, "timestamp") or "")
    return _Device(
        # Without an index, devices are numbered as they are listed, which is in order of their index.
        index=index if index is not None else order.setdefault(identity, len(order)) if identity else None,
        line=number,
        name=_cell(row, "name", "gpu_name"),
        uuid=_cell(row, "uuid", "gpu_uuid"),
        total=_csv_size(row, "memory.total"),
        used=_csv_size(row, "memory.used"),
        free=_csv_size(row, "memory.free"),
        reserved=_csv_size(row, "memory.reserved"),
        utilization=int(load[1]) / 100 if load else None,
        mig=None if mig not in ("Enabled", "Disabled") else mig == "Enabled",
        time=_stamp(time) if time else None,
    )


def _add_process(row: _Row, devices: list[_Device]) -> None:
    """A row of --query-compute-apps, where its device was listed before."""
    uuid, pid = _cell(row, "gpu_uuid"), _whole(_cell(row, "pid"))
    if pid is None:
        return
    used = _csv_size(row, "used_gpu_memory", "used_memory")
    for device in reversed(devices):
        if device.uuid is not None and device.uuid == uuid:
            device.processes_shown = True
            device.processes.append(DeviceProcess(pid, used, _cell(row, "process_name", "name"), "C"))
            return


def _cell(row: _Row, *names: str) -> str | None:
    return next((row[name][0] for name in names if name in row and row[name][0] not in ("", "[N/A]", "N/A")), None)


def _csv_size(row: _Row, *names: str) -> int | None:
    for name in names:
        if name in row:
            value, unit = row[name]
            return _size(value if _whole(value) is None else f"{value} {unit or 'MiB'}")
    return None


def _stamp(match: re.Match[str]) -> float | None:
    try:
        moment = datetime.fromisoformat(f"{match[1]}-{match[2]}-{match[3]}T{match[4]}+00:00")
    except ValueError:
        return None
    return moment.timestamp() + float(f"0.{match[5] or 0}")


def _whole(text: str | None) -> int | None:
    """A plain whole number. `isdigit` would also take ², which `int` refuses, and digits without end."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,10}", text) else None


def _size(text: str) -> int | None:
    try:
        return parse_size(text)
    except ValueError:
        return None


# --- -q ------------------------------------------------------------------------------------------------------

_QUERY_TITLE = re.compile(r"NVSMI LOG|^GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:|^\s*$")
_PAIR = re.compile(r"^(?P<indent> {0,16})(?P<key>[A-Z][\w /.()-]{1,60}?) {1,60}: (?P<value>.{0,300})$")
_HEADING = re.compile(r"^(?P<indent> {4,16})(?P<key>[A-Z][\w /.()-]{1,60}?)\s*$")
_GPU = re.compile(r"^GPU [0-9A-Fa-f]{8}:")


def _read_query(lines: _Numbered, path: str) -> Iterable[DeviceReading]:
    devices: list[_Device] = []
    attached, section, time = None, "", None
    for number, text in lines:
        if _GPU.match(text):
            devices.append(_Device(line=number, time=time))
            section = ""
        elif pair := _PAIR.match(text):
            key, value = pair["key"], pair["value"].strip()
            if key == "Timestamp":
                time = _clock_time(value)
            elif key == "Attached GPUs":
                attached = _whole(value)
            elif devices:
                section = "" if len(pair["indent"]) <= 4 and key != "Processes" else section
                _read_pair(devices[-1], section or ("Processes" if key == "Processes" else ""), key, value)
        elif (heading := _HEADING.match(text)) and len(heading["indent"]) == 4:
            section = heading["key"]
            if devices and section == "Processes":
                devices[-1].processes_shown = True
    for order, device in enumerate(devices):
        # All attached devices are listed in order of their index; of a selection, only the minor number is known.
        device.index = order if attached == len(devices) else device.minor
    return [reading for device in devices if device.total is not None and (reading := device.reading(path))]


def _read_pair(device: _Device, section: str, key: str, value: str) -> None:
    if (set_value := _QUERY_FIELDS.get((section, key))) is not None:
        set_value(device, value)


def _set_size(name: str) -> Callable[[_Device, str], None]:
    return lambda device, value: setattr(device, name, _size(value))


def _set_text(name: str) -> Callable[[_Device, str], None]:
    return lambda device, value: setattr(device, name, value)


def _set_minor(device: _Device, value: str) -> None:
    device.minor = _whole(value)


def _set_mig(device: _Device, value: str) -> None:
    device.mig = {"Enabled": True, "Disabled": False}.get(value)


def _set_load(device: _Device, value: str) -> None:
    number = _whole(value.removesuffix("%").strip())
    device.utilization = None if number is None else number / 100


def _no_processes(device: _Device, value: str) -> None:
    device.processes_shown = value == "None"


def _start_process(device: _Device, value: str) -> None:
    if (pid := _whole(value)) is not None:
        device.processes.append(DeviceProcess(pid, None))


def _set_kind(device: _Device, value: str) -> None:
    if device.processes:
        device.processes[-1] = replace(device.processes[-1], kind=value)


def _set_program(device: _Device, value: str) -> None:
    if device.processes:
        device.processes[-1] = replace(device.processes[-1], name=value)


def _set_process_used(device: _Device, value: str) -> None:
    if device.processes:
        device.processes[-1] = replace(device.processes[-1], used_bytes=_size(value))


_QUERY_FIELDS: dict[tuple[str, str], Callable[[_Device, str], None]] = {
    ("", "Product Name"): _set_text("name"),
    ("", "GPU UUID"): _set_text("uuid"),
    ("", "Minor Number"): _set_minor,
    ("MIG Mode", "Current"): _set_mig,
    ("FB Memory Usage", "Total"): _set_size("total"),
    ("FB Memory Usage", "Reserved"): _set_size("reserved"),
    ("FB Memory Usage", "Used"): _set_size("used"),
    ("FB Memory Usage", "Free"): _set_size("free"),
    ("Utilization", "Gpu"): _set_load,
    ("Utilization", "GPU"): _set_load,
    ("Processes", "Processes"): _no_processes,
    ("Processes", "Process ID"): _start_process,
    ("Processes", "Type"): _set_kind,
    ("Processes", "Name"): _set_program,
    ("Processes", "Used GPU Memory"): _set_process_used,
}
