"""GIVEN the kernel's report of a kill WHEN it is read THEN limit, victim and where the rest went are told at once."""

from __future__ import annotations

import pytest

from oomdoctor.model.diagnosis import Budget
from oomdoctor.report.view import view_report

from .asked import GIB, MIB, ask

_BEGIN = "[82145.110201] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=979\n"
_USAGE = "[82145.110233] memory: usage 8388608kB, limit 8388608kB, failcnt 4312\n"
_SECOND = """\
[82145.110239] Memory cgroup stats for /kubepods.slice/pod1.slice:
[82145.110240] anon 6442450944
[82145.110241] file 1610612736
[82145.110242] kernel 402653184
[82145.110243] kernel_stack 1048576
[82145.110245] sock 4194304
[82145.110246] shmem 1073741824
"""
_FIRST = (
    "[82145.110234] kmem: usage 393216kB, limit 9007199254740988kB, failcnt 0\n"
    "[82145.110239] Memory cgroup stats for /docker/c7eb: cache:1572864KB rss:6291456KB rss_huge:0KB shmem:1048576KB "
    "mapped_file:0KB dirty:0KB\n"
)
_KILLED = (
    "[82145.110280] Memory cgroup out of memory: Killed process 12044 (python) total-vm:20971520kB, anon-rss:5242880kB"
    ", file-rss:42880kB, shmem-rss:0kB, UID:0 pgtables:10752kB oom_score_adj:979\n"
)
_OF_THE_MACHINE = _KILLED.replace("Memory cgroup out of memory", "Out of memory")


def _parts(budget: Budget) -> dict[str, int]:
    return {part.name: part.bytes for part in budget.parts}


@pytest.mark.parametrize(("statistics", "kernel"), [(_SECOND, 388 * MIB), (_FIRST, 384 * MIB)], ids=["v2", "v1"])
def test_the_cgroups_limit_is_told_with_what_filled_it(statistics: str, kernel: int) -> None:
    found = ask(_BEGIN + _USAGE + statistics + _KILLED)
    assert view_report(found).headline == (
        "The kernel killed python (pid 12044) for want of memory: it held 5.00 GiB (anon-rss); its cgroup's limit of "
        "8.00 GiB was reached."
    )
    (budget,) = found.budgets
    assert (budget.where, budget.total_bytes) == ("cgroup", 8 * GIB)
    assert _parts(budget) == {
        "killed: python (pid 12044)": 5 * GIB,
        "other processes of the cgroup": GIB,
        "shared memory (/dev/shm, tmpfs)": GIB,
        "page cache": GIB // 2,
        "the kernel's, for the cgroup": kernel,
    }


def test_where_the_report_is_cut_the_rest_is_told_as_such() -> None:
    (budget,) = ask(_USAGE + _KILLED).budgets
    assert _parts(budget) == {
        "killed: python (pid 12044)": 5 * GIB,
        "others in the cgroup, page cache included": 3 * GIB,
    }


def test_a_kill_for_the_machine_names_no_limit() -> None:
    found = ask(_OF_THE_MACHINE)
    assert view_report(found).headline == (
        "The kernel killed python (pid 12044) for want of memory: it held 5.00 GiB (anon-rss); the machine's memory "
        "was full."
    )
    assert found.budgets == ()


def test_a_limit_that_is_not_printed_is_not_made_up() -> None:
    found = ask(_KILLED)
    assert "the limit of its cgroup was reached" in found.summary
    assert found.budgets == ()
