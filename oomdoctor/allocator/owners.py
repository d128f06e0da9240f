"""Who held a device's memory, at the end or at any recorded event: live bytes by owner and by category."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..language import N_
from ..model.snapshot import IntColumn, Snapshot
from ..model.source import KnownBy
from .kinds import LifetimeKinds
from .purposes import BY_STACK, CATEGORIES, HOW_KNOWN, NO_PARAMETER, Purposes, purposes_of
from .replay import replay
from .stacks import FORWARD, Category

_FROM_NAMES = N_("recorded stack; what it is for is guessed from names in it")
_NAMES_DO_NOT_TELL = N_("recorded stack; no name in it tells what it is for")
_FROM_AUTOGRAD = N_("allocated while stacks were recorded, yet without one: the autograd thread has no Python frames")
_WITHOUT_STACK = N_("the allocator's snapshot; no stack was recorded")


WORKSPACE = N_("workspaces of cuBLAS")
GRAPH_POOLS = N_("live in graph pools")
WAITING = N_("freed, waiting for another stream")
WITHOUT_STACK = N_("live tensors whose stack was not recorded")
OF_NO_KIND = N_("live tensors of no known kind")
CATEGORY_PARTS: Mapping[Category, str] = {
    Category.WEIGHTS: N_("weights and buffers"),
    Category.GRADIENT: "gradients",
    Category.OPTIMIZER_STATE: N_("optimizer state"),
    Category.ACTIVATION: "activations",
    Category.ATTENTION_SCORES: "activations",
    Category.LOGITS: "logits",
    Category.KV_APPEND: N_("keys and values"),
    Category.COMMUNICATION: N_("communication buffers"),
    Category.COPY: N_("copies to the device"),
    Category.SAVED: N_("activations saved for backward"),
    Category.TEMPORARY: N_("temporary tensors of forward passes"),
    Category.OF_BACKWARD: N_("temporary tensors of backward passes"),
    Category.OF_OPTIMIZER: N_("temporaries of the optimizer"),
    Category.OTHER: OF_NO_KIND,
    Category.UNKNOWN: WITHOUT_STACK,
}
"""The part of a budget that each category is."""
CUBLAS_WORKSPACE_BYTES = 8_519_680
"""What torch allocates for cuBLAS, once a stream (`:4096:2:16:8`, its own setting but for Hopper): 4096 KiB twice and
16 KiB eight times. Nobody else asks for such a size."""
BY_SIZE = N_("by its size, which only torch's workspace for cuBLAS has")
_ORDINARY, _WORKSPACE, _GRAPH_POOL, _PENDING, _USES = range(5)


@dataclass(frozen=True)
class Share:
    """What one owner holds in one part of a budget."""

    owner: str
    part: str
    category: Category | None
    """None: not by what allocated it."""
    bytes: int
    count: int
    """Blocks."""
    known_by: KnownBy
    how_known: str
    part_by_stack: str
    """The part by what allocated it alone, which another recording tells alike, however long it is."""


@dataclass(frozen=True)
class Owner:
    """A line of code (or what stands in its place) and the live bytes allocated under it."""

    name: str
    category: Category
    """That of most of its bytes."""
    bytes: int
    count: int
    """Live blocks."""
    how_known: str


def ownership_of(snapshot: Snapshot, device: int) -> Ownership:
    """The owners of `device`, worked out once for each snapshot."""
    found: Ownership | None = snapshot.derived.get(("ownership", device))
    if found is None:
        found = snapshot.derived["ownership", device] = Ownership(snapshot, replay(snapshot, device))
    return found


@dataclass(frozen=True)
class Ownership(LifetimeKinds):
    """What each allocation of one device is for, and who holds what of it."""

    @cached_property
    def purposes(self) -> Purposes:
        """The category of each lifetime, by its stack and by what became of it."""
        return purposes_of(self)

    def categories(self, cache_owners: frozenset[str] = frozenset()) -> IntColumn:
        """The category of each lifetime as an index into CATEGORIES; `cache_owners` as in `shares`."""
        if not cache_owners:
            return self.purposes.category
        of_cache = [self._is_cache(kind, cache_owners) for kind in range(len(self.readings))]
        keys_values = CATEGORIES.index(Category.KV_APPEND)
        return np.where(np.asarray(of_cache, dtype=np.bool_)[self.kind], keys_values, self.purposes.category)

    def live_by_kind(self, event: int) -> tuple[IntColumn, IntColumn]:
        """Bytes and blocks live after `event`, for each kind."""
        kinds, live = len(self.readings), self.replay.lifetimes.live_after(event)
        size = np.zeros(kinds, dtype=np.int64)
        np.add.at(size, self.kind[live], self.replay.lifetimes.size_bytes[live])
        return size, np.bincount(self.kind[live], minlength=kinds)

    def shares(self, event: int, cache_owners: frozenset[str] = frozenset()) -> tuple[Share, ...]:
        """What was live after `event` by owner and category, most bytes first; each byte is in one share.

        What `cache_owners` hold of forward passes, or of no category, counts as keys and values. Only blocks of the
        final state tell their pool and what was asked for them; a size is told by the allocation as well.
        """
        lifetimes, blocks = self.replay.lifetimes, self.snapshot.blocks
        rows = np.flatnonzero(lifetimes.live_after(event))
        kind, size, block = self.kind[rows], lifetimes.size_bytes[rows], lifetimes.block[rows]
        use = np.full(len(rows), _ORDINARY, dtype=np.int64)
        use[lifetimes.asked_bytes[rows] == CUBLAS_WORKSPACE_BYTES] = _WORKSPACE
        there = block >= 0
        private = self.snapshot.segments.private_pool[blocks.segment[block[there]]]
        use[np.flatnonzero(there)[private]] = _GRAPH_POOL
        use[self.replay.pending_after(event)[rows]] = _PENDING
        # All in one number: the kind, then what the block tells, then what its lifetime tells.
        purpose = self.purposes.category[rows] * len(HOW_KNOWN) + self.purposes.how[rows]
        told = len(CATEGORIES) * len(HOW_KNOWN)
        keys, group = np.unique((kind * _USES + use) * told + purpose, return_inverse=True)
        held, count = np.zeros(len(keys), dtype=np.int64), np.bincount(group, minlength=len(keys))
        np.add.at(held, group, size)
        found: dict[tuple[str, str, str, str], Share] = {}
        for key, bytes_, number in zip(keys.tolist(), held.tolist(), count.tolist(), strict=True):
            of_block, purpose = divmod(key, told)
            share = self._share(of_block // _USES, of_block % _USES, purpose, cache_owners, bytes_, number)
            same = (share.owner, share.part, share.how_known, share.part_by_stack)
            if same in found:
                share = replace(share, bytes=found[same].bytes + bytes_, count=found[same].count + number)
            found[same] = share
        return tuple(sorted(found.values(), key=lambda share: (-share.bytes, share.owner, share.part)))

    def _share(self, kind: int, use: int, purpose: int, cache_owners: frozenset[str], size: int, count: int) -> Share:
        reading = self.readings[kind]
        if use == _WORKSPACE:
            return Share(N_("workspace of cuBLAS"), WORKSPACE, None, size, count, KnownBy.ALLOCATOR, BY_SIZE, WORKSPACE)
        if use == _GRAPH_POOL:
            how = N_("in a private pool")
            return Share(reading.owner, GRAPH_POOLS, None, size, count, KnownBy.ALLOCATOR, how, GRAPH_POOLS)
        if use == _PENDING:
            how = N_("by the state of the block")
            return Share(reading.owner, WAITING, None, size, count, KnownBy.ALLOCATOR, how, WAITING)
        place, told = divmod(purpose, len(HOW_KNOWN))
        category = CATEGORIES[place]
        by_stack = CATEGORY_PARTS[category if told == NO_PARAMETER else reading.category]
        if self._is_cache(kind, cache_owners):
            category, told = Category.KV_APPEND, BY_STACK
            by_stack = CATEGORY_PARTS[category]
        known = category not in (Category.UNKNOWN, Category.OTHER)
        known_by = KnownBy.STACKS if known else KnownBy.NOT_KNOWN
        how = _NAMES_DO_NOT_TELL if category is Category.OTHER else HOW_KNOWN[told] or self._how_known([kind])
        return Share(reading.owner, CATEGORY_PARTS[category], category, size, count, known_by, how, by_stack)

    def _is_cache(self, kind: int, cache_owners: frozenset[str]) -> bool:
        reading = self.readings[kind]
        return reading.owner in cache_owners and (reading.category in FORWARD or reading.category is Category.OTHER)

    def owners(self, event: int) -> tuple[Owner, ...]:
        """Who held what after `event`, most bytes first; the bytes add up to what was live."""
        size, count = self.live_by_kind(event)
        held: dict[str, list[int]] = {}
        for kind in np.flatnonzero(count).tolist():
            held.setdefault(self.readings[kind].owner, []).append(kind)
        owners = [
            Owner(
                name=name,
                category=self.readings[max(kinds, key=lambda kind: int(size[kind]))].category,
                bytes=sum(int(size[kind]) for kind in kinds),
                count=sum(int(count[kind]) for kind in kinds),
                how_known=self._how_known(kinds),
            )
            for name, kinds in held.items()
        ]
        return tuple(sorted(owners, key=lambda owner: (-owner.bytes, owner.name)))

    def by_category(self, event: int, cache_owners: frozenset[str] = frozenset()) -> Mapping[Category, int]:
        """Bytes in use after `event`, for each category that holds any.

        Left out is what no stack tells: blocks that are freed and wait, graph pools, workspaces of cuBLAS.
        """
        held: dict[Category, int] = {}
        for share in self.shares(event, cache_owners):
            if share.category is not None:
                held[share.category] = held.get(share.category, 0) + share.bytes
        return held

    def constructed_bytes(self, event: int) -> int:
        """Bytes live after `event` that count as weights only because a constructor of the program made them."""
        size, _ = self.live_by_kind(event)
        return sum(
            int(size[kind])
            for kind, reading in enumerate(self.readings)
            if reading.constructed and reading.category is Category.WEIGHTS
        )

    def _how_known(self, kinds: list[int]) -> str:
        stacks = len(self.snapshot.stacks)
        if min(kinds) < stacks:
            return _FROM_NAMES
        return _FROM_AUTOGRAD if self.readings[kinds[0]].category is Category.GRADIENT else _WITHOUT_STACK
