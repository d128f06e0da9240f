"""What the program did when: by its own annotations, by its own notes on events, and by the stacks of allocations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..language import N_
from ..model.snapshot import ACTIONS, Annotation, IntColumn
from .kinds import LifetimeKinds
from .stacks import FORWARD, Category, StackReading

PHASES = ("load", "forward", "backward", "optimizer", "prefill", "decode", "generate")
"""Phases are numbers of this; NONE where nothing tells."""
NONE = -1
LOAD, FORWARD_PASS, BACKWARD, OPTIMIZER, PREFILL, DECODE, GENERATE = range(len(PHASES))
HOW_KNOWN = (
    N_("guessed from names in the stacks of allocations"),
    N_("no Python frame: the autograd thread has none"),
    N_("guessed from the sizes of a forward pass that adds keys and values: a prompt's tensors are larger"),
    N_("guessed from the sizes of the passes under a function called generate: a prompt's tensors are larger"),
    N_("the program's own annotation"),
    N_("the program's own note on its allocations"),
)
"""How a phase is known, the least sure first."""
_BY_NAMES, _BY_NO_FRAME, _BY_SIZES, _BY_PROMPT, _BY_ANNOTATION, _BY_NOTE = range(len(HOW_KNOWN))

_ALLOC = ACTIONS.index("alloc")
_OF_CATEGORY: Mapping[Category, int] = {
    Category.WEIGHTS: LOAD,
    Category.GRADIENT: BACKWARD,
    Category.OPTIMIZER_STATE: OPTIMIZER,
    Category.KV_APPEND: GENERATE,
    **dict.fromkeys(FORWARD, FORWARD_PASS),
}
_CELLS = 200
"""Of the window: nothing shorter has a phase of its own but a pass over a prompt."""
_FEWEST_OF_A_PROMPT, _MOST_PROMPTS = 8, 50
"""Allocations of a pass over a prompt, and how many such passes, the longest, are told in a window."""
_PROMPTS_ARE_LARGER = 8
"""A pass over a prompt has activations this many times those of one token."""
_FEWEST_APPENDS = 4
_FAR_LONGER = 8

_WORDS = (
    (PREFILL, re.compile(r"(?<![a-z])(?:prefill|forward[ _]?extend)(?:ing)?(?![a-z])")),
    (DECODE, re.compile(r"(?<![a-z])(?:decode|decoding)(?![a-z])")),
    (BACKWARD, re.compile(r"(?<![a-z])(?:backward|bwd|backprop)(?![a-z])")),
    (FORWARD_PASS, re.compile(r"(?<![a-z])(?:forward|fwd)(?![a-z])")),
    (OPTIMIZER, re.compile(r"(?<![a-z])optim(?:izer|iser)?s?[ _.\-]*(?:step|update)?(?![a-z_.])")),
    (LOAD, re.compile(r"(?<![a-z])(?:load|init)(?:ing)?[ _\-]*(?:the[ _\-])?(?:model|weights|checkpoint)(?![a-z])")),
    (GENERATE, re.compile(r"(?<![a-z])generat(?:e|ion)(?![a-z])")),
)
_OF_SOMETHING_ELSE = re.compile(r"vae|latent|image|video|audio|jpe?g|token(?:iz|is)er|zero[ _]?grad|data[ _]?load")


@dataclass(frozen=True)
class Phase:
    """Events `begin` to, not including, `end` in which the program mostly did one thing."""

    name: str
    begin: int
    end: int
    how_known: str


@dataclass(frozen=True)
class Moments:
    """The allocations whose phase is known, by event."""

    events: IntColumn
    phase: IntColumn
    how: IntColumn
    """Index into HOW_KNOWN."""

    @cached_property
    def stretches(self) -> IntColumn:
        """The number of the stretch of one phase that each lies in, and NONE for what lies in none."""
        changed = np.cumsum(self.phase[1:] != self.phase[:-1])
        return np.concatenate([np.zeros(min(len(self.phase), 1), dtype=np.int64), changed, [NONE]])

    def stretch(self, events: IntColumn) -> IntColumn:
        """The stretch of the last of these up to each event, NONE where there is none."""
        found: IntColumn = self.stretches[np.searchsorted(self.events, events, side="right") - 1]
        return found

    def stretch_after(self, events: IntColumn) -> IntColumn:
        """The stretch of the first of these after each event, NONE where there is none."""
        found: IntColumn = self.stretches[np.searchsorted(self.events, events, side="right")]
        return found

    def phase_of_stretch(self, stretches: IntColumn) -> IntColumn:
        """The phase of each stretch, NONE for one that is not there."""
        first = np.flatnonzero(np.diff(self.stretches[:-1], prepend=-1))
        of_stretch = np.append(self.phase[first], NONE)
        found: IntColumn = of_stretch[np.where((stretches >= 0) & (stretches < len(first)), stretches, -1)]
        return found

    def joined(self) -> Moments:
        """All that runs a model forward as one phase; making it is left out, which also a pass does in its midst."""
        phase = np.where(np.isin(self.phase, (PREFILL, DECODE, GENERATE)), FORWARD_PASS, self.phase)
        kept = phase != LOAD
        return Moments(self.events[kept], phase[kept], self.how[kept])


def is_annotated(moments: Moments) -> NDArray[np.bool_]:
    """Which of them the program itself told the phase of."""
    found: NDArray[np.bool_] = moments.how >= _BY_ANNOTATION
    return found


def phase_of_name(name: str) -> int:
    """The phase that a name which the program gave speaks of; NONE where it speaks of none, or of several."""
    lowered = name.lower()
    if _OF_SOMETHING_ELSE.search(lowered):
        return NONE
    found = [phase for phase, pattern in _WORDS if pattern.search(lowered)]
    # `prefill forward` and `generate: decode` say which forward pass, which part of generating.
    if found and found[0] in (PREFILL, DECODE) and not {PREFILL, DECODE, BACKWARD} & set(found[1:]):
        return found[0]
    return found[0] if len(found) == 1 else NONE


def moments_of(kinds: LifetimeKinds) -> Moments:
    """The phase of each allocation for which something tells it."""
    snapshot = kinds.snapshot
    found: Moments | None = snapshot.derived.get(("moments", kinds.replay.device))
    if found is None:
        found = snapshot.derived["moments", kinds.replay.device] = _moments(kinds)
    return found


def _moments(kinds: LifetimeKinds) -> Moments:
    trace, readings = kinds.replay.events, kinds.readings
    rows = np.flatnonzero(trace.action == _ALLOC)
    of_kind = np.asarray([_phase_of_stack(reading) for reading in readings], dtype=np.int64)
    stack = trace.stack[rows]
    has_stack = stack >= 0
    phase = np.where(has_stack, of_kind[stack], NONE)
    how = np.full(len(rows), _BY_NAMES, dtype=np.int64)
    of_autograd = ~has_stack & (rows >= kinds.first_with_stack)
    phase[of_autograd], how[of_autograd] = BACKWARD, _BY_NO_FRAME
    if (phase == BACKWARD).any():
        # Where a model trains, attention names keys and values as well; with gradients off it does not.
        trains = np.asarray([not reading.gradients_off for reading in readings], dtype=np.bool_)
        phase[(phase == GENERATE) & has_stack & trains[stack]] = FORWARD_PASS
    if trace.timeline_us is not None:
        _annotate(_annotations(kinds), trace.timeline_us[rows], phase, how)
    if trace.note is not None:
        of_note = np.asarray([*map(phase_of_name, kinds.snapshot.notes), NONE], dtype=np.int64)
        noted = of_note[trace.note[rows]]
        phase, how = np.where(noted >= 0, noted, phase), np.where(noted >= 0, _BY_NOTE, how)
    known = phase >= 0
    rows, phase, how = rows[known], phase[known], how[known]
    _tell_passes(trace.size_bytes[rows], phase, how)
    generates = np.asarray([each.generates and each.gradients_off for each in readings], dtype=np.bool_)
    here = np.flatnonzero((phase == FORWARD_PASS) & (how == _BY_NAMES) & generates[trace.stack[rows]])
    phase[here] = GENERATE
    owners: dict[str, int] = {}
    line = np.asarray([owners.setdefault(each.owner, len(owners)) for each in readings], dtype=np.int64)
    _tell_prompts(trace.size_bytes[rows[here]], line[trace.stack[rows[here]]], here, phase, how)
    return Moments(rows, phase, how)


def _tell_passes(size: IntColumn, phase: IntColumn, how: IntColumn) -> None:
    """Where keys and values are appended: whether the passes around are over a prompt or over single tokens.

    From one append to the next is the work of a layer. A prompt's tensors are far larger than the usual ones.
    """
    chosen = np.flatnonzero((how == _BY_NAMES) & ((phase == FORWARD_PASS) | (phase == GENERATE)))
    appends = phase[chosen] == GENERATE
    if np.count_nonzero(appends) < _FEWEST_APPENDS:
        return
    broken = np.diff(chosen) > 1
    piece = np.concatenate([[0], np.cumsum(appends[:-1] | broken)])
    count, has_append = np.bincount(piece), np.bincount(piece, weights=appends) > 0
    largest = np.zeros(len(count), dtype=np.int64)
    np.maximum.at(largest, piece, np.where(appends, 0, size[chosen]))
    worked = has_append & (largest > 0)
    if not worked.any():
        return
    # A value's append follows its key's at once: no work between them is that before them.
    largest = largest[np.maximum.accumulate(np.where(largest > 0, np.arange(len(count)), 0))]
    follows = np.concatenate([[False], (appends[:-1] & ~broken)[np.flatnonzero(np.diff(piece))]])
    told = (count <= _FAR_LONGER * np.median(count[worked])) & (has_append | follows)
    of_prompt = largest >= _PROMPTS_ARE_LARGER * np.median(largest[worked])
    here = told[piece]
    phase[chosen[here]] = np.where(of_prompt, PREFILL, DECODE)[piece[here]]
    how[chosen[here]] = _BY_SIZES


def _tell_prompts(size: IntColumn, line: IntColumn, here: IntColumn, phase: IntColumn, how: IntColumn) -> None:
    """Of the allocations `here` under `generate`: one line allocates much for a prompt, then little for each token.

    What lies between two of such lines is of the pass that the former tells.
    """
    order = np.lexsort((size, line))
    lines, first, count = np.unique(line[order], return_index=True, return_counts=True)
    usual = size[order][first + count // 2]
    place = np.searchsorted(lines, line)
    of_prompt = size >= _PROMPTS_ARE_LARGER * usual[place]
    told = np.isin(place, place[of_prompt]) & (count[place] >= _FEWEST_APPENDS)
    latest = np.maximum.accumulate(np.where(told, np.arange(len(here)), -1))
    known = latest >= 0
    prefill = of_prompt[latest] & known
    # A layer allocates small things too (a seed, a mask), whatever the length.
    runs = np.flatnonzero(prefill)
    for before, after in pairwise(runs.tolist()):
        if 1 < after - before <= _FEWEST_OF_A_PROMPT:
            prefill[before:after] = True
    phase[here[known]] = np.where(prefill[known], PREFILL, DECODE)
    how[here[known]] = _BY_PROMPT


def _annotations(kinds: LifetimeKinds) -> list[Annotation]:
    """Those of the replayed device, an outer one before those in it."""
    device = kinds.replay.device
    own = [each for each in kinds.snapshot.annotations if each.device == device]
    return sorted(own, key=lambda each: (each.begin_us, -(each.end_us or 1 << 62)))


def _annotate(annotations: list[Annotation], time_us: IntColumn, phase: IntColumn, how: IntColumn) -> None:
    """Puts the phases that annotations speak of into `phase`: an inner one speaks louder than what it lies in."""
    for each in annotations:
        number = phase_of_name(each.name)
        if number >= 0:
            begin = int(np.searchsorted(time_us, each.begin_us, side="left"))
            end = len(time_us) if each.end_us is None else int(np.searchsorted(time_us, each.end_us, side="right"))
            phase[begin:end], how[begin:end] = number, _BY_ANNOTATION


def _phase_of_stack(reading: StackReading) -> int:
    if reading.named_phase:
        return PHASES.index(reading.named_phase)
    if reading.runs_again:
        return BACKWARD
    return _OF_CATEGORY.get(reading.category, NONE)


def phases(kinds: LifetimeKinds) -> tuple[Phase, ...]:
    """What the program mostly did; what lies between two alike is like them."""
    trace, moments = kinds.replay.events, moments_of(kinds)
    if not len(moments.events):
        return ()
    cells = np.linspace(0, len(trace), min(_CELLS, len(trace)) + 1).astype(np.int64)
    edges = np.unique(np.concatenate([cells, _edges_of_prompts(moments)]))
    cell = np.searchsorted(edges, moments.events, side="right") - 1
    tally = np.zeros((len(edges) - 1, len(PHASES)), dtype=np.int64)
    np.add.at(tally, (cell, moments.phase), 1)
    surest = np.zeros_like(tally)
    np.maximum.at(surest, (cell, moments.phase), moments.how)
    found: list[Phase] = []
    for place in np.flatnonzero(tally.any(axis=1)).tolist():
        number = int(tally[place].argmax())
        how = int(surest[place, number])
        begin, end = int(edges[place]), int(edges[place + 1])
        if found and found[-1].name == PHASES[number]:
            # The word on most of it counts.
            before = found[-1]
            known = before.how_known if before.end - before.begin >= end - begin else HOW_KNOWN[how]
            found[-1] = Phase(PHASES[number], before.begin, end, known)
        else:
            found.append(Phase(PHASES[number], begin, end, HOW_KNOWN[how]))
    return tuple(found)


def _edges_of_prompts(moments: Moments) -> IntColumn:
    """Where passes over prompts begin and end: one is a few dozen allocations among the thousands of its answer."""
    of_prompt = np.concatenate([[0], (moments.phase == PREFILL).astype(np.int64), [0]])
    change = np.diff(of_prompt)
    begin, end = np.flatnonzero(change == 1), np.flatnonzero(change == -1)
    longest = np.argsort(begin - end, kind="stable")[:_MOST_PROMPTS]
    told = longest[(end - begin)[longest] >= _FEWEST_OF_A_PROMPT]
    after = np.append(moments.events, moments.events[-1] + 1)
    return np.concatenate([moments.events[begin[told]], after[end[told]]])
