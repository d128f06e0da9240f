"""GIVEN inputs of which none can be read, or in which nothing failed WHEN it is reported THEN it is said once."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor.diagnose import diagnose
from oomdoctor.model.diagnosis import Verdict
from oomdoctor.report import render


def _made(folder: Path, what: str) -> Path:
    path = folder / what
    if what == "folder":
        path.mkdir()
    elif what == "empty":
        path.touch()
    elif what == "binary":
        path.write_bytes(bytes(range(1, 256)) * 30)
    return path


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("empty", "the file is empty; copy it again, or have it written anew"),
        ("binary", "it is binary data, neither a snapshot nor text; give the log or the snapshot"),
        (
            "folder",
            "it holds no log, snapshot, nvidia-smi output or incident bundle; name the folder that the run wrote",
        ),
        ("absent", "no such file or folder; look at how the path is written"),
    ],
)
def test_what_where_and_what_to_do_in_one_sentence(tmp_path: Path, what: str, why: str) -> None:
    path = _made(tmp_path, what)
    found = diagnose([path])
    assert found.verdict is Verdict.UNDETERMINED
    assert found.nothing_read
    assert found.summary.startswith(f"Nothing could be read of {path}: {why}")
    assert found.missing == ()
    text = " ".join(render(found, "terminal").split())
    assert text.count(why) == 1
    assert "NOTHING WAS READ" in text
    assert "unknown" not in text
    assert "Cause" not in text
    page = render(found, "html")
    assert "No change is known to help" not in page
    assert "How the memory was divided" not in page


def test_of_many_inputs_the_first_are_told(tmp_path: Path) -> None:
    found = diagnose([tmp_path / f"{number}.log" for number in range(5)])
    assert found.summary.count("no such file") == 3
    assert found.summary.endswith("So it is with 2 more.")


def test_what_may_not_be_read_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _made(tmp_path, "secret")
    path.write_text("step 1\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert "you may not read it; copy it, or ask as a user who may" in diagnose([path]).summary


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_where_nothing_failed_it_is_said_once(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a.log"
    path.write_text("step 1 loss 0.3\nstep 2 loss 0.2\ndone\n")
    text = render(diagnose([path]), form)
    assert text.count("shows no failure for want of memory") <= (2 if form == "html" else 1)  # its title tells it too
    assert "Cause" not in text.split("Not seen")[0] or form == "html"
