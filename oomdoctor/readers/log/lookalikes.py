"""Failures that look like a shortage of memory and are none, and programs that say they went on after one."""

from __future__ import annotations

import re

from ...model.events import EventKind, LogEvent
from .family import Build, Family, Line, Pattern
from .prose import quoted
from .statement import NO_MACHINE, SIZE, event, integer, size


def _kernel_resource(match: re.Match[str], line: Line) -> LogEvent:
    return event(
        EventKind.KERNEL_RESOURCE,
        line,
        resource=match[1].strip(" ,"),
        required_bytes=integer(match[2]),
        limit_bytes=integer(match[3]),
    )


def _shared_data(match: re.Match[str], line: Line) -> LogEvent:
    required, limit = int(match[1], 16), int(match[2], 16)
    return event(EventKind.KERNEL_RESOURCE, line, resource="shared memory", required_bytes=required, limit_bytes=limit)


def _assertion(match: re.Match[str], line: Line) -> LogEvent:
    return event(EventKind.DEVICE_ASSERT, line, assertion=match[1], code="device-side assert")


def _device_fault(code: str) -> Build:
    return lambda match, line: event(EventKind.DEVICE_ASSERT, line, code=code)


def _impossible(match: re.Match[str], line: Line) -> LogEvent | None:
    requested = size(match["size"])
    if requested is None or requested < NO_MACHINE:
        return None
    return event(EventKind.IMPOSSIBLE_SIZE, line, requested_bytes=requested)


def _overflowed(match: re.Match[str], line: Line) -> LogEvent | None:
    """A length that wrapped around into the negative. A small one is a slip of another kind."""
    return event(EventKind.IMPOSSIBLE_SIZE, line) if int(match[1]) >= _WRAPPED else None


_WRAPPED = 1 << 20


def _went_on(how: str, engine: str | None = None) -> Build:
    def build(match: re.Match[str], line: Line) -> LogEvent | None:
        if quoted(line.text, match.start()):
            return None
        return event(EventKind.RECOVERED, line, how=how, engine=engine)

    return build


def _skipped(match: re.Match[str], line: Line) -> LogEvent | None:
    """A batch left out, right after an error for want of memory was printed."""
    if not any(_RAN_OUT.search(text) for text in line.preceding(2)):
        return None
    return event(EventKind.RECOVERED, line, how="skipped-batch")


_RAN_OUT = re.compile(r"out of memory|\bOOM\b", re.IGNORECASE)

FAMILY = Family(
    "look-alikes",
    (
        Pattern(
            "out of resource: ",
            r"out of resource: ([a-z][a-z ]{1,30}?),? ?Required: ?(\d{1,12}),? ?Hardware limit(?:ation)?: ?(\d{1,12})",
            _kernel_resource,
        ),
        Pattern(
            "uses too much shared data",
            r"uses too much shared data \(0x([0-9a-fA-F]{1,12}) bytes, 0x([0-9a-fA-F]{1,12}) max",
            _shared_data,
        ),
        Pattern(
            "too many resources requested for launch",
            r"too many resources requested for launch",
            lambda match, line: event(EventKind.KERNEL_RESOURCE, line, resource="launch resources"),
        ),
        Pattern("device-side assert", r"device-side assert triggered", _device_fault("device-side assert")),
        Pattern(
            "illegal memory access",
            r"illegal memory access was encountered",
            _device_fault("illegal memory access"),
        ),
        Pattern("misaligned address", r"error: misaligned address", _device_fault("misaligned address")),
        Pattern(
            "thread: [",
            r"block: \[[^\]]{1,60}\], thread: \[[^\]]{1,60}\] Assertion [`'](.{1,300}?)['`] failed",
            _assertion,
        ),
        Pattern(
            "1EB memory",
            r"1EB memory",
            lambda match, line: event(EventKind.IMPOSSIBLE_SIZE, line),
        ),
        Pattern(
            "array is too big;",
            r"ValueError: array is too big; `arr\.size \* arr\.dtype\.itemsize` is larger than the maximum",
            lambda match, line: event(EventKind.IMPOSSIBLE_SIZE, line),
        ),
        Pattern("negative dimension -", r"negative dimension -(\d{1,20})\b", _overflowed),
        Pattern("EiB", r"(?P<size>\d{1,30}(?:\.\d{0,6})? ?EiB)", _impossible),
        Pattern("PiB", r"[Tt]ried to allocate (?P<size>\d{1,30}(?:\.\d{0,6})? ?PiB)", _impossible),
        Pattern(
            "bytes. Error code 12",
            rf"tried to allocate (?P<size>{SIZE})",
            _impossible,
        ),
        Pattern(
            "out of memory",
            r"(?i)ran out of memory,? (?:in |on )?.{0,60}?(?:skip|drop)",
            _went_on("skipped-batch"),
        ),
        Pattern("out of memory", r"(?i)ran out of memory.{0,80}?\bretry", _went_on("retry")),
        Pattern("kipping ", r"^[\s|]{0,4}[Ss]kipping (?:this |the )?batch\b", _skipped),
        Pattern("recover from OOM", r"attempting to recover from OOM", _went_on("skipped-batch", "fairseq")),
        Pattern("Decreasing batch size", r"Decreasing batch size to:? \d", _went_on("smaller-batch")),
        Pattern("trying batch size", r"Batch size \d+ failed, trying batch size \d", _went_on("smaller-batch")),
        Pattern("using CPU", r"OutOfMemoryError in \w{1,60}, using CPU", _went_on("fallback")),
        Pattern(
            "Ignoring this choice",
            r"(?i)out of memory.{0,400}Ignoring this choice",
            _went_on("fallback", "inductor"),
        ),
    ),
)
