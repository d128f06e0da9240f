"""GIVEN a script that keeps every batch WHEN it runs under `oomdoctor run` THEN the report says who held it, and where.

The whole way with real processes: probe, samplers, bundle, readers, facts, rules, report.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oomdoctor.readers.bundle import read_run

SCRIPT = Path(__file__).parent.parent / "examples" / "keep_every_batch.py"
OOMDOCTOR = [sys.executable, "-m", "oomdoctor"]


def oomdoctor(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*OOMDOCTOR, *map(str, words)], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("first-light") / "incident"
    return folder, oomdoctor("run", "--output", folder, "--", sys.executable, SCRIPT)


def report(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def test_it_ends_as_the_script_does(crashed: Any) -> None:
    _, done = crashed
    assert done.returncode == 1
    assert "MemoryError" in done.stderr
    assert "step 0: 1 batches seen" in done.stdout
    assert "report.html" in done.stderr


def test_the_report_names_the_list_and_the_line_that_held_it(crashed: Any) -> None:
    folder, _ = crashed
    keeps = next(n for n, line in enumerate(SCRIPT.read_text().splitlines(), 1) if "seen.append(" in line)
    found = report(folder)
    assert found["verdict"] == "out-of-memory"
    assert re.search(r"grew steadily by .* until the process's own limit of .* stopped it", found["summary"])
    first = found["diagnoses"][0]
    assert (first["cause"], first["confidence"]) == ("host-leak", "confirmed")
    assert "list local 'seen' in train()" in first["owner"]
    assert f"{SCRIPT.name}:{keeps}" in first["owner"]
    assert "the process's own limit of" in first["explain"]


def test_what_the_probe_wrote_is_read_whole(crashed: Any) -> None:
    folder, _ = crashed
    # CPython may print a SystemError of its own before it (a bytearray that could not be repeated): nothing ends by it.
    error = read_run(folder).run.exceptions[-1]
    assert [frame.function for frame in error.frames] == ["<module>", "train", "host_batch"]
    assert error.large_objects[0].adds
    assert error.large_objects[0].deep_bytes > 400 << 20


def test_the_limit_adds_up(crashed: Any) -> None:
    folder, _ = crashed
    budgets = {budget["where"]: budget for budget in report(folder)["budget"]}
    assert {"process limit", "host"} <= set(budgets)
    for budget in budgets.values():
        assert sum(part["bytes"] for part in budget["parts"]) + budget["unattributed_bytes"] == budget["total_bytes"]


@pytest.mark.parametrize(
    ("form", "name"), [("html", "report.html"), ("json", "report.json"), ("markdown", "report.md")]
)
def test_the_bundle_gives_the_same_report_again(crashed: Any, form: str, name: str) -> None:
    folder, _ = crashed
    again = oomdoctor("analyze", folder, "--format", form)
    assert again.returncode == 0
    made = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")
    first = made.sub("", (folder / name).read_text(encoding="utf-8")).strip()
    assert made.sub("", again.stdout).strip() == first


def test_a_clean_end_leaves_the_evidence_only(tmp_path: Path) -> None:
    done = oomdoctor("run", "--output", tmp_path / "fine", "--", sys.executable, "-c", "print('fine')")
    assert (done.returncode, done.stdout) == (0, "fine\n")
    assert (tmp_path / "fine" / "manifest.json").is_file()
    assert not (tmp_path / "fine" / "report.html").exists()


def test_a_report_is_made_of_a_clean_end_where_it_is_asked_for(tmp_path: Path) -> None:
    words = ("run", "--report", "always", "--output", tmp_path / "fine", "--", sys.executable, "-c", "pass")
    assert oomdoctor(*words).returncode == 0
    assert report(tmp_path / "fine")["verdict"] == "no-failure"
