"""Memory refused by runtimes that keep a heap of their own below a limit of their own: the JVM (Spark's too) and V8.

People write about these messages far more often than programs print them, so every form here stands where a program
puts it (at the start of a line, behind an exception's class or a logger's level) and ends where the message ends.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ...model.events import EventKind, LogEvent
from ...model.units import MIB
from .family import Family, Line, Pattern
from .killed import failed
from .statement import event

_LEVEL = r"(?:\S{1,40} ){0,4}\[?(?:ERROR|FATAL|SEVERE|CRITICAL|WARN(?:ING)?)\b.{0,200}?[\]:>-] {1,4}"
_JAVA_LEAD = re.compile(
    rf"^\s*(?:# |{_LEVEL})?(?:: )?"
    r"(?:Caused by: |Suppressed: |(?:Exception|Uncaught exception) in thread .{1,200}? |Terminating due to "
    r"|Exception: |[\w.$]{1,200}(?:Error|Exception|Failure): ){0,4}$"
)
_JAVA_POOLS = {
    "Java heap space": "heap",
    "GC overhead limit exceeded": "heap",
    "Metaspace": "metaspace",
    "Compressed class space": "metaspace",
    "PermGen space": "metaspace",
    "Direct buffer memory": "direct",
    "Cannot reserve": "direct",
    "unable to create": "thread",
}
_V8_LEAD = r"^\s*(?:\[[^\]]{1,60}\]:? ?|\d[\d:.,TZ -]{0,40} ?|npm (?:ERR!|error) ?){0,3}"


def _java(match: re.Match[str], line: Line) -> LogEvent | None:
    if not _JAVA_LEAD.match(line.text[: match.start()]):
        return None
    made = failed("java", pool=_JAVA_POOLS[match["why"]])(match, line)
    program = _spark(line)
    return made if program is None else replace(made, fields={**made.fields, "program": program})


def _spark(line: Line) -> str | None:
    """Of Spark's processes the one whose heap it was, as its log and its stack name it."""
    around = "\n".join([*line.preceding(3), line.text, *line.following(12)])
    if "org.apache.spark" not in around and "SparkUncaughtExceptionHandler" not in around:
        return None
    return "spark-executor" if _OF_EXECUTOR.search(around) else "spark-driver" if _OF_DRIVER.search(around) else "spark"


_OF_EXECUTOR = re.compile(
    r"Executor task launch worker|ERROR Executor: Exception in task|\bexecutor\.Executor\$TaskRunner"
)
_OF_DRIVER = re.compile(r"Exception in thread \"(?:main|dag-scheduler-event-loop|task-result-getter-\d{1,4})\"")


def _v8_heap(match: re.Match[str], line: Line) -> LogEvent:
    """With what was still in use after the last collection that is shown above."""
    left = next((found for text in line.preceding(16)[::-1] if (found := _COLLECTED.search(text))), None)
    return event(
        EventKind.HOST_ALLOCATION_FAILED,
        line,
        allocator="v8",
        pool="heap",
        used_bytes=round(float(left[1]) * MIB) if left else None,
    )


_COLLECTED = re.compile(r"\b(?:Mark-[Ss]weep|Mark-Compact|Scavenge)\b[^>]{0,60}-> (\d{1,9}\.\d) \(\d{1,9}\.\d\) MB")

FAMILY = Family(
    "heaps of runtimes",
    (
        # --- JVM
        Pattern(
            "java.lang.OutOfMemoryError: ",
            r"java\.lang\.OutOfMemoryError: (?P<why>Java heap space|GC overhead limit exceeded|Metaspace"
            r"|Compressed class space|PermGen space|Direct buffer memory"
            r"|Cannot reserve(?= (?P<bytes>\d{1,20}) bytes of direct buffer memory"
            r"(?: \(allocated: (?P<in_use>\d{1,20}), limit: (?P<limit>\d{1,20})\))?)"
            r"|unable to create(?= (?:new )?native thread))"
            r"(?: bytes| of| direct| buffer| memory| (?:new )?native thread| \d{1,20}| \(allocated: [^()]{1,80}\)"
            r"|: possibly out of memory or process/resource limits reached){0,8}[.'\"]?\s*$",
            _java,
        ),
        Pattern(
            "Native memory allocation (",
            r"^#? ?Native memory allocation \(\w{1,20}\) failed to (?:map|allocate) (?P<bytes>\d{1,20}) bytes",
            failed("java", pool="native"),
        ),
        Pattern(
            "(errno=12)",
            r"os::\w{1,40}\(.{1,120}\) failed; error='.{1,60}' \(errno=12\)",
            failed("java", pool="native"),
        ),
        # --- V8
        Pattern(
            "JavaScript",
            _V8_LEAD + r"(?:FATAL ERROR: .{0,160}JavaScript heap out of memory)\.?\s*$",
            _v8_heap,
        ),
        Pattern(
            "JavaScript",
            _V8_LEAD + r"Fatal JavaScript (?:invalid size error|out of memory): .{1,160}?\.?\s*$",
            failed("v8"),
        ),
        Pattern(
            "Reached heap limit",
            _V8_LEAD + r"FATAL ERROR: Reached heap limit(?!.*JavaScript heap out of memory)",
            _v8_heap,
        ),
        Pattern(
            "Array buffer allocation failed",
            r"^\s*(?:Uncaught )?RangeError: Array buffer allocation failed\s*$",
            failed("v8"),
        ),
    ),
)
