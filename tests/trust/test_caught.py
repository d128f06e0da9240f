"""GIVEN a program that catches its errors about host memory WHEN it goes on THEN they are recorded all the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from harness import PYTHON, run_both, wrapped

from oomdoctor.diagnose import diagnose
from oomdoctor.model.diagnosis import Verdict
from oomdoctor.readers.bundle import read_run

sys.path.append(str(Path(__file__).parents[1] / "probe"))
from watched import find_python, require_python

LIMITED = ["sh", "-c", 'ulimit -v 3000000; exec "$@"', "sh"]
BUILTIN = """
def ask(size):
    return bytearray(size)
def main():
    for size in (1 << 40, 1 << 40, 100):
        try:
            ask(size)
        except MemoryError as error:
            print("caught", repr(error))
    print("went on")
main()
"""
NUMPY = """
import numpy
try:
    numpy.empty((1 << 45, 3), dtype=numpy.float32)
except MemoryError as error:
    print("caught", error)
print("went on")
"""


@pytest.mark.parametrize("which", ["numpy", "3.12", "3.13"])
def test_a_caught_memory_error_is_recorded_and_the_script_goes_on(tmp_path, which):
    python, script = (PYTHON, NUMPY) if which == "numpy" else (require_python(which), BUILTIN)
    command = [*LIMITED, python, "-c", script] if which != "numpy" else [python, "-c", script]
    bare, watched = run_both(command, tmp_path / "i")
    assert (watched.returncode, watched.stdout, watched.stderr) == (bare.returncode, bare.stdout, bare.stderr)
    assert watched.returncode == 0
    assert watched.stdout.endswith(b"went on\n")
    run = read_run(tmp_path / "i").run
    assert [e.fatal for e in run.exceptions] == [False] * (1 if which == "numpy" else 2)
    assert all(e.is_memory_error for e in run.exceptions)
    assert run.exceptions[0].frames[-1].function == ("<module>" if which == "numpy" else "ask")
    found = diagnose([tmp_path / "i"])
    assert found.verdict is Verdict.DEGRADED
    assert found.findings[0].rule == "NOT005"


def test_one_that_nothing_catches_has_one_record(tmp_path):
    python = find_python("3.13") or require_python("3.12")
    script = "def f(): return bytearray(1 << 40)\ndef g():\n try: f()\n except ValueError: pass\ng()"
    done = subprocess.run(wrapped([*LIMITED, python, "-c", script], tmp_path / "i"), capture_output=True)
    assert done.returncode == 1
    (error,) = read_run(tmp_path / "i").run.exceptions
    assert (error.fatal, error.frames[-1].function) == (True, "f")


def test_a_program_that_raises_very_many_errors_is_not_held_up(tmp_path):
    python = find_python("3.13") or require_python("3.12")
    script = (
        "import sys\nfor i in range(200000):\n try: {}[0]\n except KeyError: pass\n"
        "print([sys.monitoring.get_events(tool) for tool in (3, 4)])"
    )
    done = subprocess.run(wrapped([*LIMITED, python, "-c", script], tmp_path / "i"), capture_output=True)
    assert done.stdout == b"[0, 0]\n"
    records = "".join(file.read_text() for file in (tmp_path / "i/probe").iterdir())
    assert "the program raises too many" in records


def test_the_interpreter_is_asked_only_where_a_limit_makes_it_likely(tmp_path):
    python = find_python("3.13") or require_python("3.12")
    script = "import sys, json; print(json.dumps([sys.monitoring.get_tool(tool) for tool in (3, 4)]))"
    free = subprocess.run(wrapped([python, "-c", script], tmp_path / "i"), capture_output=True)
    limited = subprocess.run(wrapped([*LIMITED, python, "-c", script], tmp_path / "j"), capture_output=True)
    assert json.loads(free.stdout) == [None, None]
    assert json.loads(limited.stdout) == [None, "oomdoctor"]
