"""Writes torch's snapshot of its allocator to a file."""

from __future__ import annotations

import os

from . import history, records, room
from .allocator import events_so_far

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_BYTES_AN_EVENT = 2048
"""On the host while a snapshot is taken and written; 600 were measured without stacks, 1,600 with 27 frames."""
_BYTES_AT_LEAST = 16 << 20


def write_snapshot(torch: Any, name: str) -> dict[int, dict[int, int]]:
    """Write `<bundle>/snapshots/<name>`, whole or not at all.

    Returns the blocks in use: device → address → size. Raises MemoryError where the host has too little room for it.
    """
    import pickle

    so_far, most = events_so_far(torch), history.most_events()
    room.require(_BYTES_AT_LEAST + _BYTES_AN_EVENT * (most if so_far is None else min(most, so_far)))

    folder = records.bundle_path("snapshots")
    partial = os.path.join(folder, "." + name + ".part")
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    content = _take(torch)
    try:
        with open(partial, "wb") as file:
            pickle.dump(content, file, protocol=4)
        os.replace(partial, os.path.join(folder, name))
    except BaseException:
        # A full disk: half a snapshot is of no use and takes room from the records.
        if os.path.exists(partial):
            os.unlink(partial)
        raise
    return _blocks(content)


def _blocks(content: Any) -> dict[int, dict[int, int]]:
    """The blocks in use. Old versions give a block no address: blocks follow each other through their segment."""
    found: dict[int, dict[int, int]] = {}
    # Before 2.0 a snapshot was the list of segments itself.
    for segment in content["segments"] if isinstance(content, dict) else content:
        address = segment["address"]
        of_device = found.setdefault(segment["device"], {})
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                of_device[block.get("address", address)] = block["size"]
            address += block["size"]
    return found


def _take(torch: Any) -> object:
    """The snapshot, without what torch would import to name the frames of code that its compiler generated.

    To name them torch asks for `torch._inductor.codecache`, and that question alone imports the whole compiler
    (2.14: 800 modules and several seconds). In a process that has not imported it, there is no generated code.
    """
    if "_inductor" in vars(torch):
        return torch.cuda.memory._snapshot()
    placeholder = _NoCompiler()
    torch._inductor = placeholder
    try:
        return torch.cuda.memory._snapshot()
    finally:
        # Another thread may have imported the genuine one in the meantime.
        if vars(torch).get("_inductor") is placeholder:
            del torch._inductor


class _NoCompiler:
    """Stands in for `torch._inductor` for a moment: has no code cache, and is the genuine one to anybody else."""

    def __getattr__(self, name: str) -> object:
        if name == "codecache":
            raise AttributeError(name)
        from importlib import import_module

        return getattr(import_module("torch._inductor"), name)
