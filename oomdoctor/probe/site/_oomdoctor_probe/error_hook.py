"""Sees torch's out-of-memory errors as they are made, where torch has no observer (cudaMallocAsync).

Caught errors reach no hook, and the allocator's own count of them stays 0 there. But every one of them is an object of
one class, which torch makes at run time: its `__init__` can be replaced, and is called once an error. It gives what the
inherited one would; nothing of the error is kept.
"""

from __future__ import annotations

import sys

from . import frames
from .guard import guarded
from .whole import whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_OF_ALLOCATOR = "Allocation on device "
"""How the message begins that the allocator itself makes: a program may make such errors too, to try what it does."""
_UNPACKERS = ("multiprocessing", "concurrent/futures/process.py", "pickle.py")
"""Where an error that another process had is made again."""


@guarded("watching the out-of-memory errors that are made")
def watch(torch: Any, tell: Callable[[BaseException, int | None], None]) -> None:
    """Call `tell` with each error of the allocator, while its stack is still there, and the device it names."""
    kind = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
    inherited = kind.__init__

    @guarded("seeing an out-of-memory error")
    def see(error: BaseException, arguments: tuple[object, ...]) -> None:
        message = arguments[0] if arguments else None
        if isinstance(message, str) and message.startswith(_OF_ALLOCATOR) and not _comes_from_elsewhere():
            tell(error, whole_number(message[len(_OF_ALLOCATOR) :].split(" ", 1)[0]))

    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        inherited(self, *arguments, **named)
        see(self, arguments)

    kind.__init__ = __init__


def _comes_from_elsewhere() -> bool:
    """Whether whoever makes the error unpacks what another process has sent."""
    frame = sys._getframe()
    while frame is not None and frames.is_ours(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and any(part in frame.f_code.co_filename for part in _UNPACKERS)
