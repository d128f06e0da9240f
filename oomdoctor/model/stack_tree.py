"""Live memory by the stacks that allocated it, as a tree of frames: what a flame graph draws."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StackNode:
    """Frames that follow each other without a branch, outermost first, and what was allocated under them."""

    frames: tuple[str, ...]
    """`train.py:31 in step`; where no frame is known, in words what stands in its place."""
    category: str
    """What most of its bytes are for."""
    bytes: int
    children: tuple[StackNode, ...] = ()
    """Largest first. What they leave of `bytes` was allocated by the frame itself, or under branches left out."""


@dataclass(frozen=True)
class StackTree:
    """What was live on one device when the request failed, else at the end of the recording."""

    where: str
    live_bytes: int
    without_stack_bytes: int
    """Of it what no stack is recorded of."""
    roots: tuple[StackNode, ...]
    source: str
