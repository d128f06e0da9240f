"""Turns on torch's own allocation history, so that a snapshot says where each block was allocated.

OOMDOCTOR_HISTORY  `off`, or the number of events to keep (100,000 if not set): a ring, the oldest are overwritten.
OOMDOCTOR_STACKS   `always` (if not set): a Python stack with each allocation; `never`: events and sizes only.
"""

from __future__ import annotations

import os

from . import records
from .guard import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DEFAULT_ENTRIES = 100000


@guarded("turning allocation history on")
def turn_on(torch: Any) -> None:
    """Ask torch to record, in the spelling that this version of it knows."""
    entries = _entries()
    if not entries:
        return
    record = getattr(torch.cuda.memory, "_record_memory_history", None)
    if record is None:
        records.write_error("turning allocation history on", "this torch has none")
        return
    stacks = os.environ.get("OOMDOCTOR_STACKS", "always") != "never"
    spellings: list[dict[str, object]] = [
        # 2.1 and later. 'alloc': with a stack for each allocation; frees do without.
        {"enabled": "all", "context": "alloc" if stacks else None, "stacks": "python", "max_entries": entries},
        # 2.0
        {
            "enabled": True,
            "record_context": stacks,
            "trace_alloc_max_entries": entries,
            "trace_alloc_record_context": stacks,
        },
        # 1.13: live blocks only, no events
        {"enabled": True},
    ]
    for position, spelling in enumerate(spellings):
        try:
            record(**spelling)
            return
        except TypeError:
            # An older version: its Python signature refuses the names before anything has been done.
            if position == len(spellings) - 1:
                raise


def _entries() -> int:
    wanted = os.environ.get("OOMDOCTOR_HISTORY", "").strip()
    if wanted.lower() in ("off", "0"):
        return 0
    if wanted and not wanted.isdigit():
        records.write_error("reading OOMDOCTOR_HISTORY", "neither 'off' nor a number: %r" % wanted)
    return int(wanted) if wanted.isdigit() else _DEFAULT_ENTRIES
