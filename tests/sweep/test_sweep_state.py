"""GIVEN the folder of a sweep WHEN it is opened again THEN what was measured counts, and only for the same command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from oomdoctor.errors import BundleError, UsageError
from oomdoctor.sweep.outcomes import Attempt, Kind, Peak
from oomdoctor.sweep.state import NAME, Measured, State
from oomdoctor.sweep.variables import parse_variables

MEASURED = Measured(("serve", "{n}"), (("A", "{n}"),), ("n",), None, (("Card", 24 << 30),))
VARIABLES = parse_variables(["n=1,2"])[0]
ATTEMPT = Attempt(Kind.RAN, (Peak("host", 123, "seen", True, name="limit"),), 1.5, "", "runs/n-1", True)


def opened(folder: Path, measured: Measured = MEASURED, values: str = "n=1,2", fresh: bool = False) -> State:
    return State(folder, measured, parse_variables([values])[0], fresh)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    state = opened(tmp_path / "sweep")
    state.add((0,), ATTEMPT)
    state.add((1,), Attempt(Kind.FAILED, detail="It ended."))
    state.close()
    return tmp_path / "sweep"


def test_what_was_measured_is_there_again(folder: Path) -> None:
    state = opened(folder)
    assert state.outcomes()[(0,)].attempts == (ATTEMPT,)
    assert state.outcomes()[(1,)].kind is Kind.FAILED
    state.forget((Kind.FAILED,))
    assert set(state.outcomes()) == {(0,)}


def test_values_may_be_added_and_left_out(folder: Path) -> None:
    assert opened(folder, values="n=4,1").outcomes().keys() == {(0,)}


def test_a_run_is_added_to_those_before(folder: Path) -> None:
    state = opened(folder)
    state.add((0,), ATTEMPT)
    state.close()
    assert len(opened(folder).outcomes()[(0,)].attempts) == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"command": ("serve", "-v", "{n}")}, "another command"),
        ({"environment": ()}, "other --env"),
        ({"variables": ("m",)}, "other variables"),
        ({"until": "ready"}, "another --until"),
        ({"digest": "0"}, "another command"),
        ({"cards": (("Card", 80 << 30),)}, "other cards"),
    ],
)
def test_another_sweep_is_refused_unless_it_begins_anew(folder: Path, change: dict[str, object], says: str) -> None:
    other = replace(MEASURED, **change)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=says):
        opened(folder, other)
    state = opened(folder, other, fresh=True)
    assert state.outcomes() == {}
    state.close()
    assert opened(folder, other).outcomes() == {}


def test_cards_that_nobody_sees_are_no_other_cards(folder: Path) -> None:
    assert len(opened(folder, replace(MEASURED, cards=())).outcomes()) == 2


def test_a_record_cut_short_is_as_if_its_run_had_not_ended(folder: Path) -> None:
    content = (folder / NAME).read_bytes()
    (folder / NAME).write_bytes(content[:-20])
    state = opened(folder)
    assert set(state.outcomes()) == {(0,)}
    state.add((1,), ATTEMPT)
    state.close()
    assert set(opened(folder).outcomes()) == {(0,), (1,)}


def test_two_at_once_are_refused(folder: Path) -> None:
    first = opened(folder)
    with pytest.raises(UsageError, match="in use by another sweep"):
        opened(folder)
    first.close()
    opened(folder).close()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match="cannot write to"):
        opened(tmp_path / "file" / "sweep")
