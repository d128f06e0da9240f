"""A failed request beside the memory that was reserved: sentences, a table of reasons, the map of segments. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.failed_request import AddressMap, FailedRequest, InTheWay, MapRow
from ..model.units import format_bytes
from .palette import CATEGORIES, Category, category_of
from .text import one_line

_REASONS = {
    "too-small": "in holes that are too small, beside live blocks",
    "other-stream": "in pools of other streams",
    "other-pool": "in the pool for requests of another size",
    "private-pool": "in private pools (CUDA graphs, the user's own)",
    "waiting": "freed, but another stream is not done with it yet",
    "large-enough": "in holes that are large enough",
}


@dataclass(frozen=True)
class ReasonView:
    """Reserved memory that was not live, and why it did not serve."""

    why: str
    size: str
    count: str
    largest: str


@dataclass(frozen=True)
class PathView:
    """All stretches of one kind in one row, as one path in a picture 1000 wide and 10 high."""

    category: Category
    path: str


@dataclass(frozen=True)
class MapRowView:
    """A row of the map. Fractions are of the row's full length."""

    pool: str
    """The pool that begins with this row; empty where the row goes on with the one above."""
    serves_request: bool
    width: float
    paths: tuple[PathView, ...]
    marks: tuple[float, ...]
    in_words: str


@dataclass(frozen=True)
class MapView:
    """The segments to one scale, and the request beside them."""

    rows: tuple[MapRowView, ...]
    request: str
    request_width: float
    scale: str
    legend: tuple[tuple[Category, str], ...]
    has_marks: bool
    omitted: str


@dataclass(frozen=True)
class FailedRequestView:
    """One failed request."""

    where: str
    asked: str
    reserved: str
    """What is said over the table of reasons."""
    reasons: tuple[ReasonView, ...]
    room: str
    in_the_way: tuple[str, ...]
    map: MapView


def view_failed_request(failed: FailedRequest) -> FailedRequestView:
    """What the report shows of it."""
    needed = f", {format_bytes(failed.needed_bytes)} as the allocator rounds it" if _rounded_visibly(failed) else ""
    free = "" if failed.device_free_bytes is None else f"; the device had {format_bytes(failed.device_free_bytes)} free"
    held = sum(each.bytes for each in failed.unused)
    if not held:
        reserved = "All that was reserved was live: no hole was there."
    elif any(each.reason == "large-enough" for each in failed.unused):
        reserved = f"{format_bytes(held)} was reserved and not live:"
    else:
        reserved = f"{format_bytes(held)} was reserved and not live, and none of it served:"
    return FailedRequestView(
        where=one_line(failed.where, 60),
        asked=f"{format_bytes(failed.requested_bytes)} was asked for{needed}, in one piece of the {failed.pool}{free}.",
        reserved=reserved,
        reasons=tuple(
            ReasonView(
                _REASONS[each.reason], format_bytes(each.bytes), f"{each.count:,}", format_bytes(each.largest_bytes)
            )
            for each in failed.unused
        ),
        room=_room(failed),
        in_the_way=tuple(map(_in_the_way, failed.room.owners)) if failed.room is not None else (),
        map=_map(failed.map, failed.needed_bytes, f"asked for {format_bytes(failed.requested_bytes)}"),
    )


def _in_the_way(each: InTheWay) -> str:
    blocks = "1 block" if each.count == 1 else f"{each.count:,} blocks"
    return f"{format_bytes(each.bytes)} in {blocks}: {one_line(each.owner, 200)}"


def _rounded_visibly(failed: FailedRequest) -> bool:
    return format_bytes(failed.requested_bytes) != format_bytes(failed.needed_bytes)


def _room(failed: FailedRequest) -> str:
    if any(each.reason == "large-enough" for each in failed.unused):
        return (
            f"A hole of {format_bytes(failed.largest_hole_bytes)} is in this state, which is large enough: "
            "what refused the request was not the want of a hole."
        )
    hole = f"The largest hole it could have used: {format_bytes(failed.largest_hole_bytes)}. "
    if not failed.largest_hole_bytes:
        hole = "No hole was there that it could have used. "
    if failed.room is None:
        return (
            hole + "No segment of its pool is as long as the request: freeing blocks inside them makes no room for it."
        )
    count = failed.room.in_the_way_count
    blocks = "one live block" if count == 1 else f"{count:,} live blocks"
    return hole + (
        f"Where the least stands in the way, {blocks} ({format_bytes(failed.room.in_the_way_bytes)}) would have to go "
        f"to make one hole of {format_bytes(failed.room.hole_bytes)}:"
    )


def _map(found: AddressMap, needed_bytes: int, request: str) -> MapView:
    rows, pool = [], ""
    for row in found.rows:
        rows.append(_row(row, found.row_bytes, row.pool if row.pool != pool else ""))
        pool = row.pool
    present = {path.category.key for row in rows for path in row.paths}
    return MapView(
        rows=tuple(rows),
        request=request,
        request_width=min(needed_bytes / found.row_bytes, 1.0),
        scale=format_bytes(found.row_bytes),
        legend=tuple((category, category.label) for category in CATEGORIES if category.key in present),
        has_marks=any(row.marks for row in rows),
        omitted="" if not found.omitted_bytes else f"{format_bytes(found.omitted_bytes)} in further segments not drawn",
    )


def _row(row: MapRow, row_bytes: int, pool: str) -> MapRowView:
    paths: dict[str, list[str]] = {}
    categories: dict[str, Category] = {}
    for run in row.runs:
        category = category_of("freed, waiting" if run.kind.startswith("waiting") else run.kind)
        categories[category.key] = category
        begin, width = 1000 * run.start_bytes / row_bytes, 1000 * run.bytes / row_bytes
        paths.setdefault(category.key, []).append(f"M{_short(begin)} 0h{_short(width)}v10h-{_short(width)}z")
    idle = sum(run.bytes for run in row.runs if run.kind == "idle")
    return MapRowView(
        pool=one_line(pool, 80),
        serves_request=row.serves_request,
        width=row.used_bytes / row_bytes,
        paths=tuple(PathView(categories[key], "".join(parts)) for key, parts in paths.items()),
        marks=tuple(mark / row_bytes for mark in row.in_the_way),
        in_words=f"{row.pool} from {row.first_address:#x}: {format_bytes(row.used_bytes)}, of it about "
        f"{format_bytes(idle)} idle",
    )


def _short(number: float) -> str:
    return f"{number:.1f}".rstrip("0").rstrip(".")
