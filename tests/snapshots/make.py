"""Makes memory snapshots: a plain model of a caching allocator that writes its history and its final state.

It keeps what is true at every event (`live`, `reserved`), so that a reader of the history can be held against it.
Every block is split to the size that was asked for, rounded up to 512, so that the history alone tells all sizes.
"""

from __future__ import annotations

import gzip
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIB = 1 << 20
Stack = list[dict[str, Any]]


def frame(function: str, file: str, line: int) -> dict[str, Any]:
    return {"name": function, "filename": file, "line": line}


MODULE_CALL = [
    frame("_call_impl", "/env/lib/python3.11/site-packages/torch/nn/modules/module.py", 1794),
    frame("_wrapped_call_impl", "/env/lib/python3.11/site-packages/torch/nn/modules/module.py", 1783),
]
LINEAR = frame("forward", "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", 134)
LINEAR_INIT = frame("__init__", "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", 109)
ADAM = frame("_init_group", "/env/lib/python3.11/site-packages/torch/optim/adam.py", 178)
NO_GRAD = frame("decorate_context", "/env/lib/python3.11/site-packages/torch/utils/_contextlib.py", 124)


@dataclass
class Block:
    address: int
    size: int
    requested: int = 0
    state: str = "inactive"
    frames: Stack = field(default_factory=list)


@dataclass
class Segment:
    address: int
    size: int
    stream: int
    small: bool
    pool: tuple[int, int]
    expandable: bool
    frames: Stack
    blocks: list[Block]


class Device:
    """One device's allocator. Sizes in bytes; addresses are returned by `malloc` and taken by `free`."""

    def __init__(self, index: int = 0, base: int = 0x7F00_0000_0000, expandable: bool = False) -> None:
        self.index, self.expandable = index, expandable
        self.next_address = base
        self.segments: list[Segment] = []
        self.events: list[dict[str, Any]] = []
        self.live: list[int] = []
        self.reserved: list[int] = []
        self.time_us = 1_800_000_000_000_000

    def malloc(self, requested: int, stack: Stack, stream: int = 0, pool: tuple[int, int] = (0, 0)) -> int:
        size = max(512, -(-requested // 512) * 512)
        small = size <= MIB
        segment, block = self._idle(size, small, stream, pool) or self._grow(size, small, stream, pool, stack)
        # As torch's `should_split`: what is left of a large block goes with it unless it is more than 1 MiB.
        if block.size - size > (0 if small or self.expandable else MIB):
            at = segment.blocks.index(block)
            segment.blocks.insert(at + 1, Block(block.address + size, block.size - size))
            block.size = size
        block.requested, block.state, block.frames = requested, "active_allocated", stack
        self._record("alloc", block.address, requested, stream, stack)
        return block.address

    def free(self, address: int, stack: Stack | None = None, waits: bool = False) -> None:
        """Give a block back; with `waits` it stays pending until `complete` is called."""
        segment, block = self._at(address)
        block.state = "active_pending_free"
        self._record("free_requested", address, block.requested, segment.stream, stack or [])
        if not waits:
            self.complete(address, stack)

    def complete(self, address: int, stack: Stack | None = None) -> None:
        segment, block = self._at(address)
        requested = block.requested
        block.state, block.requested, block.frames = "inactive", 0, []
        self._record("free_completed", address, requested, segment.stream, stack or [])
        merged: list[Block] = []
        for current in segment.blocks:
            if merged and merged[-1].state == current.state == "inactive":
                merged[-1].size += current.size
            else:
                merged.append(current)
        segment.blocks = merged

    def release_idle(self) -> None:
        """Give segments without live blocks back to the driver."""
        for segment in [s for s in self.segments if all(b.state == "inactive" for b in s.blocks)]:
            self.segments.remove(segment)
            action = "segment_unmap" if self.expandable else "segment_free"
            self._record(action, segment.address, segment.size, segment.stream, [])

    def fail(self, requested: int, device_free: int, stack: Stack, stream: int = 0) -> None:
        """Record a request that did not fit."""
        self._record("oom", None, requested, stream, stack, device_free)

    def state(self) -> list[dict[str, Any]]:
        """The device's entries of `segments`, in torch's form."""
        return [
            {
                "device": self.index,
                "address": s.address,
                "total_size": s.size,
                "allocated_size": sum(b.size for b in s.blocks if b.state == "active_allocated"),
                "active_size": sum(b.size for b in s.blocks if b.state != "inactive"),
                "requested_size": sum(b.requested for b in s.blocks),
                "stream": s.stream,
                "segment_type": "small" if s.small else "large",
                "segment_pool_id": s.pool,
                "is_expandable": s.expandable,
                "frames": s.frames,
                "blocks": [
                    {
                        "address": b.address,
                        "size": b.size,
                        "requested_size": b.requested,
                        "state": b.state,
                        "frames": b.frames,
                    }
                    for b in s.blocks
                ],
            }
            for s in self.segments
        ]

    def _idle(self, size: int, small: bool, stream: int, pool: tuple[int, int]) -> tuple[Segment, Block] | None:
        found = [
            (segment, block)
            for segment in self.segments
            if (segment.small, segment.stream, segment.pool) == (small, stream, pool)
            for block in segment.blocks
            if block.state == "inactive" and block.size >= size
        ]
        return min(found, key=lambda pair: (pair[1].size, pair[1].address), default=None)

    def _grow(self, size: int, small: bool, stream: int, pool: tuple[int, int], stack: Stack) -> tuple[Segment, Block]:
        total = 2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        block = Block(self.next_address, total)
        segment = Segment(self.next_address, total, stream, small, pool, self.expandable, stack, [block])
        self.next_address += total + 2 * MIB
        self.segments.append(segment)
        self._record("segment_map" if self.expandable else "segment_alloc", segment.address, total, stream, stack)
        return segment, block

    def _at(self, address: int) -> tuple[Segment, Block]:
        return next((s, b) for s in self.segments for b in s.blocks if b.address == address)

    def _record(
        self, action: str, address: int | None, size: int, stream: int, stack: Stack, device_free: int | None = None
    ) -> None:
        self.time_us += 10
        about = {"addr": address} if address is not None else {"device_free": device_free}
        rest = {"size": size, "stream": stream, "time_us": self.time_us, "frames": list(stack)}
        self.events.append({"action": action, **about, **rest})
        blocks = [b for s in self.segments for b in s.blocks]
        self.live.append(sum(b.size for b in blocks if b.state != "inactive"))
        self.reserved.append(sum(s.size for s in self.segments))


def snapshot(*devices: Device, ring: int | None = None) -> dict[str, Any]:
    """The snapshot of these devices; `ring` keeps only that many of the latest events of each."""
    return {
        "segments": [entry for device in devices for entry in device.state()],
        "device_traces": [device.events[-ring:] if ring is not None else device.events for device in devices],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": devices[0].expandable},
        "external_annotations": [],
    }


def without_addresses(content: dict[str, Any]) -> dict[str, Any]:
    """As torch 2.0 writes it: blocks carry a history and no address; events have no times and no frames."""
    return {
        "segments": [
            {
                **{k: v for k, v in segment.items() if k not in ("segment_pool_id", "is_expandable", "frames")},
                "blocks": [_old_block(block) for block in segment["blocks"]],
            }
            for segment in content["segments"]
        ],
        "device_traces": [
            [{k: v for k, v in event.items() if k not in ("time_us", "frames")} for event in trace]
            for trace in content["device_traces"]
        ],
    }


def _old_block(block: dict[str, Any]) -> dict[str, Any]:
    old = {"size": block["size"], "requested_size": block["requested_size"], "state": block["state"]}
    if block["state"] == "active_pending_free":
        old["state"] = "active_awaiting_free"
    if block["state"] != "inactive":
        entry = {"addr": block["address"], "real_size": block["requested_size"], "frames": block["frames"]}
        old["history"] = [entry]
    return old


def write(path: Path, content: object, protocol: int = 4, packed: bool = False) -> Path:
    """Pickle `content` at `path`; returns the path."""
    data = pickle.dumps(content, protocol=protocol)
    path.write_bytes(gzip.compress(data) if packed else data)
    return path
