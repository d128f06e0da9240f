"""The headline of a report: it says that memory ran out, where the traceback below is cut before its error."""

from __future__ import annotations

import re

from ...model.events import EventKind, LogEvent
from .family import Family, Line, Pattern
from .statement import event

_MARKED = re.compile(r"^\s*(?:\[issue title\]|[Tt]itle ?:|[Ss]ubject ?:|(?:标题|题目) ?[：:])")
_MOST_WORDS = 30
_NEAR = 16
"""Lines below an unmarked headline in which a traceback begins."""
_FRAME = re.compile(r"^\s*(?:\[rank\d+\]: {0,3})?(?:File \"|Traceback \()|\.py:\d{1,7} in |<ipython-input-")
_OF_A_PROGRAM = re.compile(
    r"^\s*(?:File \"|Traceback \(|[\w.]{1,80}(?:Error|Exception)\b|[\[({<\d]|\S{1,80}[$#>] |\w{1,60}[.(=]"
    r"|(?:INFO|WARN|WARNING|ERROR|DEBUG)\b)|[;{}]\s*$|\S=\S|(?i:\b(?:error|failed|warning)\b ?[:=]?)"
)
_NOT_OF_A_FAILURE = re.compile(
    r"(?i)\b(?:feature|fix(?:es|ed)?|handle[ds]?|catch|avoid(?:s|ed)?|prevent(?:s|ed)?|retry|retries|recover\w*|without"
    r"|support|add(?:s|ed)?|improve\w*|reduce[ds]?|no|not|if|when it runs)\b"
)
_OF_THE_HOST = re.compile(r"(?i)\b(?:cpu|ram|host|system|node|swap|disk)\b|内存|主存")


def _above_a_traceback(line: Line) -> bool:
    return any(_FRAME.search(text) for text in line.following(_NEAR))


def _told(match: re.Match[str], line: Line) -> LogEvent | None:
    """Only where a headline stands: marked as one, or first in the text and of words."""
    marked = _MARKED.match(line.text)
    if marked is None and (line.preceding(1) or _OF_A_PROGRAM.search(line.text) or not _above_a_traceback(line)):
        return None
    words = line.text[marked.end() if marked else 0 :]
    if len(words.split()) > _MOST_WORDS or _NOT_OF_A_FAILURE.search(words) or _OF_THE_HOST.search(words):
        return None
    return event(EventKind.TOLD_IN_WORDS, line)


FAMILY = Family(
    "headlines",
    (
        Pattern("out of memory", r"(?i)\bout of memory\b", _told),
        Pattern("Out of memory", r"\bOut of memory\b", _told),
        Pattern("Out of Memory", r"\bOut of Memory\b", _told),
        Pattern("OOM", r"(?<![A-Za-z_])OOM(?![A-Za-z_])", _told),
        Pattern("oom", r"(?<![A-Za-z_])oom(?![A-Za-z_])", _told, led_by="[^A-Za-z_]"),
        Pattern("显存", r"显存(?:不足|不够|溢出|爆|耗尽)|爆显存", _told),
    ),
)
