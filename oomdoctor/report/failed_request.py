"""A failed request beside the memory that was reserved: sentences, a table of reasons, the map of segments. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..language import N_, _, ngettext, tidy, told
from ..model.diagnosis import Finding
from ..model.failed_request import AddressMap, FailedRequest, InTheWay, MapRow, Pinning, Room
from ..model.printable import one_line
from ..model.units import format_bytes
from .findings import CONFIDENCE
from .palette import CATEGORIES, Category, category_of

_REASONS = {
    "too-small": N_("in holes that are too small, beside live blocks"),
    "not-split": N_("in holes that are long enough, but max_split_size_mb does not let the request have them"),
    "other-stream": N_("in pools of other streams"),
    "other-pool": N_("in the pool for requests of another size"),
    "private-pool": N_("in private pools (CUDA graphs, the user's own)"),
    "shared-pool": N_("in the pools that all share; the request was one of a private pool"),
    "waiting": N_("freed, but another stream is not done with it yet"),
    "large-enough": N_("in holes that are large enough"),
}


@dataclass(frozen=True)
class ReasonView:
    """Reserved memory that was not live, and why it did not serve."""

    why: str
    size: str
    count: str
    largest: str


MAP_WIDTH = 4000
"""Of a row of the map, in its own units."""


@dataclass(frozen=True)
class PathView:
    """All stretches of one kind in one row, as one path in a picture `MAP_WIDTH` wide and 1 high."""

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
    diagnosed: str
    """The first finding about this device; empty where there is none."""
    asked: str
    balance: str
    """Whether too much was live, or what was not live lay wrongly; empty where the figures do not tell."""
    reserved: str
    """What is said over the table of reasons."""
    reasons: tuple[ReasonView, ...]
    pinned: str
    pinning: tuple[str, ...]
    room: str
    in_the_way: tuple[str, ...]
    map: MapView


def view_failed_request(failed: FailedRequest, findings: Sequence[Finding] = ()) -> FailedRequestView:
    """What the report shows of it, the first of the findings about its device included."""
    held = sum(each.bytes for each in failed.unused)
    if not held:
        reserved = _("All that was reserved was live: no hole was there.")
    elif any(each.reason == "large-enough" for each in failed.unused):
        reserved = _("{size} was reserved and not live:")
    else:
        reserved = _("{size} was reserved and not live, and none of it served:")
    return FailedRequestView(
        where=one_line(told(failed.where), 60),
        diagnosed=_diagnosed(failed, findings),
        asked=tidy(_asked(failed)),
        balance=_balance(failed),
        reserved=tidy(reserved.format(size=format_bytes(held))),
        reasons=tuple(
            ReasonView(
                _(_REASONS[each.reason]), format_bytes(each.bytes), f"{each.count:,}", format_bytes(each.largest_bytes)
            )
            for each in failed.unused
        ),
        pinned=_("Live blocks directly beside these holes, by who allocated them:") if failed.pinning else "",
        pinning=tuple(map(_pinning, failed.pinning)),
        room=tidy(" ".join(filter(None, [*_churn(failed), _room(failed)]))),
        in_the_way=tuple(map(_in_the_way, failed.room.owners)) if failed.room is not None else (),
        map=_map(
            failed.map,
            failed.needed_bytes,
            _("asked for {size}").format(size=format_bytes(failed.requested_bytes)),
        ),
    )


def _asked(failed: FailedRequest) -> str:
    rounded = format_bytes(failed.requested_bytes) != format_bytes(failed.needed_bytes)
    if rounded and failed.device_free_bytes is not None:
        said = _(
            "{size} was asked for, {rounded} as the allocator rounds it, in one piece of the {pool}; the device had"
            " {free} free."
        )
    elif rounded:
        said = _("{size} was asked for, {rounded} as the allocator rounds it, in one piece of the {pool}.")
    elif failed.device_free_bytes is not None:
        said = _("{size} was asked for, in one piece of the {pool}; the device had {free} free.")
    else:
        said = _("{size} was asked for, in one piece of the {pool}.")
    asked = said.format(
        size=format_bytes(failed.requested_bytes),
        rounded=format_bytes(failed.needed_bytes),
        pool=told(failed.pool),
        free="" if failed.device_free_bytes is None else format_bytes(failed.device_free_bytes),
    )
    return " ".join([asked, *_of_the_driver(failed), *_rebuilt(failed)])


def _churn(failed: FailedRequest) -> Iterator[str]:
    """Who left most of the holes, where their blocks were of several sizes."""
    most = next(iter(failed.churn), None)
    if most is not None and most.sizes > 1:
        yield ngettext(
            "The largest part of the holes, {size}, was left by {owner}: it freed {number} block, of {sizes} sizes"
            " from {smallest} to {largest}.",
            "The largest part of the holes, {size}, was left by {owner}: it freed {number} blocks, of {sizes} sizes"
            " from {smallest} to {largest}.",
            most.freed,
        ).format(
            size=format_bytes(most.hole_bytes),
            owner=one_line(told(most.owner), 200),
            number=f"{most.freed:,}",
            sizes=f"{most.sizes:,}",
            smallest=format_bytes(most.smallest_bytes),
            largest=format_bytes(most.largest_bytes),
        )


def _rebuilt(failed: FailedRequest) -> Iterator[str]:
    if failed.undone:
        yield ngettext(
            "The snapshot was written {number} event after the failure: this state is rebuilt backwards from it.",
            "The snapshot was written {number} events after the failure: this state is rebuilt backwards from it.",
            failed.undone,
        ).format(number=f"{failed.undone:,}")
    if failed.may_be_more_bytes:
        yield _(
            "Up to {size} more may have been live, and as much less idle: how far some blocks were rounded is not"
            " recorded."
        ).format(size=format_bytes(failed.may_be_more_bytes))


def _of_the_driver(failed: FailedRequest) -> Iterator[str]:
    if format_bytes(failed.wanted_bytes) != format_bytes(failed.needed_bytes):
        yield _("Where no hole serves it, the driver is asked for {size}.").format(
            size=format_bytes(failed.wanted_bytes)
        )
    if failed.room_bytes is not None and failed.room_bytes != failed.device_free_bytes:
        yield _("Of what is free the process was allowed to take {size}.").format(size=format_bytes(failed.room_bytes))


def _balance(failed: FailedRequest) -> str:
    short = failed.short_bytes
    if short is None:
        return ""
    if failed.free_suffices:
        return _(
            "The driver had enough for it: something else refused it, like a memory fraction, or somebody gave memory"
            " back just then."
        )
    if short:
        said = _(
            "{live} was live: even if all that was reserved and not live were one piece, {short} would be missing. Too"
            " much is live; how it lies is not what matters."
        )
    elif failed.reserved_bytes > failed.live_bytes:
        said = _(
            "{live} was live, so the request would have fitted beside it: what is missing is one piece that it may use."
        )
    else:
        return ""
    return said.format(live=format_bytes(failed.live_bytes), short=format_bytes(short))


def _diagnosed(failed: FailedRequest, findings: Sequence[Finding]) -> str:
    own = next((each for each in findings if each.scope.get("device", failed.where) == failed.where), None)
    if own is None:
        return ""
    return _("{title} ({sureness}).").format(title=one_line(own.title, 200), sureness=_(CONFIDENCE[own.confidence]))


def _pinning(each: Pinning) -> str:
    return ngettext(
        "{size} in 1 block, beside {holes} of holes: {owner}",
        "{size} in {number} blocks, beside {holes} of holes: {owner}",
        each.count,
    ).format(
        size=format_bytes(each.bytes),
        number=f"{each.count:,}",
        holes=format_bytes(each.hole_bytes),
        owner=one_line(told(each.owner), 200),
    )


def _in_the_way(each: InTheWay) -> str:
    return ngettext("{size} in 1 block: {owner}", "{size} in {number} blocks: {owner}", each.count).format(
        size=format_bytes(each.bytes), number=f"{each.count:,}", owner=one_line(told(each.owner), 200)
    )


def _room(failed: FailedRequest) -> str:
    if any(each.reason == "large-enough" for each in failed.unused):
        return _(
            "A hole of {size} is in this state, which is large enough: what refused the request was not the want of a"
            " hole."
        ).format(size=format_bytes(failed.largest_hole_bytes))
    hole = _("The largest hole it could have used: {size}.").format(size=format_bytes(failed.largest_hole_bytes))
    if not failed.largest_hole_bytes:
        hole = _("No hole was there that it could have used.")
    if failed.room is None:
        return f"{hole} {_no_room(failed)}".strip()
    if failed.room.given_back_bytes:
        return f"{hole} {_given_back(failed.room)}"
    count = failed.room.in_the_way_count
    way = ngettext(
        "Where the least stands in the way, one live block ({size}) would have to go to make one hole of {hole}:",
        "Where the least stands in the way, {number} live blocks ({size}) would have to go to make one hole of {hole}:",
        count,
    ).format(
        number=f"{count:,}",
        size=format_bytes(failed.room.in_the_way_bytes),
        hole=format_bytes(failed.room.hole_bytes),
    )
    return f"{hole} {way}"


def _given_back(room: Room) -> str:
    return ngettext(
        "Without one live block ({size}) the allocator gives {given} back to the driver, and then there is enough:",
        "Without {number} live blocks ({size}) the allocator gives {given} back to the driver, and then there is"
        " enough:",
        room.in_the_way_count,
    ).format(
        number=f"{room.in_the_way_count:,}",
        size=format_bytes(room.in_the_way_bytes),
        given=format_bytes(room.given_back_bytes),
    )


def _no_room(failed: FailedRequest) -> str:
    if failed.captured:
        return _(
            "No segment of its pool is as long as the request, and while a CUDA graph is captured nothing goes back to"
            " the driver."
        )
    if failed.room_bytes is None:
        return _("No segment of its pool is as long as the request.")
    if failed.free_suffices:
        return ""
    return _("No live blocks were found without which there would be room for it.")


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
        legend=tuple((category, _(category.label)) for category in CATEGORIES if category.key in present),
        has_marks=any(row.marks for row in rows),
        omitted=_("{size} in further segments not drawn").format(size=format_bytes(found.omitted_bytes))
        if found.omitted_bytes
        else "",
    )


def _row(row: MapRow, row_bytes: int, pool: str) -> MapRowView:
    paths: dict[str, list[str]] = {}
    ends: dict[str, int] = {}
    categories: dict[str, Category] = {}
    for run in row.runs:
        category = category_of("freed, waiting" if run.kind.startswith("waiting") else run.kind)
        categories[category.key] = category
        begin = round(MAP_WIDTH * run.start_bytes / row_bytes)
        end = max(round(MAP_WIDTH * (run.start_bytes + run.bytes) / row_bytes), begin + 1)
        # Down, along and up again: where a stretch is filled its last side closes by itself.
        paths.setdefault(category.key, ["M0 0"]).append(f"m{begin - ends.get(category.key, 0)} 0v1h{end - begin}V0")
        ends[category.key] = end
    idle = sum(run.bytes for run in row.runs if run.kind == "idle")
    return MapRowView(
        pool=one_line(told(pool), 40),
        serves_request=row.serves_request,
        width=row.used_bytes / row_bytes,
        paths=tuple(PathView(categories[key], "".join(parts)) for key, parts in paths.items()),
        marks=tuple(mark / row_bytes for mark in row.in_the_way),
        in_words=_("{pool} from {address}: {size}, of it about {idle} idle").format(
            pool=told(row.pool),
            address=f"{row.first_address:#x}",
            size=format_bytes(row.used_bytes),
            idle=format_bytes(idle),
        ),
    )
