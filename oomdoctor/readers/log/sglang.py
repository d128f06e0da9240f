"""SGLang: its start-up sequence, its token pools, and its batch lines. What it prints as GB are GiB."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from ...model.events import EventKind, LogEvent
from .family import Family, Line, Pattern
from .forms import Fields, compile_form, form, read_fields, reading
from .printed_options import printed_options
from .statement import event_of

_ENGINE = "sglang"
_form = partial(form, _ENGINE)


# --- starting ---------------------------------------------------------------------------------------------------------
def _start(match: re.Match[str], line: Line) -> LogEvent:
    options = printed_options(line.text[match.end() :], closed=True)
    return event_of(EventKind.ENGINE_START, line, {"engine": _ENGINE, "options": options})


def _sizes(match: re.Match[str], line: Line) -> LogEvent:
    """A cache in several parts (K and V, or the states of a recurrent model): the pool is their sum."""
    fields = read_fields(match)
    parts = _PART.findall(line.text[match.end() :][:400])
    if parts:
        fields["pool_bytes"] = sum(round(float(size) * 2**30) for size in parts)
    return event_of(EventKind.ENGINE_KV_POOL, line, {"engine": _ENGINE, **fields})


_PART = re.compile(r"\b[\w ]{1,60} size: ([0-9]{1,9}(?:\.[0-9]{0,6})?) ?GB")


def _mamba(match: re.Match[str], line: Line) -> LogEvent:
    made = _sizes(match, line)
    return event_of(made.kind, line, {**made.fields, "sub_pool": "mamba"})


def _summary(match: re.Match[str], line: Line) -> Iterator[LogEvent]:
    """The last line of the start: the pool, and the limits that the server settled on."""
    options = dict(printed_options(line.text[match.start() :]))
    pool: Fields = {"engine": _ENGINE, **read_fields(match)}
    if found := _FREE.search(line.text):
        pool |= read_fields(found)
    yield event_of(EventKind.ENGINE_KV_POOL, line, pool)
    kept = tuple((name, value) for name, value in options.items() if name in _LIMITS)
    if kept:
        yield event_of(EventKind.ENGINE_START, line, {"engine": _ENGINE, "options": kept})


_FREE = compile_form(r"available_gpu_mem={free_bytes:gib} GB")
_LIMITS = {"chunked_prefill_size", "max_prefill_tokens", "max_running_requests", "context_len"}

_STARTING: tuple[Pattern, ...] = (
    reading("server_args=ServerArgs(", r"server_args=ServerArgs\(", _start),
    _form(
        EventKind.ENGINE_PHASE,
        "Load weight begin.",
        r"Load weight begin\.(?: avail mem={free_bytes:gib} GB)?",
        phase="load",
        edge="begin",
    ),
    _form(
        EventKind.ENGINE_PHASE,
        "Load weight end.",
        r"Load weight end\.(?: elapsed={seconds:s} s)?(?:.{0,300}?avail mem={free_bytes:gib} GB)?",
        phase="load",
        edge="end",
    ),
    _form(
        EventKind.ENGINE_WEIGHTS,
        "Load weight end.",
        r"Load weight end\.(?: elapsed={seconds:s} s)?.{0,400}?mem usage={weights_bytes:gib} GB",
    ),
    reading(
        "KV Cache ",
        r"KV Cache (?:is allocated|VA upper bound)\b[^#]{0,80}#tokens: {pool_tokens:n}(?:[,.]|$)",
        _sizes,
    ),
    reading("KV Cache is allocated. ", r"KV Cache is allocated\. (?=K size: |KV size: )", _sizes),
    reading(
        "Mamba Cache is allocated.",
        r"Mamba Cache is allocated\.(?: max_mamba_cache_size: {sequences:n})?",
        _mamba,
    ),
    _form(
        EventKind.ENGINE_KV_POOL,
        "swa_max_total_num_tokens ",
        r"SWA ring: swa_max_total_num_tokens {from_tokens:n} -> {pool_tokens:n}",
        sub_pool="swa",
    ),
    _form(
        EventKind.ENGINE_PHASE,
        "Memory pool end.",
        r"Memory pool end\.(?: avail mem={free_bytes:gib} GB)?",
        phase="kv-allocation",
        edge="end",
    ),
    _form(
        EventKind.ENGINE_PHASE,
        "graph begin.",
        r"Capture (?:\w+ ){0,4}(?:cuda|CUDA|npu|NPU|cpu|CPU) graph begin\.(?:.{0,300}?avail mem={free_bytes:gib} GB)?",
        phase="graph-capture",
        edge="begin",
    ),
    _form(
        EventKind.ENGINE_PHASE,
        "graph end.",
        r"Capture (?:\w+ ){0,4}(?:cuda|CUDA|npu|NPU|cpu|CPU) graph end\."
        r"(?: (?:elapsed=|Time elapsed: ){seconds:s} s[.,])?(?: mem usage={took_bytes:gib} GB[.,])?"
        r"(?: avail mem={free_bytes:gib} GB)?",
        phase="graph-capture",
        edge="end",
    ),
    reading(
        "max_total_num_tokens=",
        r"(?<!\w)max_total_num_tokens={pool_tokens:n}(?:,.{0,300}?\bcontext_len={max_length_tokens:n}(?:,|$))?",
        _summary,
    ),
    _form(
        EventKind.ENGINE_PHASE,
        "The server is fired up and ready to roll",
        r"The server is fired up and ready to roll",
        phase="serving",
        edge="begin",
    ),
)


# --- what stops it ----------------------------------------------------------------------------------------------------
def _pool_exhausted(match: re.Match[str], line: Line) -> LogEvent:
    """The message goes on over the next lines; which stage it was, where it does not say, is in the frames above."""
    fields: Fields = {"engine": _ENGINE}
    if match["stage"]:
        fields["stage"] = match["stage"].lower()
    else:
        frames = "\n".join(line.preceding(12))
        named = [stage for function, stage in _STAGES.items() if function in frames]
        if len(named) == 1:
            fields["stage"] = named[0]
    said = [line.text[match.end() :]]
    for text in line.following(10):
        if "ut of memory" in text:
            break
        said.append(text)
    for detail in _POOL_DETAILS:
        if found := detail.search("\n".join(said)):
            fields |= read_fields(found)
    _name_sub_pool(fields)
    return event_of(EventKind.ENGINE_TOKEN_POOL_EXHAUSTED, line, fields)


def _last_request(match: re.Match[str], line: Line) -> LogEvent:
    """All others had been taken out, and the one that was left found no room for its next token."""
    fields: Fields = {"engine": _ENGINE, "stage": "decode", "needed_tokens": 1, "available_tokens": 0}
    for detail in _POOL_DETAILS:
        if found := detail.search(line.text, match.end()):
            fields |= read_fields(found)
    return event_of(EventKind.ENGINE_TOKEN_POOL_EXHAUSTED, line, fields)


def _name_sub_pool(fields: Fields) -> None:
    """Of a hybrid model's two pools, the only one that holds less than was asked for."""
    needed = fields.get("needed_tokens")
    pools = {name: fields.get(f"{name}_available_tokens") for name in ("full", "swa")}
    if not isinstance(needed, int):
        return
    short = [name for name, tokens in pools.items() if isinstance(tokens, int) and tokens < needed]
    if len(short) == 1:
        fields["sub_pool"] = short[0]
        fields.setdefault("available_tokens", pools[short[0]])
    elif not short and (known := [tokens for tokens in pools.values() if isinstance(tokens, int)]):
        fields.setdefault("available_tokens", min(known))


def _graph_failed(match: re.Match[str], line: Line) -> LogEvent:
    """A wrapper around any exception, whose text may begin on the next line."""
    fields: Fields = {"engine": _ENGINE, "what": "graph", **read_fields(match)}
    if "inner" not in fields:
        for text in line.following(1):
            if text.strip() and not text.startswith("Possible solutions"):
                fields["inner"] = text.strip()
    return event_of(EventKind.ENGINE_WARMUP_FAILED, line, fields)


_STAGES = {"prepare_for_verify": "verify", "prepare_for_extend": "prefill", "prepare_for_decode": "decode"}
_POOL_DETAILS = (
    compile_form(r"[Tt]r(?:y|ied) to allocate {needed_tokens:n} tokens"),
    compile_form(
        r"\bAva(?:il|li)able tokens: ?{available_tokens:n}"
        r"(?: \(available_size={free_tokens:n} \+ evictable_size={evictable_tokens:n}\))?"
    ),
    compile_form(r"self\.token_to_kv_pool(?:_allocator)?\.available_size\(\)={free_tokens:n}"),
    compile_form(r"self\.tree_cache\.evictable_size\(\)={evictable_tokens:n}"),
    compile_form(r"Available full tokens: {full_available_tokens:n}"),
    compile_form(r"(?:SWA available|Available swa) tokens: {swa_available_tokens:n}"),
)

_FAILING: tuple[Pattern, ...] = (
    _form(
        EventKind.ENGINE_KV_NONE,
        "is larger than the profiled value -",
        r"max_total_tokens={asked_tokens:n} is larger than the profiled value -[0-9]",
    ),
    _form(
        EventKind.ENGINE_KV_NONE,
        "Please try to increase --mem-fraction-static",
        r"Not enough memory\. Please try to increase --mem-fraction-static"
        r"(?:\. Current value: (?:self\.)?(?:server_args\.)?mem_fraction_static={utilization:x})?",
    ),
    _form(
        EventKind.ENGINE_KV_NONE,
        "eave no GPU memory for the KV cache",
        r"[Ll]oaded weights leave no GPU memory for the KV cache(?: under --mem-fraction-static={utilization:x})?",
    ),
    _form(
        EventKind.ENGINE_KV_NONE, "Not enough memory to allocate KV cache", r"Not enough memory to allocate KV cache"
    ),
    reading("graph failed:", r"Capture (?:\w+ ){0,4}graph failed:(?: {inner:rest})?", _graph_failed),
    reading(
        "ut of memory. Try to lower your batch size",
        r"(?:\b(?P<stage>[A-Z][a-z]{2,20}) o|\bO)ut of memory\. Try to lower your batch size",
        _pool_exhausted,
    ),
    reading("No space left for only one request", r"No space left for only one request", _last_request),
    _form(
        EventKind.SLOT_TABLE_FULL,
        "alloc_req_slots runs out of memory",
        r"alloc_req_slots runs out of memory"
        r"(?:.{0,200}?req_to_token_pool\.available_size\(\)={available:n}, num_reqs={needed:n})?",
    ),
    _form(
        EventKind.ENGINE_STATE_POOL_SHORT,
        "Not enough space for mamba cache",
        r"Not enough space for mamba cache",
        sub_pool="mamba",
    ),
    _form(
        EventKind.ENGINE_STATE_POOL_SHORT,
        "Not enough GPU memory for hybrid state cache",
        r"Not enough GPU memory for hybrid state cache(?:.{0,200}?total_rest_memory={rest_bytes:gib} ?GB)?",
        sub_pool="state",
    ),
    _form(
        EventKind.ENGINE_HOST_SHORT,
        "Not enough host memory available",
        r"Not enough host memory available"
        r"(?:\. Requesting {needed_bytes:gb} GB but only have {available_bytes:gb} GB free)?",
        what="host cache",
        fatal=True,
    ),
    _form(
        EventKind.ENGINE_RANKS_UNEVEN,
        "The memory capacity is unbalanced",
        r"The memory capacity is unbalanced\."
        r"(?:.{0,80}?\b(?:min_per_gpu_memory|pre_model_load_memory|min_available_\w{1,20}_memory)={lowest_free_bytes:gib},"
        r" local_(?:gpu|device)_memory={free_bytes:gib}\b)?",
    ),
)

# --- serving ----------------------------------------------------------------------------------------------------------
_LOAD_FIELDS: dict[str, tuple[str, type[int] | type[float]]] = {
    "#running-req": ("running", int),
    "#queue-req": ("waiting", int),
    "#transferring-req": ("transferring", int),
    "#inflight-req": ("transferring", int),
    "token usage": ("kv_usage", float),
    "full token usage": ("kv_usage", float),
    "swa token usage": ("swa_usage", float),
    "mamba usage": ("mamba_usage", float),
    "#token": ("used_tokens", int),
    "#new-token": ("new_tokens", int),
}
_PAIR = re.compile(r"(#?[a-z][a-z -]{1,30}): ([0-9]{1,12}(?:\.[0-9]{1,6})?)(?=,|$)")
"""A number at the very end of a cut line may be cut itself; at the end of a whole line it is not one of these."""


def _batch(match: re.Match[str], line: Line) -> LogEvent | None:
    fields: Fields = {"engine": _ENGINE, "stage": match["stage"].lower()}
    for name, text in _PAIR.findall(line.text[match.end() :][:1000]):
        if name in _LOAD_FIELDS:
            field, number = _LOAD_FIELDS[name]
            fields[field] = number(text) if number is float or "." not in text else float(text)
    return event_of(EventKind.ENGINE_LOAD, line, fields) if len(fields) > 2 else None


_SERVING: tuple[Pattern, ...] = (
    *(
        reading(
            f"{stage} batch",
            rf"\b(?P<stage>{stage}) batch(?: \[[0-9]{{1,12}}\])?[.,] ",
            _batch,
            periodic=True,
            peak=" token usage: ",
        )
        for stage in ("Prefill", "Decode")
    ),
    _form(
        EventKind.ENGINE_PREEMPTED,
        "#retracted_reqs: ",
        r"(?:KV cache pool is full\. Retract requests\.|Decode out of memory happened\.?)"
        r" #retracted_reqs: {retracted:n}",
        mode="retract",
    ),
)

FAMILY = Family("sglang", (*_STARTING, *_FAILING, *_SERVING))
