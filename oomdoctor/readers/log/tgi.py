"""Text Generation Inference: limits it settled on, its warm-up, and the sentence that wraps whatever stopped it."""

from __future__ import annotations

import re
from functools import partial

from ...model.events import EventKind, LogEvent
from .family import Family, Line, Pattern
from .forms import Fields, form, read_fields, reading
from .printed_options import printed_options
from .statement import event_of

_ENGINE = "tgi"
_form = partial(form, _ENGINE)

_ABOVE = 80
"""Lines above the sentence in which the exception it was raised from is looked for."""
_LAUNCHER_LINES = 200
_CHAINS = (
    "The above exception was the direct cause of the following exception",
    "During handling of the above exception, another exception occurred",
)
_RAISED = re.compile(r"(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exit)(?::|$)")


def _not_enough(match: re.Match[str], line: Line) -> LogEvent:
    """Several versions print this for any exception: the one it was raised from goes with it, where it was printed."""
    fields: Fields = {"engine": _ENGINE, "what": "prefill", **read_fields(match)}
    inner = _raised_from(line)
    if inner is not None:
        fields["inner"] = inner
    return event_of(EventKind.ENGINE_WARMUP_FAILED, line, fields)


def _wrapped(match: re.Match[str], line: Line) -> LogEvent | None:
    """The launcher's sentence around the error of the warm-up, where that is an allocator's own."""
    inner = match["inner"]
    if "Not enough memory to handle" in inner or "memory" not in inner.lower():
        return None
    fields: Fields = {"engine": _ENGINE, "what": "other", "inner": inner}
    return event_of(EventKind.ENGINE_WARMUP_FAILED, line, fields)


def _raised_from(line: Line) -> str | None:
    above = line.preceding(_ABOVE)
    links = [place for place, text in enumerate(above) if any(chain in text for chain in _CHAINS)]
    if not links:
        return None
    for text in reversed(above[: links[-1]]):
        if found := _RAISED.search(text):
            return text[found.start() :].strip()[:1000]
    return None


def _launcher_args(match: re.Match[str], line: Line) -> LogEvent | None:
    """`Args { … }`, on one line or one option a line."""
    said = [line.text[match.end() :]]
    if "}" not in said[0]:
        for text in line.following(_LAUNCHER_LINES):
            said.append(text)
            if text.startswith("}"):
                break
    options = printed_options("\n".join(said), closed=True)
    set_options = tuple((name, value) for name, value in options if value != "None")
    return event_of(EventKind.ENGINE_START, line, {"engine": _ENGINE, "options": set_options}) if set_options else None


def _default(match: re.Match[str], line: Line) -> LogEvent:
    options = ((match["name"], match["value"]),)
    return event_of(EventKind.ENGINE_START, line, {"engine": _ENGINE, "options": options})


def _span(match: re.Match[str], line: Line) -> LogEvent:
    """The values that the warm-up runs with, as its tracing span prints them."""
    options = tuple(re.findall(r"(\w{1,60})=(?:Some\()?([\w.]{1,40})", match["values"]))
    fields: Fields = {"engine": _ENGINE, "options": options}
    return event_of(EventKind.ENGINE_START, line, fields)


FAMILY = Family(
    "tgi",
    (
        reading(
            "Not enough memory to handle",
            r"Not enough memory to handle (?:{total_tokens:n} total tokens with )?{tokens:n} prefill tokens",
            _not_enough,
        ),
        Pattern("armup", r"(?:Unable to warmup model: |Error: Warmup\()Generation\(\"(?P<inner>.{1,300})", _wrapped),
        _form(
            EventKind.ENGINE_KV_POOL,
            "etting max batch total tokens to ",
            r"[Ss]etting max batch total tokens to {pool_tokens:n}",
        ),
        _form(
            EventKind.ENGINE_KV_POOL,
            "KV-cache blocks: ",
            r"KV-cache blocks: {gpu_blocks:n}(?:, size: {block_tokens:n})?",
        ),
        Pattern(
            "Default `max_",
            r"Default `(?P<name>max_\w{1,60})` to (?P<value>[0-9]{1,12})",
            _default,
        ),
        Pattern("Args {", r"\bArgs \{", _launcher_args),
        Pattern("warmup{", r"\bwarmup\{(?P<values>[^{}]{1,400})\}:warmup", _span),
        _form(
            EventKind.ENGINE_PHASE,
            "Request failed during generation: ",
            r"Request failed during generation: Server error: ",
            phase="serving",
            edge="told",
        ),
        *(
            _form(
                EventKind.ENGINE_PHASE,
                f":{phase}" + "{",
                rf"\bERROR\b.{{1,300}}:{phase}\{{[^{{}}]{{0,120}}\}}.{{1,200}}?\bout of memory",
                phase=phase,
                edge="told",
            )
            for phase in ("prefill", "decode")
        ),
        _form(EventKind.ENGINE_PHASE, "Warming up model", r"Warming up model", phase="warm-up", edge="begin"),
    ),
)
