"""What programs print as they start where a fused attention is not there: then scores may be written out in full."""

from __future__ import annotations

import re

from ...model.events import EventKind, LogEvent
from .family import Family, Line, Pattern
from .prose import quoted
from .statement import event


def _missing(match: re.Match[str], line: Line) -> LogEvent | None:
    if quoted(line.text, match.start()):
        return None
    return event(EventKind.UNFUSED_ATTENTION, line, missing=match["name"])


_NAME = r"(?P<name>\b(?:[Ff]lash[-_ ]?[Aa]tt(?:n|ention)(?:[-_ ]?\d)?|[Xx][Ff]ormers))`?(?: (?:package|library))?"

FAMILY = Family(
    "attention",
    (
        Pattern("not installed", rf"{_NAME} (?:is|are) not installed", _missing),
        Pattern("not available", rf"{_NAME} (?:is )?not available", _missing),
        Pattern("not found", rf"{_NAME} (?:is )?not found", _missing),
        Pattern("only supports Ampere", rf"{_NAME} only supports Ampere", _missing),
        Pattern("not compiled with flash", rf"not compiled with {_NAME}", _missing),
        Pattern("not running the flash", rf"not running the {_NAME}", _missing),
        Pattern("import flash_attn ", rf"import {_NAME} (?:\w{{1,20}} )?fail", _missing),
        Pattern("o module 'xformers'", r"[Nn]o module '(?P<name>xformers)'", _missing),
    ),
)
