"""GIVEN a program that catches an error about memory WHEN something else ends it THEN the report is about the end."""

import subprocess
import sys

import pytest
from extended import extended_but
from harness import PYTHON

from oomdoctor.diagnose.pipeline import diagnose
from oomdoctor.model.diagnosis import Verdict

_MEMORY_ERROR = (
    "import resource, traceback\n"
    "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
    "try:\n    bytearray(16 << 30)\nexcept MemoryError:\n    traceback.print_exc()\n"
)
_TORCH = "import torch\ntry:\n    torch.empty({count})\nexcept RuntimeError as error:\n    print(error, flush=True)\n"
_KILLED = "import os, signal; os.kill(os.getpid(), signal.{name})\n"


def told(tmp_path, script):
    main = "from oomdoctor.cli.main import main; main()"
    command = [
        PYTHON,
        "-c",
        main,
        "run",
        "--output",
        str(tmp_path / "i"),
        "--report",
        "never",
        "--",
        PYTHON,
        "-c",
        script,
    ]
    subprocess.run(command, capture_output=True, timeout=60)
    return diagnose([tmp_path / "i"])


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_a_signal_after_a_memory_error_that_was_caught(tmp_path, name):
    diagnosis = told(tmp_path, _MEMORY_ERROR + _KILLED.format(name=name))
    assert diagnosis.verdict is Verdict.UNDETERMINED
    assert diagnosis.incidents[0].cause.startswith("ended by signal")
    assert [each.cause for each in diagnosis.incidents[1:]] == ["host allocation failed"]
    assert not any(finding.rule == "HST003" for finding in diagnosis.findings)
    assert "Another failure in the input: host allocation failed" in diagnosis.summary


def test_a_normal_end_after_it(tmp_path):
    diagnosis = told(tmp_path, _MEMORY_ERROR)
    assert diagnosis.verdict is Verdict.DEGRADED
    assert diagnosis.findings[0].cause == "not-oom-recovered"


def test_not_caught_it_is_the_end(tmp_path):
    diagnosis = told(tmp_path, _MEMORY_ERROR.replace("traceback.print_exc()", "raise"))
    assert diagnosis.verdict is Verdict.OUT_OF_MEMORY
    assert diagnosis.incidents[0].where == "host"


@pytest.mark.skipif(sys.platform != "linux", reason="the request is larger than an address space of Linux")
@pytest.mark.parametrize("count", extended_but(["1 << 48", "1 << 44"], "1 << 44"))
@pytest.mark.parametrize("end", ["", "SIGKILL"])
def test_torchs_allocator_of_the_host(tmp_path, count, end):
    pytest.importorskip("torch")
    script = _TORCH.format(count=count) + (_KILLED.format(name=end) if end else "")
    diagnosis = told(tmp_path, script)
    if end:
        assert diagnosis.verdict is Verdict.UNDETERMINED
        assert diagnosis.incidents[0].cause == "ended by signal 9"
    else:
        assert diagnosis.verdict is Verdict.DEGRADED
        assert diagnosis.findings[0].cause == "not-oom-recovered"
