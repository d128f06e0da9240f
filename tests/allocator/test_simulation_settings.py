"""Settings as PYTORCH_CUDA_ALLOC_CONF spells them and as snapshots record them."""

from __future__ import annotations

from pathlib import Path

import pytest
from snapshots.make import Device, snapshot, write

from oomdoctor.allocator.simulation.settings import AllocatorSettings, recorded_settings, with_settings
from oomdoctor.diagnose import diagnose

MIB = 1 << 20
RECORDED = {
    "PYTORCH_CUDA_ALLOC_CONF": "",
    "max_split_size": -1,
    "garbage_collection_threshold": 0.0,
    "expandable_segments": False,
    "roundup_power2_divisions": {str(1 << n): 0 for n in range(16)},
}


def of(**options: str) -> AllocatorSettings:
    return with_settings(AllocatorSettings(), options.items())


def test_divisions_are_by_the_first_mib_of_the_interval() -> None:
    # `>` overwrites the last interval that was named as well: parseRoundUpPower2Divisions fills from there on
    found = of(roundup_power2_divisions="[256:1,512:2,1024:4,>:8]")
    assert found.roundup_power2_divisions == (1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 8, 8, 8, 8, 8, 8)
    assert found.divisions_for(300 * MIB) == 1
    assert found.divisions_for(600 * MIB) == 2
    assert found.divisions_for(4096 * MIB) == 8
    assert found.divisions_for(1) == 1


def test_what_a_snapshot_records_is_read() -> None:
    assert recorded_settings(RECORDED) == AllocatorSettings()
    assert recorded_settings({}) is None
    text = (
        "expandable_segments:True,max_split_size_mb:128,roundup_power2_divisions:[256:1,>:4],large_segment_size_mb:40"
    )
    given = {
        **RECORDED,
        "PYTORCH_CUDA_ALLOC_CONF": text,
        "expandable_segments": True,
        "max_split_size": 128 * MIB,
        "garbage_collection_threshold": 0.8,
        "roundup_power2_divisions": {**RECORDED["roundup_power2_divisions"], "1": 4},  # type: ignore[dict-item]
    }
    found = recorded_settings(given)
    assert found is not None
    assert found.expandable_segments
    assert (found.max_split_bytes, found.large_segment_bytes) == (128 * MIB, 40 * MIB)
    assert found.garbage_collection_threshold == 0.8
    assert found.roundup_power2_divisions == (4, *(0,) * 15)


@pytest.mark.parametrize(
    "text",
    [
        "max_split_size_mb:foo",
        "roundup_power2_divisions:3",
        "garbage_collection_threshold:7",
        "large_segment_size_mb:1",
    ],
)
def test_what_no_torch_would_have_taken_is_left_out(text: str, tmp_path: Path) -> None:
    given = {**RECORDED, "PYTORCH_CUDA_ALLOC_CONF": text, "garbage_collection_threshold": float("nan")}
    assert recorded_settings(given) == AllocatorSettings()
    device = Device()
    device.malloc(20 * MIB, [])
    device.fail(30 * MIB, 4 * MIB, [])
    content = {**snapshot(device), "allocator_settings": given}
    (failed,) = diagnose([write(tmp_path / "s.pickle", content)]).failed_requests
    assert failed.requested_bytes == 30 * MIB
