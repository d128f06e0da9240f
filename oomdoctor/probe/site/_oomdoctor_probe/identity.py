"""Which process this is."""

from __future__ import annotations

import os
import sys

from . import records
from .masking import mask_command
from .whole import whole_number

_MOST_ARGUMENTS = 200
_LONGEST_ARGUMENT = 1000


def rank() -> int | None:
    """Rank of this process as its launcher gave it: RANK (torchrun, accelerate), else LOCAL_RANK."""
    for name in ("RANK", "LOCAL_RANK"):
        value = whole_number(os.environ.get(name, ""))
        if value is not None:
            return value
    return None


def write_process(forked: bool = False) -> None:
    """Record that this process exists."""
    records.write(
        "process",
        pid=os.getpid(),
        ppid=os.getppid(),
        argv=[word[:_LONGEST_ARGUMENT] for word in mask_command(_command()[:_MOST_ARGUMENTS])],
        executable=sys.executable,
        python="%d.%d.%d" % sys.version_info[:3],
        rank=rank(),
        forked=forked,
    )


def _command() -> list[str]:
    """The whole command line; before Python 3.10 only the kernel still knows what came before the script."""
    original = getattr(sys, "orig_argv", None)
    if original is not None:
        return list(original)
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:
        return [sys.executable, *getattr(sys, "argv", [])]
