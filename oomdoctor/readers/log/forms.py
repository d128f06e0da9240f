"""Message forms as data: a regex in which `{field:unit}` reads a number or a word into a field of the event.

`form("vllm", EventKind.ENGINE_KV_AVAILABLE, "Available KV", r"Available KV cache memory: {kv_bytes:gib} GiB")` is the
whole reader of that line. A form that needs more than its own line has a build function of its own (`reading`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from ...model.events import EventKind, FieldValue, LogEvent
from ...model.units import GIB, MIB, parse_size
from .family import Build, Line, Pattern, Regex
from .statement import event_of

Fields = dict[str, FieldValue]

_NUMBER = r"-?[0-9]{1,20}(?:,[0-9]{3}){0,6}(?:\.[0-9]{1,20})?"


def _scaled(factor: int) -> Callable[[str], FieldValue]:
    def scale(text: str) -> FieldValue:
        digits = text.replace(",", "")
        return round(float(digits) * factor) if "." in digits else int(digits) * factor

    return scale


def _size(text: str) -> FieldValue:
    """Bytes; a decimal fraction whose unit is not there, as where a log was cut, is none."""
    return parse_size(text) if "." not in text.rstrip(".") or not text[-1].isdigit() else None


_UNITS: dict[str, tuple[str, Callable[[str], FieldValue]]] = {
    "bytes": (_NUMBER, _scaled(1)),
    "mib": (_NUMBER, _scaled(MIB)),
    "gib": (_NUMBER, _scaled(GIB)),
    "gb": (_NUMBER, _scaled(10**9)),
    "size": (_NUMBER + r"(?:\.? ?(?:[KMGT]i?B|[Bb]ytes?|B)\b)?", _size),
    "n": (r"-?[0-9]{1,12}(?:,[0-9]{3}){0,4}", lambda text: int(text.replace(",", ""))),
    "x": (_NUMBER, lambda text: float(text.replace(",", ""))),
    "percent": (_NUMBER, lambda text: float(text.replace(",", "")) / 100),
    "s": (_NUMBER, lambda text: float(text.replace(",", ""))),
    "word": (r"[^\s,;()\[\]'\"`|]{1,120}", lambda text: text.rstrip(".:")),
    "rest": (r"\S.{0,1999}", str.strip),
}
"""Unit → the regex of a value and what reads it. Without a decimal `gb` the units are binary, whatever they are called:
the engines divide by 1024 and print GB all the same."""

_PLACE = re.compile(r"\{(\w+):(\w+)\}")


def expanded(text: str) -> str:
    """The regex `text` with each `{field:unit}` made a group that `read_fields` understands."""
    return _PLACE.sub(lambda found: f"(?P<{found[1]}__{found[2]}>{_UNITS[found[2]][0]})", text)


def compile_form(text: str) -> Regex:
    """The regex of `expanded(text)`, compiled at its first use."""
    return Regex(expanded(text))


def read_fields(match: re.Match[str]) -> Fields:
    """The fields of a matched form; a part that was not there gives none."""
    fields: Fields = {}
    for group, text in match.groupdict().items():
        name, read = _reader(group)
        value = None if text is None or read is None else read(text)
        if value is not None:
            fields[name] = value
    return fields


@cache
def _reader(group: str) -> tuple[str, Callable[[str], FieldValue] | None]:
    """The field of a group and what reads its text: None for a group that `compile_form` did not make."""
    name, _, unit = group.rpartition("__")
    return name, _UNITS[unit][1] if name else None


def form(engine: str, kind: EventKind, anchor: str, text: str, **always: FieldValue) -> Pattern:
    """The form `text` of an event of `kind`; `always` are fields that it states by its wording."""

    def build(match: re.Match[str], line: Line) -> LogEvent:
        return event_of(kind, line, {"engine": engine, **always, **read_fields(match)})

    return Pattern(anchor, expanded(text), build)


def reading(anchor: str, text: str, build: Build, *, periodic: bool = False, peak: str = "") -> Pattern:
    """A form whose events `build` makes."""
    return Pattern(anchor, expanded(text), build, periodic=periodic, peak=peak)


def index_of(name: str) -> int | None:
    """The number at the end of a device's name: 1 of `CUDA1` and of `cuda:1`."""
    found = re.search(r"[0-9]{1,4}$", name)
    return int(found[0]) if found else None
