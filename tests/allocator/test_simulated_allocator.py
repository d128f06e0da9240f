"""The model of the allocator, on sequences worked out by hand from the rules of CUDACachingAllocator.cpp."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomdoctor.allocator.simulation.allocator import CachingAllocator
from oomdoctor.allocator.simulation.blocks import Block
from oomdoctor.allocator.simulation.device import Device
from oomdoctor.allocator.simulation.settings import AllocatorSettings

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
BASE = 1 << 60
PLAIN = AllocatorSettings()
EXPANDABLE = AllocatorSettings(expandable_segments=True)
GRAPH = 1 << 32


class Upward(Device):
    """Gives addresses from BASE on, so that a test can name them."""

    used = 0

    def place(self, size_bytes: int) -> int:
        if self.hint is None:
            self.hint, self.used = BASE + self.used, self.used + size_bytes
        return super().place(size_bytes)


def allocator(free: int, how: AllocatorSettings = PLAIN, allowed: int | None = None, **more: bool) -> CachingAllocator:
    return CachingAllocator(Upward(free, free, allowed), how, **more)


def taken(found: Block | None) -> Block:
    assert found is not None
    return found


def give_back(model: CachingAllocator, block: Block) -> None:
    model.free(block)
    model.complete(block)


def cached(model: CachingAllocator, *, small: bool = False) -> list[tuple[int, int]]:
    return [(block.address - BASE, block.size) for block in model.pool(0, small=small)]


def segments(model: CachingAllocator) -> list[int]:
    return [area.size_bytes for area in model.areas()]


def test_small_requests_share_segments_of_2_mib_and_large_ones_of_20_mib() -> None:
    model = allocator(GIB)
    assert taken(model.malloc(1, 0)).size == 512
    assert taken(model.malloc(513, 0)).address == BASE + 512
    assert cached(model, small=True) == [(1536, 2 * MIB - 1536)]
    assert taken(model.malloc(3 * MIB, 0)).size == 3 * MIB
    assert cached(model) == [(5 * MIB, 17 * MIB)]
    assert segments(model) == [2 * MIB, 20 * MIB]
    assert model.device.free_bytes == GIB - 22 * MIB


def test_a_rest_of_one_mib_stays_in_a_large_block() -> None:
    model = allocator(GIB)
    assert (
        taken(model.malloc(19 * MIB, 0)).size == 20 * MIB
    )  # its own segment, rounded to 2 MiB; the rest is not above 1
    assert taken(model.malloc(20 * MIB + 512, 0)).size == 20 * MIB + 512  # 22 MiB; here it is
    assert segments(model) == [20 * MIB, 22 * MIB]


def test_the_smallest_that_fits_is_taken_and_of_equals_the_lowest_or_the_oldest() -> None:
    for oldest_first, expected in ((False, 0), (True, 1)):
        model = allocator(GIB, oldest_first=oldest_first)
        model.device.hint = BASE + 512 * MIB
        first = taken(model.malloc(40 * MIB, 0))
        second = taken(model.malloc(40 * MIB, 0))  # made later, at the lower address
        third = taken(model.malloc(44 * MIB, 0))
        for block in (first, second, third):
            give_back(model, block)
        assert taken(model.malloc(40 * MIB, 0)) is (second, first)[expected]
        assert taken(model.malloc(41 * MIB, 0)) is third


def test_freed_neighbours_join_and_streams_and_pools_are_apart() -> None:
    model = allocator(GIB)
    blocks = [taken(model.malloc(5 * MIB, 7)) for _ in range(3)]
    assert cached(model) == [(15 * MIB, 5 * MIB)]
    give_back(model, blocks[0])
    give_back(model, blocks[2])
    assert cached(model) == [(0, 5 * MIB), (10 * MIB, 10 * MIB)]
    give_back(model, blocks[1])
    assert cached(model) == [(0, 20 * MIB)]
    assert taken(model.malloc(5 * MIB, 8)).address != BASE
    assert taken(model.malloc(5 * MIB, 7, GRAPH)).address != BASE
    assert taken(model.malloc(5 * MIB, 7)).address == BASE


def test_a_waiting_block_serves_nobody_and_is_waited_for_when_memory_runs_out() -> None:
    model = allocator(64 * MIB)
    block = taken(model.malloc(40 * MIB, 0))
    model.free(block)
    assert taken(model.malloc(20 * MIB, 0)).address == BASE + 40 * MIB
    assert model.active_bytes == 60 * MIB
    assert taken(model.malloc(40 * MIB, 0)).address == BASE + 60 * MIB  # given back, then taken anew
    assert segments(model) == [20 * MIB, 40 * MIB]
    model.complete(block)  # the late word that it stopped waiting
    assert model.active_bytes == 60 * MIB


def test_only_whole_idle_segments_are_given_back_on_failure() -> None:
    model = allocator(100 * MIB)
    first, second = taken(model.malloc(30 * MIB, 0)), taken(model.malloc(30 * MIB, 0))
    give_back(model, first)
    pinned = taken(model.malloc(12 * MIB, 0))  # out of the first, of which 18 MiB stay idle
    give_back(model, second)
    assert model.malloc(72 * MIB, 0) is None
    assert segments(model) == [30 * MIB]
    assert cached(model) == [(12 * MIB, 18 * MIB)]
    give_back(model, pinned)
    assert taken(model.malloc(100 * MIB, 0)).size == 100 * MIB


def test_while_a_graph_is_captured_nothing_is_given_back() -> None:
    model = allocator(64 * MIB)
    give_back(model, taken(model.malloc(40 * MIB, 0)))
    assert model.malloc(40 * MIB, 0, GRAPH) is None
    assert segments(model) == [40 * MIB]
    assert model.malloc(42 * MIB, 0) is not None


def test_what_is_above_max_split_size_is_kept_whole_for_large_requests() -> None:
    model = allocator(300 * MIB, replace(PLAIN, max_split_bytes=100 * MIB))
    large = taken(model.malloc(200 * MIB, 0))
    give_back(model, large)
    assert taken(model.malloc(50 * MIB, 0)).address != large.address  # below it: not out of the oversize block
    # at least as large: not from a block that is larger by 20 MiB or more, which is given back on failure
    assert taken(model.malloc(180 * MIB, 0)).address != large.address
    assert segments(model) == [50 * MIB, 180 * MIB]
    give_back(model, model_block := taken(model.malloc(60 * MIB, 0)))
    assert taken(model.malloc(60 * MIB, 0)) is model_block


def test_an_oversize_block_serves_a_slightly_smaller_request_whole() -> None:
    model = allocator(GIB, replace(PLAIN, max_split_bytes=100 * MIB))
    large = taken(model.malloc(200 * MIB, 0))
    give_back(model, large)
    served = taken(model.malloc(181 * MIB, 0))
    assert (served.address, served.size) == (large.address, 200 * MIB)


def test_just_enough_oversize_blocks_are_given_back_the_largest_first() -> None:
    model = allocator(480 * MIB, replace(PLAIN, max_split_bytes=100 * MIB))
    blocks = [taken(model.malloc(size * MIB, 0)) for size in (110, 120, 130)]
    small = taken(model.malloc(90 * MIB, 0))
    for block in (*blocks, small):
        give_back(model, block)
    assert taken(model.malloc(250 * MIB, 0)).size == 250 * MIB  # 120 and 130 went, 110 and the one of 90 stayed
    assert sorted(segments(model)) == [90 * MIB, 110 * MIB, 250 * MIB]


def test_expandable_segments_grow_by_pages_in_place() -> None:
    model = allocator(200 * MIB, EXPANDABLE)
    assert taken(model.malloc(3 * MIB, 0)).address == BASE
    assert cached(model) == [(3 * MIB, 17 * MIB)]
    assert taken(model.malloc(30 * MIB, 0)).address == BASE + 3 * MIB  # 17 idle and 13 new: one page of 20
    assert segments(model) == [40 * MIB]
    assert taken(model.malloc(512, 0)).size == 512
    assert segments(model) == [40 * MIB, 2 * MIB]
    assert model.device.free_bytes == 158 * MIB


def test_pages_that_hold_nothing_are_unmapped_and_their_addresses_used_again() -> None:
    model = allocator(100 * MIB, EXPANDABLE)
    first, second, third = (taken(model.malloc(size * MIB, 0)) for size in (50, 15, 35))
    give_back(model, first)
    assert taken(model.malloc(10 * MIB, 1)).address > third.address  # another stream: the two pages below 40 MiB went
    assert segments(model) == [60 * MIB, 20 * MIB]
    assert cached(model)[:1] == [(40 * MIB, 10 * MIB)]
    assert model.device.free_bytes == 20 * MIB
    assert taken(model.malloc(12 * MIB, 0)).address == BASE
    assert second.address == BASE + 50 * MIB


def test_a_memory_fraction_bounds_what_is_reserved() -> None:
    model = allocator(GIB, allowed=100 * MIB)
    held = taken(model.malloc(60 * MIB, 0))
    assert model.malloc(42 * MIB, 0) is None
    give_back(model, held)
    assert taken(model.malloc(100 * MIB, 0)).size == 100 * MIB
    assert model.reserved_bytes == 100 * MIB


def test_garbage_is_collected_above_the_threshold_only_with_a_memory_fraction() -> None:
    how = replace(PLAIN, garbage_collection_threshold=0.5)
    for allowed, left in ((None, [40 * MIB, 42 * MIB, 44 * MIB]), (120 * MIB, [42 * MIB, 44 * MIB])):
        model = allocator(GIB, how, allowed)
        first, second = taken(model.malloc(40 * MIB, 0)), taken(model.malloc(42 * MIB, 0))
        give_back(model, first)
        give_back(model, second)
        taken(model.malloc(42 * MIB, 0))
        taken(model.malloc(44 * MIB, 0))
        assert sorted(segments(model)) == left


steps = st.lists(
    st.tuples(
        st.sampled_from(["malloc", "malloc", "malloc", "free", "wait", "complete", "release"]),
        st.integers(0, 10_000),
        st.sampled_from([1, 700, 300 * KIB, MIB, MIB + 1, 5 * MIB, 9 * MIB, 12 * MIB, 33 * MIB, 64 * MIB]),
    ),
    max_size=80,
)
how = st.builds(
    AllocatorSettings,
    expandable_segments=st.booleans(),
    max_split_bytes=st.sampled_from([None, 20 * MIB, 32 * MIB]),
    roundup_power2_divisions=st.sampled_from([(0,) * 16, (4,) * 16]),
    garbage_collection_threshold=st.sampled_from([0.0, 0.6]),
)


@given(program=steps, how=how, allowed=st.sampled_from([None, 150 * MIB]), oldest_first=st.booleans())
@settings(max_examples=100)
def test_bytes_are_conserved_and_nothing_overlaps(
    program: list[tuple[str, int, int]], how: AllocatorSettings, allowed: int | None, oldest_first: bool
) -> None:
    model = allocator(200 * MIB, how, allowed, oldest_first=oldest_first)
    live: dict[int, Block] = {}
    waiting: dict[int, Block] = {}
    number = 0
    for what, choice, size in program:
        if what == "malloc":
            block = model.malloc(size, choice % 2, GRAPH if choice % 7 == 0 else 0)
            if block is not None:
                number += 1
                block.owner, live[number] = number, block
                assert block.size >= size
        elif what in ("free", "wait") and live:
            key = list(live)[choice % len(live)]
            model.free(live[key])
            waiting[key] = live.pop(key)
            if what == "free":
                model.complete(waiting.pop(key))
        elif what == "complete" and waiting:
            key = list(waiting)[choice % len(waiting)]
            block = waiting.pop(key)
            if block.owner == key:
                model.complete(block)
        elif what == "release":
            model.release_cached()
        _check(model, [*live.values(), *(b for k, b in waiting.items() if b.owner == k and not b.is_free)], allowed)


def _check(model: CachingAllocator, in_use: list[Block], allowed: int | None) -> None:
    areas = model.areas()
    assert sum(area.size_bytes for area in areas) == model.reserved_bytes
    assert model.reserved_bytes + model.device.free_bytes == 200 * MIB
    assert allowed is None or model.reserved_bytes <= allowed + 20 * MIB  # a page may be larger than what was asked for
    assert model.active_bytes == sum(block.size for block in in_use) <= model.reserved_bytes
    pools = [model.pool(pool, small=small) for pool in (0, GRAPH) for small in (False, True)]
    pieces = sorted((b.address, b.size) for b in [*in_use, *(block for pool in pools for block in pool)])
    assert sum(size for _, size in pieces) == model.reserved_bytes
    for (address, size), (following, _) in pairwise(pieces):
        assert address + size <= following
    for address, size in pieces:
        assert any(area.address <= address and address + size <= area.end for area in areas)


def test_requests_are_rounded_up_to_divisions_of_powers_of_two() -> None:
    from oomdoctor.allocator.simulation.rounding import block_size, segment_size

    four = replace(PLAIN, roundup_power2_divisions=(4,) * 16)
    assert block_size(1, PLAIN) == 512
    assert block_size(1000, PLAIN) == 1024
    assert block_size(2048, four) == 2048
    assert block_size(2049, four) == 2560  # between 2048 and 4096: 2560, 3072, 3584
    assert block_size(5 * MIB, four) == 5 * MIB
    assert block_size(5 * MIB + 1, four) == 6 * MIB
    assert block_size(1200, four) == 1536  # below 512 × 4 the divisions do not count
    only_large = replace(PLAIN, roundup_power2_divisions=(0, 0, 2, *(0,) * 13))
    assert block_size(5 * MIB, only_large) == 6 * MIB
    assert block_size(9 * MIB + 1, only_large) == 9 * MIB + 512
    assert segment_size(MIB, PLAIN) == 2 * MIB
    assert segment_size(MIB + 512, PLAIN) == 20 * MIB
    assert segment_size(10 * MIB, PLAIN) == 10 * MIB
    assert segment_size(11 * MIB, PLAIN) == 12 * MIB
    assert segment_size(3 * MIB, replace(PLAIN, large_segment_bytes=40 * MIB)) == 40 * MIB


@pytest.mark.parametrize("pool", [0, 3])
def test_a_pool_of_the_users_gives_back_as_the_default_one_does(pool: int) -> None:
    model = allocator(64 * MIB)
    give_back(model, taken(model.malloc(40 * MIB, 0)))
    assert model.malloc(60 * MIB, 0, pool) is not None
