"""GIVEN devices, a host and events WHEN they are shown THEN each has its figures, and what was not seen is said."""

from __future__ import annotations

from dataclasses import replace

from diagnoses import fact_set, fragmentation, host_list

from oomdoctor.model.devices import DeviceProcess, DeviceReading
from oomdoctor.model.diagnosis import DeviceLook, Incident, Moment, MomentKind, Series
from oomdoctor.model.source import Source
from oomdoctor.model.units import GIB
from oomdoctor.report.anchors import Anchors, make_anchors
from oomdoctor.report.moments import view_moments
from oomdoctor.report.surroundings import view_devices, view_host
from oomdoctor.report.timeline import view_charts
from oomdoctor.report.view import view_report

HERE = Source("smi.txt", 3)
NOWHERE = Anchors({}, {})
INCIDENT = Incident(100.0, "cuda:0", "device out of memory", "a.log:1")


def look(**fields: object) -> DeviceLook:
    return DeviceLook("cuda:0", DeviceReading(0, HERE, **fields))  # type: ignore[arg-type]


def test_processes_stand_largest_first_with_what_is_known_of_each() -> None:
    listed = (DeviceProcess(7, None, None, own=True), DeviceProcess(None, 2 * GIB, "vllm", own=False))
    (view,) = view_devices((look(name="H200", total_bytes=80 * GIB, used_bytes=3 * GIB, processes=listed),))
    assert view.totals == "H200, 80.00 GiB in all, 3.00 GiB in use"
    assert [(one.pid, one.name, one.used, one.whose) for one in view.processes] == [
        ("", "vllm", "2.00 GiB", "another program"),
        ("7", "unnamed", "not measured", "this command"),
    ]


def test_a_table_that_was_not_read_is_not_an_empty_one() -> None:
    assert view_devices((look(processes=None),))[0].said.startswith("Not seen")
    assert view_devices((look(processes=()),))[0].said == "The table of processes lists none."


def test_a_figure_of_the_host_that_was_not_seen_is_said_to_be_missing() -> None:
    facts = fact_set(
        [
            ("host.total_bytes", 8 * GIB, HERE, None),
            ("host.cgroup_unlimited", True, HERE, None),
            ("host.pressure_full_ratio", 0.125, HERE, None),
        ]
    )
    groups = {
        group.title: group.measures for group in view_host(facts, make_anchors(replace(fragmentation(), facts=facts)))
    }
    told = {each.name: (each.value, each.seen) for measures in groups.values() for each in measures}
    assert told["physical memory of the machine"] == ("8.00 GiB", True)
    assert told["memory limit of the container or cgroup"] == ("none", True)
    assert told["share of time all tasks stalled on memory in the last seconds (PSI full avg10)"] == ("12.5 %", True)
    assert told["the process's own limit (RLIMIT_AS or RLIMIT_DATA)"] == ("not seen", False)
    assert not view_report(fragmentation()).host_seen
    assert view_report(host_list()).host_seen


def test_events_count_from_the_failure() -> None:
    told = (
        Moment(70.0, None, MomentKind.PHASE, "loading begins", "a.log:1"),
        Moment(100.0, "cuda:0", MomentKind.FAILURE, "refused", "b"),
    )
    assert [(one.number, one.when, one.place) for one in view_moments(told, (INCIDENT,), NOWHERE)] == [
        (1, "30 s before", ""),
        (2, "the failure", "cuda:0"),
    ]
    undated = replace(INCIDENT, when_seconds=None)
    assert view_moments(told, (undated,), NOWHERE)[0].when == "30 s before"  # another witness dates the same failure
    elsewhere = (told[0], replace(told[1], where="cuda:1"))
    assert view_moments(elsewhere, (undated,), NOWHERE)[0].when == "1970-01-01 00:01:10 UTC"


def test_charts_of_one_clock_share_their_axis_and_show_the_events_of_their_place() -> None:
    series = (
        Series("host", "resident", (0.0, 50.0), (1, 2), "sampled"),
        Series("cuda:0", "used", (90.0, 100.0), (1, 2), "sampled"),
        Series("cuda:1", "used", (90.0, 100.0), (1, 2), "sampled"),
    )
    told = tuple(
        Moment(when, where, MomentKind.RETRY, "retry", "s")
        for when, where in ((95.0, "cuda:1"), (95.5, None), (100.0, "cuda:0"))
    )
    host, first, second = view_charts(series, (INCIDENT,), view_moments(told, (INCIDENT,), NOWHERE))
    assert {(chart.begin_seconds, chart.end_seconds) for chart in (host, first, second)} == {(-100.0, 0.0)}
    assert host.curves[0].points[-1][0] == 0.5
    assert [stroke.number for stroke in host.strokes] == [1, 2, 3]
    assert [stroke.number for stroke in first.strokes] == [2, 3]
    assert [stroke.number for stroke in second.strokes] == [1, 2]
    assert [text for _, text in second.numbers] == ["1–2"]
