"""TensorRT's builder: what it says of the ways to compute a layer (tactics) for which it had no memory."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...model.events import EventKind, LogEvent
from .accelerator_errors import out_of_memory
from .family import Build, Family, Line, Pattern
from .prose import mentioned
from .statement import event, integer

_LIBRARY = "tensorrt"
_SHORT_OF_MEMORY = re.compile(
    r"OutOfMemory|out of memory|insufficient memory|GPU memory allocation error|could not be allocated|allocator error",
    re.IGNORECASE,
)
_LINES_OF_A_LAYER = 20
"""Lines in which the builder says that it had no memory, before it gives a layer up."""


def _tactic(code: str) -> Build:
    """No memory for one way to compute a layer (others are tried), or for any."""

    def build(match: re.Match[str], line: Line) -> LogEvent | None:
        if mentioned(line.text, match.start(), match.end()):
            return None
        return event(
            EventKind.ACCELERATOR_ERROR,
            line,
            library=_LIBRARY,
            code=code,
            requested_bytes=integer(match.groupdict().get("bytes")),
            masks_oom=True,
        )

    return build


def _layer_given_up(match: re.Match[str], line: Line) -> LogEvent | Iterable[LogEvent] | None:
    """Said of layers that are not supported as well: it is about memory where a shortage was told just before."""
    if not any(_SHORT_OF_MEMORY.search(text) for text in line.preceding(_LINES_OF_A_LAYER)):
        return None
    return _tactic("memory for any tactic")(match, line)


FAMILY = Family(
    "tensorrt",
    (
        Pattern("Cuda Runtime (out of memory)", r"Cuda Runtime \(out of memory\)", out_of_memory(_LIBRARY)),
        Pattern("Error Code 2: OutOfMemory", r"Error Code 2: OutOfMemory\b", out_of_memory(_LIBRARY)),
        Pattern(
            "Cuda Error in ",
            r"Cuda Error in [\w:]{0,80}[Aa]llocat\w{1,4}: 2 \(out of memory\)",
            out_of_memory(_LIBRARY),
        ),
        Pattern(
            "OutOfMemory Error in ",
            r"OutOfMemory Error in nvinfer1::builder::[\w:`'<> -]{1,160}: [0-9]{1,20}",
            _tactic("memory for any tactic"),
        ),
        Pattern(
            "Requested amount of GPU memory",
            r"Requested amount of GPU memory \((?P<bytes>\d{1,20}) bytes\) could not be al",
            out_of_memory(_LIBRARY),
        ),
        Pattern(
            "due to insufficient memory on requested size of ",
            r"Skipping tactic \S{1,40} due to insufficient memory on requested size of (?P<bytes>\d{1,20})\b",
            _tactic("memory for a tactic"),
        ),
        Pattern(
            "User allocator error allocating ",
            r"User allocator error allocating (?P<bytes>\d{1,20})-byte buffer",
            _tactic("memory for a tactic"),
        ),
        Pattern(
            "GPU memory allocation error during getBestTactic",
            r"GPU memory allocation error during getBestTactic",
            _tactic("memory for a tactic"),
        ),
        Pattern(
            "ould not find any implementation for node",
            r"[Cc]ould not find any implementation for node",
            _layer_given_up,
        ),
    ),
)
