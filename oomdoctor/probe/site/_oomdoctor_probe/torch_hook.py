"""What the probe does once torch has been imported: wait for CUDA without ever being the one that initialises it."""

from __future__ import annotations

from . import cards, device_oom, history, records, sampler
from .guard import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def watch(torch: Any) -> None:
    """Record which torch this is, and queue the rest behind its own initialisation of CUDA."""
    build = getattr(torch, "version", None)
    records.write(
        "torch",
        version=str(torch.__version__),
        cuda=getattr(build, "cuda", None),
        hip=getattr(build, "hip", None),
    )
    # torch runs this queue at the end of its lazy initialisation (also in a spawned or forked child, where that has
    # not happened yet), or at once if CUDA is initialised already.
    torch.cuda._lazy_call(_when_initialised(torch))


def _when_initialised(torch: Any) -> Callable[[], None]:
    @guarded("starting the watch over CUDA")
    def start() -> None:
        # Each of these guards itself: a torch that lacks one still gives the others.
        history.turn_on(torch)
        device_oom.watch(torch)
        sampler.start(torch)
        cards.write(torch)

    return start
