"""GIVEN a snapshot WHEN live memory is told by stack THEN each branch is what its frames allocated, no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from snapshots import programs
from snapshots.make import MIB, Device, frame, snapshot, write

from oomdoctor.facts.stack_trees import stack_trees
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.stack_tree import StackNode, StackTree
from oomdoctor.readers.snapshot import read_snapshot
from oomdoctor.report.stacks import view_stacks

MAIN, STEP = frame("main", "/home/me/a.py", 1), frame("step", "/home/me/a.py", 2)
TORCH = frame("linear", "/env/lib/python3.11/site-packages/torch/nn/functional.py", 9)


def tree_of(path: Path, device: Device) -> StackTree | None:
    (path / "s.pickle").unlink(missing_ok=True)
    told = stack_trees(Evidence(snapshots=(read_snapshot(write(path / "s.pickle", snapshot(device))),)))
    return told[0] if told else None


def every(nodes: tuple[StackNode, ...]) -> Iterator[StackNode]:
    for node in nodes:
        yield node
        yield from every(node.children)


def test_frames_without_a_branch_stand_together_and_what_torch_does_inside_is_left_out(tmp_path: Path) -> None:
    device = Device()
    device.malloc(20 * MIB, [TORCH, frame("forward", "/home/me/net.py", 5), STEP, MAIN])
    device.malloc(10 * MIB, [frame("loss", "/home/me/net.py", 9), STEP, MAIN])
    freed = device.malloc(90 * MIB, [STEP, MAIN])
    device.free(freed)
    device.malloc(2 * MIB, [])
    tree = tree_of(tmp_path, device)
    assert tree is not None
    assert (tree.live_bytes, tree.without_stack_bytes) == (32 * MIB, 2 * MIB)
    first = tree.roots[0]
    assert first.frames == ("/home/me/a.py:1 in main", "/home/me/a.py:2 in step")
    assert [(child.frames, child.bytes) for child in first.children] == [
        (("/home/me/net.py:5 in forward",), 20 * MIB),
        (("/home/me/net.py:9 in loss",), 10 * MIB),
    ]


@pytest.mark.parametrize("program", [programs.kept_outputs, programs.leak_of_graphs, programs.one_pass])
def test_children_never_hold_more_than_their_frame(tmp_path: Path, program: object) -> None:
    tree = tree_of(tmp_path, program())  # type: ignore[operator]
    assert tree is not None
    assert sum(root.bytes for root in tree.roots) <= tree.live_bytes
    for node in every(tree.roots):
        assert sum(child.bytes for child in node.children) <= node.bytes


def test_without_stacks_there_is_no_tree(tmp_path: Path) -> None:
    device = Device()
    device.malloc(20 * MIB, [])
    assert tree_of(tmp_path, device) is None


def test_of_thousands_of_stacks_a_picture_s_worth_is_told(tmp_path: Path) -> None:
    device = Device()
    for number in range(1500):
        device.malloc(2 * MIB, [frame("allocate", f"/home/me/f{number}.py", 1), MAIN])
    tree = tree_of(tmp_path, device)
    assert tree is not None
    assert tree.roots[0].bytes == 3000 * MIB
    assert len(list(every(tree.roots))) <= 80


def test_the_picture_is_as_wide_as_what_was_live(tmp_path: Path) -> None:
    device = Device()
    for line in (5, 6, 7):
        device.malloc(line * 4 * MIB, [frame("forward", "/home/me/net.py", line), STEP, MAIN])
    tree = tree_of(tmp_path, device)
    assert tree is not None
    (view,) = view_stacks((tree,))
    (outer,) = view.boxes
    assert (outer.label, outer.width, view.depth) == ("step (a.py:2)", 1.0, 2)
    assert [box.label for box in outer.children] == ["forward (net.py:7)", "forward (net.py:6)", "forward (net.py:5)"]
    ends = [(box.start, box.start + box.width) for box in outer.children]
    assert ends[0][0] == 0.0
    assert ends[-1][1] == pytest.approx(1.0)
    assert [end for _, end in ends[:-1]] == [start for start, _ in ends[1:]]
