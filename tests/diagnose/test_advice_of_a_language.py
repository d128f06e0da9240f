# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN a program of another language WHEN memory was refused to it THEN no change to make is a line of Python."""

from __future__ import annotations

import pytest

from .asked import ask, first

OTHERS = {
    "rust": "memory allocation of 8589934592 bytes failed\nAborted (core dumped)\n",
    "go": "runtime: out of memory: cannot allocate 8589934592-byte block (1 in use)\nfatal error: out of memory\n",
    "java": (
        "OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory(0x0, 8589934592, 0) failed; error='Not enough space' "
        "(errno=12)\n# Native memory allocation (mmap) failed to map 8589934592 bytes for committing reserved memory.\n"
    ),
    "the JVM's heap": "java.lang.OutOfMemoryError: Java heap space\n",
    "node": "RangeError: Array buffer allocation failed\n    at new ArrayBuffer (<anonymous>)\n",
    "V8's heap": "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n",
    "c++": "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n",
    "r": "Error: cannot allocate vector of size 7.5 Gb\n",
    "julia": "ERROR: LoadError: OutOfMemoryError()\n",
}
PYTHON = ("np.", "numpy", "collections.", "multiprocessing", "Python", "import ")


@pytest.mark.parametrize("log", OTHERS.values(), ids=OTHERS)
def test_no_line_of_python_for_another_language(log):
    for remedy in first(ask(log)).remedies:
        lines = () if remedy.set is None else remedy.set.lines
        said = " ".join([remedy.do, *lines, *remedy.check_first])
        assert [word for word in PYTHON if word in said] == []


@pytest.mark.parametrize(
    "log",
    [
        'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    rows.append(row)\nMemoryError\n',
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 179. GiB for an array with shape (400000, 60000) and "
        "data type float64\n",
    ],
)
def test_a_line_of_python_for_python(log):
    found = first(ask(log))
    assert found.rule == "HST003"
    assert found.remedies[0].set is not None
    assert "mmap_mode" in found.remedies[0].set.lines[0]


def test_spark_s_settings_are_for_spark():
    assert not any("Spark" in each.do for each in first(ask(OTHERS["V8's heap"])).remedies)
