"""Recorded programs through the model: what stood at the beginning, whether the run is reproduced, what if."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snapshots.make import Device as MadeDevice
from snapshots.make import frame, write
from snapshots.make import snapshot as made_snapshot
from snapshots.recorder import Recorder

from oomdoctor.allocator.simulation import whatif
from oomdoctor.allocator.simulation.memory_map import memory_map
from oomdoctor.allocator.simulation.order import order_of
from oomdoctor.allocator.simulation.settings import AllocatorSettings
from oomdoctor.allocator.simulation.whatif import CannotSimulate, Card, Simulation, Verdict
from oomdoctor.model.snapshot import Snapshot
from oomdoctor.readers.snapshot import read_snapshot

MIB, GIB = 1 << 20, 1 << 30
PLAIN = AllocatorSettings()
EXPANDABLE = AllocatorSettings(expandable_segments=True)


def read(content: dict[str, Any], folder: Path) -> Snapshot:
    return read_snapshot(write(folder / "s.pickle", content))


def simulation(content: dict[str, Any], folder: Path, card: Card | None = None) -> Simulation:
    snapshot = read(content, folder)
    return Simulation(snapshot, snapshot.ooms[-1], card or Card())


def in_pieces(how: AllocatorSettings = PLAIN, others: int = 0) -> Recorder:
    """1,000 MiB cut into ten tensors of 100 MiB, of which every other ends; 300 MiB then find no room in 1,100 MiB."""
    recorder = Recorder(1100 * MIB - others, how)
    whole = recorder.malloc(1000 * MIB)
    assert whole is not None
    recorder.free(whole)
    tensors = [recorder.malloc(100 * MIB) for _ in range(10)]
    for tensor in tensors[::2]:
        assert tensor is not None
        recorder.free(tensor)
    assert recorder.malloc(300 * MIB) is None
    return recorder


def test_the_request_in_pieces_is_served_with_expandable_segments(tmp_path: Path) -> None:
    found = simulation(in_pieces().snapshot(), tmp_path)
    assert found.trust.exact
    assert found.trust.requests == 11
    assert found.recording.begins_empty
    answer = found.ask(replace(found.settings, expandable_segments=True))
    # Of five holes of 100 MiB each gives back four or five pages of 20; 500 MiB are live, 300 come.
    assert answer.verdict is Verdict.SERVED
    assert answer.spare_bytes == 300 * MIB


def test_a_request_larger_than_all_that_is_idle_fails_under_every_setting(tmp_path: Path) -> None:
    recorder = Recorder(1000 * MIB)
    for _ in range(9):
        recorder.malloc(100 * MIB)
    assert recorder.malloc(300 * MIB) is None
    found = simulation(recorder.snapshot(), tmp_path)
    for how in (replace(PLAIN, expandable_segments=True), replace(PLAIN, max_split_bytes=128 * MIB)):
        answer = found.ask(how)
        assert (answer.verdict, answer.missing_bytes) == (Verdict.FAILS, 200 * MIB)
        assert (answer.failed_request_bytes, answer.requests_earlier) == (300 * MIB, 0)


@pytest.mark.parametrize("request_mib", [700, 1501, 30_000])
def test_what_is_missing_is_just_enough_on_a_larger_card(tmp_path: Path, request_mib: int) -> None:
    recorder = Recorder(1100 * MIB)
    tensors = [recorder.malloc(100 * MIB) for _ in range(10)]
    for tensor in tensors[::2]:
        assert tensor is not None
        recorder.free(tensor)
    assert recorder.malloc(request_mib * MIB) is None
    found = simulation(recorder.snapshot(), tmp_path, Card(total_bytes=1100 * MIB))
    answer = found.ask(EXPANDABLE)
    assert answer.verdict is Verdict.FAILS
    assert answer.missing_bytes is not None
    two_pages_bytes = 40 * MIB  # parts of pages beside the hole may be idle already
    assert found.ask(EXPANDABLE, 1100 * MIB + answer.missing_bytes).verdict is Verdict.SERVED
    assert found.ask(EXPANDABLE, 1100 * MIB + answer.missing_bytes - two_pages_bytes).verdict is Verdict.FAILS


def test_another_card_has_more_or_less_and_others_keep_what_they_hold(tmp_path: Path) -> None:
    recorder = Recorder(800 * MIB)  # of 1,000; others hold 200
    for _ in range(7):
        recorder.malloc(100 * MIB)
    assert recorder.malloc(150 * MIB) is None
    content = recorder.snapshot()
    found = simulation(content, tmp_path, Card(total_bytes=1000 * MIB))
    larger = found.ask(found.settings, 1100 * MIB)
    assert (larger.verdict, larger.spare_bytes) == (Verdict.SERVED, 50 * MIB)
    smaller = found.ask(found.settings, 600 * MIB)  # 400 for this process: the fifth tensor does not fit
    assert (smaller.verdict, smaller.requests_earlier, smaller.missing_bytes) == (Verdict.FAILS_EARLIER, 3, 100 * MIB)
    assert not larger.before_others
    # Where the first card's size is not known, all of the other one is this process's: at most.
    alone = simulation(content, tmp_path)
    larger, smaller = (alone.ask(found.settings, size * MIB) for size in (1100, 600))
    assert (larger.verdict, larger.spare_bytes) == (Verdict.SERVED_BEFORE_OTHERS, 250 * MIB)
    assert not larger.is_certain
    assert (smaller.verdict, smaller.requests_earlier, smaller.missing_bytes) == (Verdict.FAILS_EARLIER, 1, 100 * MIB)
    assert smaller.is_certain
    assert larger.before_others
    assert smaller.before_others
    # On the very card that it failed on it is no answer that it would be served: others held 200 of the 1,000.
    same = alone.ask(found.settings, 1000 * MIB)
    assert (same.verdict, same.spare_bytes) == (Verdict.SERVED_BEFORE_OTHERS, 150 * MIB)


def test_a_memory_fraction_that_nobody_recorded_is_no_answer(tmp_path: Path) -> None:
    recorder = Recorder(800 * MIB)
    recorder.device.allowed_bytes = 300 * MIB
    recorder.malloc(200 * MIB)
    assert recorder.malloc(200 * MIB) is None
    found = simulation(recorder.snapshot(), tmp_path)
    assert not found.trust.reproduced
    assert found.trust.why_not.startswith("The driver had 600.00 MiB free, enough for the request")
    known = simulation(recorder.snapshot(), tmp_path, Card(800 * MIB, 300 * MIB))
    assert known.trust.exact
    assert known.ask(replace(known.settings, memory_fraction=1.0)).verdict is Verdict.SERVED


def test_where_the_ring_begins_late_the_answer_may_depend_on_what_came_before(tmp_path: Path) -> None:
    recorder = in_pieces()
    found = simulation(recorder.snapshot(ring=1), tmp_path)
    assert found.trust.exact
    assert found.trust.requests == 0
    assert "already reserved; it holds no request before the one that failed. How that" in found.trust.notes[0]
    answer = found.ask(replace(found.settings, expandable_segments=True))
    # As it stood, five holes of 100 MiB lie in one segment that cannot be given back; laid anew there are none.
    assert (answer.verdict, answer.served_anew) == (Verdict.DEPENDS, True)


def test_where_the_ring_begins_late_nothing_is_said_for_certain_but_that_too_much_is_live(tmp_path: Path) -> None:
    recorder = Recorder(1000 * MIB)
    for _ in range(8):
        recorder.malloc(100 * MIB)
    assert recorder.malloc(300 * MIB) is None
    card = Card(1000 * MIB)
    late, whole = (simulation(recorder.snapshot(ring=ring), tmp_path, card) for ring in (1, None))
    expected = {
        1100 * MIB: (Verdict.SERVED_AS_TRIED, Verdict.SERVED),
        1095 * MIB: (Verdict.FAILS_AS_TRIED, Verdict.FAILS),  # of each block up to 1 MiB may be no part of the request
        1050 * MIB: (Verdict.FAILS_BY_THEN, Verdict.FAILS),
    }
    for total, (cut, full) in expected.items():
        assert (late.ask(late.settings, total).verdict, whole.ask(whole.settings, total).verdict) == (cut, full)
    served = late.ask(late.settings, 1200 * MIB)
    assert (served.verdict, served.spare_bytes) == (Verdict.SERVED_AS_TRIED, 100 * MIB)
    assert late.ask(EXPANDABLE).verdict is Verdict.FAILS_BY_THEN
    assert late.ask(late.settings).verdict is Verdict.FAILS  # what was recorded is known


def test_where_the_ring_begins_late_it_is_not_told_where_it_would_fail_before(tmp_path: Path) -> None:
    """How the 600 MiB that stood then would lie on a smaller card, or if they would be there at all, nobody knows."""
    recorder = Recorder(1000 * MIB)
    for _ in range(6):
        recorder.malloc(100 * MIB)
    before = len(recorder.events)
    for _ in range(3):
        recorder.malloc(100 * MIB)
    assert recorder.malloc(150 * MIB) is None
    content, card = recorder.snapshot(ring=len(recorder.events) - before), Card(1000 * MIB)
    late = simulation(content, tmp_path, card)
    assert late.trust.exact
    answer = late.ask(late.settings, 500 * MIB)
    assert answer.verdict is Verdict.FAILS_BY_THEN
    assert (answer.missing_bytes, answer.failed_request_bytes) == (None, None)
    whole = simulation(recorder.snapshot(), tmp_path, card)
    assert whole.ask(whole.settings, 500 * MIB).verdict is Verdict.FAILS_EARLIER


def test_what_stands_split_from_before_the_recording_is_never_given_back_in_pieces(tmp_path: Path) -> None:
    """The setting asked about would have left large blocks whole."""
    recorder = Recorder(1100 * MIB)
    whole = recorder.malloc(1000 * MIB)
    assert whole is not None
    recorder.free(whole)
    pieces = [recorder.malloc(100 * MIB) for _ in range(10)]
    assert pieces[0] is not None
    assert pieces[1] is not None
    recorder.free(pieces[1])
    before = len(recorder.events)
    assert recorder.malloc(150 * MIB) is None
    recorder.free(pieces[0])
    assert recorder.malloc(250 * MIB) is None
    found = simulation(recorder.snapshot(ring=len(recorder.events) - before), tmp_path)
    answer = found.ask(replace(found.settings, max_split_bytes=64 * MIB))
    assert answer.verdict in (Verdict.FAILS, Verdict.FAILS_BY_THEN, Verdict.DEPENDS)


def test_a_request_survived_before_that_would_be_served_is_told(tmp_path: Path) -> None:
    recorder = in_pieces()
    recorder.malloc(50 * MIB)
    assert recorder.malloc(600 * MIB) is None
    found = simulation(recorder.snapshot(), tmp_path)
    assert found.trust.exact
    assert found.ask(replace(found.settings, expandable_segments=True)).served_before == 1


def test_the_recorded_settings_are_answered_by_what_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for what was set anyway must not be told another story than the check tells."""
    found = simulation(in_pieces().snapshot(), tmp_path, Card(total_bytes=1100 * MIB))
    asked: list[bool] = []
    replayed = whatif.run

    def run(*given: Any, **how: Any) -> Any:
        asked.append(how["as_recorded"])
        return replayed(*given, **how)

    monkeypatch.setattr(whatif, "run", run)
    for answer in (found.ask(found.settings), found.ask(found.settings, 1100 * MIB)):
        assert (answer.verdict, answer.missing_bytes) == (Verdict.FAILS, 200 * MIB)
    assert not asked
    found.ask(found.settings, 2200 * MIB)  # segments come to stand where they stood, as far as the runs are alike
    found.ask(replace(found.settings, expandable_segments=True))
    assert asked == [True, False]


def test_what_others_hold_may_change_and_it_is_said(tmp_path: Path) -> None:
    recorder = Recorder(400 * MIB)
    recorder.malloc(300 * MIB)
    assert recorder.malloc(200 * MIB) is None
    recorder.device.free_bytes -= 50 * MIB
    assert recorder.malloc(200 * MIB) is None
    found = simulation(recorder.snapshot(), tmp_path)
    assert any("changed by 50.00 MiB" in note for note in found.trust.notes)


def test_empty_cache_is_told_from_a_release_for_want_of_memory(tmp_path: Path) -> None:
    recorder = Recorder(400 * MIB)
    for _ in range(3):
        block = recorder.malloc(100 * MIB)
        assert block is not None
        recorder.free(block)
        recorder.empty_cache()
    first, second = recorder.malloc(300 * MIB), recorder.malloc(60 * MIB)
    assert first is not None
    assert second is not None
    recorder.free(second)
    recorder.malloc(90 * MIB)  # gives the 60 MiB back
    assert recorder.malloc(200 * MIB) is None
    found = simulation(recorder.snapshot(), tmp_path)
    assert [step.event for step in found.recording.steps if step.kind.name == "EMPTY"] == [4, 9, 14]
    assert found.trust.exact


def _pages(events: list[tuple[str, int, int]], segments: list[tuple[int, int, str]], folder: Path) -> Snapshot:
    """A history of pages, and the mapped stretches that are left: offsets and sizes in MiB."""
    base = 1 << 40
    rows = [
        {"action": action, "addr": base + at * MIB, "size": size * MIB, "stream": 0, "frames": []}
        for action, at, size in events
    ]
    left = [
        {
            "address": base + at * MIB,
            "total_size": size * MIB,
            "segment_type": kind,
            "is_expandable": True,
            "blocks": [{"address": base + at * MIB, "size": size * MIB, "requested_size": 0, "state": "inactive"}],
        }
        for at, size, kind in segments
    ]
    return read({"segments": left, "device_traces": [rows]}, folder)


def test_pages_that_were_mapped_in_the_midst_of_others_leave_two_stretches(tmp_path: Path) -> None:
    found = _pages([("segment_map", 20, 40)], [(0, 100, "large")], tmp_path)
    areas = memory_map(found, found.events[0], EXPANDABLE).areas
    assert [(area.address - (1 << 40), area.size_bytes) for area in areas] == [(0, 20 * MIB), (60 * MIB, 40 * MIB)]


def test_small_pages_that_go_in_one_piece_as_large_as_a_large_page_are_small(tmp_path: Path) -> None:
    """The small pool maps 2 MiB at a time, and gives back what lies together at once."""
    maps = [("segment_map", 2 * number, 2) for number in range(10)]
    found = _pages([*maps, ("segment_unmap", 0, 20)], [], tmp_path)
    (area,) = memory_map(found, found.events[0], EXPANDABLE, first=10).areas
    assert (area.size_bytes, area.small) == (20 * MIB, True)
    large = _pages([("segment_map", 0, 20), ("segment_unmap", 0, 20)], [], tmp_path)
    (area,) = memory_map(large, large.events[0], EXPANDABLE, first=1).areas
    assert (area.size_bytes, area.small) == (20 * MIB, False)


def test_empty_cache_is_told_from_garbage_that_is_collected(tmp_path: Path) -> None:
    """Garbage is whole segments, and goes only where more is reserved than the threshold: 540 MiB here."""
    recorder = Recorder(1000 * MIB, AllocatorSettings(garbage_collection_threshold=0.6))
    recorder.device.allowed_bytes = 900 * MIB
    block = recorder.malloc(100 * MIB)
    assert block is not None
    recorder.free(block)
    recorder.empty_cache()
    emptied = len(recorder.events) - 1
    assert recorder.malloc(110 * MIB) is not None
    block = recorder.malloc(400 * MIB)
    assert block is not None
    recorder.free(block)
    assert recorder.malloc(300 * MIB, stream=1) is not None
    assert recorder.malloc(50 * MIB, stream=1) is not None
    collected = [number for number, event in enumerate(recorder.events) if event["action"] == "segment_free"][-1]
    assert collected > emptied
    assert recorder.malloc(800 * MIB) is None
    content = recorder.snapshot()
    content["allocator_settings"]["garbage_collection_threshold"] = 0.6
    found = simulation(content, tmp_path, Card(1000 * MIB, 900 * MIB))
    assert [step.event for step in found.recording.steps if step.kind.name == "EMPTY"] == [emptied]
    assert found.trust.exact


def test_what_contradicts_the_events_and_what_contradicts_the_state_add_up(tmp_path: Path) -> None:
    """A block that nobody allocated is given back twice: neither the events nor the state before them know it."""
    content = in_pieces().snapshot()
    gone = {"action": "free_requested", "addr": 7 * MIB, "size": MIB, "stream": 0, "frames": []}
    content["device_traces"][0][1:1] = [gone, gone]
    found = simulation(content, tmp_path)
    assert not found.trust.reproduced
    assert found.trust.why_not == "4 recorded events contradict the final state or one another."


def test_a_snapshot_without_settings_takes_torchs_defaults_and_says_so(tmp_path: Path) -> None:
    content = in_pieces().snapshot()
    content["allocator_settings"] = {}
    found = simulation(content, tmp_path)
    assert found.trust.exact
    assert found.trust.notes == ("The snapshot does not record the allocator's settings; torch's defaults were taken.",)


def test_settings_that_do_not_reproduce_the_failure_are_no_answer(tmp_path: Path) -> None:
    content = in_pieces().snapshot()
    content["allocator_settings"]["max_split_size"] = 2 * GIB  # larger than all: as if there were none
    assert simulation(content, tmp_path).trust.exact
    content["allocator_settings"]["max_split_size"] = 200 * MIB
    found = simulation(content, tmp_path)
    assert not found.trust.reproduced
    with pytest.raises(CannotSimulate, match="Under the recorded settings the model"):
        found.ask(EXPANDABLE)


steps = st.lists(
    st.tuples(
        st.sampled_from(["malloc", "malloc", "malloc", "free", "empty"]),
        st.integers(0, 10_000),
        st.sampled_from([1, 700, MIB, MIB + 1, 5 * MIB, 9 * MIB, 12 * MIB, 19 * MIB, 33 * MIB, 64 * MIB]),
    ),
    min_size=3,
    max_size=60,
)


def run(program: list[tuple[str, int, int]], recorder: Recorder) -> None:
    for what, choice, size in program:
        if what == "malloc":
            recorder.malloc(size, choice % 2)
        elif what == "free" and recorder.live:
            recorder.free(list(recorder.live)[choice % len(recorder.live)])
        elif what == "empty":
            recorder.empty_cache()
    while recorder.malloc(24 * MIB) is not None:
        pass


@given(program=steps, expandable=st.booleans(), split=st.sampled_from([None, 32 * MIB]), ring=st.integers(1, 80))
@settings(max_examples=100)
def test_what_stood_at_the_beginning_is_rebuilt_and_the_run_reproduced(
    tmp_path_factory: pytest.TempPathFactory,
    program: list[tuple[str, int, int]],
    expandable: bool,
    split: int | None,
    ring: int,
) -> None:
    folder = tmp_path_factory.mktemp("s")
    recorder = Recorder(150 * MIB, AllocatorSettings(expandable_segments=expandable, max_split_bytes=split))
    run(program, recorder)
    whole = read(recorder.snapshot(), folder)
    events = whole.events[0]
    for first in {0, len(events) // 2, max(0, len(events) - ring)}:
        areas, live = recorder.maps[first]
        rebuilt = memory_map(whole, events, recorder.settings, first)
        assert rebuilt.contradictions == 0
        assert areas is None or rebuilt.areas == areas
        assert {block.address: block.size_bytes for block in rebuilt.blocks} == live
    found = Simulation(whole, whole.ooms[-1], Card(150 * MIB))
    assert found.trust.reproduced or expandable, found.trust
    cut = read(recorder.snapshot(ring), folder)
    late = Simulation(cut, cut.ooms[-1], Card(150 * MIB))
    assert late.recording.free_at_start_bytes >= 0
    for one in (found, late):
        if one.trust.reproduced:  # what was recorded, asked again, is what was recorded
            assert {one.ask(one.settings).verdict, one.ask(one.settings, 150 * MIB).verdict} == {Verdict.FAILS}


def test_recorded_choices_tell_which_segments_are_older() -> None:
    assert order_of(4, ()) == (1, 2, 3, 4)
    assert order_of(4, {(3, 1), (4, 3)}) == (4, 1, 3, 2)  # the fourth is older than the third, and that than the first
    assert sorted(order_of(3, {(1, 2), (2, 1)})) == [1, 2, 3]  # a contradiction decides nothing


def test_blocks_that_stop_waiting_right_before_the_failure_do_not_end_the_recording(tmp_path: Path) -> None:
    """Torch waits for what other streams still use before it gives up; here the ring begins while it does."""
    device = MadeDevice()
    stack = [frame("f", "f.py", 1)]
    device.malloc(33 * MIB, stack)
    device.free(device.malloc(33 * MIB, stack))
    device.fail(50 * MIB, 0, stack)
    content = made_snapshot(device)
    events = content["device_traces"][0]
    content["device_traces"][0] = [one for one in events if one["action"] in ("free_completed", "oom")]
    found = simulation(content, tmp_path, Card(24 * GIB))
    assert found.recording.steps[-1].event == found.oom.event_index == 1


@given(seed=st.integers(0, 100_000))
@settings(max_examples=100)
def test_a_damaged_snapshot_is_refused_or_not_reproduced_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance = random.Random(seed)
    device = MadeDevice(expandable=chance.random() < 0.5)
    live: list[int] = []
    for _ in range(30):
        if live and chance.random() < 0.4:
            device.free(live.pop(chance.randrange(len(live))))
        else:
            live.append(device.malloc(chance.choice([1, MIB, 3 * MIB, 33 * MIB]), [frame("f", "f.py", 1)]))
    device.fail(50 * MIB, chance.choice([0, 20 * MIB, GIB]), [])
    content = made_snapshot(device)
    for _ in range(chance.randrange(4)):
        events = content["device_traces"][0]
        event = chance.choice(events[:-1])
        event[chance.choice(["addr", "size", "stream"])] = chance.choice([0, 1, 512, 2 * MIB, 1 << 50, event["size"]])
        if chance.random() < 0.5:
            segment = chance.choice(content["segments"])
            segment[chance.choice(["address", "total_size"])] = chance.choice([0, 2 * MIB, 1 << 49])
    snapshot = read(content, tmp_path_factory.mktemp("s"))
    found = Simulation(snapshot, snapshot.ooms[-1], Card(24 * GIB))
    for how in (PLAIN, EXPANDABLE, replace(PLAIN, max_split_bytes=32 * MIB)):
        with suppress(CannotSimulate):
            found.ask(how)
