"""A device's segments in rows of one scale, thinned to what a picture can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..language import N_
from ..model.failed_request import AddressMap, MapRow, MapRun
from ..model.snapshot import BLOCK_STATES, IntColumn, Snapshot
from .request import Request

IDLE, WAITING = "idle", N_("waiting for another stream")
_ABOUT_ROWS, _MOST_ROWS = 24, 48
_OTHER_PRIVATE = -2
CELLS = 240
"""Of a row: nothing narrower is drawn."""


@dataclass(frozen=True)
class _Pool:
    name: str
    serves_request: bool
    segments: tuple[int, ...]
    """Rows of Snapshot.segments by address."""


@dataclass(frozen=True)
class _Piece:
    """A part of a segment that lies in one row."""

    segment: int
    row: int
    row_offset: int
    segment_offset: int
    bytes: int


def address_map(
    snapshot: Snapshot, request: Request, kind_of_block: Sequence[str], in_the_way: Sequence[int] = ()
) -> AddressMap:
    """The map for one request: its own pool comes first. `kind_of_block` names what each live block is for.

    A cell of a row shows what most of its bytes are. `in_the_way` are rows of blocks to be marked.
    """
    pools = _pools(snapshot, request)
    reserved = sum(int(snapshot.segments.total_bytes[row]) for pool in pools for row in pool.segments)
    row_bytes = max(request.block_bytes, -(-reserved // _ABOUT_ROWS), 1)
    pieces, of_row, omitted = _placed(snapshot, pools, row_bytes)
    kinds = [IDLE, WAITING, *sorted(set(kind_of_block) - {IDLE, WAITING})]
    cells = _cells(snapshot, pieces, len(of_row), row_bytes, kinds, kind_of_block)
    marks = _marks(snapshot, pieces, in_the_way)
    rows = []
    for number, pool in enumerate(of_row):
        mine = [piece for piece in pieces if piece.row == number]
        first = mine[0]
        rows.append(
            MapRow(
                pool=pool.name,
                serves_request=pool.serves_request,
                segments=len(mine),
                first_address=int(snapshot.segments.address[first.segment]) + first.segment_offset,
                used_bytes=mine[-1].row_offset + mine[-1].bytes,
                runs=_runs(cells[number], kinds, row_bytes),
                in_the_way=tuple(marks.get(number, ())),
            )
        )
    return AddressMap(row_bytes=row_bytes, rows=tuple(rows), omitted_bytes=omitted)


def pool_name(is_small: bool, is_private: bool, stream: int) -> str:
    """`large pool, stream 0`."""
    kind = N_("private pool") if is_private else (N_("small pool") if is_small else N_("large pool"))
    return N_("{pool}, stream {stream}").format(pool=kind, stream=f"{stream:#x}" if stream > 9 else stream)


def _pools(snapshot: Snapshot, request: Request) -> list[_Pool]:
    """The request's own pool, then the others, the largest first."""
    segments = snapshot.segments
    found: dict[tuple[bool, int, int], list[int]] = {}
    for row in np.flatnonzero(segments.device == request.device).tolist():
        pool = int(segments.pool[row])
        kind = pool if pool in (0, request.pool) else _OTHER_PRIVATE
        key = (bool(segments.is_small[row]), kind, int(segments.stream[row]))
        found.setdefault(key, []).append(row)
    own = (request.is_small, request.pool, request.stream)
    pools = [
        _Pool(
            pool_name(key[0], bool(key[1]), key[2]),
            key == own,
            tuple(sorted(rows, key=lambda row: int(segments.address[row]))),
        )
        for key, rows in found.items()
    ]
    return sorted(
        pools, key=lambda pool: (not pool.serves_request, -sum(int(segments.total_bytes[r]) for r in pool.segments))
    )


def _placed(snapshot: Snapshot, pools: list[_Pool], row_bytes: int) -> tuple[list[_Piece], list[_Pool], int]:
    """The pieces, the pool of each row, and the bytes for which there was no room."""
    pieces: list[_Piece] = []
    of_row: list[_Pool] = []
    omitted = 0
    for pool in pools:
        filled = row_bytes  # a pool begins a row of its own
        for segment in pool.segments:
            left, begun = int(snapshot.segments.total_bytes[segment]), 0
            while left > 0:
                if filled and filled + left > row_bytes:
                    if len(of_row) == _MOST_ROWS:
                        omitted += left
                        break
                    of_row.append(pool)
                    filled = 0
                here = min(left, row_bytes)
                pieces.append(_Piece(segment, len(of_row) - 1, filled, begun, here))
                filled, left, begun = filled + here, left - here, begun + here
    return pieces, of_row, omitted


def _cells(
    snapshot: Snapshot,
    pieces: list[_Piece],
    rows: int,
    row_bytes: int,
    kinds: list[str],
    kind_of_block: Sequence[str],
) -> IntColumn:
    """For each row and cell the number of the kind that most of its bytes are; -1 where no memory is."""
    blocks = snapshot.blocks
    number = {kind: place for place, kind in enumerate(kinds)}
    kind = np.asarray([number[each] for each in kind_of_block], dtype=np.int64)
    kind = np.where(blocks.state == BLOCK_STATES.index("inactive"), 0, kind)
    kind = np.where(blocks.state == BLOCK_STATES.index("active_pending_free"), 1, kind)
    held = np.zeros((rows * CELLS, len(kinds)), dtype=np.float64)
    width = row_bytes / CELLS
    first_block = np.searchsorted(blocks.segment, np.arange(len(snapshot.segments) + 1))
    for piece in pieces:
        mine = np.arange(first_block[piece.segment], first_block[piece.segment + 1])
        offset = (blocks.address[mine] - snapshot.segments.address[piece.segment]).astype(np.int64)
        begin = np.clip(offset - piece.segment_offset, 0, piece.bytes) + piece.row_offset
        end = np.clip(offset + blocks.size_bytes[mine] - piece.segment_offset, 0, piece.bytes) + piece.row_offset
        _spread(held, piece.row * CELLS, begin / width, end / width, kind[mine])
    most = np.where(held.sum(axis=1) > 0, held.argmax(axis=1), -1)
    return most.reshape(rows, CELLS)


def _spread(
    held: NDArray[np.float64], base: int, begin: NDArray[np.float64], end: NDArray[np.float64], kind: IntColumn
) -> None:
    """Add stretches (in cells) to the cells that they lie in: the first and the last in part, those between whole."""
    last_cell = CELLS - 1
    first = np.minimum(begin.astype(np.int64), last_cell)
    last = np.minimum(end.astype(np.int64), last_cell)
    one = first == last
    np.add.at(held, (base + first, kind), np.where(one, end - begin, first + 1 - begin))
    np.add.at(held, (base + last[~one], kind[~one]), (end - last)[~one])
    for row in np.flatnonzero(last - first > 1).tolist():  # never more than there are cells
        held[base + first[row] + 1 : base + last[row], kind[row]] += 1


def _runs(cells: IntColumn, kinds: list[str], row_bytes: int) -> tuple[MapRun, ...]:
    edges = [0, *(np.flatnonzero(np.diff(cells)) + 1).tolist(), len(cells)]
    at = [edge * row_bytes // CELLS for edge in edges]
    return tuple(
        MapRun(start, end - start, kinds[int(cells[edge])])
        for edge, start, end in zip(edges, at, at[1:], strict=False)
        if cells[edge] >= 0
    )


def _marks(snapshot: Snapshot, pieces: list[_Piece], in_the_way: Sequence[int]) -> dict[int, list[int]]:
    """For each row, where the marked blocks begin (the middle of each)."""
    found: dict[int, list[int]] = {}
    for block in in_the_way:
        segment = int(snapshot.blocks.segment[block])
        middle = int(snapshot.blocks.address[block]) - int(snapshot.segments.address[segment])
        middle += int(snapshot.blocks.size_bytes[block]) // 2
        for piece in pieces:
            if piece.segment == segment and piece.segment_offset <= middle < piece.segment_offset + piece.bytes:
                found.setdefault(piece.row, []).append(piece.row_offset + middle - piece.segment_offset)
    return found
