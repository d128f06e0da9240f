"""A library or the driver found no device memory left: torch's observer is not told, so the look is taken here.

The error has come up to the top, but what its traceback holds is still there.
"""

from __future__ import annotations

import sys

from . import handshake
from .guard import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


@guarded("recording what the devices held when a library failed")
def record(chain: Sequence[BaseException], thread: str | None) -> None:
    """Ask for a look at the devices, then write down what torch's allocator holds of each, and for whom.

    Where CUDA could not even be initialised, torch holds nothing: then there is the look alone.
    """
    watching = sys.modules.get(__package__ + ".device_oom")
    observer = watching.current() if watching is not None else None
    if observer is None:
        handshake.ask()
    else:
        observer.library_failed(chain, thread)
