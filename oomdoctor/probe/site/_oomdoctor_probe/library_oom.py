"""A library or the driver found no device memory left: torch's observer is not told, so the look is taken here.

The error has come up to the top, but what its traceback holds is still there.
"""

from __future__ import annotations

import sys

from . import handshake
from .allocator import write_states
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
    write_states(torch)
