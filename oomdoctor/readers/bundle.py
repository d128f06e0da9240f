"""An incident bundle → the record of its run. It is untrusted: a field of the wrong type is dropped, not believed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from ..bundle.read import StoredBundle, is_bundle, read_bundle
from ..bundle.records import Record, Records
from ..bundle.redact import mask_text
from ..language import N_
from ..model.devices import DeviceProcess, DeviceReading
from ..model.host import HostLimits, HostSample, OomCounters
from ..model.run import (
    AllocatorState,
    Census,
    CensusDevice,
    CensusGroup,
    DeviceOomRecord,
    ExceptionRecord,
    LargeObject,
    ProcessRecord,
    RunRecord,
    StackFrame,
    VisibleDevice,
)
from ..model.source import Source
from .numbering import number_devices

__all__ = ["StoredRun", "is_bundle", "read_run"]

Noun = TypeVar("Noun")

MAX_TEXT = 16_000
MAX_ITEMS = 10_000
_LARGEST = 1 << 62

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class StoredRun:
    """A run, and the files beside it that other readers read."""

    run: RunRecord
    logs: tuple[Path, ...]
    """What the command and the kernel printed, in reading order."""
    snapshots: tuple[Path, ...]
    problems: tuple[str, ...]
    """What of the bundle could not be read, a sentence each."""


def read_run(path: Path, shown: str = "") -> StoredRun:
    """Read the bundle in the folder `path`; `shown` goes before the names of its files wherever a source is given.

    Raises BundleError when the folder is no bundle that this version reads.
    """
    bundle = read_bundle(path)
    manifest = bundle.manifest
    processes = _Processes(bundle, shown)
    variables = _words(manifest.get("variables"))
    known = processes.processes()
    failures = processes.failures("device-oom")
    watched = {process.pid for process in known} | {record.pid for record in failures}
    looks = _device_readings(bundle.supervisor, f"{shown}supervisor.records")
    inner = _inner_pids(bundle.supervisor)
    devices = number_devices(tuple(_with_own(look, watched, inner) for look in looks), known, variables)
    end = next(iter(bundle.supervisor.of_kind("exit")), None)
    started = _number(manifest.get("started"))
    run = RunRecord(
        path=shown.rstrip("/") or path.name,
        command=_texts(manifest.get("command")),
        working_directory=_text(manifest.get("working_directory")),
        started_seconds=started if started is not None else _first_time(bundle),
        ended_seconds=_number(end.data.get("ended")) if end else None,
        exit_status=_size(end.data.get("status")) if end else None,
        signal=_size(end.data.get("signal")) if end else None,
        limits=_last(bundle.supervisor, "limits", _limits, HostLimits()),
        counters=_last(bundle.supervisor, "counters", lambda data: _build(OomCounters, data), OomCounters()),
        sample_interval_seconds=_number(manifest.get("sample_interval_seconds")),
        samples=_samples(bundle.supervisor),
        device_readings=devices.seen,
        hidden_device_readings=devices.hidden,
        device_numbers_known=devices.known,
        processes=known,
        exceptions=processes.exceptions(),
        device_ooms=failures,
        library_ooms=processes.failures("library-oom"),
        allocator_states=processes.allocator_states(),
        versions=_versions(bundle, processes),
        host=_words(manifest.get("host")),
        variables=variables,
        unseen=_unseen(bundle.supervisor),
        model=_kept(bundle.supervisor, "model"),
        launch_config=_kept(bundle.supervisor, "launch-config"),
        trainer_settings=_kept(bundle.supervisor, "trainer-settings"),
        complete=bundle.complete,
        received_signals=_numbers(end.data.get("received"), _size) if end else (),
    )
    return StoredRun(run, bundle.logs, bundle.snapshots, _problems(bundle))


def _kept(supervisor: Records, kind: str) -> Mapping[str, Any] | None:
    """As it was kept; who makes something of it again checks each part."""
    kept = next((record.data.get("kept") for record in supervisor.of_kind(kind)), None)
    return kept if isinstance(kept, dict) else None


_OWN_SIZES = (
    "vm_size_bytes", "vm_peak_bytes", "vm_data_bytes", "rss_bytes", "rss_peak_bytes",
    "address_space_limit_bytes", "data_limit_bytes",
)  # fmt: skip
"""What a process that could not get memory read of itself."""

_FRAME_FIELDS = ("file", "line", "function", "code")


def _inner_pids(supervisor: Records) -> dict[int, int]:
    """The driver's number of a process → the one that the probe in it recorded, where that is another."""
    told = {
        _size(record.data.get("pid")): _size(record.data.get("inner_pid")) for record in supervisor.of_kind("namespace")
    }
    known = {pid: inner for pid, inner in told.items() if pid is not None and inner is not None}
    return {pid: inner for pid, inner in known.items() if list(known.values()).count(inner) == 1}


def _with_own(look: DeviceReading, watched: set[int], inner: Mapping[int, int]) -> DeviceReading:
    """A process that the probe was in is the command's, also where the supervisor had not seen it start."""
    if look.processes is None:
        return look

    def known(process: DeviceProcess) -> DeviceProcess:
        if process.pid is not None and process.pid in inner:
            return replace(process, pid=inner[process.pid])
        return replace(process, own=True) if process.pid in watched else process

    return replace(look, processes=tuple(map(known, look.processes)))


class _Processes:
    """The probe's records of all processes, in the order of their time."""

    def __init__(self, bundle: StoredBundle, shown: str) -> None:
        told = ((pid, record) for pid, records in bundle.probes.items() for record in records.records)
        self._records = sorted(_latest_telling(told), key=lambda item: _number(item[1].data.get("time")) or 0.0)
        self._shown = shown
        self._ranks = {pid: _size(record.data.get("rank")) for pid, record in self._of_kind("process")}

    def _of_kind(self, kind: str) -> Iterable[tuple[int, Record]]:
        return ((pid, record) for pid, record in self._records if record.kind == kind)

    def _source(self, pid: int, record: Record) -> Source:
        return Source(path=f"{self._shown}probe/{pid}.records", line=record.line, record=record.kind)

    def _rank(self, pid: int, record: Record) -> int | None:
        rank = _size(record.data.get("rank"))
        return self._ranks.get(pid) if rank is None else rank

    def processes(self) -> tuple[ProcessRecord, ...]:
        torch = {pid: _text(record.data.get("version")) for pid, record in self._of_kind("torch")}
        ends = {pid: record.data for pid, record in self._of_kind("end")}
        devices = {pid: _built(VisibleDevice, record.data.get("devices")) for pid, record in self._of_kind("devices")}
        latest: dict[int, ProcessRecord] = {}
        for pid, record in self._of_kind("process"):
            data = record.data
            end = ends.get(pid, {})
            clean = end.get("clean")
            latest[pid] = ProcessRecord(
                pid=pid,
                parent_pid=_size(data.get("ppid")),
                command=_texts(data.get("argv")),
                started_seconds=_number(data.get("time")) or 0.0,
                python_version=_text(data.get("python")),
                torch_version=torch.get(pid),
                rank=self._ranks.get(pid),
                ended_cleanly=clean if isinstance(clean, bool) else None,
                devices=devices.get(pid, ()),
                rss_peak_bytes=_size(end.get("rss_peak_bytes")),
            )
        return tuple(latest.values())

    def versions(self) -> dict[str, str]:
        """What the processes say of themselves; where they differ, the last word."""
        found: dict[str, str] = {}
        for kind, field, name in (("process", "python", "python"), ("torch", "version", "torch")):
            for _, record in self._of_kind(kind):
                version = _text(record.data.get(field))
                if version:
                    found[name] = version
        for kind in ("torch", "versions"):
            for _, record in self._of_kind(kind):
                found.update(_words(record.data.get("versions")))
        return found

    def exceptions(self) -> tuple[ExceptionRecord, ...]:
        found = []
        for pid, record in self._of_kind("exception"):
            data, error = record.data, _memory_error(record.data)
            name = _text(error.get("exception_type"))
            if name is None:
                continue
            found.append(
                ExceptionRecord(
                    source=self._source(pid, record),
                    time_seconds=_number(data.get("time")) or 0.0,
                    pid=pid,
                    exception_type=name,
                    message=mask_text(_text(error.get("message")) or ""),
                    frames=_frames(error.get("frames")),
                    is_memory_error=error.get("is_memory_error") is True,
                    is_device_oom=any(link.get("is_device_oom") is True for link in _links(data)),
                    is_library_oom=any(link.get("is_library_oom") is True for link in _links(data)),
                    from_worker=data.get("from_worker") is True,
                    fatal=data.get("fatal") is not False,
                    thread=_text(data.get("thread")),
                    rank=self._rank(pid, record),
                    large_objects=_built(LargeObject, data.get("large_objects")),
                    **{name: _size(data.get(name)) for name in _OWN_SIZES},
                )
            )
        return tuple(found)

    def failures(self, kind: str) -> tuple[DeviceOomRecord, ...]:
        """Records of `device-oom` or `library-oom`, each with its census."""
        found = []
        censuses = {(pid, _text(record.data.get("id"))): record for pid, record in self._of_kind("census")}
        for pid, record in self._of_kind(kind):
            data = record.data
            census = censuses.get((pid, _text(data.get("id"))))
            count = _size(data.get("count"))
            found.append(
                DeviceOomRecord(
                    source=self._source(pid, record),
                    time_seconds=_number(data.get("time")) or 0.0,
                    pid=pid,
                    device=_size(data.get("device")),
                    requested_bytes=_size(data.get("requested_bytes")),
                    device_total_bytes=_size(data.get("device_total_bytes")),
                    device_free_bytes=_size(data.get("device_free_bytes")),
                    state=_state(data.get("state"), data),
                    frames=_frames(data.get("frames")),
                    snapshot_path=_inside(data.get("snapshot_path")),
                    rank=self._rank(pid, record),
                    count=count if count else 1,
                    visible_devices=_size(data.get("visible_devices")),
                    autograd_on=_flag(data.get("autograd_on")),
                    census=None if census is None else _census(census.data, self._source(pid, census)),
                )
            )
        return tuple(found)

    def allocator_states(self) -> tuple[AllocatorState, ...]:
        states = (_state(record.data, record.data) for _, record in self._of_kind("allocator"))
        return tuple(state for state in states if state is not None)


def _census(data: Mapping[str, Any], source: Source) -> Census:
    groups = []
    for item in _mappings(data.get("groups")):
        lists = {
            "parts": _parts(item.get("parts")),
            "largest_shape": _numbers(item.get("largest_shape"), _size),
            "sample_addresses": _numbers(item.get("sample_addresses"), _address),
        }
        group = _build(CensusGroup, item, lists)
        if group is not None and "saved_bytes" not in item and group.category == "saved-for-backward":
            group = replace(group, saved_bytes=group.bytes)  # a record of before there was that field
        if group is not None:
            groups.append(group)
    devices = []
    for item in _mappings(data.get("devices")):
        lists = {
            "unheld_addresses": _numbers(item.get("unheld_addresses"), _address),
            "vocabulary": _numbers(item.get("vocabulary"), _size),
        }
        device = _build(CensusDevice, item, lists)
        if device is not None:
            devices.append(device)
    return Census(
        source=source,
        devices=tuple(devices),
        groups=tuple(groups),
        complete=data.get("complete") is True,
        stopped=_text(data.get("stopped")),
        joined=data.get("joined") is not False,
        seconds=_number(data.get("seconds")),
        training=_flag(data.get("training")),
    )


def _numbers(value: object, read: Callable[[object], int | None]) -> tuple[int, ...]:
    numbers = [read(item) for item in (value[:MAX_ITEMS] if isinstance(value, list) else [])]
    return tuple(number for number in numbers if number is not None)


def _parts(value: object) -> tuple[tuple[str, int], ...]:
    rows = value[:MAX_ITEMS] if isinstance(value, list) else []
    pairs = ((_text(row[0]), _size(row[1])) for row in rows if isinstance(row, list) and len(row) == 2)
    return tuple((name, size) for name, size in pairs if name is not None and size is not None)


def _samples(records: Records) -> tuple[HostSample, ...]:
    samples = (_build(HostSample, _timed(record.data)) for record in records.of_kind("sample"))
    return tuple(sample for sample in samples if sample is not None)


def _device_readings(records: Records, path: str) -> tuple[DeviceReading, ...]:
    readings = []
    for record in records.of_kind("device"):
        data = record.data
        processes = _built(DeviceProcess, data.get("processes")) if isinstance(data.get("processes"), list) else None
        extra = {"source": Source(path=path, line=record.line, record="device"), "processes": processes}
        reading = _build(DeviceReading, _timed(data), extra)
        if reading is not None:
            readings.append(reading)
    return tuple(readings)


def _limits(data: Mapping[str, Any]) -> HostLimits | None:
    return _build(HostLimits, data, {"unlimited": _texts(data.get("unlimited"))})


def _state(data: object, around: Mapping[str, Any]) -> AllocatorState | None:
    """An allocator's state; what it lacks (`time`, `device`) is taken from the record around it."""
    if not isinstance(data, Mapping):
        return None
    merged = {"time_seconds": around.get("time"), **{name: around.get(name) for name in ("device", "pid")}, **data}
    return _build(AllocatorState, merged)


def _versions(bundle: StoredBundle, processes: _Processes) -> dict[str, str]:
    versions: dict[str, str] = {}
    for record in bundle.supervisor.of_kind("versions"):
        versions.update(_words(record.data.get("versions")))
    return {**versions, **processes.versions()}


def _unseen(records: Records) -> tuple[tuple[str, str, str], ...]:
    found = []
    for record in list(records.of_kind("unseen"))[:MAX_ITEMS]:
        what, why, how = (_text(record.data.get(name)) for name in ("what", "why", "how"))
        if what is not None:
            found.append((what, why or "", how or ""))
    return tuple(found)


def _problems(bundle: StoredBundle) -> tuple[str, ...]:
    problems = list(bundle.refused)
    if not bundle.complete:
        problems.append(
            N_("oomdoctor was ended before the command, or the command still runs: its exit is not recorded")
        )
    if bundle.damaged:
        problems.append(N_("{damaged} damaged records were left out").format(damaged=bundle.damaged))
    return tuple(problems)


def _first_time(bundle: StoredBundle) -> float:
    return next((time for record in bundle.supervisor.records if (time := _number(record.data.get("time")))), 0.0)


def _last(records: Records, kind: str, make: Callable[[Mapping[str, Any]], Noun | None], otherwise: Noun) -> Noun:
    """The noun of the last record of this kind."""
    made = otherwise
    for record in records.of_kind(kind):
        made = make(record.data) or made
    return made


def _latest_telling(told: Iterable[tuple[int, Record]]) -> Iterable[tuple[int, Record]]:
    """Each failure once: it is written at once and again when more is known, both times under one `id`."""
    latest: dict[object, tuple[int, Record]] = {}
    for number, (pid, record) in enumerate(told):
        name = _text(record.data.get("id"))
        latest[number if name is None else (pid, record.kind, name)] = (pid, record)
    return latest.values()


def _memory_error(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The exception itself, or the memory error it was raised from or during: that is what ran out."""
    return next((link for link in _links(data) if link.get("is_memory_error") is True), data)


def _links(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The exception, then what it was raised from or during, nearest first."""
    return [data, *_mappings(data.get("chain"))]


def _frames(value: object) -> tuple[StackFrame, ...]:
    """Frames as the probe writes them: [file, line, function, code] each, outermost first."""
    rows = value[:MAX_ITEMS] if isinstance(value, list) else []
    named = [dict(zip(_FRAME_FIELDS, row, strict=False)) for row in rows if isinstance(row, list)]
    return _built(StackFrame, named)


def _timed(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"time_seconds": data.get("time"), **data}


def _inside(value: object) -> str | None:
    """A path below the bundle, as the probe gives it; None for one that would lead anywhere else."""
    text = _text(value)
    if not text or text.startswith("/") or ".." in Path(text).parts:
        return None
    return text


def _mappings(value: object) -> list[Mapping[str, Any]]:
    items = value[:MAX_ITEMS] if isinstance(value, list) else []
    return [item for item in items if isinstance(item, Mapping)]


def _built(noun: type[Noun], value: object) -> tuple[Noun, ...]:
    made = (_build(noun, item) for item in _mappings(value))
    return tuple(one for one in made if one is not None)


def _build(noun: type[Noun], data: Mapping[str, Any], extra: Mapping[str, object] | None = None) -> Noun | None:
    """A dataclass from the fields of a record; a wrong type drops the field, or the whole where the field is required.

    `extra` gives the fields that are not plain.
    """
    values: dict[str, object] = dict(extra or {})
    for one in fields(noun):  # type: ignore[arg-type]
        if one.name in values or str(one.type) not in _READERS:
            continue
        value = _READERS[str(one.type)](data.get(one.name))
        if value is not None or (one.default is MISSING and str(one.type).endswith("| None")):
            values[one.name] = value
    try:
        return noun(**values)
    except TypeError:
        return None


def _size(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else None


def _address(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64 else None


def _number(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or abs(value) > _LARGEST:
        return None
    return float(value) if math.isfinite(value) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return _CONTROL.sub("�", value[:MAX_TEXT]) if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...]:
    items = value[:MAX_ITEMS] if isinstance(value, list) else []
    return tuple(text for item in items if (text := _text(item)) is not None)


def _words(value: object) -> dict[str, str]:
    """A mapping of names to words."""
    if not isinstance(value, Mapping):
        return {}
    pairs = ((_text(name), _text(word)) for name, word in list(value.items())[:MAX_ITEMS])
    return {name: word for name, word in pairs if name is not None and word is not None}


_READERS: Mapping[str, Callable[[Any], object]] = {
    **dict.fromkeys(("int", "int | None"), _size),
    **dict.fromkeys(("float", "float | None"), _number),
    **dict.fromkeys(("bool", "bool | None"), _flag),
    **dict.fromkeys(("str", "str | None"), _text),
}
