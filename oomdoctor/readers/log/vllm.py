"""vLLM, V0 and V1: its start-up report, and why it did not start."""

from __future__ import annotations

import re
from functools import partial

from ...model.events import EventKind, LogEvent
from .family import Family, Line, Pattern
from .forms import form, read_fields, reading
from .printed_options import printed_options
from .statement import event, event_of
from .vllm_serving import SERVING, TOLD_TO_CLIENTS

_ENGINE = "vllm"
_form = partial(form, _ENGINE)


# --- starting ---------------------------------------------------------------------------------------------------------
def _start(match: re.Match[str], line: Line) -> LogEvent:
    options = printed_options(line.text[match.end() :].lstrip("{"), closed=match["closed"] is not None)
    return event_of(EventKind.ENGINE_START, line, {"engine": _ENGINE, **read_fields(match), "options": options})


_START: tuple[Pattern, ...] = (
    reading(
        "LLM engine",
        r"Initializing (?:an?|a V1) LLM engine (?:\(v{version:word}\) )?with config: (?P<closed>\()?",
        _start,
    ),
    reading("non-default args: {", r"non-default args: (?P<closed>\{)", _start),
    reading("args: Namespace(", r"args: Namespace(?P<closed>\()", _start),
    _form(
        EventKind.ENGINE_STEP_FAILED,
        " while processing method ",
        r"Exception in worker \S{1,60} while processing method {step:word}",
    ),
    _form(
        EventKind.ENGINE_STEP_FAILED,
        "Writing input of failed execution to",
        r"\bWriting input of failed {step:word} to ",
    ),
    _form(EventKind.ENGINE_START, "vLLM API server version", r"vLLM API server version v?{version:word}"),
    _form(EventKind.ENGINE_START, "█  version ", r"█  version v?{version:word}"),
    _form(
        EventKind.PARALLELISM,
        " in world size ",
        r"rank [0-9]{1,6} in world size {world_size:n} is assigned as DP rank",
    ),
    _form(EventKind.HOST_STATE, "as WSL is detected", r"Using 'pin_memory=False' as WSL is detected", platform="wsl"),
)

# --- weights ----------------------------------------------------------------------------------------------------------
_WEIGHTS: tuple[Pattern, ...] = (
    _form(EventKind.ENGINE_PHASE, "Starting to load model", r"Starting to load model\b", phase="load", edge="begin"),
    _form(
        EventKind.ENGINE_WEIGHTS,
        "Loading model weights took",
        r"Loading model weights took {weights_bytes:gib} Gi?B(?: and {seconds:s} seconds)?",
    ),
    _form(
        EventKind.ENGINE_WEIGHTS,
        "Model loading took",
        r"Model loading took {weights_bytes:gib} Gi?B(?: memory)?(?: and {seconds:s} seconds)?",
    ),
    _form(
        EventKind.ENGINE_PHASE,
        "Loading weights took",
        r"Loading weights took {seconds:s} seconds",
        phase="load",
        edge="end",
    ),
    _form(
        EventKind.ENGINE_BUFFER_FAILED,
        "Failed to load model - not enough GPU memory",
        r"Failed to load model - not enough GPU memory(?:.{0,400}?\(original error: {inner:rest})?",
        purpose="weights",
        fatal=True,
    ),
)

# --- the budget -------------------------------------------------------------------------------------------------------
_PROFILE: tuple[Pattern, ...] = (
    _form(
        EventKind.ENGINE_PROFILE,
        "Memory profiling results: ",
        r"Memory profiling results: total_gpu_memory={total_bytes:gib}GiB"
        r"(?: initial_memory_usage={initial_used_bytes:gib}GiB)?"
        r"(?: peak_torch_memory={torch_peak_bytes:gib}GiB)?"
        r"(?: memory_usage_post_profile={used_after_bytes:gib}GiB)?"
        r"(?: non_torch_memory={non_torch_bytes:gib}GiB)?"
        r"(?: kv_cache_size={kv_bytes:gib}GiB)?"
        r"(?: gpu_memory_utilization={utilization:x})?",
    ),
    _form(
        EventKind.ENGINE_PROFILE,
        "the current vLLM instance can use",
        r"can use total_gpu_memory \({total_bytes:gib} ?GiB\) x gpu_memory_utilization \({utilization:x}\)"
        r"(?: = {budget_bytes:gib} ?GiB)?",
    ),
    _form(
        EventKind.ENGINE_PROFILE,
        "model weights take ",
        r"model weights take {weights_bytes:gib} ?GiB"
        r"(?:; non_torch_memory takes {non_torch_bytes:gib} ?GiB)?"
        r"(?:; PyTorch activation peak memory takes {activation_peak_bytes:gib} ?GiB)?"
        r"(?:; the rest of the memory reserved for KV Cache is {kv_bytes:gib} ?GiB)?",
    ),
    _form(
        EventKind.ENGINE_PHASE,
        "Memory profiling takes",
        r"Memory profiling takes {seconds:s} seconds",
        phase="profile",
        edge="end",
    ),
    _form(
        EventKind.ENGINE_PROFILE,
        "Total non KV cache memory: ",
        r"Total non KV cache memory: {non_kv_bytes:gib} ?GiB"
        r"(?:; torch peak memory increase: {activation_peak_bytes:gib} ?GiB)?"
        r"(?:; non-torch forward increase memory: {non_torch_bytes:gib} ?GiB)?"
        r"(?:; weights memory: {weights_bytes:gib} ?GiB)?",
    ),
    _form(
        EventKind.ENGINE_PROFILE,
        "Initial free memory: ",
        r"Initial free memory: {initial_free_bytes:gib} GiB; Requested memory: {utilization:x} \(util\),"
        r" {budget_bytes:gib} GiB",
    ),
    _form(
        EventKind.ENGINE_PROFILE,
        "Free memory after profiling: ",
        r"Free memory after profiling: {free_after_bytes:gib} GiB \(total\)"
        r"(?:, {budget_left_bytes:gib} GiB \(within requested\))?",
    ),
    _form(
        EventKind.ENGINE_PROFILE,
        "Desired GPU memory utilization is (",
        r"Free memory on device (?:\w{1,12}:{device:n} )?\({initial_free_bytes:gib}/{total_bytes:gib} GiB\)"
        r" on startup\. Desired GPU memory utilization is \({utilization:x}, {budget_bytes:gib} GiB\)\."
        r"(?: Actual usage is"
        r" (?:{weights_bytes:gib} GiB for weight|{consumed_bytes:gib} GiB for consumed memory"
        r" \(weights \+ non-torch\)),"
        r" {activation_peak_bytes:gib} GiB for peak activation,"
        r"(?: {non_torch_bytes:gib} GiB for non-torch memory,)?"
        r"(?: and {graph_bytes:gib} GiB for CUDAGraph memory)?)?"
        r"(?:.{0,400}?Current kv cache memory in use is {kv_bytes:size})?",
    ),
    _form(
        EventKind.ENGINE_PROFILE,
        "non_torch_allocations_before=",
        r"non_torch_allocations={non_torch_bytes:bytes}, non_torch_allocations_before={non_torch_before_bytes:bytes}",
    ),
    _form(
        EventKind.ENGINE_PROFILE,
        "Estimated CUDA graph memory: ",
        r"Estimated CUDA graph memory: {graph_estimate_bytes:gib} GiB",
    ),
    _form(
        EventKind.ENGINE_PROFILE,
        "CUDA graph pool memory: ",
        r"CUDA graph pool memory: {graph_bytes:gib} GiB \(actual\)(?:, {graph_estimate_bytes:gib} GiB \(estimated\))?",
    ),
    _form(
        EventKind.ENGINE_PROFILE,
        "without CUDA graph memory profiling",
        r"current --gpu-memory-utilization={utilization:x} is equivalent to"
        r" --gpu-memory-utilization={equivalent_utilization:x} without CUDA graph memory profiling"
        r"(?:.{0,120}?increase --gpu-memory-utilization to {same_kv_utilization:x})?",
    ),
    _form(
        EventKind.ENGINE_PHASE,
        "Profiling CUDA graph memory: ",
        r"Profiling CUDA graph memory: \w",
        phase="profile",
        edge="begin",
    ),
    _form(
        EventKind.ENGINE_STARTUP_SHORT,
        "on startup is less than desired GPU memory utilization",
        r"Free memory on device (?:\w{1,12}:{device:n} )?\({free_bytes:gib}/{total_bytes:gib} GiB\) on startup"
        r" is less than desired GPU memory utilization(?: \({utilization:x}, {wanted_bytes:gib} GiB\))?",
    ),
    reading(
        "Error in memory profiling",
        r"Error in memory profiling\."
        r"(?: Initial free memory {initial_free_bytes:size}, current free memory {current_free_bytes:size})?",
        lambda match, line: _over_lines(EventKind.ENGINE_NEIGHBOUR_CHANGED, match, line),
    ),
)


# --- the KV pool ------------------------------------------------------------------------------------------------------
def _too_small(match: re.Match[str], line: Line) -> LogEvent:
    return _over_lines(EventKind.ENGINE_KV_TOO_SMALL, match, line)


def _over_lines(kind: EventKind, match: re.Match[str], line: Line) -> LogEvent:
    """A long sentence: where it was pasted with line breaks, its figures are on the next lines."""
    fields = read_fields(match)
    joined = " ".join([line.text, *(text.strip() for text in line.following(3))])
    if found := match.re.search(joined):
        fields = {**read_fields(found), **fields}
    return event_of(kind, line, {"engine": _ENGINE, **fields})


def _no_blocks(match: re.Match[str], line: Line) -> LogEvent | None:
    """A pool without a block, of which the engine's error has not been printed or is not there."""
    if any("No available memory for the cache blocks" in text for text in line.following(400)):
        return None
    return event(EventKind.ENGINE_KV_NONE, line, engine=_ENGINE)


_KV: tuple[Pattern, ...] = (
    _form(
        EventKind.ENGINE_KV_AVAILABLE, "Available KV cache memory", r"Available KV cache memory: {kv_bytes:gib} Gi?B"
    ),
    _form(
        EventKind.ENGINE_KV_POOL,
        ", # CPU blocks: ",
        r"# \w{2,8} blocks: {gpu_blocks:n}, # CPU blocks: {cpu_blocks:n}",
    ),
    _form(EventKind.ENGINE_KV_POOL, "# GPU blocks: ", r"# GPU blocks: {gpu_blocks:n}\s*$"),
    Pattern(" blocks: 0, # CPU blocks: ", r"# [GCXTN]PU blocks: 0, # CPU blocks: ", _no_blocks),
    _form(
        EventKind.ENGINE_KV_POOL,
        "KV cache size: ",
        r"\b[GCXT]PU KV cache size: {pool_tokens:n} tokens"
        r"(?:, Maximum concurrency for {max_length_tokens:n} tokens(?: per request: {concurrency:x}x)?)?",
    ),
    _form(
        EventKind.ENGINE_KV_POOL,
        "Maximum concurrency for ",
        r"(?<!tokens, )Maximum concurrency for {max_length_tokens:n} tokens per request: {concurrency:x}x",
    ),
    _form(
        EventKind.ENGINE_KV_POOL,
        "GPU KV cache size by the cp_world_size",
        r"Multiplying the GPU KV cache size by the cp_world_size {multiplied_by:n}",
    ),
    _form(
        EventKind.ENGINE_KV_POOL,
        "Setting attention block size to ",
        r"Setting attention block size to {block_tokens:n} tokens",
    ),
    _form(
        EventKind.ENGINE_KV_NONE,
        "No available memory for the cache blocks",
        r"No available memory for the cache blocks",
    ),
    _form(
        EventKind.ENGINE_KV_TOO_SMALL,
        "is larger than the maximum number of tokens that can be stored in KV cache",
        r"max seq len \({needed_tokens:n}\) is larger than the maximum number of tokens that can be stored in KV cache"
        r"(?: \({pool_tokens:n}\))?",
    ),
    reading(
        "To serve at least one request with the model",
        r"To serve at least one request with the models?'s max seq len"
        r"(?: \({needed_tokens:n}\),? \(?{needed_bytes:gib} GiB KV cache is needed"
        r"(?:, which is larger than the available KV cache memory \({available_bytes:gib} GiB\))?)?"
        r"(?:.{0,120}?[Ee]stimated maximum model length is {fitting_tokens:n}\b)?",
        _too_small,
    ),
    _form(
        EventKind.ENGINE_FIT,
        "Auto-fit max_model_len: reduced",
        r"Auto-fit max_model_len: reduced from {from_tokens:n} to {to_tokens:n}(?:.{0,60}?\({kv_bytes:gib} GiB)?",
        outcome="reduced",
    ),
    _form(
        EventKind.ENGINE_FIT,
        "Auto-fit max_model_len: full",
        r"Auto-fit max_model_len: full model context length {to_tokens:n} fits",
        outcome="fits",
    ),
    _form(EventKind.ENGINE_FIT, "Cannot auto-fit max_model_len", r"Cannot auto-fit max_model_len", outcome="failed"),
    _form(
        EventKind.ENGINE_STATE_POOL_SHORT,
        "ybrid KV cache manager is disabled",
        r"ybrid KV cache manager is disabled",
        hybrid_manager_disabled=True,
        fatal=False,
    ),
    _form(
        EventKind.ENGINE_STATE_POOL_SHORT,
        "Turning off hybrid kv cache manager",
        r"Turning off hybrid kv cache manager",
        hybrid_manager_disabled=True,
        fatal=False,
    ),
    _form(
        EventKind.ENGINE_STATE_POOL_SHORT,
        "exceeds available Mamba cache blocks",
        r"max_num_seqs \({needed:n}\) exceeds available Mamba cache blocks(?: \({available:n}\))?",
        sub_pool="mamba",
    ),
)


# --- multi-modal encoders ---------------------------------------------------------------------------------------------
def _encoder(match: re.Match[str], line: Line) -> LogEvent:
    shares = re.findall(r"'(\w{1,40})': ([0-9]{1,12})", line.text[match.end() :][:400])
    fields = {"engine": _ENGINE, **read_fields(match)}
    if shares:
        fields["modalities"] = tuple((name, int(tokens)) for name, tokens in shares)
    return event_of(EventKind.ENGINE_ENCODER_BUDGET, line, fields)


_ENCODER: tuple[Pattern, ...] = (
    reading(
        "too short to hold the multi-modal embeddings",
        r"(?:= {profiled_tokens:n}\)|The context length \({context_tokens:n}\) of the model)"
        r" is too short to hold the multi-modal embeddings in the worst case \({worst_case_tokens:n} tokens",
        _encoder,
    ),
    _form(
        EventKind.ENGINE_ENCODER_BUDGET,
        "Encoder cache will be initialized",
        r"Encoder cache will be initialized with a budget of {budget_tokens:n} tokens"
        r"(?:,? and profiled with {items:n} {modality:word} items)?",
    ),
    _form(
        EventKind.ENGINE_PHASE,
        "Starting profile run for multi-modal models",
        r"Starting profile run for multi-modal models",
        phase="profile",
        edge="begin",
        mode="multi-modal",
    ),
)

# --- graphs, warm-up, end of the start --------------------------------------------------------------------------------
_WARM_UP: tuple[Pattern, ...] = (
    _form(
        EventKind.ENGINE_PHASE,
        "Capturing the model for CUDA graphs",
        r"Capturing the model for CUDA graphs",
        phase="graph-capture",
        edge="begin",
    ),
    _form(
        EventKind.ENGINE_PHASE,
        "Capturing cudagraphs for decoding",
        r"Capturing cudagraphs for decoding",
        phase="graph-capture",
        edge="begin",
    ),
    _form(
        EventKind.ENGINE_PHASE,
        "CUDA graphs can take additional",
        r"CUDA graphs can take additional",
        phase="graph-capture",
        edge="begin",
    ),
    _form(
        EventKind.ENGINE_PHASE,
        "Capturing CUDA graph",
        r"Capturing CUDA graph(?:s| shapes)(?: \((?:[^(),]{1,40}, )?{mode:word}\))?: {1,4}{done_ratio:percent}%"
        r"(?:\|[^|]{0,200}\| {done:n}/{total:n})?",
        phase="graph-capture",
        edge="progress",
    ),
    _form(
        EventKind.ENGINE_PHASE,
        "Graph capturing finished in ",
        r"Graph capturing finished in {seconds:s} secs?(?:, took {took_bytes:gib} GiB)?",
        phase="graph-capture",
        edge="end",
    ),
    _form(
        EventKind.ENGINE_PHASE,
        "init engine (profile, create kv cache, warmup model) took",
        r"warmup model\) took {seconds:s} seconds",
        phase="warm-up",
        edge="end",
    ),
    _form(
        EventKind.ENGINE_PHASE,
        "Starting vLLM API server",
        r"Starting vLLM API server\b",
        phase="serving",
        edge="begin",
    ),
    _form(
        EventKind.ENGINE_WARMUP_FAILED,
        "out of memory occurred when warming up ",
        r"out of memory occurred when warming up (?P<what__word>sampler|pooler|\w{1,40})"
        r"(?: \(task='{task:word}'\))?(?: with {sequences:n} dummy requests)?",
    ),
)

# --- host memory ------------------------------------------------------------------------------------------------------
_HOST: tuple[Pattern, ...] = (
    _form(
        EventKind.ENGINE_HOST_SHORT,
        "Too large swap space",
        r"Too large swap space\."
        r"(?: {needed_bytes:gib} GiB out of the {total_bytes:gib} GiB total CPU memory)?",
        what="swap space",
        fatal=True,
    ),
    _form(
        EventKind.ENGINE_HOST_SHORT,
        "Possibly too large swap space",
        r"Possibly too large swap space\."
        r"(?: {needed_bytes:gib} GiB out of the {total_bytes:gib} GiB total CPU memory)?",
        what="swap space",
        fatal=False,
    ),
    _form(
        EventKind.ENGINE_TOKEN_POOL_EXHAUSTED,
        "due to the lack of CPU swap space",
        r"Aborted due to the lack of CPU swap space",
        stage="swap",
    ),
)

FAMILY = Family("vllm", (*_START, *_WEIGHTS, *_PROFILE, *_KV, *_ENCODER, *_WARM_UP, *_HOST, *SERVING, *TOLD_TO_CLIENTS))
