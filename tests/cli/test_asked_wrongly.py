"""GIVEN an option or a name that cannot be meant WHEN a command is asked for THEN it is said, not dropped."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from oomdoctor.cli.main import oomdoctor
from oomdoctor.errors import UsageError
from oomdoctor.run.session import _plain

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB.\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "a.log"
    path.write_text(OOM)
    return path


def asked(*words: object):
    return CliRunner().invoke(oomdoctor, list(map(str, words)))


@pytest.mark.parametrize("suffix", [".pdf", ".docx", ".png", ".yaml"])
def test_a_suffix_that_names_no_form_is_refused(log, tmp_path, suffix):
    target = tmp_path / f"report{suffix}"
    ended = asked("analyze", log, "--output", target)
    assert isinstance(ended.exception, UsageError)
    for known in (suffix, ".html", ".json", ".md", ".txt", "--format"):
        assert known in str(ended.exception)
    assert not target.exists()
    assert asked("analyze", log, "--output", target, "--format", "html").exit_code == 0, "asked for by name"


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("r.HTML", "<!DOCTYPE"),
        ("r.json", "{"),
        ("r.md", "**"),
        ("r.markdown", "**"),
        ("r", "<!DOCTYPE"),
        ("r.txt", "\n"),
    ],
)
def test_suffixes_that_are_known(log, tmp_path, name, begins):
    assert asked("analyze", log, "--output", tmp_path / name).exit_code == 0
    assert (tmp_path / name).read_text(encoding="utf-8").lower().startswith(begins.lower())


@pytest.mark.parametrize("size", ["0", "0GiB"])
def test_a_card_of_no_memory_is_no_card(log, size):
    ended = asked("analyze", log, "--gpu", size)
    assert isinstance(ended.exception, UsageError)
    assert "--gpu is the memory of a card" in str(ended.exception)


@pytest.mark.parametrize("form", ["perfetto", "viewer"])
def test_what_a_form_does_not_read_is_refused(log, form):
    ended = asked("export", log, "--to", form, "--table", "blocks")
    assert isinstance(ended.exception, UsageError)
    assert f"--table is for csv, parquet: {form} holds the whole snapshot" in str(ended.exception)


@pytest.mark.parametrize("form", ["csv", "parquet", "viewer"])
def test_the_least_size_is_of_perfetto(log, form):
    ended = asked("export", log, "--to", form, "--at-least", "1MiB")
    assert isinstance(ended.exception, UsageError)
    assert "--at-least is for perfetto" in str(ended.exception)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("训练", "训练"),
        ("обучение 7", "обучение-7"),
        ("हिन्दी", "हिन्दी"),
        ("a/b\\c:d", "a-b-c-d"),
        ("../..", "run"),
        ("\udcff\x1b[31m", "31m"),
        ("训" * 90, "训" * 50),
        ("", "run"),
    ],
)
def test_a_name_of_any_script_names_the_folder(name, folder):
    assert _plain(name) == folder


def test_an_empty_command_ends_as_in_a_shell():
    shell = subprocess.run(["bash", "-c", "''"], capture_output=True, text=True, timeout=30)
    ended = CliRunner().invoke(oomdoctor, ["run", "--", ""])
    assert ended.exit_code == shell.returncode == 127
    assert "an empty name, as a variable that is not set leaves it" in ended.output
