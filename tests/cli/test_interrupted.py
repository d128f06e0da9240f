"""GIVEN a command at work WHEN ^C comes THEN it ends as a shell expects, with a word and no traceback."""

from __future__ import annotations

import sys

import click
import pytest

from oomdoctor.cli import main as entry


@pytest.mark.parametrize("raised", [KeyboardInterrupt, click.Abort])
def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], raised: type) -> None:
    def broken(*_unnamed: object, **_named: object) -> None:
        raise raised

    monkeypatch.setattr(sys, "argv", ["oomdoctor", "diff"])
    monkeypatch.setattr(entry.oomdoctor, "main", broken)
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "oomdoctor: interrupted\n")


@pytest.mark.parametrize(("words", "status"), [(["--help"], 0), (["nosuch"], 2), (["rules", "test", "/nosuch"], 2)])
def test_exit_statuses_are_clicks(monkeypatch: pytest.MonkeyPatch, words: list[str], status: int) -> None:
    monkeypatch.setattr(sys, "argv", ["oomdoctor", *words])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == status
