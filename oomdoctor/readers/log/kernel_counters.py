"""What the kernel's own files say of kills and limits, where pasted: memory.events, memory.oom_control, vmstat."""

from __future__ import annotations

import re

from ...model.events import EventKind, LogEvent
from .family import Family, Line, Pattern
from .statement import event

_AROUND = 8
_OF_GROUP = re.compile(r"memory\.(?:events|oom_control)|^\s*(?:oom|under_oom|oom_kill_disable|oom_group_kill) \d")
_OF_SYSTEM = re.compile(r"\bvmstat\b|^\s*(?:pg|nr_|numa_|drop_)\w{1,40} \d")
_UNLIMITED_BYTES = 1 << 60
"""Version 1 prints a number near 2^63 where there is no limit."""


def _kills(match: re.Match[str], line: Line) -> LogEvent | None:
    """The name of the counter is the same in three files; its neighbours tell which it is."""
    near = [line.text, *line.preceding(_AROUND), *line.following(2)]
    if any(map(_OF_SYSTEM.search, near)):
        scope = "system"
    elif any(map(_OF_GROUP.search, near)):
        scope = "cgroup"
    else:
        return None
    return event(EventKind.OOM_KILL_COUNT, line, count=int(match[1]), scope=scope)


def _limit(match: re.Match[str], line: Line) -> LogEvent | None:
    """`memory.max: 8589934592`, or the file's name in a command and the number on the next line."""
    number = match[1] or next((text.strip() for text in line.following(1)), "")
    if not number.isdecimal() or int(number) >= _UNLIMITED_BYTES or len(number) > 20:
        return None
    return event(EventKind.CGROUP_LIMIT, line, limit_bytes=int(number))


FAMILY = Family(
    "kernel counters",
    (
        Pattern("oom_kill ", r"(?:^|[:\s])oom_kill (\d{1,9})\s*$", _kills),
        Pattern("memory.max", r"\bmemory\.max(?:[:=\s]{1,8}(\d{4,20}))?\s*$", _limit),
        Pattern("memory.limit_in_bytes", r"\bmemory\.limit_in_bytes(?:[:=\s]{1,8}(\d{4,20}))?\s*$", _limit),
    ),
)
