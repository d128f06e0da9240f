# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN a JVM or Node.js that filled its own heap, beside a job WHEN it is diagnosed THEN its own limit is blamed, with its knob."""

from __future__ import annotations

import pytest

from oomdoctor.diagnose import diagnose
from oomdoctor.model.diagnosis import Confidence

from .asked import ask, first

MIB, GIB = 1 << 20, 1 << 30

EXECUTOR = """20/02/17 11:44:50 ERROR Executor: Exception in task 15.0 in stage 2.0 (TID 4305)
java.lang.OutOfMemoryError: Java heap space
        at java.io.BufferedOutputStream.<init>(BufferedOutputStream.java:76)
        at org.apache.spark.storage.DiskBlockObjectWriter.initialize(DiskBlockObjectWriter.scala:107)
"""
DRIVER = """Exception in thread "main" java.lang.OutOfMemoryError: GC overhead limit exceeded
\tat java.util.Arrays.copyOf(Arrays.java:3332)
\tat org.apache.spark.sql.Dataset.collect(Dataset.scala:2715)
"""
PLAIN = 'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n\tat a.B.c(B.java:1)\n'
NODE = """<--- Last few GCs --->

[23201:0xb5d40c000] 58738573 ms: Scavenge 4075.0 (4103.7) -> 4074.3 (4104.0) MB, pooled: 0.0 MB, 5.18 / 0.00 ms (average mu = 0.876, current mu = 0.900) allocation failure;
[23201:0xb5d40c000] 58738768 ms: Mark-Compact (reduce) 4098.8 (4122.6) -> 4079.8 (4105.0) MB, pooled: 0.0 MB, 68.14 / 1.04 ms (average mu = 0.817,

<--- JS stacktrace --->

FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory
----- Native stack trace -----
"""
OLD_NODE = NODE.replace("Mark-Compact (reduce)", "Mark-sweep")


@pytest.mark.parametrize(
    ("log", "command", "line", "summary"),
    [
        (EXECUTOR, None, "spark-submit --executor-memory <N>m", "JVM's heap"),
        (EXECUTOR, "spark-submit --executor-memory 4g job.py", "spark-submit --executor-memory 8192m", "JVM's heap"),
        (DRIVER, "spark-submit --driver-memory 2g job.py", "spark-submit --driver-memory 4096m", "JVM's heap"),
        (PLAIN, "java -Xmx512m -jar a.jar", "java -Xmx1024m", "JVM's heap"),
        (NODE, None, "export NODE_OPTIONS=--max-old-space-size=8159", "V8's heap"),
        (OLD_NODE, None, "export NODE_OPTIONS=--max-old-space-size=8159", "V8's heap"),
    ],
    ids=["executor", "executor with its size", "driver", "java", "node", "node 14"],
)
def test_the_knob_of_the_runtime(log: str, command: str | None, line: str, summary: str) -> None:
    found = ask(log, command)
    assert first(found).rule == "HST018"
    assert [finding.rule for finding in found.findings] == ["HST018"]
    lines = [each for remedy in first(found).remedies if remedy.set for each in remedy.set.lines]
    assert line in lines
    assert summary in found.summary
    assert len(found.incidents) == 1


def test_what_was_left_after_the_last_collection_and_the_limit() -> None:
    node, java = ask(NODE), ask(PLAIN, "java -Xmx512m -jar a.jar")
    assert node.facts.value("host.heap_used_bytes") == round(4079.8 * MIB)
    assert (first(node).confidence, first(java).confidence) == (Confidence.CONFIRMED, Confidence.CONFIRMED)
    assert java.facts.value("host.heap_limit_bytes") == 512 * MIB
    assert first(ask(PLAIN)).confidence is Confidence.LIKELY


def test_what_is_no_limit_of_a_heap() -> None:
    native = "# Native memory allocation (mmap) failed to map 65536 bytes for committing reserved memory.\n"
    assert first(ask(native)).rule == "HST003"
    assert (
        first(ask("Fatal JavaScript out of memory: MemoryChunk allocation failed during deserialization.\n")).rule
        == "HST003"
    )


@pytest.mark.parametrize(
    "said", ["The paging file is too small for this operation to complete.", "页面文件太小，无法完成操作。"]
)
def test_the_paging_file_of_windows(said: str) -> None:
    found = ask(f'    with safe_open(ckpt, framework="pt", device=device) as f:\nOSError: {said} (os error 1455)\n')
    assert first(found).rule == "HST003"
    assert first(found).confidence is Confidence.LIKELY
    assert "paging file" in first(found).remedies[0].do
    assert found.facts.value("host.platform") == "windows"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("DB::Exception: Query memory limit exceeded: would use 9.32 GiB (attempt to allocate chunk of 4194304 bytes), maximum: 9.31 GiB.", "4.00 MiB asked for, the limit was 9.31 GiB"),
        ("Error: vector memory limit of 16.0 Gb reached, see mem.maxVSize()", "the limit was 16.00 GiB"),
    ],
)  # fmt: skip
def test_the_headline_tells_the_limit_that_was_reached(tmp_path, text, says):
    (tmp_path / "a.log").write_text(f"{text}\n", encoding="utf-8")
    diagnosis = diagnose([tmp_path / "a.log"])
    assert says in diagnosis.summary
    assert diagnosis.findings[0].rule == "HST020"
