"""Ollama: its plan of what goes where, and how its runners ended. The runners print llama.cpp's lines."""

from __future__ import annotations

import re
from functools import partial
from signal import SIGKILL

from ...model.events import EventKind, LogEvent
from ...model.units import parse_size
from .family import Build, Family, Line, Pattern
from .forms import Fields, form, index_of, reading
from .launch import launch_options
from .llamacpp import is_refusal, on_host
from .statement import event_of

_ENGINE = "ollama"
_form = partial(form, _ENGINE)

_PAIR = re.compile(r'(?:^|\s)([\w.]{1,60})=("(?:[^"\\]|\\.){0,4000}"|[^\s"]{1,400})')
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,6})?) ?([KMGT]?i?B)\b")


def _pairs(line: Line) -> dict[str, str]:
    """`key=value key="quoted value"`, as Go's structured logger prints them."""
    return {name: value.strip('"') for name, value in _PAIR.findall(line.text)}


def _size(text: str | None) -> int | None:
    """The size in `15.4 GiB`; of a list of sizes (`[15.4 GiB 7.6 GiB]`) their sum."""
    found = _SIZE.findall(text or "")
    return sum(parse_size(f"{number}{unit}") for number, unit in found) if found else None


def _with_sizes(pairs: dict[str, str], **names: str) -> Fields:
    """Fields named after keys of the line: `_with_sizes(pairs, free_bytes="memory.available")`."""
    sizes = {field: _size(pairs.get(key)) for field, key in names.items()}
    return {"engine": _ENGINE, **{field: size for field, size in sizes.items() if size is not None}}


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]{1,9}", text) else None


# --- the plan ---------------------------------------------------------------------------------------------------------
def _plan(match: re.Match[str], line: Line) -> tuple[LogEvent, ...]:
    pairs = _pairs(line)
    fit = _with_sizes(
        pairs,
        projected_bytes="memory.required.full",
        placed_bytes="memory.required.partial",
        free_bytes="memory.available",
        kv_bytes="memory.required.kv",
        weights_bytes="memory.weights.total",
        compute_bytes="memory.graph.full",
        projector_bytes="projector.weights",
    )
    layers: Fields = {"engine": _ENGINE}
    offloaded, total = _whole(pairs.get("layers.offload")), _whole(pairs.get("layers.model"))
    if offloaded is not None:
        layers["layers_offloaded"] = offloaded
    if total is not None:
        layers["layers_total"] = total
    made = (event_of(EventKind.ENGINE_FIT, line, fit), event_of(EventKind.ENGINE_WEIGHTS, line, layers))
    return tuple(one for one in made if len(one.fields) > 1)


def _part(kind: EventKind, field: str) -> Build:
    """One part of the new engine's plan, with the device it goes to."""

    def build(match: re.Match[str], line: Line) -> LogEvent | None:
        pairs = _pairs(line)
        size, buffer = _size(pairs.get("size")), pairs.get("device")
        if size is None:
            return None
        if buffer is None:
            return event_of(kind, line, {"engine": _ENGINE, field: size})
        if on_host(buffer):
            return event_of(kind, line, {"engine": _ENGINE, f"host_{field}": size, "buffer": buffer})
        return event_of(kind, line, {"engine": _ENGINE, field: size, "buffer": buffer, "device": index_of(buffer)})

    return build


def _system_memory(match: re.Match[str], line: Line) -> LogEvent:
    fields = _with_sizes(_pairs(line), total_bytes="total", available_bytes="free", swap_free_bytes="free_swap")
    return event_of(EventKind.HOST_STATE, line, fields)


def _gpu_memory(match: re.Match[str], line: Line) -> LogEvent:
    fields = _with_sizes(
        _pairs(line),
        available_bytes="available",
        free_bytes="free",
        minimum_bytes="minimum",
        overhead_bytes="overhead",
    )
    return event_of(EventKind.ENGINE_MEMORY_TABLE, line, fields)


def _not_released(match: re.Match[str], line: Line) -> LogEvent:
    pairs = _pairs(line)
    fields = _with_sizes(pairs, runner_bytes="runner.size", device_bytes="runner.vram")
    if re.fullmatch(r"[0-9]{1,6}(?:\.[0-9]{1,9})?", pairs.get("seconds", "")):
        fields["seconds"] = float(pairs["seconds"])
    return event_of(EventKind.ENGINE_NOT_RELEASED, line, fields)


# --- options ----------------------------------------------------------------------------------------------------------
def _environment(match: re.Match[str], line: Line) -> LogEvent:
    """`env="map[OLLAMA_NUM_PARALLEL:1 OLLAMA_DEBUG:INFO …]"`."""
    found = re.findall(r"(?:^|[\s\[])(OLLAMA_[A-Z_]{1,40}|[A-Z]{2,8}_VISIBLE_DEVICES):([^\s\]]{1,400})", line.text)
    return event_of(EventKind.ENGINE_START, line, {"engine": _ENGINE, "options": tuple(found)})


def _runner_command(match: re.Match[str], line: Line) -> LogEvent | None:
    options = launch_options(_pairs(line).get("cmd", ""))
    return event_of(EventKind.ENGINE_START, line, {"engine": _ENGINE, "options": options}) if options else None


def _default_context(match: re.Match[str], line: Line) -> LogEvent:
    pairs = _pairs(line)
    fields = _with_sizes(pairs, total_bytes="total_vram")
    context = pairs.get("default_num_ctx")
    if context is not None:
        fields["options"] = (("default_num_ctx", context),)
    return event_of(EventKind.ENGINE_START, line, fields)


# --- how a runner ended -----------------------------------------------------------------------------------------------
def _runner_ended(match: re.Match[str], line: Line) -> tuple[LogEvent, ...]:
    inner = match["inner"].strip().rstrip('"').rstrip("\\")
    ended = event_of(EventKind.ENGINE_STEP_FAILED, line, {"engine": _ENGINE, "step": "runner", "inner": inner})
    refused = _REFUSED.search(inner)
    if refused and not any(is_refusal(text) for text in (*line.preceding(_RUNNERS_LINES), *line.following(3))):
        purpose = "weights" if refused["buffer"] else "unknown"
        failed: Fields = {"engine": _ENGINE, "purpose": purpose, "fatal": True}
        return ended, event_of(EventKind.ENGINE_BUFFER_FAILED, line, failed)
    if not inner.startswith("signal: killed"):
        return (ended,)
    killed: Fields = {
        "engine": _ENGINE,
        "signal": int(SIGKILL),
        "program": "llama runner",
        "reported_by": "ollama",
        "oom_stated": False,
    }
    return ended, event_of(EventKind.PROCESS_KILLED, line, killed)


def _short_at_start(match: re.Match[str], line: Line) -> LogEvent | None:
    """The server's own summary of what llama-server said; whose memory it was, the quoted line tells."""
    inner = match["inner"]
    if _WHOLE_REFUSAL.search(inner):
        return None  # which is read as llama.cpp's own
    if "cpu_buffer_type" in inner or "_Host buffer" in inner:
        return event_of(EventKind.HOST_ALLOCATION_FAILED, line, {"engine": _ENGINE, "allocator": "llama.cpp"})
    return event_of(EventKind.ENGINE_BUFFER_FAILED, line, {"engine": _ENGINE, "purpose": "unknown", "fatal": True})


_WHOLE_REFUSAL = re.compile(
    r"buffer of size \d|size = {1,3}\d|failed: out of memory|Device memory allocation of size \d"
)
_RUNNERS_LINES = 200
"""Of the runner itself, which stand before this one in a server's log and say more."""
_REFUSED = re.compile(
    r"\b\w{2,20} failed: out of memory|unable to allocate (?P<buffer>\S{1,40}) buffer"
    r"|failed to create context with model"
)
"""Of a device, in the words that a runner leaves behind; a context is cache and scratch space."""


def _message(words: str, build: Build, then: str = "") -> Pattern:
    """A form that its `msg="…"` tells; in a line that a collector wrapped into JSON the quotes are escaped."""
    return Pattern(words, rf'msg="{words}"{then}', build, led_by=r'msg=\\{0,3}"')


FAMILY = Family(
    "ollama",
    (
        _form(
            EventKind.ENGINE_HOST_SHORT,
            "model requires more system memory",
            r"model requires more system memory"
            r"(?: \({needed_bytes:size}\) than is available \({available_bytes:size}\))?",
            what="system memory",
            fatal=True,
        ),
        reading("layers.offload=", r"\blayers\.offload=[0-9]", _plan),
        _message("model weights", _part(EventKind.ENGINE_WEIGHTS, "weights_bytes")),
        _message("kv cache", _part(EventKind.ENGINE_KV_POOL, "pool_bytes")),
        _message("compute graph", _part(EventKind.ENGINE_MEMORY_TABLE, "compute_bytes")),
        _message("total memory", _part(EventKind.ENGINE_MEMORY_TABLE, "used_bytes")),
        _message("system memory", _system_memory),
        _message("gpu memory", _gpu_memory),
        reading("gpu VRAM usage didn't recover", r"gpu VRAM usage didn't recover within timeout", _not_released),
        _message("server config", _environment, " env="),
        reading(" cmd=", r'msg="starting (?:llama server|runner|llama-server)"? ?cmd=', _runner_command),
        reading("vram-based default context", r'msg="vram-based default context"', _default_context),
        _form(EventKind.ENGINE_START, "Listening on ", r"Listening on \S{1,100} \(version {version:word}\)"),
        _form(
            EventKind.PROCESS_KILLED,
            'msg="llama runner terminated"',
            r'msg="llama runner terminated" error="signal: killed"',
            signal=9,
            reported_by="ollama",
            oom_stated=False,
        ),
        _form(
            EventKind.ENGINE_WEIGHTS,
            " VRAM available, loading up to ",
            r"[0-9]{1,9} MiB VRAM available, loading up to {layers_offloaded:n} (?:\w{1,8} )?GPU layers",
        ),
        _form(
            EventKind.ENGINE_STEP_FAILED,
            "llama.go:",
            r"\bllama\.go:[0-9]{1,5}: (?:llama runner exited with error|error starting llama runner)",
            step="runner",
        ),
        Pattern(
            "llama runner process has terminated",
            r"llama runner process has terminated: (?P<inner>\S.{0,999})",
            _runner_ended,
        ),
        Pattern(
            "reported out-of-memory during startup",
            r"llama-server reported out-of-memory during startup(?::(?P<inner>.{0,999}))",
            _short_at_start,
        ),
        *(
            _form(
                EventKind.PROCESS_KILLED,
                ", this may be due to resource limitations",
                rf"{what}, this may be due to resource limitations",
                reported_by="ollama",
                oom_stated=False,
                guess_only=True,
            )
            for what in ("model runner has unexpectedly stopped", "model failed to load")
        ),
        _form(
            EventKind.ENGINE_FIT,
            "memory layout cannot be allocated",
            r"memory layout cannot be allocated(?: with {blocked_by:word} = [0-9]{1,5}\b)?",
            outcome="failed",
        ),
        _form(
            EventKind.ENGINE_FIT,
            "insufficient memory - required allocations",
            r"insufficient memory - required allocations",
            outcome="failed",
        ),
        _form(
            EventKind.ENGINE_FIT,
            "gpu has too little memory to allocate any layers",
            r"gpu has too little memory to allocate any layers",
            outcome="host-only",
        ),
        _form(
            EventKind.ENGINE_FIT,
            "insufficient VRAM to load any model layers",
            r"insufficient VRAM to load any model layers",
            outcome="host-only",
        ),
        _form(
            EventKind.RECOVERED,
            "evicting all other loaded models for OOM retry",
            r"evicting all other loaded models for OOM retry",
            how="retry",
        ),
    ),
)
