"""What PyTorch, DeepSpeed and Megatron print about memory while all is well: tables and one-line reports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from ...model.events import EventKind, FieldValue, LogEvent
from .family import Family, Line, Pattern
from .statement import SIZE, event, size

_ROWS = (
    "Allocated memory",
    "Active memory",
    "GPU reserved memory",
    "Non-releasable memory",
    "GPU reserved segments",
    "Non-releasable allocs",
)
_LONGEST_TABLE = 60

_ROW = re.compile(
    r"\| *(?P<name>[A-Za-z][\w -]{1,40}?) *\| *(?P<now>[0-9]{1,20} *[KMGTP]?i?B?) *"
    r"\| *(?P<peak>[0-9]{1,20} *[KMGTP]?i?B?) *\|"
)
_BYTES_OF = {
    "Allocated memory": ("allocated_bytes", "peak_allocated_bytes"),
    "Active memory": ("active_bytes", None),
    "GPU reserved memory": ("reserved_bytes", "peak_reserved_bytes"),
    "Non-releasable memory": ("non_releasable_bytes", None),
    "GPU reserved segments": ("segments", None),
    "Non-releasable allocs": ("non_releasable_blocks", "peak_non_releasable_blocks"),
}


def _is_row(text: str) -> bool:
    return text.lstrip().startswith("|")


def _summary(match: re.Match[str], line: Line) -> LogEvent | None:
    """`torch.cuda.memory_summary()`, also a part of it: one event, made at the first of its rows."""
    before = list(takewhile(_is_row, reversed(line.preceding(_LONGEST_TABLE))))
    if any(f"| {row} " in text for text in before for row in _ROWS):
        return None
    rows = [*reversed(before), line.text, *takewhile(_is_row, line.following(_LONGEST_TABLE))]
    fields: dict[str, FieldValue] = {}
    device: int | None = None
    row_before = ""
    for text in rows:
        if counts := re.search(r"CUDA OOMs: ([0-9]{1,12}) *\| *cudaMalloc retries: ([0-9]{1,12})\b", text):
            fields |= {"ooms": int(counts[1]), "retries": int(counts[2])}
        elif named := re.search(r"memory summary, device ID ([0-9]{1,4})\b", text):
            device = int(named[1])
        elif row := _ROW.search(text):
            if row["name"] in _BYTES_OF:
                row_before = row["name"]
                now, peak = _BYTES_OF[row_before]
                fields.setdefault(now, size(row["now"]))
                if peak is not None:
                    fields.setdefault(peak, size(row["peak"]))
            elif row["name"] == "from large pool" and row_before == "Non-releasable memory":
                fields.setdefault("non_releasable_large_bytes", size(row["now"]))
            elif not row["name"].startswith("from "):
                row_before = ""
    return event(EventKind.DEVICE_STATE, line, device, **fields)


def told_by_statistics(events: Sequence[LogEvent]) -> tuple[LogEvent, ...]:
    """The failure of which only the allocator's counters tell, `CUDA OOMs: 1`, after the events of a whole log.

    None where the failure itself was printed. What the table holds is as it was printed, perhaps after tensors went.
    """
    if any(event.kind in _FAILURES for event in events):
        return tuple(events)
    counted = next((e for e in reversed(events) if e.kind is EventKind.DEVICE_STATE and e.size("ooms")), None)
    if counted is None:
        return tuple(events)
    failure = replace(counted, kind=EventKind.DEVICE_OOM, fields={"backend": "cuda", "generation": "bare"})
    return (*events, failure)


_FAILURES = frozenset(
    {EventKind.DEVICE_OOM, EventKind.ENGINE_BUFFER_FAILED, EventKind.ACCELERATOR_ERROR, EventKind.RECOVERED}
)


def _deepspeed_device(match: re.Match[str], line: Line) -> LogEvent:
    return event(
        EventKind.DEVICE_STATE,
        line,
        allocated_bytes=size(match[1]),
        peak_allocated_bytes=size(match[2]),
        reserved_bytes=size(match[3]),
        peak_reserved_bytes=size(match[4]),
    )


def _deepspeed_host(match: re.Match[str], line: Line) -> LogEvent:
    return event(EventKind.HOST_STATE, line, used_bytes=size(match[1]), percent=float(match[2]))


def _megatron(match: re.Match[str], line: Line) -> LogEvent:
    allocated, peak, reserved, peak_reserved = (size(f"{amount} MB") for amount in match.groups())
    return event(
        EventKind.DEVICE_STATE,
        line,
        allocated_bytes=allocated,
        peak_allocated_bytes=peak,
        reserved_bytes=reserved,
        peak_reserved_bytes=peak_reserved,
    )


FAMILY = Family(
    "torch statistics",
    (
        *(Pattern(row, rf"\| *{re.escape(row)} *\| *\d", _summary) for row in _ROWS),
        Pattern(
            "Max_MA ",
            rf"\bMA ({SIZE})\s{{1,20}}Max_MA ({SIZE})\s{{1,20}}CA ({SIZE})\s{{1,20}}Max_CA ({SIZE})",
            _deepspeed_device,
            peak="Max_MA ",
        ),
        Pattern(
            "CPU Virtual Memory:",
            rf"CPU Virtual Memory: {{1,4}}used = ({SIZE}), percent = (\d+(?:\.\d*)?)%",
            _deepspeed_host,
        ),
        Pattern(
            "This DataLoader will create ",
            r"This DataLoader will create (\d{1,5}) worker processes in total",
            lambda match, line: event(EventKind.PARALLELISM, line, workers=int(match[1])),
        ),
        Pattern(
            "max allocated:",
            r"memory \(MB\) \| allocated: (\d+(?:\.\d*)?) \| max allocated: (\d+(?:\.\d*)?)"
            r" \| reserved: (\d+(?:\.\d*)?) \| max reserved: (\d+(?:\.\d*)?)",
            _megatron,
            peak="| max allocated: ",
        ),
    ),
)
