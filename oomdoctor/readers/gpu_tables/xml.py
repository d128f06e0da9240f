"""`nvidia-smi -q -x`: read tag by tag as the lines come, so that a cut or repeated document is no hindrance."""

from __future__ import annotations

import html
import re
from dataclasses import replace

from ...model.devices import DeviceProcess
from ..times import clock_time
from .piece import MOST_DEVICES, Draft, Memory, Piece, TableLine, ratio, size, whole

ANCHORS = ("<nvidia_smi_log", "<fb_memory_usage>")

_TAG = re.compile(r"<(?P<end>/?)(?P<name>[a-z_][\w]{0,60})(?:\s[^<>]{0,200})?>(?P<text>[^<]{0,1000})")
_DEEPEST = 16
_LINES_WITHOUT_TAGS = 3


def is_part(text: str) -> bool:
    """Whether a line is part of such a document."""
    return text.lstrip()[:1] == "<"


class Document(Piece):
    """Reads one document after another. The path of an element is taken from the device's element on."""

    def __init__(self, path: str, memory: Memory) -> None:
        super().__init__(path, memory)
        self.devices: list[Draft] = []
        self.attached: int | None = None
        self.time: float | None = None
        self.path_inside: list[str] = []
        self.without_tags = 0

    def read(self, line: TableLine) -> bool:
        """Reads a line; False where it is not one of these."""
        if "<" not in line.text:  # `None` between the tags of a list that is empty
            self.without_tags += 1
            return self.without_tags <= _LINES_WITHOUT_TAGS and len(line.text) < 100
        self.without_tags = 0
        for tag in _TAG.finditer(line.text):
            self._read_tag(tag["name"], bool(tag["end"]), tag["text"].strip(), line)
        return True

    def _read_tag(self, name: str, ends: bool, text: str, line: TableLine) -> None:
        if name == "nvidia_smi_log":
            self._end_of_document()
        elif ends:
            if name in self.path_inside:
                del self.path_inside[self.path_inside.index(name) :]
        elif name == "gpu" and "gpu" not in self.path_inside:
            if len(self.devices) >= MOST_DEVICES:
                self._end_of_document()
            self.devices.append(Draft(line=line.number, time=self.time if self.time is not None else line.time_seconds))
            self.path_inside = ["gpu"]
        elif not self.devices:
            self._read_head(name, text)
        elif len(self.path_inside) < _DEEPEST:
            self.path_inside.append(name)
            self._read_value("/".join(self.path_inside[1:]), text)

    def _read_head(self, name: str, text: str) -> None:
        if name == "timestamp":
            self.time = clock_time(text)
        elif name == "attached_gpus":
            self.attached = whole(text)

    def _read_value(self, path: str, text: str) -> None:
        device = self.devices[-1]
        if path in _SIZES:
            setattr(device, _SIZES[path], size(text))
        elif path in _TEXTS:
            setattr(device, _TEXTS[path], html.unescape(text) or None)
        elif path == "minor_number":
            device.minor = whole(text)
        elif path == "mig_mode/current_mig":
            device.mig = {"Enabled": True, "Disabled": False}.get(text)
        elif path == "utilization/gpu_util":
            device.utilization = ratio(text)
        elif path == "processes":
            device.processes_shown = text in ("", "None")
        elif path == "processes/process_info/pid" and (pid := whole(text)) is not None:
            device.add(DeviceProcess(pid, None))
        elif device.processes and path.startswith("processes/process_info/"):
            device.processes[-1] = _with(device.processes[-1], path.rpartition("/")[2], html.unescape(text))

    def _end_of_document(self) -> None:
        for order, device in enumerate(self.devices):
            # All attached devices are listed in order of their index; of a selection, only the minor number is known.
            device.index = device.minor if self.attached not in (None, len(self.devices)) else order
        self.finish(device for device in self.devices if device.total is not None)
        self.devices, self.path_inside, self.attached, self.time = [], [], None, None

    def close(self) -> None:
        """Completes what is left."""
        self._end_of_document()
        if not self.found:
            self.note("a piece of nvidia-smi -q -x shows the memory of no device: it is cut")


def _with(process: DeviceProcess, name: str, text: str) -> DeviceProcess:
    if name == "type":
        return replace(process, kind=text or None)
    if name == "process_name":
        return replace(process, name=text or None)
    return replace(process, used_bytes=size(text)) if name == "used_memory" else process


_SIZES = {
    "fb_memory_usage/total": "total",
    "fb_memory_usage/reserved": "reserved",
    "fb_memory_usage/used": "used",
    "fb_memory_usage/free": "free",
}
_TEXTS = {"product_name": "name", "uuid": "uuid"}
