"""The figures of torch's caching allocator, under the names that the records use."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FIGURES = {
    "allocated_bytes": "allocated_bytes.all.current",
    "reserved_bytes": "reserved_bytes.all.current",
    "active_bytes": "active_bytes.all.current",
    "inactive_split_bytes": "inactive_split_bytes.all.current",
    "peak_allocated_bytes": "allocated_bytes.all.peak",
    "peak_reserved_bytes": "reserved_bytes.all.peak",
    "requested_bytes": "requested_bytes.all.current",
    "retries": "num_alloc_retries",
    "ooms": "num_ooms",
}


def read_state(torch: Any, device: int) -> dict[str, int | None]:
    """State of one device's allocator; empty while CUDA is not initialised. Asks the allocator, never the driver."""
    figures = torch.cuda.memory_stats(device)
    if not figures:
        return {}
    state: dict[str, int | None] = {"device": device}
    for name, key in _FIGURES.items():
        value = figures.get(key)
        state[name] = None if value is None else int(value)
    state["free_bytes"] = state["total_bytes"] = None
    return state
