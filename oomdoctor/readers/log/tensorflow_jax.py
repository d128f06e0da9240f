"""TensorFlow and XLA (JAX): the BFC allocator, its dumps, XLA's own out-of-memory reports."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...model.events import EventKind, FieldValue, LogEvent
from .family import Build, Family, Line, Pattern
from .statement import SIZE, event, integer, shape, size


def _tensor(match: re.Match[str], line: Line) -> LogEvent:
    """The op's tensor is named, not its bytes."""
    dimensions, dtype = shape(match["shape"]), match["dtype"]
    if match["place"] == "CPU":
        return event(EventKind.HOST_ALLOCATION_FAILED, line, allocator="tensorflow-cpu", shape=dimensions, dtype=dtype)
    return event(
        EventKind.DEVICE_OOM,
        line,
        integer(match["device"]),
        backend="tensorflow",
        shape=dimensions,
        dtype=dtype,
        node=node[1] if (node := _NODE.search(" ".join([line.text, *line.following(2)]))) else None,
        exception_type="ResourceExhaustedError" if "ResourceExhaustedError" in line.text else None,
    )


_NODE = re.compile(r"\[\[(?:Node: |\{\{node )([\w./-]{1,300})")
"""The operation of the graph, by its name."""


def _ran_out(match: re.Match[str], line: Line) -> LogEvent:
    """The BFC allocator, which also warns when the caller only tried its luck."""
    requested = _exact(match["rounded"]) or size(match["size"])
    after = " ".join([line.text, *line.following(2)])
    if "The caller indicates that this is not a failure" in after:
        return event(EventKind.RECOVERED, line, how="fallback", engine="tensorflow", requested_bytes=requested)
    device = re.search(r"GPU_(\d{1,4})", match["allocator"] or "")
    backend = "jax" if _XLA_ALONE.search(line.text[: match.start()]) else "tensorflow"
    return event(
        EventKind.DEVICE_OOM, line, int(device[1]) if device else None, backend=backend, requested_bytes=requested
    )


_XLA_ALONE = re.compile(r"\bexternal/(?:xla|tsl|org_tensorflow)/")
"""Where the allocator's source lies when XLA is built for JAX; TensorFlow builds it as `local_xla` or its own."""


def _exact(text: str | None) -> int | None:
    return int(text) if text else None


def _back_off(match: re.Match[str], line: Line) -> LogEvent:
    """The start-up reservation is tried again with nine tenths each time.

    Where most of the device was taken when it was opened, as the lines about it tell, that is why it fails.
    """
    backend, requested = "hip" if "hip" in match[0].lower() else "cuda", int(match[1])
    opened = "\n".join(line.preceding(_OPENED_BEFORE))
    total, free = (size(found[-1]) if (found := one.findall(opened)) else None for one in (_TOTAL, _FREE))
    if total and free is not None and free < _MOSTLY_TAKEN * total:
        return event(
            EventKind.DEVICE_OOM,
            line,
            backend=backend,
            requested_bytes=requested,
            total_bytes=total,
            free_bytes=free,
            reserved_bytes=0,
        )
    return event(EventKind.DEVICE_OOM_TRY, line, backend=backend, requested_bytes=requested)


_OPENED_BEFORE = 40
_MOSTLY_TAKEN = 0.5
_TOTAL = re.compile(rf"^(?:T|t)otal ?[Mm]emory: ({SIZE})", re.MULTILINE)
_FREE = re.compile(rf"^(?:F|f)ree ?[Mm]emory: ({SIZE})", re.MULTILINE)


def _on_chip(match: re.Match[str], line: Line) -> LogEvent:
    """A TPU's runtime writes sizes as 180.59M."""
    return event(
        EventKind.DEVICE_OOM,
        line,
        backend="jax",
        requested_bytes=size(f"{match['request']}iB"),
        free_bytes=size(f"{match['free']}iB"),
    )


def _dump(match: re.Match[str], line: Line) -> LogEvent | None:
    """`Limit`, `InUse`, `MaxInUse` on a line each."""
    block = "\n".join([*line.preceding(3), line.text, *line.following(3)])
    found = {name: int(one[1]) for name, regex in _DUMP.items() if (one := regex.search(block))}
    return event(EventKind.DEVICE_STATE, line, **found)


_DUMP = {
    "allowed_bytes": re.compile(r"\bLimit: {1,40}(\d{1,20})"),
    "allocated_bytes": re.compile(r"\bInUse: {1,40}(\d{1,20})"),
    "peak_allocated_bytes": re.compile(r"\bMaxInUse: {1,40}(\d{1,20})"),
}


def _regions(match: re.Match[str], line: Line) -> LogEvent:
    return event(EventKind.DEVICE_STATE, line, reserved_bytes=int(match[1]), allowed_bytes=int(match[2]))


def _in_use(match: re.Match[str], line: Line) -> LogEvent:
    return event(EventKind.DEVICE_STATE, line, allocated_bytes=size(match[1]))


def _xla(match: re.Match[str], line: Line) -> LogEvent:
    given = match.groupdict()
    requested = integer(given.get("bytes")) if given.get("bytes") else size(given.get("size"))
    exception = re.search(r"((?:[\w.]{1,80}\.)?(?:XlaRuntimeError|JaxRuntimeError|ResourceExhaustedError)):", line.text)
    return event(
        EventKind.DEVICE_OOM,
        line,
        integer(given.get("device")),
        backend="jax",
        requested_bytes=requested,
        exception_type=exception[1] if exception else None,
    )


def _space(match: re.Match[str], line: Line) -> Iterator[LogEvent]:
    """A compiled program that needs more than the memory of the chip, with the compiler's account of it."""
    exception = re.search(r"((?:[\w.]{1,80}\.)?(?:XlaRuntimeError|JaxRuntimeError)):", line.text)
    yield event(
        EventKind.DEVICE_OOM,
        line,
        backend="jax",
        requested_bytes=size(match["used"]),
        total_bytes=size(match["total"]),
        exception_type=exception[1] if exception else None,
    )
    yield from _parts_of_program(line)


def _parts_of_program(line: Line) -> Iterator[LogEvent]:
    block = "\n".join(line.following(20))
    fields: dict[str, FieldValue] = {
        name: size(one[1]) for name, regex in _SPACE.items() if (one := regex.search(block))
    }
    if fields:
        yield event(EventKind.ENGINE_MEMORY_TABLE, line, engine="xla", **fields)


def _account(match: re.Match[str], line: Line) -> Iterator[LogEvent]:
    """The compiler's account of a program that was refused, where the message above it was left out."""
    if any("Ran out of memory in memory space" in text for text in line.preceding(6)):
        return
    yield event(EventKind.DEVICE_OOM, line, backend="jax", requested_bytes=size(match["used"]))
    yield from _parts_of_program(line)


_SPACE = {
    "model_bytes": re.compile(rf"^\s*arguments {{1,20}}({SIZE})", re.MULTILINE),
    "temporary_bytes": re.compile(rf"^\s*HLO temp {{1,20}}({SIZE})", re.MULTILINE),
}


def _reservation(match: re.Match[str], line: Line) -> LogEvent:
    """A program that compiled and finds too little room beside what earlier ones hold."""
    block = "\n".join(line.following(6))
    total = re.search(rf"HBM capacity ({SIZE})", block)
    allocated = re.search(rf"Currently allocated: {{1,20}}({SIZE})", block)
    in_one_piece = re.search(rf"there are {SIZE} free, .{{1,60}}?\b({SIZE}) reservable", line.text, re.IGNORECASE)
    return event(
        EventKind.DEVICE_OOM,
        line,
        backend="jax",
        requested_bytes=size(match["request"]),
        free_bytes=size(match["free"]),
        total_bytes=size(total[1]) if total else None,
        allocated_bytes=size(allocated[1]) if allocated else None,
        largest_free_block_bytes=size(in_one_piece[1]) if in_one_piece else None,
    )


def _assignment(match: re.Match[str], line: Line) -> LogEvent | None:
    """XLA's account of a compiled program, a part to a line."""
    block = "\n".join(line.following(12))
    fields: dict[str, FieldValue] = {
        name: size(one[1]) for name, regex in _ASSIGNMENT.items() if (one := regex.search(block))
    }
    return event(EventKind.ENGINE_MEMORY_TABLE, line, engine="xla", **fields) if fields else None


_ASSIGNMENT = {
    "model_bytes": re.compile(rf"parameter allocation: {{1,12}}({SIZE})"),
    "temporary_bytes": re.compile(rf"preallocated temp allocation: {{1,12}}({SIZE})"),
    "total_bytes": re.compile(rf"total allocation: {{1,12}}({SIZE})"),
}


def _masking(library: str) -> Build:
    """Errors of TensorFlow behind which a full device usually stands."""
    return lambda match, line: event(
        EventKind.ACCELERATOR_ERROR, line, library=library, code=match["code"].strip(), masks_oom=True
    )


FAMILY = Family(
    "TensorFlow and JAX",
    (
        Pattern(
            "OOM when allocating tensor",
            r"OOM when allocating tensor (?:with|of) shape ?(?P<shape>\[[\d,? ]{0,200}\])"
            r"(?: and type (?P<dtype>\w{1,20}))?"
            r"(?: on \S{0,200}?device:(?P<place>[A-Z]{1,10}):(?P<device>\d{1,4}))?",
            _tensor,
        ),
        Pattern(
            "ran out of memory trying to allocate",
            r"Allocator (?:\((?P<allocator>\w{1,60})\) )?ran out of memory trying to allocate "
            r"(?P<size>\d+(?:\.\d*)? ?(?:Bytes|[KMGT]?i?B))"
            r"(?: {0,2}\(rounded to (?P<rounded>\d{1,20})(?: Bytes)?\))?",
            _ran_out,
        ),
        Pattern(
            "from device: ",
            r"failed to allocate [\d.]+[KMGT]?i?B? \((\d{1,20}) bytes\) from device: "
            r"(?:CUDA_ERROR_OUT_OF_MEMORY|HIP_ERROR_OutOfMemory|hipError_t\(1002\)|hipErrorOutOfMemory)",
            _back_off,
        ),
        Pattern(
            "That was not possible. There are ",
            r"Attempting to allocate (?P<request>[\d.]{1,20}[KMGT])\. That was not possible\."
            r" There are (?P<free>[\d.]{1,20}[KMGT]) free",
            _on_chip,
        ),
        Pattern("InUse: ", r"(?<!Max)\bInUse: {1,40}\d", _dump),
        Pattern(
            "total_region_allocated_bytes_",
            r"total_region_allocated_bytes_: (\d{1,20}) memory_limit_: (\d{1,20})",
            _regions,
        ),
        Pattern("Sum Total of in-use chunks", rf"Sum Total of in-use chunks: ({SIZE})", _in_use),
        Pattern(
            "Dst tensor is not initialized",
            r"(?P<code>Dst tensor is not initialized)",
            _masking("tensorflow"),
        ),
        Pattern(
            "Failed copying input tensor",
            r"(?P<code>Failed copying input tensor)(?!.{0,400}Dst tensor)",
            _masking("tensorflow"),
        ),
        Pattern(
            "failed to create cublas handle",
            r"failed to create cublas handle: (?P<code>.{1,100})",
            _masking("cublas"),
        ),
        Pattern(
            "ould not create cudnn handle",
            r"[Cc]ould not create cudnn handle: (?P<code>CUDNN_STATUS_INTERNAL_ERROR)",
            _masking("cudnn"),
        ),
        Pattern(
            "may be due to OOM",
            r"(?P<code>Failure to initialize cublas) may be due to OOM",
            _masking("cublas"),
        ),
        Pattern(
            "Failed to get convolution algorithm",
            r"(?P<code>Failed to get convolution algorithm)",
            _masking("cudnn"),
        ),
        Pattern(
            "Out of memory",
            r"(?<!zmalloc: )Out of memory (?:while )?(?:trying to allocate|allocating) (?P<bytes>\d{1,20}) bytes",
            _xla,
        ),
        Pattern(
            "Out of memory",
            rf"(?<!zmalloc: )Out of memory (?:while )?(?:trying to allocate|allocating) (?P<size>{SIZE})(?<!bytes)",
            _xla,
        ),
        Pattern(
            "Failed to allocate request for",
            r"Failed to allocate request for \S{1,40} \((?P<bytes>\d{1,20})B\)"
            r" on device ordinal (?P<device>\d{1,4})",
            _xla,
        ),
        Pattern(
            "Ran out of memory in memory space",
            rf"Ran out of memory in memory space \w{{1,20}}\."
            rf" Used (?P<used>{SIZE}) of (?P<total>{SIZE}) \w{{1,20}}\.",
            _space,
        ),
        Pattern("Total hbm usage >= ", rf"\bTotal hbm usage >= (?P<used>{SIZE}):", _account),
        Pattern(
            "Attempting to reserve ",
            rf"Attempting to (?:reserve|allocate) (?P<request>{SIZE})(?: at the bottom of memory)?\."
            rf" That was not possible\. There are (?P<free>{SIZE}) free",
            _reservation,
        ),
        Pattern("BufferAssignment OOM Debugging", r"BufferAssignment OOM Debugging", _assignment),
    ),
)
