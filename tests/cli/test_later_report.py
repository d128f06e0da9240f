"""GIVEN a run whose report could not be made WHEN a command to make it later is told THEN it keeps the options."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from oomdoctor.cli import run as run_module
from oomdoctor.cli.main import oomdoctor
from oomdoctor.language import speaking
from oomdoctor.run.session import RunOutcome


@pytest.mark.parametrize(
    ("redact", "pseudonyms", "language", "more"),
    [
        (False, None, "en", []),
        (True, None, "en", ["--redact"]),
        (True, Path("my names.json"), "en", ["--pseudonyms", "my names.json"]),
        (True, None, "zh", ["--redact", "--lang", "zh"]),
    ],
)
def test_the_command_keeps_the_options(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    redact: bool,
    pseudonyms: Path | None,
    language: str,
    more: list[str],
) -> None:
    def fail(*_: Any, **__: Any) -> str:
        raise RuntimeError("no room")

    monkeypatch.delenv("OOMDOCTOR_LANG", raising=False)
    monkeypatch.setattr(run_module, "write_reports", fail)
    bundle = tmp_path / "an incident"
    bundle.mkdir()
    outcome = RunOutcome(bundle, 1, None, out_of_memory_seen=True)
    with speaking(language):
        run_module._conclude(outcome, "always", None, redact, pseudonyms)
    command = capsys.readouterr().err.splitlines()[-1].partition("oomdoctor report")[2]
    assert shlex.split(command) == [str(bundle), *more]


def test_what_is_opened_with_pseudonyms_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix: str(tmp_path))
    log = tmp_path / "a.log"
    log.write_text("Killed process 12 (python) total-vm:1kB\nthe host is node17.example.org, user@node17.example.org\n")
    names = tmp_path / "names.json"
    result = CliRunner().invoke(oomdoctor, ["open", str(log), "--pseudonyms", str(names)])
    assert result.exit_code == 0, result.output
    assert names.is_file()
