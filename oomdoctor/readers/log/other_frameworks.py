"""Device memory running out in what is neither torch nor an engine: CuPy, RAPIDS, Paddle, MXNet, browsers, others."""

from __future__ import annotations

import re

from ...model.events import EventKind, LogEvent
from .family import Build, Family, Line, Pattern
from .prose import printed
from .statement import SIZE, event, integer, size


def _paddle(match: re.Match[str], line: Line) -> LogEvent:
    """What is free follows on the same line or, wrapped, on one of the next; newer ones say what is held."""
    text = " ".join([line.text[match.end() :], *line.following(2)])
    allocated, free = _PADDLE_ALLOCATED.search(text), _PADDLE_FREE.search(text)
    return event(
        EventKind.DEVICE_OOM,
        line,
        integer(match["device"]),
        backend="paddle",
        requested_bytes=size(match["request"]),
        allocated_bytes=size(allocated[1]) if allocated else None,
        free_bytes=size(free[1]) if free else None,
    )


_PADDLE_ALLOCATED = re.compile(rf"({SIZE}) memory has been allocated")
_PADDLE_FREE = re.compile(rf"available memory is only\s{{1,40}}({SIZE})")


def _darknet(match: re.Match[str], line: Line) -> LogEvent | None:
    """The advice stands before what it is about."""
    after_its_layer = re.search(r"\s{2}\d{1,4} $", line.text[: match.start()])
    if not after_its_layer and not printed(line.text, match.start(), match.end()):
        return None
    if any("Try to set subdivisions=" in text for text in line.preceding(4)):
        return None
    return event(EventKind.DEVICE_OOM, line, backend="other")


def _onnx(match: re.Match[str], line: Line) -> tuple[LogEvent, ...]:
    """ONNX Runtime says before the size whether a session was being made, or which node of the graph ran."""
    failed = event(
        EventKind.DEVICE_OOM,
        line,
        backend="onnxruntime",
        requested_bytes=size(match["request"]),
        free_bytes=size(match.groupdict().get("free")),
    )
    said = " ".join([*line.preceding(2), line.text[: match.start()]])
    if "during initialization" in said:
        return failed, event(EventKind.ENGINE_STEP_FAILED, line, step="load_model")
    if _ONNX_NODE.search(said):
        return failed, event(EventKind.ENGINE_STEP_FAILED, line, step="forward")
    return (failed,)


_ONNX_NODE = re.compile(r"while running \w{1,60} node")


def _oom(backend: str) -> Build:
    """Groups `request`, `allocated`, `free`, `limit` are sizes, `device` an index, where named."""

    def build(match: re.Match[str], line: Line) -> LogEvent:
        given = match.groupdict()
        return event(
            EventKind.DEVICE_OOM,
            line,
            integer(given.get("device")),
            backend=backend,
            requested_bytes=size(given.get("request")),
            allocated_bytes=size(given.get("allocated")),
            free_bytes=size(given.get("free")),
            allowed_bytes=size(given.get("limit")),
        )

    return build


def _rmm(match: re.Match[str], line: Line) -> LogEvent:
    """RAPIDS' allocator: the driver refused, or a pool may not grow any more."""
    return event(
        EventKind.DEVICE_OOM,
        line,
        backend="rmm",
        requested_bytes=size(match["request"]),
        pool_at_maximum=True if match["why"].startswith("Maximum") else None,
    )


def _xgboost(match: re.Match[str], line: Line) -> LogEvent:
    """What is free and what was asked for stand on the next lines."""
    text = "\n".join(line.following(3))
    free, requested = _XGBOOST_FREE.search(text), _XGBOOST_REQUEST.search(text)
    return event(
        EventKind.DEVICE_OOM,
        line,
        backend="xgboost",
        requested_bytes=_sized(requested),
        free_bytes=_sized(free),
    )


_XGBOOST_FREE = re.compile(rf"^\W{{0,4}}Free memory: ({SIZE}|\d{{1,20}})", re.MULTILINE)
_XGBOOST_REQUEST = re.compile(rf"^\W{{0,4}}Requested memory: ({SIZE}|\d{{1,20}})", re.MULTILINE)


def _sized(found: re.Match[str] | None) -> int | None:
    """Bytes without a unit, or a size."""
    return None if found is None else int(found[1]) if found[1].isdecimal() else size(found[1])


def _mindspore(match: re.Match[str], line: Line) -> LogEvent:
    device = integer(match["device"])
    return event(EventKind.DEVICE_OOM, line, device, backend="mindspore", requested_bytes=int(match["bytes"]))


def _mindspores_account(match: re.Match[str], line: Line) -> LogEvent:
    return event(
        EventKind.DEVICE_OOM,
        line,
        backend="mindspore",
        requested_bytes=int(match["bytes"]),
        allocated_bytes=int(match["held"]),
        total_bytes=int(match["total"]),
    )


def _ascend(match: re.Match[str], line: Line) -> LogEvent:
    """CANN's error; the calls that failed stand below, the first and largest with the bytes that were wanted."""
    wanted = [int(size_) for size_ in _ASCEND_CALL.findall("\n".join(line.following(8)))]
    device = _ASCEND_DEVICE.search("\n".join(line.following(8)))
    return event(
        EventKind.DEVICE_OOM,
        line,
        int(device[1]) if device else None,
        backend="npu",
        requested_bytes=max(wanted, default=None),
    )


_ASCEND_CALL = re.compile(r"\brtMalloc (?:fail|failed)\b.{0,80}?\bsize: ?(\d{1,20})")
_ASCEND_DEVICE = re.compile(r"\brtMalloc (?:fail|failed)\b.{0,160}?\bdevice_id: ?(\d{1,4})")


def _opencl_host(match: re.Match[str], line: Line) -> LogEvent:
    return event(EventKind.HOST_ALLOCATION_FAILED, line, allocator="opencl")


_BANKS = re.compile(
    r"Not enough space to allocate \d{1,20} B (?P<type>\w{1,20}) buffer across (?P<banks>\d{1,6}) banks,"
    r" where each bank needs to store (?P<share>\d{1,20}) B(?:, but bank size is (?P<bank>\d{1,20}) B"
    r"(?: \(allocated: (?P<held>\d{1,20}) B, free: (?P<free>\d{1,20}) B)?)?"
)
"""The sentence, which terminals and reports break into lines."""


def _banks(begun: re.Match[str], line: Line) -> LogEvent | None:
    """tt-metal spreads a buffer evenly over the banks of the device; each bank must hold its share in one piece.

    L1 is the memory inside the cores. What is free of a bank is idle in its allocator, like blocks that are cached.
    """
    match = _BANKS.search(" ".join([line.text, *(text.strip() for text in line.following(3))]))
    if match is None:
        return None
    share, banks = int(match["share"]), int(match["banks"])
    if match["type"] == "L1":
        limit = integer(match["bank"])
        return event(EventKind.KERNEL_RESOURCE, line, resource="L1", required_bytes=share, limit_bytes=limit)
    sizes = {name: None if match[name] is None else banks * int(match[name]) for name in ("bank", "held", "free")}
    return event(
        EventKind.DEVICE_OOM,
        line,
        backend="tt-metal",
        requested_bytes=banks * share,
        total_bytes=sizes["bank"],
        reserved_bytes=sizes["bank"],
        allocated_bytes=sizes["held"],
        reserved_unallocated_bytes=sizes["free"],
        free_bytes=None if sizes["free"] is None else 0,
    )


def _in_a_browser(code: str) -> Build:
    """WebGPU's words. A device is lost for other reasons as well; the message names want of memory first."""
    return lambda match, line: event(EventKind.ACCELERATOR_ERROR, line, library="webgpu", code=code, masks_oom=True)


FAMILY = Family(
    "other frameworks",
    (
        Pattern(
            "Out of memory allocating",
            rf"Out of memory allocating (?P<request>{SIZE}) \(allocated so far: (?P<allocated>{SIZE})"
            rf"(?:, limit set to: (?P<limit>{SIZE}))?",
            _oom("cupy"),
        ),
        Pattern(
            "out of memory to allocate",
            r"out of memory to allocate (?P<request>\d{1,20} bytes) \(total (?P<allocated>\d{1,20} bytes)\)",
            _oom("cupy"),
        ),
        Pattern(
            "/rmm/",
            r"(?:(?:CUDA|RMM) \w{5,7}|cudaErrorMemoryAllocation) ?(?:\(failed to allocate (?P<request>[^()]{1,40})\) )?"
            r"at: ?\S{0,300}/rmm/\S{1,200}: ?(?P<why>cudaErrorMemoryAllocation|Maximum pool size exceeded)",
            _rmm,
        ),
        Pattern("RMM allocation of ", rf"\bRMM allocation of (?P<request>{SIZE}) failed\b", _oom("rmm")),
        Pattern(
            "is more than total mem size",
            r"TotalUsedMemStatistics ?: (?P<held>\d{1,20}) .{0,200}alloc size ?: (?P<bytes>\d{1,20})"
            r" is more than total mem size ?: (?P<total>\d{1,20})",
            _mindspores_account,
        ),
        Pattern(
            "emory isn't enough and alloc failed",
            r"Device(?:\(id:(?P<device>\d{1,4})\))? memory isn't enough and alloc failed.{0,300}?"
            r"alloc size: ?(?P<bytes>\d{1,20})",
            _mindspore,
        ),
        Pattern(
            "Memory allocation error on worker",
            r"Memory allocation error on worker \d{1,6}: .{0,200}(?:cudaErrorMemoryAllocation|bad_alloc)",
            _xgboost,
        ),
        Pattern("Out of Host Memory", r"(?:Error|Exception): Out of Host Memory\b", _opencl_host),
        Pattern("CL_OUT_OF_HOST_MEMORY", r"\bCL_OUT_OF_HOST_MEMORY\b", _opencl_host),
        Pattern(
            "Memory Object Allocation Failure",
            r"(?:(?:Error|Exception)|what\(\)): {1,4}Memory Object Allocation Failure\b",
            _oom("opencl"),
        ),
        Pattern("CL_MEM_OBJECT_ALLOCATION_FAILURE", r"\bCL_MEM_OBJECT_ALLOCATION_FAILURE\b", _oom("opencl")),
        Pattern(
            "Out of memory error on GPU",
            rf"Out of memory error on GPU (?P<device>\d{{1,4}})\. Cannot allocate (?P<request>{SIZE})"
            r" memory on GPU \d{1,4},",
            _paddle,
        ),
        Pattern(
            "cudaMalloc retry failed",
            r"cudaMalloc retry failed: out of memory",
            _oom("mxnet"),
        ),
        Pattern(
            "pooled_storage_manager.h:",
            r"pooled_storage_manager\.h:\d{1,5}: (?:cudaMalloc failed: out of memory|Memory allocation failed)",
            _oom("mxnet"),
        ),
        Pattern(
            "not enough GPU video memory available",
            r"Could not allocate tensor with (?P<request>\d{1,20} bytes)\."
            r" There is not enough GPU video memory available",
            _oom("directml"),
        ),
        Pattern(
            "VK_ERROR_OUT_OF_DEVICE_MEMORY",
            r"RESOURCE_EXHAUSTED; VK_ERROR_OUT_OF_DEVICE_MEMORY\b",
            _oom("iree"),
        ),
        Pattern(
            "VK_ERROR_OUT_OF_DEVICE_MEMORY",
            r"vkAllocateMemory failed with VK_ERROR_OUT_OF_DEVICE_MEMORY\b",
            _in_a_browser("out of memory"),
        ),
        Pattern(
            "Device was lost",
            r"\bDevice was lost(?: during reload)?\. This can happen due to insufficient memory",
            _in_a_browser("device lost"),
        ),
        Pattern(
            "CUDA failed with error out of memory",
            r"(?:^|: )CUDA failed with error out of memory\s*$",
            _oom("ctranslate2"),
        ),
        Pattern(
            "DriverError(CUDA_ERROR_OUT_OF_MEMORY",
            r"\bDriverError\(CUDA_ERROR_OUT_OF_MEMORY\b",
            _oom("candle"),
        ),
        Pattern(
            "No executable batch size found",
            r"RuntimeError: No executable batch size found, reached zero\.",
            _oom("other"),
        ),
        Pattern(
            "== cudaSuccess",
            r"Check failed: (?:e|err|error) == cudaSuccess .{0,100}(?:CUDA: )?out of memory",
            _oom("other"),
        ),
        Pattern(
            "bad_alloc'",
            r"instance of ['`‘](?:thrust|rmm)::(?:\w{1,40}::){0,4}bad_alloc['’]",
            _oom("thrust"),
        ),
        Pattern("GPUassert: ", r"\bGPUassert: out of memory\b", _oom("other")),
        Pattern(
            "(cudaErrorMemoryAllocation)",
            r"\bCUDA error at \S{1,300}:\d{1,6} code=\d{1,4} ?\(cudaErrorMemoryAllocation\)",
            _oom("other"),
        ),
        Pattern(
            "out of memory",
            r"^\s*(?:Cuda|CUDA|cuda) error in file '[^']{1,300}' in line \d{1,6} : out of memory",
            _oom("other"),
            led_by="in line [0-9]{1,6} : ",
        ),
        Pattern("(EL0004)", r"Memory_Allocation_Failure\(EL0004\)", _ascend),
        Pattern("CUDA Error: out of memory", r"\bCUDA Error: out of memory(?::|\s*$)", _darknet),
        Pattern("Try to set subdivisions=", r"\bTry to set subdivisions=\d{1,4} in your cfg-file", _oom("other")),
        Pattern(
            "Failed to allocate memory for requested buffer",
            r"Failed to allocate memory for requested buffer of size (?P<request>\d{1,20})",
            _onnx,
        ),
        Pattern(
            "Not enough space to allocate ",
            r"Not enough space to allocate \d{1,20} B \w{1,20} buffer",
            _banks,
        ),
        Pattern(
            "is smaller than requested bytes",
            r"Available memory of (?P<free>\d{1,20}) is smaller than requested bytes of (?P<request>\d{1,20})",
            _onnx,
        ),
    ),
)
