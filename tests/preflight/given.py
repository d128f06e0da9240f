"""A machine written down by a test, for checks to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oomdoctor.model.devices import DeviceProcess, DeviceReading, DeviceTraits
from oomdoctor.model.host import HostLimits, HostSample
from oomdoctor.model.source import Source
from oomdoctor.preflight.command import read_command
from oomdoctor.preflight.finding import Finding, Level
from oomdoctor.preflight.interpreter import Interpreter
from oomdoctor.preflight.setup import Asked, Cards, Limits, Setup

MIB, GIB = 1 << 20, 1 << 30


def card(index: int = 0, total: int = 80 * GIB, used: int = 0, **more: Any) -> DeviceReading:
    return DeviceReading(
        **{
            "index": index, "source": Source(path="NVML"), "name": "H100", "uuid": f"GPU-{index}abc",
            "total_bytes": total, "used_bytes": used, "free_bytes": total - used, "processes": (), **more,
        }
    )  # fmt: skip


def held(pid: int, size: int | None, name: str = "/usr/bin/python") -> DeviceProcess:
    return DeviceProcess(pid=pid, used_bytes=size, name=name, kind="C")


def limits(free: int | None = 64 * GIB, shm: int | None = 16 * GIB, **more: Any) -> Limits:
    given = {
        "now": HostSample(0.0, total_bytes=128 * GIB, available_bytes=free, swap_free_bytes=0, shm_free_bytes=shm),
        "host": HostLimits(memory_total_bytes=128 * GIB, cgroup_path="/", shm_total_bytes=shm, swap_total_bytes=0),
        "soft": {"address space": None, "data": None, "locked memory": None, "open files": 65536, "processes": None},
        "overcommit": 0,
    }
    return Limits(**{**given, **more})


def setup(
    *command: str,
    cards: tuple[DeviceReading, ...] = (),
    traits: tuple[DeviceTraits, ...] = (),
    versions: dict[str, str] | None = None,
    site: tuple[Path, ...] = (),
    variables: dict[str, str] | None = None,
    asked: Asked = Asked(),  # noqa: B008
    root: Path = Path("/"),
    **limit: Any,
) -> Setup:
    read = read_command(command)
    return Setup(
        command=read,
        variables={"PATH": "/usr/bin:/bin", **(variables or {}), **read.assigned},
        interpreter=Interpreter(Path("/venv/bin/python"), "given", site, versions or {}),
        cards=Cards(cards, traits, "580.1", None if cards else "NVML does not start"),
        limits=limits(**limit),
        asked=asked,
        root=root,
    )


def levels(findings: Any, check: str) -> list[Level]:
    return [each.level for each in findings if each.check == check]


def only(findings: Any, check: str) -> Finding:
    found = [each for each in findings if each.check == check]
    assert len(found) == 1, found
    return found[0]
