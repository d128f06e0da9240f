"""Host memory refused to a process: allocations, forks, pinned and shared memory, Ray's memory monitor."""

from __future__ import annotations

import re
from dataclasses import replace

from ...model.events import EventKind, FieldValue, LogEvent
from ...model.units import GIB
from .family import Build, Family, Line, Pattern
from .statement import SIZE, event, integer, joined, shape, size

_BUS_ERROR = 7


def _failed(allocator: str) -> Build:
    """A refused allocation; a group `bytes` or `size` says how much."""

    def build(match: re.Match[str], line: Line) -> LogEvent:
        given = match.groupdict()
        requested = integer(given.get("bytes")) if given.get("bytes") else size(given.get("size"))
        return event(EventKind.HOST_ALLOCATION_FAILED, line, allocator=allocator, requested_bytes=requested)

    return build


def _unformatted(match: re.Match[str], line: Line) -> LogEvent:
    """Torch 1.0 and 1.1 on Windows: the number, in whole GiB, stands behind the sentence that was to hold it."""
    requested = (integer(match["gib"]) or 0) * GIB or None
    return event(EventKind.HOST_ALLOCATION_FAILED, line, allocator="torch-cpu", requested_bytes=requested)


def _numpy(match: re.Match[str], line: Line) -> LogEvent:
    return event(
        EventKind.HOST_ALLOCATION_FAILED,
        line,
        allocator="numpy",
        requested_bytes=size(match["size"]),
        shape=shape(match["shape"]),
        dtype=match["dtype"].strip() or None,
    )


def _no_memory_errno(match: re.Match[str], line: Line) -> LogEvent:
    """ENOMEM: of a fork where the failing code says so, else of some allocation."""
    code = [line.text, *line.preceding(3)]
    forked = any(re.search(r"\bfork\b|_fork_exec|fork_exec|forking\.py|\bPopen\(", text) for text in code)
    return event(EventKind.HOST_ALLOCATION_FAILED, line, allocator="fork" if forked else "malloc")


def _pinned(match: re.Match[str], line: Line) -> LogEvent:
    return event(EventKind.PINNED_ALLOCATION_FAILED, line, requested_bytes=int(match[1]))


def _shared(match: re.Match[str], line: Line) -> LogEvent:
    given = match.groupdict()
    return event(
        EventKind.SHM_EXHAUSTED, line, requested_bytes=integer(given.get("bytes")), path=given.get("path") or None
    )


def _mapped(match: re.Match[str], line: Line) -> LogEvent:
    """Torch shares memory through files of its own in /dev/shm; any other that is mapped is one to be read."""
    if not match["path"].startswith("/torch_") and _A_FILE.search(match["path"]):
        return event(EventKind.HOST_ALLOCATION_FAILED, line, allocator="mmap", requested_bytes=int(match["bytes"]))
    return _shared(match, line)


def _no_shared(match: re.Match[str], line: Line) -> LogEvent | None:
    """A file system is full: that of shared memory where a semaphore or a heap of multiprocessing was to be made."""
    made = any(_MAKES_SHARED.search(text) for text in line.preceding(6))
    return event(EventKind.SHM_EXHAUSTED, line) if made else None


_MAKES_SHARED = re.compile(r"SemLock\(|multiprocessing/(?:heap|shared_memory|synchronize)\.py|_posixshmem")
_A_FILE = re.compile(r"^(?!/dev/shm/).*[/\\].*[^/\\]$|\.\w{1,16}$")


def _worker_bus_error(match: re.Match[str], line: Line) -> LogEvent:
    failure = event(EventKind.SHM_EXHAUSTED, line, signal=_BUS_ERROR)
    pid = integer(match.groupdict().get("pid"))
    return failure if pid is None else replace(failure, pid=pid)


def _wrapped_bus_error(match: re.Match[str], line: Line) -> LogEvent | None:
    """The name of the signal goes on in the next line."""
    goes_on = any(text.lstrip().startswith("error") for text in line.following(1))
    return _worker_bus_error(match, line) if goes_on else None


def _nccls_call(match: re.Match[str], line: Line) -> LogEvent | None:
    """NCCL names the segment that it was to make in the lines below, if these were kept; that tells more."""
    told = any("/dev/shm/nccl-" in text for text in (line.text, *line.following(4)))
    return None if told else event(EventKind.SHM_EXHAUSTED, line)


def _ray_monitor(match: re.Match[str], line: Line) -> LogEvent:
    """Ray divides by 1024³ and writes GB."""
    threshold = re.search(r"usage threshold of (\d(?:\.\d{1,9})?)", line.text)
    task_used = re.search(rf"memory used=({SIZE})", line.text)
    top = _top_processes(line.following(24))
    if task_used and not top and (task := re.search(r"\bname=([^,)]{1,200}), pid=(\d{1,10})", line.text)):
        top = ((int(task[2]), size(task_used[1]), task[1]),)
    return event(
        EventKind.MEMORY_LIMIT_HIT,
        line,
        system="ray",
        of_node=True,
        used_bytes=size(match["used"]),
        total_bytes=size(match["total"]),
        threshold=float(threshold[1]) if threshold else None,
        top_processes=top or None,
    )


def _cut_ray_monitor(match: re.Match[str], line: Line) -> LogEvent | None:
    """The monitor's sentence, cut before its figures: only a kill begins it."""
    return (
        None if _RAY_FIGURES.search(line.text) else event(EventKind.MEMORY_LIMIT_HIT, line, system="ray", of_node=True)
    )


_RAY_FIGURES = re.compile(rf"\bwas {SIZE} / {SIZE}")


def _old_ray_monitor(match: re.Match[str], line: Line) -> LogEvent | None:
    text = joined(line, (" GB)",), ("Traceback (most recent call last)",), most=2)
    whole = _OLD_RAY.search(text)
    if whole is None:
        return None
    return event(
        EventKind.MEMORY_LIMIT_HIT,
        line,
        system="ray",
        of_node=True,
        used_bytes=size(whole["used"] + " GB"),
        total_bytes=size(whole["total"] + " GB"),
        threshold=int(whole["percent"]) / 100,
        top_processes=_top_processes(line.following(24)) or None,
    )


_OLD_RAY = re.compile(
    r"More than (?P<percent>\d{1,3})% of the memory on node .{0,200}? is used"
    r" \((?P<used>\d+(?:\.\d*)?) / (?P<total>\d+(?:\.\d*)?) GB\)"
)


def _top_processes(lines: list[str]) -> tuple[FieldValue, ...]:
    """The rows `PID MEM COMMAND` of Ray's table."""
    rows: list[FieldValue] = []
    for text in lines:
        if row := re.match(r"\s*(\d{1,10})\s{1,20}(\d+(?:\.\d*)?)(?: ?Gi?B)?\s{1,20}(\S.{0,300})$", text):
            rows.append((int(row[1]), size(f"{row[2]} GiB"), row[3].strip()))
    return tuple(rows)


def _ray_table(match: re.Match[str], line: Line) -> LogEvent | None:
    """The table alone; where the monitor's sentence stands before it, that has read it already."""
    if any("Memory on the node" in text or "memory on node" in text for text in line.preceding(6)):
        return None
    top = _top_processes(line.following(16))
    return event(EventKind.HOST_STATE, line, top_processes=top) if top else None


def _ray_advice(match: re.Match[str], line: Line) -> LogEvent | None:
    """The end of the monitor's message, whose beginning was cut off; the rows of its table may stand before it."""
    before = line.preceding(40)
    if any("Memory on the node" in text or "memory on node" in text for text in before):
        return None
    top = _top_processes(before) or None
    return event(EventKind.MEMORY_LIMIT_HIT, line, system="ray", of_node=True, top_processes=top)


def _ray_count(match: re.Match[str], line: Line) -> LogEvent | None:
    count = int(match[1])
    return event(EventKind.MEMORY_LIMIT_HIT, line, system="ray", of_node=True, count=count) if count else None


def _session_ended(system: str) -> Build:
    """A hosted notebook's own words on why it was started again."""
    return lambda match, line: event(EventKind.MEMORY_LIMIT_HIT, line, system=system)


FAMILY = Family(
    "host memory",
    (
        Pattern(
            "you tried to allocate",
            r"(?:can't allocate memory|not enough memory): you tried to allocate (?P<bytes>\d{1,20}) bytes",
            _failed("torch-cpu"),
        ),
        Pattern(
            "you tried to allocate",
            r"not enough memory: you tried to allocate (?P<size>\d{1,12}[KMGT]B)",
            _failed("torch-cpu"),
        ),
        Pattern(
            "posix_memalign(",
            r"posix_memalign\(&data, gAlignment, nbytes\) == 0(?:\. 12 vs 0)?",
            _failed("torch-cpu"),
        ),
        Pattern(
            "alloc of size ",
            r"MemoryError: (?:m|re)alloc of size (?P<bytes>\d{1,20}) failed",
            _failed("malloc"),
        ),
        Pattern("C error: out of memory", r"Error tokenizing data\. C error: out of memory\s*$", _failed("malloc")),
        Pattern(
            "nsufficient memory) Failed to allocate ",
            r"error: \(-4: ?[Ii]nsufficient memory\) Failed to allocate (?P<bytes>\d{1,20}) bytes",
            _failed("malloc"),
        ),
        Pattern(
            "% memory budget. Restarting",
            r"\b[Ww]orker (?:\S{1,80} (?:\(pid=\d{1,10}\) )?)?exceeded \d{1,3}% memory budget\. Restarting",
            lambda match, line: event(EventKind.MEMORY_LIMIT_HIT, line, system="dask"),
        ),
        Pattern(
            "Buy new RAM!",
            r"not enough memory: you tried to (?:re)?allocate %dGB\. Buy new RAM!(?P<gib>\d{1,6})?",
            _unformatted,
        ),
        Pattern(
            "DefaultCPUAllocator: ",
            r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)(?!: you tried)",
            _failed("torch-cpu"),
        ),
        Pattern(
            "Unable to allocate",
            rf"Unable to allocate (?:array|(?P<size>{SIZE}) for an array) with shape (?P<shape>\([^()]{{0,200}}\))"
            r" and data type (?P<dtype>.{1,300}?)(?:(?:;| \||\.) .{0,4000})?$",
            _numpy,
        ),
        Pattern("array is too big.", r"ValueError: array is too big\.\s*$", _failed("numpy")),
        Pattern(
            "MemoryError",
            r"^\s*(?:[\w.-]{0,60}[0-9]: |.{0,200}\b(?:ERROR|CRITICAL|FATAL)\b.{0,80}?[:\]>-] )?"
            r"(?:[\w.$]{1,120}(?:Exception|Error): ){0,2}(?:builtins\.)?MemoryError(?::|\(\))?\s*$",
            _failed("python"),
        ),
        Pattern("Cannot allocate memory", r"\[Errno 12\] {1,3}Cannot allocate memory", _no_memory_errno),
        Pattern("Error: [Errno 12] ", r"\bOSError: \[Errno 12\] (?!Cannot)\S", _no_memory_errno),
        Pattern(
            "could not resize shared memory segment",
            r"could not resize shared memory segment \"[^\"]{1,80}\" to (?P<bytes>\d{1,20}) bytes: "
            r"No space left on device",
            _shared,
        ),
        Pattern("WinError 1455", r"\[WinError 1455\]", _failed("windows-paging")),
        Pattern("(os error 1455)", r"\(os error 1455\)\s*$", _failed("windows-paging")),
        Pattern(
            "tcmalloc: large alloc",
            r"tcmalloc: large alloc (\d{1,20}) bytes",
            lambda match, line: event(EventKind.HOST_LARGE_ALLOCATION, line, requested_bytes=int(match[1])),
        ),
        Pattern("bytes on host: ", r"failed to alloc (\d{1,20}) bytes on host: ", _pinned),
        Pattern(
            "could not allocate pinned host memory",
            r"could not allocate pinned host memory(?: \(\w{1,40}\))? of size: (\d{1,20})",
            _pinned,
        ),
        Pattern(
            "is killed by signal: Bus error",
            r"DataLoader worker (?:\(pid (?P<pid>\d{1,10})\) )?is killed by signal: Bus error",
            _worker_bus_error,
        ),
        Pattern(
            "is killed by signal: Bus",
            r"DataLoader worker (?:\(pid (?P<pid>\d{1,10})\) )?is killed by signal: Bus\s*$",
            _wrapped_bus_error,
        ),
        Pattern(
            "error encountered in ",
            r"Unexpected (?:bus|BUS) error encountered in (?:DataLoader )?worker",
            _worker_bus_error,
        ),
        Pattern(
            "unable to open shared memory object",
            r"unable to open shared memory object (?:<(?P<path>/torch_[^>]{1,200})>|\w{1,60}) in read-write mode"
            r"(?!.{0,20}Too many open files)",
            lambda match, line: event(EventKind.SHM_EXHAUSTED, line, path=match["path"], reason_unstated=True),
        ),
        Pattern(
            "unable to mmap ",
            r"unable to mmap (?P<bytes>\d{1,20}) bytes from file <(?P<path>[^>]{0,300})>: Cannot allocate memory",
            _mapped,
        ),
        Pattern("[Errno 28] No space left on device", r"OSError: \[Errno 28\] No space left on device\s*$", _no_shared),
        Pattern(
            "unable to write to file <",
            r"unable to write to file <(?P<path>/torch_[^>]{1,200})>(?!: No space left)",
            _shared,
        ),
        Pattern(
            "received 0 items of ancdata",
            r"RuntimeError: received 0 items of ancdata",
            lambda match, line: event(EventKind.SHM_EXHAUSTED, line, reason_unstated=True),
        ),
        Pattern(
            "No space left on device",
            r"<(?P<path>/torch_[^>]{1,200})>: No space left on device"
            r"|No space left on device: '(?P<other>/dev/shm[^']{0,300})'",
            lambda match, line: event(EventKind.SHM_EXHAUSTED, line, path=match["path"] or match["other"]),
        ),
        Pattern(
            "NCCL WARN Call to ",
            r"NCCL WARN Call to (?:posix_fallocate|fallocate|ftruncate|shm_open|mmap) failed ?: "
            r"(?:No space left on device|Cannot allocate memory)",
            _nccls_call,
        ),
        Pattern(
            "/dev/shm/nccl-",
            r"(?:creating|allocat\w{1,4}|extend\w{0,3}) .{0,60}?(?P<path>/dev/shm/nccl-\w{1,60})"
            r"(?:.{0,40}?\(?(?:size|to) (?P<bytes>\d{1,20}))?",
            _shared,
        ),
        Pattern(
            "Memory on the node",
            rf"Memory on the node .{{0,600}}?\bwas (?P<used>{SIZE}) / (?P<total>{SIZE})",
            _ray_monitor,
        ),
        Pattern("Memory on the node (IP: ", r"Memory on the node \(IP: .{1,200}\) where the task \(", _cut_ray_monitor),
        Pattern("of the memory on node", r"More than \d{1,3}% of the memory on node\b", _old_ray_monitor),
        Pattern(
            "ystem memory low at node",
            rf"[Ss]ystem memory low at node .{{0,200}}?Used memory \((?P<used>{SIZE})\) / total capacity"
            rf" \((?P<total>{SIZE})\)",
            _ray_monitor,
        ),
        Pattern(
            "killed due to memory pressure",
            r"(\d{1,9}) Workers \(tasks / actors\) killed due to memory pressure",
            _ray_count,
        ),
        Pattern(
            "ray-oom-prevention",
            r"Refer to the documentation on how to address the out of memory issue: \S{1,120}ray-oom-prevention",
            _ray_advice,
        ),
        Pattern(
            "session crashed after using all available RAM",
            r"^\s*(?:\[[^\]]{1,40}\] ?){0,3}Your session crashed after using all available RAM",
            _session_ended("colab"),
        ),
        Pattern(
            "tried to allocate more memory than is available",
            r"^\s*(?:\[[^\]]{1,40}\] ?){0,3}Your notebook tried to allocate more memory than is available",
            _session_ended("kaggle"),
        ),
        Pattern("COMMAND", r"\bPID\s{1,20}MEM(?:\(GB\))?\s{1,20}COMMAND", _ray_table),
    ),
)
