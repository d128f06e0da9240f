"""`nvidia-smi -q`: names and values, indented; with `-d MEMORY` a part of them, with `-l` again and again."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from ...model.devices import DeviceProcess
from ..times import clock_time
from .piece import MOST_DEVICES, Draft, Memory, Piece, TableLine, ratio, size, whole

ANCHORS = ("NVSMI LOG", "FB Memory Usage")

_TITLE = re.compile(r"={3,}NVSMI LOG={3,}")
_GPU = re.compile(r"GPU [0-9A-Fa-f]{1,8}:[0-9A-Fa-f]{1,2}:")
_PAIR = re.compile(r"(?P<indent> {0,16})(?P<key>[A-Z][\w /.()-]{1,60}?) {1,60}: (?P<value>.{0,300})$")
_HEADING = re.compile(r"(?P<indent> {4,16})(?P<key>[A-Z][\w /.()-]{1,60}?)\s*$")
_UNNAMED = re.compile(r"\s{0,40}: \S")
"""A value whose name another line has."""


def is_part(text: str) -> bool:
    """Whether a line is part of such output."""
    return any(form.match(text) for form in (_TITLE, _GPU, _PAIR, _HEADING, _UNNAMED))


def opens(text: str) -> bool:
    """Whether this line, which holds an anchor, is of such output."""
    return _TITLE.search(text) is not None or text.strip() == "FB Memory Usage"


class Query(Piece):
    """Reads one log after another."""

    def __init__(self, path: str, memory: Memory) -> None:
        super().__init__(path, memory)
        self.devices: list[Draft] = []
        self.attached: int | None = None
        self.section = ""
        self.time: float | None = None

    def read(self, line: TableLine) -> bool:
        """Reads a line; False where it is not one of these."""
        text = line.text
        if _TITLE.search(text):
            self._end_of_log()
        elif _GPU.match(text):
            if len(self.devices) >= MOST_DEVICES:
                self._end_of_log()
            self.devices.append(Draft(line=line.number, time=self.time if self.time is not None else line.time_seconds))
            self.section = ""
        elif pair := _PAIR.match(text):
            self._read_pair(pair)
        elif heading := _HEADING.match(text):
            if len(heading["indent"]) == 4:
                self.section = heading["key"]
                if self.devices and self.section == "Processes":
                    self.devices[-1].processes_shown = True
        else:
            return _UNNAMED.match(text) is not None
        return True

    def _read_pair(self, pair: re.Match[str]) -> None:
        key, value = pair["key"], pair["value"].strip()
        if key == "Timestamp":
            self.time = clock_time(value)
        elif key == "Attached GPUs":
            self.attached = whole(value)
        elif self.devices:
            if len(pair["indent"]) <= 4:
                self.section = "Processes" if key == "Processes" else ""
            set_value = _FIELDS.get((self.section, key))
            if set_value is not None:
                set_value(self.devices[-1], value)

    def _end_of_log(self) -> None:
        for order, device in enumerate(self.devices):
            # All attached devices are listed in order of their index; of a selection, only the minor number is known.
            device.index = order if self.attached == len(self.devices) else device.minor
        told = [device for device in self.devices if device.total is not None]
        if any(device.index is None for device in told):
            self.note("nvidia-smi -q of some of the devices does not say which they are; they were left out")
        self.finish(told)
        self.devices, self.section, self.attached, self.time = [], "", None, None

    def close(self) -> None:
        """Completes what is left."""
        self._end_of_log()
        if not self.found:
            self.note("a piece of nvidia-smi -q shows the memory of no device: it is cut")


def _set_size(name: str) -> Callable[[Draft, str], None]:
    return lambda device, value: setattr(device, name, size(value))


def _set_text(name: str) -> Callable[[Draft, str], None]:
    return lambda device, value: setattr(device, name, value)


def _set_minor(device: Draft, value: str) -> None:
    device.minor = whole(value)


def _set_mig(device: Draft, value: str) -> None:
    device.mig = {"Enabled": True, "Disabled": False}.get(value)


def _set_load(device: Draft, value: str) -> None:
    device.utilization = ratio(value)


def _no_processes(device: Draft, value: str) -> None:
    device.processes_shown = value == "None"


def _start_process(device: Draft, value: str) -> None:
    if (pid := whole(value)) is not None:
        device.add(DeviceProcess(pid, None))


def _set_kind(device: Draft, value: str) -> None:
    if device.processes:
        device.processes[-1] = replace(device.processes[-1], kind=value)


def _set_program(device: Draft, value: str) -> None:
    if device.processes:
        device.processes[-1] = replace(device.processes[-1], name=value)


def _set_process_used(device: Draft, value: str) -> None:
    if device.processes:
        device.processes[-1] = replace(device.processes[-1], used_bytes=size(value))


_FIELDS: dict[tuple[str, str], Callable[[Draft, str], None]] = {
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
