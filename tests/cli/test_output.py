"""GIVEN standard streams closed, full or gone WHEN a command speaks THEN its exit status still says what was found."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from extended import extended_but

from oomdoctor.cli import output
from oomdoctor.cli.main import oomdoctor
from oomdoctor.cli.output import FormName
from oomdoctor.language.wrapping import cells

ROOT = Path(__file__).parents[2]
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 24.00 GiB "
    "of which 1.59 GiB is free. Including non-PyTorch memory, this process has 22.41 GiB memory in use. Of the "
    "allocated memory 8.77 GiB is allocated by PyTorch, and 13.23 GiB is reserved by PyTorch but unallocated."
)


def shell(folder: Path, words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`words` in bash, where $O is the command and a.log a log with an out-of-memory message."""
    (folder / "a.log").write_text(OOM)
    environment = {**os.environ, "O": "oomdoctor_here", **variables}
    command = f'oomdoctor_here() {{ {shlex.quote(sys.executable)} -m oomdoctor "$@"; }}'
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command}\n{words}"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("$O analyze - <&-", 3),
        pytest.param("$O analyze a.log - <&-", 0, marks=pytest.mark.extended),
        ("$O analyze - 0>written.log", 3),
        ("$O analyze a.log >&-", 2),
        pytest.param("$O analyze a.log 2>&-", 0, marks=pytest.mark.extended),
        ("$O analyze gone.log 2>&-", 3),
        ("$O analyze a.log --output report.html <&- >&- 2>&-", 0),
        pytest.param("$O analyze a.log --format html | true", 0, marks=pytest.mark.extended),
        ("$O analyze a.log --format html --fail-on possible | true", 1),
    ],
)
def test_the_status_does_not_hang_on_the_streams(tmp_path: Path, words: str, status: int) -> None:
    assert shell(tmp_path, words).returncode == status


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    "words",
    [
        "analyze a.log",
        "explain FRG001",
        *(pytest.param(f"rules {name}", marks=pytest.mark.extended) for name in ("list", "check")),
    ],
)
def test_a_full_disk_is_a_sentence(tmp_path: Path, words: str) -> None:
    done = shell(tmp_path, f"$O {words} > /dev/full")
    assert done.returncode == 2
    assert "cannot write to standard output: No space left on device" in done.stderr


def test_a_page_does_not_die_of_a_letter_that_the_locale_lacks(tmp_path: Path) -> None:
    done = shell(tmp_path, "$O explain LIM001", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.startswith("LIM001")


@pytest.mark.parametrize("name", ["a.log", "./a.log", "link.log"])
def test_the_report_is_not_written_over_an_input(tmp_path: Path, name: str) -> None:
    (tmp_path / "link.log").symlink_to("a.log")
    done = shell(tmp_path, f"$O analyze a.log --output {name}")
    assert done.returncode == 2
    assert "is an input" in done.stderr
    assert (tmp_path / "a.log").read_text() == OOM


def test_a_name_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    done = shell(tmp_path, r"$O analyze $'gone\n\e[31m.log'")
    assert done.returncode == 3
    assert "\x1b" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_command_runs_where_the_folder_that_we_are_in_is_gone(tmp_path: Path) -> None:
    done = shell(tmp_path, "mkdir gone; cd gone; rmdir ../gone; $O run --report never -- sh -c 'exit 5'")
    assert done.returncode == 5


def test_evidence_that_the_command_removed_is_not_said_to_be_kept(tmp_path: Path) -> None:
    done = shell(tmp_path, "$O run --output kept -- sh -c 'sleep 0.3; rm -r kept; exit 6'")
    assert done.returncode == 6
    assert "the evidence is lost" in done.stderr
    assert "kept;" not in done.stderr


@pytest.mark.parametrize(("said", "meant"), [("md", "markdown"), ("markdown", "markdown"), ("text", "terminal")])
def test_a_form_has_one_name_and_its_other_spelling_is_understood(said: str, meant: str) -> None:
    assert FormName(("terminal", "json", "markdown")).convert(said, None, None) == meant


def test_a_form_that_is_none_is_refused() -> None:
    with pytest.raises(click.BadParameter):
        FormName(("terminal", "json")).convert("md", None, None)


def test_a_text_is_as_wide_as_the_terminal_at_most(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(output, "is_terminal", lambda stream: True)
    assert (output.text_width(None), output.text_width(tmp_path / "x")) == (40, 80)
    monkeypatch.setenv("COLUMNS", "200")
    assert output.text_width(None) == 80


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 40 columns, on both streams."""
    monkeypatch.setattr(output, "is_terminal", lambda stream: stream is not None)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_narrow_terminal_has_the_report_and_the_notes_in_its_width(
    narrow: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    (tmp_path / "a.log").write_text(OOM)
    (tmp_path / "empty.bin").write_bytes(b"\0" * 64)
    monkeypatch.chdir(tmp_path)
    words = ["--lang", language, "analyze", "a.log", "empty.bin", "--format", "terminal"]
    result = CliRunner().invoke(oomdoctor, words)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", result.output).splitlines()
    assert result.exit_code == 0
    assert any(line.startswith("oomdoctor: ") for line in lines), "a note about the file that cannot be read"
    assert [line for line in lines if cells(line) > 40 and not line.startswith("    ")] == []


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_a_terminal_has_colours_unless_they_are_not_wanted(
    narrow: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_color: str, coloured: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    (tmp_path / "a.log").write_text(OOM)
    told = CliRunner().invoke(oomdoctor, ["analyze", str(tmp_path / "a.log"), "--format", "terminal"]).output
    assert bool(re.search(r"\x1b\[[0-9;]*38;", told)) == coloured


def test_a_pipe_has_plain_text_of_80_columns_and_notes_in_one_line(tmp_path: Path) -> None:
    told = shell(
        tmp_path, "$O analyze a.log gone.log --format terminal", COLUMNS="40", CLICOLOR_FORCE="", FORCE_COLOR=""
    )
    assert "\x1b" not in told.stdout
    assert 60 < max(map(len, told.stdout.splitlines())) <= 80
    assert len(told.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", extended_but(["analyze", "report", "diff"], "analyze"))
def test_a_pipe_gets_the_summary_as_plain_text(tmp_path: Path, command: str) -> None:
    sample = ROOT / "sample_logs" / "fragmentation" / "snapshot.pickle"
    words = [sample, sample] if command == "diff" else [sample]
    done = shell(tmp_path, f"$O {command} {' '.join(shlex.quote(str(each)) for each in words)} | cat")
    assert done.returncode == 0, done.stderr
    assert not re.search(r"\x1b|\*\*|^#|^\|", done.stdout, re.MULTILINE)
    assert max(map(cells, done.stdout.splitlines())) <= 100
    markdown = shell(tmp_path, f"$O {command} --format md {' '.join(shlex.quote(str(each)) for each in words)} | cat")
    assert re.search(r"\*\*|^#", markdown.stdout, re.MULTILINE)


@pytest.mark.skipif(shutil.which("script") is None, reason="no `script`, which makes a terminal (util-linux)")
def test_a_terminal_without_colours_gets_plain_text_too(tmp_path: Path) -> None:
    sample = shlex.quote(str(ROOT / "sample_logs" / "triton-shared-memory.log"))
    command = f"{shlex.quote(sys.executable)} -m oomdoctor analyze {sample} 2>/dev/null"
    on_a_terminal = f"script -qec {shlex.quote(command)} /dev/null </dev/null"
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        done = shell(tmp_path, on_a_terminal, **{"TERM": "xterm-256color", **variables})
        assert "NOT OUT OF MEMORY" in done.stdout
        assert "\x1b" not in done.stdout
    assert "\x1b[" in shell(tmp_path, on_a_terminal, TERM="xterm-256color", NO_COLOR="").stdout
