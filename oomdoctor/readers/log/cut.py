"""A log that ends within a line may end within a number: what such a number says is not known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from ...model.events import LogEvent
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
