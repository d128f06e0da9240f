"""Live bytes by category and owner over the recorded events, and how long allocations lived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..model.snapshot import IntColumn
from .owners import Ownership
from .purposes import CATEGORIES
from .replay import BEFORE_RING
from .stacks import Category

_NEAR = 0.25


@dataclass(frozen=True)
class Turnover:
    """The allocations of one owner within the window."""

    owner: str
    category: Category
    allocations: int
    sizes: int
    allocated_bytes: int
    most_live_bytes: int
    live_at_end_bytes: int
    median_lifetime_us: int | None
    """Of those that were freed within it; None where there are none, or no times that follow one another."""


@dataclass(frozen=True)
class Rise:
    """The rise to the peak."""

    foot: int
    """The event at which it began; BEFORE_RING: with the window."""
    foot_bytes: int
    peak: int
    peak_bytes: int
    owners: tuple[tuple[str, int, int], ...]
    """Owner, bytes and blocks by which it had more at the peak than at the foot, the most first."""


def live_by_category(
    ownership: Ownership, events: IntColumn, cache_owners: frozenset[str] = frozenset()
) -> Mapping[Category, IntColumn]:
    """Bytes that the program held after each of `events` (ascending), for each category that ever held any of them.

    What it gave back and what waits for another stream since then is none of them: see `waiting`. What `cache_owners`
    hold are keys and values, here and below, as in `Ownership.shares`.
    """
    replay = ownership.replay
    lives = replay.lifetimes.start, replay.held_until
    table = _live_after(ownership, ownership.categories(cache_owners), len(CATEGORIES), events, lives)
    return {category: row for category, row in zip(CATEGORIES, table, strict=True) if row.any()}


def waiting(ownership: Ownership, events: IntColumn) -> IntColumn:
    """Bytes that were freed and waited for another stream after each of `events` (ascending)."""
    replay = ownership.replay
    lives = replay.held_until, replay.lifetimes.end
    if np.array_equal(*lives):
        return np.zeros(len(events), dtype=np.int64)
    found: IntColumn = _live_after(ownership, np.zeros(len(replay.lifetimes), dtype=np.int64), 1, events, lives)[0]
    return found


def live_by_owner(
    ownership: Ownership, events: IntColumn, most: int, cache_owners: frozenset[str] = frozenset()
) -> tuple[tuple[str, Category, IntColumn], ...]:
    """Bytes live after each of `events` (ascending) of the owners that held most after one of them, and of all others
    together (without a name), if any: owner, category of most of its bytes, curve.
    """
    names, owner = _owners(ownership)
    table = _live_after(ownership, owner, len(names), events)
    highest = table.max(axis=1)
    rank = [place for place in np.argsort(-highest, kind="stable")[:most].tolist() if highest[place]]
    held = np.zeros((len(names), len(CATEGORIES)), dtype=np.int64)
    np.add.at(held, (owner, ownership.categories(cache_owners)), ownership.replay.lifetimes.size_bytes)
    found = [(names[place], CATEGORIES[int(held[place].argmax())], table[place]) for place in rank]
    rest = table.sum(axis=0) - sum((curve for _, _, curve in found), np.zeros(len(events), dtype=np.int64))
    return (*found, *([("", Category.OTHER, rest)] if rest.any() else []))


def categories_at(
    ownership: Ownership, event: int, cache_owners: frozenset[str] = frozenset()
) -> Mapping[str, Category]:
    """For each owner the category of most of what was live of it after `event`, as `live_by_category` counts it."""
    names, owner = _owners(ownership)
    live = ownership.replay.lifetimes.live_after(event)
    size = np.maximum(ownership.replay.lifetimes.size_bytes[live], 1)  # who holds empty blocks only is told as well
    held = np.zeros((len(names), len(CATEGORIES)), dtype=np.int64)
    np.add.at(held, (owner[live], ownership.categories(cache_owners)[live]), size)
    return {names[place]: CATEGORIES[int(held[place].argmax())] for place in np.flatnonzero(held.any(axis=1)).tolist()}


def _owners(ownership: Ownership) -> tuple[list[str], IntColumn]:
    """The names of all owners, and which of them each lifetime has."""
    names = list(dict.fromkeys(reading.owner for reading in ownership.readings))
    number = {name: place for place, name in enumerate(names)}
    of_kind = np.asarray([number[reading.owner] for reading in ownership.readings], dtype=np.int64)
    return names, of_kind[ownership.kind]


def turnover(ownership: Ownership, most: int, cache_owners: frozenset[str] = frozenset()) -> tuple[Turnover, ...]:
    """The owners with most bytes allocated in the window, or most live at its peak or its end; the first by volume."""
    replay, lifetimes = ownership.replay, ownership.replay.lifetimes
    names, owner = _owners(ownership)
    size, count, category = lifetimes.size_bytes, len(replay.events), ownership.categories(cache_owners)
    begun, ended = lifetimes.start != BEFORE_RING, lifetimes.end < count

    def summed(chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> IntColumn:
        total = np.zeros(len(names), dtype=np.int64)
        np.add.at(total, owner[chosen], size[chosen])
        return total

    allocated, at_end = summed(begun), summed(~ended)
    at_peak = summed(lifetimes.live_after(replay.peak_event))
    rank = np.argsort(-np.maximum(np.maximum(allocated, at_end), at_peak), kind="stable")[:most]
    found = []
    for place in rank.tolist():
        mine = owner == place
        if not mine.any():
            continue
        fresh, gone = mine & begun, mine & begun & ended
        held = np.zeros(len(CATEGORIES), dtype=np.int64)
        np.add.at(held, category[mine], size[mine])
        found.append(
            Turnover(
                owner=names[place],
                category=CATEGORIES[int(held.argmax())],
                allocations=int(fresh.sum()),
                sizes=len(np.unique(lifetimes.asked_bytes[fresh])),
                allocated_bytes=int(allocated[place]),
                most_live_bytes=_most_live(lifetimes.start[mine], lifetimes.end[mine], size[mine], count),
                live_at_end_bytes=int(at_end[place]),
                median_lifetime_us=_median_lifetime(ownership, lifetimes.start[gone], lifetimes.end[gone]),
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.allocated_bytes, -each.most_live_bytes, each.owner)))


def last_rise(ownership: Ownership) -> Rise | None:
    """From where memory last stood low to the peak; None where the peak was before the window, or nothing rose.

    Low is near the level to which memory comes back again and again: the median, over the window, of the least that
    was live from there on.
    """
    replay = ownership.replay
    peak = replay.peak_event
    if peak == BEFORE_RING:
        return None
    live = replay.live_bytes
    level = int(np.median(np.minimum.accumulate(live[::-1])[::-1]))
    low = live[: peak + 1] <= level + _NEAR * (replay.peak_bytes - level)
    last_low = int(np.flatnonzero(low).max(initial=-1))
    first_low = int(np.flatnonzero(~low[: last_low + 1]).max(initial=-1)) + 1
    foot = first_low + int(live[first_low : last_low + 1].argmin()) if last_low >= 0 else BEFORE_RING
    if foot <= 0 and replay.before_bytes <= replay.live_at(foot):
        foot = BEFORE_RING
    if replay.live_at(foot) >= replay.peak_bytes:
        return None
    size, count = ownership.live_by_kind(peak)
    size_before, count_before = ownership.live_by_kind(foot)
    gained: dict[str, list[int]] = {}
    for kind in np.flatnonzero((size != size_before) | (count != count_before)).tolist():
        row = gained.setdefault(ownership.readings[kind].owner, [0, 0])
        row[0] += int(size[kind] - size_before[kind])
        row[1] += int(count[kind] - count_before[kind])
    rows = sorted(gained.items(), key=lambda item: (-item[1][0], item[0]))
    return Rise(
        foot=foot,
        foot_bytes=replay.live_at(foot),
        peak=peak,
        peak_bytes=replay.peak_bytes,
        owners=tuple((owner, bytes_, blocks) for owner, (bytes_, blocks) in rows if bytes_ > 0),
    )


def _live_after(
    ownership: Ownership,
    group: IntColumn,
    groups: int,
    events: IntColumn,
    lives: tuple[IntColumn, IntColumn] | None = None,
) -> IntColumn:
    """Bytes live after each of `events` by the group of their lifetime: shape (groups, len(events)).

    `lives`: where each begins and ends, if not as the allocator counts it.
    """
    lifetimes = ownership.replay.lifetimes
    # Live after events[k] means start <= events[k] < end.
    start, until = lives or (lifetimes.start, lifetimes.end)
    begin, end = np.searchsorted(events, start, side="left"), np.searchsorted(events, until, side="left")
    change = np.zeros((groups, len(events) + 1), dtype=np.int64)
    np.add.at(change, (group, begin), lifetimes.size_bytes)
    np.subtract.at(change, (group, end), lifetimes.size_bytes)
    live: IntColumn = change.cumsum(axis=1)[:, :-1]
    return live


def _most_live(start: IntColumn, end: IntColumn, size: IntColumn, count: int) -> int:
    change = np.zeros(count + 2, dtype=np.int64)
    np.add.at(change, start + 1, size)
    np.subtract.at(change, end + 1, size)
    return int(change.cumsum()[:-1].max())


def _median_lifetime(ownership: Ownership, start: IntColumn, end: IntColumn) -> int | None:
    events = ownership.replay.events
    if not events.runs_forwards:
        return None
    time_us = events.time_us
    timed = (time_us[start] >= 0) & (time_us[end] >= 0)
    return int(np.median((time_us[end] - time_us[start])[timed])) if timed.any() else None
