"""GIVEN a run by category WHEN drawn THEN areas lie on each other to one scale, and named samples are marked."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from report.diagnoses import host_list
from report.large import large
from report.pages import Page

from oomdoctor.diagnose import diagnose
from oomdoctor.model.diagnosis import Course, CoursePart, Incident, Series
from oomdoctor.model.units import GIB
from oomdoctor.report import render
from oomdoctor.report.moments import MomentView
from oomdoctor.report.svg import steps, timeline
from oomdoctor.report.timeline import Chart, view_charts
from oomdoctor.report.view import view_report

ROOT = Path(__file__).parents[2]
TIMES = tuple(float(when) for when in range(2000))


def course(where: str = "cuda:0", total: int = 24 * GIB) -> Course:
    live = tuple(GIB + (when % 7) * GIB for when in range(2000))
    return Course(
        where,
        TIMES,
        total,
        (
            CoursePart("idle in blocks of the allocator", (GIB,) * 2000, "computed"),
            CoursePart("activations", live, "by the allocator's history"),
            CoursePart("activations saved for backward", (GIB,) * 2000, "by the allocator's history"),
            CoursePart("other processes", (2 * GIB,) * 2000, "measured by NVML"),
            CoursePart("free on the device", tuple(total - 4 * GIB - size for size in live), "measured by NVML"),
        ),
        "by the sampler",
    )


def used(where: str = "cuda:0") -> Series:
    return Series(where, "used on the device", TIMES, (4 * GIB,) * 2000, "by the sampler", 24 * GIB)


def test_areas_stand_in_the_bars_order_and_take_the_place_of_lines():
    (chart,) = view_charts((used(),), courses=(course(),))
    assert chart.curves == ()
    assert [area.category.key for area in chart.areas] == ["others", "activations", "idle"]
    assert chart.areas[1].name == "activations · activations saved for backward"
    assert chart.areas[1].peak == "8.00 GiB"
    assert len(chart.area_times_seconds) <= 1000
    assert all(len(area.values_bytes) == len(chart.area_times_seconds) for area in chart.areas)
    assert [limit.label for limit in chart.limits] == ["limit 24.00 GiB"]


def test_ranks_have_one_scale():
    small, large = view_charts((used(), used("cuda:1")), courses=(course(), course("cuda:1", 48 * GIB)))
    assert small.ceiling_bytes == large.ceiling_bytes


def test_the_failure_is_marked_on_every_rank_and_nothing_beyond_the_axis():
    """GIVEN events of one rank and one after the last sample WHEN drawn THEN each stands where its time is."""
    moments = tuple(
        MomentView(number, seconds, "", where, where, kind, kind, "run", "")
        for number, (seconds, where, kind) in enumerate(
            [(5.0, "cuda:1", "retry"), (2000.5, "cuda:1", "failure"), (2003.0, "", "phase")], 1
        )
    )
    of_another, own = view_charts((used(), used("cuda:1")), moments=moments, failure=2000.5)
    assert [(each.number, each.at) for each in of_another.strokes] == [(2, 1.0)]
    assert [each.number for each in own.strokes] == [1, 2]
    assert own.end == "the failure"
    assert own.curves[0].points[-1][0] < 1


def test_it_is_said_that_the_course_divides_by_what_allocated_and_the_budget_by_what_held():
    said = "divided by what allocated it; the budget above divides it by what held it"
    known = large()
    assert said in Page(render(known, "html")).text
    assert said not in Page(render(replace(known, windows=()), "html")).text


def test_a_host_of_which_little_is_used_stays_a_line():
    free = CoursePart("available", (23 * GIB,) * 2000, "measured")
    own = CoursePart("this command and its descendants", (GIB,) * 2000, "measured")
    (chart,) = view_charts((used("host"),), courses=(Course("host", TIMES, 24 * GIB, (own, free), "s"),))
    assert chart.areas == ()
    assert len(chart.curves) == 1


def test_a_path_is_told_in_thousandths_by_what_changes():
    assert steps([(0.0, 0.0), (0.5, 0.25), (0.5, 0.25), (1.0, 1.0)]) == "M0 1000l500-250 500-750"
    assert steps([]) == "M0 1000"


def test_evidence_leads_to_the_sample_itself_which_stands_in_the_picture_and_in_a_row():
    page = Page(render(diagnose([ROOT / "sample_logs" / "run-list-own-limit"]), "html"))
    links = {value[1:] for value in page.values("href") if value.startswith("#point-")}
    assert links >= {"point-1-rise", "point-1-peak"}
    assert links <= set(page.values("id"))
    assert len(re.findall(r'class="sample-a"', page.source)) == 1
    assert "the rise begins at 69.76 MiB and comes to 517.98 MiB, 2.63 s before the failure" in page.text


def test_letters_at_one_place_stand_beside_each_other():
    charts = [chart for chart in _charts() if len(chart.samples) > 1]
    assert charts
    for chart in charts:
        places = {(round(sample.at, 3), sample.beside) for sample in chart.samples}
        assert len(places) == len(chart.samples)


def _charts() -> list[Chart]:
    return [
        *view_report(diagnose([ROOT / "sample_logs" / "run-list-own-limit"])).charts,
        *view_report(host_list()).charts,
    ]


def test_what_was_not_seen_is_drawn_and_said_and_is_nowhere_called_free():
    seen = replace(course(), parts=course().parts[:-1], unseen="not seen: other processes, what is free")
    (chart,) = view_charts((used(),), courses=(seen,))
    assert chart.unseen is not None
    assert chart.unseen.total_bytes == 24 * GIB
    assert chart.unseen.word_height is not None
    assert chart.unseen.said in chart.in_words
    drawn = timeline(chart, "chart-1")
    assert 'fill="url(#pattern-unseen-area)"' in drawn
    assert ">not seen</text>" in drawn
    (unsized,) = view_charts((used(),), courses=(replace(seen, total_known=False),))
    assert unsized.limits == ()
    assert "pattern-unseen" not in timeline(unsized, "chart-1")


def test_of_very_many_devices_those_at_which_nothing_happened_are_folded():
    places = [f"cuda:{number}" for number in range(16)]
    failed = Incident(when_seconds=5.0, where="cuda:12", cause="device out of memory", source="x")
    charts = view_charts(tuple(map(used, places)), (failed,))
    assert [each.where for each in charts if each.folded] == [p for p in places[8:] if p != "cuda:12"]
    assert [each.number for each in charts] == list(range(1, 17))
    assert not any(each.folded for each in view_charts(tuple(map(used, places[:8]))))


def test_a_failure_soon_after_the_last_print_is_what_times_count_from():
    """GIVEN a line every half a minute for half an hour THEN a failure half a minute after the last is on the axis."""
    times = tuple(30.0 * each for each in range(60))
    printed = Series("cuda:0", "allocated by torch", times, (GIB,) * 60, "as printed")
    (chart,) = view_charts((printed,), failure=1800.0)
    assert chart.end_seconds == 0
    assert chart.begin == "30 min before the failure"
    (later,) = view_charts((printed,), failure=3600.0)
    assert later.begin == "start"


def test_a_time_in_which_nobody_looked_is_not_drawn_as_free():
    """GIVEN looks that ended long before the failure (a record cut short) WHEN drawn THEN the rest is not seen."""
    failure = MomentView(1, 2600.0, "", "cuda:0", "cuda:0", "failure", "failure", "run", "")
    host = Series("host", "resident", (0.0, 2600.0), (GIB, GIB), "by the sampler")
    charts = view_charts((used(), host), (), (failure,), 2600.0, (course(),))
    (chart,) = (each for each in charts if each.areas)
    (gap,) = chart.gaps
    assert (gap.begin_seconds, gap.end_seconds, gap.total_bytes) == (-601.0, 0.0, 24 * GIB)
    assert round(gap.begin, 3) == round(1999 / 2600, 3)
    assert 'class="unseen" fill="url(#pattern-unseen-area)" x="769"' in timeline(chart, "chart-1")
    (whole,) = view_charts((used(),), courses=(course(),))
    assert whole.gaps == ()
    assert 'class="unseen"' not in timeline(whole, "chart-1")
