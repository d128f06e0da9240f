"""A library or the driver found no device memory left: torch's observer is not told, so the look is taken here.

The error has come up to the top, but what its traceback holds is still there.
"""

from __future__ import annotations

import os
import sys

from . import handshake, identity, records
from .allocator import read_state
from .guard import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@guarded("recording what the devices held when a library failed")
def record() -> None:
    """Ask for a look at the devices, and write down what torch's allocator holds of each."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    handshake.ask()
    for device in range(torch.cuda.device_count()):
        state = read_state(torch, device)
        if state and state["reserved_bytes"]:
            records.write("allocator", pid=os.getpid(), rank=identity.rank(), **state)
