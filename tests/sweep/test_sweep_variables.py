"""GIVEN what is to be varied WHEN it is read THEN values have an order or none, and the command uses each of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomdoctor.errors import UsageError
from oomdoctor.sweep.variables import all_cells, check_templates, fill, parse_variables


def test_numbers_are_sorted_and_repeats_dropped() -> None:
    (variable,), notes = parse_variables(["context=2048,512,1024,512,1e3"])
    assert variable.values == ("512", "1e3", "1024", "2048")
    assert variable.numbers == (512.0, 1000.0, 1024.0, 2048.0)
    assert notes == ["context=512 stands there more than once and is run once"]


def test_words_are_categories_in_the_order_given() -> None:
    (variable,), notes = parse_variables(["dtype=fp16,fp8"])
    assert (variable.values, variable.numbers, notes) == (("fp16", "fp8"), None, [])
    (variable,), notes = parse_variables(["bits=16,auto"])
    assert variable.numbers is None
    assert notes == ["bits has values that are no numbers: all are taken as categories, without an order"]
    (variable,), notes = parse_variables(["tp=4,1"], categories=["tp"])
    assert (variable.values, variable.numbers, notes) == (("4", "1"), None, [])


def test_infinity_is_no_number() -> None:
    (variable,), _ = parse_variables(["x=1,inf,1_000"])
    assert variable.numbers is None


@pytest.mark.parametrize(
    ("written", "categories", "says"),
    [
        (["context"], (), "is not NAME=VALUE"),
        (["1x=2"], (), "is not NAME=VALUE"),
        (["x="], (), "empty value"),
        (["x=1,,2"], (), "empty value"),
        (["x=1", "x=2"], (), "varied twice"),
        (["x=1"], ("y",), "--category y: it is not varied"),
        ([f"{name}=" + ",".join(map(str, range(20))) for name in "abc"], (), "too many"),
    ],
)
def test_what_cannot_be_read_is_said(written: list[str], categories: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_variables(written, categories)


@pytest.mark.parametrize(
    ("templates", "says"),
    [
        (["run", "{y}"], r"\{y\} in '\{y\}' is not varied; add --vary y"),
        (["run", "{x}", '{"a": 1}'], "single '{'"),
        (["run", "{x}}"], "single '}'"),
        (["run", "{}"], "single '{'"),
        (["run", "{{x}}"], r"x is varied, but \{x\} stands neither in the command nor in --env"),
    ],
)
def test_placeholders_are_checked(templates: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_templates(templates, ["x"])


def test_a_template_is_filled() -> None:
    template = '--config={{"ctx": {x}, "more": {{"y": "{y}"}}}}'
    check_templates([template], ["x", "y"])
    assert fill(template, {"x": "512", "y": "{x}"}) == '--config={"ctx": 512, "more": {"y": "{x}"}}'


@settings(max_examples=50)
@given(st.text(max_size=30))
def test_any_text_survives_with_its_braces_doubled(text: str) -> None:
    doubled = text.replace("{", "{{").replace("}", "}}")
    check_templates([doubled], [])
    assert fill(doubled, {}) == text


def test_cells_are_all_settings() -> None:
    variables, _ = parse_variables(["a=1,2", "b=x,y,z"])
    assert len(all_cells(variables)) == 6
    assert all_cells(variables)[:3] == [(0, 0), (0, 1), (0, 2)]
