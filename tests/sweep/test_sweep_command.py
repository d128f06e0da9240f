"""GIVEN `oomdoctor sweep` WHEN it is called THEN it runs, stops, resumes and answers; or says what is wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from oomdoctor.cli.sweep import sweep
from oomdoctor.errors import UsageError

SCHEMA = json.loads((files("oomdoctor.sweep") / "sweep.schema.json").read_text())
ROOT = Path(__file__).parents[2]
MIB = 1 << 20

SERVE = """
import os, resource, sys, time
count, context = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))
with open("ran", "a") as log:
    log.write(f"{count}x{context}\\n")
if os.environ.get("HANG") == f"{count}x{context}":
    time.sleep(60)
held = bytearray(b"x") * (20 << 20), bytearray(b"y") * (count * context << 20)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "serve.py").write_text(SERVE)
    return tmp_path


def command(*options: str, script: tuple[str, ...] = ("serve.py", "{count}", "{context}")) -> list[str]:
    return [sys.executable, "-m", "oomdoctor", "sweep", *options, "--", sys.executable, *script]


def start(folder: Path, words: list[str], **variables: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    pipe = subprocess.PIPE
    return subprocess.Popen(words, cwd=folder, env=environment, stdout=pipe, stderr=pipe)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, told = process.communicate(timeout=60)
    return process.returncode, out.decode(), told.decode()


def as_json(folder: Path, *options: str, **variables: str) -> dict:
    status, out, told = ended(start(folder, command(*options, "--format", "json"), **variables))
    assert status == 0, told
    content = json.loads(out)
    jsonschema.validate(content, SCHEMA)
    return content


def told_of(content: dict) -> dict[str, str]:
    return {"x".join(cell["values"].values()): cell["how"] for cell in content["cells"]}


OVER = ("--vary", "count=4,1,2", "--vary", "context=10,20,40", "--folder", "swept")


def test_it_measures_stops_at_the_first_failure_and_is_not_done_again(folder: Path) -> None:
    content = as_json(folder, *OVER)
    ran = (folder / "ran").read_text().split()
    assert ran[:4] == ["1x10", "2x10", "4x10", "1x20"]
    assert len(ran) == len(set(ran))
    how = told_of(content)
    assert {how[name] for name in ("1x10", "2x10", "4x10", "1x20", "1x40", "2x20")} == {"measured"}
    assert how["4x40"] in ("predicted", "larger-than-failed")
    cells = {"x".join(cell["values"].values()): cell for cell in content["cells"]}
    for name in ("1x10", "4x10", "1x40"):
        count, context = map(int, name.split("x"))
        held = cells[name]["bytes"] - cells["1x10"]["bytes"]
        assert held == pytest.approx((count * context - 10) * MIB, abs=2 * MIB)
    (growth,) = content["growth"]
    both = [term["bytes"] for term in growth["terms"] if term["powers"] == {"count": 1, "context": 1}]
    assert both == [pytest.approx(MIB, rel=0.05)]
    again = as_json(folder, *OVER)
    assert (folder / "ran").read_text().split() == ran
    assert again["cells"] == content["cells"]
    assert again["runs"] == 0


def test_what_runs_out_of_memory_does_not_fit_and_what_fails_otherwise_is_not_said_to(folder: Path) -> None:
    (folder / "serve.py").write_text(f"import sys\nif sys.argv[2] == '3': sys.exit('no such mode')\n{SERVE}")
    status, out, told = ended(start(folder, command("--vary", "count=1", "--vary", "context=1,3,500,600", "--all")))
    assert status == 0, told
    assert (folder / "ran").read_text().split() == ["1x1", "1x500"]
    assert "count=1 context=3: It ended with exit status 1; nothing says that memory was the reason." in " ".join(
        out.split()
    )
    assert "count=1 context=500: MemoryError" in out
    (report,) = folder.glob("reports/sweep-serve-*/runs/count-1_context-500/report.html")
    assert report.stat().st_size > 1000
    assert re.search(r"^  600 +>$", out, re.M)


def test_interrupted_it_ends_the_run_prints_the_map_and_goes_on_from_there(folder: Path) -> None:
    over = ("--vary", "count=1,2", "--vary", "context=10", "--folder", "swept")
    process = start(folder, command(*over, "--format", "json"), HANG="2x10")
    deadline = time.monotonic() + 20
    while "2x10" not in ((folder / "ran").read_text() if (folder / "ran").exists() else ""):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    status, out, told = ended(process)
    assert status == 130, told
    assert told_of(json.loads(out)) == {"1x10": "measured", "2x10": "not-known"}
    assert "it was interrupted" in json.loads(out)["stopped"]
    assert told_of(as_json(folder, *over)) == {"1x10": "measured", "2x10": "measured"}
    assert (folder / "ran").read_text().split() == ["1x10", "2x10", "2x10"]


@pytest.mark.extended
def test_a_server_is_ended_once_it_says_that_it_is_ready(folder: Path) -> None:
    (folder / "server.py").write_text(
        "import sys, time\nheld = bytearray(b'x') * (int(sys.argv[1]) << 20)\nprint('rea' 'dy', flush=True)\n"
        "time.sleep(60)\n"
    )
    words = command(
        "--vary", "n=30", "--until", "ready", "--format", "json", "--env", "N={n}", script=("server.py", "{n}")
    )
    status, out, told = ended(start(folder, words))
    assert status == 0, told
    (cell,) = json.loads(out)["cells"]
    assert cell["how"] == "measured"
    assert 30 * MIB < cell["bytes"] < 60 * MIB


@pytest.mark.extended
def test_what_does_not_end_in_time_is_ended_and_neither_fits_nor_not(folder: Path) -> None:
    words = command("--vary", "count=1,2", "--vary", "context=10", "--timeout", "2s", "--format", "json")
    status, out, _ = ended(start(folder, words, HANG="2x10"))
    assert status == 0
    assert told_of(json.loads(out)) == {"1x10": "measured", "2x10": "timed-out"}


@pytest.mark.extended
def test_what_outlives_a_run_is_ended_before_the_next(folder: Path) -> None:
    (folder / "serve.py").write_text(
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'], start_new_session=True)\n"
        "open('child', 'w').write(str(child.pid))\n"
    )
    status, _, told = ended(start(folder, command("--vary", "n=1", script=("serve.py", "{n}"))))
    assert status == 0, told
    assert "outlived the command, and would count to the next run: 1 process\n" in told
    assert not Path(f"/proc/{(folder / 'child').read_text()}").exists()


def test_a_command_that_cannot_be_started_ends_the_sweep(folder: Path) -> None:
    words = [sys.executable, "-m", "oomdoctor", "sweep", "--vary", "n=1,2", "--", "no-such-program", "{n}"]
    status, out, _ = ended(start(folder, words))
    assert status == 1
    assert "no-such-program: command not found" in out


def test_a_run_whose_evidence_could_not_be_written_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the samples would be a lower peak."""
    from oomdoctor.sweep import measure

    torn = measure.Ended(Path("bundle"), status=0, unwritten=("supervisor.records: No space left on device",))
    monkeypatch.setattr(measure, "run_watched", lambda *_: torn)
    with pytest.raises(measure.CannotRun, match="No space left on device"):
        measure.measure(measure.Recipe(("serve",)), {}, Path("folder"), print)


@pytest.mark.extended
def test_only_so_many_runs_as_wished_and_none_to_show_what_is_there(folder: Path) -> None:
    content = as_json(folder, *OVER, "--runs", "1")
    assert (content["runs"], content["complete"]) == (1, False)
    shown = as_json(folder, *OVER, "--runs", "0")
    assert shown["cells"] == content["cells"]
    assert (folder / "ran").read_text().split() == ["1x10"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--vary", "n=1"], "which command"),
        (["--", "true", "{n}"], "which command"),
        (["--vary", "n=1", "--", "true"], "it would change nothing"),
        (["--vary", "n=1", "--", "true", "{n}", "{m}"], "is not varied"),
        (["--vary", "n=1", "--env", "N", "--", "true", "{n}"], "is not NAME=VALUE"),
        (["--vary", "n=1", "--until", "", "--", "true", "{n}"], "--until needs a text"),
    ],
)
def test_wrong_words_are_refused_in_a_sentence(words: list[str], says: str) -> None:
    found = CliRunner().invoke(sweep, words, standalone_mode=False)
    assert isinstance(found.exception, UsageError)
    assert says in str(found.exception)


@pytest.mark.parametrize(
    ("output", "says"), [("serve.py", "of the command"), ("nowhere/x.html", "no folder"), (".", "it is a folder")]
)
def test_where_the_map_cannot_go_is_said_before_anything_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, output: str, says: str
) -> None:
    monkeypatch.chdir(folder)
    words = ["--vary", "a=1", "--folder", "s", "--output", output, "--", sys.executable, "serve.py", "{a}"]
    with pytest.raises(UsageError, match=says):
        raise CliRunner().invoke(sweep, words).exception  # type: ignore[misc]
    assert (folder / "serve.py").read_text() == SERVE
    assert not (folder / "s").exists()


def test_runs_of_which_nobody_saw_the_memory_that_counts_are_no_measurement(folder: Path) -> None:
    words = [sys.executable, "-m", "oomdoctor", "sweep", "--on", "device", "--vary", "a=0,1", "--", "sleep", "{a}"]
    status, out, _ = ended(start(folder, words))
    assert (status, "No setting was measured" in out) == (1, True)
