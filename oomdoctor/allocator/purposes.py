"""What each allocation turned out to be for: by the program's own words, and by when it was freed again.

A stack says where memory was allocated, a lifetime what became of it: what a forward pass allocated and the backward
pass after it freed was saved for backward; what was freed in the phase that allocated it was temporary; what a backward
pass or an optimizer allocated and left standing is a gradient or state. A gradient has the size of a parameter, or is
accumulated into one: what else a backward pass makes are gradients of activations, as large as these. What is still
live is judged by earlier blocks of the same stack that lived as long, where nearly all of them went one way. Where the
window does not show it, the stack's word stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..language import N_
from ..model.snapshot import ACTIONS, IntColumn
from .kinds import LifetimeKinds
from .phases import BACKWARD, FORWARD_PASS, LOAD, NONE, OPTIMIZER, Moments, is_annotated, moments_of
from .replay import BEFORE_RING
from .stacks import FORWARD, Category

HOW_KNOWN = (
    "",
    N_("recorded stack, and when the block was freed"),
    N_("recorded stack, and when earlier blocks of the same stack were freed"),
    N_("the program's own annotation of the phase that allocated it"),
    N_("the program's own note on the allocation"),
    N_("recorded stack of a backward pass; no parameter has its size"),
)
"""How a category is known; the first: as the stack's is."""
BY_STACK, _BY_LIFETIME, _BY_ALIKE, _BY_ANNOTATION, _BY_NOTE, NO_PARAMETER = range(len(HOW_KNOWN))

CATEGORIES = tuple(Category)
_NUMBER = {category: place for place, category in enumerate(CATEGORIES)}
_BORN = {FORWARD_PASS: Category.TEMPORARY, BACKWARD: Category.OF_BACKWARD, OPTIMIZER: Category.OF_OPTIMIZER}
_ANNOTATED = {
    LOAD: Category.WEIGHTS,
    FORWARD_PASS: Category.ACTIVATION,
    BACKWARD: Category.GRADIENT,
    OPTIMIZER: Category.OPTIMIZER_STATE,
}
_JUDGED = (FORWARD - {Category.LOGITS}) | {Category.GRADIENT, Category.OPTIMIZER_STATE, Category.OTHER}
_FEWEST_ALIKE = 2
_NEARLY_ALL = 0.9
_SIZES = 1 << 44
_NO, _LEFT, _TEMPORARY, _SAVED = range(4)

_ANNOTATE = ACTIONS.index("annotate")
_WORDS = (
    (Category.SAVED, re.compile(r"saved|for[ _]backward|autograd[ _]graph")),
    (Category.KV_APPEND, re.compile(r"(?<![a-z])kv(?![a-z])|key[ _]?values?|past[ _]key")),
    (Category.OPTIMIZER_STATE, re.compile(r"optimi[sz]er|(?<![a-z])adam|momentum|moments(?![a-z])")),
    (Category.GRADIENT, re.compile(r"(?<![a-z])grad(?:ient)?s?(?![a-z])")),
    (Category.WEIGHTS, re.compile(r"(?<![a-z])(?:weights?|param(?:eter)?s?)(?![a-z])")),
    (Category.LOGITS, re.compile(r"(?<![a-z])logits?(?![a-z])")),
    (Category.ACTIVATION, re.compile(r"(?<![a-z])activations?(?![a-z])")),
    (Category.TEMPORARY, re.compile(r"(?<![a-z])(?:temporary|temp|tmp|scratch)(?![a-z])")),
)


@dataclass(frozen=True)
class Purposes:
    """Of each lifetime."""

    category: IntColumn
    """Index into CATEGORIES."""
    how: IntColumn
    """Index into HOW_KNOWN."""


def purposes_of(kinds: LifetimeKinds) -> Purposes:
    """The category of each lifetime, and how it is known."""
    lifetimes = kinds.replay.lifetimes
    of_kind = np.asarray([_NUMBER[reading.category] for reading in kinds.readings], dtype=np.int64)
    category = of_kind[kinds.kind]
    how = np.zeros(len(lifetimes), dtype=np.int64)
    moments = moments_of(kinds)
    if len(moments.events):
        _by_annotation(kinds, moments, category, how)
    _by_parameters(kinds, category, how)
    if len(moments.events):
        _by_lifetime(kinds, moments, category, how)
    _by_note(kinds, category, how)
    return Purposes(category, how)


def _by_annotation(kinds: LifetimeKinds, moments: Moments, category: IntColumn, how: IntColumn) -> None:
    """What no stack tells was allocated in a phase that the program named."""
    annotated = is_annotated(moments)
    if not annotated.any():
        return
    unknown = np.isin(category, [_NUMBER[Category.OTHER], _NUMBER[Category.UNKNOWN]])
    rows = np.flatnonzero(unknown & (kinds.replay.lifetimes.start != BEFORE_RING))
    start = kinds.replay.lifetimes.start[rows]
    place = np.minimum(np.searchsorted(moments.events, start), len(moments.events) - 1)
    told = (moments.events[place] == start) & annotated[place]
    of_phase = np.full(NONE + 16, -1, dtype=np.int64)
    for phase, named in _ANNOTATED.items():
        of_phase[phase] = _NUMBER[named]
    found = np.where(told, of_phase[moments.phase[place]], -1)
    rows, found = rows[found >= 0], found[found >= 0]
    category[rows], how[rows] = found, _BY_ANNOTATION


def _by_parameters(kinds: LifetimeKinds, category: IntColumn, how: IntColumn) -> None:
    """What a backward pass made that no parameter is as large as, and nothing accumulated into one."""
    rows = np.flatnonzero(category == _NUMBER[Category.GRADIENT])
    if not len(rows):
        return
    accumulates = np.asarray([reading.accumulates for reading in kinds.readings], dtype=np.bool_)
    asked = kinds.replay.lifetimes.asked_bytes
    unknown = category == _NUMBER[Category.UNKNOWN]
    # Of what was made before anything was recorded, parameters are what stands still.
    weights = (category == _NUMBER[Category.WEIGHTS]) | (unknown & (kinds.replay.lifetimes.block >= 0))
    if not weights.any():
        weights = unknown | (category == _NUMBER[Category.OTHER])
    if not weights.any():
        return
    rows = rows[~accumulates[kinds.kind[rows]] & ~np.isin(asked[rows], asked[weights])]
    category[rows], how[rows] = _NUMBER[Category.OF_BACKWARD], NO_PARAMETER


def _by_lifetime(kinds: LifetimeKinds, moments: Moments, category: IntColumn, how: IntColumn) -> None:
    stretches = moments.joined()
    lifetimes = kinds.replay.lifetimes
    judged = np.isin(category, [_NUMBER[each] for each in _JUDGED]) & (lifetimes.start != BEFORE_RING)
    rows = np.flatnonzero(judged)
    if not len(rows) or not len(stretches.events):
        return
    start, end = lifetimes.start[rows], lifetimes.end[rows]
    born = stretches.stretch(start)
    # What stands between two phases belongs to neither.
    own = np.append(stretches.events, -1)[np.searchsorted(stretches.events, start)] == start
    inside = (born >= 0) & (own | (stretches.stretch_after(start) == born))
    rows, start, end, born = rows[inside], start[inside], end[inside], born[inside]
    phase = stretches.phase_of_stretch(born)
    outcome = _outcome(kinds, stretches, rows, born, phase)
    by_alike = _by_alike(kinds, rows, outcome)
    undecided = outcome == _NO
    outcome[undecided] = by_alike[undecided]
    told = np.where(undecided, _BY_ALIKE, _BY_LIFETIME)
    temporary = np.full(len(rows), _NUMBER[Category.TEMPORARY], dtype=np.int64)
    for number, named in _BORN.items():
        temporary[phase == number] = _NUMBER[named]
    saved = (outcome == _SAVED) & (phase == FORWARD_PASS)
    for chosen, found in ((outcome == _TEMPORARY, temporary), (saved, np.full(len(rows), _NUMBER[Category.SAVED]))):
        category[rows[chosen]], how[rows[chosen]] = found[chosen], told[chosen]
    left = (outcome == _LEFT) & np.isin(category[rows], [_NUMBER[Category.GRADIENT], _NUMBER[Category.OPTIMIZER_STATE]])
    how[rows[left]] = told[left]


def _outcome(kinds: LifetimeKinds, stretches: Moments, rows: IntColumn, born: IntColumn, phase: IntColumn) -> IntColumn:
    """What became of each: saved for backward, temporary, left standing by its phase, or not known."""
    count, lifetimes = len(kinds.replay.events), kinds.replay.lifetimes
    end = lifetimes.end[rows]
    freed = end < count
    last = stretches.stretch(end)
    until = np.where(freed, stretches.stretch_after(end), last)
    outcome = np.full(len(rows), _NO, dtype=np.int64)
    outcome[freed & (last == born) & (until == born)] = _TEMPORARY
    followed = stretches.phase_of_stretch(born + 1) == BACKWARD
    outcome[freed & (phase == FORWARD_PASS) & followed & (last == born + 1)] = _SAVED
    # Still live, or freed later than in the next phase.
    outcome[(phase != FORWARD_PASS) & (last > born)] = _LEFT
    outcome[freed & (phase == FORWARD_PASS) & (last > born + 1)] = _LEFT
    if not (stretches.phase == BACKWARD).any():
        # One long phase: what outlives the next allocation of its line may be kept from step to step.
        kept = _outlives_the_next(kinds.kind[rows], lifetimes.start[rows], end)
        outcome[(outcome == _TEMPORARY) & kept] = _LEFT
    return outcome


def _outlives_the_next(kind: IntColumn, start: IntColumn, end: IntColumn) -> NDArray[np.bool_]:
    order = np.lexsort((start, kind))
    following = np.append(start[order][1:], 1 << 62)
    following[:-1][kind[order][1:] != kind[order][:-1]] = 1 << 62
    kept = np.empty(len(kind), dtype=np.bool_)
    kept[order] = end[order] > following
    return kept


def _by_alike(kinds: LifetimeKinds, rows: IntColumn, outcome: IntColumn) -> IntColumn:
    """Of what is not decided yet: what became of earlier blocks of the same stack and size, and where there were none
    of its size, of the same stack.
    """
    kind, lifetimes = kinds.kind[rows], kinds.replay.lifetimes
    wanted = np.zeros(len(kinds.readings), dtype=np.bool_)
    wanted[kind[outcome == _NO]] = True
    chosen = np.flatnonzero(wanted[kind])
    size = np.minimum(lifetimes.asked_bytes[rows[chosen]], _SIZES - 1)
    age = np.minimum(lifetimes.end[rows[chosen]], len(kinds.replay.events) - 1) - lifetimes.start[rows[chosen]]
    found, had_any = _by_those_as_old(kind[chosen] * _SIZES + size, age, outcome[chosen])
    same_stack, _ = _by_those_as_old(kind[chosen], age, outcome[chosen])
    # What has no stack has nothing in common but its size.
    has_stack = kind[chosen] < len(kinds.snapshot.stacks)
    told = np.full(len(rows), _NO, dtype=np.int64)
    told[chosen] = np.where(had_any | ~has_stack, found, same_stack)
    return told


def _by_those_as_old(key: IntColumn, age: IntColumn, outcome: IntColumn) -> tuple[IntColumn, NDArray[np.bool_]]:
    """What became of nearly all of one key that lived at least as long, where these are several; and whether any of the
    key is known at all. One line may allocate what is saved and what is not: they live differently long.
    """
    order = np.lexsort((-age, key))
    sorted_key, known = key[order], outcome[order][:, None] == np.arange(1, 4)
    before = np.concatenate([np.zeros((1, 3), dtype=np.int64), np.cumsum(known, axis=0)])
    first = np.searchsorted(sorted_key, sorted_key, side="left")
    end = np.searchsorted(sorted_key, sorted_key, side="right")
    older = before[1:] - before[first]
    total = older.sum(axis=1)
    most = older.argmax(axis=1)
    sure = (total >= _FEWEST_ALIKE) & (older[np.arange(len(older)), most] >= _NEARLY_ALL * total)
    found, any_ = np.empty(len(key), dtype=np.int64), np.empty(len(key), dtype=np.bool_)
    found[order] = np.where(sure, most + 1, _NO)
    any_[order] = (before[end] - before[first]).any(axis=1)
    return found, any_


def _by_note(kinds: LifetimeKinds, category: IntColumn, how: IntColumn) -> None:
    """What the program itself says of an allocation, when it is made or later."""
    trace, lifetimes = kinds.replay.events, kinds.replay.lifetimes
    if trace.note is None:
        return
    of_note = np.asarray([*map(_category_of_note, kinds.snapshot.notes), -1], dtype=np.int64)
    found = np.where(lifetimes.start >= 0, of_note[trace.note[lifetimes.start]], -1)
    for event in np.flatnonzero((trace.action == _ANNOTATE) & (of_note[trace.note] >= 0)).tolist():
        found[lifetimes.live_after(event) & (lifetimes.address == trace.address[event])] = of_note[trace.note[event]]
    rows = np.flatnonzero(found >= 0)
    category[rows], how[rows] = found[rows], _BY_NOTE


def _category_of_note(note: str) -> int:
    lowered = note.lower()
    found = [category for category, pattern in _WORDS if pattern.search(lowered)]
    # `activations saved for backward` says both.
    if found[:1] == [Category.SAVED]:
        found = [each for each in found if each is not Category.ACTIVATION]
    return _NUMBER[found[0]] if len(found) == 1 else -1
