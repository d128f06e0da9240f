"""Tells a document about errors (a page of help, a README, a transcript of a chat) from the log of one.

People paste logs between sentences too, so sentences alone prove nothing: a document speaks to any reader of an error
("if you see"), a report of something that happened ("my run"), and a log has its times.
"""

from __future__ import annotations

import re

from ..text import clean
from .stamps import stamp_of

_LONGEST = 1 << 16

_TO_ANY_READER = re.compile(
    r"(?i)\b(?:if|when|whenever|in case|once) you (?:see|get|encounter|hit|face|run|receive|have|are)\b"
    r"|\byou (?:may|might|can|will|could) (?:also )?(?:see|get|encounter)\b"
    r"|\b(?:this|that|it|which|error|message|exception|line) (?:usually |typically |often |just )?(?:means|indicates)\b"
    r"|\b(?:troubleshooting|faq|frequently asked|cheat ?sheet|tutorial)\b"
    r"|\b(?:common|typical|known) (?:error|issue|problem|cause|mistake|message)s?\b"
    r"|\bhow (?:to|do you|do i) (?:fix|solve|read|avoid|resolve|debug|prevent|handle)\b"
    r"|\bexamples? of (?:an? |the |such )?(?:error|message|failure|log|line|out)"
    r"|\bwhat (?:does|is|do) .{1,400}\bmeans?\b|\bwhat (?:it|this) means\b"
    r"|^\W{0,4}(?:user|human|assistant|q|a|question|answer)\W{0,3}: |\bdefault: ?[^)]{1,20}\)$"
    r"|^#{1,4} \[?(?:v?\d{1,4}\.\d{1,4}(?:\.\d{1,4})?\b|unreleased\b|change ?log\b|release notes\b)"
    r"|如果(?:你|您)?(?:出现|遇到|看到)|解决(?:方法|方案|办法)|常见(?:问题|错误)|如何(?:避免|解决|处理)"
)
_ADVICE = re.compile(
    r"(?i)^[\W\d]{0,6}(?:lower|reduce|increase|decrease|raise|set|use|try|enable|disable|add|check|make sure|ensure"
    r"|restart|upgrade|limit|shrink|consider|run|pass|give) (?:\S{1,60} ){0,30}\S{1,60}[.`]\s*$"
)
_OF_ONE_OWN = re.compile(
    r"\b(?:I|I'm|I've|I'd|[Mm]y|me)\b"
    r"|\b[Ww]e(?:'re|'ve)? (?:are|were|get|got|have|had|see|saw|run|ran|use|used|tried|hit|keep|noticed|observed)\b"
    r"|\b[Oo]ur (?:own|model|training|cluster|server|job|code|setup|script|run|machine|pod|node|deployment|service)"
    r"|(?i:\b(?:describe the (?:bug|issue)|(?:steps )?to reproduce|expected behaviou?r|current environment|system info"
    r"|bug report|any (?:help|ideas?)|anyone|anybody|please help|thanks)\b)"
    r"|(?i:^(?:#{1,6} |\*\*)(?:expected|actual|what (?:happened|went wrong)|reproduction|reproducer)\b[^.?]{0,30}$)"
    r"|我|请问|各位|大佬|求助"
)
_USAGE = re.compile(r"^usage: \S")
_HEADING = re.compile(r"^#{1,6} \S|<h[1-6][ >]|^={3,}\s*$|^-{3,}\s*$|^\.\. \w", re.IGNORECASE)
_FENCE = re.compile(r"^\s{0,8}(?:[-*>] )?(?:`{3,}|~{3,})")
_OPENS_PRE, _CLOSES_PRE = re.compile(r"<(?:pre|code)\b", re.IGNORECASE), re.compile(r"</(?:pre|code)>", re.IGNORECASE)
_INDENTED = re.compile(r"^(?: {4}|\t)")
_SENTENCE = re.compile(r"[a-z][\w'’`()/-]{0,40}[,;:]?(?: [\w'’`\"()/.=-]{1,40}[,;:]?){3}|[\u4e00-\u9fff]{6,}")
_MESSAGE = re.compile(r"(?i)out of memory|tried to allocate|OutOfMemory")
"""What is quoted is often a sentence itself."""
_PROGRAM = re.compile(
    r"^\s*(?:File \"|Traceback \(|[\w.]{1,80}(?:Error|Exception)\b|\[|\{|\d+[%/:]"
    r"|(?:INFO|WARN|WARNING|ERROR|DEBUG)\b|[\w./-]+[$#] )"
)


def is_document(head: str) -> bool:
    """Whether a text that begins so (all of it, where it is short) is about errors rather than the log of one."""
    told, advice, sentences, headings, of_program = 0, 0, 0, 0, 0
    for text in _prose(head[:_LONGEST]):
        if stamp_of(text) is not None or _OF_ONE_OWN.search(text):
            return False
        told += _TO_ANY_READER.search(text) is not None or _USAGE.match(text) is not None
        advice += _ADVICE.match(text) is not None
        headings += _HEADING.search(text) is not None
        if _PROGRAM.match(text):
            of_program += 1
        elif _SENTENCE.search(text) and not _MESSAGE.search(text):
            sentences += 1
    speaks = told >= 2 or (told and (advice or headings)) or (advice and headings) or (told and sentences >= 2)
    return bool(speaks) and of_program <= 2 * (sentences + headings + advice)


def _prose(text: str) -> list[str]:
    """The lines that are no quoted program's: outside of fences, of <pre> and of what is indented by four."""
    found, fenced = [], False
    for line in text.splitlines():
        line = clean(line)
        if _FENCE.match(line):
            fenced = not fenced
            continue
        if fenced:
            if (closed := _CLOSES_PRE.search(line)) is None:
                continue
            fenced, line = False, line[closed.end() :]
        opened = _OPENS_PRE.search(line)
        if opened is not None and _CLOSES_PRE.search(line, opened.end()) is None:
            fenced, line = True, line[: opened.start()]
        if line.strip() and not _INDENTED.match(line):
            found.append(line)
    return found
