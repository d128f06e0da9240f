"""What must hold of every device's budget, counted without the tool: from the snapshot, the cards and the records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emulation.cards import MIB, Cards

from oomdoctor.readers.snapshot import read_snapshot

LIBRARY_HANDLE = 8 * MIB
NOT_ATTRIBUTED = 0.01

LIVE = {
    "weights and buffers", "gradients", "optimizer state", "keys and values", "activations saved for backward",
    "activations of running forward passes", "logits", "held by variables and containers",
    "tensors that no variable leads to",
    "workspaces of cuBLAS", "gradients in flight", "activations in flight", "temporaries of the optimizer",
    "weights in flight", "keys and values in flight", "communication buffers", "copies in flight",
    "in graph pools, no Python object leads to them", "no Python object leads to them",
    "live tensors of this process",
}  # fmt: skip
WAITING, GRAPHS, IDLE = "freed, waiting for another stream", "idle in graph pools", "idle in blocks of the allocator"
INSIDE = LIVE | {WAITING, GRAPHS, IDLE}
CONTEXT, RESERVE, FREE = "context and libraries", "the driver's reserve", {"free", "free beyond the cap of the process"}
OTHERS = re.compile(r"other processes|other process(?:es)? of this command: .+")


def parts_of(budget: Mapping[str, Any]) -> dict[str, int]:
    """Bytes of each part; none is there twice but for two ways of knowing it."""
    sizes: dict[str, int] = {}
    for part in budget["parts"]:
        assert part["bytes"] > 0
        sizes[part["name"]] = sizes.get(part["name"], 0) + part["bytes"]
    return sizes


def check_closes(budget: Mapping[str, Any]) -> dict[str, int]:
    """It adds up exactly, nearly all of it has a name, and every name is a known one."""
    parts, rest = parts_of(budget), budget["unattributed_bytes"]
    assert sum(parts.values()) + rest == budget["total_bytes"]
    assert 0 <= rest <= NOT_ATTRIBUTED * budget["total_bytes"], parts
    strange = [name for name in parts if name not in INSIDE | FREE | {CONTEXT, RESERVE} and not OTHERS.fullmatch(name)]
    assert not strange
    return parts


def check_outside(parts: Mapping[str, int], cards: Cards, device: int, reserved: int, free: int) -> None:
    """Card = the driver's reserve + free + what torch reserved + the context and handles + the other processes."""
    assert parts.get(RESERVE, 0) == cards.reserve_bytes
    assert sum(parts.get(name, 0) for name in FREE) == free
    assert sum(size for name, size in parts.items() if name in INSIDE) == reserved
    handles = parts[CONTEXT] - cards.context_bytes
    assert handles in (0, LIBRARY_HANDLE, 2 * LIBRARY_HANDLE)
    others = sum(size for name, size in parts.items() if OTHERS.fullmatch(name))
    assert others == cards.memory_bytes[device] - free - reserved - parts[CONTEXT]


def check_inside(parts: Mapping[str, int], snapshot: Path, device: int) -> None:
    """Live, waiting and idle memory by the blocks of the snapshot."""
    held = read_snapshot(snapshot)
    segment = held.blocks.segment
    mine, state, private = (
        held.segments.device[segment] == device,
        held.blocks.state,
        held.segments.private_pool[segment],
    )

    def size(chosen: Any) -> int:
        return int(held.blocks.size_bytes[mine & chosen].sum())

    assert sum(bytes_ for name, bytes_ in parts.items() if name in LIVE) == size(state == 1)
    assert parts.get(WAITING, 0) == size(state == 2)
    assert parts.get(GRAPHS, 0) == size((state == 0) & private)
    assert parts.get(IDLE, 0) == size((state == 0) & ~private)
