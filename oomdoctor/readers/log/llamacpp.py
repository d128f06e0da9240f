"""llama.cpp and llama-cpp-python: buffers by device, fitting, allocation failures, the table printed at the end.

A failed allocation is printed by the backend, which knows the size; what it was for is in the lines that follow.
"""

from __future__ import annotations

import re
from functools import partial

from ...model.events import EventKind, LogEvent
from ...model.units import MIB
from .family import Build, Family, Line, Pattern
from .forms import Fields, compile_form, form, index_of, read_fields, reading
from .statement import event_of

_ENGINE = "llama.cpp"
_form = partial(form, _ENGINE)


def on_host(buffer: str) -> bool:
    """Whether a buffer of this name (`CPU_Mapped`, `CUDA_Host`, `CUDA0`) is in host memory."""
    return buffer.startswith("CPU") or buffer.endswith("_Host") or buffer == "Host"


def buffer_fields(buffer: str, fields: Fields) -> Fields:
    """`fields` of a named buffer; sizes in host memory get names of their own, that none be taken for the device's."""
    if on_host(buffer):
        fields = {f"host_{name}" if name.endswith("_bytes") else name: value for name, value in fields.items()}
    return {"engine": _ENGINE, **fields, "buffer": buffer, "device": None if on_host(buffer) else index_of(buffer)}


# --- options ----------------------------------------------------------------------------------------------------------
def _option(match: re.Match[str], line: Line) -> LogEvent:
    return event_of(EventKind.ENGINE_START, line, {"engine": _ENGINE, "options": ((match[1], match[2]),)})


def _context_options(match: re.Match[str], line: Line) -> LogEvent:
    options = ((match[1], match[2]), ("n_ctx_train", match[3]))
    return event_of(EventKind.ENGINE_START, line, {"engine": _ENGINE, "options": options})


_OPTIONS: tuple[Pattern, ...] = (
    *(
        Pattern(anchor, rf":\s{{1,8}}({name})\s{{1,16}}= ([\w.-]{{1,40}})\s*$", _option)
        for anchor, name in (
            ("n_ctx", "n_ctx(?:_per_seq|_seq|_train)?"),
            ("n_batch", "n_batch"),
            ("n_ubatch", "n_ubatch"),
            ("n_seq_max", "n_seq_max"),
            ("flash_attn", "flash_attn"),
            ("kv_unified", "kv_unified"),
        )
    ),
    Pattern(
        "n_ctx_train (",
        r"(n_ctx(?:_per_seq|_seq)?) \(([0-9]{1,12})\) [<>] n_ctx_train \(([0-9]{1,12})\)",
        _context_options,
    ),
    _form(EventKind.ENGINE_START, "build: ", r"\bbuild: (?P<version__word>[0-9]{1,8}) \([0-9a-f]{6,40}\)"),
    _form(
        EventKind.PARALLELISM,
        "pipeline parallelism enabled",
        r": pipeline parallelism enabled(?: \(n_copies={pipeline_copies:n}\))?",
    ),
)


# --- what was allocated -----------------------------------------------------------------------------------------------
def _buffer(kind: EventKind) -> Build:
    def build(match: re.Match[str], line: Line) -> LogEvent:
        return event_of(kind, line, buffer_fields(match["buffer"], read_fields(match)))

    return build


def _recurrent_buffer(match: re.Match[str], line: Line) -> LogEvent:
    fields = buffer_fields(match["buffer"], read_fields(match))
    return event_of(EventKind.ENGINE_KV_POOL, line, {**fields, "sub_pool": "recurrent"})


def _row(match: re.Match[str], line: Line) -> LogEvent:
    fields = read_fields(match)
    unaccounted = fields.get("unaccounted_bytes")
    if isinstance(unaccounted, int) and unaccounted >= 1 << 63:
        # Printed as unsigned: what is below zero shows as that much below 2^64.
        fields["unaccounted_bytes"] = unaccounted - (1 << 64)
    buffer = match["buffer"].partition(" ")[0]
    return event_of(EventKind.ENGINE_MEMORY_TABLE, line, buffer_fields(buffer, fields))


_NAMED = r"(?P<buffer>[A-Za-z][\w.:\[\]-]{0,80})"
_CACHE_TYPES = (
    r"(?:, +(?:K|R|c\^KV) \({k_type:word}\): +{k_bytes:mib} MiB)?"
    r"(?:, +(?:V|S|kv\^T) \({v_type:word}\): +{v_bytes:mib} MiB)?"
)

_ALLOCATED: tuple[Pattern, ...] = (
    _form(
        EventKind.ENGINE_WEIGHTS,
        " layers to GPU",
        r"offloaded {layers_offloaded:n}/{layers_total:n} layers to GPU",
    ),
    reading(
        " model buffer size = ",
        _NAMED + r" model buffer size = +{weights_bytes:mib} MiB",
        _buffer(EventKind.ENGINE_WEIGHTS),
    ),
    reading(
        " buffer size = ",
        r"llm_load_tensors: +(?P<buffer>[A-Za-z][\w.:\[\]-]{0,80}) buffer size = +{weights_bytes:mib} MiB",
        _buffer(EventKind.ENGINE_WEIGHTS),
    ),
    reading(
        " KV buffer size = ", _NAMED + r" KV buffer size = +{pool_bytes:mib} MiB", _buffer(EventKind.ENGINE_KV_POOL)
    ),
    reading(" RS buffer size = ", _NAMED + r" RS buffer size = +{pool_bytes:mib} MiB", _recurrent_buffer),
    reading(
        " compute buffer size = ",
        _NAMED + r" compute buffer size = +{compute_bytes:mib} MiB",
        _buffer(EventKind.ENGINE_MEMORY_TABLE),
    ),
    _form(EventKind.ENGINE_KV_POOL, "KV self size", r"KV self size +=  ?{pool_bytes:mib} MiB" + _CACHE_TYPES),
    _form(
        EventKind.ENGINE_KV_POOL,
        " layers, ",
        r"\bllama_kv_cache\w{0,40}: size = +{pool_bytes:mib} MiB \( *{cells:n} cells, +{layers:n} layers,"
        r" +{sequences:n}(?:/[0-9]{1,6})? seqs\)" + _CACHE_TYPES,
    ),
    _form(
        EventKind.ENGINE_KV_POOL,
        " layers, ",
        r"\bllama_memory_recurrent: size = +{pool_bytes:mib} MiB \( *{cells:n} cells, +{layers:n} layers,"
        r" +{sequences:n} seqs(?: +[0-9]{1,6} rs_seq)?\)" + _CACHE_TYPES,
        sub_pool="recurrent",
    ),
    reading(
        "memory_breakdown_print: |",
        r"\| +- (?P<buffer>[^|]{1,160})\| *{total_bytes:mib} = *{free_bytes:mib} \+ \( *{used_bytes:mib} ="
        r" *{model_bytes:mib} \+ *{context_bytes:mib} \+ *{compute_bytes:mib}\) \+ *{unaccounted_bytes:mib} *\|",
        _row,
    ),
    reading(
        "memory_breakdown_print: |",
        r"\| +- (?P<buffer>[^|]{1,160})\| *{used_bytes:mib} = *{model_bytes:mib} \+ *{context_bytes:mib}"
        r" \+ *{compute_bytes:mib} *\|",
        _row,
    ),
)

# --- fitting ----------------------------------------------------------------------------------------------------------
_FIT: tuple[Pattern, ...] = (
    _form(
        EventKind.ENGINE_FIT,
        "MiB of device memory vs. ",
        r"projected to use {projected_bytes:mib} MiB of device memory vs\. {free_bytes:mib} MiB of free device memory",
    ),
    reading(
        " free vs. target of ",
        r"- (?P<buffer>[^|:]{1,160}): +{total_bytes:mib} total, +{projected_bytes:mib} used,"
        r" +{left_bytes:mib} free vs\. target of +{target_bytes:mib}",
        lambda match, line: event_of(
            EventKind.ENGINE_FIT, line, buffer_fields(match["buffer"].partition(" ")[0], read_fields(match))
        ),
    ),
    _form(
        EventKind.ENGINE_FIT,
        "cannot meet free memory target",
        r"cannot meet free memory target\b(?: of {target_bytes:mib} MiB, need to reduce device memory by"
        r" {deficit_bytes:mib} MiB)?",
    ),
    _form(
        EventKind.ENGINE_FIT,
        "cannot meet free memory targets on all devices",
        r"cannot meet free memory targets on all devices, need to use {deficit_bytes:mib} MiB less",
    ),
    _form(
        EventKind.ENGINE_FIT,
        "MiB of free device memory",
        r"will leave {left_bytes:mib} >= {target_bytes:mib} MiB of free device memory",
        outcome="fits",
    ),
    _form(
        EventKind.ENGINE_FIT,
        "context size set by user to ",
        r"context size set by user to {to_tokens:n} -> no change",
        blocked_by="n_ctx",
    ),
    _form(
        EventKind.ENGINE_FIT,
        "context size reduced from ",
        r"context size reduced from {from_tokens:n} to {to_tokens:n}\b",
        outcome="reduced",
    ),
    _form(
        EventKind.ENGINE_FIT,
        "failed to fit params to free device memory",
        r"failed to fit params to free device memory: (?:\w{1,40}::)?{blocked_by:word} already set by user",
        outcome="blocked",
    ),
    _form(
        EventKind.ENGINE_FIT,
        "failed to fit params to free device memory",
        r"failed to fit params to free device memory(?!:.{0,120} already set by user)(?:: {reason:rest})?",
        outcome="failed",
    ),
    _form(
        EventKind.ENGINE_FIT,
        "successfully fit params to free device memory",
        r"successfully fit params to free device memory",
        outcome="fits",
    ),
)

# --- what failed ------------------------------------------------------------------------------------------------------
_REACH = 6
"""Lines after a refused allocation that may still speak of it."""
_NEXT_REFUSAL = " failed: out of memory"
_VULKAN_REFUSED = "Device memory allocation of size "
_RETRIED = "retrying without pipeline parallelism"
_EXACT = compile_form(r"buffer of size {requested_bytes:bytes}\s*$")
_PURPOSES = (
    (re.compile(r"kv_cache_update\w{0,20}: failed to allocate compute"), "runtime"),
    (
        re.compile(
            r"alloc_tensor_range|alloc params backend buffer failed"
            r"|unable to allocate \S{1,40} buffer|error loading model"
        ),
        "weights",
    ),
    (re.compile(r"buffer for (?:kv|rs) cache|self-attention cache"), "kv"),
    (re.compile(r"gallocr_reserve|failed to allocate (?:the )?compute|compute buffer allocation failed"), "compute"),
)
"""What the lines after a refusal say it was for; the first that fits: an update at run time names both."""
_MADE_LAST = (
    (re.compile(r"compute buffer size = "), "unknown"),
    (re.compile(r" output buffer size = "), "compute"),
    (re.compile(r"KV (?:self )?size +="), "compute"),
    (re.compile(r" model buffer size = |offloaded \d{1,5}/\d{1,5} layers"), "kv"),
)
"""What a context is made of in turn (weights, keys and values, outputs, scratch): the next after the last one made."""
_FATAL = re.compile(
    r"failed to (?:load model|create context|initialize the context)|error loading model"
    r"|Failed to create llama_context"
)


def _refused(match: re.Match[str], line: Line) -> LogEvent:
    return event_of(EventKind.ENGINE_BUFFER_FAILED, line, {**read_fields(match), **_aftermath(line)})


def _refused_on_host(match: re.Match[str], line: Line) -> LogEvent:
    """A buffer in host memory; what it was for decides what to change, wherever it lies."""
    purpose = _aftermath(line)["purpose"]
    fields: Fields = {**read_fields(match), "engine": _ENGINE, "allocator": "llama.cpp"}
    return event_of(EventKind.HOST_ALLOCATION_FAILED, line, fields | ({"purpose": "kv"} if purpose == "kv" else {}))


def _metal_weights(match: re.Match[str], line: Line) -> LogEvent | None:
    """Weights beyond the working set that Metal recommends, where the program ended on it."""
    fields = read_fields(match)
    limit = next((found for text in line.preceding(_BACK) if (found := _WORKING_SET.search(text))), None)
    weights, budget = fields["weights_bytes"], read_fields(limit)["budget_bytes"] if limit else None
    if not isinstance(weights, int) or not isinstance(budget, int) or weights <= budget:
        return None
    if not any(_ENDED_ON_METAL.search(text) for text in line.following(_BACK)):
        return None
    return event_of(EventKind.ENGINE_PROFILE, line, {"engine": _ENGINE, **fields, "budget_bytes": budget})


_BACK = 40
_WORKING_SET = compile_form(r"recommendedMaxWorkingSetSize {0,3}= {0,9}{budget_bytes:mib} MB")
_ENDED_ON_METAL = re.compile(r"GGML_ASSERT.{0,40}ggml-metal|Insufficient Memory|out of memory")


def _next_in_turn(line: Line) -> str:
    """What was to be made when a refusal does not name it and the lines after it are not there."""
    for text in reversed(line.preceding(_BEFORE)):
        for regex, purpose in _MADE_LAST:
            if regex.search(text):
                return purpose
    return "unknown"


_BEFORE = 8


def _aftermath(line: Line) -> Fields:
    """Purpose, exact size and outcome, as far as this line and the next ones (up to another refusal) state them."""
    said = [line.text]
    for text in line.following(_REACH):
        if _NEXT_REFUSAL in text:
            break
        said.append(text)
    whole = "\n".join(said)
    fields: Fields = {"engine": _ENGINE, "purpose": "unknown"}
    for regex, purpose in _PURPOSES:
        if regex.search(whole):
            fields["purpose"] = purpose
            break
    else:
        fields["purpose"] = _next_in_turn(line)
    for text in said:
        if found := _EXACT.search(text):
            fields |= read_fields(found)
            break
    if _RETRIED in whole:
        fields["fatal"] = False
    elif _FATAL.search(whole):
        fields["fatal"] = True
    return fields


def _refused_without_backend(match: re.Match[str], line: Line) -> LogEvent | None:
    """A consequence printed alone: where the refusal itself stands just above, it has been read with it."""
    if any(_SPOKEN.search(text) for text in line.preceding(_REACH)):
        return None
    fields: Fields = {**read_fields(match), **_aftermath(line)}
    buffer = match.groupdict().get("buffer")
    if buffer is not None:
        fields |= {"buffer": buffer, "device": index_of(buffer)}
    return event_of(EventKind.ENGINE_BUFFER_FAILED, line, fields)


_SPOKEN = re.compile(
    r" on device \d{1,4}: \w{1,40} failed: out of memory|failed to allocate (?:\S{1,40} )?buffer|ErrorOutOfDeviceMemory"
)


def is_refusal(text: str) -> bool:
    """Whether a line says by itself that a buffer was refused."""
    return _SPOKEN.search(text) is not None or _VULKAN_REFUSED in text


def _over_buffer_limit(match: re.Match[str], line: Line) -> LogEvent | None:
    """The platform bounds a single buffer; how large this one was to be, the lines after it (or before) say."""
    before = " ".join(line.preceding(1))
    if "ailed to allocate pinned memory" in before or _VULKAN_REFUSED in before:
        return None
    fields: Fields = {**_aftermath(line), "over_buffer_limit": True}
    for text in line.following(_REACH):
        if found := _NAMED_SIZE.search(text):
            fields |= {"buffer": found["buffer"], "device": index_of(found["buffer"]), **read_fields(found)}
            break
    return event_of(EventKind.ENGINE_BUFFER_FAILED, line, fields)


_NAMED_SIZE = compile_form(r"failed to allocate (?P<buffer>\w{1,40}) buffer of size {requested_bytes:bytes}")


def _pinned_with_comma(match: re.Match[str], line: Line) -> LogEvent:
    """Where the locale writes a decimal comma."""
    requested = round(float(f"{match[1]}.{match[2]}") * MIB)
    fields: Fields = {"engine": _ENGINE, "requested_bytes": requested, "recovered": True}
    return event_of(EventKind.PINNED_ALLOCATION_FAILED, line, fields)


def _runtime_pool(match: re.Match[str], line: Line) -> LogEvent | None:
    if not any("out of memory" in text for text in line.preceding(2)):
        return None
    return event_of(
        EventKind.ENGINE_BUFFER_FAILED,
        line,
        {"engine": _ENGINE, "purpose": "runtime", "fatal": True, **read_fields(match)},
    )


_FAILED: tuple[Pattern, ...] = (
    reading(
        _NEXT_REFUSAL,
        r"allocating {requested_bytes:mib} MiB on device {device:n}: \w{1,40} failed: out of memory",
        _refused,
    ),
    reading(
        " buffer of size ",
        r"failed to allocate (?!CPU|\w{1,20}_Host)(?P<buffer>\w{1,40}) buffer of size {requested_bytes:bytes}",
        _refused_without_backend,
    ),
    reading(
        "failed to allocate buffer for ", r"failed to allocate buffer for (?:kv|rs) cache", _refused_without_backend
    ),
    reading("failed to allocate compute ", r"failed to allocate compute (?:pp |tg )?buffers", _refused_without_backend),
    reading(
        "failed to allocate the compute buffer", r"failed to allocate the compute buffer", _refused_without_backend
    ),
    _form(
        EventKind.ENGINE_STEP_FAILED,
        "vae: failed to allocate the compute buffer",
        r"\bvae: failed to allocate the compute buffer",
        step="vae_decode",
    ),
    reading(
        "unable to allocate ", r"error loading model: unable to allocate \S{1,40} buffer", _refused_without_backend
    ),
    reading(
        "failed for self-attention cache", r"cache_init\(\) failed for self-attention cache", _refused_without_backend
    ),
    reading("alloc params backend buffer failed", r"alloc params backend buffer failed", _refused_without_backend),
    reading(
        f"ggml_vulkan: {_VULKAN_REFUSED}",
        r"Device memory allocation of size {requested_bytes:bytes} failed",
        _refused,
    ),
    reading(
        "Requested buffer size exceeds device ",
        r"Requested buffer size exceeds device (?:buffer size|memory allocation) limit",
        _over_buffer_limit,
    ),
    reading(
        "failed to allocate buffer, size = ",
        r"\bfailed to allocate buffer, size = +{requested_bytes:mib} MiB",
        _refused,
    ),
    reading(
        ", in function ",
        r"current device: {device:n}, in function {function:word} at \S{1,300}ggml\S{0,80}:[0-9]{1,6}",
        _runtime_pool,
    ),
    _form(
        EventKind.ENGINE_BUFFER_FAILED,
        "CUDA error 2 at ",
        r"CUDA error 2 at \S{0,300}ggml-cuda\.cu:[0-9]{1,6}: out of memory",
        purpose="unknown",
        fatal=True,
    ),
    reading(
        "cpu_buffer_type_alloc_buffer: failed to allocate buffer of size",
        r"failed to allocate buffer of size {requested_bytes:bytes}",
        _refused_on_host,
    ),
    reading(
        "ggml_metal_add_buffer: allocated 'data",
        r"allocated 'data[^']{0,20}' buffer, size = .{0,80}\( {0,4}{weights_bytes:mib} /",
        _metal_weights,
    ),
    _form(
        EventKind.PINNED_ALLOCATION_FAILED,
        " of pinned memory",
        r"failed to allocate {requested_bytes:mib} Mi?B of pinned memory",
        recovered=True,
    ),
    _form(
        EventKind.PINNED_ALLOCATION_FAILED,
        "ailed to allocate pinned memory",
        r"ggml_vulkan: [Ff]ailed to allocate pinned memory",
        recovered=True,
    ),
    Pattern(
        " of pinned memory",
        r"failed to allocate ([0-9]{1,9}),([0-9]{2}) MiB of pinned memory",
        _pinned_with_comma,
    ),
    _form(EventKind.RECOVERED, _RETRIED, rf"compute buffer allocation failed, {_RETRIED}", how="retry"),
    _form(
        EventKind.WORKSPACE_TOO_SMALL,
        "not enough space in the ",
        r"\bggml_\w{1,40}: not enough space in the (?:buffer|(?:context's|scratch) memory pool)"
        r" \(needed {requested_bytes:bytes}, (?:largest block )?available {available_bytes:bytes}\)",
        library="ggml",
    ),
    _form(
        EventKind.ENGINE_STEP_FAILED,
        "failed to create context with model",
        r"failed to create context with model",
        step="context",
    ),
    _form(
        EventKind.ENGINE_STEP_FAILED,
        "Failed to create llama_context",
        r"Failed to create llama_context",
        step="context",
    ),
)

# --- serving ----------------------------------------------------------------------------------------------------------
_SERVING: tuple[Pattern, ...] = (
    *(
        _form(EventKind.ENGINE_LOAD, anchor, anchor, kv_usage=1.0, waiting=1)
        for anchor in (
            "failed to find free space in the KV cache",
            "failed to find a memory slot for batch of size",
            "failed to find KV cache slot for ubatch of size",
        )
    ),
    _form(
        EventKind.ENGINE_TOKEN_POOL_EXHAUSTED,
        "failed to decode the batch",
        r"failed to decode the batch\b.{0,80}n_batch = 1, ret = 1\b",
    ),
    _form(
        EventKind.ENGINE_TOKEN_POOL_EXHAUSTED,
        "failed to decode, ret = 1",
        r"llama_decode: failed to decode, ret = 1$",
    ),
    _form(
        EventKind.ENGINE_TOKEN_POOL_EXHAUSTED,
        "ould not find a KV slot for",
        r"[Cc]ould not find a KV slot for (?:the|a) batch \(try reducing the size of the batch or increase the context",
    ),
    _form(EventKind.ENGINE_TOKEN_POOL_EXHAUSTED, "NoKvSlot", r"llama_decode failed: '?NoKvSlot\b"),
    _form(EventKind.ENGINE_TOKEN_POOL_EXHAUSTED, "ontext size has been exceeded", r"[Cc]ontext size has been exceeded"),
)
"""A batch found no cells; the server tries again with half of it, down to one token."""

FAMILY = Family("llama.cpp", (*_OPTIONS, *_ALLOCATED, *_FIT, *_FAILED, *_SERVING))
