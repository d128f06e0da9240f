"""GIVEN outcomes of some settings WHEN the map is drawn THEN measured, predicted and not known are told apart."""

from __future__ import annotations

import json
from importlib.resources import files

import jsonschema
import pytest

from oomdoctor.compare.render import as_markdown, as_terminal
from oomdoctor.sweep.as_json import swept_as_json
from oomdoctor.sweep.conduct import Swept
from oomdoctor.sweep.html import swept_as_html
from oomdoctor.sweep.map import UNSURE, How, Map, draw_map
from oomdoctor.sweep.measure import Recipe
from oomdoctor.sweep.outcomes import Attempt, Kind, Outcome, Peak
from oomdoctor.sweep.outline import facts, headline, outline
from oomdoctor.sweep.variables import Cell, parse_variables

GIB = 1 << 30
SCHEMA = json.loads((files("oomdoctor.sweep") / "sweep.schema.json").read_text())
VARIABLES = parse_variables(["context=512,1024,2048", "concurrency=1,2,4"])[0]
RECIPE = Recipe(("serve", "{context}", "{concurrency}"))


def ran(held: float, where: str = "cuda:0", total: int = 24, free: float = 24, **more: object) -> Outcome:
    peak = Peak(where, int(held * GIB), "seen", True, total * GIB, int(free * GIB), **more)  # type: ignore[arg-type]
    return Outcome((Attempt(Kind.RAN, (peak,), 1.0, folder="runs/x"),))


def failed(kind: Kind = Kind.OUT_OF_MEMORY) -> Outcome:
    return Outcome((Attempt(kind, (), 1.0, f"It was {kind.value}.", "runs/x"),))


def needs(cell: Cell) -> float:
    return 4 + 2 * (1 << cell[0]) * (1 << cell[1])


WALK: dict[Cell, Outcome] = {cell: ran(needs(cell)) for cell in ((0, 0), (1, 0), (2, 0), (0, 1), (0, 2), (1, 1))}


def drawn(outcomes: dict[Cell, Outcome], headroom: float = 0.1, on: str | None = None) -> Map:
    return draw_map(VARIABLES, outcomes, headroom, on)


def test_each_setting_says_how_it_is_known() -> None:
    found = drawn({**WALK, (1, 2): failed()})
    told = {cell: (entry.how, entry.fits) for cell, entry in found.entries.items()}
    assert told[(1, 1)] == (How.MEASURED, "fits")
    assert told[(1, 2)] == (How.OUT_OF_MEMORY, "no")
    assert told[(2, 2)] == (How.LARGER, "no")
    assert found.entries[(2, 2)].smaller == (1, 2)
    assert told[(2, 1)] == (How.PREDICTED, UNSURE)


def test_a_prediction_has_its_bytes_error_and_verdict() -> None:
    found = drawn(WALK)
    for cell, fits in (((1, 2), "fits"), ((2, 1), "fits"), ((2, 2), "no")):
        entry = found.entries[cell]
        assert (entry.how, entry.fits) == (How.PREDICTED, fits)
        assert entry.bytes == pytest.approx(needs(cell) * GIB, rel=1e-6)
        assert entry.error_bytes == pytest.approx(0.01 * needs(cell) * GIB, rel=0.01)
    assert found.entries[(2, 2)].left_bytes == pytest.approx(-12 * GIB, rel=1e-6)


def test_the_safe_setting_was_tried_and_the_predicted_one_is_only_named() -> None:
    found = drawn(WALK)
    assert (
        list(found.safe.values()) == [(1, 1)] or list(found.safe.values()) == [(2, 0)] or (0, 2) in found.safe.values()
    )
    assert set(found.promising) == {(1, 2), (2, 1)}
    lines = facts(Swept(found, 6))
    assert any(line.startswith("predicted to leave it too, not tried: ") for line in lines)


def test_a_peak_that_may_have_been_missed_is_said_to_be_a_least() -> None:
    peak = Peak("cuda:0", 5 * GIB, "sampled", False, 24 * GIB, 24 * GIB)
    (line, *_) = facts(Swept(drawn({(0, 0): Outcome((Attempt(Kind.RAN, (peak,)),))}), 1))
    assert "≥ 5.00 GiB" in line
    assert "a short peak was not seen" in line


def test_tight_is_what_ran_and_leaves_less() -> None:
    found = drawn({(0, 0): ran(23), (1, 0): ran(5, free=8), (0, 1): ran(5, free=6)})
    assert {cell: found.entries[cell].fits for cell in ((0, 0), (1, 0), (0, 1))} == {
        (0, 0): "tight", (1, 0): "fits", (0, 1): "tight",
    }  # fmt: skip
    assert headline(drawn({(0, 0): ran(23)})) == "No setting that was tried leaves at least 10 % of the card"


def test_what_was_squeezed_is_tight_and_no_measure_of_what_is_needed() -> None:
    outcomes = {**WALK, (2, 1): ran(12, squeezed=True)}
    found = drawn(outcomes)
    assert found.entries[(2, 1)].fits == "tight"
    assert found.squeezed == ((2, 1),)
    assert len(found.growths[0].fit.points) == 6


def test_another_failure_is_neither_fit_nor_misfit_and_rules_nothing_out() -> None:
    found = drawn({**WALK, (1, 2): failed(Kind.FAILED), (2, 1): failed(Kind.TIMED_OUT)})
    assert (found.entries[(1, 2)].how, found.entries[(1, 2)].fits) == (How.FAILED, None)
    assert (found.entries[(2, 1)].how, found.entries[(2, 1)].fits) == (How.TIMED_OUT, None)
    assert found.entries[(2, 2)].how is How.PREDICTED


def test_a_run_whose_peak_nobody_saw_says_unknown() -> None:
    found = drawn({(0, 0): ran(1, where="host")}, on="device")
    assert (found.entries[(0, 0)].how, found.entries[(0, 0)].fits) == (How.PEAK_UNKNOWN, None)
    assert "NVML" in " ".join(facts(Swept(found, 1)))
    assert drawn({(0, 0): ran(1, where="host")}).entries[(0, 0)].how is How.MEASURED


def test_a_failure_below_what_was_free_ends_the_predictions_there() -> None:
    """4 x 1024 was predicted to need 20 of 24 GiB and failed: nothing that needs as much is said to fit."""
    found = drawn({**WALK, (1, 2): failed()})
    assert found.growths[0].contradicted_by == (1, 2)
    assert found.entries[(2, 1)].fits == UNSURE
    assert any("another limit, or fragmentation" in line for line in facts(Swept(found, 7)))


def test_what_needs_no_more_than_one_that_ran_well_is_predicted_to_fit() -> None:
    """18 of 24 GiB ran and 20 failed: a limit that nobody saw lies between, and 16 are below it."""
    variables = parse_variables(["context=1,2,4,7", "concurrency=1,2,3"])[0]
    need = [[4 + 2 * context * count for count in (1, 2, 3)] for context in (1, 2, 4, 7)]
    tried = ((0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (0, 2), (1, 1))
    outcomes = {cell: ran(need[cell[0]][cell[1]]) for cell in tried}
    found = draw_map(variables, {**outcomes, (2, 1): failed()}, 0.21)
    assert found.growths[0].contradicted_by == (2, 1)
    assert (found.entries[(1, 2)].how, found.entries[(1, 2)].fits) == (How.PREDICTED, "fits")
    assert found.entries[(2, 2)].how is How.LARGER


def test_of_two_cards_the_fuller_decides() -> None:
    both = Outcome((Attempt(Kind.RAN, (*ran(20).attempts[0].peaks, *ran(22, where="cuda:1").attempts[0].peaks)),))
    entry = drawn({(0, 0): both}).entries[(0, 0)]
    assert entry.peak is not None
    assert (entry.peak.where, entry.fits) == ("cuda:1", "tight")


def test_categories_are_fitted_and_answered_each_by_itself() -> None:
    variables = parse_variables(["n=1,2,4", "dtype=fp16,fp8"])[0]
    outcomes = {(n, d): ran(4 + (2 - d) * (1 << n)) for n in range(3) for d in range(2) if (n, d) != (1, 1)}
    found = draw_map(variables, outcomes, 0.1)
    assert len(found.growths) == 1
    assert found.entries[(1, 1)].how is How.NOT_KNOWN
    assert list(found.safe.values()) == [(2, 0), (2, 1)]


def every_form(swept: Swept) -> list[str]:
    return [as_terminal(outline(swept)), as_markdown(outline(swept)), swept_as_html(swept, RECIPE)]


@pytest.mark.parametrize(
    "outcomes",
    [{}, WALK, {(0, 0): failed()}, {(0, 0): failed(Kind.FAILED)}, {**WALK, (1, 2): failed(), (2, 1): ran(12)}],
    ids=["nothing", "walk", "first-fails", "first-fails-otherwise", "most"],
)
def test_every_form_shows_it(outcomes: dict[Cell, Outcome]) -> None:
    swept = Swept(drawn(outcomes), len(outcomes), "after 3 runs, as asked")
    for text in every_form(swept):
        assert headline(swept.map).split(" is ")[0] in text
    assert all(len(line) <= 80 for line in as_terminal(outline(swept)).splitlines())
    content = json.loads(swept_as_json(swept, RECIPE, "folder"))
    jsonschema.validate(content, SCHEMA)
    assert len(content["cells"]) == 9


def test_secrets_are_not_shown() -> None:
    recipe = Recipe(("serve", "--api-key", "hunter2hunter2", "{context}"), (("HF_TOKEN", "hf_abcdefghij0123456789"),))
    swept = Swept(drawn(WALK), 6)
    for text in (swept_as_html(swept, recipe), swept_as_json(swept, recipe, "folder"), str(recipe.shown)):
        assert "hunter2" not in text
        assert "hf_abc" not in text
    assert recipe.digest != Recipe(("serve", "--api-key", "other", "{context}"), recipe.environment).digest


def test_names_and_values_cannot_act_on_a_page() -> None:
    variables = parse_variables(["x=1,2", "y=<script>,\x1b[31m"])[0]
    swept = Swept(draw_map(variables, {(0, 0): ran(1), (0, 1): failed(Kind.FAILED)}, 0.1), 2)
    assert "<script>" not in swept_as_html(swept, Recipe(("<script>{x}", "{y}")))
    assert "\x1b" not in as_terminal(outline(swept))


def test_many_columns_and_a_third_variable_go_into_tables_of_80_columns() -> None:
    variables = parse_variables(["context=" + ",".join(str(512 * n) for n in range(1, 20)), "n=1,2", "dtype=a,b"])[0]
    outcomes = {(n, 0, 0): ran(4 + n) for n in range(10)}
    text = as_terminal(outline(Swept(draw_map(variables, outcomes, 0.1), 10)))
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "with dtype=a, part 3 of 3" in text
    assert "with dtype=b, part 1 of 3" in text
