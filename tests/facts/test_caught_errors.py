"""GIVEN a run that a signal ended WHEN it had met errors about memory THEN those that it caught are told apart."""

from __future__ import annotations

import signal

import pytest
from given import run

from oomdoctor.facts.focus import focus, others
from oomdoctor.model.events import EventKind, LogEvent
from oomdoctor.model.evidence import Evidence
from oomdoctor.model.run import DeviceOomRecord, ExceptionRecord, ProcessRecord, RunRecord
from oomdoctor.model.source import Source

_HERE = Source(path="stderr.log", line=4)
_OOM = DeviceOomRecord(Source("probe/7.records"), 1050.0, 7, 0, 2 << 30, 24 << 30, 1 << 30, None)
_PRINTED = LogEvent(EventKind.HOST_ALLOCATION_FAILED, _HERE, fields={"allocator": "numpy"})
_PROCESS = ProcessRecord(7, 1, ("python",), 1000.0)
_WORKER = ProcessRecord(8, 7, ("python",), 1000.0)


def error(fatal: bool) -> ExceptionRecord:
    return ExceptionRecord(
        Source("probe/7.records"), 1051.0, 7, "MemoryError", "", (), is_memory_error=True, fatal=fatal
    )


def killed(**fields: object) -> RunRecord:
    return run(exit_status=None, signal=int(signal.SIGKILL), processes=(_PROCESS,), **fields)


def apart(record: RunRecord, *events: LogEvent) -> bool:
    evidence = Evidence(events=events, runs=(record,))
    left, found = focus(evidence), others(evidence)
    assert len(found) <= 1
    kept = (*left.events, *left.runs[0].exceptions, *left.runs[0].device_ooms)
    moved = [(*each.events, *each.runs[0].exceptions, *each.runs[0].device_ooms) for each in found]
    assert left.runs[0].signal == record.signal
    return not kept and moved == [(*events, *record.exceptions, *record.device_ooms)]


@pytest.mark.parametrize(
    ("record", "events"),
    [
        (killed(), (_PRINTED,)),
        (killed(device_ooms=(_OOM,)), ()),
        (killed(exceptions=(error(False),)), ()),
        (run(exit_status=137, processes=(_PROCESS,)), (_PRINTED,)),
    ],
)
def test_told_apart(record, events):
    assert apart(record, *events)


@pytest.mark.parametrize(
    ("record", "events"),
    [
        (killed(exceptions=(error(True),)), ()),
        (killed(exceptions=(error(True),), device_ooms=(_OOM,)), (_PRINTED,)),
        (run(exit_status=None, signal=9, processes=(_PROCESS, _WORKER), device_ooms=(_OOM,)), ()),
        (killed(device_ooms=(_OOM,)), (LogEvent(EventKind.ENGINE_STEP_FAILED, _HERE),)),
        (run(exit_status=1, processes=(_PROCESS,)), (_PRINTED,)),
        (run(exit_status=134, processes=(_PROCESS,)), (_PRINTED,)),
        (run(exit_status=None, signal=9), (_PRINTED,)),
        (killed(), (LogEvent(EventKind.HOST_ALLOCATION_FAILED, _HERE, fields={"allocator": "malloc"}),)),
    ],
    ids=[
        "it was not caught",
        "one was not",
        "its parent may have",
        "an engine",
        "status 1",
        "aborted",
        "no probe was in it",
        "not Python's",
    ],
)
def test_one_failure(record, events):
    assert not apart(record, *events)
