"""What became of each owner, category, stack and setting from one side to another."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..allocator.stacks import is_torch
from ..language import N_, _
from .cautions import cautions_of
from .places import NOTHING, SETTING_GROUPS, Held, Owners, Place, Side, Stack

Key = TypeVar("Key", bound=Hashable)

_LINE = re.compile(r"(?P<file>[^\s:][^:]*):[0-9]+ in (?P<function>\S+)")
_COUNT = re.compile(r" \((?:grew from [0-9]+ to )?[0-9]+ elements(?: in [^()]*)?\)")
_AT_LINE = re.compile(r"(?<=\S\.py):[0-9]+$")
_NEAREST = 2
_PARTLY_RECORDED = frozenset({"version", "allocator", "machine"})
"""What is missing there was not recorded; an option or a variable that is missing was not given."""
BY_CENSUS = N_("counted by the probe")
BY_STACKS = N_("by the stacks of the snapshots; what they are for is guessed from names")


@dataclass(frozen=True)
class Row(Generic[Key]):
    """One thing on both sides, by the second side's key (by the first's, where it is gone)."""

    key: Key
    before: Held
    after: Held

    @property
    def change_bytes(self) -> int:
        """How much more the second side holds."""
        return self.after.bytes - self.before.bytes


@dataclass(frozen=True)
class SizeRow:
    """A figure of the place. None: that side does not tell it."""

    name: str
    before_bytes: int | None
    after_bytes: int | None


@dataclass(frozen=True)
class PlaceChange:
    """One place on both sides. Rows whose bytes are equal are left out of owners, categories and stacks."""

    before: Place
    after: Place
    sizes: tuple[SizeRow, ...]
    """The allocator's own figures; empty where one side has none."""
    budget: tuple[SizeRow, ...]
    """The parts that the whole of the place's memory was in; empty where one side has no budget."""
    owners: tuple[Row[str], ...]
    categories: tuple[Row[str], ...]
    stacks: tuple[Row[Stack], ...]
    how_known: str
    """How owners and categories are known; empty when they could not be compared."""
    not_compared: tuple[str, ...]

    @property
    def name(self) -> str:
        """`cuda:0`, or `cuda:0 → npu:0` where the sides are of two kinds of device."""
        if self.before.where == self.after.where or not (self.before.is_device and self.after.is_device):
            return self.after.name
        return f"{self.before.name} → {self.after.name}"


@dataclass(frozen=True)
class SettingChange:
    """A setting that differs. None: not set there."""

    group: str
    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Change:
    """All that differs between two sides."""

    before: Side
    after: Side
    places: tuple[PlaceChange, ...]
    only_before: tuple[Place, ...]
    only_after: tuple[Place, ...]
    settings: tuple[SettingChange, ...]
    settings_not_compared: tuple[str, ...]
    """Groups that one side did not record."""
    cautions: tuple[str, ...]
    """In what the sides are so unlike that their figures mean different things, in sentences."""


def compare_sides(before: Side, after: Side) -> Change:
    """Places are matched by rank and device; where each side has one only, these two are matched."""
    pairs = _matched(before.places, after.places)
    matched = {id(place) for pair in pairs for place in pair}
    groups = [group for group in SETTING_GROUPS if group in before.settings or group in after.settings]
    both = [group for group in groups if group in before.settings and group in after.settings]
    return Change(
        before=before,
        after=after,
        places=tuple(_place_change(one, other) for one, other in pairs),
        only_before=tuple(place for place in before.places if id(place) not in matched),
        only_after=tuple(place for place in after.places if id(place) not in matched),
        settings=_told_once(
            [change for group in both for change in _settings(group, before.settings[group], after.settings[group])]
        ),
        settings_not_compared=tuple(group for group in groups if group not in both),
        cautions=tuple(
            dict.fromkeys(each for one, other in pairs for each in cautions_of(((before, one), (after, other))))
        ),
    )


def _matched(before: tuple[Place, ...], after: tuple[Place, ...]) -> list[tuple[Place, Place]]:
    devices_before = [place for place in before if place.is_device]
    devices_after = [place for place in after if place.is_device]
    pairs: list[tuple[Place, Place]] = []
    if len(devices_before) == len(devices_after) == 1:
        pairs.append((devices_before[0], devices_after[0]))
    used = {id(place) for pair in pairs for place in pair}
    for one in before:
        fits = [
            other
            for other in after
            if id(other) not in used and id(one) not in used and (one.rank, one.where) == (other.rank, other.where)
        ]
        if fits:
            pairs.append((one, fits[0]))
            used |= {id(one), id(fits[0])}
    return pairs


def _place_change(before: Place, after: Place) -> PlaceChange:
    owners_before, owners_after, how = _counted_alike(before, after)
    stacks = before.by_stack is not None and after.by_stack is not None
    missing = []
    if not how and (before.is_device or after.is_device):
        missing.append(_("owners: {why}").format(why=_lacking(before, after, _("neither stacks nor a whole census"))))
    if not stacks and (before.is_device or after.is_device):
        missing.append(_("stacks: {why}").format(why=_lacking(before, after, _("no stacks"), stacks_only=True)))
    return PlaceChange(
        before=before,
        after=after,
        sizes=_sizes(before.sizes, after.sizes),
        budget=_sizes(before.budget, after.budget),
        owners=_rows(owners_before.by_owner, owners_after.by_owner, (without_count, _without_line)) if how else (),
        categories=_rows(owners_before.by_category, owners_after.by_category, (_without_line,)) if how else (),
        stacks=_rows(before.by_stack or {}, after.by_stack or {}, (_without_lines, _nearest_lines)) if stacks else (),
        how_known=how,
        not_compared=tuple(missing),
    )


def _sizes(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[SizeRow, ...]:
    if not before or not after:
        return ()
    return tuple(SizeRow(name, before.get(name), after.get(name)) for name in dict.fromkeys((*before, *after)))


def _counted_alike(before: Place, after: Place) -> tuple[Owners, Owners, str]:
    """The owners of both, counted in the same way, and which; the census where both have one."""
    if before.census is not None and after.census is not None:
        return before.census, after.census, BY_CENSUS
    if before.stacks is not None and after.stacks is not None:
        return before.stacks, after.stacks, BY_STACKS
    return Owners({}, {}), Owners({}, {}), ""


def _lacking(before: Place, after: Place, what: str, stacks_only: bool = False) -> str:
    def lacks(place: Place) -> bool:
        return place.by_stack is None if stacks_only else place.stacks is None and place.census is None

    if lacks(before) and lacks(after):
        return _("both have {what}").format(what=what)
    if not lacks(before) and not lacks(after):
        return _("each side counts them in another way")
    said = _("the first has {what}") if lacks(before) else _("the second has {what}")
    return said.format(what=what)


def _rows(
    before: Mapping[Key, Held], after: Mapping[Key, Held], loose_keys: tuple[Callable[[Key], Hashable], ...]
) -> tuple[Row[Key], ...]:
    rows = (Row(key, b, a) for key, b, a in align(before, after, loose_keys))
    return tuple(sorted((row for row in rows if row.change_bytes), key=_most_changed_first))


def _most_changed_first(row: Row[Any]) -> tuple[int, str]:
    """Of equals by name; stacks have none."""
    return -abs(row.change_bytes), row.key if isinstance(row.key, str) else ""


def align(
    before: Mapping[Key, Held], after: Mapping[Key, Held], loose_keys: tuple[Callable[[Key], Hashable], ...]
) -> list[tuple[Key, Held, Held]]:
    """Pair what has the same key; of the rest, what has the same loose key and is the only such on both sides.

    Lines move when a file is edited, callers when a script is renamed: each loose key leaves out more than the one
    before it. The key given is the second side's where it has one.
    """
    paired = [(key, before[key], after[key]) for key in before if key in after]
    ours, theirs = [key for key in before if key not in after], [key for key in after if key not in before]
    for loose in loose_keys:
        left, right = _by_loose_key(ours, loose), _by_loose_key(theirs, loose)
        alike = [name for name in left if len(left[name]) == len(right.get(name, ())) == 1]
        paired += [(right[name][0], before[left[name][0]], after[right[name][0]]) for name in alike]
        ours = [key for name in left if name not in alike for key in left[name]]
        theirs = [key for name in right if name not in alike for key in right[name]]
    paired += [(key, before[key], NOTHING) for key in ours]
    paired += [(key, NOTHING, after[key]) for key in theirs]
    return paired


def _by_loose_key(keys: Iterable[Key], loose: Callable[[Key], Hashable]) -> dict[Hashable, list[Key]]:
    found: dict[Hashable, list[Key]] = {}
    for key in keys:
        found.setdefault(loose(key), []).append(key)
    return found


def without_count(owner: str) -> str:
    """A list is the same one when it has grown."""
    return _COUNT.sub("", owner)


def _without_line(owner: str) -> str:
    """A line of code moves when a file is edited, `list 'kept' of Loop, grown at train.py:15` too."""
    owner = _AT_LINE.sub("", without_count(owner))
    return _LINE.sub(lambda found: f"{_tail(found['file'])} in {found['function']}", owner)


def _without_lines(stack: Stack) -> Hashable:
    return tuple((_tail(frame.file), frame.function) for frame in stack)


def _nearest_lines(stack: Stack) -> Hashable:
    """The program's innermost frames, by file and line: the same place reached from elsewhere."""
    own = [frame for frame in stack if not is_torch(frame)][:_NEAREST]
    return tuple((_tail(frame.file), frame.line, frame.function) for frame in own)


def _tail(file: str) -> str:
    """The same file lies in another folder on another machine."""
    return "/".join(file.rsplit("/", 2)[-2:])


def _told_once(changes: list[SettingChange]) -> tuple[SettingChange, ...]:
    """What the environment tells is left out where the allocator tells it again: `PYTORCH_CUDA_ALLOC_CONF`."""
    told = {change.name for change in changes if change.group == "environment"}
    return tuple(change for change in changes if change.group != "allocator" or change.name not in told)


def _settings(group: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[SettingChange]:
    names = [name for name in before if name in after] if group in _PARTLY_RECORDED else (*before, *after)
    for name in dict.fromkeys(names):
        if before.get(name) != after.get(name):
            yield SettingChange(group, name, before.get(name), after.get(name))
