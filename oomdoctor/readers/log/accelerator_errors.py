"""Errors of drivers and accelerator libraries, behind which a shortage of memory may hide."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from ...model.events import EventKind, LogEvent
from .family import Build, Family, Line, Pattern
from .prose import mentioned
from .statement import event, integer

_PIN_THREAD = "in pin memory thread"
_LOOK_BACK = 60
"""Lines of a traceback between the name of the thread and the error."""

_MEMORY_CODES = ("ALLOC_FAILED", "NOT_INITIALIZED", "INSUFFICIENT_RESOURCES", "MEMORY_ERROR", "ALLOCATION_FAILED")
_LIBRARIES = {
    "CUFFT": "cufft",
    "CURAND": "curand",
    "HIPBLAS": "hipblas",
    "ROCBLAS": "rocblas",
    "MIOPENSTATUS": "miopen",
}


def _thread(line: Line) -> str | None:
    """`pin_memory` where the error was carried over from that thread."""
    if any(_PIN_THREAD in text for text in (line.text, *islice(reversed(line.preceding(_LOOK_BACK)), _LOOK_BACK))):
        return "pin_memory"
    return None


def _runtime(match: re.Match[str], line: Line) -> LogEvent | None:
    """`CUDA error: out of memory` and its kin: a call into the driver failed, not the caching allocator."""
    if mentioned(line.text, match.start(), match.end()):
        return None
    memory = "out of memory" in match["code"].lower()
    return event(
        EventKind.ACCELERATOR_ERROR,
        line,
        library=match["library"].lower(),
        code="out of memory" if memory else "busy" if "busy" in match["code"] else match["code"].strip(" .'"),
        call=_call(line.text),
        masks_oom=memory,
        thread=_thread(line) if memory else None,
    )


def out_of_memory(library: str) -> Build:
    """For forms whose words are always about memory; groups `call`, `bytes` and `device` are taken where named."""

    def build(match: re.Match[str], line: Line) -> LogEvent | None:
        if mentioned(line.text, match.start(), match.end()):
            return None
        given = match.groupdict()
        return event(
            EventKind.ACCELERATOR_ERROR,
            line,
            integer(given.get("device")),
            library=library,
            code="out of memory",
            call=given.get("call"),
            requested_bytes=integer(given.get("bytes")),
            masks_oom=True,
            thread=_thread(line),
        )

    return build


def _may_mask(library: str, code: str | None = None) -> Build:
    """For errors that do not speak of memory but are often the first sign of its shortage."""

    def build(match: re.Match[str], line: Line) -> LogEvent | None:
        if mentioned(line.text, match.start(), match.end()):
            return None
        given = match.groupdict()
        return event(
            EventKind.ACCELERATOR_ERROR,
            line,
            library=library,
            code=code or given.get("code") or match[0],
            call=(given.get("call") or "").replace('"', "") or None,
            masks_oom=True,
        )

    return build


def _other(library: str) -> Build:
    """For errors that do not speak of memory, and seldom mean it."""

    def build(match: re.Match[str], line: Line) -> LogEvent | None:
        if mentioned(line.text, match.start(), match.end()):
            return None
        return event(EventKind.ACCELERATOR_ERROR, line, library=library, code=match["code"], masks_oom=False)

    return build


def _call(text: str) -> str | None:
    found = re.search(r"when calling [`'\"]([^`\"]{1,400})", text)
    return found[1].strip() if found else None


def _status(match: re.Match[str], line: Line) -> LogEvent | None:
    """`CUBLAS_STATUS_…` and the like of every library."""
    if match["word"].endswith("_SUCCESS") or mentioned(line.text, match.start(), match.end()):
        return None
    library = match["library"]
    expression = re.search(r"expr=([^;]{1,200})", line.text)
    return event(
        EventKind.ACCELERATOR_ERROR,
        line,
        library=_LIBRARIES.get(library, library.lower()),
        code=match["word"],
        call=_call(line.text) or (expression[1].strip(" ;") if expression else None),
        masks_oom=match["word"].endswith(_MEMORY_CODES),
        thread=_thread(line),
    )


def _checked_status(match: re.Match[str], line: Line) -> LogEvent | None:
    """Dmlc's check prints the status as a number: only those that mean a library found no memory are taken."""
    code = _STATUS_NUMBERS[match["library"]].get(int(match["number"]))
    if code is None or mentioned(line.text, match.start(), match.end()):
        return None
    library = _LIBRARIES.get(match["library"], match["library"].lower())
    return event(EventKind.ACCELERATOR_ERROR, line, library=library, code=code, masks_oom=True, thread=_thread(line))


_STATUS_NUMBERS = {
    "CUBLAS": {1: "CUBLAS_STATUS_NOT_INITIALIZED", 3: "CUBLAS_STATUS_ALLOC_FAILED"},
    "CUDNN": {1: "CUDNN_STATUS_NOT_INITIALIZED", 2: "CUDNN_STATUS_ALLOC_FAILED"},
    "CUSOLVER": {1: "CUSOLVER_STATUS_NOT_INITIALIZED", 2: "CUSOLVER_STATUS_ALLOC_FAILED"},
    "CURAND": {102: "CURAND_STATUS_ALLOCATION_FAILED", 203: "CURAND_STATUS_INITIALIZATION_FAILED"},
}
"""As the libraries' headers number them (cublas_api.h, cudnn.h before 9, cusolver_common.h, curand.h)."""


def _pin_thread(match: re.Match[str], line: Line) -> LogEvent | None:
    """The thread that pins batches failed, and what it failed of is not there."""
    if mentioned(line.text, match.start(), match.end()) or any(text.strip() for text in line.following(2)):
        return None
    return event(EventKind.PINNED_ALLOCATION_FAILED, line, reason_unstated=True)


def _peer_lost(library: str) -> Build:
    return lambda match, line: event(EventKind.PEER_LOST, line, library=library)


def _nccl_rank(match: re.Match[str], line: Line) -> LogEvent:
    return event(
        EventKind.ACCELERATOR_ERROR,
        line,
        integer(match["device"]),
        library="nccl",
        code="out of memory",
        requested_bytes=integer(match.groupdict().get("bytes")),
        masks_oom=True,
    )


def _windows_residency(match: re.Match[str], line: Line) -> Iterator[LogEvent]:
    """WSL's kernel driver: ENOMEM where what was allocated was to be made resident on the card."""
    yield event(EventKind.HOST_STATE, line, platform="wsl")
    yield event(
        EventKind.ACCELERATOR_ERROR, line, library="dxg", code="out of memory", call=match["call"], masks_oom=True
    )


def _neuron(match: re.Match[str], line: Line) -> LogEvent:
    return event(EventKind.DEVICE_OOM, line, backend="neuron", requested_bytes=int(match[1]), generation="bare")


_NCCL_PLACE = r"(?:\[(?P<device>\d{1,4})\] .{0,200})?NCCL WARN "

FAMILY = Family(
    "accelerator errors",
    (
        *(
            Pattern(
                f"{library} {kind}",
                rf"(?P<library>{library}) {kind}: (?P<code>out of memory|unknown error|device not ready"
                r"|unspecified launch failure|initialization error|invalid device ordinal"
                r"|(?:all )?CUDA-capable device\S{0,3} (?:is/)?are busy or unavailable)",
                _runtime,
            )
            for library in ("CUDA", "HIP")
            for kind in ("error", "driver error", "runtime error")
        ),
        Pattern(
            "devices are busy or unavailable",
            r"(?<!error: )(?P<code>all (?P<library>CUDA)-capable devices are busy or unavailable)",
            _runtime,
        ),
        Pattern(
            "CUDA runtime error in",
            r"CUDA runtime error in (?P<call>.{1,200}?): out of memory",
            out_of_memory("cuda"),
        ),
        Pattern(
            "after cudaLaunch",
            r"after (?P<call>cudaLaunch\w{0,30}) in .{1,200}?: out of memory",
            out_of_memory("cuda"),
        ),
        Pattern(
            "cudaErrorMemoryAllocation",
            r"(?P<call>\w{1,60})?.{0,40}cudaErrorMemoryAllocation",
            out_of_memory("cuda"),
        ),
        Pattern(
            "CUDA_ERROR_OUT_OF_MEMORY",
            r"(?i)failed to (?:load|create|get|launch|enqueue|instantiate)\b[^:]{0,80}: CUDA_ERROR_OUT_OF_MEMORY",
            out_of_memory("cuda"),
        ),
        Pattern(
            "CUDA_ERROR_OUT_OF_MEMORY",
            r"\b(?P<call>cu[A-Z]\w{2,40})(?:\(.{0,80}\))?:? (?:failed|error|returned)\b"
            r".{0,40}?CUDA_ERROR_OUT_OF_MEMORY\b",
            out_of_memory("cuda"),
        ),
        Pattern(
            "Error out of memory at line ",
            r"(?<![\w.])Error out of memory at line \d{1,6} in file ",
            out_of_memory("bitsandbytes"),
        ),
        Pattern(
            "tatus: ",
            r"Non-OK-status: .{1,300}\bstatus: (?:Internal|INTERNAL): out of memory",
            out_of_memory("cuda"),
            led_by=r"Non-OK-status: .{1,300}s",
        ),
        Pattern("CUDA error 2: ", r"(?:^|[\]:>] ?)CUDA error 2: out of memory", out_of_memory("cuda")),
        Pattern("cudaMalloc failed: ", r"^\s*cudaMalloc failed: out of memory\s*$", out_of_memory("cuda")),
        Pattern(
            "failed call to cu",
            r"failed call to (?P<call>cu(?:DevicePrimaryCtxRetain|CtxCreate|Init)\w{0,10}): CUDA_ERROR_OUT_OF_MEMORY",
            out_of_memory("cuda"),
        ),
        Pattern("hipErrorOutOfMemory", r"hipErrorOutOfMemory", out_of_memory("hip")),
        Pattern("cuMemAlloc", r"(?P<call>cuMemAlloc\w{0,20}) failed: out of memory", out_of_memory("cuda")),
        Pattern(
            "cuMemAlloc",
            r"(?i)call to (?P<call>cuMemAlloc\w{0,20}) results in CUDA_ERROR_OUT_OF_MEMORY",
            out_of_memory("cuda"),
        ),
        Pattern("cudaHostAlloc", r"(?P<call>cudaHostAlloc)\b.{0,200}out of memory", out_of_memory("cuda")),
        Pattern("cudaMallocHost", r"(?P<call>cudaMallocHost)\b.{0,200}out of memory", out_of_memory("cuda")),
        Pattern(
            "_STATUS_",
            r"\b(?P<word>(?P<library>CUBLAS|CUDNN|CUSOLVER|CUSPARSE|CURAND|HIPBLAS|HIPSPARSE)_STATUS_[A-Z_]{3,60})",
            _status,
        ),
        Pattern(
            "_STATUS_SUCCESS (",
            r"Check failed: \w{1,20} == (?P<library>CUBLAS|CUDNN|CUSOLVER|CURAND)_STATUS_SUCCESS"
            r" \((?P<number>\d{1,4}) vs\. 0\)",
            _checked_status,
        ),
        Pattern("CUFFT_ALLOC_FAILED", r"\b(?P<word>(?P<library>CUFFT)_ALLOC_FAILED)", _status),
        Pattern("rocblas_status_memory_error", r"(?P<code>rocblas_status_memory_error)", _may_mask("rocblas")),
        Pattern(
            "Unable to find a valid cuDNN algorithm",
            r"(?P<code>Unable to find a valid cuDNN algorithm)",
            _may_mask("cudnn"),
        ),
        Pattern(
            "unable to find an engine to execute",
            r"(?P<code>unable to find an engine to execute)",
            _may_mask("cudnn"),
        ),
        Pattern(
            "INTERNAL ASSERT FAILED",
            r"(?P<code>NVML_SUCCESS == r) {0,2}INTERNAL ASSERT FAILED(?: at \"?(?P<call>[^\" ]{1,300}\"?:\d{1,6}))?",
            _may_mask("nvml"),
        ),
        Pattern(
            "NCCL WARN Cuda failure",
            _NCCL_PLACE + r"Cuda failure (?:\d{1,4} )?'?out of memory",
            _nccl_rank,
        ),
        Pattern(
            "NCCL WARN Failed to",
            _NCCL_PLACE + r"Failed to (?:CUDA )?(?:host )?\w{0,3}alloc (?P<bytes>\d{1,20}) bytes",
            _nccl_rank,
        ),
        Pattern("remote process exit", r"remote process exit(?:ed|ing)", _peer_lost("nccl")),
        Pattern("losed by remote peer", r"[Cc]onnection closed by remote peer", _peer_lost("nccl")),
        Pattern(
            "onnection ",
            r"[Cc]onnection (?:closed|reset) by (?:remote )?peer",
            _peer_lost("gloo"),
            led_by=r"gloo/[^ ]{1,200} .{0,120}",
        ),
        Pattern(
            "unhandled cuda error",
            r"unhandled cuda error(?=.{0,400}Cuda failure (?:\d{1,4} )?'(?P<code>out of memory)')",
            _may_mask("nccl"),
        ),
        Pattern(
            "unhandled cuda error",
            r"(?P<code>unhandled cuda error)(?!.{0,400}Cuda failure (?:\d{1,4} )?'out of memory')",
            _may_mask("nccl"),
        ),
        Pattern(
            "NCCL error in: ",
            r"NCCL error in: \S{1,300}, (?P<code>internal error|unhandled system error|invalid usage)\b",
            _other("nccl"),
        ),
        Pattern(
            "Cuda failure ",
            r"(?:^|[\]:]) {0,4}Cuda failure (?:\d{1,4} )?'out of memory'\s*$",
            out_of_memory("nccl"),
        ),
        Pattern("ncclUnhandledCudaError", r"(?P<code>ncclUnhandledCudaError)", _may_mask("nccl")),
        Pattern(
            "model_container_runner",
            r"(?P<code>API call failed) at (?P<call>\S{1,300}model_container_runner\w{0,10}\.cpp, line \d{1,6})",
            _may_mask("aotinductor"),
        ),
        Pattern(
            "RESULT_ERROR_OUT_OF_",
            r"(?P<code>U?R?_?RESULT_ERROR_OUT_OF_(?:DEVICE_MEMORY|HOST_MEMORY|RESOURCES))",
            _may_mask("xpu"),
        ),
        Pattern("PI_ERROR_OUT_OF_", r"(?P<code>PI_ERROR_OUT_OF_(?:RESOURCES|HOST_MEMORY))", _may_mask("xpu")),
        Pattern("Native API returns: -997", r"(?P<code>Native API returns: -997)", _may_mask("xpu")),
        Pattern(
            "HSA_STATUS_ERROR_OUT_OF_RESOURCES",
            r"(?P<code>HSA_STATUS_ERROR_OUT_OF_RESOURCES)",
            _may_mask("hip"),
        ),
        Pattern(
            "dxgkio_",
            r"\b(?P<call>dxgkio_(?:make_resident|create_allocation|reserve_gpu_va|map_gpu_va)): Ioctl failed: -12\b",
            _windows_residency,
        ),
        Pattern(
            _PIN_THREAD,
            r"Caught (?:RuntimeError|\w{1,40}OutOfMemoryError|AcceleratorError) in pin memory thread",
            _pin_thread,
        ),
        Pattern("Pin memory thread exited", r"RuntimeError: Pin memory thread exited unexpectedly\s*$", _pin_thread),
        Pattern("NRT allocation failed", r"NRT allocation failed for size (\d{1,20})", _neuron),
    ),
)
