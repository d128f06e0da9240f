"""Tells a message that a program printed from one that people or source code mention.

Logs hold both: a comment in a quoted frame, a README's advice, a logger's call in a traceback. A statement with sizes
needs no such test; one of bare words says something only where a program puts it.
"""

from __future__ import annotations

import re

from .prefixes import strip_log_header

_CODE = re.compile(
    r"^\s*(?:(?:if|elif|while|return|raise|throw|throws|assert|case|catch|except|print|import|from|def|class)\b(?!:)"
    r"|@\w|//|/\*|[*#-] (?!\*\*)|<!--|\} ?catch\b"
    r"|(?:\w{1,40}\.){1,4}(?:warn|warning|error|info|debug|exception|log|print)\()"
)
_HEDGED = re.compile(
    r"\b(?:if|may|might|you|your|we|how|avoid|sometimes|usually|often|e\.g\.|such as|means|says?|see|faq"
    r"|troubleshoot\w{0,5})\b",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"[\"'`*.]{0,3} (?:usually |often |sometimes |just )?(?:means?|happens?|occurs|is|are|errors?\b|when (?!\w+ing\b))"
)
_SEARCHED_FOR = re.compile(
    r"(?:^|[|;&$#(`]) {0,4}(?:sudo )?(?:[\w./-]{0,60}/)?(?:[efz]?grep|rg|ag|awk|sed|jq|findstr|Select-String) [^|;&]*$"
)
"""A typed command up to the words that it searches for; what it finds stands on lines of its own."""
_CLASS = r"(?:[A-Za-z_]\w{0,60}\.){0,6}(?:[A-Z]\w{0,60}(?:Error|Exception)|Exception)"
_CLASS_AT_END = re.compile(rf"(?<![\w.]){_CLASS}: ?[\"'`]?$")
_SHAPE_AT_END = re.compile(
    r"(?:^|[:\])|>}=]\*{0,2}(?:  ?| ?[\"'`]| -+ )?|\b(?:ERROR|FATAL|CRITICAL|WARNING|WARN|INFO)\b\S{0,3} {1,4})$"
)


_SOURCE = re.compile(
    r"^\s*(?:\S{1,200}:\d{1,6}:\s*)?(?:raise |throw |print\(|TORCH_CHECK|//"
    r"|(?:el)?if |except |assert |log(?:ger|ging)?\.|[\w.]{0,60}error\()"
)
_TO_A_MODEL = re.compile(
    r"\bprompts?: ?[\[({]?[\"']|\\?\"(?:content|prompt|question|query|instruction|user_input)\\?\" ?: ?\\?\""
)


def quoted(text: str, place: int) -> bool:
    """Whether a whole statement at `place` is source code, or what somebody wrote to a language model."""
    return _SOURCE.match(text) is not None or _TO_A_MODEL.search(text, 0, place) is not None


def mentioned(text: str, start: int, end: int) -> bool:
    """Whether people or source code, rather than a program, have the words [start, end) of the line `text`."""
    if _CODE.match(text) or _GOES_ON.match(text, end):
        return True
    return _HEDGED.search(text, 0, start) is not None or _SEARCHED_FOR.search(text[:start]) is not None


def printed(text: str, start: int, end: int) -> bool:
    """Whether bare words stand as a program prints them: behind an exception's class, a level, a colon, or first."""
    if mentioned(text, start, end):
        return False
    before = strip_log_header(text[:start])
    return _CLASS_AT_END.search(before) is not None or _SHAPE_AT_END.search(before.lstrip(" \"'`")) is not None
