# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN sizes that are none WHEN a log is read THEN they are called artefacts or nonsense, and nothing is reckoned from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor.diagnose import diagnose
from oomdoctor.model.diagnosis import Diagnosis, Verdict

GIB = 1 << 30
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of "
    "which 1.19 GiB is free. Including non-PyTorch memory, this process has 22.49 GiB memory in use. Of the allocated "
    "memory 21.80 GiB is allocated by PyTorch, and 300.53 MiB is reserved by PyTorch but unallocated.\n"
)


@pytest.fixture
def read(tmp_path: Path):
    def read(text: str) -> Diagnosis:
        path = tmp_path / "crash.log"
        path.write_text(text)
        return diagnose([path])

    return read


@pytest.mark.parametrize(
    "line",
    [
        OOM.replace("2.00 GiB", "-2.00 GiB", 1),
        OOM.replace("2.00 GiB", "nan GiB", 1),
        OOM.replace("2.00 GiB", "17179869184.00 GiB", 1),
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
        "to allocate 18446744073709551608 bytes. Error code 12 (Cannot allocate memory)\n",
    ],
)
def test_a_request_that_is_no_size_is_nonsense_and_no_want_of_memory(read, line):
    told = read(f"step 1\n{line}")
    assert told.verdict is Verdict.NOT_OUT_OF_MEMORY
    assert told.findings[0].rule == "NOT007"
    assert all(incident.requested_bytes is None for incident in told.incidents)
    assert told.summary.startswith("Impossible size requested")
    assert all(budget.request_bytes is None for budget in told.budgets)


@pytest.mark.parametrize("size", ["0 bytes", "-1.00 GiB", "17179869184.00 GiB"])
def test_a_total_that_no_device_has_is_not_known(read, size):
    told = read(OOM.replace("23.69 GiB", size))
    assert told.facts.value("oom.total_bytes", "cuda:0") is None
    assert told.facts.value("oom.requested_bytes", "cuda:0") == 2 * GIB


@pytest.mark.parametrize("cell", ["-5 MiB", "nan MiB", "[N/A] MiB", "99999999 MiB", "18446744073709551615 MiB"])
def test_rows_of_nvidia_smi_with_such_a_cell_are_rows_all_the_same(read, cell):
    rows = "".join(
        f"2026/01/01 00:0{i // 60}:{i % 60:02}.000, 0, {cell if i % 5 == 0 else f'{100 * i} MiB'}, 24576 MiB\n"
        for i in range(200)
    )
    told = read(f"timestamp, index, memory.used [MiB], memory.total [MiB]\n{rows}")
    assert "header" not in told.inputs[0].why
    assert "artefacts" in told.inputs[0].why
    assert told.facts.value("device.used_bytes", "cuda:0") == 19900 << 20
