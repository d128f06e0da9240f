"""GIVEN a snapshot written once the exception had unwound the stack WHEN it is read THEN the failure is as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from extended import extended_but
from on_device import Device

from oomdoctor.diagnose import diagnose
from oomdoctor.model.units import GIB

pytestmark = pytest.mark.device

PROGRAM = """
import pickle, random
MIB = 1 << 20
torch.cuda.memory._set_allocator_settings({settings!r})
torch.cuda.memory._record_memory_history(max_entries={ring}, context="all", stacks="python")
def observe(device, size, total, free):
    with open("{folder}/then.pickle", "wb") as file:
        pickle.dump(torch.cuda.memory._snapshot(), file)
torch._C._cuda_attach_out_of_memory_observer(observe)
chance, other = random.Random(5), torch.cuda.Stream()
SIZES = [1, 700, 100_000, MIB, 3 * MIB, 5 * MIB + 77, 11 * MIB, 13 * MIB - 5, 33 * MIB, 70 * MIB]
def take(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")
kept = []
def work():
    passing = []
    while True:
        where = kept if chance.random() < 0.4 else passing
        if chance.random() < 0.2:
            with torch.cuda.stream(other):
                where.append(take(chance.choice(SIZES)))
        else:
            where.append(take(chance.choice(SIZES)))
        if chance.random() < 0.45:
            where.pop(chance.randrange(len(where)))
        if len(kept) + len(passing) > 180:
            take(300 * MIB)
try:
    work()
except torch.OutOfMemoryError:
    pass
{later}
torch.cuda.memory._dump_snapshot("{folder}/later.pickle")
"""
LATER = """
torch.cuda.empty_cache()
more = [take(chance.choice(SIZES)) for _ in range(60)]
del kept[::2], more[::3]
torch.cuda.empty_cache()
"""


@pytest.mark.parametrize(
    ("settings", "ring", "later"),
    extended_but(
        [
            ("expandable_segments:False", 100_000, ""),
            ("expandable_segments:False", 100_000, LATER),
            ("expandable_segments:True", 100_000, LATER),
            ("expandable_segments:False,roundup_power2_divisions:4", 100_000, LATER),
        ],
        ("expandable_segments:False", 100_000, LATER),
    ),
)
def test_the_state_at_the_failure_is_rebuilt(
    settings: str, ring: int, later: str, device_with: Callable[..., Device], tmp_path: Path
) -> None:
    program = PROGRAM.format(settings=settings, ring=ring, later=later, folder=tmp_path)
    ended = device_with(memory_bytes=(3 * GIB,)).run(program)
    assert ended.returncode == 0, ended.stderr
    (then,), (rebuilt,) = (diagnose([tmp_path / f"{name}.pickle"]).failed_requests for name in ("then", "later"))
    assert then.undone == 0
    assert rebuilt.undone > 10
    assert replace(rebuilt, undone=0, source=then.source) == then
