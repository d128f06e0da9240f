"""GIVEN what a program did after an event WHEN the state then is rebuilt THEN it is the one that stood there."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snapshots.make import MIB, Device, frame, snapshot, write

from oomdoctor.allocator.rebuilt import state_after
from oomdoctor.model.snapshot import Blocks, Segments
from oomdoctor.readers.snapshot import read_snapshot

STACKS = [[frame("f", f"{name}.py", 1)] for name in "abc"]
steps = st.lists(
    st.tuples(
        st.sampled_from(["malloc", "malloc", "free", "wait", "complete", "release"]),
        st.integers(0, 1000),
        st.sampled_from((1, 700, MIB, 3 * MIB, 11 * MIB, 33 * MIB)),
    ),
    min_size=2,
    max_size=50,
)


class Program:
    """Goes on where it stopped."""

    def __init__(self, device: Device) -> None:
        self.device, self.live, self.waiting = device, [], []  # type: ignore[var-annotated]

    def run(self, program: list[tuple[str, int, int]]) -> None:
        for what, choice, size in program:
            if what == "malloc":
                self.live.append(self.device.malloc(size, STACKS[choice % 3], stream=choice % 2))
            elif what in ("free", "wait") and self.live:
                address = self.live.pop(choice % len(self.live))
                self.device.free(address, waits=what == "wait")
                if what == "wait":
                    self.waiting.append(address)
            elif what == "complete" and self.waiting:
                self.device.complete(self.waiting.pop(choice % len(self.waiting)))
            elif what == "release":
                self.device.release_idle()


def columns(part: Segments | Blocks) -> dict[str, list[int]]:
    found = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    return {name: np.asarray(column).tolist() for name, column in found.items() if name != "stack"}


@given(before=steps, after=steps)
@settings(max_examples=80, deadline=None)
def test_segments_and_blocks_are_those_that_stood_there(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[tuple[str, int, int]],
    after: list[tuple[str, int, int]],
) -> None:
    folder = tmp_path_factory.getbasetemp()
    device = Device()
    program = Program(device)
    program.run(before)
    device.fail(1 << 40, 0, STACKS[0])
    event = len(device.events) - 1
    then = read_snapshot(write(folder / "then.pickle", snapshot(device)))
    program.run(after)
    rebuilt = state_after(read_snapshot(write(folder / "later.pickle", snapshot(device))), 0, event)
    assert rebuilt.why_not == ""
    assert rebuilt.snapshot is not None
    assert columns(rebuilt.snapshot.segments) == columns(then.segments)
    assert columns(rebuilt.snapshot.blocks) == columns(then.blocks)


@pytest.mark.parametrize(
    ("lost", "why"),
    [
        ("free_completed", "the events contradict the final state"),
        ("no such action", "events of a kind that is not known came after it"),
    ],
)
def test_what_cannot_be_rebuilt_says_why(tmp_path: Path, lost: str, why: str) -> None:
    device = Device()
    first = device.malloc(30 * MIB, STACKS[0])
    device.fail(1 << 40, 0, STACKS[0])
    event = len(device.events) - 1
    device.free(first)
    for _ in range(2):
        device.malloc(40 * MIB, STACKS[1])
    content = snapshot(device)
    trace = content["device_traces"][0]
    if lost == "no such action":
        trace.append({**trace[-1], "action": lost})
    else:
        trace.remove([each for each in trace if each["action"] == lost][-1])
    found = state_after(read_snapshot(write(tmp_path / "s.pickle", content)), 0, event)
    assert (found.snapshot, found.why_not) == (None, why)
