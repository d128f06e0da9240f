"""The figures of torch's caching allocator, under the names that the records use."""

from __future__ import annotations

import os

from . import identity, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FIGURES = {
    "allocated_bytes": ("allocated_bytes", "all", "current"),
    "reserved_bytes": ("reserved_bytes", "all", "current"),
    "active_bytes": ("active_bytes", "all", "current"),
    "inactive_split_bytes": ("inactive_split_bytes", "all", "current"),
    "peak_allocated_bytes": ("allocated_bytes", "all", "peak"),
    "peak_reserved_bytes": ("reserved_bytes", "all", "peak"),
    "requested_bytes": ("requested_bytes", "all", "current"),
    "retries": ("num_alloc_retries",),
    "ooms": ("num_ooms",),
}


def read_state(torch: Any, device: int) -> dict[str, int | None]:
    """State of one device's allocator; empty while CUDA is not initialised. Asks the allocator, never the driver."""
    figures = torch.cuda.memory_stats_as_nested_dict(device)
    if not figures:
        return {}
    state: dict[str, int | None] = {"device": device}
    for name, path in _FIGURES.items():
        state[name] = _figure(figures, path)
    state["free_bytes"] = state["total_bytes"] = None
    return state


def write_states(torch: Any) -> None:
    """Record the state of each device that the allocator has used."""
    for device in range(torch.cuda.device_count()):
        state = read_state(torch, device)
        if state and state["peak_reserved_bytes"]:
            records.write("allocator", pid=os.getpid(), rank=identity.rank(), **state)


def reserved_bytes(torch: Any, device: int) -> int:
    """What the allocator of one device has reserved; 0 while CUDA is not initialised."""
    return _figure(torch.cuda.memory_stats_as_nested_dict(device), _FIGURES["reserved_bytes"]) or 0


def events_so_far(torch: Any) -> int | None:
    """About how many events the allocators have had: an allocation is one, a free two. None: not told."""
    total = 0
    for device in range(torch.cuda.device_count()):
        figures = torch.cuda.memory_stats_as_nested_dict(device)
        made, freed = (_figure(figures, ("allocation", "all", name)) for name in ("allocated", "freed"))
        if figures and (made is None or freed is None):
            return None
        total += (made or 0) + 2 * (freed or 0)
    return total


def _figure(figures: Any, path: tuple[str, ...]) -> int | None:
    """The figure at the end of a path through dicts in dicts; None where it is not there."""
    for name in path:
        figures = figures.get(name) if isinstance(figures, dict) else None
    return None if figures is None else int(figures)
