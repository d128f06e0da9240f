"""Memory refused by servers and languages whose words nobody else has: by the machine, or at a limit of their own.

A limit of their own (PHP's memory_limit, Redis' maxmemory, a circuit breaker) is reached however much the machine has.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ...model.events import LogEvent
from .family import Build, Family, Line, Pattern
from .killed import failed
from .prose import mentioned
from .statement import SIZE, integer, size


def _own_limit(allocator: str) -> Build:
    """A refusal at a limit of its own; groups `bytes`, `had` (in use) and `most` (allowed) are taken where named."""

    def build(match: re.Match[str], line: Line) -> LogEvent | None:
        given = match.groupdict()
        sizes = {"used_bytes": _bytes(given.get("had")), "limit_bytes": _bytes(given.get("most"))}
        made = failed(allocator, pool="own-limit")(match, line)
        told = {name: known for name, known in sizes.items() if known is not None}
        return (
            None if mentioned(line.text, match.start(), match.end()) else replace(made, fields={**made.fields, **told})
        )

    return build


def _refused(allocator: str) -> Build:
    def build(match: re.Match[str], line: Line) -> LogEvent | None:
        return None if mentioned(line.text, match.start(), match.end()) else failed(allocator)(match, line)

    return build


def _bytes(text: str | None) -> int | None:
    return integer(text) if text is None or text.isdigit() else size(text)


FAMILY = Family(
    "own limits",
    (
        # --- languages
        Pattern(
            "Allowed memory size of ",
            r"Allowed memory size of (?P<most>\d{1,20}) bytes exhausted ?"
            r"\(tried to allocate (?P<bytes>\d{1,20}) bytes\)",
            _own_limit("php"),
        ),
        Pattern(
            "Out of memory (allocated ",
            r"Out of memory \(allocated (?P<in_use>\d{1,20})(?: bytes)?\) "
            r"\(tried to allocate (?P<bytes>\d{1,20}) bytes\)",
            _refused("php"),
        ),
        Pattern(
            "System.OutOfMemoryException",
            r"(?:^\s*(?:Unhandled [Ee]xception\. |-{3}> )?|\bUnhandled Exception: |[\])>:] )"
            r"System\.OutOfMemoryException: \S"
            r"|Exception of type 'System\.OutOfMemoryException' was thrown",
            _refused("dotnet"),
        ),
        Pattern(
            "failed to allocate memory",
            r"\bfailed to allocate memory \(NoMemoryError\)|^\s*\[FATAL\] failed to allocate memory\s*$"
            r"|\bNoMemoryError: failed to allocate memory\s*$",
            _refused("ruby"),
        ),
        Pattern(
            "_alloc: Cannot ",
            r"^\s*\w{2,12}_alloc: Cannot (?:re)?allocate (?P<bytes>\d{1,20}) bytes of memory \(of type \"",
            _refused("erlang"),
        ),
        Pattern("Out of memory!", r"^\s*Out of memory!\s*$", _refused("malloc")),
        Pattern("exception Out_of_memory", r"^\s*Fatal error: exception Out_of_memory\s*$", _refused("malloc")),
        Pattern(
            "eap exhausted;",
            r"\bHeap exhausted; {0,4}|\bheap exhausted;",
            _own_limit("ghc"),
        ),
        Pattern(
            "vector memory ",
            r"(?:^|: )vector memory (?:exhausted \(limit reached\?\)\s*$"
            r"|limit of (?P<most>\d{1,9}(?:\.\d{1,3})? [KMGT]b) reached\b)",
            _own_limit("r"),
        ),
        Pattern(
            "Reached total allocation of ",
            r"(?:^|: )\s*Reached total allocation of (?P<most>\d{1,9}Mb): see help\(memory\.size\)",
            _own_limit("r"),
        ),
        Pattern(
            "maximum array size preference",
            r"^\s*(?:Error .{1,200} )?Requested \S{1,80} \((?P<size>\d{1,9}(?:\.\d{1,3})?[KMGT]B)\) array exceeds "
            r"maximum (?:array size preference|variable size)"
            r"(?: \((?P<most>\d{1,9}(?:\.\d{1,3})?[KMGT]B)\))?",
            _own_limit("matlab"),
        ),
        Pattern("Out of memory. size=", r"\] Out of memory\. size=(?P<bytes>\d{1,20})\b", _refused("malloc")),
        Pattern("-1073741801", r"(?i:exit (?:code|status):?|exited with(?: code)?) -1073741801\b", _refused("malloc")),
        Pattern("Fatal javascript OOM in ", r"^\s*#? ?Fatal javascript OOM in \S", failed("v8", pool="heap")),
        # --- servers of data
        Pattern(
            "Failed on request of size ",
            r"Failed on request of size (?P<bytes>\d{1,20})(?: in memory context \"[^\"]{1,80}\")?\.?\s*$",
            _refused("postgres"),
        ),
        Pattern("[InnoDB] mmap(", r"\[InnoDB\] mmap\((?P<bytes>\d{1,20}) bytes\) failed; errno 12", _refused("mysql")),
        Pattern(
            ": Out of memory",
            r"\bERROR (?:1041|5|1037) \(HY\d{3}\): Out of memory(?: \(Needed (?P<bytes>\d{1,20}) bytes\))?",
            _refused("mysql"),
        ),
        Pattern(
            "zmalloc: ", r"\bzmalloc: Out of memory trying to allocate (?P<bytes>\d{1,20}) bytes", _refused("redis")
        ),
        Pattern(
            "ommand not allowed when used memory > ", r"\bcommand not allowed when used memory > ", _own_limit("redis")
        ),
        Pattern(
            "Data too large, data for ",
            r"Data too large, data for \[[^\]]{1,80}\] would be \[(?P<had>\d{1,20})/[^\]]{1,20}\], which is larger"
            r" than the limit of \[(?P<most>\d{1,20})/",
            _own_limit("elasticsearch"),
        ),
        Pattern(
            "exceeded: would use ",
            r"(?:Memory limit \([^)]{1,60}\)|\([a-z ]{1,40}\) memory limit|(?:User|Query|Server|Total) memory limit)"
            rf" exceeded: would use (?P<had>{SIZE})"
            rf" \(attempt to allocate chunk of (?P<bytes>\d{{1,20}}) bytes\)(?:, current RSS:? {SIZE})?,"
            rf" maximum: (?P<most>{SIZE})",
            _own_limit("clickhouse"),
        ),
        Pattern(
            "Out of Memory Error: ",
            rf"Out of Memory Error: (?:failed to (?:allocate|pin|offload)|could not allocate) .{{0,60}}?"
            rf"of size (?P<size>{SIZE})(?: \((?P<had>{SIZE})/(?P<most>{SIZE}) used\))?",
            _own_limit("duckdb"),
        ),
    ),
)
