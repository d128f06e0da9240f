"""Memory refused to, or by, other runtimes: Go, C, C++, Rust, shells, compilers, Spark on YARN, pools.

People write about these messages far more often than programs print them, so every form here stands where a program
puts it (at the start of a line, behind an exception's class or a logger's level) and ends where the message ends.
"""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Callable

from ...model.events import EventKind, LogEvent
from .family import Family, Line, Pattern
from .killed import failed
from .statement import SIZE, event, integer, size

_WRITTEN_BY_PEOPLE = re.compile(
    r"^\s*(?:[#\"'`|>]|[*-] |//|/\*|(?:note|tip|hint|example|e\.g\.|see|symptoms?|todo|fixme|faq|q|a|question|title"
    r"|subject|re|issue|bug|causes?|fix(?:ed)?|docs?)\b)",
    re.IGNORECASE,
)
"""How comments, lists, quotations and headings begin."""


def _go_fatal(match: re.Match[str], line: Line) -> LogEvent | None:
    """Go says first how much it wanted, then why it ends."""
    if any("runtime: out of memory: " in text for text in line.preceding(2)):
        return None
    return failed("go")(match, line)


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
    return failed("fork" if forked else "malloc")(match, line)


_NO_MEMORY_ELSEWHERE = (
    "Nicht genügend Hauptspeicher verfügbar",
    "Kann nicht genügend Speicher zuordnen",
    "Ne peut allouer de la mémoire",
    "No se pudo asignar memoria",
    "Impossibile allocare memoria",
    "Невозможно выделить память",
    "メモリを確保できません",
)
"""What `Cannot allocate memory` is in other languages."""


def _bad_alloc(match: re.Match[str], line: Line) -> LogEvent | None:
    """C++'s word for any allocator's refusal: where one of the device speaks just before, it is that one's."""
    of_device = any(_OF_A_DEVICE.search(text) for text in line.preceding(12))
    return None if of_device else failed("malloc")(match, line)


_OF_A_DEVICE = re.compile(r"\bRMM allocation of .{1,40} failed|\bthrust::(?:\w{1,40}::){1,4}bad_alloc\b|/rmm/")


def _julia(match: re.Match[str], line: Line) -> LogEvent | None:
    """Julia's exception, alone on its line above its stack; behind `ERROR: ` it is read as it stands."""
    bare = "ERROR" not in match[0] and any(text.strip() == "Stacktrace:" for text in line.following(2))
    return failed("malloc")(match, line) if bare else None


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


_NO_THREAD = (
    ("can't start new thread", r"(?<![\w.])(?:RuntimeError|thread\.error|error): can't start new thread\s*$"),
    ("pthread_create", r"pthread_create(?:\(\))? failed\b.{0,80}Resource temporarily unavailable"),
    ("hread creation failed", r"libgomp: Thread creation failed: Resource temporarily unavailable"),
    ("fork: retry", r"\bfork: (?:retry: )?(?:Resource temporarily unavailable|No child processes)"),
    ("[Errno 11]", r"BlockingIOError: \[Errno 11\] Resource temporarily unavailable\s*$"),
)
"""What says that no further thread or process could be started (EAGAIN): anchor and form."""

_PROGRAM = r"(?:[\w./+-]{1,120}: )"

FAMILY = Family(
    "runtimes",
    (
        # --- Go
        Pattern(
            "runtime: out of memory: ",
            r"^\s*runtime: out of memory: cannot allocate (?P<bytes>\d{1,20})-byte block"
            r"(?: \((?P<in_use>\d{1,20}) in use\))?",
            failed("go"),
        ),
        Pattern(
            "fatal error: ",
            r"^\s*fatal error: (?:runtime: )?(?:out of memory|cannot allocate memory)(?: \(.{1,120}\))?\s*$",
            _go_fatal,
        ),
        Pattern("runtime: cannot allocate memory", r"^\s*runtime: cannot allocate memory\s*$", failed("go")),
        # --- C and C++, shells, tools
        Pattern(
            "std::bad_alloc",
            r"(?:^\s*|instance of ['`‘]|what\(\): {1,4}|(?<=[\w)\]]): )"
            r"std::bad_alloc(?!: (?:out_of_memory|CUDA|cuda|RMM))(?:['’]|\s*$|: )",
            _bad_alloc,
        ),
        Pattern(
            "annot allocate memory",
            r"^(?P<before>(?:[^:]{0,160}:){1,12} ?)[Cc]annot allocate memory\.?\s*$",
            _errno_in_words,
        ),
        *(
            Pattern(words, rf"^(?P<before>(?:[^:]{{0,160}}:){{1,12}} ?){words}\.?\s*$", _errno_in_words)
            for words in _NO_MEMORY_ELSEWHERE
        ),
        Pattern(
            ": cannot allocate ",
            r"\bx(?:malloc|realloc|calloc): (?:\S{1,80}: )?cannot allocate (?P<bytes>\d{1,20}) bytes"
            r"(?: \((?P<in_use>\d{1,20}) bytes allocated\))?\s*$",
            failed("malloc"),
        ),
        Pattern(
            "memory exhausted",
            rf"^{_PROGRAM}{{1,4}}(?:virtual )?memory exhausted\s*$|^\s*virtual memory exhausted\s*$",
            failed("malloc"),
        ),
        Pattern(
            "emory, malloc failed",
            r"^(?:fatal|error): Out of memory, \w{1,20} failed(?: \(tried to allocate (?P<bytes>\d{1,20}) bytes\))?",
            failed("malloc"),
        ),
        Pattern(
            ": out of memory allocating ",
            rf"^{_PROGRAM}{{1,3}}out of memory allocating (?P<bytes>\d{{1,20}}) bytes",
            failed("malloc"),
        ),
        Pattern("LLVM ERROR: ", r"^\s*LLVM ERROR: out of memory(?:\s*$|\. ?| )", failed("malloc")),
        Pattern(
            "illed signal terminated program",
            r"fatal error: Killed signal terminated program (?P<program>\S{1,60})",
            _killed("compiler"),
        ),
        # --- R, Julia, MATLAB
        Pattern(
            "annot allocate vector of size ",
            r"(?:^|: )[Cc]annot allocate vector of (?:size|length) (?P<size>\d{1,12}(?:\.\d{1,3})? [KMG]b)\b",
            failed("malloc"),
        ),
        Pattern(
            "annot allocate memory block of size ",
            r"(?:^|: )[Cc]annot allocate memory block of size (?P<size>\d{1,12}(?:\.\d{1,3})? [KMGT]b)\b",
            failed("malloc"),
        ),
        Pattern("OutOfMemoryError()", r"^\s*(?:ERROR: )?OutOfMemoryError\(\)\s*$", _julia),
        Pattern("OutOfMemoryError()", r"(?<![\w.])ERROR: (?:\w{1,40}: )?OutOfMemoryError\(\)\s*$", failed("malloc")),
        Pattern('Type "help memory"', r'\bOut of memory\. Type "help memory" for your options\.', failed("malloc")),
        Pattern("bad allocation", r"(?:Error|Exception): bad allocation\s*$", failed("malloc")),
        # --- threads and processes: a limit of their number, not of bytes
        *(Pattern(anchor, regex, failed("other", pool="thread")) for anchor, regex in _NO_THREAD),
        # --- Rust
        Pattern(
            "memory allocation of ",
            r"^\s*memory allocation of (?P<bytes>\d{1,20}) bytes failed\s*$",
            failed("rust"),
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
            " memory limit. Current usage: ",
            r"is running \d{1,20}B beyond the 'PHYSICAL' memory limit\. Current usage: "
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
