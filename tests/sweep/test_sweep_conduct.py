"""GIVEN a sweep WHEN ^C comes at any moment THEN the map so far is drawn; called again it ends as if undisturbed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from oomdoctor.sweep import conduct
from oomdoctor.sweep.conduct import Swept, Wishes
from oomdoctor.sweep.map import How
from oomdoctor.sweep.measure import Recipe
from oomdoctor.sweep.outcomes import HOST, Attempt, Kind, Peak
from oomdoctor.sweep.outline import facts
from oomdoctor.sweep.state import Measured, State
from oomdoctor.sweep.variables import parse_variables

MIB = 1 << 20
VARIABLES, _NOTES = parse_variables(["n=1,4,16", "m=1,4"])
RECIPE = Recipe(("run", "{n}", "{m}"))


def attempt(values: dict[str, str]) -> Attempt:
    """A command that holds n x m x 40 MiB of 1 GiB, and breaks at 4 x 4 for a reason of its own."""
    held = int(values["n"]) * int(values["m"]) * 40 * MIB
    if (values["n"], values["m"]) == ("4", "4"):
        return Attempt(Kind.FAILED, detail="It ended with exit status 7.")
    if held > 1024 * MIB:
        return Attempt(Kind.OUT_OF_MEMORY, detail="Out of memory.")
    peak = Peak(HOST, held, "read", exact=True, total_bytes=1024 * MIB, available_bytes=1024 * MIB)
    return Attempt(Kind.RAN, peaks=(peak,), seconds=1.0)


class Stopped:
    """Raises KeyboardInterrupt the n-th time that anything of the sweep is done."""

    def __init__(self, at: int) -> None:
        self.left = at

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def conducted(folder: Path, monkeypatch: pytest.MonkeyPatch, stop: Stopped) -> Swept:
    draw_map = conduct.draw_map

    def measure(_recipe: object, values: dict[str, str], _folder: Path, _say: object) -> Attempt:
        stop.step()
        return attempt(values)

    def drawn(*arguments: object) -> object:
        stop.step()
        return draw_map(*arguments)

    def told(*_: object) -> None:
        stop.step()

    monkeypatch.setattr(conduct, "adopt_orphans", lambda: None)  # those of other tests are not this process's
    monkeypatch.setattr(conduct, "measure", measure)
    monkeypatch.setattr(conduct, "draw_map", drawn)
    measured = Measured(RECIPE.command, (), ("n", "m"), None, (), RECIPE.digest)
    state = State(folder, measured, VARIABLES, fresh=False)
    try:
        return conduct.sweep(VARIABLES, RECIPE, Wishes(on=HOST, every=True), state, told, told, told)
    finally:
        state.close()
        monkeypatch.undo()


def shown(swept: Swept) -> object:
    return {cell: (entry.how, entry.fits, entry.bytes) for cell, entry in swept.map.entries.items()}, swept.map.safe


def test_stopped_anywhere_and_called_again_it_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = conducted(tmp_path / "whole", monkeypatch, Stopped(0))
    assert (whole.signal, whole.stopped) == (None, "")
    assert How.FAILED in {entry.how for entry in whole.map.entries.values()}
    for at in (1, 2, 5, 8, 13, 19):
        folder = tmp_path / str(at)
        first = conducted(folder, monkeypatch, Stopped(at))
        assert first.signal == signal.SIGINT, at
        assert "goes on from here" in first.stopped
        assert shown(conducted(folder, monkeypatch, Stopped(0))) == shown(whole)


def test_where_a_prediction_was_contradicted_the_settings_between_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit that nothing shows: what is predicted to fit fails, and the settings before it are not left open."""
    variables, _ = parse_variables(["context=512,1024,2048", "concurrency=1,2,4"])
    ran: list[tuple[int, int]] = []

    def measure(_recipe: object, values: dict[str, str], _folder: Path, _say: object) -> Attempt:
        context, concurrency = int(values["context"]), int(values["concurrency"])
        ran.append((context, concurrency))
        held = 30 * MIB + context * concurrency * (MIB // 50)
        if held > 130 * MIB:
            return Attempt(Kind.OUT_OF_MEMORY, detail="Out of memory.")
        peak = Peak(HOST, held, "read", exact=True, total_bytes=1024 * MIB, available_bytes=1024 * MIB)
        return Attempt(Kind.RAN, peaks=(peak,), seconds=1.0)

    def told(*_: object) -> None:
        return None

    monkeypatch.setattr(conduct, "adopt_orphans", lambda: None)
    monkeypatch.setattr(conduct, "measure", measure)
    measured = Measured(RECIPE.command, (), ("context", "concurrency"), None, (), RECIPE.digest)
    state = State(tmp_path / "swept", measured, variables, fresh=False)
    try:
        swept = conduct.sweep(variables, RECIPE, Wishes(on=HOST), state, told, told, told)
        assert not any("not tried" in line for line in facts(swept))
        state.forget((Kind.RAN,))
        few = conduct.sweep(variables, RECIPE, Wishes(on=HOST, most_runs=1), state, told, told, told)
        assert any("not tried" in line and "concurrency=2" in line for line in facts(few))
    finally:
        state.close()
    assert (2048, 4) in ran
    assert {(1024, 4), (2048, 2)} <= set(ran)
    assert swept.stopped == ""
    assert {entry.how for entry in swept.map.entries.values()} <= {How.MEASURED, How.OUT_OF_MEMORY}
    assert list(swept.map.safe.values()) == [(2, 1)]
