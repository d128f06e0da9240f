"""activity.*: what multiplies or lengthens keys and values - beams, parallel answers, a conversation that is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..language import N_
from ..model.events import EventKind
from ..model.evidence import Evidence
from ..model.facts import FactSet
from ..model.source import Source
from ..readers.log.launch import launch_options
from .frames import frames_of, holds_conversation, is_chat_program

_NAMES = ("num_beams", "num_return_sequences", "best_of", "beam_width", "beam_size")
_GIVEN = re.compile(rf"\b(?:{'|'.join(_NAMES)}) ?[=:] ?(\d{{1,4}})\b")
_PARALLEL = re.compile(r"(?:SamplingParams|completions\.create)\((?:[^()]{0,200}, ?)?n ?= ?(\d{1,4})\b")
"""`n` is a name for many things; here it is one of answers."""
_MOST = 1024


def derive(evidence: Evidence, facts: FactSet) -> None:
    """The most that the code, the options of an engine or the launch line ask for, where it is more than one."""
    _put_conversation(evidence, facts)
    found = [one for one in _told(evidence) if 2 <= one[0] <= _MOST]
    if found:
        most, source = max(found, key=lambda one: one[0])
        facts.put("activity.sequences_per_request", most, source)


def _put_conversation(evidence: Evidence, facts: FactSet) -> None:
    for event in evidence.of_kind(EventKind.EXCEPTION):
        if holds_conversation(frames_of(event)):
            facts.put("activity.conversation", True, event.source)
    for event in evidence.of_kind(EventKind.DEVICE_OOM):
        if is_chat_program(event.word("wrapped_by") or ""):
            facts.put("activity.conversation", True, event.source)
    for run in evidence.runs:
        for record in run.device_ooms:
            if holds_conversation(record.frames):
                facts.put("activity.conversation", True, record.source)


def _told(evidence: Evidence) -> Iterator[tuple[int, Source]]:
    for event in evidence.of_kind(EventKind.EXCEPTION):
        for frame in frames_of(event):
            yield from ((count, event.source) for count in _in_code(frame.code))
    for event in evidence.of_kind(EventKind.CODE):
        yield from ((count, event.source) for count in _in_code(event.word("code") or ""))
    for run in evidence.runs:
        for record in run.device_ooms:
            yield from ((count, record.source) for frame in record.frames for count in _in_code(frame.code))
    for name, value in launch_options(evidence.command) if evidence.command else ():
        if name.replace("-", "_") in _NAMES and value is not None and value.isdecimal():
            yield int(value), Source(path=N_("command line"))


def _in_code(code: str) -> list[int]:
    return [int(match[1]) for regex in (_GIVEN, _PARALLEL) for match in regex.finditer(code)]
