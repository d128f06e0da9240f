"""Engines with few messages about memory.

TensorRT-LLM, LMDeploy, MLC-LLM, MLX, DeepSpeed-Inference, FlashInfer, transformers, ComfyUI, ExLlamaV2, LM Studio
and vllm.rs.
"""

from __future__ import annotations

import re
from functools import partial

from ...model.events import EventKind, LogEvent
from .family import Family, Line, Pattern
from .forms import Fields, compile_form, expanded, form, read_fields, reading
from .statement import event_of

# --- TensorRT-LLM -----------------------------------------------------------------------------------------------------
_trt = partial(form, "tensorrt-llm")

_TENSORRT_LLM: tuple[Pattern, ...] = (
    _trt(EventKind.ENGINE_START, "TensorRT-LLM version: ", r"TensorRT-LLM version: {version:word}"),
    _trt(EventKind.ENGINE_START, "[TRT-LLM] [E] Engine building failed", r"\[TRT-LLM\] \[E\] Engine building failed"),
    _trt(
        EventKind.ENGINE_BUFFER_FAILED,
        " bytes of scratch space, but only ",
        r"requires {requested_bytes:bytes} bytes of scratch space, but only {free_bytes:bytes} is available",
        purpose="workspace",
        fatal=True,
    ),
    _trt(EventKind.ENGINE_WEIGHTS, "Loaded engine size: ", r"Loaded engine size: {weights_bytes:mib} MiB"),
    _trt(
        EventKind.ENGINE_MEMORY_TABLE,
        "[MemUsageChange] TensorRT-managed allocation in ",
        r"TensorRT-managed allocation in {what:word}.{0,40}?, GPU \+{grown_bytes:mib},"
        r" now: .{0,40}?GPU {used_bytes:mib} \(MiB\)",
    ),
    _trt(
        EventKind.ENGINE_MEMORY_TABLE,
        " for execution context memory",
        r"Allocated {compute_bytes:size} for execution context memory",
    ),
    _trt(
        EventKind.ENGINE_MEMORY_TABLE,
        " GPU memory for runtime buffers",
        r"Allocated {runtime_bytes:size} GPU memory for runtime buffers",
    ),
    _trt(
        EventKind.ENGINE_MEMORY_TABLE,
        " GPU memory for decoder",
        r"Allocated {decoder_bytes:size} GPU memory for decoder",
    ),
    _trt(
        EventKind.ENGINE_PROFILE,
        "Memory usage when calculating max tokens in paged kv cache",
        r"Memory usage when calculating max tokens in paged kv cache: total: {total_bytes:size},"
        r" available: {free_after_bytes:size}",
    ),
    _trt(EventKind.ENGINE_KV_POOL, " bytes for k/v cache", r"Allocate {pool_bytes:bytes} bytes for k/v cache"),
    _trt(
        EventKind.ENGINE_KV_POOL,
        " tokens in paged KV cache",
        r"Using {pool_tokens:n} tokens in paged KV cache",
    ),
    _trt(
        EventKind.ENGINE_KV_POOL,
        " for max tokens in paged KV cache",
        r"Allocated {pool_bytes:size} for max tokens in paged KV cache(?: \({pool_tokens:n}\))?",
    ),
    _trt(
        EventKind.ENGINE_KV_POOL,
        "Number of blocks in KV cache primary pool: ",
        r"Number of blocks in KV cache primary pool: {gpu_blocks:n}",
    ),
    _trt(
        EventKind.ENGINE_KV_POOL,
        "Number of tokens per block: ",
        r"Number of tokens per block: {block_tokens:n}",
    ),
    reading(
        "CUDA runtime error in ",
        r"CUDA runtime error in (?:::)?{call:word}\(.{0,200}?: out of memory(?: \((?P<site__word>[^\s:()]{1,200}):)?",
        lambda match, line: event_of(
            EventKind.ENGINE_BUFFER_FAILED,
            line,
            {"engine": "tensorrt-llm", "purpose": _asked_for(line), "fatal": True, **read_fields(match)},
        ),
    ),
)


def _asked_for(line: Line) -> str:
    """A step's buffers, where the error or its stack names a step; what the build bounds is made before any step."""
    said = (*line.preceding(2), line.text, *line.following(8))
    return "runtime" if any(_OF_A_STEP.search(text) for text in said) else "unknown"


_OF_A_STEP = re.compile(
    r"\bforward(?:A?[Ss]ync)\b|RuntimeBuffers::(?:reshape|prepareStep|setFromInputs)|::executeStep\b|::executeBatch\b"
)


def _component(match: re.Match[str], line: Line) -> LogEvent:
    """The executor's account: which component could not be made, and what was free before it was tried."""
    fields: Fields = {"engine": "tensorrt-llm", "purpose": "unknown", "fatal": True}
    for text in line.following(8):
        if found := _COMPONENT.search(text):
            fields["purpose"] = "kv" if "KV cache" in found[1] else "weights" if found[1] == "Model" else "unknown"
        for part in _EXECUTOR:
            if found := part.search(text):
                fields |= read_fields(found)
    return event_of(EventKind.ENGINE_BUFFER_FAILED, line, fields)


_COMPONENT = re.compile(r"The following component could not be created: (\S.{0,80}?)\s*$")
_EXECUTOR = (
    compile_form(r"^Total GPU memory \(GiB\): {total_bytes:gib}\s*$"),
    compile_form(r"^Free GPU memory before component creation attempt \(GiB\): {free_bytes:gib}\s*$"),
)
_TENSORRT_LLM += (
    reading(
        "Executor creation failed due to insufficient GPU memory",
        r"Executor creation failed due to insufficient GPU memory",
        _component,
    ),
    _trt(
        EventKind.ENGINE_TOKEN_POOL_EXHAUSTED,
        "No free blocks left",
        r"Can't allocate new blocks\. No free blocks left",
    ),
)

# --- LMDeploy ---------------------------------------------------------------------------------------------------------
_lmdeploy = partial(form, "lmdeploy")


def _ignored(match: re.Match[str], line: Line) -> LogEvent:
    names = tuple(re.findall(r"'(\w{1,60})'", match["names"]))
    return event_of(EventKind.ENGINE_START, line, {"engine": "lmdeploy", "ignored_options": names})


_LMDEPLOY: tuple[Pattern, ...] = (
    _lmdeploy(
        EventKind.ENGINE_BUFFER_FAILED,
        "[TM][ERROR]",
        r"\[TM\]\[ERROR\] +CUDA runtime error: out of memory(?: (?P<site__word>[^\s:()]{1,300}):)?",
        purpose="unknown",
        fatal=True,
    ),
    _lmdeploy(
        EventKind.ENGINE_KV_NONE,
        "No enough gpu memory for ",
        r"No enough gpu memory for (?:runtime|kv cache|state cache)",
    ),
    _lmdeploy(EventKind.ENGINE_TOKEN_POOL_EXHAUSTED, "No enough blocks.", r"\[TM\]\[ERROR\] +No enough blocks\."),
    _lmdeploy(EventKind.SLOT_TABLE_FULL, "No enough cache entries", r"No enough cache entries"),
    _lmdeploy(
        EventKind.ENGINE_KV_POOL,
        "[BlockManager] max_block_count",
        r"\[BlockManager\] max_block_count = {gpu_blocks:n}",
    ),
    Pattern(
        "loading from workspace, ignore args",
        r"loading from workspace, ignore args \[(?P<names>[^\]]{1,400})\]",
        _ignored,
    ),
)

# --- MLC-LLM ----------------------------------------------------------------------------------------------------------
_mlc = partial(form, "mlc")


def _insufficient(match: re.Match[str], line: Line) -> tuple[LogEvent, LogEvent]:
    table: Fields = {"engine": "mlc", **read_fields(match)}
    short: Fields = {"engine": "mlc"}
    if "available_bytes" in table:
        short["budget_bytes"] = table["available_bytes"]
    return (
        event_of(EventKind.ENGINE_STARTUP_SHORT, line, short),
        event_of(EventKind.ENGINE_MEMORY_TABLE, line, table),
    )


_MLC: tuple[Pattern, ...] = (
    reading(
        "Insufficient GPU memory error",
        r"Insufficient GPU memory error(?:: The available single GPU memory is {available_bytes:mib} MB"
        r"(?:, which is less than the sum of model weight size \({model_bytes:mib} MB\)"
        r"(?: and temporary buffer size \({temporary_bytes:mib} MB\))?)?)?",
        _insufficient,
    ),
    _mlc(
        EventKind.ENGINE_MEMORY_TABLE,
        "stimated total single GPU memory usage",
        r"stimated total single GPU memory usage: {used_bytes:mib} MB"
        r"(?: \(Parameters: {model_bytes:mib} MB\. KVCache: {context_bytes:mib} MB\."
        r" Temporary buffer: {temporary_bytes:mib} MB\))?",
    ),
    _mlc(
        EventKind.WORKSPACE_TOO_SMALL,
        "storage allocation failure, attempted to allocate ",
        r"storage allocation failure, attempted to allocate {requested_bytes:bytes} at offset [0-9]{1,20}"
        r" in region that is {available_bytes:bytes} ?bytes",
        library="tvm",
    ),
    _mlc(
        EventKind.ENGINE_KV_POOL,
        "max KV cache token capacity ",
        r"max KV cache token capacity (?:will be set to|is set to|is) {pool_tokens:n}",
    ),
)

# --- TVM, which MLC and others run on ---------------------------------------------------------------------------------
_OF_A_BACKTRACE = 40
"""Lines of TVM's backtrace at most, outermost call last; the error itself stands below them."""


def _loading_parameters(match: re.Match[str], line: Line) -> LogEvent | None:
    if any("OUT_OF_DEVICE_MEMORY" in text or "out of memory" in text for text in line.following(_OF_A_BACKTRACE)):
        return event_of(EventKind.ENGINE_STEP_FAILED, line, {"engine": "other", "step": "load_weights"})
    return None


_TVM: tuple[Pattern, ...] = (
    Pattern("LoadParams", r"^\s*\d{1,3}: (?:\S{0,200}::)?LoadParams\b", _loading_parameters),
    Pattern(
        "VK_ERROR_OUT_OF_DEVICE_MEMORY",
        r"\bVulkan Error, code=-2: VK_ERROR_OUT_OF_DEVICE_MEMORY",
        lambda match, line: event_of(EventKind.DEVICE_OOM, line, {"backend": "vulkan"}),
    ),
)

# --- MLX --------------------------------------------------------------------------------------------------------------
_mlx = partial(form, "mlx")


def _not_run(line: Line, fields: Fields) -> LogEvent:
    """Work that Metal could not run; that the server had answered before says that its model fits."""
    served = any(_SERVED.search(text) for text in line.preceding(_BEFORE))
    return event_of(EventKind.DEVICE_OOM, line, {**fields, "served": True} if served else fields)


_BEFORE = 40
_SERVED = re.compile(r"\"POST [^\"]{1,300} HTTP/[0-9.]{1,3}\"\W{1,3}2[0-9][0-9]\b")

_MLX: tuple[Pattern, ...] = (
    _mlx(
        EventKind.DEVICE_OOM,
        "[metal::malloc]",
        r"\[metal::malloc\] (?:Attempting|Unable) to allocate {requested_bytes:bytes} bytes"
        r"(?: which is greater than the maximum allowed buffer size of {buffer_limit_bytes:bytes} bytes)?",
        backend="metal",
    ),
    _mlx(
        EventKind.SLOT_TABLE_FULL,
        "[metal::malloc] Resource limit",
        r"\[metal::malloc\] Resource limit \({limit:n}\) exceeded",
    ),
    Pattern(
        "kIOGPUCommandBufferCallbackErrorOutOfMemory",
        r"(?:\berror:|\bcommand buffer was aborted due to an error during execution\.) Insufficient Memory"
        r" \(\w{1,20}:kIOGPUCommandBufferCallbackErrorOutOfMemory\)",
        lambda match, line: _not_run(line, {"backend": "metal"}),
    ),
    Pattern(
        "[METAL] Command buffer execution failed: Insufficient Memory",
        r"\[METAL\] Command buffer execution failed: Insufficient Memory",
        lambda match, line: _not_run(line, {"engine": "mlx", "backend": "metal"}),
    ),
)

# --- DeepSpeed-Inference ----------------------------------------------------------------------------------------------
_GIGABYTES = (
    compile_form(r"Total memory: {total_bytes:gib} \(GigaBytes\)"),
    compile_form(r"Requested memory: {requested_bytes:gib} \(GigaBytes\)"),
    compile_form(r"Setting maximum total tokens \(input \+ output\) to {max_length_tokens:n}"),
)
_EXACT = (
    compile_form(r"^Requested:\s{1,8}{requested_bytes:bytes}\s*$"),
    compile_form(r"^Free:\s{1,8}{free_bytes:bytes}\s*$"),
    compile_form(r"^Total:\s{1,8}{total_bytes:bytes}\s*$"),
)


def _workspace(match: re.Match[str], line: Line) -> LogEvent:
    """The block that DeepSpeed prints as it sets its inference workspace aside."""
    fields: Fields = {"engine": "deepspeed", **read_fields(match)}
    for text in line.following(3):
        for part in _GIGABYTES:
            if found := part.search(text):
                fields |= read_fields(found)
    return event_of(EventKind.ENGINE_MEMORY_TABLE, line, fields)


def _no_workspace(match: re.Match[str], line: Line) -> LogEvent:
    """The sizes, where they are given, stand above the exception, with the traceback between."""
    fields: Fields = {"engine": "deepspeed", "purpose": "workspace", "fatal": True}
    for text in line.preceding(60):
        for part in _EXACT:
            if found := part.search(text):
                fields |= read_fields(found)
    return event_of(EventKind.ENGINE_BUFFER_FAILED, line, fields)


_DEEPSPEED: tuple[Pattern, ...] = (
    reading("Workspace is null.", r"\bWorkspace is null\.", _no_workspace),
    reading("(GigaBytes)", r"Free memory : {free_bytes:gib} \(GigaBytes\)", _workspace),
)

# --- FlashInfer, which several engines call ---------------------------------------------------------------------------
_FLASHINFER: tuple[Pattern, ...] = (
    Pattern(
        "in AlignedAllocator",
        expanded(
            r"allocat(?:e|ing) memory for {buffer:word} with size {requested_bytes:bytes} and alignment [0-9]{1,6},?"
            r"(?: but only {available_bytes:bytes} bytes available)? in AlignedAllocator"
        ),
        lambda match, line: event_of(
            EventKind.WORKSPACE_TOO_SMALL, line, {"library": "flashinfer", **read_fields(match)}
        ),
    ),
)

# --- transformers -----------------------------------------------------------------------------------------------------
_transformers = partial(form, "transformers")


def _offloaded(match: re.Match[str], line: Line) -> LogEvent:
    places = tuple(place for place in ("cpu", "disk") if re.search(rf"\b{place}\b", match["places"].lower()))
    return event_of(EventKind.ENGINE_WEIGHTS, line, {"engine": "transformers", "offloaded_to": places})


_TRANSFORMERS: tuple[Pattern, ...] = (
    Pattern(
        "on the meta device because they were offloaded to",
        r"on the meta device because they were offloaded to the (?P<places>(?:cpu|disk)(?: and (?:cpu|disk))?)",
        _offloaded,
    ),
    _transformers(
        EventKind.ENGINE_BUFFER_FAILED,
        "enough GPU RAM to fit the ",
        r"(?:Make sure you|you don't) have enough GPU RAM to fit the (?:quantized |entire )?model",
        purpose="weights",
        fatal=True,
    ),
    _transformers(
        EventKind.ENGINE_FIT,
        "Some modules are dispatched on the CPU or the disk",
        r"Some modules are dispatched on the CPU or the disk",
        outcome="failed",
    ),
    _transformers(
        EventKind.INPUT_LENGTH,
        "Token indices sequence length is longer than",
        r"Token indices sequence length is longer than the specified maximum sequence length for this model"
        r" \({tokens:n} > {limit_tokens:n}\)",
    ),
)

# --- ComfyUI and diffusers --------------------------------------------------------------------------------------------
_comfy = partial(form, "comfyui")
_NODE_DETAILS = (
    compile_form(r"\*\*Exception Type:\*\* {exception_type:word}"),
    compile_form(r"\*\*Exception Message:\*\* {inner:rest}"),
)


def _node(match: re.Match[str], line: Line) -> LogEvent:
    """The head of ComfyUI's error report: which node of the workflow failed, and of what."""
    fields: Fields = {"engine": "comfyui", **read_fields(match)}
    for text in line.following(4):
        for part in _NODE_DETAILS:
            if found := part.search(text):
                fields |= read_fields(found)
    return event_of(EventKind.ENGINE_STEP_FAILED, line, fields)


def _loading(match: re.Match[str], line: Line) -> LogEvent | None:
    """What was loaded as memory ran out, told in the next lines."""
    if not any("ut of memory" in text for text in (line.text, *line.preceding(3))):
        return None
    return event_of(EventKind.ENGINE_STEP_FAILED, line, {"step": "load_model"})


_COMFYUI: tuple[Pattern, ...] = (
    Pattern(
        "model failed to load",
        r"^(?:\w{1,20} ){0,4}model failed to load\s*$",
        lambda match, line: event_of(EventKind.ENGINE_STEP_FAILED, line, {"step": "load_model"}),
    ),
    Pattern(
        "Error while loading ",
        r"\bError while loading (?:\w{1,20} ){0,2}"
        r"(?:transformer|unet|vae|model|checkpoint|component|module|\w{0,12}encoder)\b",
        _loading,
    ),
    reading("**Node Type:**", r"\*\*Node Type:\*\* {step:word}", _node),
    _comfy(
        EventKind.ENGINE_BUFFER_FAILED,
        "Got an OOM, unloading all loaded models",
        r"Got an OOM, unloading all loaded models",
        purpose="unknown",
    ),
    _comfy(
        EventKind.ENGINE_WEIGHTS,
        "loaded partially; ",
        r"loaded partially; [0-9.]{1,20} MB usable, {weights_bytes:mib} MB loaded,"
        r" {host_weights_bytes:mib} MB offloaded",
    ),
    _comfy(
        EventKind.RECOVERED,
        "Ran out of memory when regular VAE",
        r"Ran out of memory when regular VAE {step:word}, retrying with tiled",
        how="fallback",
    ),
    _comfy(
        EventKind.HOST_STATE,
        "Total VRAM ",
        r"Total VRAM {device_total_bytes:mib} MB, total RAM {total_bytes:mib} MB",
    ),
)

# --- ExLlamaV2 --------------------------------------------------------------------------------------------------------
_EXLLAMA: tuple[Pattern, ...] = (
    form(
        "exllama",
        EventKind.ENGINE_BUFFER_FAILED,
        "Insufficient VRAM ",
        r"Insufficient VRAM (?:in split )?for model and cache",
        purpose="weights",
        fatal=True,
    ),
)

# --- LM Studio --------------------------------------------------------------------------------------------------------
_NO_ESTIMATE = re.compile(r"requires approximately NaN\b")


def _guarded(match: re.Match[str], line: Line) -> LogEvent:
    """The guard at loading goes by an estimate, of which the report gives the size, or shows that there is none."""
    if _NO_ESTIMATE.search(line.text):
        fields: Fields = {"engine": "lmstudio", "outcome": "failed", "reason": "no estimate"}
        return event_of(EventKind.ENGINE_FIT, line, fields)
    fields = {"engine": "lmstudio", "what": "guard at loading", "fatal": True, **read_fields(match)}
    return event_of(EventKind.ENGINE_HOST_SHORT, line, fields)


_LM_STUDIO: tuple[Pattern, ...] = (
    reading(
        "due to insufficient system resources",
        r"odel loading (?:was stopped|(?:was )?aborted) due to insufficient system resources"
        r"(?:\..{0,80}?requires approximately {needed_bytes:size} of memory)?",
        _guarded,
    ),
    Pattern(
        "Not enough resources to load the model",
        r"Not enough resources to load the model with the current settings",
        _guarded,
    ),
    Pattern(
        "emory estimate unavailable for this model",
        r"[Mm]emory estimate unavailable for this model",
        lambda match, line: event_of(
            EventKind.ENGINE_FIT, line, {"engine": "lmstudio", "outcome": "failed", "reason": "no estimate"}
        ),
    ),
)

# --- vllm.rs ----------------------------------------------------------------------------------------------------------
_VLLM_RS: tuple[Pattern, ...] = (
    form(
        "vllm.rs",
        EventKind.ENGINE_TOKEN_POOL_EXHAUSTED,
        " kvcache tokens, but your prompt requires ",
        r"Remaining {available_tokens:n} kvcache tokens, but your prompt requires {needed_tokens:n} new tokens",
        stage="prefill",
    ),
)

FAMILIES: tuple[Family, ...] = (
    Family("tensorrt-llm", _TENSORRT_LLM),
    Family("lmdeploy", _LMDEPLOY),
    Family("mlc", _MLC),
    Family("tvm", _TVM),
    Family("mlx", _MLX),
    Family("deepspeed-inference", _DEEPSPEED),
    Family("flashinfer", _FLASHINFER),
    Family("transformers", _TRANSFORMERS),
    Family("comfyui", _COMFYUI),
    Family("exllama", _EXLLAMA),
    Family("lmstudio", _LM_STUDIO),
    Family("vllm.rs", _VLLM_RS),
)
