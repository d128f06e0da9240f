"""Records which cards the process's devices are.

A process numbers the devices that it sees: where some are hidden from it, its numbers are not the driver's.
"""

from __future__ import annotations

import os

from . import records
from .guard import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@guarded("recording which cards the devices are")
def write(torch: Any) -> None:
    """Once CUDA is initialised: the driver's name of each device, where this torch tells it, and its size."""
    devices = []
    for device in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(device)
        uuid = getattr(properties, "uuid", None)
        devices.append(
            {
                "index": device,
                "uuid": None if uuid is None else str(uuid),
                "total_bytes": int(properties.total_memory),
            }
        )
    records.write(
        "devices",
        pid=os.getpid(),
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        order=os.environ.get("CUDA_DEVICE_ORDER"),
        devices=devices,
    )
