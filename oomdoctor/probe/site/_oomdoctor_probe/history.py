"""Turns on torch's own allocation history, so that a snapshot says where each block was allocated.

OOMDOCTOR_HISTORY  `off`, or the number of events to keep (100,000 if not set): a ring, the oldest are overwritten.
OOMDOCTOR_STACKS   `adaptive`: a Python stack with each allocation while device memory is tight (if not set);
                   `always`: from the start; `never`: events and sizes only. Before 2.6 torch may forget its history
                   when that is switched, so there `adaptive` means `always`. Before 2.1 there are none
                   (`torch_version.may_be_listened_to`): 2.0 records events without, 1.13 nothing.
"""

from __future__ import annotations

import os
from time import monotonic

from . import records
from .guard import guarded
from .tightness import Tightness
from .torch_version import may_be_listened_to, version_of
from .whole import whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_DEFAULT_ENTRIES = 100000
_SWITCHES_SAFELY = (2, 6)
_HAS_EVENTS = (2, 0)


class _State:
    """How history is recorded in this process."""

    entries = 0
    stacks = False
    adaptive = False
    tightness: Tightness | None = None


@guarded("turning allocation history on")
def turn_on(torch: Any) -> None:
    """Ask torch to record, in the spelling that this version of it knows."""
    wanted = os.environ.get("OOMDOCTOR_STACKS") or "adaptive"
    _State.entries = _entries() if version_of(torch) >= _HAS_EVENTS else 0
    _State.adaptive = bool(_State.entries) and wanted == "adaptive" and version_of(torch) >= _SWITCHES_SAFELY
    if _State.entries:
        _record(torch, wanted != "never" and not _State.adaptive and may_be_listened_to(torch))


def _record(torch: Any, stacks: bool) -> None:
    record = getattr(torch.cuda.memory, "_record_memory_history", None)
    if record is None:
        records.write_error("turning allocation history on", "this torch has none")
        return
    entries = _State.entries
    spellings: list[dict[str, object]] = [
        # 2.1 and later. 'alloc': with a stack for each allocation; frees do without.
        {"enabled": "all", "context": "alloc" if stacks else None, "stacks": "python", "max_entries": entries},
        # 2.0; its own default is a single event
        {
            "enabled": True,
            "record_context": stacks,
            "trace_alloc_max_entries": entries,
            "trace_alloc_record_context": stacks,
        },
    ]
    for position, spelling in enumerate(spellings):
        try:
            record(**spelling)
            _State.stacks = stacks
            return
        except TypeError:
            # An older version: its Python signature refuses the names before anything has been done.
            if position == len(spellings) - 1:
                raise


def is_adaptive() -> bool:
    """Whether stacks are switched on and off in this process."""
    return _State.adaptive


def most_events() -> int:
    """How many are kept; 0 where history is off."""
    return _State.entries


@guarded("switching stacks")
def follow(torch: Any, reserved: Mapping[int, int]) -> None:
    """Switch stacks on when memory gets tight, and off again when it no longer is. Takes device → reserved bytes."""
    if _State.tightness is None:
        _State.tightness = Tightness()
    limits = {device: _limit(torch, device) for device in reserved}
    tight = _State.tightness.look(monotonic(), reserved, limits)
    if tight is not _State.stacks:
        _record(torch, tight)


def _limit(torch: Any, device: int) -> int:
    """What torch may reserve on a device: all of it, or the fraction that the program has set."""
    total = int(torch.cuda.get_device_properties(device).total_memory)
    fraction = getattr(torch._C, "_cuda_getMemoryFraction", None)
    return int(total * fraction(device)) if fraction is not None else total


def _entries() -> int:
    wanted = os.environ.get("OOMDOCTOR_HISTORY", "").strip()
    if wanted.lower() in ("off", "0"):
        return 0
    entries = whole_number(wanted)
    if wanted and entries is None:
        records.write_error("reading OOMDOCTOR_HISTORY", "neither 'off' nor a number: %r" % wanted)
    return _DEFAULT_ENTRIES if entries is None else entries
