"""GIVEN a snapshot WHEN its owners are shown THEN each has a category, and those of a category add up to the bar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snapshots import programs
from snapshots.make import MIB, Device, frame, snapshot, write

from oomdoctor.allocator.owners import WAITING
from oomdoctor.facts.allocator import derive
from oomdoctor.facts.budget import budgets
from oomdoctor.facts.holdings import holdings
from oomdoctor.facts.registry import REGISTRY
from oomdoctor.model.diagnosis import Budget, Holding
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.facts import FactSet
from oomdoctor.model.source import KnownBy
from oomdoctor.readers.snapshot import read_snapshot

GENUINE = Path(__file__).parents[3] / "shared" / "snapshots"
WORKSPACE = 8_519_680
ADAM = frame("_init_group", "/usr/lib/python3/site-packages/torch/optim/adamw.py", 70)
ALLREDUCE = frame("all_reduce", "/usr/lib/python3/site-packages/torch/distributed/distributed_c10d.py", 9)
STACKS: list[list[dict[str, Any]]] = [
    [],
    programs.at(7),
    [ADAM, *programs.at(7)],
    [ALLREDUCE, *programs.at(7)],
    programs.nested(20, 11, programs.at(7)),
    [frame("update", "/home/me/kv_cache.py", 3), *programs.at(7)],
    [frame("to", "/home/me/load.py", 3), *programs.at(8)],
]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["malloc", "malloc", "malloc", "graph", "free", "wait", "complete"]),
        st.integers(0, 1000),
        st.sampled_from([700, 3 * MIB, 33 * MIB, WORKSPACE]),
    ),
    min_size=1,
    max_size=60,
)


def _device(program: list[tuple[str, int, int]], fails: bool) -> Device:
    device, live, waiting = Device(), [], []
    for what, choice, size in program:
        if what in ("malloc", "graph"):
            pool = (0, 1) if what == "graph" else (0, 0)
            live.append(device.malloc(size, STACKS[choice % len(STACKS)], stream=choice % 2, pool=pool))
        elif what in ("free", "wait") and live:
            address = live.pop(choice % len(live))
            device.free(address, waits=what == "wait")
            waiting += [address] * (what == "wait")
        elif what == "complete" and waiting:
            device.complete(waiting.pop(choice % len(waiting)))
    if fails:
        device.fail(1 << 30, 0, programs.at(9))
    return device


def _told(path: Path) -> tuple[tuple[Holding, ...], tuple[Budget, ...]]:
    evidence, facts = Evidence(snapshots=(read_snapshot(path),)), FactSet(REGISTRY)
    derive(evidence, facts)
    shown = budgets(evidence, facts)
    return holdings(evidence, facts, shown), shown


def _agree(rows: tuple[Holding, ...], shown: tuple[Budget, ...]) -> None:
    assert not [row for row in rows if not row.category]
    for budget in shown:
        held: dict[str, int] = {}
        for row in rows:
            if budget.where.split(" ")[0] == row.where:
                held[row.category] = held.get(row.category, 0) + row.bytes
        parts = {part.name: part.bytes for part in budget.parts}
        live = {name: size for name, size in parts.items() if name in held}
        if parts:
            assert held == live


@given(program=STEPS, kept=st.integers(1, 80), fails=st.booleans())
@settings(max_examples=40)
def test_rows_of_a_category_are_its_part_of_the_budget(
    tmp_path_factory: pytest.TempPathFactory, program: list[tuple[str, int, int]], kept: int, fails: bool
) -> None:
    device = _device(program, fails)
    content = snapshot(device, ring=kept)
    rows, shown = _told(write(tmp_path_factory.getbasetemp() / "shares.pickle", content))
    assert sum(row.bytes for row in rows) == (device.live[-1] if device.live else 0)
    _agree(rows, shown)


@pytest.mark.skipif(not GENUINE.exists(), reason="the genuine snapshots are not beside this checkout")
@pytest.mark.parametrize("path", sorted(GENUINE.glob("real-*.pickle")), ids=lambda path: path.stem)
def test_rows_of_genuine_snapshots_are_the_budget(path: Path) -> None:
    _agree(*_told(path))


def test_an_owner_of_several_kinds_is_as_many_rows(tmp_path: Path) -> None:
    """One line that allocates for a module's forward pass, a graph, cuBLAS and a stream that is not done."""
    device = Device()
    line = programs.nested(20, 11, programs.at(7))
    device.malloc(40 * MIB, line)
    device.malloc(30 * MIB, line, pool=(0, 1))
    device.malloc(WORKSPACE, line)
    device.free(device.malloc(20 * MIB, line), waits=True)
    device.malloc(10 * MIB, STACKS[1])
    rows, _ = _told(write(tmp_path / "s.pickle", snapshot(device)))
    assert [(row.category, row.known_by, row.bytes) for row in rows] == [
        ("activations", KnownBy.STACKS, 40 * MIB),
        ("live in graph pools", KnownBy.ALLOCATOR, 30 * MIB),
        (WAITING, KnownBy.ALLOCATOR, 20 * MIB),
        ("live tensors of no known kind", KnownBy.NOT_KNOWN, 10 * MIB),
        ("workspaces of cuBLAS", KnownBy.ALLOCATOR, WORKSPACE),
    ]
    owners: dict[str, list[Holding]] = {}
    for row in rows:
        owners.setdefault(row.owner, []).append(row)
    assert max(map(len, owners.values())) == 3
