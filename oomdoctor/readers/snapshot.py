"""Reads a PyTorch memory snapshot (`torch.cuda.memory._snapshot()` and its kin) of any schema into columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputRefused
from ..language import N_
from ..model.snapshot import ACTIONS, BLOCK_STATES, Blocks, Events, IntColumn, Segments, Snapshot, SnapshotOom
from ..model.units import MIB
from .event_rows import CutContent, EventRows, cut_rows
from .pickles import load_plain
from .snapshot_annotations import read_annotations
from .snapshot_columns import StackTable, addresses, coded, field, flags, integers, is_size, sizes

_STATES = {name: code for code, name in enumerate(BLOCK_STATES)} | {"active_awaiting_free": 2}
_ACTION_CODES = {name: code for code, name in enumerate(ACTIONS)} | {"workspace_snapshot": ACTIONS.index("snapshot")}
"""The allocator of torch_npu for workspaces of operators, whose segments and events stand beside the others."""
_UNKNOWN_ACTION, _OOM = _ACTION_CODES["unknown"], _ACTION_CODES["oom"]
_SMALL_SEGMENT_BYTES = 2 * MIB
_LONGEST_NOTE = 200

_TOP_KEYS = {"segments", "device_traces", "allocator_settings", "external_annotations", "host_segments", "host_traces"}
_SEGMENT_KEYS = {
    "device", "address", "total_size", "allocated_size", "active_size", "requested_size", "stream", "segment_type",
    "segment_pool_id", "is_expandable", "frames", "blocks",
}  # fmt: skip
_BLOCK_KEYS = {"address", "size", "requested_size", "state", "frames", "history"}
_EVENT_KEYS = {
    "action", "addr", "device_free", "size", "stream", "time_us", "frames", "compile_context", "user_metadata",
    "pool_id",
}  # fmt: skip
_BACKEND_MARKS = (
    ("torch_npu", "npu"),
    ("NPUCachingAllocator", "npu"),
    ("XPUCachingAllocator", "xpu"),
    ("libc10_xpu", "xpu"),
    ("torch/xpu/", "xpu"),
    ("HIPCachingAllocator", "hip"),
    ("c10::hip::", "hip"),
    ("libc10_hip", "hip"),
    ("libtorch_hip", "hip"),
    ("CUDACachingAllocator", "cuda"),
    ("libc10_cuda", "cuda"),
    ("libtorch_cuda", "cuda"),
)
"""Only what no other backend has: `torch/cuda/….py` and `at::cuda` are in the stacks of ROCm as well."""
_XPU_SETTINGS = {"PYTORCH_ALLOC_CONF", "expandable_segments"}
"""Those of CUDA are more, torch_npu writes none."""

_Row = dict[str, Any]


_MOST_DEVICES = 1024
"""Torch numbers at most 128."""


def read_snapshot(
    path: Path, shown_path: str | None = None, progress: Callable[[int, int], None] | None = None
) -> Snapshot:
    """The snapshot in the pickle at `path` (packed by gzip or xz, or not), called `shown_path` in what the user sees.

    `progress` is told the bytes done and all bytes.

    Schemas: the dict of torch 2.1 and later; that of 2.0, whose blocks carry a `history` and no address; a bare list of
    segments (`memory_snapshot()`); any of them without events, times or stacks. Keys that this reader does not know are
    named in `unknown_keys`, as `key`, `segments.key`, `blocks.key`, `events.key` or `action:name`.

    Raises InputRefused for what is no such snapshot, and all that `pickles.load_plain` raises.
    """
    shown = shown_path if shown_path is not None else str(path)

    def build(content: object) -> Snapshot:
        try:
            if isinstance(content, CutContent):
                return snapshot_of(content.content, shown, content.rows)
            return snapshot_of(content, shown)
        except (RecursionError, MemoryError) as error:
            raise InputRefused(N_("it is nested too deeply, or too large, for a memory snapshot")) from error

    return load_plain(path, build, cut_rows, progress)


def snapshot_of(content: object, shown: str, cut: EventRows | None = None) -> Snapshot:
    """The snapshot in an unpickled `content`, called `shown`; `cut` are events read apart from it.

    Raises InputRefused for what is none.
    """
    try:
        return _snapshot(content, shown, cut)
    except InputRefused as error:
        raise InputRefused(
            N_(
                "it is a pickle, but no PyTorch memory snapshot: {error}; give the file that `_dump_snapshot` of "
                "torch.cuda.memory (or of another device) wrote, or have it written anew"
            ).format(error=error)
        ) from error


def _snapshot(content: object, shown: str, cut: EventRows | None) -> Snapshot:
    top = content if isinstance(content, dict) else {"segments": content}
    if not top.keys() & {"segments", "device_traces"}:
        raise InputRefused(N_("it has neither segments nor device_traces"))
    segment_rows = _rows(top.get("segments", []), "segments")
    traces = [_list(trace, "device_traces") for trace in _list(top.get("device_traces", []), "device_traces")]
    if len(traces) > _MOST_DEVICES:
        raise InputRefused(N_("it numbers {number} devices").format(number=len(traces)))
    whole = [_rows([row for row in trace if type(row) is not int] if cut else trace, "events") for trace in traces]
    if cut is not None and [row for trace in traces for row in trace if type(row) is int] != [*range(len(cut.run) - 1)]:
        raise InputRefused("events that lie outside of device_traces")

    stacks = StackTable()
    segments, blocks, with_history = _memory(segment_rows, stacks)
    events, ooms, unknown_actions = [], [], set()
    notes: dict[str, int] = {}
    for device, rows in enumerate(whole):
        columns, failures, unknown = _events(device, rows, stacks, notes, with_pools=bool(segments.pool.any()))
        if cut is not None:
            columns, failures, more = _with_cut_rows(
                traces[device], columns, failures, cut, stacks, with_pools=bool(segments.pool.any())
            )
            unknown |= more
        events.append(columns)
        ooms.extend(failures)
        unknown_actions |= unknown

    settings = top.get("allocator_settings")
    return Snapshot(
        path=shown,
        schema=_schema(content, with_history, events),
        backend=_backend(stacks, settings),
        segments=segments,
        blocks=blocks,
        events=tuple(events),
        stacks=stacks.stacks,
        ooms=tuple(ooms),
        settings=dict(settings) if isinstance(settings, dict) else {},
        unknown_keys=_unknown_keys(top, segment_rows, whole, cut.keys if cut is not None else (), unknown_actions),
        annotations=read_annotations(top.get("external_annotations")),
        notes=tuple(notes),
    )


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise InputRefused(N_("{what} must be a list").format(what=what))
    return value if isinstance(value, list) else list(value)


def _rows(value: object, what: str) -> list[_Row]:
    rows = _list(value, what)
    if not set(map(type, rows)) <= {dict}:
        raise InputRefused(N_("{what} must be a list of dicts").format(what=what))
    return rows


# --- segments and blocks -----------------------------------------------------------------------------------------


def _memory(rows: list[_Row], stacks: StackTable) -> tuple[Segments, Blocks, bool]:
    """Segments and blocks, and whether the blocks carry their frames in a `history`."""
    block_lists = [_rows(row.get("blocks", []), "blocks") for row in rows]
    block_rows = list(chain.from_iterable(block_lists))
    counts = np.asarray([len(blocks) for blocks in block_lists], dtype=np.int64)
    owner = np.repeat(np.arange(len(rows), dtype=np.int64), counts)
    size = sizes(field(block_rows, "size"), "sizes of blocks")
    with_history = any("history" in row for row in block_rows)

    held = np.zeros(len(rows), dtype=np.int64)
    np.add.at(held, owner, size)
    total = sizes(
        [row.get("total_size", sum_) for row, sum_ in zip(rows, held.tolist(), strict=True)], "sizes of segments"
    )
    types = field(rows, "segment_type")
    is_small = flags(
        # Where the type is not recorded: the small pool's segments are 2 MiB, the large pool's are 20 MiB and more.
        kind == "small" if kind is not None else bytes_ <= _SMALL_SEGMENT_BYTES
        for kind, bytes_ in zip(types, total.tolist(), strict=True)
    )
    devices = integers(field(rows, "device", 0), "devices of segments")
    if len(devices) and int(devices.max()) >= _MOST_DEVICES:
        raise InputRefused(N_("it numbers {number} devices").format(number=int(devices.max()) + 1))
    segments = Segments(
        device=devices,
        address=addresses(field(rows, "address", 0), "addresses of segments"),
        total_bytes=total,
        stream=addresses(field(rows, "stream", 0), "streams of segments"),
        is_small=is_small,
        is_expandable=flags(field(rows, "is_expandable", False)),
        private_pool=flags(tuple(pool or ()) not in ((), (0, 0)) for pool in _pools(rows)),
        stack=stacks.rows(field(rows, "frames")),
        pool=integers([_pool_number(pool) for pool in _pools(rows)], "pools of segments"),
    )
    state = coded(field(block_rows, "state"), _STATES, -1, "states of blocks")
    if len(state) and int(state.min()) < 0:
        raise InputRefused(N_("a block is in none of the states {states}").format(states=", ".join(_STATES)))
    blocks = Blocks(
        segment=owner,
        address=_block_addresses(block_rows, segments, owner, size, counts),
        size_bytes=size,
        # Where it is not recorded, the block's own size is the closest bound on what was asked for.
        requested_bytes=sizes(
            [row.get("requested_size", bytes_) for row, bytes_ in zip(block_rows, size.tolist(), strict=True)],
            "requested sizes of blocks",
        ),
        state=state,
        stack=stacks.rows(list(map(frames_of_block, block_rows))),
    )
    return segments, blocks, with_history


def _pools(rows: list[_Row]) -> list[Any]:
    pools = field(rows, "segment_pool_id")
    if not set(map(type, pools)) <= {tuple, list, type(None)}:
        raise InputRefused(N_("a segment_pool_id must be a pair of numbers"))
    return pools


def _pool_number(pool: Any) -> int:
    """A pair as one number; 0 is the default pool, -1 one whose pair is none."""
    pair = tuple(pool or (0, 0))
    if len(pair) != 2 or not all(type(part) is int and 0 <= part < 1 << 31 for part in pair):
        return -1
    return int(pair[0] << 32 | pair[1])


def _block_addresses(rows: list[_Row], segments: Segments, owner: IntColumn, size: IntColumn, counts: IntColumn) -> Any:
    """As recorded; otherwise counted up within the segment, which its blocks fill from its start without gaps."""
    before = np.cumsum(size) - size
    first = np.cumsum(counts) - counts
    base = before[first[counts > 0]]
    offset = before - np.repeat(base, counts[counts > 0])
    counted = segments.address[owner] + offset.astype(np.uint64)
    if all("address" in row for row in rows):
        return addresses([row["address"] for row in rows], "addresses of blocks")
    return addresses(
        [row.get("address", address) for row, address in zip(rows, counted.tolist(), strict=True)],
        "addresses of blocks",
    )


def frames_of_block(row: _Row) -> Any:
    """Its own frames, or those of its latest allocation in `history`; None for an idle block without any."""
    frames, history = row.get("frames"), row.get("history")
    if frames is None and history and row.get("state") != "inactive":
        frames = _rows(history, "histories of blocks")[0].get("frames")
    return frames


# --- events ------------------------------------------------------------------------------------------------------


def _event_pools(rows: list[_Row]) -> IntColumn | None:
    """The pool of each event; None where they do not say it."""
    pools = field(rows, "pool_id")
    if not pools or not set(map(type, pools)) <= {tuple}:
        return None
    return integers([_pool_number(pool) for pool in pools], "pools of events")


def _notes(rows: list[_Row], known: dict[str, int]) -> IntColumn | None:
    """Index into `known`, to which new ones are added; None where no event has a note."""
    found = [note[:_LONGEST_NOTE] if isinstance(note, str) else "" for note in field(rows, "user_metadata", "")]
    if not any(found):
        return None
    return np.asarray([known.setdefault(note, len(known)) if note else -1 for note in found], dtype=np.int64)


def _events(
    device: int, rows: list[_Row], stacks: StackTable, notes: dict[str, int], *, with_pools: bool
) -> tuple[Events, list[SnapshotOom], set[str]]:
    """The columns of one device's trace, its out-of-memory events, and the names of actions not known."""
    actions = field(rows, "action")
    action = coded(actions, _ACTION_CODES, _UNKNOWN_ACTION, "actions of events")
    unknown = {f"action:{actions[row]}"[:100] for row in np.flatnonzero(action == _UNKNOWN_ACTION).tolist()}
    columns = Events(
        device=device,
        action=action,
        address=addresses(field(rows, "addr", 0), "addresses of events"),
        size_bytes=sizes(field(rows, "size", 0), "sizes of events"),
        stream=addresses(field(rows, "stream", 0), "streams of events"),
        time_us=integers(field(rows, "time_us", -1), "times of events"),
        stack=stacks.rows(field(rows, "frames")),
        pool=_event_pools(rows) if with_pools else None,
        note=_notes(rows, notes),
    )
    failures = []
    for index in np.flatnonzero(action == _OOM).tolist():
        row, time_us = rows[index], int(columns.time_us[index])
        if "size" not in row:
            continue  # an oom event without its request says nothing
        free = row.get("device_free")
        failures.append(
            SnapshotOom(
                device=device,
                requested_bytes=int(columns.size_bytes[index]),
                free_bytes=free if is_size(free) else None,
                time_us=time_us if time_us >= 0 else None,
                stack=int(columns.stack[index]),
                event_index=index,
                pool=_pool_number(row["pool_id"]) if type(row.get("pool_id")) is tuple else None,
            )
        )
    return columns, failures, unknown


def _with_cut_rows(
    trace: list[Any],
    columns: Events,
    failures: list[SnapshotOom],
    cut: EventRows,
    stacks: StackTable,
    *,
    with_pools: bool,
) -> tuple[Events, list[SnapshotOom], set[str]]:
    """The whole of a trace: its rows (`columns`, `failures`), and those that were cut out of between them."""
    runs = [row for row in trace if type(row) is int]
    if not runs:
        return columns, failures, set()
    chosen = slice(int(cut.run[runs[0]]), int(cut.run[runs[-1] + 1]))
    is_run = np.fromiter((type(row) is int for row in trace), dtype=np.bool_, count=len(trace))
    length = np.ones(len(trace), dtype=np.int64)
    length[is_run] = np.diff(cut.run)[runs[0] : runs[-1] + 1]
    is_cut = np.repeat(is_run, length)
    at = np.flatnonzero(~is_cut)

    def whole(rows: NDArray[Any], other: NDArray[Any]) -> Any:
        column = np.empty(len(is_cut), dtype=rows.dtype)
        column[at], column[is_cut] = rows, other
        return column

    def number(key: str, default: int) -> IntColumn:
        found = cut.numbers.get(key)
        return np.full(chosen.stop - chosen.start, default, dtype=np.int64) if found is None else found[chosen]

    def pools() -> IntColumn | None:
        found = cut.pairs.get("pool_id") if with_pools else None
        if found is None or (columns.pool is None and len(at)):
            return None
        own = np.empty(0, dtype=np.int64) if columns.pool is None else columns.pool
        return integers(whole(own, found[chosen]), "pools of events")

    codes = coded(cut.actions, _ACTION_CODES, _UNKNOWN_ACTION, "actions of events")
    action = codes[cut.action[chosen]]
    unknown = {f"action:{cut.actions[one]}"[:100] for one in np.unique(cut.action[chosen][action == _UNKNOWN_ACTION])}
    # One more, for rows without frames, whose stack is -1.
    stack_rows = np.append(stacks.rows(cut.stacks), -1)
    found = Events(
        device=columns.device,
        action=whole(columns.action, action),
        address=whole(columns.address, number("addr", 0).view(np.uint64)),
        size_bytes=whole(columns.size_bytes, sizes(number("size", 0), "sizes of events")),
        stream=whole(columns.stream, number("stream", 0).view(np.uint64)),
        time_us=whole(columns.time_us, number("time_us", -1)),
        stack=whole(columns.stack, stack_rows[cut.stack[chosen]]),
        pool=pools(),
        # A row that was cut has none.
        note=None if columns.note is None else whole(columns.note, np.full(chosen.stop - chosen.start, -1)),
    )
    return found, [replace(one, event_index=int(at[one.event_index])) for one in failures], unknown


# --- what kind of snapshot ---------------------------------------------------------------------------------------


def _schema(content: object, with_history: bool, events: list[Events]) -> str:
    if not isinstance(content, dict):
        return "segments-only"
    if with_history:
        return "history"
    if not any(map(len, events)):
        return "state-only"
    return "native" if any((trace.time_us >= 0).any() for trace in events) else "native-without-times"


def _backend(stacks: StackTable, settings: object) -> str:
    """From what the stacks and settings name; 'unknown' where they name nothing.

    The settings of ROCm have the same names as those of CUDA.
    """
    for mark, backend in _BACKEND_MARKS:
        if any(mark in frame.file or mark in frame.function for frame in stacks.frames):
            return backend
    if not isinstance(settings, Mapping):
        return "unknown"
    if "PYTORCH_CUDA_ALLOC_CONF" in settings:
        return "cuda or hip"
    return "xpu" if settings.keys() == _XPU_SETTINGS else "unknown"


def _unknown_keys(
    top: _Row, segments: list[_Row], traces: list[list[_Row]], keys_of_cut: Iterable[str], unknown_actions: set[str]
) -> tuple[str, ...]:
    blocks = chain.from_iterable(row.get("blocks", []) for row in segments)
    groups: tuple[tuple[str, Any, set[str]], ...] = (
        ("", [top], _TOP_KEYS),
        ("segments.", segments, _SEGMENT_KEYS),
        ("blocks.", blocks, _BLOCK_KEYS),
        ("events.", chain([keys_of_cut], chain.from_iterable(traces)), _EVENT_KEYS),
    )
    unknown = set(unknown_actions)
    for prefix, rows, known in groups:
        unknown |= {f"{prefix}{key}"[:100] for key in set().union(*rows) - known}
    return tuple(sorted(unknown))
