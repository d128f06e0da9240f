"""The bar is for a terminal and for a reading that takes long; it is gone at the end and never in a pipe."""

from __future__ import annotations

import os
import pickle
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from oomdoctor.cli import progress
from oomdoctor.readers.inputs import read_inputs

ANALYZE = [sys.executable, "-m", "oomdoctor", "analyze", "-", "--format", "json"]


def feed_slowly(process: subprocess.Popen[bytes], seconds: float, until: Callable[[], bool] = lambda: False) -> None:
    assert process.stdin is not None
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and not until():
        process.stdin.write(b"nothing of interest here\n" * 60_000)
        time.sleep(0.1)
    process.stdin.close()


def on_terminal(command: list[str] = ANALYZE) -> str:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown: list[bytes] = []
    # Read beside: a terminal that nobody reads holds some KiB, then its writer waits, and who feeds that one too.
    reader = threading.Thread(target=read_all, args=(ours, shown), daemon=True)
    reader.start()
    if command is ANALYZE:
        feed_slowly(process, 60, lambda: b"MiB/s" in b"".join(shown))
    assert process.wait(120) == 0
    reader.join(10)
    os.close(ours)
    return b"".join(shown).decode()


def read_all(terminal: int, shown: list[bytes]) -> None:
    try:
        while piece := os.read(terminal, 1 << 16):
            shown.append(piece)
    except OSError:  # Linux's word for the end of a terminal
        pass


def test_a_terminal_is_told_how_far_it_is_and_nothing_of_it_stays() -> None:
    shown = on_terminal()
    assert "reading -" in shown
    assert "MiB/s" in shown
    assert shown.rindex("\x1b[2K") > shown.rindex("reading -")
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_not_in_a_pipe() -> None:
    process = subprocess.Popen(ANALYZE, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    feed_slowly(process, 2.5)
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.extended
def test_a_large_snapshot_shows_the_bar_too(tmp_path: Path) -> None:
    path = tmp_path / "large.pickle"
    events = [{"action": "alloc", "addr": n * 512, "size": 512, "stream": 0, "frames": []} for n in range(1_500_000)]
    with path.open("wb") as file:
        pickle.dump({"segments": [], "device_traces": [events]}, file)
    shown = on_terminal([*ANALYZE[:-3], str(path), "--format", "json"])
    bar, _, after = shown.rpartition("\x1b[2K")
    assert "large.pickle" in bar
    assert "reading" not in after


def test_elsewhere_one_sentence_says_what_takes_very_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a pipe WHEN a folder is read for more than ten seconds THEN a sentence says where it is, once."""
    clock = iter([100.0, 109.0, 110.5, 111.0, 500.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    remark = progress.Remark()
    remark.reading("runs/a.log", 0, None)
    assert capsys.readouterr().err == ""
    for _ in range(3):
        remark.reading("runs/\x1b[2Jb.log", 5, 10)
    said = capsys.readouterr().err
    assert said.count("oomdoctor: the reading takes long; it has come to runs/") == 1
    assert said.count("\n") == 1
    assert "\x1b" not in said


def test_each_file_of_a_folder_is_told_of(tmp_path: Path) -> None:
    """GIVEN a folder of files that are too small, or no logs, to be told of while they are read THEN each is named."""
    (tmp_path / "a.log").write_text("nothing\n")
    (tmp_path / "b.bin").write_bytes(bytes(range(256)))
    told: list[str] = []
    read_inputs([tmp_path], progress=lambda path, _done, _size: told.append(path))
    assert list(dict.fromkeys(told)) == [f"{tmp_path}/a.log", f"{tmp_path}/b.bin"]
