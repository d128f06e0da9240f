"""stub"""

from __future__ import annotations
from collections.abc import Sequence
from ..model.devices import DeviceReading

ANCHORS = ("MiB /", "NVIDIA-SMI", "Processes:")
LONGEST_TABLE = 400


def is_table_line(text: str) -> bool:
    return text.lstrip()[:1] in ("|", "+")


def find_devices(lines: Sequence[str], path: str, first_line: int = 1) -> tuple[DeviceReading, ...]:
    return ()
