"""GIVEN an incident folder WHEN its report is asked for again THEN it is made of what the folder holds."""

from __future__ import annotations

import json
import shutil
import tempfile
import webbrowser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from snapshots.make import MIB, Device, snapshot, write

from oomdoctor.cli.main import oomdoctor
from oomdoctor.errors import InputRefused, UsageError

SAMPLE = Path(__file__).parents[2] / "sample_logs" / "run-list-own-limit"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "incident"))


def _run(*words: object) -> Result:
    return CliRunner().invoke(oomdoctor, list(map(str, words)))


def test_all_three_reports_are_made_anew(bundle: Path) -> None:
    (bundle / "report.json").write_text("old")
    ended = _run("report", bundle)
    assert ended.exit_code == 0
    assert json.loads((bundle / "report.json").read_text())["verdict"] == "out-of-memory"
    assert (bundle / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert (bundle / "report.md").read_text().startswith("**")
    assert "report.html" in ended.stderr


def test_one_form_is_printed_and_nothing_written(bundle: Path) -> None:
    ended = _run("report", bundle, "--format", "json")
    assert json.loads(ended.stdout)["schema"] == "oomdoctor.report/1"
    assert not (bundle / "report.html").exists()


@pytest.mark.parametrize("command", ["report", "open"])
def test_what_cannot_be_read_is_refused(tmp_path: Path, command: str) -> None:
    assert isinstance(_run(command, tmp_path).exception, InputRefused)
    (tmp_path / "s.pickle").write_bytes(b"\x80\x04cos\nsystem\n.")
    assert isinstance(_run(command, tmp_path / "s.pickle").exception, InputRefused)


def test_whatever_analyze_reads_is_reported_and_nothing_is_written_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device()
    device.malloc(20 * MIB, [])
    device.fail(30 * MIB, 4 * MIB, [])
    (tmp_path / "in").mkdir()
    path = write(tmp_path / "in" / "s.pickle", snapshot(device))
    ended = _run("report", path)
    assert ended.exit_code == 0
    assert ended.stdout == _run("analyze", path).stdout
    asked: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: asked.append(address) or True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert _run("open", path).exit_code == 0
    (page,) = tmp_path.glob("oomdoctor-*/report.html")
    assert asked == [page.as_uri()]
    assert "asked for 30.00" in page.read_text()
    assert list(path.parent.iterdir()) == [path]


def test_open_makes_the_report_where_there_is_none(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: asked.append(address) or True)
    assert _run("open", bundle).exit_code == 0
    assert asked == [(bundle / "report.html").as_uri()]
    assert (bundle / "report.html").is_file()


def test_without_a_browser_the_file_is_named(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    ended = _run("open", bundle)
    assert isinstance(ended.exception, UsageError)
    assert str(bundle / "report.html") in str(ended.exception)


def test_a_folder_that_cannot_be_written_is_told(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "write_text", refuse)
    ended = _run("report", bundle)
    assert isinstance(ended.exception, UsageError)
    assert "--format html" in str(ended.exception)


@pytest.mark.parametrize("command", ["report", "open"])
def test_a_refusal_names_the_file(tmp_path: Path, command: str) -> None:
    (tmp_path / "train.log").write_bytes(b"")
    with pytest.raises(InputRefused, match=r"train\.log: the file is empty"):
        CliRunner().invoke(
            oomdoctor, [command, str(tmp_path / "train.log")], catch_exceptions=False, standalone_mode=False
        )
