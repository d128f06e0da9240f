"""GIVEN a host or a card of which little is told WHEN gaps are named THEN they come with the command that tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor.diagnose.missing_host import card_gaps, host_gaps
from oomdoctor.facts.registry import REGISTRY
from oomdoctor.model.devices import DeviceProcess, DeviceReading
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.facts import FactSet
from oomdoctor.model.source import Source
from oomdoctor.model.units import GIB

SAMPLES = Path(__file__).parents[2] / "sample_logs"
LIMIT = "how large the limit was, and what was used"
HOLDER = "who held the memory in what was killed"


def gaps(**given: object) -> dict[str, str]:
    facts = FactSet(REGISTRY)
    for name, value in given.items():
        facts.put(f"host.{name}", value, Source("crash.log", 1))
    return {each.what: each.how_to_get_it for each in host_gaps(facts)}


@pytest.mark.parametrize(
    ("system", "command"), [("slurm", "sacct"), ("kubernetes", "kubectl describe"), ("docker", "docker inspect"),
                            ("systemd", "systemctl show"), (None, "memory.max")],
)  # fmt: skip
def test_a_limit_of_unknown_size_is_asked_of_its_system(system: str | None, command: str) -> None:
    found = gaps(job_limit_hit=True, limit_is_machine=False, orchestrator=system)
    assert command in found[LIMIT]
    assert "ulimit -d" in found[HOLDER]


def test_what_is_known_is_not_missing() -> None:
    assert gaps() == {}
    assert LIMIT not in gaps(kernel_killed="memcg", cgroup_limit_bytes=GIB)
    assert HOLDER not in gaps(kernel_killed="memcg", largest_holder="list 'seen'")
    assert HOLDER not in gaps(kernel_killed="global", kernel_victim="postgres (pid 7)")
    assert HOLDER in gaps(kernel_killed="global", kernel_victim="python3 (pid 7)")
    assert LIMIT not in gaps(job_limit_hit=True, limit_is_machine=True)


def test_a_list_of_processes_alone_tells_no_size_of_the_card() -> None:
    process = DeviceProcess(7, "python", 5 * GIB)
    source = Source("smi.txt", 2)
    bare = DeviceReading(index=0, source=source, processes=(process,))
    whole = DeviceReading(index=0, source=source, processes=(process,), total_bytes=24 * GIB)
    assert [each.what for each in card_gaps(Evidence(devices=(bare,)))] == [
        "the size of the devices, and what is free on them"
    ]
    assert list(card_gaps(Evidence(devices=(whole,)))) == []
    assert list(card_gaps(Evidence())) == []
