"""GIVEN the emulated device WHEN `oomdoctor check` looks THEN it sees who is there and measures an empty process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from on_device import Device

pytestmark = pytest.mark.device

MIB, GIB = 1 << 20, 1 << 30
HANDLE_BYTES = 8 * MIB
"""What the emulated cuBLAS takes, once it is used."""


def checked(device: Device, cache: Path, *arguments: str, **variables: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "oomdoctor", "check", "--format", "json", *arguments]
    given = device.environment(XDG_CACHE_HOME=str(cache), **variables)
    ended = subprocess.run(command, env=given, capture_output=True, text=True, timeout=180, check=False)
    assert ended.returncode in (0, 1), ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.extended
def test_an_empty_process_with_torch_to_the_byte(device_with: Callable[..., Device], tmp_path: Path) -> None:
    device = device_with(memory_bytes=(24 * GIB, 80 * GIB), context_bytes=333 * MIB)
    found = checked(device, tmp_path, "--overhead", "--", device.machine.python, "-c", "pass")
    for one, total in zip(found["measured"], (24 * GIB, 80 * GIB), strict=True):
        assert one["total_bytes"] == total
        assert (one["context_bytes"], one["libraries_bytes"]) == (333 * MIB, HANDLE_BYTES)
        assert one["torch"].startswith(found["python"]["versions"]["torch"])
    assert (tmp_path / "oomdoctor/overhead.json").stat().st_mode & 0o777 == 0o600


def test_without_torch_the_context_alone_is_measured(device_with: Callable[..., Device], tmp_path: Path) -> None:
    device = device_with(memory_bytes=(24 * GIB, 80 * GIB), context_bytes=333 * MIB)
    other = device.start("malloc(1 << 30)")  # somebody else is on the first card
    try:
        found = checked(
            device, tmp_path, "--overhead", "--", "true", CUDA_VISIBLE_DEVICES="1,0", CUDA_DEVICE_ORDER="PCI_BUS_ID"
        )
    finally:
        other.communicate("")
    assert [(one["total_bytes"], one["overhead_bytes"], one["torch"]) for one in found["measured"]] == [
        (80 * GIB, 333 * MIB, None),
        (24 * GIB, 333 * MIB, None),
    ]
    taken = [each for each in found["findings"] if each["check"] == "card.processes" and each["level"] == "warn"]
    assert [each["figures"]["used_bytes"] for each in taken] == [GIB + 333 * MIB]
    assert f"pid {other.pid}" in taken[0]["why"]


def test_a_full_card_is_not_measured_and_nothing_is_kept(device_with: Callable[..., Device], tmp_path: Path) -> None:
    device = device_with(memory_bytes=(GIB,), context_bytes=300 * MIB)
    other = device.start("malloc(700 << 20)")
    try:
        found = checked(device, tmp_path, "--overhead", "--", "true")
    finally:
        other.communicate("")
    assert found["measured"] == []
    assert "error 2" in found["not_measured"][0]["why"]  # out of memory
    assert not (tmp_path / "oomdoctor").exists()
