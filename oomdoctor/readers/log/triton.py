"""Triton Inference Server: the pools of fixed size through which it moves inputs and outputs, and what did not fit."""

from __future__ import annotations

import re

from ...model.events import EventKind, LogEvent
from .family import Build, Family, Line
from .forms import form, read_fields, reading
from .statement import event_of


def _full(pool: str) -> Build:
    def build(match: re.Match[str], line: Line) -> LogEvent:
        fields = {"engine": "triton", "pool": pool, **read_fields(match)}
        if "falling back to" in line.text[match.end() :]:
            fields["recovered"] = True
        return event_of(EventKind.SERVER_POOL_FULL, line, fields)

    return build


FAMILY = Family(
    "triton",
    (
        reading(
            "CNMEM_STATUS_OUT_OF_MEMORY",
            r"ailed to allocate CUDA memory with byte size {requested_bytes:bytes} on GPU {device:n}:"
            r" CNMEM_STATUS_OUT_OF_MEMORY",
            _full("device"),
        ),
        reading("failed to allocate pinned system memory", r"failed to allocate pinned system memory", _full("pinned")),
        form(
            "triton",
            EventKind.SERVER_POOL,
            "CUDA memory pool is created on device",
            r"CUDA memory pool is created on device {device:n} with size {pool_bytes:bytes}",
            pool="device",
        ),
        form(
            "triton",
            EventKind.SERVER_POOL,
            "inned memory pool is created at",
            r"[Pp]inned memory pool is created at '0x[0-9a-f]{1,16}' with size {pool_bytes:bytes}",
            pool="pinned",
        ),
    ),
)
