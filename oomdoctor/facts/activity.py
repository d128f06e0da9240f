"""activity.*: what the program was doing when it failed, from its stack and the order of the engine's lines."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..model.events import FAILURES, EventKind, LogEvent
from ..model.facts import FactSet
from ..model.run import ExceptionRecord, StackFrame
from ..model.source import Source
from .asked_settings import options_of
from .chronology import is_earlier
from .frame_calls import touches_device_first
from .frames import (
    autograd_of,
    caller_of_torch,
    describe,
    describe_function,
    evaluating_frame,
    frames_of,
    gathers_full_state,
    in_data_parallel,
    is_convolution,
    is_training,
    moves_offloaded,
    operation_of,
    operation_of_node,
    phase_of,
    places_adapters,
    restores_saved_device,
    users_frame,
    uses_trainer,
)

if TYPE_CHECKING:
    from ..model.evidence import Evidence

_MEMORY_WORDS = (
    "outofmemory",
    "out of memory",
    "memoryerror",
    "alloc",
    "resource_exhausted",
    "resourceexhausted",
    "oom",
    "nvml",
)

_PHASE_AFTER: dict[EventKind, str] = {
    EventKind.ENGINE_START: "load",
    EventKind.ENGINE_WEIGHTS: "profile",
    EventKind.ENGINE_PROFILE: "kv-allocation",
    EventKind.ENGINE_KV_AVAILABLE: "kv-allocation",
    EventKind.ENGINE_KV_POOL: "warm-up",
    EventKind.ENGINE_LOAD: "serving",
    EventKind.ENGINE_PREEMPTED: "serving",
}
"""What an engine does once it has printed such a line."""

_PHASE_OF_FAILURE: dict[EventKind, str] = {
    EventKind.ENGINE_KV_NONE: "kv-allocation",
    EventKind.ENGINE_KV_TOO_SMALL: "kv-allocation",
    EventKind.ENGINE_STARTUP_SHORT: "init",
    EventKind.ENGINE_NEIGHBOUR_CHANGED: "profile",
    EventKind.ENGINE_STATE_POOL_SHORT: "kv-allocation",
}

_GRAPHS_OFF = ("enforce-eager", "disable-cuda-graph")
_OPERATION_OF_PURPOSE = {"weights": "weights", "kv": "kv-append", "compute": "activation"}
_PHASE_OF_PURPOSE = {"weights": "load", "kv": "kv-allocation", "compute": "warm-up"}


def derive(evidence: Evidence, facts: FactSet) -> None:
    """The stack first; where there is none, the engine's own words; then the order of its lines."""
    _put_stack(evidence, facts)
    _put_engine_words(evidence, facts)
    _put_order(evidence, facts)
    _put_cut_off(evidence, facts)
    _put_failed_fallback(evidence, facts)
    for frames in map(frames_of, memory_exceptions(evidence)[-1:]):
        if frames and frames[-1].function in _PROFILES_FIRST:
            facts.put("activity.phase", phase_of(frames), memory_exceptions(evidence)[-1].source)
    for event in evidence.of_kind(EventKind.UNFUSED_ATTENTION):
        facts.put("activity.fused_attention_missing", True, event.source)
    for event in reversed(evidence.of_kind(EventKind.INPUT_LENGTH)):
        facts.put("activity.input_tokens", event.size("tokens"), event.source)
        facts.put("activity.input_limit_tokens", event.size("limit_tokens"), event.source)


_PROFILES_FIRST = ("_initialize_kv_caches",)
"""Functions of vLLM that run the profile and then make the pool: as a stack's last frame they tell neither."""

_GENERATES = re.compile(r"\b(?:model|llm|generator|pipe(?:line)?)\.generate\(")
"""The last call seen of a cut stack; what it does first, and with most tokens at once, is to prefill the prompt."""

_MAKE_A_CONTEXT = ("cuDevicePrimaryCtxRetain", "cuCtxCreate", "cuInit")
"""The driver's calls that open a device."""


def memory_exceptions(evidence: Evidence) -> tuple[LogEvent, ...]:
    """The tracebacks that end in a memory error, and those cut off before their end; all tracebacks where none does."""
    exceptions = evidence.of_kind(EventKind.EXCEPTION)
    about = tuple(event for event in exceptions if _about_memory(event) or _cut_off(event))
    return about or exceptions


def ended_of_something_else(evidence: Evidence) -> bool:
    """Whether every traceback ends in an error of Python's own that is never raised for want of memory."""
    exceptions = evidence.of_kind(EventKind.EXCEPTION)
    return bool(exceptions) and all(
        _about_memory(event) is False
        and ((event.word("exception_type") or "").rpartition(".")[2] in _NEVER_FOR_MEMORY or _of_a_full_disk(event))
        for event in exceptions
    )


def _of_a_full_disk(event: LogEvent) -> bool:
    return (event.word("message") or "").startswith("[Errno 28] No space left on device")


_NEVER_FOR_MEMORY = frozenset(
    {
        "AssertionError", "AttributeError", "FileExistsError", "FileNotFoundError", "ImportError", "IndentationError",
        "IndexError", "IsADirectoryError", "KeyError", "ModuleNotFoundError", "NameError", "NotADirectoryError",
        "NotImplementedError", "PermissionError", "StopIteration", "SyntaxError", "TypeError", "UnboundLocalError",
        "UnicodeDecodeError", "UnicodeEncodeError", "ZeroDivisionError",
    }
)  # fmt: skip


def _about_memory(event: LogEvent) -> bool:
    words = f"{event.word('exception_type') or ''} {event.word('message') or ''}".lower()
    return any(word in words for word in _MEMORY_WORDS)


def _cut_off(event: LogEvent) -> bool:
    return event.word("exception_type") is None


def _put_stack(evidence: Evidence, facts: FactSet) -> None:
    """The probe's frames of the failing call where there are any, else the last traceback about memory."""
    frames: tuple[StackFrame, ...] = ()
    source: Source | None = None
    for run in evidence.runs:
        for record in run.device_ooms:
            if record.frames:
                frames, source = record.frames, record.source
        exceptions: list[ExceptionRecord] = [e for e in run.exceptions if e.is_memory_error] or list(run.exceptions)
        if exceptions:
            facts.put("activity.exception", exceptions[-1].exception_type, exceptions[-1].source)
            if not frames:
                frames, source = exceptions[-1].frames, exceptions[-1].source
    tracebacks = memory_exceptions(evidence)
    for event in reversed(tracebacks):
        facts.put("activity.exception", event.word("exception_type"), event.source)
        if not frames:
            frames, source = frames_of(event), event.source
    _put_handler(evidence, facts)
    _put_recorded(evidence, facts)
    for event in evidence.of_kind(EventKind.ACCELERATOR_ERROR):
        if (event.word("call") or "").startswith(_MAKE_A_CONTEXT):
            facts.put("activity.makes_context", True, event.source)
    if not frames or source is None:
        return
    facts.put("activity.operation", operation_of(frames), source)
    if frames[-1].function not in _PROFILES_FIRST:
        facts.put("activity.phase", phase_of(frames), source)
    if gathers_full_state(frames):
        facts.put("activity.gathers_full_state", True, source)
    if moves_offloaded(frames):
        facts.put("activity.moves_offloaded", True, source)
    if in_data_parallel(frames):
        facts.put("activity.data_parallel", True, source)
    if is_convolution(frames):
        facts.put("activity.convolution", True, source)
    if touches_device_first(frames):
        facts.put("activity.makes_context", True, source)
    facts.put("activity.restores_saved_device", restores_saved_device(frames), source)
    if places_adapters(frames):
        facts.put("activity.adapter_weights", True, source)
    if is_training(frames):
        facts.put("activity.during_training", True, source)
    facts.put("activity.autograd_on", autograd_of(frames), source)
    facts.put("activity.uses_trainer", uses_trainer(frames), source)
    facts.put("activity.caller", caller_of_torch(frames), source)
    evaluating = evaluating_frame(frames)
    if evaluating is not None:
        facts.put("activity.evaluation", describe_function(evaluating), source)
    frame = users_frame(frames)
    if frame is not None:
        facts.put("activity.frame", describe(frame), source)


def _put_cut_off(evidence: Evidence, facts: FactSet) -> None:
    """A traceback without its end as the last thing told, where nothing says what failed."""
    cut = _cut_traceback(evidence)
    if cut is not None:
        facts.put("activity.cut_off", True, cut.source)
        frames = frames_of(cut)
        if frames and _GENERATES.search(frames[-1].code):
            facts.put("activity.phase", "prefill", cut.source)


def _cut_traceback(evidence: Evidence) -> LogEvent | None:
    said = [event for event in evidence.events if event.kind is EventKind.EXCEPTION]
    if evidence.runs or not said or not _cut_off(said[-1]) or said[-1].fields.get("complete") is True:
        return None
    if any(event.kind in FAILURES or event.kind is EventKind.ACCELERATOR_ERROR for event in evidence.events):
        return None
    return said[-1]


def _put_recorded(evidence: Evidence, facts: FactSet) -> None:
    """What the failing process itself said of its last failure; surer than what frames suggest."""
    records = [record for run in evidence.runs for record in run.device_ooms]
    last = max(records, key=lambda record: record.time_seconds, default=None)
    if last is None:
        return
    facts.put("activity.autograd_on", last.autograd_on, last.source)
    if last.census is not None:
        facts.put("activity.models_training", last.census.training, last.census.source)


def _put_handler(evidence: Evidence, facts: FactSet) -> None:
    """A memory error (or one cut off before its name) that was raised while a memory error was being handled.

    One that a handler raises itself tells of the first in other words (or JAX shows it again without its own frames).
    """
    failed = False
    for event in evidence.events:
        if event.kind is EventKind.EXCEPTION and event.fields.get("chained") is True and failed:
            if (_about_memory(event) or _cut_off(event)) and not _tells_again(event):
                facts.put("activity.in_exception_handler", True, event.source)
        elif event.kind is EventKind.DEVICE_OOM:
            failed = True


def _tells_again(event: LogEvent) -> bool:
    frames = frames_of(event)
    return event.fields.get("raised_from") is True or bool(frames and frames[-1].code.startswith("raise "))


def _put_engine_words(evidence: Evidence, facts: FactSet) -> None:
    for event in evidence.of_kind(EventKind.ENGINE_WARMUP_FAILED):
        what = event.word("what")
        facts.put("activity.phase", "graph-capture" if what == "graph" else "warm-up", event.source)
        if what in ("sampler", "graph"):
            facts.put("activity.operation", what, event.source)
    for event in evidence.of_kind(EventKind.ENGINE_STEP_FAILED):
        step = [StackFrame("", 0, event.word("step") or "", "")]
        facts.put("activity.operation", operation_of(step), event.source)
        facts.put("activity.phase", phase_of(step), event.source)
    for event in evidence.of_kind(EventKind.ENGINE_BUFFER_FAILED):
        purpose = event.word("purpose") or ""
        facts.put("activity.phase", _PHASE_OF_PURPOSE.get(purpose), event.source)
        facts.put("activity.operation", _OPERATION_OF_PURPOSE.get(purpose), event.source)
        if purpose == "runtime" and event.word("engine") == "tensorrt-llm":
            facts.put("activity.phase", "serving", event.source)
    for event in evidence.events:
        facts.put("activity.phase", _PHASE_OF_FAILURE.get(event.kind), event.source)
    for event in evidence.of_kind(EventKind.DEVICE_OOM):
        if event.fields.get("served") is True:
            facts.put("activity.phase", "serving", event.source)
        elif event.word("backend") == "ctranslate2" and _in_constructor(evidence):
            facts.put("activity.phase", "load", event.source)
            facts.put("activity.operation", "weights", event.source)
    for event in evidence.of_kind(EventKind.DEVICE_OOM, EventKind.ACCELERATOR_ERROR):
        facts.put("activity.operation", operation_of([StackFrame("", 0, "", _beside_error(event.text))]), event.source)
        facts.put("activity.operation", operation_of_node(event.word("node")), event.source)
        if _GRAPH_CALL.search(event.text):
            facts.put("activity.phase", "graph-capture", event.source)
            facts.put("activity.operation", "graph", event.source)
        wrapped = (event.word("wrapped_by") or "").lower()
        if "load model" in wrapped or "could not be loaded" in wrapped or "failed to load '" in wrapped:
            facts.put("activity.phase", "load", event.source)
            facts.put("activity.operation", "weights", event.source)
        elif "graph" in wrapped:
            facts.put("activity.phase", "graph-capture", event.source)
            facts.put("activity.operation", "graph", event.source)
        elif "sampler" in wrapped:
            facts.put("activity.phase", "warm-up", event.source)
            facts.put("activity.operation", "sampler", event.source)
        elif "error in model execution" in wrapped and event.size("private_pool_bytes"):
            facts.put("activity.phase", "serving", event.source)
        elif "vae" in wrapped:
            facts.put("activity.operation", "decoder", event.source)


_GRAPH_CALL = re.compile(
    r"(?i)\b(?:cu(?:da)?|hip)Graph(?:Instantiate|Launch|Upload|ExecUpdate|AddMemAllocNode|ExecCreate)\w{0,20}"
    r"|\b(?:captur|replay|instantiat)\w{1,5} (?:the |a )?(?:(?:cuda|hip) ?)?graphs?\b"
    r"|\bcuda graph (?:launch|capture|replay)"
)
"""The calls that make a graph or first run it, whose memory the driver itself takes, and how engines word that."""


_HALF_OF_FALLBACK = {"decoding": "decoder", "encoding": "encoder"}
_NEAR_FALLBACK = 60
"""Lines in which a failure belongs to the fallback that was announced, if nothing else was told between."""


def _put_failed_fallback(evidence: Evidence, facts: FactSet) -> None:
    """An autoencoder that ran out of memory, was tried again in tiles, and ran out again."""
    for event, following in itertools.pairwise(evidence.events):
        if event.kind is EventKind.RECOVERED and following.kind in (EventKind.DEVICE_OOM, EventKind.EXCEPTION):
            first, last = event.source.line, following.source.line
            if first is not None and last is not None and 0 < last - first <= _NEAR_FALLBACK:
                facts.put("activity.operation", _HALF_OF_FALLBACK.get(event.word("step") or ""), event.source)


def _in_constructor(evidence: Evidence) -> bool:
    """Whether the innermost frame makes an object, as that of a model is made; Markdown takes underscores away."""
    frames = [frames_of(event) for event in memory_exceptions(evidence)]
    return bool(frames and frames[-1]) and frames[-1][-1].function in ("__init__", "init")


def _beside_error(text: str) -> str:
    """What a line says beside the error itself: a call before it, a remark in brackets after `out of memory`."""
    before, found, after = text.partition("out of memory")
    return f"{before} {after}" if found and "Tried to allocate" not in after else before if found else ""


def _put_order(evidence: Evidence, facts: FactSet) -> None:
    """The engine's last line before the failure names what it was about to do."""
    phase: str | None = None
    source: Source | None = None
    cut = _cut_traceback(evidence)
    for place, event in enumerate(evidence.events):
        if event is cut:
            facts.put("activity.phase", phase, event.source)
            return
        if event.kind is EventKind.DEVICE_OOM or event.kind is EventKind.ACCELERATOR_ERROR:
            if phase is not None and source is not None:
                facts.put("activity.phase", phase, source)
            else:
                _put_told_late(evidence.events[place:], facts)
            return
        if event.kind is EventKind.ENGINE_PHASE:
            phase, source = _after_phase(event), event.source
            if phase == "graph-capture" and event.word("edge") == "end" and _without_graphs(evidence):
                phase = "warm-up"
        elif event.kind in _PHASE_AFTER:
            phase, source = _PHASE_AFTER[event.kind], event.source


def _without_graphs(evidence: Evidence) -> bool:
    """Whether the engine was told to capture no graphs, on its launch line or by the options that it prints."""
    options = options_of(evidence)
    return any(options.get(name, "False") in (None, "", "True", "true", "1") for name in _GRAPHS_OFF)


def _put_told_late(events: Sequence[LogEvent], facts: FactSet) -> None:
    """The lines of several processes are collected in no strict order, and some exports show the newest first."""
    failed, later = events[0], events[1:]
    if any(event.kind is EventKind.ENGINE_START for event in later):
        return
    for event in later:
        anothers = event.pid is not None and event.pid != failed.pid and event.word("edge") in ("begin", "progress")
        if event.kind is EventKind.ENGINE_PHASE and (
            anothers or event.word("edge") == "told" or is_earlier(event, failed)
        ):
            facts.put("activity.phase", _after_phase(event), event.source)


def _after_phase(event: LogEvent) -> str | None:
    named = event.word("phase")
    if event.word("edge") != "end":
        return named
    order = ("load", "profile", "kv-allocation", "graph-capture", "warm-up", "serving")
    if named not in order:
        return None
    return order[min(order.index(named) + 1, len(order) - 1)]
