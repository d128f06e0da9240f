"""growth.* and spike.*: whether memory rose step after step, or one step stood out, by a snapshot's history."""

from __future__ import annotations

import numpy as np

from ..allocator.growth import Growth, Steps, find_steps, growth
from ..allocator.owners import Ownership
from ..allocator.replay import BEFORE_RING, Replay
from ..allocator.spike import find_spike, stands_out
from ..allocator.stacks import is_torch, python_frames
from ..language import N_
from ..model.facts import FactSet
from ..model.snapshot import ACTIONS, Frame, SnapshotOom
from ..model.source import Source
from .steadiness import rate

_ALLOC = ACTIONS.index("alloc")
_CACHE_OWNERS = "cache owners"
"""What of a snapshot's growth no fact holds: the lines that append keys and values."""
_REMAINS = 0.5
_FEWEST_EARLIER = 3
_LINES = 2


def put_growth(ownership: Ownership, oom: SnapshotOom | None, member: str, facts: FactSet) -> Growth | None:
    """Put the facts of one device; returns the growth that was found, None where the history shows too few steps.

    Where the whole history is known and no step repeats, nothing can have grown from step to step.
    """
    allocator = ownership.replay
    if not allocator.has_history:
        return None
    until = oom.event_index if oom is not None else _last_word(allocator)
    source = Source(
        path=ownership.snapshot.path,
        record=N_("{events} events of device {device}").format(events=until + 1, device=allocator.device),
    )
    steps = find_steps(ownership, until)
    if steps is None:
        if allocator.starts_empty and ownership.has_all_stacks:
            facts.put("growth.steady", False, source, member)
        return None
    found = growth(ownership, steps)
    if found is not None:
        _put(found, source, member, facts)
        if found.steady:
            ownership.snapshot.derived[_CACHE_OWNERS, allocator.device] = found.kv_owners
    if oom is not None:
        _put_spike(ownership, steps, oom, found, source, member, facts)
    return found


def cache_owners(ownership: Ownership) -> frozenset[str]:
    """The lines that append keys and values, where that shows in how they grew; known once `put_growth` has looked."""
    found: frozenset[str] = ownership.snapshot.derived.get((_CACHE_OWNERS, ownership.replay.device), frozenset())
    return found


def _last_word(allocator: Replay) -> int:
    """Where growth is judged without an oom event: the end, or the peak when most of it was given back since.

    A snapshot that was written after an exception unwound the program shows the peak's remains only.
    """
    end = len(allocator.events) - 1
    peak = allocator.peak_event
    given_back = allocator.live_at(end) < _REMAINS * allocator.peak_bytes
    return peak if given_back and peak != BEFORE_RING else end


def _put(found: Growth, source: Source, member: str, facts: FactSet) -> None:
    facts.put("growth.fills", found.fills, source, member)
    if found.fills:
        # A store that is filled and one that leaks look alike where nothing else was done: it stays unknown which.
        facts.put("growth.filled_bytes", found.gained_bytes, source, member)
        facts.put("growth.filled_at", found.top_owner, source, member)
        return
    facts.put("growth.steady", found.steady, source, member)
    if not found.steady:
        return
    facts.put("growth.bytes", found.gained_bytes, source, member)
    facts.put("growth.seconds", found.seconds or None, source, member)
    facts.put("growth.bytes_per_second", rate(found.gained_bytes, found.seconds), source, member)
    facts.put("growth.top_retains_graph", found.retains_graph, source, member)
    facts.put("growth.unfinished_bytes", found.unfinished_bytes or None, source, member)
    if found.top_owner is not None:
        facts.put("growth.top_stack", found.top_owner, source, member)
        facts.put("growth.top_stack_bytes", found.top_gained_bytes, source, member)
        facts.put("growth.top_stack_live_bytes", found.top_live_bytes, source, member)
        facts.put("growth.top_stack_count", found.top_count, source, member)
        facts.put("growth.top_is_kv", found.top_is_kv, source, member)


def _put_spike(
    ownership: Ownership,
    steps: Steps,
    oom: SnapshotOom,
    found: Growth | None,
    source: Source,
    member: str,
    facts: FactSet,
) -> None:
    """Compare the failing step, with the request it did not get, to the steps before it.

    What all steps share (weights, state) is taken off before ratios are formed. The failing step's need is a lower
    bound: it ended at the request.
    """
    begin = int(steps.first_event[_begin_of_the_last_turn(steps)])
    chosen = ownership.replay.events.action[begin : oom.event_index] == _ALLOC
    largest = int(ownership.replay.events.size_bytes[begin : oom.event_index][chosen].max(initial=0))
    facts.put("spike.largest_request_bytes", max(oom.requested_bytes, largest), source, member)
    earlier = steps.heights_before_the_last
    if len(earlier) < _FEWEST_EARLIER:
        return
    need = max(int(steps.peak_bytes[-1]), ownership.replay.live_at(oom.event_index) + oom.requested_bytes)
    above = max(0, need - int(np.median(earlier)))
    facts.put("spike.bytes", above, source, member)
    if _is_new_work(ownership, oom, begin):
        facts.put("spike.new_work_bytes", above, source, member)
    facts.put("spike.larger_bytes", _larger_bytes(ownership, oom, begin), source, member)
    if found is not None and found.rose:
        facts.put("spike.sudden", False, source, member)
        return
    shared = int(steps.live_bytes.sum(axis=0)[1:].min())
    facts.put("spike.sudden", stands_out(need - shared, earlier - shared), source, member)


def put_spike_of_curve(ownership: Ownership, oom: SnapshotOom, member: str, facts: FactSet) -> None:
    """What the curve alone tells, where the steps could not be told by their stacks."""
    allocator = ownership.replay
    found = find_spike(allocator.live_bytes[: oom.event_index + 1], oom.requested_bytes)
    if found is not None and facts.value("spike.sudden", member) is None:
        source = Source(
            path=ownership.snapshot.path,
            record=N_("live bytes of device {device} over its events").format(device=allocator.device),
        )
        facts.put("spike.bytes", found.bytes, source, member)
        facts.put("spike.sudden", found.sudden, source, member)
        if _is_new_work(ownership, oom, found.begin):
            facts.put("spike.new_work_bytes", found.bytes, source, member)


def _begin_of_the_last_turn(steps: Steps) -> int:
    """The step with which the failing turn began: of turns that are several steps each, the last that began low."""
    if not steps.of_one_line:
        return -1
    live = steps.live_bytes.sum(axis=0)
    low, high = int(live[1:].min(initial=int(live[0]))), int(steps.peak_bytes[-1])
    return int(np.flatnonzero(2 * live <= low + high).max(initial=0))


def _is_new_work(ownership: Ownership, oom: SnapshotOom, begin: int) -> bool:
    """Whether most of what rose from event `begin` on, what was still live at the failure and its request, came from
    lines that had not allocated before: a larger input makes the same lines ask for more, whoever calls them. False
    where stacks do not tell.
    """
    events, lifetimes = ownership.replay.events, ownership.replay.lifetimes
    before = events.stack[:begin][events.action[:begin] == _ALLOC]
    rows = (lifetimes.start >= begin) & lifetimes.live_after(oom.event_index)
    stack = np.append(lifetimes.stack[rows], oom.stack)
    size = np.append(lifetimes.size_bytes[rows], oom.requested_bytes)
    told = stack >= 0
    if oom.stack < 0 or 2 * int(size[told].sum()) <= int(size.sum()):
        return False
    seen = np.bincount(before[before >= 0], minlength=len(ownership.snapshot.stacks)) > 0
    if seen[stack[told]].all():
        return False
    lines: dict[tuple[Frame, ...], int] = {}
    line = np.asarray(
        [lines.setdefault(_line(stack), len(lines)) for stack in ownership.snapshot.stacks], dtype=np.int64
    )
    is_new = ~np.isin(line[stack[told]], line[seen])
    return 2 * int(size[told][is_new].sum()) > int(size[told].sum())


def _larger_bytes(ownership: Ownership, oom: SnapshotOom, begin: int) -> int | None:
    """Bytes, of what came since event `begin` and was live at the failure and of its request, in blocks larger than
    any that their stack had asked for before: what a larger input makes, and what more work, or what is kept, does not.
    None where no stack of them had allocated before.
    """
    events, lifetimes = ownership.replay.events, ownership.replay.lifetimes
    before = np.flatnonzero((events.action[:begin] == _ALLOC) & (events.stack[:begin] >= 0))
    most = np.zeros(len(ownership.snapshot.stacks), dtype=np.int64)
    np.maximum.at(most, events.stack[before], events.size_bytes[before])
    rows = (lifetimes.start >= begin) & lifetimes.live_after(oom.event_index)
    stack = np.append(lifetimes.stack[rows], oom.stack)
    size = np.append(lifetimes.asked_bytes[rows], oom.requested_bytes)
    stack, size = stack[stack >= 0], size[stack >= 0]
    known = most[stack] > 0
    if not known.any():
        return None
    # Of blocks that still live the size is told rounded: by 512 bytes, and by no more than an eighth.
    larger = known & (size > 9 * most[stack] // 8 + 512)
    return int(size[larger].sum())


def _line(stack: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """The innermost line outside torch, and the one that calls it: a helper that allocates serves many."""
    return tuple(frame for frame in python_frames(stack) if not is_torch(frame))[:_LINES]
