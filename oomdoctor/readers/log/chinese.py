"""Failures for want of memory that a program, or its translation, tells in Chinese."""

from __future__ import annotations

import re

from ...model.events import EventKind, LogEvent
from .family import Family, Line, Pattern
from .prose import quoted
from .statement import SIZE, event, size

_FAILED = re.compile(
    r"失败|错误|异常|报错|崩溃|中断|终止|退出|无法|不能分配|(?i:\b(?:error|fatal|critical|failed|exception)\b)"
)
_KILLED = re.compile(r"被?(?:系统|内核)?(?:杀死|杀掉|强制结束|强制终止)")
_NOT_OF_A_FAILURE = re.compile(
    r"如果|若|当|假如|可能|避免|防止|以免|免得|解决|如何|怎么|为什么|建议|请(?!求)|没有|未|不会|不再|检查|检测|捕获|处理|测试|提示"
    r"|常见|例如|比如|表示|意味|说明|^\s*(?:#|//|[-*] |\d+[.、] )"
)
"""Before the words: they are supposed, documented or denied."""
_GOES_ON = re.compile(
    r"[\"'”」』]?(?:[的了]?(?:错误|异常|问题)?(?:时|会|可能|的话|则|怎么办|是|表示|意味|通常|一般|如何)|[？?])"
)
_WANTED = re.compile(rf"(?:尝试|试图|请求|申请)分配 ?(?P<size>{SIZE})")


def _ran_out(match: re.Match[str], line: Line) -> LogEvent | None:
    """`训练失败：显存不足`: with a word for a failure beside it, and not as advice or documentation."""
    text = line.text
    before = text[: match.start()]
    if quoted(text, match.start()) or _NOT_OF_A_FAILURE.search(before) or _GOES_ON.match(text, match.end()):
        return None
    if _KILLED.search(text):
        return event(EventKind.PROCESS_KILLED, line, oom_stated=True)
    if not _FAILED.search(before) and not _FAILED.match(text, match.end()):
        return None
    wanted = _WANTED.search(text, match.end())
    requested = size(wanted["size"]) if wanted else None
    if match["device"]:
        return event(EventKind.DEVICE_OOM, line, generation="bare", requested_bytes=requested)
    return event(EventKind.HOST_ALLOCATION_FAILED, line, requested_bytes=requested)


_RAN_OUT = (
    r"(?P<device>(?:(?:CUDA|GPU|HIP|显卡) ?(?:设备)?(?:显存|内存)|显存)(?:不足|不够|溢出|耗尽|已满)|爆显存)"
    r"|(?:主机|系统|物理)?内存(?:不足|不够|溢出|耗尽)"
)

FAMILY = Family(
    "chinese",
    tuple(
        Pattern(anchor, _RAN_OUT, _ran_out) for anchor in ("存不足", "存不够", "存溢出", "存耗尽", "存已满", "爆显存")
    ),
)
