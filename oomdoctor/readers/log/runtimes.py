"""Memory refused to, or by, other runtimes: JVM, V8, Go, C, C++, Rust, shells, compilers, Spark on YARN, pools.

People write about these messages far more often than programs print them, so every form here stands where a program
puts it (at the start of a line, behind an exception's class or a logger's level) and ends where the message ends.
"""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Callable

from ...model.events import EventKind, FieldValue, LogEvent
from .family import Family, Line, Pattern
from .statement import SIZE, event, integer, size

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
_WRITTEN_BY_PEOPLE = re.compile(
    r"^\s*(?:[#\"'`|>]|[*-] |//|/\*|(?:note|tip|hint|example|e\.g\.|see|symptoms?|todo|fixme|faq|q|a|question|title"
    r"|subject|re|issue|bug|causes?|fix(?:ed)?|docs?)\b)",
    re.IGNORECASE,
)
"""How comments, lists, quotations and headings begin."""


def _failed(allocator: str, **more: FieldValue) -> Callable[[re.Match[str], Line], LogEvent]:
    """A refused allocation; groups `bytes` (or `size`), `limit` and `in_use` are taken where named."""

    def build(match: re.Match[str], line: Line) -> LogEvent:
        given = match.groupdict()
        return event(
            EventKind.HOST_ALLOCATION_FAILED,
            line,
            allocator=allocator,
            requested_bytes=integer(given.get("bytes")) if given.get("bytes") else size(given.get("size")),
            limit_bytes=integer(given.get("limit")),
            used_bytes=integer(given.get("in_use")),
            **more,
        )

    return build


def _java(match: re.Match[str], line: Line) -> LogEvent | None:
    if not _JAVA_LEAD.match(line.text[: match.start()]):
        return None
    return _failed("java", pool=_JAVA_POOLS[match["why"]])(match, line)


def _go_fatal(match: re.Match[str], line: Line) -> LogEvent | None:
    """Go says first how much it wanted, then why it ends."""
    if any("runtime: out of memory: " in text for text in line.preceding(2)):
        return None
    return _failed("go")(match, line)


def _errno_in_words(match: re.Match[str], line: Line) -> LogEvent | None:
    """`program: what failed: Cannot allocate memory`, as perror and the shells write it."""
    before = match["before"]
    # Where the number stands too, or shared memory or the limit on locked memory is meant, others read it (or nobody).
    if _WRITTEN_BY_PEOPLE.match(before) or re.search(
        r"\[Errno 12\]|\bmmap \d|mlock|\bibv_|alloc_cpu|^\s*runtime: $", before
    ):
        return None
    forked = re.search(
        r"\b(?:v?fork|clone|fork/exec\b.{0,200}|posix_spawn\w{0,2}|Popen)(?:\(\))?(?: failed)?: ?$", before
    )
    return _failed("fork" if forked else "malloc")(match, line)


def _killed(reported_by: str) -> Callable[[re.Match[str], Line], LogEvent]:
    return lambda match, line: event(
        EventKind.PROCESS_KILLED,
        line,
        signal=int(signals.SIGKILL),
        pid=integer(match.groupdict().get("pid")),
        program=match.groupdict().get("program"),
        reported_by=reported_by,
        oom_stated=False,
    )


def _broken_pool(match: re.Match[str], line: Line) -> LogEvent:
    """A worker of `concurrent.futures` is gone; of what, the pool does not know."""
    return event(EventKind.PROCESS_KILLED, line, reported_by="process-pool", oom_stated=False)


def _yarn(match: re.Match[str], line: Line) -> LogEvent:
    return event(
        EventKind.MEMORY_LIMIT_HIT,
        line,
        system="yarn",
        used_bytes=size(match["used"]),
        limit_bytes=size(match["limit"]),
    )


_PROGRAM = r"(?:[\w./+-]{1,120}: )"

FAMILY = Family(
    "runtimes",
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
            _failed("java", pool="native"),
        ),
        Pattern(
            "(errno=12)",
            r"os::\w{1,40}\(.{1,120}\) failed; error='.{1,60}' \(errno=12\)",
            _failed("java", pool="native"),
        ),
        # --- V8
        Pattern(
            "JavaScript",
            _V8_LEAD + r"(?:FATAL ERROR: .{0,160}JavaScript heap out of memory"
            r"|Fatal JavaScript (?:invalid size error|out of memory): .{1,160}?)\.?\s*$",
            _failed("v8"),
        ),
        Pattern(
            "Reached heap limit",
            _V8_LEAD + r"FATAL ERROR: Reached heap limit(?!.*JavaScript heap out of memory)",
            _failed("v8"),
        ),
        Pattern(
            "Array buffer allocation failed",
            r"^\s*(?:Uncaught )?RangeError: Array buffer allocation failed\s*$",
            _failed("v8"),
        ),
        # --- Go
        Pattern(
            "runtime: out of memory: ",
            r"^\s*runtime: out of memory: cannot allocate (?P<bytes>\d{1,20})-byte block"
            r"(?: \((?P<in_use>\d{1,20}) in use\))?",
            _failed("go"),
        ),
        Pattern(
            "fatal error: ",
            r"^\s*fatal error: (?:runtime: )?(?:out of memory|cannot allocate memory)(?: \(.{1,120}\))?\s*$",
            _go_fatal,
        ),
        Pattern("runtime: cannot allocate memory", r"^\s*runtime: cannot allocate memory\s*$", _failed("go")),
        # --- C and C++, shells, tools
        Pattern(
            "std::bad_alloc",
            r"(?:^\s*|instance of ['`‘]|what\(\): {1,4}|(?<=[\w)\]]): )"
            r"std::bad_alloc(?!: (?:out_of_memory|CUDA))(?:['’]|\s*$|: )",
            _failed("malloc"),
        ),
        Pattern(
            "annot allocate memory",
            r"^(?P<before>(?:[^:]{0,160}:){1,12} ?)[Cc]annot allocate memory\.?\s*$",
            _errno_in_words,
        ),
        Pattern(
            ": cannot allocate ",
            r"\bx(?:malloc|realloc|calloc): (?:\S{1,80}: )?cannot allocate (?P<bytes>\d{1,20}) bytes"
            r"(?: \((?P<in_use>\d{1,20}) bytes allocated\))?\s*$",
            _failed("malloc"),
        ),
        Pattern(
            "memory exhausted",
            rf"^{_PROGRAM}{{1,4}}(?:virtual )?memory exhausted\s*$|^\s*virtual memory exhausted\s*$",
            _failed("malloc"),
        ),
        Pattern(
            "emory, malloc failed",
            r"^(?:fatal|error): Out of memory, \w{1,20} failed(?: \(tried to allocate (?P<bytes>\d{1,20}) bytes\))?",
            _failed("malloc"),
        ),
        Pattern(
            ": out of memory allocating ",
            rf"^{_PROGRAM}{{1,3}}out of memory allocating (?P<bytes>\d{{1,20}}) bytes",
            _failed("malloc"),
        ),
        Pattern("LLVM ERROR: ", r"^\s*LLVM ERROR: out of memory(?:\s*$|\. ?| )", _failed("malloc")),
        Pattern(
            "illed signal terminated program",
            r"fatal error: Killed signal terminated program (?P<program>\S{1,60})",
            _killed("compiler"),
        ),
        # --- Rust
        Pattern(
            "memory allocation of ",
            r"^\s*memory allocation of (?P<bytes>\d{1,20}) bytes failed\s*$",
            _failed("rust"),
        ),
        # --- Spark and Hadoop on YARN
        Pattern(
            "Container killed by YARN",
            r"Container killed by YARN for exceeding (?:physical |virtual )?memory limits\. "
            rf"(?P<used>{SIZE}) of (?P<limit>{SIZE}) (?:physical|virtual) memory used",
            _yarn,
        ),
        Pattern(
            " memory limits. Current usage: ",
            r"is running (?:\d{1,20}B )?beyond (?:the '?)?physical'? memory limits?\. Current usage: "
            rf"(?P<used>{SIZE}) of (?P<limit>{SIZE}) physical memory used",
            _yarn,
        ),
        Pattern(
            " memory limits. Current usage: ",
            r"is running (?:\d{1,20}B )?beyond (?:the '?)?virtual'? memory limits?\. Current usage: .{1,80}; "
            rf"(?P<used>{SIZE}) of (?P<limit>{SIZE}) virtual memory used",
            _yarn,
        ),
        # --- Python's pools
        Pattern(
            "BrokenProcessPool: ",
            r"(?:^|[\s.])BrokenProcessPool: A (?:child )?process in the process pool was terminated abruptly",
            _broken_pool,
        ),
        *(
            Pattern(
                anchor,
                r"(?<!failed \()\bexit ?code(?:=|: ?| | of | is | was )(?:-9|-SIGKILL)(?=\s*$|[,;)>\]\"']|\. |\.$)",
                _killed("multiprocessing"),
            )
            for anchor in ("exitcode", "exit code")
        ),
    ),
)
