"""GIVEN a program that starts others WHEN they run and end THEN each writes records of its own."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest
from extended import extended_but
from watched import SITE, Harness

MULTIPROCESSING = """
import multiprocessing, sys

def work(how):
    if how == "raise":
        raise MemoryError("in the child")
    if how == "exit":
        try:
            raise MemoryError("in the child")
        except MemoryError:
            sys.exit(1)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    child = context.Process(target=work, args=(sys.argv[2],))
    child.start()
    child.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("how", extended_but(["return", "raise", "exit"], "raise"))
def test_a_child_of_multiprocessing_writes_its_own(each: Harness, method: str, how: str) -> None:
    script = each.script(MULTIPROCESSING)
    watched = each.run(script, method, how)
    assert watched.stderr == each.run(script, method, how, probe=False).stderr
    processes = {record["pid"]: record for record in each.records("process")}
    exceptions = each.latest("exception")
    assert len(list(each.bundle.glob("probe/*.records"))) == len(processes) >= 2
    if how == "return":
        assert exceptions == []
    else:
        (record,) = exceptions
        assert record["message"] == "in the child"
        assert record["frames"][-1][2] == "work"
        assert processes[record["pid"]]["forked"] is (method != "spawn")
    assert [end["clean"] for end in each.records("end")].count(True) >= 2


def test_a_forked_child_writes_its_own(each: Harness) -> None:
    each.run(each.script("import os\nif os.fork() == 0:\n    raise ValueError('child')\nos.wait()"))
    parent, child = sorted(each.records("process"), key=lambda record: bool(record["forked"]))
    assert child["ppid"] == parent["pid"]
    (record,) = each.records("exception")
    assert record["pid"] == child["pid"]
    assert sorted(end["after_exception"] for end in each.records("end")) == [False, True]


def test_grandchildren_are_watched(each: Harness) -> None:
    inner = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'pass'])"
    each.run("-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])")
    assert len(each.records("process")) == 3


def test_an_end_that_is_not_in_order_leaves_no_last_record(harness: Harness) -> None:
    harness.run("-c", "import os; os.kill(os.getpid(), 9)")
    assert [record["kind"] for record in harness.records()] == ["process"]


@pytest.mark.parametrize("rank", ["²", "٣", "9" * 5000, "-1", "one", "1.0"])
def test_a_rank_that_is_no_number_is_unknown(each: Harness, rank: str) -> None:
    """`"²".isdigit()` is true, and `int("²")` raises."""
    each.variables.update(RANK=rank, LOCAL_RANK="3")
    each.run("-c", "pass")
    (process,) = each.records("process")
    assert process["rank"] == 3
    assert each.records("probe-error") == []


@pytest.mark.parametrize(("version", "expected"), [("2.13.0+cpu", (2, 13)), ("2.²", (0,)), ("2.10a", (0,)), ("", (0,))])
def test_which_torch(monkeypatch: pytest.MonkeyPatch, version: str, expected: tuple[int, ...]) -> None:
    monkeypatch.syspath_prepend(str(SITE))
    version_of = importlib.import_module("_oomdoctor_probe.torch_version").version_of
    assert version_of(SimpleNamespace(__version__=version)) == expected
