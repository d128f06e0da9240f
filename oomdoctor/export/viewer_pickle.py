"""A snapshot written again in the pickle protocol, and with the keys, that common viewers open.

Python 3.14 pickles with protocol 5 by default; torch's own MemoryViz.js opens protocols 2 to 4 and knows only the
opcodes of plain numbers, text, lists, tuples and dicts. It opens no compressed file. It and torch.cuda._memory_viz look
up without a default what some versions of torch do not write; here every row has it, as our own reader understands it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import InputRefused
from ..language import N_
from ..readers.pickles import load_plain
from ..readers.snapshot import frames_of_block, snapshot_of

PROTOCOL = 4
_SIGNED = 1 << 63
_MOST_DEVICES = 128
"""torch numbers devices with 8 bits, signed."""
_LONGEST_BITS = 2000
"""Longer numbers have an opcode that the viewer does not know."""
_PLAIN = frozenset({int, float, str, bool, type(None)})
_UNSIGNED = frozenset({"address", "addr", "stream"})

_Row = dict[str, Any]


def write_viewer_pickle(snapshot: Path, path: Path) -> None:
    """Write the content of the pickle at `snapshot` to `path`. A bare list of segments becomes a snapshot's dict.

    Our own reader finds the same segments, blocks and events in both files.

    Raises InputRefused as `load_plain` does, for what is no snapshot, and for one whose live blocks lie outside of
    their segment or whose segments lie on devices that torch cannot have; OSError when the file cannot be written.
    """

    def write(content: object) -> None:
        snapshot_of(content, str(snapshot))  # refuses what is none
        completed = _completed(content)
        with path.open("wb") as file:
            pickle.dump(completed, file, protocol=PROTOCOL)

    load_plain(snapshot, write)


def _completed(content: Any) -> _Row:
    """The content, changed in place."""
    top: _Row = content if isinstance(content, dict) else {"segments": content}
    segments = top["segments"] = list(top.get("segments", []))
    traces = top["device_traces"] = list(map(list, top.get("device_traces", [])))
    for segment in segments:
        _complete_segment(segment)
    for event in chain.from_iterable(traces):
        _complete_event(event)
    far = [row["device"] for row in segments if not 0 <= row["device"] < _MOST_DEVICES]
    if far:
        raise InputRefused(
            N_(
                "a segment is on device {device}, which torch cannot have, and on which viewers fail; "
                "`--to csv` writes the snapshot as it is"
            ).format(device=far[0])
        )
    # A device without a trace of its own is not offered, and makes the viewer fail.
    traces += [[] for _ in range(1 + max((row["device"] for row in segments), default=-1) - len(traces))]
    _complete_frames(chain(segments, *(row["blocks"] for row in segments), *traces))
    for key in top.keys() - {"segments", "device_traces"}:
        top[key] = _plain(top[key])
    return top


def _complete_segment(segment: _Row) -> None:
    blocks = segment["blocks"] = list(segment.get("blocks", []))
    for block in blocks:
        if block["state"] == "active_awaiting_free":
            block["state"] = "active_pending_free"
        block["frames"] = frames_of_block(block) or []
        block.setdefault("requested_size", block["size"])
        for entry in block.get("history") or ():
            if isinstance(entry, dict):
                entry.setdefault("real_size", block["requested_size"])
        _simplify(block)
    segment.setdefault("device", 0)
    segment.setdefault("address", 0)
    segment.setdefault("stream", 0)
    segment.setdefault("total_size", sum(block["size"] for block in blocks))
    if "allocated_size" not in segment:
        segment["allocated_size"] = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    _simplify(segment)
    end = 0
    for block in blocks:
        if end >= segment["total_size"] and block["state"] != "inactive":
            raise InputRefused(
                N_(
                    "the blocks of the segment at {address} are larger than it, on which viewers fail; "
                    "`--to csv` writes the snapshot as it is"
                ).format(address=hex(segment["address"] & (1 << 64) - 1))
            )
        end += block["size"]


def _complete_event(event: _Row) -> None:
    event.setdefault("stream", 0)
    if not isinstance(event.get("action"), str):
        event["action"] = str(event.get("action"))
    if event["action"] != "oom":
        event.setdefault("addr", 0)
        event.setdefault("size", 0)
    _simplify(event)


def _simplify(row: _Row) -> None:
    """Numbers that the viewer can add to others, and only values whose opcodes it knows."""
    for key, value in row.items():
        if type(value) is int:
            # The viewer reads longer numbers as a BigInt, which JavaScript adds to no other; the reader undoes this.
            if key in _UNSIGNED and not -_SIGNED <= value < _SIGNED:
                row[key] = (value + _SIGNED & (1 << 64) - 1) - _SIGNED
            elif value.bit_length() > _LONGEST_BITS:
                row[key] = hex(value)
        elif type(value) not in _PLAIN and key not in ("frames", "blocks"):
            row[key] = _plain(value)


def _complete_frames(rows: Iterable[_Row]) -> None:
    """Every row has a list of frames, and every frame what viewers print; lists and frames stay shared."""
    lists: dict[int, list[Any]] = {}
    none: list[Any] = []
    for row in rows:
        frames = row.get("frames")
        if frames:
            if id(frames) not in lists:
                lists[id(frames)] = frames
                for frame in frames:
                    _complete_frame(frame)
        elif frames is None:
            row["frames"] = none


def _complete_frame(frame: _Row) -> None:
    for key in ("name", "filename"):
        if type(frame.get(key)) is not str:
            frame[key] = str(frame.get(key, ""))
    if not isinstance(frame.get("line"), int):
        frame["line"] = 0
    _simplify(frame)


def _plain(value: Any) -> Any:
    """The value, with text in place of bytes and lists in place of sets."""
    if type(value) in _PLAIN:
        return hex(value) if type(value) is int and value.bit_length() > _LONGEST_BITS else value
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return list(map(_plain, value if isinstance(value, list) else sorted(value, key=repr)))
