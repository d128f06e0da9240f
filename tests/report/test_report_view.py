"""GIVEN a diagnosis WHEN a report is planned THEN bars add up, curves keep their extremes, colours are legible."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from importlib.resources import files
from itertools import combinations

import pytest
from diagnoses import fragmentation, host_list, kv_too_small, not_oom, undetermined
from hypothesis import given
from hypothesis import strategies as st

from oomdoctor.model.diagnosis import Budget, BudgetPart, Series
from oomdoctor.model.units import GIB
from oomdoctor.report.bars import view_budget
from oomdoctor.report.palette import CATEGORIES, INK, category_of
from oomdoctor.report.svg import budget_bar
from oomdoctor.report.timeline import POINTS, thin, view_charts
from oomdoctor.report.view import split_summary, view_report

NAMES = st.sampled_from(["weights", "free", "idle in the allocator", "other processes", "KV cache", "anything", ""])
SIZES = st.integers(0, 200 * GIB)


@st.composite
def budgets(draw: st.DrawFn) -> Budget:
    parts = tuple(BudgetPart(draw(NAMES), draw(SIZES), "measured") for _ in range(draw(st.integers(0, 8))))
    rest = draw(st.integers(-GIB, 200 * GIB))
    total = sum(part.bytes for part in parts) + rest
    return Budget("cuda:0", max(total, 0), parts, rest if total >= 0 else rest - total, draw(st.none() | SIZES))


@given(budgets())
def test_a_bar_adds_up(budget: Budget) -> None:
    bar = view_budget(budget)
    assert sum(each.bytes for each in bar.segments) == bar.total_bytes
    drawn = [each for each in bar.segments if each.width > 0]
    end = 0.0
    for each in drawn:
        assert each.start == pytest.approx(end, abs=1e-9)
        end = each.start + each.width
    assert end <= 1 + 1e-9
    if budget.unattributed_bytes >= 0 and budget.total_bytes:
        assert end == pytest.approx(bar.capacity)
    else:
        assert bool(bar.over) == (budget.unattributed_bytes < 0)
    budget_bar(bar, "bar")


@given(budgets())
def test_the_request_is_drawn_to_the_bars_scale(budget: Budget) -> None:
    bar = view_budget(budget)
    if bar.request is None or bar.request.cut or not bar.total_bytes:
        return
    assert bar.request.width == pytest.approx(budget.request_bytes / bar.total_bytes * bar.capacity, abs=1e-9)
    assert bar.request.start + bar.request.width <= 1 + 1e-9


def test_a_request_that_does_not_fit_ends_beyond_the_card() -> None:
    bar = view_budget(fragmentation().budgets[0])
    assert bar.request is not None
    assert bar.request.start < bar.capacity < bar.request.start + bar.request.width


def test_a_huge_request_is_cut_and_said_to_be() -> None:
    budget = replace(fragmentation().budgets[0], request_bytes=10**18)
    bar = view_budget(budget)
    assert bar.request is not None
    assert bar.request.cut
    assert bar.capacity > 0.5
    assert "cut: larger than this picture" in budget_bar(bar, "bar")


def test_a_budget_without_parts_is_not_measured() -> None:
    assert [each.name for each in view_budget(undetermined().budgets[0]).segments] == ["not measured"]


def test_the_budget_that_was_exceeded_comes_first() -> None:
    view = view_report(host_list())
    assert view.budget is not None
    assert view.budget.where == "process limit"
    assert [each.where for each in view.other_budgets] == ["host"]


def test_the_change_is_one_that_is_enough() -> None:
    finding = fragmentation().findings[0]
    turned = replace(fragmentation(), findings=(replace(finding, remedies=tuple(reversed(finding.remedies))),))
    view = view_report(turned)
    assert view.change is not None
    assert view.change.do == "Let the allocator grow segments in place"
    none_enough = replace(finding, remedies=tuple(replace(each, enough=None) for each in finding.remedies))
    first = view_report(replace(fragmentation(), findings=(none_enough,))).change
    assert first is not None
    assert first.do == finding.remedies[0].do


def test_what_a_remedy_depends_on_is_said_where_the_input_does_not_show_it() -> None:
    finding = fragmentation().findings[0]
    undecided = replace(finding.remedies[0], do="Grow in place", check_first=("torch's version", "operating system"))
    change = view_report(replace(fragmentation(), findings=(replace(finding, remedies=(undecided,)),))).change
    assert change is not None
    assert change.do == "Grow in place"
    assert change.check_first == "Check first, the input does not show it: torch's version, operating system."
    assert view_report(fragmentation()).change.check_first == ""  # type: ignore[union-attr]


def test_parts_stand_in_one_order_on_every_device() -> None:
    names = ["free", "activations", "weights", "idle", "other processes"]
    budget = Budget("cuda:0", 6, tuple(BudgetPart(name, 1, "measured") for name in names), 1)
    assert [each.name for each in view_budget(budget).segments] == [
        "other processes", "weights", "activations", "idle", "unattributed", "free",
    ]  # fmt: skip


def test_what_a_remedy_frees_is_not_said_where_memory_was_not_short() -> None:
    view = view_report(not_oom())
    assert view.change is not None
    assert view.change.effect == ""


def test_the_request_says_by_how_much_it_did_not_fit() -> None:
    bar = view_report(fragmentation()).budget
    assert bar is not None
    assert bar.request is not None
    assert bar.request.short == "1.11 GiB"
    unknown = view_budget(replace(undetermined().budgets[0], request_bytes=GIB)).request
    assert unknown is not None
    assert unknown.short == ""


def test_what_an_engine_lacks_for_a_request_begins_where_its_pool_does() -> None:
    """GIVEN a pool of 5 GiB for a request of 8 WHEN drawn THEN it goes 3 GiB beyond the share, not 8."""
    parts = (BudgetPart("KV pool", 5 * GIB, "printed"), BudgetPart("activation peak", 2 * GIB, "printed"))
    weights = BudgetPart("weights", 60 * GIB, "printed")
    bar = view_budget(Budget("engine's share, at least", 67 * GIB, (weights, *parts), 0, 8 * GIB))
    assert [each.name for each in bar.segments][-1] == "KV pool"
    assert bar.request is not None
    assert bar.request.short == "3.00 GiB"
    assert bar.request.start == pytest.approx(bar.segments[-1].start)
    assert bar.capacity == pytest.approx(67 / 70)
    assert bar.free_bytes is None
    on_a_card = view_budget(Budget("cuda:0", 67 * GIB, (weights, *parts), 0, 8 * GIB))
    assert on_a_card.request is not None
    assert on_a_card.request.start == pytest.approx(on_a_card.capacity)


def test_holders_are_those_of_the_place() -> None:
    assert view_report(fragmentation()).holders[0].value == "5.75 GiB"
    assert view_report(kv_too_small()).holders == ()


@pytest.mark.parametrize(
    ("holder", "owner", "named"),
    [
        (
            "keys and values in list 'c' local to f(), grown at a.py:3",
            "list 'c' local to f(), grown at a.py:3, holds 9",
            True,
        ),
        ("activations saved for backward by 'x' local to f()", "'x' local to f() (2.00 GiB)", True),
        ("为反向传播保存的激活值（f() 的局部变量 'x'）", "f() 的局部变量 'x'，占用 2.00 GiB", True),
        ("process 12 (/usr/bin/python)", "/usr/bin/python (pid 12)", True),
        ("process 1 (/usr/bin/python)", "/usr/bin/python (pid 12)", False),
        ("parameters of Net 'm' local to f()", "'x' local to f() (2.00 GiB)", False),
    ],
)
def test_whom_the_first_diagnosis_names_is_not_said_again_beside_it(holder: str, owner: str, named: bool) -> None:
    held = replace(fragmentation().holdings[0], where="cuda:0", owner=holder, category="")
    found = replace(fragmentation().findings[0], owner=owner)
    shown = view_report(replace(fragmentation(), holdings=(held,), findings=(found,))).holders
    assert (shown == ()) is named


def test_the_cause_is_not_said_twice_on_the_first_screen() -> None:
    told = replace(
        host_list(),
        summary="It ran out. The cause is confirmed: a list grew.",
        why="The cause is confirmed: a list grew.",
    )
    assert view_report(told).lead == ""
    assert view_report(replace(told, findings=())).lead == "The cause is confirmed: a list grew."


@pytest.mark.parametrize(
    ("summary", "first", "rest"),
    [
        ("", "Nothing.", ""),
        ("One only", "One only", ""),
        ("It took 23.37 GiB of v2.9.1. Then it died.", "It took 23.37 GiB of v2.9.1.", "Then it died."),
        ("See train.py. It is e.g. large.", "See train.py.", "It is e.g. large."),
        ("显存不足。请减小批量。", "显存不足。", "请减小批量。"),
    ],
)
def test_the_summarys_first_sentence_is_the_headline(summary: str, first: str, rest: str) -> None:
    assert split_summary(summary, "Nothing") == (first, rest)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=5000), st.integers(4, 700))
def test_thinning_keeps_extremes_order_and_ends(values: list[int], most: int) -> None:
    kept = thin(values, most)
    assert len(kept) <= max(most, 4)
    assert kept == sorted(set(kept))
    assert (kept[0], kept[-1]) == (0, len(values) - 1)
    assert max(values[place] for place in kept) == max(values)
    assert min(values[place] for place in kept) == min(values)


def test_the_moments_before_the_end_are_not_thinned() -> None:
    kept = thin(range(100_000), 500)
    assert kept[-100:] == list(range(99_900, 100_000))


def test_a_chart_has_its_limit_and_bounded_curves() -> None:
    (chart,) = view_charts(fragmentation().series)
    assert [each.label for each in chart.limits] == ["limit 23.69 GiB"]
    assert [each.name for each in chart.curves] == ["allocated", "reserved"]
    assert all(len(curve.points) <= POINTS for curve in chart.curves)
    assert all(0 <= x <= 1 and 0 <= y <= 1 for curve in chart.curves for x, y in curve.points)


def test_odd_series_are_survived() -> None:
    nan = float("nan")
    for times, values in (
        ((), ()),
        ((1.0,), (5,)),
        ((1.0, 1.0), (0, 0)),
        ((nan, nan), (1, 2)),
        ((2.0, 1.0, 3.0), (1, 2)),
    ):
        view_charts((Series("cuda:0", "allocated", times, values, "now and then", 0),))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("weights of model.layers", "weights"),
        ("activations of model.layers.3", "activations"),
        ("reserved but unallocated", "idle"),
        ("CUDA context", "context"),
        ("optimizer state (AdamW)", "optimizer"),
        ("KV cache", "kv"),
        ("left for the KV pool", "free"),
        ("other processes and the kernel", "others"),
        ("others in the cgroup, page cache included", "others"),
        ("freed, waiting for another stream", "idle"),
        ("idle in graph pools", "idle"),
        ("free", "free"),
        ("below the limit at the last sample", "free"),
        ("the driver's reserve", "context"),
        ("context and libraries", "context"),
        ("free beyond the cap of the process", "free"),
        ("other process of this command: rank 1 (pid 42)", "others"),
        ("activations saved for backward", "activations"),
        ("gradients in flight", "gradients"),
        ("held by variables and containers", "held"),
        ("no Python object leads to them", "held"),
        ("weights and buffers", "weights"),
        ("live tensors of this process", "held"),
        ("other mappings of the process", "context"),
        ("variable `cache`", "held"),
    ],
)
def test_a_thing_has_one_colour_everywhere(name: str, key: str) -> None:
    assert category_of(name).key == key


def channels(colour: str) -> list[float]:
    """Red, green and blue as linear light."""
    full = colour if len(colour) == 7 else "#" + "".join(2 * digit for digit in colour[1:])
    parts = (int(full[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def luminance(colour: str) -> float:
    red, green, blue = channels(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_labels_on_segments_are_legible() -> None:
    assert all(contrast(INK, category.colour) >= 4.5 for category in CATEGORIES)
    assert INK in (files("oomdoctor.report") / "assets" / "report.css").read_text()


@pytest.mark.parametrize("scheme", [0, 1, 2])
def test_texts_are_legible_in_light_dark_and_print(scheme: int) -> None:
    style = (files("oomdoctor.report") / "assets" / "report.css").read_text()
    roots = re.findall(r":root \{(.*?)\}", style, re.S)
    colours = dict(re.findall(r"--([\w-]+): (#\w+);", roots[scheme]))
    for ground in ("page", "panel"):
        for ink in ("ink", "soft", "accent", "alarm", "good", "curve-0", "curve-1", "curve-2", "curve-3"):
            least = 3.0 if ink.startswith("curve") else 4.5
            assert contrast(colours[ink], colours[ground]) >= least, (ink, ground)
        assert contrast(colours["edge"], colours[ground]) >= 3
    assert contrast(colours["ink"], colours["accent-soft"]) >= 4.5
    assert contrast(colours["ink"], colours["mark"]) >= 4.5
    assert contrast(colours["soft"], colours["mark"]) >= 4.5


VISION = {
    # Machado, Oliveira, Fernandes 2009, severity 1.0.
    "normal": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}


def seen(colour: str, vision: str) -> tuple[float, float, float]:
    """The colour in CIE Lab as somebody with this vision sees it."""
    rgb = channels(colour)
    red, green, blue = (
        min(max(sum(weight * part for weight, part in zip(row, rgb, strict=True)), 0.0), 1.0) for row in VISION[vision]
    )
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    fx, fy, fz = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@pytest.mark.parametrize("vision", VISION)
def test_categories_differ_to_every_common_vision(vision: str) -> None:
    solid = [category for category in CATEGORIES if category.key not in ("free", "idle", "unattributed")]
    for one, other in combinations(solid, 2):
        assert math.dist(seen(one.colour, vision), seen(other.colour, vision)) > 20, (one.key, other.key)
