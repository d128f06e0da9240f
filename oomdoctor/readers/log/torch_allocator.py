"""PyTorch's device allocators giving up: every generation of the message, on every backend."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from ...model.events import EventKind, FieldValue, LogEvent
from ...model.units import GIB, MIB, format_bytes
from .family import Family, Line, Pattern
from .prefixes import strip_log_header
from .prose import mentioned, printed, quoted
from .statement import SIZE, event, integer, joined, size

_UNKNOWN_SIZE = 1 << 60
"""NVML answers 2^64 where it does not know; no device has an exbibyte."""

_MORE_THAN_ANY_DEVICE = 16 << 40
_ROUNDED = 1.02
"""Figures are printed with two decimals, and read one after another."""

_BACKENDS = {
    "CUDA": "cuda",
    "HIP": "hip",
    "XPU": "xpu",
    "NPU": "npu",
    "CNRT": "mlu",
    "MLU": "mlu",
    "MPS backend": "mps",
}
_BACKEND = re.compile(r"\b(CUDA|HIP|XPU|NPU|CNRT|MLU|MPS backend) out of memory")
_CLASS = r"(?:[A-Za-z_]\w{0,60}\.){0,6}(?:[A-Z]\w{0,60}(?:Error|Exception)|Exception)"
_EXCEPTION = re.compile(rf"(?<![\w.])({_CLASS}): ?$")
_WARNING_PLACE = re.compile(r"^\S{1,300}:\d{1,7}: \w{1,40}Warning: ")
_EXCEPTION_FIRST = re.compile(rf"{_CLASS}: ")

_REQUEST = re.compile(rf"Tried to allocate ({SIZE})")
_NO_NUMBER = re.compile(r"Tried to allocate [+-]?(?:nan|inf)", re.IGNORECASE)
_OLD_DEVICE = re.compile(r"\((?:GPU|NPU|MLU|XPU) {1,3}(\d{1,4});")
_NEW_DEVICE = re.compile(rf"GPU {{1,3}}(?:(\d{{1,4}}) )?has a total capaci?ty of ({SIZE})")
"""Some releases leave the number out."""
_PROCESS = re.compile(rf"[Pp]rocess (\d{{1,10}}|[A-Z]{{1,8}}|<\w{{1,10}}>) has ({SIZE}) memory in use")
_OWN = re.compile(rf"this process has ({SIZE}) memory in use")

_SIZES = {
    "total": " total capacity",
    "allocated": " already allocated",
    "active": " current active",
    "free": " free",
    "free_now": " is free",
    "allowed": " allowed",
    "reserved": " reserved in total",
    "cached": " cached",
    "allocated_with_private": " is allocated by PyTorch",
    "private": " allocated in private pools",
    "idle": " is reserved by PyTorch but unallocated",
}
"""What follows each size."""
_SIZE_AT_END = re.compile(rf"(?<![\d.])({SIZE})$")
_SIZES_SAID = re.compile(SIZE)
_LONGEST_SIZE = 40
_ENDS = ("by PyTorch but unallocated", "reserved in total by PyTorch", "cached)", "total capacity)")
_BEGINNINGS = ("Tried to allocate", "out of memory", "Traceback (most recent call last)")
_LONGEST_STATEMENT = 4000


def _tried(match: re.Match[str], line: Line) -> Iterable[LogEvent]:
    """Any statement with `Tried to allocate`, from 1.0 to today, whole or cut."""
    if "MPS allocated" in line.text or quoted(line.text, match.start()):
        return ()
    text = joined(line, _ENDS, _BEGINNINGS)
    if text == line.text and line.text.rstrip().endswith("B."):  # the sentences on a line each, and cut after some
        text = joined(line, (" memory in use",), _BEGINNINGS, 3)
    before, statement = text[: match.start()], _said_once(text[match.start() :])
    who = _who(before)
    fields, device = _amounts(statement, who["backend"])
    if limit := _BLOCK_LIMIT.search(before):
        fields["buffer_limit_bytes"] = int(limit[1]) * GIB
        who["backend"] = who["backend"] or "xpu"
    if (
        fields["requested_bytes"] is None
        and not fields["request_impossible"]
        and not fields.get("zeros_set_aside")
        and (who["backend"] is None or mentioned(line.text, match.start(), match.end()))
    ):
        return ()
    failure = event(EventKind.DEVICE_OOM, line, device, **who, **fields, advice=_advice(statement))
    rank = _RANK_BEFORE.search(before)
    return (failure if rank is None or failure.rank is not None else replace(failure, rank=int(rank[1])),)


def _said_once(text: str) -> str:
    """The statement that `text` begins with, without a repeat of it on the same line, as a wrapper's message has it.

    Where the first was cut and the repeat goes on, the longer of the two: sizes of both are never read together.
    """
    begins = [match.start() for match in _REQUEST.finditer(text)]
    if not begins or begins[0] > 0:
        return text[:_LONGEST_STATEMENT]
    pieces = [text[start:end] for start, end in zip(begins, [*begins[1:], len(text)], strict=True)]
    request = _REQUEST.match(pieces[0])
    same = [piece for piece in pieces if request and piece.startswith(request[0])]
    return max(same, key=lambda piece: len(_SIZES_SAID.findall(piece)))[:_LONGEST_STATEMENT]


def _retyped(match: re.Match[str], line: Line) -> Iterable[LogEvent]:
    """The statement in small letters, as search boxes and some loggers leave it."""
    text = _SMALL_UNIT.sub(lambda unit: f"{unit[1]}{unit[2].upper()}{'i' if unit[3] else ''}B", line.text)
    for small, written in _AS_PRINTED:
        text = text.replace(small, written)
    if (first := _REQUEST.search(text)) is None:
        return ()
    return _tried(first, replace(line, text=text))


_SMALL_UNIT = re.compile(r"(\d ?)([kmgt])(i?)b\b")
_AS_PRINTED = (
    ("cuda out of memory", "CUDA out of memory"),
    ("hip out of memory", "HIP out of memory"),
    ("xpu out of memory", "XPU out of memory"),
    ("tried to allocate", "Tried to allocate"),
    ("gpu ", "GPU "),
    ("by pytorch", "by PyTorch"),
)
"""The words that the statement is read by, as small letters and as torch prints them."""

_RANK_BEFORE = re.compile(r"\[RANK (\d{1,6})\] ")
"""Where a logger names the rank after other things."""


_BLOCK_LIMIT = re.compile(r"can NOT allocate memory block with size larger than (\d{1,3}) ?GB")
"""Intel's first drivers give blocks of up to 4 GiB."""


def _amounts(statement: str, backend: FieldValue = None) -> tuple[dict[str, FieldValue], int | None]:
    sizes = {name: _size_before(statement, label) for name, label in _SIZES.items()}
    found = {name: amount for name, amount in sizes.items() if amount is not None and 0 <= amount < _UNKNOWN_SIZE}
    unsized = any(amount is not None and not _known(amount) for amount in sizes.values())
    free = found.get("free", found.get("free_now"))
    request = _REQUEST.search(statement)
    old, new = _OLD_DEVICE.search(statement), _NEW_DEVICE.search(statement)
    allocated, reserved, idle = found.get("allocated"), found.get("reserved"), found.get("idle")
    private = found.get("private")
    generation = "bare"
    if new or "idle" in found or "allocated_with_private" in found:
        generation = "sentences"
        allocated = found.get("allocated_with_private")
        if allocated is not None and idle is not None:
            reserved = allocated + idle
    elif "cached" in found:
        # Up to 1.3 the word means reserved minus allocated.
        generation, idle = "cached", found["cached"]
        if allocated is not None and idle is not None:
            reserved = allocated + idle
    elif old or reserved is not None:
        generation = "reserved"
        if allocated is not None and reserved is not None and reserved >= allocated:
            idle = reserved - allocated
    total = size(new[2]) if new else found.get("total")
    own = size(match[1]) if (match := _OWN.search(statement)) else None
    others = _each_once((_pid(one[1]), used) for one in _PROCESS.finditer(statement) if _known(used := size(one[2])))
    unknown = unsized or any(size is not None and not _known(size) for size in (total, own)) or None
    fields: dict[str, FieldValue] = {
        "requested_bytes": size(request[1]) if request else None,
        "request_impossible": True if _NO_NUMBER.match(statement) else None,
        "total_bytes": total if _known(total) else None,
        "free_bytes": free if _known(free) else None,
        "allocated_bytes": allocated,
        "active_bytes": found.get("active"),
        "reserved_bytes": reserved,
        "reserved_unallocated_bytes": idle,
        "private_pool_bytes": private,
        "allowed_bytes": found.get("allowed"),
        # Zero is what NVML answers where it cannot see the process: the process that prints this holds memory.
        "process_used_bytes": own if own and _known(own) else None,
        "other_processes": others or None,
        "generation": generation,
        "capacity_unknown": unknown or (True if "17179869184" in statement else None),
    }
    device = old[1] if old else new[1] if new else None
    return _without_contradictions(_without_zeros(fields), backend), integer(device)


def _each_once(entries: Iterable[tuple[int | None, int | None]]) -> tuple[tuple[int | None, int | None], ...]:
    """A device lists a process once; of those with blotted out numbers it cannot be told."""
    kept: list[tuple[int | None, int | None]] = []
    for entry in entries:
        if entry[0] is None or all(entry[0] != other[0] for other in kept):
            kept.append(entry)
    return tuple(kept)


def _size_before(statement: str, label: str) -> int | None:
    """The size that stands right before the words `label`."""
    place = statement.find(label)
    if place < 0:
        return None
    match = _SIZE_AT_END.search(statement[max(0, place - _LONGEST_SIZE) : place])
    return size(match[1]) if match else None


def _without_zeros(fields: dict[str, FieldValue]) -> dict[str, FieldValue]:
    """The fields without zeros that are no sizes; `zeros_set_aside` says that there were such.

    No device has 0 bytes, and no request is for none: beside such a zero what is free is the same answer of a driver
    that cannot tell, and a count of 0 is no count. What torch counted, and is more, is kept.
    """
    if fields["total_bytes"] != 0 and fields["requested_bytes"] != 0:
        return fields
    kept = {name: None if value == 0 and name.endswith("_bytes") else value for name, value in fields.items()}
    if fields["total_bytes"] == 0:
        kept["free_bytes"] = None
    return {**kept, "zeros_set_aside": True}


def _without_contradictions(fields: dict[str, FieldValue], backend: FieldValue) -> dict[str, FieldValue]:
    """The fields without figures that cannot all be true; `contradictory` names these, for which is wrong is not known.

    What is free is no more than there is, nor is that with what is held, unless more is held than there is (a driver
    that moves memory to the host tells so; Intel's counts as free what a process cannot have). What is allocated is no
    more than what is reserved, and no device has petabytes.
    """
    told: list[str] = []
    aside: set[str] = set()

    def size_of(name: str) -> int | None:
        value = fields.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    for name in ("total_bytes", "free_bytes", "allocated_bytes", "reserved_bytes", "reserved_unallocated_bytes"):
        if (value := size_of(name)) is not None and value > _MORE_THAN_ANY_DEVICE:
            told.append(format_bytes(value))
            aside.add(name)
    for less, more in (("free_bytes", "total_bytes"), ("allocated_bytes", "reserved_bytes")):
        smaller, larger = size_of(less), size_of(more)
        if {less, more} & aside or smaller is None or larger is None or smaller <= _ROUNDED * larger + MIB:
            continue
        told.append(f"{format_bytes(smaller)} / {format_bytes(larger)}")
        aside |= {less, more}
    total, free = size_of("total_bytes"), size_of("free_bytes")
    held = max((value for name in ("allocated_bytes", "reserved_bytes") if (value := size_of(name))), default=0)
    sums_up = not aside and backend != "xpu"
    if sums_up and total and free is not None and held <= _ROUNDED * total + MIB < free + held:
        told.append(f"{format_bytes(free)} + {format_bytes(held)} / {format_bytes(total)}")
        aside |= {"free_bytes", "total_bytes", "allocated_bytes", "reserved_bytes"}
    if aside & {"allocated_bytes", "reserved_bytes"}:
        aside |= {"allocated_bytes", "reserved_bytes", "reserved_unallocated_bytes"}
    if not told:
        return fields
    return {name: None if name in aside else value for name, value in fields.items()} | {"contradictory": tuple(told)}


def _known(value: int | None) -> bool:
    return value is not None and 0 <= value < _UNKNOWN_SIZE


def _pid(text: str) -> int | None:
    """None for a process id that was blotted out."""
    return int(text) if text.isdecimal() else None


def _advice(statement: str) -> str | None:
    return next((word for word in ("expandable_segments", "max_split_size_mb") if word in statement), None)


def _who(before: str) -> dict[str, FieldValue]:
    """Backend, exception class and the sentence of an engine around torch's own, from the text before the request."""
    backend = _BACKEND.search(before)
    lead = strip_log_header(before[: backend.start()] if backend else before).strip()
    exception = _EXCEPTION.search(lead)
    if exception:
        lead = lead[: exception.start()].strip()
    sentence = lead.removesuffix(":").strip() if lead.endswith(":") else ""
    inner = _EXCEPTION_FIRST.match(sentence)
    if inner:
        sentence = sentence[inner.end() :]
    sentence = _WARNING_PLACE.sub("", sentence)
    is_sentence = " " in sentence and any(char.isalpha() for char in sentence)
    return {
        "backend": _BACKENDS[backend[1]] if backend else None,
        "exception_type": exception[1] if exception else inner[0][:-2] if inner else None,
        "wrapped_by": sentence[-200:] if is_sentence else None,
    }


def _no_request(match: re.Match[str], line: Line) -> LogEvent | None:
    """`CUDA out of memory.` with nothing after it: cut off, or in an engine's own words (which its family reads)."""
    if "Tried to allocate" in line.text or "MPS allocated" in line.text:
        return None
    if not printed(line.text, match.start(), match.end()):
        return None
    who = _who(line.text[: match.end()])
    return event(EventKind.DEVICE_OOM, line, **who, generation="bare")


def _cut_off(match: re.Match[str], line: Line) -> LogEvent | None:
    """The end of a statement whose beginning is not there."""
    if any("Tried to allocate" in text for text in (line.text, *line.preceding(12))):
        return None
    text = "\n".join([*line.preceding(3), line.text])
    fields, device = _amounts(text if "total capac" in text else line.text)
    if fields["allocated_bytes"] is None or quoted(line.text, match.start()):
        return None
    return event(EventKind.DEVICE_OOM, line, device, **fields, advice=_advice(text))


def _old_runtime(match: re.Match[str], line: Line) -> LogEvent:
    """Before 1.0 the message had no sizes."""
    exception = "RuntimeError" if "RuntimeError" in line.text[: match.start()] else None
    return event(EventKind.DEVICE_OOM, line, backend="cuda", exception_type=exception, generation="bare")


def _mps(match: re.Match[str], line: Line) -> LogEvent | None:
    if "MPS allocated" not in line.text and not printed(line.text, match.start(), match.end()):
        return None
    text = joined(line, ("private pool", "shared pool"), _BEGINNINGS[1:])
    pool = re.search(r"on (private|shared) pool", text)
    request = _REQUEST.search(text)
    amounts = {name: size(found[1]) for name, regex in _MPS.items() if (found := regex.search(text))}
    return event(
        EventKind.DEVICE_OOM,
        line,
        backend="mps",
        exception_type="RuntimeError" if "RuntimeError" in text[: match.start()] else None,
        requested_bytes=size(request[1]) if request else None,
        pool=pool[1] if pool else None,
        generation="sentences",
        **amounts,
    )


_MPS = {
    "allocated_bytes": re.compile(rf"MPS allocated: ({SIZE})"),
    "other_bytes": re.compile(rf"other allocations: ({SIZE})"),
    "allowed_bytes": re.compile(rf"max allowed: ({SIZE})"),
}


def _malloc_async(match: re.Match[str], line: Line) -> LogEvent | None:
    """The cudaMallocAsync backend: a sentence and a small table on the next lines (or after escaped line ends)."""
    table = "\n".join([line.text[match.end() :], *line.following(8)])
    amounts = {name: size(found[1]) for name, regex in _MALLOC_ASYNC.items() if (found := regex.search(table))}
    lead = line.text[: match.start()].rstrip()
    if not amounts and not printed(line.text, match.start(), match.end()) and not _NODE_FAILED.search(lead):
        return None
    if (amounts.get("allowed_bytes") or 0) >= _UNSET_LIMIT_BYTES:
        del amounts["allowed_bytes"]
    exception = _EXCEPTION.search(f"{lead} ")
    return event(
        EventKind.DEVICE_OOM,
        line,
        integer(match[1]),
        backend="cudaMallocAsync",
        exception_type=exception[1] if exception else None,
        generation="sentences" if amounts else "bare",
        node=_node_before(line) if not lead else None,
        **amounts,
    )


def _node_before(line: Line) -> str | None:
    """ComfyUI names the node on a line before the message, or in a sentence over it."""
    for text in line.preceding(1):
        if _NODE_NAME.match(text):
            return text.strip()
    told = (_NODE_TOLD.match(text) for text in reversed(line.preceding(3)))
    return next((found[1] for found in told if found), None)


_NODE_NAME = re.compile(r"\s{0,4}[A-Z]\w{2,60}\s*$")
_NODE_TOLD = re.compile(r"\s{0,4}Error occurred when executing (\w{2,60}):?\s*$")
_NODE_FAILED = re.compile(r"!!! Exception during processing !{0,3}$")
_UNSET_LIMIT_BYTES = 1 << 62
"""Torch prints the largest number there is where nobody has set a fraction."""
_MALLOC_ASYNC = {
    "allocated_bytes": re.compile(rf"Currently allocated {{0,12}}: ({SIZE})"),
    "requested_bytes": re.compile(rf"Requested {{0,24}}: ({SIZE})"),
    "total_bytes": re.compile(rf"Device limit {{0,20}}: ({SIZE})"),
    "free_bytes": re.compile(rf"Free \(according to CUDA\) {{0,4}}: ({SIZE})"),
    "allowed_bytes": re.compile(
        rf"PyTorch limit \(set by user-supplied memory fraction\)\s{{0,60}}(?:\S{{1,60}}\s{{1,60}})?: ({SIZE})"
    ),
}


def _class_alone(match: re.Match[str], line: Line) -> LogEvent:
    """`torch.OutOfMemoryError` as the end of a traceback or a field of a report, its message lost."""
    return event(EventKind.DEVICE_OOM, line, exception_type=match["type"], generation="bare")


def _try_warning(match: re.Match[str], line: Line) -> LogEvent:
    """Wrapped, the figures stand on the next line or the next two."""
    figures = _OF_A_TRY.search(" ".join([line.text[match.start() :], *(text.strip() for text in line.following(2))]))
    return event(
        EventKind.DEVICE_OOM_TRY,
        line,
        int(match[1]),
        requested_bytes=int(figures[1]) if figures else None,
        free_bytes=integer(figures[2]) if figures else None,
        total_bytes=integer(figures[3]) if figures else None,
    )


_OF_A_TRY = re.compile(
    r"^(?:allocation|mapping) failed with OOM on device \d{1,4}\s{1,40}while trying to"
    r"\s{1,40}(?:allocate|map)\s{1,40}(\d{1,20}) bytes(?:\s{1,40}\(free: (\d{1,20}), total: (\d{1,20})\))?"
)


def _xpu_limit(match: re.Match[str], line: Line) -> LogEvent:
    return event(EventKind.DEVICE_OOM, line, backend="xpu", generation="bare")


FAMILY = Family(
    "torch allocator",
    (
        Pattern("Tried to allocate", r"Tried to allocate", _tried),
        Pattern(
            "out of memory. tried to allocate",
            r"\b(?:cuda|hip|xpu) out of memory\. tried to allocate",
            _retyped,
        ),
        Pattern(
            "out of memory",
            r"\b(?:CUDA|HIP|XPU|NPU|CNRT) out of memory(?=\.|$| *[\"'`)\]]|: *$)",
            _no_request,
        ),
        Pattern("by PyTorch but unallocated", r"\bis reserved by PyTorch but unallocated", _cut_off),
        Pattern("reserved in total by PyTorch", r"\breserved in total by PyTorch\)", _cut_off),
        Pattern("cuda runtime error (2)", r"cuda runtime error \(2\) {0,2}: out of memory", _old_runtime),
        Pattern(
            "THCudaCheck FAIL",
            r"THCudaCheck FAIL file=\S{1,300} line=\d+ error=2 : out of memory",
            _old_runtime,
        ),
        Pattern("MPS backend out of memory", r"MPS backend out of memory", _mps),
        Pattern(
            "Allocation on device",
            r"Allocation on device(?: (\d{1,4}))?(?: would exceed allowed memory|\s*$|\s*This error means)",
            _malloc_async,
        ),
        Pattern(
            "OutOfMemoryError",
            r"(?:^\s*|\bType:\*{0,2} *`?)(?P<type>torch(?:\.cuda)?\.OutOfMemoryError)`?(?::(?: ?(?:CUDA|HIP|XPU|NPU)"
            r"(?: o| ou| out(?: of?)?(?: m(?:e(?:m(?:or?)?)?)?)?)?)?)?\s*$",
            _class_alone,
        ),
        Pattern(
            "failed with OOM on device",
            r"(?:allocation|mapping) failed with OOM on device (\d{1,4})(?= while trying to|\s*$)",
            _try_warning,
        ),
        Pattern(
            "Allocation is out of device memory",
            r"Allocation is out of device memory on current platform",
            _xpu_limit,
        ),
    ),
)
