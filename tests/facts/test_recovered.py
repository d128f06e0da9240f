"""GIVEN a run in which device memory ran out WHEN nothing about memory ended anything THEN the program went on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from given import HERE, gib, run

from oomdoctor.facts import derive_facts
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.run import DeviceOomRecord, ExceptionRecord, ProcessRecord, RunRecord, StackFrame

OOM = DeviceOomRecord(HERE, 1050.0, 7, 0, gib(1), gib(24), 0, None)
POOL = StackFrame("/usr/lib/python3.11/concurrent/futures/thread.py", 58, "run", "self.fn()")
PROCESS = ProcessRecord(7, 1, ("python", "train.py"), 1000.0, ended_cleanly=True)
ERROR = ExceptionRecord(HERE, 1051.0, 7, "torch.OutOfMemoryError", "", (), is_device_oom=True)
LATER = ExceptionRecord(HERE, 1090.0, 7, "ValueError", "no such column", ())


def recovered(**fields: object) -> object:
    known: dict[str, object] = {"device_ooms": (OOM,), "processes": (PROCESS,), "exit_status": 0}
    found: RunRecord = run(**{**known, **fields})
    return derive_facts(Evidence(runs=(found,))).value("exit.recovered")


def test_every_error_was_caught() -> None:
    assert recovered() is True
    assert recovered(device_ooms=(OOM, replace(OOM, requested_bytes=gib(2), time_seconds=1060.0))) is True


def test_it_ended_of_something_else_later() -> None:
    assert recovered(exit_status=1, exceptions=(LATER,)) is True


@pytest.mark.parametrize(
    "fields",
    [
        {"device_ooms": ()},
        {"exit_status": 1},
        {"exceptions": (replace(ERROR, thread="fetcher"),)},
        {"exit_status": 1, "exceptions": (ERROR,)},
        {"exit_status": 1, "exceptions": (replace(LATER, is_device_oom=True),)},
        {"exit_status": 1, "exceptions": (replace(LATER, exception_type="UnboundLocalError"),)},
        {"exit_status": 1, "exceptions": (replace(LATER, time_seconds=1049.0),)},
        {"exit_status": 1, "exceptions": (replace(LATER, thread="logger"),)},
        {"processes": (replace(PROCESS, ended_cleanly=None),)},
        {"device_ooms": (replace(OOM, frames=(POOL,)),)},
    ],
    ids=[
        "nothing failed",
        "ended badly without a word",
        "a thread ended of it",
        "the program ended of it",
        "raised from it",
        "what the failed step was to make is missing",
        "before it",
        "another thread's",
        "the process vanished",
        "a pool keeps the error",
    ],
)
def test_it_did_not_or_nobody_knows(fields: dict[str, object]) -> None:
    assert recovered(**fields) is None
