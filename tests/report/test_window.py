"""GIVEN a history WHEN it is reported THEN the peak, who was live then and what the program did are shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pages import Page
from snapshots import programs
from snapshots.make import ADAM, MIB, Device, frame, snapshot, write

from oomdoctor.diagnose import diagnose
from oomdoctor.report import render
from oomdoctor.report.window import _at_most, view_window

STEP = [
    ADAM,
    frame("step", "/env/lib/python3.11/site-packages/torch/optim/adam.py", 238),
    frame("<module>", "/home/me/main.py", 9),
]


def _path(folder: Path, device: Device, ring: int | None = None, **more: object) -> Path:
    return write(folder / "s.pickle", {**snapshot(device, ring=ring), **more})


@pytest.mark.parametrize("ring", [None, 60])
def test_the_peak_and_who_was_live_then_add_up(tmp_path: Path, ring: int | None) -> None:
    device = programs.level_training()
    (window,) = json.loads(render(diagnose([_path(tmp_path, device, ring)]), "json"))["windows"]
    recorded = device.live if ring is None else device.live[-ring - 1 :]
    assert window["peak_bytes"] == max(recorded)
    assert sum(row["bytes"] for row in window["at_peak"]) == window["peak_bytes"]
    assert window["disagreements"] == 0
    assert (window["before_bytes"] > 0) == (ring is not None)


def test_areas_reach_the_peak_and_never_overlap(tmp_path: Path) -> None:
    (window,) = diagnose([_path(tmp_path, programs.kept_outputs())]).windows
    view = view_window(window)
    assert max(y for _, y in view.areas[-1].above) == pytest.approx(view.peak[1])
    for lower, upper in zip(view.areas, view.areas[1:], strict=False):
        assert lower.above == upper.below
    assert all(b[1] <= a[1] for area in view.areas for b, a in zip(area.below, area.above, strict=True))


def test_a_peak_that_was_given_back_in_part_before_the_request_is_not_told_as_of_its_moment(tmp_path: Path) -> None:
    (window,) = diagnose([_path(tmp_path, programs.kept_outputs())]).windows
    at_failure = sum(each.values_bytes[-1] for each in window.categories)
    failed = replace(window, failure_seconds=window.times_seconds[-1], has_times=True)
    as_it_failed = replace(failed, peak_seconds=failed.times_seconds[-1], peak_bytes=at_failure)
    shortly_before = replace(as_it_failed, peak_seconds=failed.times_seconds[-1] - 0.001, peak_bytes=at_failure + MIB)
    assert _at_most(as_it_failed).endswith("live, when the request failed.")
    assert _at_most(shortly_before).endswith("live, just before the request failed.")


def test_a_contradiction_is_said_everywhere(tmp_path: Path) -> None:
    content = snapshot(programs.kept_outputs())
    trace = content["device_traces"][0]
    trace[:] = [event for event in trace if event["action"] != "free_completed"]
    diagnosis = diagnose([write(tmp_path / "s.pickle", content)])
    (window,) = diagnosis.windows
    assert window.disagreements > 0
    assert "contradict each other" in render(diagnosis, "html")
    assert json.loads(render(diagnosis, "json"))["windows"][0]["disagreements"] == window.disagreements


def test_what_the_program_annotated_is_drawn(tmp_path: Path) -> None:
    device = programs.kept_outputs()
    times = [event["time_us"] for event in snapshot(device)["device_traces"][0]]
    marks = [
        {"stage": "START", "name": "Optimizer.step#AdamW.step", "device": 0, "time_us": times[5]},
        {"stage": "END", "name": "Optimizer.step#AdamW.step", "device": 0, "time_us": times[20]},
        {"stage": "END", "name": "never begun", "device": 0, "time_us": times[21]},
        {"stage": "START", "name": "never ended", "device": 0, "time_us": times[30]},
        {"stage": "START", "name": ["no", "name"], "device": 0, "time_us": times[30]},
        "nothing",
    ]
    diagnosis = diagnose([_path(tmp_path, device, external_annotations=marks)])
    (window,) = diagnosis.windows
    assert [(each.name, each.begin_seconds, each.end_seconds) for each in window.marks] == [
        ("Optimizer.step#AdamW.step", times[5] / 1e6, times[20] / 1e6),
        ("never ended", times[30] / 1e6, times[-1] / 1e6),
    ]
    assert "Optimizer.step#AdamW.step" in render(diagnosis, "html")


@pytest.mark.parametrize(("lost", "timed"), [([0, 7, 8], True), (range(100), False)])
def test_events_without_a_time_stand_with_those_before_them(tmp_path: Path, lost: list[int], timed: bool) -> None:
    """Where most have none, the rest cannot be put between the others."""
    device = programs.kept_outputs()
    content = snapshot(device)
    times = [event["time_us"] / 1e6 for event in content["device_traces"][0]]
    for event in lost:
        del content["device_traces"][0][event]["time_us"]
    (window,) = diagnose([write(tmp_path / "s.pickle", content)]).windows
    assert window.has_times is timed
    if timed:
        assert window.times_seconds[0] == times[1]
        assert window.times_seconds[-1] == times[-1]
        assert window.failure_seconds == times[-1]
        assert list(window.times_seconds) == sorted(window.times_seconds)
    owners = [owner.median_lifetime_seconds for owner in window.owners]
    assert any(owners), "those whose allocation and release have a time"


def test_without_times_the_picture_runs_from_event_to_event(tmp_path: Path) -> None:
    content = snapshot(programs.kept_outputs())
    for event in content["device_traces"][0]:
        del event["time_us"]
    (window,) = diagnose([write(tmp_path / "s.pickle", content)]).windows
    view = view_window(window)
    assert "from event to event" in " ".join(view.sentences)
    assert view.duration == f"{window.events:,} events"


def test_a_failure_is_marked_only_where_one_was_recorded(tmp_path: Path) -> None:
    device = Device()
    for _ in range(10):
        device.malloc(MIB, [frame("step", "/home/me/train.py", 3)])
    for fails in (False, True):
        if fails:
            device.fail(1 << 40, 0, [])
        page = Page(render(diagnose([_path(tmp_path, device)]), "html"))
        (window,) = json.loads(page.data)["windows"]
        assert window["failed"] == fails


def test_a_peak_before_the_window_is_said_to_be(tmp_path: Path) -> None:
    (window,) = diagnose([_path(tmp_path, programs.kept_outputs())]).windows
    assert "before the window began" in " ".join(view_window(replace(window, peak_is_before=True)).sentences)


def test_a_snapshot_without_history_has_no_window(tmp_path: Path) -> None:
    device = Device()
    device.malloc(MIB, [])
    diagnosis = diagnose([_path(tmp_path, device, device_traces=[])])
    assert diagnosis.windows == ()
    assert 'id="window"' not in render(diagnosis, "html")


def test_names_cannot_act_in_the_page(tmp_path: Path) -> None:
    device = Device()
    for _ in range(10):
        device.malloc(MIB, [frame("</title><script>", "/x/\u202e.py", 1)])
    page = render(diagnose([_path(tmp_path, device)]), "html")
    assert "</title><script>" not in page
    assert "\u202e" not in page


def test_the_lines_together_are_what_was_live_and_keep_the_peak(tmp_path: Path) -> None:
    device = programs.level_training()
    (window,) = diagnose([_path(tmp_path, device)]).windows
    together = [sum(values) for values in zip(*(line.values_bytes for line in window.lines), strict=True)]
    assert together == [sum(values) for values in zip(*(one.values_bytes for one in window.categories), strict=True)]
    assert max(together) == window.peak_bytes == max(device.live)
    assert [line.owner for line in window.lines if not line.owner] == [""] * (len(window.lines) > 6)
    page = Page(render(diagnose([_path(tmp_path, device)]), "html"))
    by_line = next(each for each in json.loads(page.data)["windows"] if each["id"] == "lines-1")
    assert [area["values"] for area in by_line["areas"]] == [list(line.values_bytes) for line in window.lines]
    assert by_line["areas"][0]["name"].startswith("1 · ")
    numbers = [area["number"] for area in by_line["areas"]]
    assert numbers == [area["name"].split(" · ")[0] if " · " in area["name"] else "" for area in by_line["areas"]]


def test_how_each_phase_is_known_is_said(tmp_path: Path) -> None:
    diagnosis = diagnose([_path(tmp_path, programs.level_training())])
    told = view_window(diagnosis.windows[0]).how_phases
    assert "backward: no Python frame: the autograd thread has none" in told
    assert all(how in render(diagnosis, "html") for how in told)
    (window,) = json.loads(render(diagnosis, "json"))["windows"]
    assert {each["how_known"] for each in window["phases"]} == {how.split(": ", 1)[1] for how in told}


def test_a_cache_known_by_how_it_grew_is_drawn_as_what_the_budget_calls_it(tmp_path: Path) -> None:
    diagnosis = diagnose([_path(tmp_path, programs.cache_by_concatenation())])
    (window,) = diagnosis.windows
    held = {course.name: course.values_bytes[-1] for course in window.categories}
    assert held["keys and values"] == 5 * 60 * MIB + 11 * 58 * MIB
    assert window.lines[0].category == window.at_peak[0].category == "keys and values"


def test_the_table_of_the_peak_calls_memory_what_the_picture_calls_it(tmp_path: Path) -> None:
    device = Device()
    device.malloc(MIB, STEP)
    for _ in range(6):
        device.free(device.malloc(5 * MIB, STEP))
    (window,) = diagnose([_path(tmp_path, device)]).windows
    drawn = {each.name: max(each.values_bytes) for each in window.categories}
    (most,) = window.at_peak
    assert window.rise is not None
    assert {most.category, window.rise.owners[0].category} == {max(drawn, key=lambda name: drawn[name])}


def test_a_peak_that_may_be_more_is_told_as_a_least(tmp_path: Path) -> None:
    (window,) = diagnose([_path(tmp_path, programs.kept_outputs())]).windows
    told = " ".join(view_window(replace(window, peak_may_be_more_bytes=3 << 20)).sentences)
    assert "at least so much, and at most 3.00 MiB more" in told
    assert "at least so much" not in " ".join(view_window(window).sentences)


@pytest.mark.parametrize("given_back", [False, True])
def test_a_peak_just_before_the_failure_stood_at_it_only_if_nothing_was_given_back(
    tmp_path: Path, given_back: bool
) -> None:
    device = Device()
    for _ in range(20):
        device.malloc(5 * MIB, STEP)
    block = device.malloc(900 * MIB, STEP)
    if given_back:
        device.free(block)
    device.fail(1400 * MIB, 700 * MIB, STEP)
    (window,) = diagnose([_path(tmp_path, device)]).windows
    assert window.failure_seconds is not None
    near = replace(window, peak_seconds=window.failure_seconds - 0.0001)
    assert ("when the request failed" in " ".join(view_window(near).sentences)) == (not given_back)
