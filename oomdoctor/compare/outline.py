"""A comparison as titles, sentences and tables: what the terminal and Markdown show alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..allocator.stacks import describe, is_torch, python_frames, read_stack, users_frame
from ..language import N_, _, ngettext, pgettext, tidy, told
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
_NAMES = {("command", "line"): N_("command"), ("machine", "memory"): N_("the machine's memory")}
"""Settings whose names say too little by themselves."""
_FOLDERS = re.compile(r"(?<![^\s('\"])(?:[^\s:('\"]*/)(?=[^\s/:]+/[^\s/:]+\.py:[0-9])")
_MINUS, _SAME = "\N{MINUS SIGN}", N_("no change")

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
    sections = [Section(_("What changed"), _answer(change))]
    for place in change.places:
        sections.extend(_place(place, len(change.places) > 1))
    sections.append(_settings(change))
    gaps = (
        *(
            _("{side} shows {name}, the other does not").format(side=side, name=place_name(place))
            for side, place in _alone(change)
        ),
        *(
            _("{what}: {why}").format(what=change_name(place), why=each)
            for place in change.places
            for each in place.not_compared
        ),
        *(
            _("{group}: not recorded by {who}").format(group=_group(group), who=_who_lacks(change, group))
            for group in change.settings_not_compared
        ),
        *(
            _("not read: {problem}").format(problem=problem)
            for side in (change.before, change.after)
            for problem in side.problems
        ),
    )
    if gaps:
        sections.append(Section(_("Not compared"), gaps))
    return tuple(sections)


def outline_spread(found: Spread) -> tuple[Section, ...]:
    """All places on one scale, then what differs most among them."""
    places = [place for _side, place in found.places]
    names = place_names(found)
    largest = max((max(p.sizes.get("reserved", 0), p.sizes.get("allocated", 0)) for p in places), default=0)
    rows = tuple(
        (
            name,
            _size(p.sizes.get("allocated")),
            _size(p.sizes.get("reserved")),
            _bar(p.sizes["allocated"], largest),
        )
        for name, p in zip(names, places, strict=True)
    )
    sections = [
        Section(
            _("On one scale"),
            (_most_and_least(names, places), *found.cautions),
            ("", _("allocated"), _("reserved"), ""),
            rows,
        )
    ]
    for title, found_rows in ((_("By category"), found.categories), (_("By owner"), found.owners)):
        if found_rows:
            sections.append(_spread_table(title, found_rows, names, found.how_known))
    if not found.how_known:
        sections.append(
            Section(_("Not compared"), (_("owners: not every place has stacks, nor every one a whole census"),))
        )
    return tuple(sections)


# --- two sides -----------------------------------------------------------------------------------------------------


def _answer(change: Change) -> tuple[str, ...]:
    if not change.places:
        return (_("The two have no device and no budget in common."),)
    lines = [_("{what}: {why}").format(what=change_name(place), why=_gain(place)) for place in change.places]
    if change.settings:
        shown = [_setting(each) for each in change.settings[:3]]
        if len(change.settings) > len(shown):
            shown.append(_("and {number} more").format(number=len(change.settings) - len(shown)))
        lines.append(_("With it came: {settings}").format(settings=_("; ").join(shown)))
    return (*lines, *change.cautions)


def _gain(place: PlaceChange) -> str:
    """By what the allocator held, or without an allocator by the part of the budget that changed most."""
    row = next(filter(_is_told_by_both, place.sizes), None)
    if row is None:
        known = [each for each in place.budget if each.name != "in all" and _is_told_by_both(each)]
        most = max(known, key=lambda row: abs(_gained(row)), default=None)
        if most is None:
            return _("no figure that both sides tell.")
        return _("{figures}: {change}.").format(figures=_figures(most), change=_signed(_gained(most)))
    gained = _gained(row)
    if not gained:
        said = _("as much as before ({figures}), held by other owners.") if place.owners else ""
        return (said or _("as much as before ({figures}).")).format(figures=_figures(row))
    said = _("{size} more ({figures}).") if gained > 0 else _("{size} less ({figures}).")
    return tidy(said.format(size=format_bytes(abs(gained)), figures=_figures(row)) + _main_part(place, gained))


def _is_told_by_both(row: SizeRow) -> bool:
    return row.before_bytes is not None and row.after_bytes is not None


def _gained(row: SizeRow) -> int:
    """Of a figure that both sides tell."""
    return (row.after_bytes or 0) - (row.before_bytes or 0)


def _figures(row: SizeRow) -> str:
    return f"{told(row.name)} {_size(row.before_bytes)} → {_size(row.after_bytes)}"


def _main_part(place: PlaceChange, gained: int) -> str:
    same_way = [row for row in place.owners if gained == 0 or (row.change_bytes > 0) == (gained > 0)]
    if not same_way:
        return ""
    row = same_way[0]
    share = abs(row.change_bytes)
    if share > abs(gained):
        most = _("What rose most") if gained > 0 else _("What fell most")
    else:
        most = _("Most of it") if 2 * share > abs(gained) else _("The largest part")
    said = " " + _("{most}: {owner}, {change}.").format(
        most=most, owner=_short(row.key), change=_signed(row.change_bytes)
    )
    other_way = [each for each in place.owners if (each.change_bytes > 0) != (gained > 0)]
    if share > abs(gained) and other_way:
        turned = _("What fell most beside it") if gained > 0 else _("What rose most beside it")
        said += " " + _("{most}: {owner}, {change}.").format(
            most=turned, owner=_short(other_way[0].key), change=_signed(other_way[0].change_bytes)
        )
    return said


def _place(place: PlaceChange, with_name: bool) -> Iterator[Section]:
    prefix = _("{name}: ").format(name=change_name(place)) if with_name else ""
    head = ("", pgettext("column", "before"), pgettext("column", "after"), pgettext("column", "change"))
    if place.sizes:
        moments = (
            _("before: {moment}").format(moment=place.before.moment),
            _("after: {moment}").format(moment=place.after.moment),
        )
        yield Section(_("{prefix}sizes").format(prefix=prefix), moments, head, tuple(map(_size_row, place.sizes)))
    if place.budget:
        yield Section(_("{prefix}budget").format(prefix=prefix), (), head, tuple(map(_size_row, place.budget)))
    # The budget has the categories among its parts.
    for title, found in ((_("by category"), () if place.budget else place.categories), (_("by owner"), place.owners)):
        if found:
            rest = (
                ngettext(
                    "{number} more row with a smaller change. ",
                    "{number} more rows with smaller changes. ",
                    len(found) - MOST_ROWS,
                ).format(number=len(found) - MOST_ROWS)
                if len(found) > MOST_ROWS
                else ""
            )
            remark = _("{rest}How known: {how}.").format(rest=rest, how=_(place.how_known))
            yield Section(f"{prefix}{title}", (), head, tuple(map(_row, found[:MOST_ROWS])), remark)
    if place.stacks:
        yield Section(_("{prefix}by stack").format(prefix=prefix), tuple(map(_stack_row, place.stacks[:_MOST_STACKS])))


def _size_row(row: SizeRow) -> Cells:
    before, after = row.before_bytes, row.after_bytes
    return (
        told(row.name),
        _size(before),
        _size(after),
        "" if before is None or after is None else _signed(after - before),
    )


def _row(row: Row[str]) -> Cells:
    return _short(row.key), _held(row.before), _held(row.after), _signed(row.change_bytes)


def _stack_row(row: Row[Stack]) -> str:
    blocks = row.after.count - row.before.count
    said = _("{change}: {stack}")
    if blocks > 0:
        said = ngettext("{change}, {number} block more: {stack}", "{change}, {number} blocks more: {stack}", blocks)
    elif blocks < 0:
        said = ngettext("{change}, {number} block less: {stack}", "{change}, {number} blocks less: {stack}", -blocks)
    return said.format(change=_signed(row.change_bytes), number=f"{abs(blocks):,}", stack=_frames(row.key))


def _frames(stack: Stack) -> str:
    """The program's own frames from its innermost one outwards; where it has none, what stands in their place."""
    reading = read_stack(stack)
    first = users_frame(stack)
    if first is None:
        return told(reading.owner)
    frames = python_frames(stack)
    outwards = [f for f in frames[frames.index(first) :] if not is_torch(f) and not f.file.startswith("<frozen ")]
    shown = " < ".join(_short(describe(frame)) for frame in outwards[:_MOST_FRAMES])
    return shown + (" < …" if len(outwards) > _MOST_FRAMES else "")


def _short(owner: str) -> str:
    """A path by its last two parts: a row has little room."""
    return one_line(told(_FOLDERS.sub("", owner)), 120)


def _settings(change: Change) -> Section:
    if not change.settings:
        none = _("Nothing that both recorded.") if change.before.settings.keys() & change.after.settings.keys() else ""
        return Section(_("What else differs"), (none or _("Neither command, versions nor environment are in both."),))
    return Section(_("What else differs"), tuple(_setting(each) for each in change.settings))


def _setting(each: SettingChange) -> str:
    before, after = (
        _("not set") if value is None else one_line(value, 400) or pgettext("value", "empty")
        for value in (each.before, each.after)
    )
    name = one_line(told(_NAMES.get((each.group, each.name), each.name)), 80)
    return _("{name}: {before} → {after}").format(name=name, before=before, after=after)


def _alone(change: Change) -> Iterator[tuple[str, Place]]:
    for name, places in ((_("only the first"), change.only_before), (_("only the second"), change.only_after)):
        for place in places:
            yield name, place


def change_name(place: PlaceChange) -> str:
    """Its name in the language in use."""
    return told(place.name)


def place_name(place: Place) -> str:
    """Its name in the language in use."""
    return told(place.name)


def _group(name: str) -> str:
    return {
        "command": pgettext("setting", "command"),
        "environment": pgettext("setting", "environment"),
        "version": pgettext("setting", "version"),
        "allocator": pgettext("setting", "allocator"),
        "machine": pgettext("setting", "machine"),
    }[name]


def _who_lacks(change: Change, group: str) -> str:
    return _("the first") if group not in change.before.settings else _("the second")


# --- several places ------------------------------------------------------------------------------------------------


def place_names(found: Spread) -> list[str]:
    """The place's own name where it tells them apart, otherwise with the input it comes from."""
    names = [place_name(place) for _side, place in found.places]
    if len(set(names)) == len(names):
        return names
    return [f"{side.path.rsplit('/', 1)[-1]} {place_name(place)}" for side, place in found.places]


def _most_and_least(names: list[str], places: Sequence[Place]) -> str:
    if not places:
        return _("No device is shown.")
    sizes = [place.sizes["allocated"] for place in places]
    most, least = sizes.index(max(sizes)), sizes.index(min(sizes))
    if sizes[most] == sizes[least]:
        return _("All hold the same: {size} allocated.").format(size=format_bytes(sizes[most]))
    return _("{most} holds most, {held} allocated; {least} least, {held_least}: {apart} apart.").format(
        most=names[most],
        held=format_bytes(sizes[most]),
        least=names[least],
        held_least=format_bytes(sizes[least]),
        apart=format_bytes(sizes[most] - sizes[least]),
    )


def _spread_table(title: str, rows: tuple[SpreadRow, ...], names: list[str], how_known: str) -> Section:
    """A column a place where there is room; otherwise the least and the most."""
    shown = rows[:MOST_ROWS]
    if len(names) <= _MOST_COLUMNS:
        head: Cells = ("", *names)
        cells = tuple((_short(row.name), *map(format_bytes, row.bytes)) for row in shown)
    else:
        head = ("", pgettext("column", "least"), pgettext("column", "most"), pgettext("column", "in"))
        cells = tuple(
            (
                _short(row.name), format_bytes(min(row.bytes)), format_bytes(max(row.bytes)),
                names[row.bytes.index(max(row.bytes))],
            )
            for row in shown
        )  # fmt: skip
    more = len(rows) - MOST_ROWS
    rest = ngettext("{number} more row that differs less. ", "{number} more rows that differ less. ", more)
    rest = rest.format(number=more) if more > 0 else ""
    return Section(title, (), head, cells, _("{rest}How known: {how}.").format(rest=rest, how=_(how_known)))


def _bar(size: int, largest: int) -> str:
    return "█" * max(round(_BAR * size / largest), 1 if size else 0) if largest else ""


def _size(size: int | None) -> str:
    return _("not known") if size is None else format_bytes(size)


def _held(held: Held) -> str:
    return format_bytes(held.bytes) if held.bytes else pgettext("value", "nothing")


def _signed(size: int) -> str:
    return _(_SAME) if not size else f"{'+' if size > 0 else _MINUS}{format_bytes(abs(size))}"
