"""How large blocks were that are gone, by undoing one event after the other and looking at what lies behind each."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any

MIB = 1 << 20


def to_512(size: int) -> int:
    """As torch rounds a request without roundup_power2_divisions."""
    return max(512, -(-size // 512) * 512)


def sizes_of_gone(
    content: dict[str, Any], device: int, rounded: Callable[[int], int] = to_512
) -> dict[int, tuple[int, bool]]:
    """By the event that completed its release: the block's size, and whether it is known.

    It is not where the block stood before the first event and nothing came to stand right behind it.
    """
    trace = content["device_traces"][device]
    expandable = any(segment.get("is_expandable") for segment in content["segments"])
    bounds: list[int] = []
    """Where blocks that are live begin, and where segments end."""
    live: dict[int, list[int]] = {}
    """By address: the event that released it, the bytes it needs, where the next thing was seen at the nearest."""
    found: dict[int, tuple[int, bool]] = {}

    def seen(bound: int) -> None:
        insort(bounds, bound)
        at = bisect_left(bounds, bound)
        for below in bounds[max(0, at - 2) : at]:
            if below in live and live[below][0] >= 0 and below + live[below][1] <= bound:
                live[below][2] = min(live[below][2], bound)

    def settle(address: int, allocated: bool) -> None:
        release, needs, nearest = live.pop(address)
        if release >= 0:
            rest = nearest - address - needs
            near = not expandable and needs > MIB and rest <= MIB
            found[release] = needs + rest if near else needs, near or expandable or allocated or needs <= MIB

    for segment in content["segments"]:
        if segment.get("device", 0) == device:
            bounds.append(segment["address"] + segment["total_size"])
            for block in segment["blocks"]:
                if block["state"] != "inactive":
                    bounds.append(block["address"])
                    live[block["address"]] = [-1, block["size"], 0]
    bounds.sort()
    for number in range(len(trace) - 1, -1, -1):
        event = trace[number]
        address, size = event.get("addr", 0), event["size"]
        if event["action"] == "free_completed":
            needs = rounded(size)
            at = bisect_left(bounds, address + needs)
            live[address] = [number, needs, bounds[at] if at < len(bounds) else 1 << 64]
            seen(address)
        elif event["action"] == "alloc":
            settle(address, allocated=True)
            bounds.remove(address)
        elif event["action"] == "segment_free":
            seen(address + size)
        elif event["action"] == "segment_alloc":
            bounds.remove(address + size)
    for address in list(live):
        settle(address, allocated=False)
    return found
