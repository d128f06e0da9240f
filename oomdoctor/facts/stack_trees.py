"""Who held what by stack: live memory at the failure as a tree of frames, small branches left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ..allocator.owners import Ownership, ownership_of
from ..allocator.stacks import CATEGORY_WORDS, describe, is_torch, python_frames
from ..model.evidence import Evidence
from ..model.stack_tree import StackNode, StackTree
from .allocator import latest_oom, moment
from .deriver import device_member
from .focus import focus

_SMALLEST_SHARE = 0.004
"""Of what is live: a narrower box cannot be told in the picture."""
_MOST_NODES = 240
"""Of all devices together, shared among them; of one at most a third."""


@dataclass
class _Node:
    """A frame while the tree grows."""

    bytes: int = 0
    by_category: dict[str, int] = field(default_factory=dict)
    children: dict[str, _Node] = field(default_factory=dict)

    def add(self, path: Iterable[str], category: str, size: int) -> None:
        node = self
        node.count(category, size)
        for frame in path:
            node = node.children.setdefault(frame, _Node())
            node.count(category, size)

    def count(self, category: str, size: int) -> None:
        self.bytes += size
        self.by_category[category] = self.by_category.get(category, 0) + size


def stack_trees(evidence: Evidence) -> tuple[StackTree, ...]:
    """One a device whose snapshot says of some live memory which stack allocated it."""
    trees = []
    places = [(snapshot, device) for snapshot in focus(evidence).snapshots for device in snapshot.devices]
    most = _MOST_NODES // max(len(places), 3)
    for snapshot, device in places:
        ownership = ownership_of(snapshot, device)
        tree = _tree(ownership, moment(ownership, latest_oom(snapshot, device)), most)
        if tree is not None:
            trees.append(tree)
    return tuple(trees)


def _tree(ownership: Ownership, event: int, most: int) -> StackTree | None:
    snapshot = ownership.snapshot
    size, count = ownership.live_by_kind(event)
    root, without = _Node(), 0
    for kind in np.flatnonzero(count).tolist():
        reading = ownership.readings[kind]
        stack = snapshot.stacks[kind] if kind < len(snapshot.stacks) else ()
        # What torch does inside one of the program's calls is its own affair.
        path = [describe(frame) for frame in reversed(python_frames(stack)) if not is_torch(frame)]
        if not path:
            without += int(size[kind])
        root.add(path or [reading.owner], CATEGORY_WORDS[reading.category], int(size[kind]))
    if root.bytes <= 0 or without == root.bytes:
        return None
    smallest = max(_SMALLEST_SHARE * root.bytes, _bytes_of_the_last(root, most))
    device = ownership.replay.device
    return StackTree(
        where=device_member(device, snapshot.backend),
        live_bytes=root.bytes,
        without_stack_bytes=without,
        roots=_children(root, smallest),
        source=snapshot.path,
    )


def _bytes_of_the_last(root: _Node, most: int) -> int:
    """How large a branch must be, for at most so many to be told; the rest is in the frames above them."""
    sizes, waiting = [], list(root.children.values())
    while waiting:
        node = waiting.pop()
        sizes.append(node.bytes)
        waiting.extend(node.children.values())
    return sorted(sizes, reverse=True)[most - 1] if len(sizes) >= most else 0


def _children(node: _Node, smallest: float) -> tuple[StackNode, ...]:
    kept = [(frame, child) for frame, child in node.children.items() if child.bytes >= smallest and child.bytes > 0]
    kept.sort(key=lambda pair: (-pair[1].bytes, pair[0]))
    return tuple(_told(frame, child, smallest) for frame, child in kept)


def _told(frame: str, node: _Node, smallest: float) -> StackNode:
    frames = [frame]
    while len(node.children) == 1:
        ((frame, child),) = node.children.items()
        if child.bytes != node.bytes:
            break
        frames.append(frame)
        node = child
    category = max(node.by_category, key=lambda name: (node.by_category[name], name))
    return StackNode(tuple(frames), category, node.bytes, _children(node, smallest))
