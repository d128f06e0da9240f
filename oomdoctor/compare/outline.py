"""A comparison as titles, sentences and tables: what the terminal and Markdown show alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..allocator.stacks import describe, is_torch, python_frames, read_stack, users_frame
from ..model.printable import one_line
from ..model.units import format_bytes
from .change import Change, PlaceChange, Row, SettingChange, SizeRow
from .places import Held, Place, Stack
from .spread import Spread, SpreadRow

MOST_ROWS = 10
_MOST_STACKS = 5
_MOST_FRAMES = 4
_MOST_COLUMNS = 4
_BAR = 24
_FOLDERS = re.compile(r"(?<![^\s('\"])(?:[^\s:('\"]*/)(?=[^\s/:]+/[^\s/:]+\.py:[0-9])")
_MINUS, _SAME = "\N{MINUS SIGN}", "no change"

Cells = tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A title, sentences under it, a table (its first column is text, the others are numbers), a closing remark."""

    title: str
    lines: tuple[str, ...] = ()
    head: Cells = ()
    rows: tuple[Cells, ...] = ()
    remark: str = ""


def outline_change(change: Change) -> tuple[Section, ...]:
    """The answer first, then each place, what else differs, and what could not be compared."""
    sections = [Section("What changed", _answer(change))]
    for place in change.places:
        sections.extend(_place(place, len(change.places) > 1))
    sections.append(_settings(change))
    gaps = (
        *(f"{side} shows {place.name}, the other does not" for side, place in _alone(change)),
        *(f"{place.after.name}: {each}" for place in change.places for each in place.not_compared),
        *(f"{group}: not recorded by {_who_lacks(change, group)}" for group in change.settings_not_compared),
        *(f"not read: {problem}" for side in (change.before, change.after) for problem in side.problems),
    )
    if gaps:
        sections.append(Section("Not compared", gaps))
    return tuple(sections)


def outline_spread(found: Spread) -> tuple[Section, ...]:
    """All places on one scale, then what differs most among them."""
    places = [place for _, place in found.places]
    names = _names(found)
    largest = max((max(p.sizes.get("reserved", 0), p.sizes.get("allocated", 0)) for p in places), default=0)
    rows = tuple(
        (name, _size(p.sizes.get("allocated")), _size(p.sizes.get("reserved")), _bar(p.sizes["allocated"], largest))
        for name, p in zip(names, places, strict=True)
    )
    sections = [Section("On one scale", (_most_and_least(names, places),), ("", "allocated", "reserved", ""), rows)]
    for title, found_rows in (("By category", found.categories), ("By owner", found.owners)):
        if found_rows:
            sections.append(_spread_table(title, found_rows, names, found.how_known))
    if not found.how_known:
        sections.append(Section("Not compared", ("owners: not every place has stacks, nor every one a whole census",)))
    return tuple(sections)


# --- two sides -----------------------------------------------------------------------------------------------------


def _answer(change: Change) -> tuple[str, ...]:
    if not change.places:
        return ("The two have no device and no budget in common.",)
    lines = [f"{place.after.name}: {_gain(place)}" for place in change.places]
    if change.settings:
        lines.append("With it came: " + "; ".join(_setting(each) for each in change.settings[:3]) + _more(change, 3))
    return tuple(lines)


def _gain(place: PlaceChange) -> str:
    """By what the allocator held, or without an allocator by the part of the budget that changed most."""
    row = next(filter(_is_told_by_both, place.sizes), None)
    if row is None:
        known = [each for each in place.budget if each.name != "in all" and _is_told_by_both(each)]
        most = max(known, key=lambda row: abs(_gained(row)), default=None)
        return "no figure that both sides tell." if most is None else f"{_figures(most)}: {_signed(_gained(most))}."
    gained = _gained(row)
    if not gained:
        return f"as much as before ({_figures(row)}){', held by other owners' if place.owners else ''}."
    sign = "more" if gained > 0 else "less"
    return f"{format_bytes(abs(gained))} {sign} ({_figures(row)}).{_main_part(place, gained)}"


def _is_told_by_both(row: SizeRow) -> bool:
    return row.before_bytes is not None and row.after_bytes is not None


def _gained(row: SizeRow) -> int:
    """Of a figure that both sides tell."""
    return (row.after_bytes or 0) - (row.before_bytes or 0)


def _figures(row: SizeRow) -> str:
    return f"{row.name} {_size(row.before_bytes)} → {_size(row.after_bytes)}"


def _main_part(place: PlaceChange, gained: int) -> str:
    same_way = [row for row in place.owners if gained == 0 or (row.change_bytes > 0) == (gained > 0)]
    if not same_way:
        return ""
    row = same_way[0]
    most = "Most of it" if 2 * abs(row.change_bytes) > abs(gained) else "The largest part"
    return f" {most}: {_short(row.key)}, {_signed(row.change_bytes)}."


def _more(change: Change, shown: int) -> str:
    left = len(change.settings) - shown
    return f"; and {left} more" if left > 0 else ""


def _place(place: PlaceChange, with_name: bool) -> Iterator[Section]:
    prefix = f"{place.after.name}: " if with_name else ""
    head = ("", "before", "after", "change")
    if place.sizes:
        moments = (f"before: {place.before.moment}", f"after: {place.after.moment}")
        yield Section(f"{prefix}sizes", moments, head, tuple(map(_size_row, place.sizes)))
    if place.budget:
        yield Section(f"{prefix}budget", (), head, tuple(map(_size_row, place.budget)))
    # The budget has the categories among its parts.
    for title, found in (("by category", () if place.budget else place.categories), ("by owner", place.owners)):
        if found:
            rest = f"{len(found) - MOST_ROWS} more rows with smaller changes. " if len(found) > MOST_ROWS else ""
            remark = f"{rest}How known: {place.how_known}."
            yield Section(f"{prefix}{title}", (), head, tuple(map(_row, found[:MOST_ROWS])), remark)
    if place.stacks:
        yield Section(f"{prefix}by stack", tuple(map(_stack_row, place.stacks[:_MOST_STACKS])))


def _size_row(row: SizeRow) -> Cells:
    before, after = row.before_bytes, row.after_bytes
    return row.name, _size(before), _size(after), "" if before is None or after is None else _signed(after - before)


def _row(row: Row[str]) -> Cells:
    return _short(row.key), _held(row.before), _held(row.after), _signed(row.change_bytes)


def _stack_row(row: Row[Stack]) -> str:
    blocks = row.after.count - row.before.count
    more = (
        f", {abs(blocks):,} block{'s' if abs(blocks) != 1 else ''} {'more' if blocks > 0 else 'less'}" if blocks else ""
    )
    return f"{_signed(row.change_bytes)}{more}: {_frames(row.key)}"


def _frames(stack: Stack) -> str:
    """The program's own frames from its innermost one outwards; where it has none, what stands in their place."""
    reading = read_stack(stack)
    first = users_frame(stack)
    if first is None:
        return reading.owner
    frames = python_frames(stack)
    outwards = [f for f in frames[frames.index(first) :] if not is_torch(f) and not f.file.startswith("<frozen ")]
    shown = " < ".join(_short(describe(frame)) for frame in outwards[:_MOST_FRAMES])
    return shown + (" < …" if len(outwards) > _MOST_FRAMES else "")


def _short(owner: str) -> str:
    """A path by its last two parts: a row has little room."""
    return one_line(_FOLDERS.sub("", owner), 120)


def _settings(change: Change) -> Section:
    if not change.settings:
        none = "Nothing that both recorded." if change.before.settings.keys() & change.after.settings.keys() else ""
        return Section("What else differs", (none or "Neither command, versions nor environment are in both.",))
    return Section("What else differs", tuple(_setting(each) for each in change.settings))


def _setting(each: SettingChange) -> str:
    before, after = (
        "not set" if value is None else one_line(value, 400) or "empty" for value in (each.before, each.after)
    )
    name = "command" if (each.group, each.name) == ("command", "line") else one_line(each.name, 80)
    return f"{name}: {before} → {after}"


def _alone(change: Change) -> Iterator[tuple[str, Place]]:
    for name, places in (("only the first", change.only_before), ("only the second", change.only_after)):
        for place in places:
            yield name, place


def _who_lacks(change: Change, group: str) -> str:
    return "the first" if group not in change.before.settings else "the second"


# --- several places ------------------------------------------------------------------------------------------------


def _names(found: Spread) -> list[str]:
    """The place's own name where it tells them apart, otherwise with the input it comes from."""
    names = [place.name for _, place in found.places]
    if len(set(names)) == len(names):
        return names
    return [f"{side.path.rsplit('/', 1)[-1]} {place.name}" for side, place in found.places]


def _most_and_least(names: list[str], places: Sequence[Place]) -> str:
    if not places:
        return "No device is shown."
    sizes = [place.sizes["allocated"] for place in places]
    most, least = sizes.index(max(sizes)), sizes.index(min(sizes))
    if sizes[most] == sizes[least]:
        return f"All hold the same: {format_bytes(sizes[most])} allocated."
    return (
        f"{names[most]} holds most, {format_bytes(sizes[most])} allocated; "
        f"{names[least]} least, {format_bytes(sizes[least])}: {format_bytes(sizes[most] - sizes[least])} apart."
    )


def _spread_table(title: str, rows: tuple[SpreadRow, ...], names: list[str], how_known: str) -> Section:
    """A column a place where there is room; otherwise the least and the most."""
    shown = rows[:MOST_ROWS]
    if len(names) <= _MOST_COLUMNS:
        head: Cells = ("", *names)
        cells = tuple((_short(row.name), *map(format_bytes, row.bytes)) for row in shown)
    else:
        head = ("", "least", "most", "in")
        cells = tuple(
            (
                _short(row.name), format_bytes(min(row.bytes)), format_bytes(max(row.bytes)),
                names[row.bytes.index(max(row.bytes))],
            )
            for row in shown
        )  # fmt: skip
    rest = f"{len(rows) - MOST_ROWS} more rows that differ less. " if len(rows) > MOST_ROWS else ""
    return Section(title, (), head, cells, f"{rest}How known: {how_known}.")


def _bar(size: int, largest: int) -> str:
    return "█" * max(round(_BAR * size / largest), 1 if size else 0) if largest else ""


def _size(size: int | None) -> str:
    return "not known" if size is None else format_bytes(size)


def _held(held: Held) -> str:
    return format_bytes(held.bytes) if held.bytes else "nothing"


def _signed(size: int) -> str:
    return _SAME if not size else f"{'+' if size > 0 else _MINUS}{format_bytes(abs(size))}"
