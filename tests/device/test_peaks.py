"""GIVEN blocks larger than asked for WHEN all are freed before the failure THEN the peak is torch's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from on_device import Device

from oomdoctor.allocator.replay import replay
from oomdoctor.model.units import GIB
from oomdoctor.readers.snapshot import read_snapshot

pytestmark = pytest.mark.device

PROGRAM = """
import json, random
MIB = 1 << 20
def take(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")
peaks = []
def measure(settings, sizes, keep, path):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.memory._set_allocator_settings(settings)
    torch.cuda.memory._record_memory_history(None)
    torch.cuda.memory._record_memory_history(max_entries=1_000_000, context=None)
    chance, live = random.Random(1), []
    for size in sizes:
        live.append(take(size))
        while len(live) > keep:
            live.pop(chance.randrange(len(live)))
    live.clear()
    try:
        take(60 << 30)
    except torch.OutOfMemoryError:
        pass
    peaks.append(torch.cuda.max_memory_allocated())
    torch.cuda.memory._dump_snapshot(path)
chance = random.Random(2)
some = [chance.choice([1, 700, MIB, 3 * MIB, 5 * MIB + 77, 11 * MIB, 13 * MIB - 5, 33 * MIB]) for _ in range(800)]
for number, (settings, sizes, keep) in enumerate([
    ("expandable_segments:{expandable}", [11 * MIB] * 80, 80),
    ("expandable_segments:{expandable}", some, 40),
    ("expandable_segments:{expandable},roundup_power2_divisions:2", [33 * MIB] * 15, 15),
    ("expandable_segments:{expandable},roundup_power2_divisions:4", some, 40),
]):
    measure(settings, sizes, keep, "{folder}/" + str(number) + ".pickle")
split = ",roundup_power2_divisions:1,max_split_size_mb:25"
measure("expandable_segments:{expandable}" + split, some, 40, "{folder}/4.pickle")
print(json.dumps(peaks))
"""


@pytest.mark.parametrize("expandable", [False, True])
def test_the_peak_is_torchs_own_to_the_byte(
    expandable: bool, device_with: Callable[..., Device], tmp_path: Path
) -> None:
    program = PROGRAM.replace("{expandable}", str(expandable)).replace("{folder}", str(tmp_path))
    told = json.loads(device_with(memory_bytes=(24 * GIB,)).printed(program))
    found = [replay(read_snapshot(tmp_path / f"{number}.pickle"), 0) for number in range(len(told))]
    assert [each.peak_bytes for each in found] == told
    assert [(each.peak_may_be_more_bytes, each.disagreement.total) for each in found] == [(0, 0)] * len(told)


CHANGED = """
MIB = 1 << 20
def take(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")
torch.cuda.memory._set_allocator_settings("expandable_segments:{expandable}")
torch.cuda.memory._record_memory_history(max_entries=1_000_000, context=None)
live = [take(33 * MIB) for _ in range(20)]
torch.cuda.memory._set_allocator_settings("expandable_segments:{expandable},roundup_power2_divisions:2")
live += [take(33 * MIB) for _ in range(20)]
print(torch.cuda.memory_allocated())
try:
    take(60 << 30)
except torch.OutOfMemoryError:
    pass
live.clear()
torch.cuda.memory._dump_snapshot("{path}")
"""


@pytest.mark.parametrize("expandable", [False, True])
def test_settings_that_were_changed_meanwhile_do_not_make_earlier_blocks_larger(
    expandable: bool, device_with: Callable[..., Device], tmp_path: Path
) -> None:
    path = tmp_path / "changed.pickle"
    program = CHANGED.replace("{expandable}", str(expandable)).replace("{path}", str(path))
    told = int(device_with(memory_bytes=(24 * GIB,)).printed(program))
    found = replay(read_snapshot(path), 0)
    assert (found.peak_bytes, found.disagreement.total) == (told, 0)
