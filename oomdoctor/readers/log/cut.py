"""A log that ends within a line may end within a number: what such a number says is not known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from ...model.events import EventKind, LogEvent
from .family import Line, Pattern

_AT_END = re.compile(r"(?<![\w.,])[0-9]{1,4}$")
"""Few digits. Texts are pasted without an end of the line, too: a longer number is believed."""


def may_be_cut(text: str) -> bool:
    """Whether the last line of a log, which has no end, stops in what may be the middle of a number."""
    return _AT_END.search(text) is not None


def without_cut_figures(events: Iterable[LogEvent], pattern: Pattern, line: Line, last: str) -> list[LogEvent]:
    """The events without sizes and lengths that would be others if the number at the end of `last` went on."""

    def gone_on(text: str) -> str:
        return f"{text}9" if text == last else text

    def following(count: int) -> list[str]:
        return [gone_on(text) for text in line.following(count)]

    longer = replace(line, text=gone_on(line.text), following=following)
    match = pattern.compiled.search(longer.text)
    built = None if match is None else pattern.build(match, longer)
    others = [] if built is None else [built] if isinstance(built, LogEvent) else list(built)
    return [_kept(event, next((other for other in others if other.kind is event.kind), event)) for event in events]


def _kept(event: LogEvent, other: LogEvent) -> LogEvent:
    cut = {
        name
        for name, value in event.fields.items()
        if name.endswith(("_bytes", "_tokens")) and other.fields.get(name) != value
    }
    return replace(event, fields={name: value for name, value in event.fields.items() if name not in cut})


_SENTENCES = ("requested", "total", "free", "process_used", "allocated", "reserved_unallocated")
_IN_BRACKETS = ("requested", "total", "allocated", "free", "reserved")
"""The figures of torch's message, in its order: since 2.1, and before."""
_BEGINS = re.compile(r"out of memory\.\s{1,3}(?P<rest>\S.*)?$", re.IGNORECASE)
_FIRST_WORDS = "Tried to allocate "


def with_cut_told(event: LogEvent, line: Line, last: str) -> LogEvent:
    """The event with `cut_off`, the figures that a message lacks which stops at `last`, a last line without an end."""
    if event.kind is not EventKind.DEVICE_OOM or last not in (line.text, *line.following(_MOST_WRAPPED)):
        return event
    text = " ".join([line.text, *line.following(_MOST_WRAPPED)])
    names = _lacking(text)
    cut = tuple(name for name in names if event.fields.get(f"{name}_bytes") is None)
    return replace(event, fields={**event.fields, "cut_off": cut}) if cut else event


_MOST_WRAPPED = 12


def _lacking(text: str) -> tuple[str, ...]:
    """The figures that a message of this form has; none where it came to its end, or is of a form that has none."""
    begun = _BEGINS.search(text)
    rest = "" if begun is None else begun["rest"] or ""
    if " (GPU " in rest:
        return () if ")" in rest.partition(" (GPU ")[2] else _IN_BRACKETS
    if " GPU " in rest and not rest.rstrip().endswith((".", ")")):
        return () if "but unallocated" in rest else _SENTENCES
    if rest and (_FIRST_WORDS.startswith(rest) or re.fullmatch(r"Tried to allocate [0-9.]{1,12}", rest)):
        return ("requested",)
    return ()
