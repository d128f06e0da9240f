"""vLLM at work: its load, what it preempts, sleeping and waking, and what it answers when its engine died."""

from __future__ import annotations

import re
from functools import partial

from ...model.events import EventKind, LogEvent
from .family import Line, Pattern
from .forms import Fields, form, read_fields, reading
from .statement import event, event_of

_ENGINE = "vllm"
_form = partial(form, _ENGINE)
_SLEPT_BEFORE = 60
"""Lines before a failure in which going to sleep, or waking up, is looked for."""


def _sleep_pool(match: re.Match[str], line: Line) -> LogEvent:
    """The pool that can sleep got no memory: at the start, or when it was to have its own again."""
    before = [text for text in line.preceding(_SLEPT_BEFORE) if "wake_up" in text or "fall asleep" in text]
    return event(
        EventKind.ENGINE_BUFFER_FAILED,
        line,
        engine=_ENGINE,
        purpose="unknown",
        pool="sleep",
        fatal=True,
        wakes=bool(before) or None,
    )


_REPLICA = re.compile(r"\bEngine ([0-9]{1,12}): ")


def _load(match: re.Match[str], line: Line) -> LogEvent:
    replica = _REPLICA.search(line.text, 0, match.start())
    fields: Fields = {"engine": _ENGINE, "replica": int(replica[1]) if replica else None, **read_fields(match)}
    return event_of(EventKind.ENGINE_LOAD, line, fields)


SERVING: tuple[Pattern, ...] = (
    reading(
        " KV cache usage: ",
        # Begins with a literal: this is the line that a log has most of.
        r"Running: {running:n} reqs,(?: Swapped: {swapped:n} reqs,)?"
        r" (?:Pending|Waiting): {waiting:n} reqs,.{0,160}?KV cache usage: {kv_usage:percent}%",
        _load,
        periodic=True,
        peak="KV cache usage: ",
    ),
    _form(
        EventKind.ENGINE_PREEMPTED,
        "Preemptions: ",
        r"Running: [0-9]{1,9} reqs,.{0,300}?\bPreemptions: {retracted:n}\b",
    ),
    _form(
        EventKind.ENGINE_PREEMPTED,
        " is preempted ",
        r" is preempted (?:by|in) (?:PreemptionMode\.)?{mode:word} mode because"
        r"(?:.{0,400}?total_num_cumulative_preemption={cumulative:n})?",
    ),
    _form(
        EventKind.ENGINE_SLEEP,
        "Sleep mode freed ",
        r"Sleep mode freed {freed_bytes:gib} GiB memory(?:, {residual_bytes:gib} GiB memory is still in use)?",
    ),
    _form(
        EventKind.ENGINE_SLEEP,
        "CuMemAllocator: sleep freed ",
        r"CuMemAllocator: sleep freed {freed_bytes:gib} GiB memory in total"
        r"(?:, of which {backed_up_bytes:gib} GiB is backed up in CPU)?"
        r"(?: and the rest {discarded_bytes:gib} GiB is discarded)?",
    ),
    _form(
        EventKind.ENGINE_PHASE,
        " seconds to fall asleep",
        r"It took {seconds:s} seconds to fall asleep",
        phase="sleep",
        edge="begin",
    ),
    _form(
        EventKind.ENGINE_PHASE,
        " seconds to wake up",
        r"It took {seconds:s} seconds to wake up",
        phase="sleep",
        edge="end",
    ),
    reading(
        "cumem_allocator.cpp:",
        r"(?:CUDA E|cuda e)rror: out of memory at \S{0,300}cumem_allocator\.cpp:",
        _sleep_pool,
    ),
)

TOLD_TO_CLIENTS = tuple(
    _form(EventKind.ENGINE_PHASE, anchor, text, phase="serving", edge="told")
    for anchor, text in (
        ("EngineDeadError: ", r"\[serving\w{0,40}\.py:[0-9]{1,6}\] .{0,80}EngineDeadError: "),
        ("AsyncLLM output_handler failed", r"AsyncLLM output_handler failed\b"),
        ("Engine background task failed", r"\bEngine background task failed$"),
    )
)
"""The server answers a request with what the engine died of, or its front end's loop ends: it was serving then."""
