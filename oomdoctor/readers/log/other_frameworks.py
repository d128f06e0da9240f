"""Device memory running out in CuPy, Paddle, MXNet, ONNX Runtime, Caffe and PyCUDA."""

from __future__ import annotations

import re

from ...model.events import EventKind, LogEvent
from .family import Build, Family, Line, Pattern
from .statement import SIZE, event, integer, size


def _paddle(match: re.Match[str], line: Line) -> LogEvent:
    """What is free follows on the same line or, wrapped, on one of the next; newer ones say what is held."""
    text = " ".join([line.text[match.end() :], *line.following(2)])
    allocated, free = _PADDLE_ALLOCATED.search(text), _PADDLE_FREE.search(text)
    return event(
        EventKind.DEVICE_OOM,
        line,
        integer(match["device"]),
        backend="paddle",
        requested_bytes=size(match["request"]),
        allocated_bytes=size(allocated[1]) if allocated else None,
        free_bytes=size(free[1]) if free else None,
    )


_PADDLE_ALLOCATED = re.compile(rf"({SIZE}) memory has been allocated")
_PADDLE_FREE = re.compile(rf"available memory is only\s{{1,40}}({SIZE})")


def _oom(backend: str) -> Build:
    """Groups `request`, `allocated`, `free`, `limit` are sizes, `device` an index, where named."""

    def build(match: re.Match[str], line: Line) -> LogEvent:
        given = match.groupdict()
        return event(
            EventKind.DEVICE_OOM,
            line,
            integer(given.get("device")),
            backend=backend,
            requested_bytes=size(given.get("request")),
            allocated_bytes=size(given.get("allocated")),
            free_bytes=size(given.get("free")),
            allowed_bytes=size(given.get("limit")),
        )

    return build


FAMILY = Family(
    "other frameworks",
    (
        Pattern(
            "Out of memory allocating",
            rf"Out of memory allocating (?P<request>{SIZE}) \(allocated so far: (?P<allocated>{SIZE})"
            rf"(?:, limit set to: (?P<limit>{SIZE}))?",
            _oom("cupy"),
        ),
        Pattern(
            "Out of memory error on GPU",
            rf"Out of memory error on GPU (?P<device>\d{{1,4}})\. Cannot allocate (?P<request>{SIZE})"
            r" memory on GPU \d{1,4},",
            _paddle,
        ),
        Pattern(
            "cudaMalloc retry failed",
            r"cudaMalloc retry failed: out of memory",
            _oom("mxnet"),
        ),
        Pattern(
            "== cudaSuccess",
            r"Check failed: (?:e|err|error) == cudaSuccess .{0,100}(?:CUDA: )?out of memory",
            _oom("cuda"),
        ),
        Pattern(
            "Failed to allocate memory for requested buffer",
            r"Failed to allocate memory for requested buffer of size (?P<request>\d{1,20})",
            _oom("onnxruntime"),
        ),
        Pattern(
            "is smaller than requested bytes",
            r"Available memory of (?P<free>\d{1,20}) is smaller than requested bytes of (?P<request>\d{1,20})",
            _oom("onnxruntime"),
        ),
    ),
)
