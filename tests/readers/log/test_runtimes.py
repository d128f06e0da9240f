# ruff: noqa: E501  (log lines are as long as they are)
"""Memory refused to other runtimes than Python's."""

from __future__ import annotations

import io
from typing import Any

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.readers.log.engine import read_log

GIB = 1 << 30
Expected = tuple[K, dict[str, Any]]


def failed(allocator: str, **fields: Any) -> Expected:
    return K.HOST_ALLOCATION_FAILED, {"allocator": allocator, **fields}


def killed(reported_by: str, **fields: Any) -> Expected:
    return K.PROCESS_KILLED, {"reported_by": reported_by, "oom_stated": False, **fields}


def yarn(used: float, limit: float) -> Expected:
    return K.MEMORY_LIMIT_HIT, {"system": "yarn", "used_bytes": round(used * GIB), "limit_bytes": round(limit * GIB)}


FORMS = [
    # --- JVM
    (
        'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space',
        failed("java", pool="heap"),
    ),
    ("Caused by: java.lang.OutOfMemoryError: GC overhead limit exceeded", failed("java", pool="heap")),
    (": java.lang.OutOfMemoryError: Java heap space", failed("java", pool="heap")),
    (
        "24/05/01 10:11:12 ERROR Executor: java.lang.OutOfMemoryError: Metaspace",
        failed("java", pool="metaspace"),
    ),
    ("Terminating due to java.lang.OutOfMemoryError: Java heap space", failed("java", pool="heap")),
    ("# java.lang.OutOfMemoryError: Java heap space", failed("java", pool="heap")),
    (
        "java.lang.OutOfMemoryError: Direct buffer memory",
        failed("java", pool="direct"),
    ),
    (
        "java.lang.OutOfMemoryError: Cannot reserve 1048576 bytes of direct buffer memory (allocated: 2097152, limit: 3145728)",
        failed("java", pool="direct", requested_bytes=1048576, used_bytes=2097152, limit_bytes=3145728),
    ),
    (
        "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory or process/resource limits reached",
        failed("java", pool="thread"),
    ),
    ("java.lang.OutOfMemoryError: unable to create new native thread", failed("java", pool="thread")),
    (
        "# Native memory allocation (mmap) failed to map 65536 bytes for committing reserved memory.",
        failed("java", pool="native", requested_bytes=65536),
    ),
    # --- V8
    (
        "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
        failed("v8", pool="heap"),
    ),
    (
        "FATAL ERROR: CALL_AND_RETRY_LAST Allocation failed - JavaScript heap out of memory",
        failed("v8", pool="heap"),
    ),
    (
        "[1234:0x5e] FATAL ERROR: Ineffective mark-compacts near heap limit Allocation failed - JavaScript heap out of memory",
        failed("v8", pool="heap"),
    ),
    ("FATAL ERROR: Reached heap limit", failed("v8", pool="heap")),
    # --- Go
    ("fatal error: runtime: out of memory", failed("go")),
    ("runtime: cannot allocate memory", failed("go")),
    (
        "runtime: out of memory: cannot allocate 8589934592-byte block (66879488 in use)\nfatal error: out of memory",
        failed("go", requested_bytes=8 * GIB, used_bytes=66879488),
    ),
    # --- C, C++, shells, compilers
    ("terminate called after throwing an instance of 'std::bad_alloc'", failed("malloc")),
    ("  what():  std::bad_alloc", failed("malloc")),
    ("MemoryError: std::bad_alloc", failed("malloc")),
    ("malloc: Cannot allocate memory", failed("malloc")),
    ("./solver: reading mesh: Cannot allocate memory", failed("malloc")),
    ("/usr/bin/sort: write failed: Cannot allocate memory", failed("malloc")),
    ("-bash: fork: Cannot allocate memory", failed("fork")),
    ("make: vfork: Cannot allocate memory", failed("fork")),
    ("fork/exec /bin/sh: cannot allocate memory", failed("fork")),
    (
        "bash: xrealloc: cannot allocate 18446744071562067968 bytes",
        failed("malloc", request_impossible=True),
    ),
    (
        "-bash: xmalloc: ../../bash/lib/sh/fmtulong.c:185: cannot allocate 34 bytes (1425408 bytes allocated)",
        failed("malloc", requested_bytes=34, used_bytes=1425408),
    ),
    ("virtual memory exhausted: Cannot allocate memory", failed("malloc")),
    ("grep: memory exhausted", failed("malloc")),
    (
        "fatal: Out of memory, malloc failed (tried to allocate 524288000 bytes)",
        failed("malloc", requested_bytes=524288000),
    ),
    (
        "cc1plus: out of memory allocating 65536 bytes after a total of 1048576 bytes",
        failed("malloc", requested_bytes=65536),
    ),
    (
        "g++: fatal error: Killed signal terminated program cc1plus",
        killed("compiler", signal=9, program="cc1plus"),
    ),
    # --- Rust
    ("memory allocation of 34359738368 bytes failed", failed("rust", requested_bytes=32 * GIB)),
    # --- YARN
    (
        "Reason: Container killed by YARN for exceeding memory limits. 5.5 GB of 5 GB physical memory used. Consider boosting spark.yarn.executor.memoryOverhead.",
        yarn(5.5, 5),
    ),
    (
        "Container [pid=7,containerID=container_1_01] is running beyond physical memory limits. Current usage: 1.5 GB of 1 GB physical memory used; 2.6 GB of 2.1 GB virtual memory used. Killing container.",
        yarn(1.5, 1),
    ),
    (
        "Container [pid=7,containerID=container_1_01] is running 536870912B beyond the 'PHYSICAL' memory limit. Current usage: 1.5 GB of 1 GB physical memory used; 2.6 GB of 2.1 GB virtual memory used. Killing container.",
        yarn(1.5, 1),
    ),
    (
        "Container [pid=7,containerID=container_1_01] is running beyond virtual memory limits. Current usage: 1.0 GB of 1 GB physical memory used; 2.6 GB of 2.1 GB virtual memory used. Killing container.",
        yarn(2.6, 2.1),
    ),
    # --- pools
    (
        "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running or pending.",
        killed("process-pool"),
    ),
    ("worker 3 died: exitcode -9", killed("multiprocessing", signal=9)),
    ("<Process name='Process-1' pid=12 parent=7 stopped exitcode=-SIGKILL>", killed("multiprocessing", signal=9)),
]


@pytest.mark.parametrize(("text", "expected"), FORMS)
def test_each_form(text: str, expected: Expected) -> None:
    events = [
        event for event in read_log(io.BytesIO(f"{text}\n".encode()), "a.log").events if event.kind is not K.EXCEPTION
    ]
    assert [(event.kind, dict(event.fields)) for event in events] == [expected]


def test_the_elastic_launchers_exit_code_is_told_once() -> None:
    text = "E1 api.py:874] failed (exitcode: -9) local_rank: 0 (pid: 7) of binary: /usr/bin/python\n"
    (event,) = read_log(io.BytesIO(text.encode()), "a.log").events
    assert event.fields["reported_by"] == "elastic"
