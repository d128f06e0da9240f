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


ALL_ZERO = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 0 bytes. GPU 0 has a total capacity of 0 bytes of "
    "which 0 bytes is free. Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch "
    "but unallocated.\n"
)
ALL_ZERO_OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 0 bytes (GPU 0; 0 bytes total capacity; 0 bytes already "
    "allocated; 0 bytes free; 0 bytes reserved in total by PyTorch)\n"
)


@pytest.mark.parametrize("text", [ALL_ZERO, ALL_ZERO_OLD])
def test_figures_that_are_all_zero_are_no_figures(read, text):
    told = read(text)
    assert told.verdict is Verdict.OUT_OF_MEMORY
    assert told.findings == ()
    assert not [fact.name for fact in told.facts.values() if fact.name.endswith("_bytes")]
    assert "0 B" not in told.summary
    (note,) = [note for note in told.notes if "0 bytes" in note]
    assert "2^64" not in "".join(told.notes)
    assert note.startswith("The message gives 0 bytes where there cannot be none")


def test_a_device_of_no_size_has_nothing_free_that_is_known(read):
    told = read(OOM.replace("23.69 GiB", "0 bytes"))
    assert told.facts.value("oom.free_bytes", "cuda:0") is None
    assert told.facts.value("oom.allocated_bytes", "cuda:0") == int(21.8 * GIB)


def test_a_first_allocation_that_is_refused_has_real_zeros(read):
    text = OOM.replace("21.80 GiB", "0 bytes").replace("300.53 MiB", "0 bytes")
    told = read(text)
    assert told.facts.value("oom.allocated_bytes", "cuda:0") == 0
    assert told.facts.value("oom.free_bytes", "cuda:0") == round(1.19 * GIB)
    assert not any("0 bytes" in note for note in told.notes)


def test_no_rule_stands_by_likeness_where_figures_contradict_each_other(read):
    told = read(OOM.replace("1.19 GiB is free", "99.00 GiB is free"))
    assert {finding.rule for finding in told.findings} <= {"ACT013"}
    assert all(remedy.enough is None for finding in told.findings for remedy in finding.remedies)
    assert any("cannot all be true" in note for note in told.notes)


@pytest.mark.parametrize("text", [ALL_ZERO, OOM.replace("1.19 GiB is free", "99.00 GiB is free")])
def test_what_was_set_aside_is_no_budget(read, text):
    assert read(text).budgets == ()


def test_free_and_held_that_are_more_than_the_device_prove_no_limit_of_the_platform(read):
    told = read(OOM.replace("1.19 GiB is free", "20.00 GiB is free"))
    assert told.facts.value("oom.free_suffices", "cuda:0") is None
    assert "LIM002" not in {finding.rule for finding in told.findings}
    assert told.budgets == ()
    assert any("20.00 GiB + 22.09 GiB / 23.69 GiB" in note for note in told.notes)
